"""Tensors of Horizon's BPU: strides that the model reports, or that a chip's rule gives, and NV12 images.

The only contract that holds for every chip is validShape, stride and alignedByteSize as the model reports them. The rules
are those which were published; where none is, give the strides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from cnn_convertor.layouts.layout import DType, Layout, Term, element_type, refuse, whole_numbers
from cnn_convertor.layouts.packing import Array, Buffer, Bytes, bytes_of, pack, unpack

TYPES = {
    "S8": "int8",
    "U8": "uint8",
    "F16": "float16",
    "S16": "int16",
    "U16": "uint16",
    "F32": "float32",
    "S32": "int32",
    "U32": "uint32",
    "F64": "float64",
    "S64": "int64",
    "U64": "uint64",
    "BOOL8": "bool",
}  # how 4-bit values lie is not documented


class TensorLayout(Enum):
    """The label that the model gives; the strides are what counts."""

    NHWC = 0
    NCHW = 2
    NONE = 255


class QuantiType(Enum):
    NONE = 0
    SHIFT = 1
    SCALE = 2


@dataclass(frozen=True, slots=True)
class Quantization:
    """What a tensor's integers stand for: x = (q - zero point) * scale, or x = q / 2 ** shift.

    scale, zero_point, shift: one number, or one for each index along `axis`
    """

    type: QuantiType = QuantiType.NONE
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    shift: tuple[int, ...] = ()
    axis: int | None = None

    def check(self, shape: Sequence[int]) -> None:
        """Refuse what does not fit a tensor of that valid shape."""
        if not all(isinstance(number, int) and 0 <= number <= 255 for number in self.shift):
            refuse("DV820", f"shifts of {self.shift}: they are whole numbers from 0 to 255")
        values = {QuantiType.NONE: (), QuantiType.SCALE: self.scale, QuantiType.SHIFT: self.shift}[self.type]
        expected = 1 if self.axis is None else shape[self.axis] if 0 <= self.axis < len(shape) else None
        if expected is None:
            refuse("DV820", f"quantizeAxis {self.axis} is no axis of a tensor of {len(shape)} axes")
        if self.type is not QuantiType.NONE and len(values) != expected:
            refuse("DV820", f"{len(values)} numbers for {expected} along axis {self.axis}", "count the valid shape")
        if self.type is QuantiType.SCALE and not all(math.isfinite(scale) and scale > 0 for scale in values):
            refuse("DV820", "a scale is not above 0")
        if self.zero_point and len(self.zero_point) != len(self.scale):
            refuse("DV820", f"{len(self.zero_point)} zero points for {len(self.scale)} scales")

    def quantize(self, values: npt.NDArray[np.floating[Any]], element: npt.DTypeLike) -> Array:
        """Real values as integers, rounded to the nearest (even), cut off at the ends of the type."""
        self.check(values.shape)
        dtype, real = element_type(element), values.astype(np.float64)
        if dtype.kind not in "iu":
            refuse("DV820", f"values become integers, not {dtype}")
        if np.isnan(real).any():
            refuse("DV820", "NaN has no integer")
        limits = np.iinfo(dtype)
        match self.type:
            case QuantiType.NONE:
                scaled = np.rint(real)
                if np.any(scaled != real) or np.any((real < limits.min) | (real > limits.max)):
                    refuse("DV820", f"without a scale, values are whole numbers that fit {dtype}", "SCALE or SHIFT")
            case QuantiType.SCALE:
                scaled = real / self._along(self.scale, values.ndim)
                scaled = np.rint(scaled + self._along(self.zero_point or (0,), values.ndim))
            case QuantiType.SHIFT:
                scaled = np.rint(np.ldexp(real, self._along(self.shift, values.ndim).astype(np.int64)))
        # The largest integers of 64 bits have no number in FP64: the next one below has.
        highest = float(limits.max) if int(float(limits.max)) <= limits.max else np.nextafter(float(limits.max), 0)
        return scaled.clip(limits.min, highest).astype(dtype)

    def dequantize(self, values: Array) -> npt.NDArray[np.float64]:
        """Integers as the real values that they stand for."""
        self.check(values.shape)
        real = values.astype(np.float64)
        match self.type:
            case QuantiType.NONE:
                return real
            case QuantiType.SCALE:
                moved = real - self._along(self.zero_point or (0,), values.ndim)
                return np.asarray(moved * self._along(self.scale, values.ndim))
            case QuantiType.SHIFT:
                return np.asarray(np.ldexp(real, -self._along(self.shift, values.ndim).astype(np.int64)))

    def _along(self, numbers: Sequence[float], ndim: int) -> npt.NDArray[np.float64]:
        """Numbers along the quantized axis, to be broadcast."""
        array = np.array(numbers, np.float64)
        if self.axis is None or array.size == 1:
            return array
        return array.reshape([-1 if axis == self.axis else 1 for axis in range(ndim)])


@dataclass(frozen=True, slots=True)
class TensorProperties:
    """A tensor as hbDNNTensorProperties describes it. Shapes in elements, strides and sizes in bytes."""

    valid_shape: tuple[int, ...]
    type: str
    stride: tuple[int, ...]
    aligned_byte_size: int
    aligned_shape: tuple[int, ...] = ()
    tensor_layout: TensorLayout = TensorLayout.NONE
    quantization: Quantization = Quantization()

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            refuse("DV820", f'no element type "{self.type}": {", ".join(TYPES)}')
        numbers = whole_numbers(
            (*self.valid_shape, *self.stride, self.aligned_byte_size), "a tensor's shape and stride"
        )
        if not self.valid_shape or any(n < 1 and n != -1 for n in numbers[: len(self.valid_shape)]):
            refuse("DV820", f"a tensor of the shape {self.valid_shape} holds nothing")
        if len(self.stride) != len(self.valid_shape) or -1 in self.valid_shape or min(self.stride, default=1) < 1:
            refuse(
                "DV820", f"strides {self.stride} for the shape {self.valid_shape}", "fill in what the model leaves open"
            )
        if self.stride and self.stride[-1] != self.element.itemsize:
            refuse("DV820", f"elements of {self.type} are {self.element.itemsize} bytes, not {self.stride[-1]} apart")
        for axis, (outer, inner) in enumerate(zip(self.stride, self.stride[1:], strict=False)):
            if outer < inner * self.valid_shape[axis + 1]:
                refuse(
                    "DV820", f"stride[{axis}] = {outer} is less than the {self.valid_shape[axis + 1]} x {inner} in it"
                )
        if self.aligned_byte_size < self.stride[0] * self.valid_shape[0]:
            refuse(
                "DV820",
                f"alignedByteSize {self.aligned_byte_size} is less than {self.stride[0]} x {self.valid_shape[0]}",
            )
        self.quantization.check(self.valid_shape)

    @property
    def element(self) -> DType:
        return np.dtype(TYPES[self.type])

    @property
    def layout(self) -> Layout:
        """The same as a layout: strides are the distances of its terms."""
        if len(self.valid_shape) > len(_AXES):
            refuse("DV820", f"a tensor of {len(self.valid_shape)} axes")
        axes = _AXES[: len(self.valid_shape)]
        terms = [Term(axis, pitch=stride) for axis, stride in zip(axes, self.stride, strict=True)]
        return Layout(axes, tuple(terms), self.element, total_align=self.aligned_byte_size)

    @property
    def is_padded(self) -> bool:
        """Whether there is anything between the valid elements."""
        return math.prod(self.valid_shape) * self.element.itemsize != self.stride[0] * self.valid_shape[0]

    def pack(self, array: Array, out: Buffer | None = None) -> Bytes:
        """An array of the valid shape with its alignment; what fills it up is zero."""
        self._check_shape(array)
        return pack(array, self.layout, out)

    def unpack(self, data: Buffer, *, copy: bool = True) -> Array:
        """The valid elements, without the alignment. copy=False: a view of the data."""
        return unpack(data, self.layout, self.valid_shape, copy=copy)

    def _check_shape(self, array: Array) -> None:
        if array.shape != self.valid_shape:
            refuse("DV820", f"an array {array.shape} for the valid shape {self.valid_shape}")


_AXES = "abcdefgh"  # labels do not say what an axis is


def plain(
    shape: Sequence[int],
    type_: str,
    *,
    row_align: Callable[[int], int] | int = 1,
    total_align: int = 1,
    tensor_layout: TensorLayout = TensorLayout.NONE,
    quantization: Quantization = Quantization(),
) -> TensorProperties:
    """A tensor whose rows (the last axis) are rounded up: to a multiple of some bytes, or by a rule."""
    size = np.dtype(TYPES[type_]).itemsize if type_ in TYPES else refuse("DV820", f'no element type "{type_}"')
    shape = whole_numbers(shape, "a shape")
    if min(shape, default=0) < 1:
        refuse("DV820", f"a tensor of the shape {shape} holds nothing")
    if total_align < 1 or (isinstance(row_align, int) and row_align < 1):
        refuse("DV820", f"rows aligned to {row_align} bytes, tensors to {total_align}")
    row = shape[-1] * size
    row = -(-row // row_align) * row_align if isinstance(row_align, int) else row_align(row)
    if row % size:
        refuse("DV820", f"rows of {row} bytes do not hold whole elements of {size} bytes", "another alignment")
    strides = [size]
    for number, extent in enumerate(reversed(shape[1:])):
        strides.append(row if number == 0 else strides[-1] * extent)
    stride = tuple(reversed(strides))
    total = (stride[0] if len(shape) > 1 else row) * (shape[0] if len(shape) > 1 else 1)
    aligned = (*shape[:-1], row // size)
    total = -(-total // total_align) * total_align
    return TensorProperties(tuple(shape), type_, stride, total, aligned, tensor_layout, quantization)


def x3_row(size: int) -> int:
    """The X3's row length in bytes: the next of 256 q + (0, 16, 32, 64 or 128)."""
    whole, rest = divmod(size, 256)
    return whole * 256 + next(step for step in (0, 16, 32, 64, 128, 256) if rest <= step)


