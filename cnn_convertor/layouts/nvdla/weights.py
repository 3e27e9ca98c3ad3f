"""NVDLA's weights: kernels in groups, for direct convolution, images, Winograd and deconvolution, and compressed.

A group is 32 kernels in int8, else 16; the last one is smaller, as is the last block of 64 channels. Weights are
(K, C, R, S): kernels, channels, rows, columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cnn_convertor.layouts.layout import Layout, Padding, refuse
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.packing import Array, Buffer, Bytes, pack
from cnn_convertor.layouts.text import parse
from cnn_convertor.layouts.winograd import transformed

START_ALIGN, SIZE_ALIGN = 256, 128  # bytes
CHANNELS = 64  # in a block, whatever the precision


def _layout(kind: str, terms: str, precision: Precision) -> Layout:
    text = f"kcrs: {terms} | {precision.value} base={START_ALIGN} total={SIZE_ALIGN}"
    return replace(parse(text), name=f"nvdla_{kind}_{precision.value}")


def direct(precision: Precision) -> Layout:
    n = precision.kernels
    return _layout("weight", f"k/{n}! c/{CHANNELS}! r s k%{n} c%{CHANNELS}", precision)


def image(precision: Precision, post_extension: int = 1) -> Layout:
    """For image input: columns become channels (pre-extension); then 2 or 4 rows are combined, the last ones maybe fewer."""
    n = precision.kernels
    if post_extension == 1:
        return _layout("weight_image", f"k/{n}! (sc)/{CHANNELS}! r k%{n} (sc)%{CHANNELS}", precision)
    if post_extension not in (2, 4):
        refuse("DV833", f"a post-extension of {post_extension}: it is 1, 2 or 4")
    kind = f"weight_image_post{post_extension}"
    return _layout(kind, f"k/{n}! r/{post_extension}! k%{n} r%{post_extension} (sc)", precision)


def winograd(precision: Precision) -> Layout:
    """For kernels that `transform` made: cubes of 4 x 4 x 4 elements."""
    n = precision.kernels
    return _layout("weight_winograd", f"k/{n}! c/4 k%{n} r s c%4", precision)


def deconvolution(precision: Precision) -> Layout:
    """For one set of `split_sets`: as direct, but the taps come in reverse."""
    n = precision.kernels
    return _layout("weight_deconvolution", f"k/{n}! c/{CHANNELS}! -r -s k%{n} c%{CHANNELS}", precision)


def pack_image(
    weights: Array, precision: Precision, *, post_extension: int = 1, channels: int = 0, out: Buffer | None = None
) -> Bytes:
    """Weights for image input. channels: of the image, if it has more than the weights: these are zero there."""
    _, given, _, columns = _four_axes(weights)
    if channels < 0 or 0 < channels < given:
        refuse("DV833", f"an image of {channels} channels for weights of {given}")
    extended = columns * max(channels, given)
    if post_extension > 1 and post_extension * extended > CHANNELS:
        message = f"{post_extension} rows of {extended} channels are more than {CHANNELS}"
        refuse("DV833", message, "a smaller post-extension")
    padding = {"c": Padding(0, max(0, channels - given))}
    return pack(weights, image(precision, post_extension), out, padding=padding)


def post_extension(channels: int, rows: int, columns: int, *, stride_x: int) -> int:
    """How many rows of an image's weights are combined where the hardware gains most: 4, 2, or 1 where it cannot."""
    extended = channels * columns
    for factor in (4, 2):
        reach = channels * stride_x * (factor - 1) + extended
        if factor <= rows and stride_x <= columns and max(factor * extended, reach) <= CHANNELS:
            return factor
    return 1


def transform(weights: Array, precision: Precision, *, stride: int = 1) -> Array:
    """Kernels (K, C, R, S) for Winograd: strides become channels, which are filled up to 32 bytes, then G w G^T: (K, C', 4, 4).

    Integers are cut off towards zero, as the vendor does; weights that are multiples of 4 lose nothing. Refuses results that
    the precision does not hold, where the vendor's are undefined.
    """
    result = in_reals(weights, precision, stride=stride)
    if precision is Precision.FP16:
        if np.abs(result).max(initial=0) >= 65520:  # what rounds to infinity
            refuse("DV833", f"transformed weights of {np.abs(result).max():g} do not fit float16", "scale them")
        return result.astype(np.float16)
    limits = np.iinfo(precision.element)
    cut = np.trunc(result)
    if cut.size and (cut.min() < limits.min or cut.max() > limits.max):
        refuse(
            "DV833",
            f"transformed weights from {cut.min():g} to {cut.max():g} do not fit {precision.value}",
            "scale them",
        )
    return np.asarray(cut, precision.element)


