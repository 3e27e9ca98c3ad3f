"""Layers that only join, pass on or re-arrange blobs, and the inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cnn_convertor.frontends.caffe.reading import Reading, Value, caffe, filled, numbered
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Order, Shape


@caffe.reads("Input")
def read_input(reading: Reading) -> list[Value]:
    shapes = [tuple(shape.dim) for shape in reading.parameters("input_param").take("shape")]
    tops = reading.layer.tops
    if len(shapes) not in (1, len(tops)):
        hint = 'give the size: input_param { shape { dim: 1 dim: 3 dim: 224 dim: 224 } }, or four "input_dim"'
        raise reading.wrong(f"{len(shapes)} sizes are given for {len(tops)} inputs", hint)
    values = []
    for index, name in enumerate(tops):
        dims = shapes[index % len(shapes)]
        values.append(_one_input(reading, name, dims) if reading.needed[index] else Value("", len(dims)))
    return values


def _one_input(reading: Reading, name: str, dims: tuple[int, ...]) -> Value:
    if len(dims) not in (2, 4):
        raise reading.unsupported(f'the input "{name}" has {len(dims)} axes; two or four can be converted')
    sizes = list(dims[1:])
    if len(sizes) == 3 and reading.size is not None:
        sizes[1:] = reading.size
    if sizes[0] < 1:
        raise reading.wrong(f'the number of channels of the input "{name}" is not defined', "give it in the definition")
    if min(sizes) < 1:
        raise reading.wrong(f'the size of the input "{name}" is not defined', "set width_override and height_override")
    channels, height, width = (*sizes, 1, 1)[:3]
    return reading.add(ops.Input(Shape(height, width, channels)), name=name, rank=len(dims))


@caffe.reads("Eltwise")
def read_eltwise(reading: Reading) -> Value:
    parameters = reading.parameters("eltwise_param")
    operation, coefficients = parameters.take("operation"), parameters.take("coeff") or (1.0,) * len(reading.inputs)
    if operation != "SUM":
        raise reading.unsupported(f"the element-wise operation {operation} cannot be converted; SUM can")
    if len(reading.inputs) < 2:
        raise reading.wrong("the layer needs two inputs or more")
    if len(coefficients) != len(reading.inputs):
        raise reading.wrong(f"{len(coefficients)} coefficients are given for {len(reading.inputs)} inputs")
    names = numbered(f"{reading.layer.name}/coeff")
    scaled = [
        x if factor == 1 else reading.add(ops.Scale(filled(factor, reading.shape(x).channels)), x, name=next(names))
        for x, factor in zip(reading.inputs, coefficients, strict=True)
    ]
    names = numbered(f"{reading.layer.name}/sum")
    total = scaled[0]
    for x in scaled[1:-1]:
        total = reading.add(ops.Add(), total, x, name=next(names))
    return reading.add(ops.Add(), total, scaled[-1])


@caffe.reads("Concat")
def read_concat(reading: Reading) -> Value:
    parameters = reading.parameters("concat_param")
    if not reading.inputs:
        raise reading.wrong("the layer has no input")
    if "axis" in parameters and "concat_dim" in parameters:
        raise reading.wrong('"axis" and "concat_dim" are both given')
    axis = reading.axis(parameters, "concat_dim" if "concat_dim" in parameters else "axis")
    if len({x.rank for x in reading.inputs}) != 1:
        raise reading.wrong(
            f"the inputs have different numbers of axes: {', '.join(str(x.rank) for x in reading.inputs)}"
        )
    if axis != 1:
        raise reading.unsupported(f"joining on axis {axis} cannot be converted; on the channels (axis 1) can")
    if len(reading.inputs) == 1:
        return reading.add(ops.Identity(), reading.input)
    return reading.add(ops.Concat(), *reading.inputs)


@caffe.reads("Dropout")
def read_dropout(reading: Reading) -> Value:
    if not reading.parameters("dropout_param").take("scale_train"):
        raise reading.unsupported("a dropout that scales at test time (scale_train: false) cannot be converted")
    return reading.add(ops.Identity(), reading.input)


@caffe.reads("Split")
def read_split(reading: Reading) -> list[Value]:
    return [reading.add(ops.Identity(), reading.input) for _ in reading.layer.tops]


@caffe.reads("Flatten")
def read_flatten(reading: Reading) -> Value:
    x = reading.input
    parameters = reading.parameters("flatten_param")
    first, last = reading.axis(parameters), reading.axis(parameters, "end_axis")
    if (first, last) != (1, x.rank - 1):
        raise reading.unsupported(
            f"flattening the axes {first} to {last} cannot be converted; all but the batch (1 to {x.rank - 1}) can"
        )
    return _to_vector(reading, x)


def _to_vector(reading: Reading, x: Value) -> Value:
    if x.rank == 2:
        return reading.add(ops.Identity(), x)
    return reading.add(ops.Reshape(Shape(1, 1, reading.shape(x).size), Order.CHW), x, rank=2)


@caffe.reads("Reshape")
def read_reshape(reading: Reading) -> Value:
    x = reading.input
    dims = _reshaped(reading, x)
    if len(dims) not in (2, 4) or dims[0] != 1:
        raise reading.unsupported(
            f"reshaping to {'x'.join(map(str, dims))} cannot be converted; to a vector or a map of the same batch can",
            "if the rest of the network can run in the application, let the network end before this layer",
        )
    if len(dims) == 2:
        return _to_vector(reading, x)
    _, channels, height, width = dims
    return reading.add(ops.Reshape(Shape(height, width, channels), Order.CHW), x, rank=4)


def _reshaped(reading: Reading, x: Value) -> Sequence[int]:
    """All axes after a Reshape, for a batch of one."""
    parameters = reading.parameters("reshape_param")
    height, width, channels = reading.shape(x)
    dims = (1, channels, height, width)[: x.rank]
    new = [int(dim) for dim in parameters.take("shape").dim]
    start, count = parameters.take("axis"), parameters.take("num_axes")
    start += x.rank + 1 if start < 0 else 0
    end = x.rank if count == -1 else start + count
    if not 0 <= start <= end <= x.rank:
        raise reading.wrong(f"axis and num_axes do not fit an input of {x.rank} axes")
    if start == 0 and new and new[0] == reading.batch:
        new[0] = 1  # the batch of the definition; ours is always one
    for index, dim in enumerate(new):
        if dim == 0:
            if start + index >= x.rank:
                raise reading.wrong("a 0 in the shape stands for an axis that the input does not have")
            new[index] = dims[start + index]
    result = [*dims[:start], *new, *dims[end:]]
    known = math.prod(dim for dim in result if dim != -1)
    if result.count(-1) == 1 and known and math.prod(dims) % known == 0:
        result[result.index(-1)] = math.prod(dims) // known
    if min(result, default=1) < 1 or math.prod(result) != math.prod(dims):
        raise reading.wrong(f"{'x'.join(map(str, dims))} cannot become {'x'.join(map(str, result)) or 'one number'}")
    return result
