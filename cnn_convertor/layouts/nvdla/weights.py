"""NVDLA's weights, for direct convolution, images, Winograd and deconvolution, and sparse compression.

Kernels come in groups; the last group is smaller, as is the last block of channels. Weights are (K, C, R, S): kernels,
channels, rows, columns. Winograd and compression are of the full configuration alone.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cnn_convertor.layouts.layout import Layout, refuse
from cnn_convertor.layouts.notation import parse
from cnn_convertor.layouts.nvdla.memory_forms import FULL, MemoryForm
from cnn_convertor.layouts.nvdla.precision import ATOM, Precision
from cnn_convertor.layouts.packing import Array, Bytes, pack
from cnn_convertor.layouts.winograd import transformed

START_ALIGN = 256  # bytes, in every configuration
SIZE_ALIGN = FULL.entry


def _layout(kind: str, terms: str, precision: Precision, form: MemoryForm = FULL) -> Layout:
    text = f"kcrs: {terms} | {precision.value} base={START_ALIGN} total={form.entry}"
    return replace(parse(text), name=form.named(f"{kind}_{precision.value}"))


def direct(precision: Precision, form: MemoryForm = FULL) -> Layout:
    n = form.group(precision)
    return _layout("weight", f"k/{n}! c/{form.channels}! r s k%{n} c%{form.channels}", precision, form)


def image(precision: Precision, post_extension: int = 1, form: MemoryForm = FULL) -> Layout:
    """For image input: columns become channels (pre-extension), then 2 or 4 rows are combined (post-extension)."""
    n = form.group(precision)
    if post_extension == 1:
        return _layout("weight_image", f"k/{n}! (sc)/{form.channels}! r k%{n} (sc)%{form.channels}", precision, form)
    if post_extension not in (2, 4):
        refuse("DV833", f"post-extension must be 1, 2 or 4, not {post_extension}")
    if post_extension > form.rows:
        refuse("DV833", f"nvdla-{form.name} has no post-extension", "post-extension 1")
    kind = f"weight_image_post{post_extension}"
    return _layout(kind, f"k/{n}! r/{post_extension}! k%{n} r%{post_extension} (sc)", precision, form)


def winograd(precision: Precision) -> Layout:
    """For kernels from `transform`: cubes of 4 x 4 x 4 elements."""
    n = FULL.group(precision)
    return _layout("weight_winograd", f"k/{n}! c/4 k%{n} r s c%4", precision)


def deconvolution(precision: Precision, form: MemoryForm = FULL) -> Layout:
    """For one set of `split_sets`: as direct, with reversed taps."""
    n = form.group(precision)
    terms = f"k/{n}! c/{form.channels}! -r -s k%{n} c%{form.channels}"
    return _layout("weight_deconvolution", terms, precision, form)


def post_extension(channels: int, rows: int, columns: int, *, stride_x: int, form: MemoryForm = FULL) -> int:
    """The best post-extension the hardware supports: 4, 2 or 1 rows."""
    extended = channels * columns
    for factor in (4, 2):
        reach = channels * stride_x * (factor - 1) + extended
        fits = max(factor * extended, reach) <= form.channels
        if fits and factor <= min(rows, form.rows) and stride_x <= columns:
            return factor
    return 1


def transform(weights: Array, precision: Precision, *, stride: int = 1) -> Array:
    """Winograd kernels (K, C', 4, 4) of kernels (K, C, R, S): strides become channels, padded to 32 bytes, then G w G^T.

    Integers truncate towards zero, as the vendor's do; multiples of 4 are exact. Raises UsageError for results beyond the
    precision, where the vendor's are undefined.
    """
    result = in_reals(weights, precision, stride=stride)
    if precision is Precision.FP16:
        if np.abs(result).max(initial=0) >= 65520:  # rounds to infinity
            refuse("DV833", f"transformed weights of {np.abs(result).max():g} do not fit float16", "scale them")
        return result.astype(np.float16)
    limits = np.iinfo(precision.element)
    cut = np.trunc(result)
    smallest, largest = cut.min(initial=0), cut.max(initial=0)
    if smallest < limits.min or largest > limits.max:
        refuse(
            "DV833", f"transformed weights from {smallest:g} to {largest:g} do not fit {precision.value}", "scale them"
        )
    return np.asarray(cut, precision.element)


def is_for_winograd(rows: int, columns: int, stride: int) -> bool:
    return stride in (1, 2, 3) and {-(-rows // stride), -(-columns // stride)} == {3}


def winograd_channels(channels: int, precision: Precision, *, stride: int) -> int:
    atom = ATOM // precision.element.itemsize
    return -(-channels // atom) * atom * stride * stride


def in_reals(weights: Array, precision: Precision, *, stride: int = 1) -> npt.NDArray[np.float32]:
    """The result of `transform` before rounding to the precision."""
    kernels, channels, rows, columns = _four_axes(weights)
    if not np.isfinite(weights).all():
        refuse("DV833", "weights contain infinities or NaN")
    if not is_for_winograd(rows, columns, stride):
        supported = "3x3 of stride 1, 5 or 6 of 2, 7 to 9 of 3"
        refuse("DV833", f"Winograd supports kernels of {supported}; not {rows}x{columns} of {stride}")
    extended = winograd_channels(channels, precision, stride=stride)
    filled = extended // stride**2
    padded = np.zeros((kernels, filled, 3 * stride, 3 * stride), np.float32)
    padded[:, :channels, :rows, :columns] = weights
    phases = padded.reshape(kernels, filled, 3, stride, 3, stride).transpose(0, 3, 5, 1, 2, 4)
    return transformed(transformed(phases.reshape(kernels, extended, 3, 3), 2), 3)


def split_sets(weights: Array, *, stride_y: int, stride_x: int) -> Array:
    """Deconvolution weights (K, C, R, S) per phase of their taps: (stride_y * stride_x, K, C, R', S'), row phases first."""
    kernels, channels, rows, columns = _four_axes(weights)
    if min(stride_y, stride_x) < 1:
        refuse("DV833", f"strides of {stride_y} and {stride_x}")
    tall, wide = -(-rows // stride_y), -(-columns // stride_x)
    padded = np.zeros((kernels, channels, tall * stride_y, wide * stride_x), weights.dtype)
    padded[:, :, :rows, :columns] = weights
    sets = padded.reshape(kernels, channels, tall, stride_y, wide, stride_x).transpose(3, 5, 0, 1, 2, 4)
    return sets.reshape(stride_y * stride_x, kernels, channels, tall, wide)


# --- sparse compression --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Compressed:
    """Three surfaces of bytes, aligned to 256 bytes and padded with zeros to 128.

    weights: the non-zero elements, in order
    mask: WMB, one bit per element, 1 for non-zero ones, lowest bit first
    group_sizes: WGS, bytes of the weights of each group of kernels, 32 bits
    """

    weights: Bytes
    mask: Bytes
    group_sizes: Bytes


def compress(weights: Array, layout: Layout) -> Compressed:
    """Compress weights in any of the layouts above. FP16's -0.0 is not zero."""
    names = [precision.value for precision in Precision]
    is_known = layout.axes == "kcrs" and layout.terms[0].ragged
    if not is_known or layout.element is None or layout.element.name not in names:
        refuse("DV834", f"{layout.name or layout} is not a layout of NVDLA's weights")
    payload = pack(weights, replace(layout, total_align=1))
    groups = compress_groups(payload, weights.shape[0], Precision(layout.element.name))
    return Compressed(_fill_up(groups.weights), _fill_up(groups.mask), _fill_up(groups.group_sizes))


def compress_groups(payload: Bytes, kernels: int, precision: Precision) -> Compressed:
    """Compress the unpadded bytes of some groups of kernels to unpadded surfaces, which can be concatenated."""
    bits = payload.view(f"u{precision.element.itemsize}")
    kept = bits != 0
    starts = np.arange(0, kernels, FULL.group(precision)) * (bits.size // kernels)
    sizes = np.add.reduceat(kept, starts, dtype=np.uint32) * np.uint32(bits.itemsize)
    mask = np.packbits(kept, bitorder="little")
    return Compressed(bits[kept].view(np.uint8), mask, sizes.astype("<u4").view(np.uint8))


MASK = replace(parse(f"n: n | uint8 base={START_ALIGN} total={SIZE_ALIGN}"), name="nvdla_mask")  # 8 weights per byte
GROUP_SIZES = replace(parse(f"g: g | uint32 base={START_ALIGN} total={SIZE_ALIGN}"), name="nvdla_group_sizes")


def decompress(surfaces: Compressed, elements: int, precision: Precision) -> Bytes:
    """The unpadded bytes that were compressed; `unpack` turns them into an array."""
    if not 0 <= elements <= surfaces.mask.size * 8:
        refuse("DV834", f"{elements} elements for a mask of {surfaces.mask.size * 8} bits")
    if surfaces.weights.size % precision.element.itemsize or surfaces.group_sizes.size % 4:
        refuse("DV834", "the weights or the group sizes end inside a number")
    kept = np.unpackbits(surfaces.mask, count=elements, bitorder="little").astype(np.bool_)
    values = surfaces.weights.view(f"u{precision.element.itemsize}")
    if int(kept.sum()) > values.size or int(surfaces.group_sizes.view("<u4").sum()) != kept.sum() * values.itemsize:
        refuse("DV834", "mask, group sizes and weights contradict each other")
    result = np.zeros(elements, values.dtype)
    result[kept] = values[: int(kept.sum())]
    return result.view(np.uint8)


def _four_axes(weights: Array) -> tuple[int, int, int, int]:
    """The shape of weights (K, C, R, S)."""
    if weights.ndim != 4:
        refuse("DV833", f"weights have the axes K, C, R, S, not {'x'.join(map(str, weights.shape))}")
    kernels, channels, rows, columns = weights.shape
    return kernels, channels, rows, columns


def _fill_up(surface: npt.NDArray[Any]) -> Bytes:
    result: Bytes = np.zeros(-(-surface.size // SIZE_ALIGN) * SIZE_ALIGN, np.uint8)
    result[: surface.size] = surface
    return result
