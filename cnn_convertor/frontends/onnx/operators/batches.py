"""Nodes on several images, as windows inside a network are, and on volumes with an axis that they leave alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps

import numpy as np

from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor
from cnn_convertor.ir.constant import Constant

MapReader = Callable[[OnnxReading], OnnxTensor]
VOLUME = 5  # axes of a batch of volumes
PER_AXIS = ("kernel_shape", "strides", "dilations", "pads")  # attributes


def images_as_channels(read: MapReader) -> MapReader:
    """Lets a reader of one image's map read several: their channels are groups of one map."""

    @wraps(read)
    def read_images(reading: OnnxReading) -> OnnxTensor:
        x = reading.at(0)
        if not isinstance(x, OnnxTensor) or x.rank not in (3, 4) or x.dims[0] == 1:
            return read(reading)
        images, channels, *sizes = x.dims
        together = reading.reshape(x, (1, images * channels, *sizes), part="images")
        inputs = (together, *reading.inputs[1:])
        result = read(replace(reading, inputs=inputs, images=images, inside=reading.inside_of("together")))
        _, channels, *sizes = result.dims
        return reading.reshape(result, (images, channels // images, *sizes))

    return read_images


def for_each_image(reading: OnnxReading, rows: Constant) -> Constant:
    """The rows once more for each image."""
    if reading.images == 1:
        return rows
    return rows.take_rows(np.tile(np.arange(rows.shape[0]), reading.images))


def planes_as_images(read: MapReader) -> MapReader:
    """Lets a reader of windows read volumes, where its kernel has length 1 on one axis: this axis counts images."""

    @wraps(read)
    def read_planes(reading: OnnxReading) -> OnnxTensor:
        x, weights = reading.at(0), reading.at(1) if len(reading.inputs) > 1 else None
        if not isinstance(x, OnnxTensor) or x.rank != VOLUME or x.dims[0] != 1 or isinstance(weights, OnnxTensor):
            return read(reading)
        kernel = reading.integers("kernel_shape", ()) if weights is None else weights.dims[2:]
        axes = (axis for axis in range(VOLUME - 1, 1, -1) if _is_still(reading, kernel or (), axis))
        axis = next(axes, None)
        if axis is None:
            return read(reading)
        others = [n for n in (2, 3, 4) if n != axis]
        images = reading.permute(
            x, x.dims, (0, axis, 1, *others), tuple(x.dims[n] for n in (axis, 1, *others)), part="planes"
        )
        flat = (
            [] if weights is None else [replace(weights, dims=(*weights.dims[:2], *(weights.dims[n] for n in others)))]
        )
        without = {
            name: tuple(n for at, n in enumerate(numbers) if at % 3 != axis - 2)
            for name in PER_AXIS
            if (numbers := reading.integers(name)) is not None
        }
        plane = replace(
            reading,
            inputs=(images, *flat, *reading.inputs[2:]),
            attributes=reading.attributes.changed(without),
            inside=reading.inside_of("in_planes"),
        )
        result = read(plane)
        positions = (1, 2, 3)
        back = (1, *(positions[1 + others.index(n)] if n != axis else 0 for n in (2, 3, 4)))
        return reading.permute(result, result.dims, back, (1, *(result.dims[n] for n in back)))

    return read_planes


def _is_still(reading: OnnxReading, kernel: Sequence[int], axis: int) -> bool:
    """Whether the windows neither reach nor move along the axis."""
    if len(kernel) != VOLUME - 2 or kernel[axis - 2] != 1:
        return False
    strides, pads = reading.integers("strides", (1,) * 3), reading.integers("pads", (0,) * 6)
    if strides is None or pads is None or len(strides) != VOLUME - 2 or len(pads) != 2 * (VOLUME - 2):
        return False
    return strides[axis - 2] == 1 and pads[axis - 2] == pads[axis + 1] == 0
