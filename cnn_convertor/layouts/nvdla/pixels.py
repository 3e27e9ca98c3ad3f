"""NVDLA's pixel formats for image input.

A name lists the fields of a pixel from the highest bits to the lowest: T_A8B8G8R8 is R, G, B, A in memory. Formats of two
planes have Y in the first and pairs of U and V in the second. Arrays are (H, W, C) with the channels R, G, B, A or
Y, U, V, A or Y, U, V; X is the fourth channel.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cnn_convertor.layouts.layout import AxisPadding, Layout, Term, refuse
from cnn_convertor.layouts.nvdla.precision import ATOM, Precision
from cnn_convertor.layouts.packing import Buffer, Bytes, pack, unpack

Values: TypeAlias = npt.NDArray[Any]

# In the order of the hardware's numbers.
_NAMES = (
    "T_R8 T_R10 T_R12 T_R16 T_R16_I T_R16_F "
    "T_A16B16G16R16 T_X16B16G16R16 T_A16B16G16R16_F T_A16Y16U16V16 T_V16U16Y16A16 T_A16Y16U16V16_F "
    "T_A8B8G8R8 T_A8R8G8B8 T_B8G8R8A8 T_R8G8B8A8 T_X8B8G8R8 T_X8R8G8B8 T_B8G8R8X8 T_R8G8B8X8 "
    "T_A2B10G10R10 T_A2R10G10B10 T_B10G10R10A2 T_R10G10B10A2 T_A2Y10U10V10 T_V10U10Y10A2 "
    "T_A8Y8U8V8 T_V8U8Y8A8 "
    "T_Y8___U8V8_N444 T_Y8___V8U8_N444 T_Y10___U10V10_N444 T_Y10___V10U10_N444 "
    "T_Y12___U12V12_N444 T_Y12___V12U12_N444 T_Y16___U16V16_N444 T_Y16___V16U16_N444"
)
NAMES = _NAMES.split()


@dataclass(frozen=True, slots=True)
class Plane:
    """The fields of a pixel, (channel, bits), lowest first. word: bits of the integers that contain them."""

    fields: tuple[tuple[int, int], ...]
    word: int

    @property
    def is_joined(self) -> bool:
        """Whether all fields share one word."""
        return len(self.fields) > 1 and any(bits < self.word for _, bits in self.fields) and self.word == 32

    @property
    def words(self) -> int:
        return 1 if self.is_joined else len(self.fields)

    @property
    def pixel_bytes(self) -> int:
        return self.word // 8 * self.words

    @property
    def bit_fields(self) -> Iterator[tuple[int, int, int, int]]:
        """The channel, word, shift and mask of each field."""
        shift = 0
        for number, (channel, bits) in enumerate(self.fields):
            if self.is_joined:
                yield channel, 0, shift, (1 << bits) - 1
                shift += bits
            else:
                yield channel, number, 0, (1 << self.word) - 1

    @property
    def layout(self) -> Layout:
        """(H, W, words per pixel); lines start at multiples of 32 bytes."""
        element = np.dtype(f"u{self.word // 8}")
        return Layout("hwc", (Term("h", pitch_align=ATOM), Term("w"), Term("c")), element, base_align=ATOM)


@dataclass(frozen=True, slots=True)
class PixelFormat:
    name: str
    planes: tuple[Plane, ...]

    @property
    def number(self) -> int:
        return NAMES.index(self.name)

    @property
    def channels(self) -> int:
        return sum(len(plane.fields) for plane in self.planes)

    @property
    def precision(self) -> Precision:
        if self.name.endswith("_F"):
            return Precision.FP16
        return Precision.INT8 if all(bits == 8 for p in self.planes for _, bits in p.fields) else Precision.INT16

    @property
    def max_x_offset(self) -> int:
        return ATOM // self.planes[0].pixel_bytes - 1

    def __str__(self) -> str:
        """The fields and their bits, lowest first, plane by plane."""
        return ", then ".join(
            " ".join(letter + bits for letter, bits in reversed(fields)) for fields in _parts(self.name)
        )

    def starts(self, x_offset: int) -> tuple[int, ...]:
        """The position of the first pixel in the lines of each plane, in pixels."""
        if not 0 <= x_offset <= self.max_x_offset:
            refuse("DV835", f"{self.name}: an x offset of {x_offset}; it is 0 to {self.max_x_offset}")
        return (x_offset, *(x_offset * p.pixel_bytes % ATOM // p.pixel_bytes for p in self.planes[1:]))

    def strides(self, width: int, x_offset: int = 0) -> tuple[int, ...]:
        """The shortest line stride of each plane, in bytes."""
        return tuple(
            -(-(start + width) * plane.pixel_bytes // ATOM) * ATOM
            for plane, start in zip(self.planes, self.starts(x_offset), strict=True)
        )


def _parts(name: str) -> list[list[tuple[str, str]]]:
    """(letter, bits) of each field, in the order of the name, plane by plane."""
    planes = re.sub("(_N444|_I|_F)$", "", name.removeprefix("T_")).split("___")
    return [re.findall("([A-Z])([0-9]+)", plane) for plane in planes]


def pixel_format(name: str) -> PixelFormat:
    if name not in NAMES:
        refuse("DV835", f'NVDLA has no pixel format "{name}"')
    order = "YUVAX" if "Y" in name else "RGBAX"
    planes = []
    for plane in _parts(name):
        fields = [(min(order.index(letter), 3), int(bits)) for letter, bits in plane]
        lengths = {bits for _, bits in fields}
        word = 16
        if lengths == {8}:
            word = 8
        elif lengths == {2, 10}:
            word = 32
        planes.append(Plane(tuple(reversed(fields)), word))
    return PixelFormat(name, tuple(planes))


FORMATS = {name: pixel_format(name) for name in NAMES}

# Signed formats with channels in order and one word per channel: precision -> (one channel, four channels).
SIGNED = {
    Precision.INT8: ("T_R8", "T_A8B8G8R8"),
    Precision.INT16: ("T_R16_I", "T_A16B16G16R16"),
    Precision.FP16: ("T_R16_F", "T_A16B16G16R16_F"),
}


def signed_pixels(precision: Precision, channels: int) -> Layout:
    """An image (C, H, W) of up to 4 channels as pixels of one channel or four; missing channels are zero."""
    if not 1 <= channels <= 4:
        refuse("DV835", f"no pixels have {channels} channels", "1 to 4")
    name = SIGNED[precision][channels > 1]
    terms = (Term("h", pitch_align=ATOM), Term("w"), Term("c", extent_align=FORMATS[name].channels))
    return Layout("chw", terms, precision.element, base_align=ATOM, name=name)


def pack_pixels(
    image: Values,
    format_: PixelFormat,
    *,
    x_offset: int = 0,
    strides: Sequence[int] | None = None,
    out: Sequence[Buffer] = (),
) -> tuple[Bytes, ...]:
    """The bytes of each plane of an image (H, W, C), 32-byte aligned. strides: bytes per line of each plane.

    out: a buffer per plane; only the image's pixels are written
    Values are raw fields: unsigned, or signed in two's complement; FP16 for _F.
    """
    if image.ndim != 3 or image.shape[2] != format_.channels:
        shape = "x".join(map(str, image.shape))
        refuse("DV835", f"{format_.name} has {format_.channels} channels, but the image is {shape}")
    height, width = image.shape[:2]
    _check_planes(format_, strides, out or None)
    raw = _raw(image, format_)
    leasts = format_.strides(width, x_offset)
    starts = format_.starts(x_offset)
    result = []
    memories = out or [None] * len(format_.planes)
    for plane, start, shortest, stride, memory in zip(
        format_.planes, starts, leasts, strides or leasts, memories, strict=True
    ):
        if stride < shortest or stride % ATOM:
            refuse("DV835", f"{format_.name}: lines of {stride} bytes; need {shortest} or more, a multiple of {ATOM}")
        words = np.zeros((height, width, plane.words), plane.layout.element)
        for channel, word, shift, _ in plane.bit_fields:
            words[..., word] |= raw[..., channel].astype(words.dtype) << words.dtype.type(shift)
        lines = Layout("hwc", (Term("h", pitch=stride), *plane.layout.terms[1:]), plane.layout.element, ATOM)
        result.append(pack(words, lines, memory, padding={"w": AxisPadding(start)}, fill=False))
        assert result[-1].size == height * stride
    return tuple(result)


def unpack_pixels(
    planes: Sequence[Any],
    format_: PixelFormat,
    height: int,
    width: int,
    *,
    x_offset: int = 0,
    strides: Sequence[int] | None = None,
) -> Values:
    """The image (H, W, C) of raw, unsigned fields; FP16 for _F."""
    _check_planes(format_, strides, planes)
    if min(height, width) < 1:
        refuse("DV835", f"{format_.name}: an image of {height} x {width} pixels")
    image = np.zeros((height, width, format_.channels), np.uint16)
    strides = format_.strides(width, x_offset) if strides is None else strides
    for plane, start, stride, data in zip(format_.planes, format_.starts(x_offset), strides, planes, strict=True):
        lines = Layout("hwc", (Term("h", pitch=stride), *plane.layout.terms[1:]), plane.layout.element, ATOM)
        words = unpack(data, lines, (height, width, plane.words), padding={"w": AxisPadding(start)})
        for channel, word, shift, mask in plane.bit_fields:
            image[..., channel] = words[..., word] >> words.dtype.type(shift) & words.dtype.type(mask)
    return image.view(np.float16) if format_.precision is Precision.FP16 else image


def _check_planes(format_: PixelFormat, *lists: Sequence[Any] | None) -> None:
    for items in lists:
        if items is not None and len(items) != len(format_.planes):
            refuse("DV835", f"{format_.name} has {len(format_.planes)} planes, not {len(items)}")


def _raw(image: Values, format_: PixelFormat) -> npt.NDArray[np.uint16]:
    """Fields as 16-bit words. Raises UsageError for values that do not fit."""
    if format_.precision is Precision.FP16:
        if image.dtype != np.float16:
            refuse("DV835", f"{format_.name} is for float16, not {image.dtype}")
        return image.view(np.uint16)
    if image.dtype.kind not in "iu":
        refuse("DV835", f"{format_.name} is for integers, not {image.dtype}")
    masks = np.zeros(format_.channels, np.int64)
    for plane in format_.planes:
        for channel, _, _, mask in plane.bit_fields:
            masks[channel] = mask
    if image.size and ((image > masks) | (image < -(masks // 2) - 1)).any():
        refuse("DV835", f"{format_.name}: values from {image.min()} to {image.max()} do not fit their fields")
    return (image.astype(np.int64) & masks).astype(np.uint16)
