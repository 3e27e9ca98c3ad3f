"""Nodes on several images, as windows inside a network are, and on volumes with an axis that they leave alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps

import numpy as np

from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, Value
from cnn_convertor.frontends.onnx.stored import Stored
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
        x = reading.at(0)
        weights = reading.at(1) if len(reading.inputs) > 1 else None
        if not isinstance(x, OnnxTensor) or x.rank != VOLUME or x.dims[0] != 1 or isinstance(weights, OnnxTensor):
            return read(reading)
        kernel = reading.integers("kernel_shape", ()) if weights is None else weights.dims[2:]
        for axis in range(VOLUME - 1, 1, -1):
            if _is_still(reading, kernel or (), axis):
                return _read_planes(read, reading, x, weights, axis)
        return read(reading)

    return read_planes


def _read_planes(read: MapReader, reading: OnnxReading, x: OnnxTensor, weights: Stored | None, axis: int) -> OnnxTensor:
    """What the reader makes of the volume's planes, whose number is the length along the axis."""
    plane_axes = [other for other in (2, 3, 4) if other != axis]
    order = (0, axis, 1, *plane_axes)
    planes = reading.permute(x, x.dims, order, tuple(x.dims[n] for n in order[1:]), part="planes")
    inputs: list[Value] = [planes]
    if weights is not None:
        dims = tuple(weights.dims[n] for n in (0, 1, *plane_axes))
        inputs.append(replace(weights, dims=dims))
    changed = {}
    for name in PER_AXIS:
        numbers = reading.integers(name)
        if numbers is not None:
            changed[name] = tuple(n for at, n in enumerate(numbers) if at % 3 != axis - 2)
    plane = replace(
        reading,
        inputs=(*inputs, *reading.inputs[2:]),
        attributes=reading.attributes.changed(changed),
        inside=reading.inside_of("in_planes"),
    )
    result = read(plane)
    back = [2, 3]  # the plane's own axes, between which the number of planes goes
    back.insert(axis - 2, 0)
    order = (1, *back)
    return reading.permute(result, result.dims, order, (1, *(result.dims[n] for n in order)))


def _is_still(reading: OnnxReading, kernel: Sequence[int], axis: int) -> bool:
    """Whether the windows neither reach nor move along the axis."""
    if len(kernel) != VOLUME - 2 or kernel[axis - 2] != 1:
        return False
    strides = reading.integers("strides", (1,) * 3)
    pads = reading.integers("pads", (0,) * 6)
    if strides is None or pads is None or len(strides) != VOLUME - 2 or len(pads) != 2 * (VOLUME - 2):
        return False
    return strides[axis - 2] == 1 and pads[axis - 2] == pads[axis + 1] == 0