def x3(
    shape: Sequence[int],
    type_: str,
    tensor_layout: TensorLayout,
    *,
    is_input: bool = False,
    quantization: Quantization = Quantization(),
) -> TensorProperties:
    """A tensor of the X3: rows as `x3_row` says; an NHWC input of up to 4 channels gets an even height and a width of 32 n."""
    if len(shape) != 4:
        refuse("DV820", f"the X3's rule is for 4 axes, not {len(shape)}")
    if tensor_layout is not TensorLayout.NHWC or not is_input or shape[3] > 4:
        return plain(shape, type_, row_align=x3_row, tensor_layout=tensor_layout, quantization=quantization)
    batch, height, width, channels = shape
    aligned = (batch, -(-height // 2) * 2, -(-width // 32) * 32, channels)
    wide = plain(aligned, type_)
    return TensorProperties(
        tuple(shape), type_, wide.stride, wide.aligned_byte_size, aligned, tensor_layout, quantization
    )


# --- images --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NV12:
    """An image of luminance Y (height, width), and U and V of every 2x2 pixels: rows U0 V0 U1 V1 ... in a plane behind it.

    align: rows are a multiple of this many bytes: 16 on X3, X5 and J5, 32 on J6 and S100
    """

    height: int
    width: int
    align: int = 16

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1 or self.height % 2 or self.width % 2:
            refuse("DV821", f"an NV12 image of {self.height} x {self.width} pixels", "height and width must be even")
        if self.align < 1 or self.align % 2:
            refuse("DV821", f"NV12 rows cannot be aligned to {self.align} bytes")

    @property
    def stride(self) -> int:
        """Bytes from row to row, in both planes."""
        return -(-self.width // self.align) * self.align

    @property
    def planes(self) -> tuple[TensorProperties, TensorProperties]:
        """Y (1, H, W, 1) and UV (1, H / 2, W / 2, 2), as where they are two tensors."""
        luma, chroma = self.stride * self.height, self.stride * self.height // 2
        half = (1, self.height // 2, self.width // 2, 2)
        return (
            TensorProperties((1, self.height, self.width, 1), "U8", (luma, self.stride, 1, 1), luma),
            TensorProperties(half, "U8", (chroma, self.stride, 2, 1), chroma),
        )

    @property
    def nbytes(self) -> int:
        return self.stride * self.height * 3 // 2

    def pack(self, luma: Bytes, chroma: Bytes) -> Bytes:
        """One buffer from Y (H, W) and UV (H / 2, W / 2, 2); the first stride * H bytes are the plane of Y."""
        half = (self.height // 2, self.width // 2, 2)
        if luma.shape != (self.height, self.width) or chroma.shape != half:
            given = f"Y {luma.shape} and UV {chroma.shape}"
            refuse("DV821", f"{given} for an image of {self.height} x {self.width} pixels", f"UV is {half}")
        image = np.empty(self.nbytes, np.uint8)
        y, uv = self.planes
        y.pack(luma.reshape(y.valid_shape), image[: y.aligned_byte_size])
        uv.pack(chroma.reshape(uv.valid_shape), image[y.aligned_byte_size :])
        return image

    def unpack(self, data: Buffer) -> tuple[Bytes, Bytes]:
        """Y (H, W) and UV (H / 2, W / 2, 2)."""
        image = bytes_of(data, self.nbytes)
        y, uv = self.planes
        return (
            y.unpack(image).reshape(self.height, self.width),
            uv.unpack(image[y.aligned_byte_size :]).reshape(uv.valid_shape[1:]),
        )
