"""The inputs and outputs of a loadable: arrays in its memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.loadable.container import TensorEntry
from cnn_convertor.layouts.layout import Layout
from cnn_convertor.layouts.nvdla import pixels
from cnn_convertor.layouts.nvdla.features import feature_data
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.packing import Bytes, pack, unpack

TYPES: Final = {2: Precision.FP16, 3: Precision.INT16, 4: Precision.INT8}  # data_type of a tensor
_LARGEST: Final = 8192  # height, width and channels


class TensorError(ValueError):
    """A tensor is none that the convertor can fill or read."""


def precision_of(tensor: TensorEntry) -> Precision:
    """Raises TensorError for a type that no configuration computes in."""
    if tensor.data_type not in TYPES:
        raise TensorError(
            f'the tensor "{tensor.name}" has the type {tensor.data_type}; 2 to 4 are FP16, INT16 and INT8'
        )
    return TYPES[tensor.data_type]


def shape_of(tensor: TensorEntry) -> tuple[int, int, int]:
    """(H, W, C). Raises TensorError for sizes that no map has."""
    shape = (tensor.h, tensor.w, tensor.c)
    if tensor.n != 1 or min(shape) < 1 or max(shape) > _LARGEST:
        raise TensorError(f'the tensor "{tensor.name}" has the sizes {tensor.n} x {tensor.c} x {tensor.h} x {tensor.w}')
    return shape


def element_of(tensor: TensorEntry) -> str:
    """The type of an input's or output's values. Raises TensorError also for pixels that it does not hold."""
    form = _pixels(tensor)
    if form is None:
        return precision_of(tensor).value
    if len(form.planes) > 1 or form.channels != tensor.c:
        raise TensorError(f'the tensor "{tensor.name}" of {tensor.c} channels has pixels of {form}')
    return {Precision.INT8: "uint8", Precision.INT16: "uint16", Precision.FP16: "float16"}[form.precision]


def _pixels(tensor: TensorEntry) -> pixels.PixelFormat | None:
    """The format of an image; None for feature data."""
    is_image = tensor.pixel_format < len(pixels.NAMES)
    return pixels.FORMATS[pixels.NAMES[tensor.pixel_format]] if is_image else None


def write_tensor(tensor: TensorEntry, configuration: Configuration, values: NDArray[Any], memory: Bytes) -> None:
    """Write (H, W, C). Raises UsageError for strides that do not fit."""
    form = _pixels(tensor)
    if form is not None:
        pixels.pack_pixels(values, form, strides=(tensor.stride_1,), out=(memory[: tensor.h * tensor.stride_1],))
        return
    pack(values.transpose(2, 0, 1), _feature(tensor, configuration), memory, fill=False)


def read_tensor(tensor: TensorEntry, configuration: Configuration, memory: Bytes) -> NDArray[Any]:
    """(H, W, C). Raises UsageError for strides that do not fit."""
    height, width, channels = shape_of(tensor)
    cube = unpack(memory, _feature(tensor, configuration), (channels, height, width))
    return np.ascontiguousarray(cube.transpose(1, 2, 0))


def _feature(tensor: TensorEntry, configuration: Configuration) -> Layout:
    strides = {"line_stride": tensor.stride_1 or None, "surface_stride": tensor.stride_2 or None}
    return feature_data(precision_of(tensor), configuration.form, **strides)