def is_for_winograd(rows: int, columns: int, stride: int) -> bool:
    """Whether kernels of that size and stride can be transformed."""
    return stride in (1, 2, 3) and {-(-rows // stride), -(-columns // stride)} == {3}


def winograd_channels(channels: int, precision: Precision, *, stride: int) -> int:
    """How many channels transformed kernels have."""
    return -(-channels // precision.atom) * precision.atom * stride * stride


def in_reals(weights: Array, precision: Precision, *, stride: int = 1) -> npt.NDArray[np.float32]:
    """What `transform` makes, before it becomes numbers of the precision, which decides on channels alone."""
    kernels, channels, rows, columns = _four_axes(weights)
    if not np.isfinite(weights).all():
        refuse("DV833", "weights that are infinite or no numbers")
    if not is_for_winograd(rows, columns, stride):
        refuse(
            "DV833",
            f"Winograd takes 3x3 kernels of stride 1, 5 or 6 of 2, 7 to 9 of 3; not {rows}x{columns} of {stride}",
        )
    extended = winograd_channels(channels, precision, stride=stride)
    filled = extended // stride**2
    padded = np.zeros((kernels, filled, 3 * stride, 3 * stride), np.float32)
    padded[:, :channels, :rows, :columns] = weights
    phases = padded.reshape(kernels, filled, 3, stride, 3, stride).transpose(0, 3, 5, 1, 2, 4)
    return transformed(transformed(phases.reshape(kernels, extended, 3, 3), 2), 3)


def split_sets(weights: Array, *, stride_y: int, stride_x: int) -> Array:
    """Deconvolution weights (K, C, R, S) by the phase of their taps: (stride_y * stride_x, K, C, R', S'), rows' phase first."""
    kernels, channels, rows, columns = _four_axes(weights)
    if min(stride_y, stride_x) < 1:
        refuse("DV833", f"strides of {stride_y} and {stride_x}")
    tall, wide = -(-rows // stride_y), -(-columns // stride_x)
    padded = np.zeros((kernels, channels, tall * stride_y, wide * stride_x), weights.dtype)
    padded[:, :, :rows, :columns] = weights
    sets = padded.reshape(kernels, channels, tall, stride_y, wide, stride_x).transpose(3, 5, 0, 1, 2, 4)
    return sets.reshape(stride_y * stride_x, kernels, channels, tall, wide)


def join_sets(sets: Array, *, stride_y: int, stride_x: int, rows: int, columns: int) -> Array:
    """What `split_sets` was made of."""
    fits = sets.ndim == 5 and min(stride_y, stride_x) > 0 and len(sets) == stride_y * stride_x
    if not fits or sets.shape[3:] != (-(-rows // stride_y), -(-columns // stride_x)):
        given = "x".join(map(str, sets.shape))
        refuse(
            "DV833", f"sets of {given} are not those of {rows}x{columns} kernels with strides {stride_y} and {stride_x}"
        )
    _, kernels, channels, tall, wide = sets.shape
    apart = sets.reshape(stride_y, stride_x, kernels, channels, tall, wide).transpose(2, 3, 4, 0, 5, 1)
    return apart.reshape(kernels, channels, tall * stride_y, wide * stride_x)[:, :, :rows, :columns]


# --- sparse compression --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Compressed:
    """Three surfaces of bytes, which start on 256 bytes and are filled up with zeros to 128.

    weights: the elements that are not zero, in order
    mask: WMB, a bit for each element, 1 for those that are not zero, the first in the lowest bit
    group_sizes: WGS, for each group of kernels the bytes of its weights, 32 bits
    """

    weights: Bytes
    mask: Bytes
    group_sizes: Bytes


def compress(weights: Array, layout: Layout) -> Compressed:
    """Compress any of the layouts above. Zero means all bits zero: FP16's -0.0 stays."""
    names = [precision.value for precision in Precision]
    if (
        layout.axes != "kcrs"
        or not layout.terms[0].ragged
        or layout.element is None
        or layout.element.name not in names
    ):
        refuse("DV834", f"{layout.name or layout} is no layout of NVDLA's weights")
    payload = pack(weights, replace(layout, total_align=1))
    groups = compress_groups(payload, weights.shape[0], Precision(layout.element.name))
    return Compressed(_fill_up(groups.weights), _fill_up(groups.mask), _fill_up(groups.group_sizes))


def compress_groups(payload: Bytes, kernels: int, precision: Precision) -> Compressed:
    """Compress the bytes of some groups of kernels, which nothing fills up, to surfaces that nothing fills up either.

    The surfaces of the first groups, and those of the groups behind them, together are those of all.
    """
    bits = payload.view(f"u{precision.element.itemsize}")
    kept = bits != 0
    starts = np.arange(0, kernels, precision.kernels) * (bits.size // kernels)
    sizes = np.add.reduceat(kept, starts, dtype=np.uint32) * np.uint32(bits.itemsize)
    mask = np.packbits(kept, bitorder="little")
    return Compressed(bits[kept].view(np.uint8), mask, sizes.astype("<u4").view(np.uint8))


MASK = replace(parse(f"n: n | uint8 base={START_ALIGN} total={SIZE_ALIGN}"), name="nvdla_mask")  # 8 weights a byte
GROUP_SIZES = replace(parse(f"g: g | uint32 base={START_ALIGN} total={SIZE_ALIGN}"), name="nvdla_group_sizes")


def decompress(given: Compressed, elements: int, precision: Precision) -> Bytes:
    """The payload that was compressed, without what filled it up; `unpack` makes an array of it."""
    if not 0 <= elements <= given.mask.size * 8:
        refuse("DV834", f"{elements} elements, but a mask of {given.mask.size * 8} bits")
    kept = np.unpackbits(given.mask, count=elements, bitorder="little").astype(np.bool_)
    values = given.weights.view(f"u{precision.element.itemsize}")
    if int(kept.sum()) > values.size or int(given.group_sizes.view("<u4").sum()) != kept.sum() * values.itemsize:
        refuse("DV834", "the mask, the sizes of the groups and the weights contradict each other")
    result = np.zeros(elements, values.dtype)
    result[kept] = values[: int(kept.sum())]
    return result.view(np.uint8)


def _four_axes(weights: Array) -> tuple[int, int, int, int]:
    """The shape of weights (K, C, R, S)."""
    if weights.ndim != 4:
        refuse("DV833", f"weights of {'x'.join(map(str, weights.shape))}: they have the axes K, C, R, S")
    kernels, channels, rows, columns = weights.shape
    return kernels, channels, rows, columns


def _fill_up(surface: npt.NDArray[Any]) -> Bytes:
    result: Bytes = np.zeros(-(-surface.size // SIZE_ALIGN) * SIZE_ALIGN, np.uint8)
    result[: surface.size] = surface
    return result
