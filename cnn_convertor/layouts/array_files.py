"""Arrays in files: a .npy file holds an array with its axes in the layout's order, any other file holds its memory.

One-bit values are booleans in arrays. NVDLA's pixels are arrays (H, W, C) of their fields; planes follow each other.
"""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cnn_convertor.errors import Origin, UsageError
from cnn_convertor.files.numpy_files import load_array
from cnn_convertor.files.opening import open_file
from cnn_convertor.layouts.cldnn import BITS, check_shape, pack_bits, unpack_bits
from cnn_convertor.layouts.layout import Layout, extents, refuse
from cnn_convertor.layouts.names import layout_of, match_axes
from cnn_convertor.layouts.notation import parse
from cnn_convertor.layouts.nvdla.pixels import FORMATS, pack_pixels, unpack_pixels
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.packing import Array, Bytes, bytes_of, pack, unpack

ARRAYS = ".npy"


def form_of(name: str) -> Layout:
    """The layout of a name that `layout_of` knows, or of the fields of a pixel format."""
    if name not in FORMATS:
        return layout_of(name)
    is_real = FORMATS[name].precision is Precision.FP16
    return replace(parse("hwc: h w c | float16" if is_real else "hwc: h w c"), name=name)


def read(path: Path, layout: Layout, shape: Sequence[int], element: npt.DTypeLike | None) -> Array:
    """The array in a file, with the axes of `layout.axes`. shape: of the array, for a file of memory."""
    if path.suffix == ARRAYS:
        array = _load(path)
        order = _planar(layout, path)
        if array.ndim != len(order):
            message = f"the array has {array.ndim} axes, but {layout.name} has {len(order)}"
            raise UsageError.of("DV840", message, Origin(str(path)))
        array = array.transpose([order.index(axis) for axis in layout.axes])
        extents(layout, array.shape)  # rejects empty arrays
        return array
    if not shape:
        hint = f"--shape with {','.join(layout.axes)}"
        raise UsageError.of("DV840", "the shape of the array in memory is unknown", Origin(str(path)), hint)
    check_shape(layout, shape)
    with open_file(path) as file:
        data = file.read()
    if layout.name in BITS:
        return unpack_bits(data, layout, tuple(shape))
    return _pixels(data, layout, shape) if layout.name in FORMATS else unpack(data, layout, shape, element=element)


def contents(path: Path, array: Array, layout: Layout) -> Bytes:
    """The contents of a file: an array for .npy, else its memory."""
    if path.suffix != ARRAYS:
        check_shape(layout, array.shape)
        if layout.name in FORMATS:
            return np.concatenate(pack_pixels(array, FORMATS[layout.name]))
        return pack_bits(array, layout) if layout.name in BITS else pack(array, layout)
    order = _planar(layout, path)
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(array.transpose([layout.axes.index(axis) for axis in order])))
    return np.frombuffer(stream.getvalue(), np.uint8)


def _pixels(data: bytes, layout: Layout, shape: Sequence[int]) -> Array:
    """An image of consecutive planes."""
    format_ = FORMATS[layout.name]
    height, width = tuple(extents(layout, shape).values())[:2]
    if shape[2] != format_.channels:
        refuse("DV835", f"{format_.name} has {format_.channels} channels, not {shape[2]}")
    sizes = [height * stride for stride in format_.strides(width)]
    planes = np.split(bytes_of(data, sum(sizes)), np.cumsum(sizes)[:-1])
    return unpack_pixels(planes, format_, height, width)


def rearranged(array: Array, layout: Layout, to: Layout) -> Array:
    """The array with the axes of another layout, and its element type if both are floating point."""
    order, shape = match_axes(layout, to, array.shape)
    result = array.transpose(order).reshape(shape)
    if to.element is not None and to.element.kind == result.dtype.kind == "f":
        return result.astype(to.element)
    return result


def _load(path: Path) -> npt.NDArray[Any]:
    try:
        array = load_array(path)
    except ValueError as error:
        raise UsageError.of(
            "DV840", f"not an array of numbers: {error}", Origin(str(path)), "save one as .npy"
        ) from None
    if array.dtype.kind not in "biufc":
        raise UsageError.of("DV840", f"an array of {array.dtype}, not of numbers", Origin(str(path)))
    return array


def _planar(layout: Layout, path: Path) -> str:
    """The axes of an array in a .npy file; the layout must not have blocks."""
    order = "".join(term.axis for term in layout.terms)
    if sorted(order) != sorted(layout.axes) or any(term.flip for term in layout.terms):
        refuse("DV840", f"{path}: {layout.name or layout} has blocks; an array has none", "a suffix other than .npy")
    return order
