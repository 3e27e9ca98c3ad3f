"""Layers that join or pass on blobs, and the inputs."""

from __future__ import annotations

from cnn_convertor.frontends.caffe.blobs import shape_of, text_of, with_length
from cnn_convertor.frontends.caffe.reading import Reading, Value, caffe, filled, numbered
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import BinaryOp, Op

AXES = (2, 3, 4)  # how many an input may have
MOST = 1 << 31  # elements of a map, far more than any memory of a device holds


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
        values.append(_one_input(reading, name, dims) if reading.needed[index] else Value("", dims))
    return values


def _one_input(reading: Reading, name: str, given: tuple[int, ...]) -> Value:
    if len(given) not in AXES:
        raise reading.unsupported(f'the input "{name}" has {len(given)} axes; two to four can be converted')
    sizes = list(given[1:])
    if len(sizes) == 3 and reading.size is not None:
        sizes[1:] = reading.size
    if sizes[0] < 1:
        raise reading.wrong(f'the number of channels of the input "{name}" is not defined', "give it in the definition")
    if min(sizes) < 1:
        raise reading.wrong(f'the size of the input "{name}" is not defined', "set width_override and height_override")
    dims = (1, *sizes)
    return reading.add(ops.Input(shape_of(dims)), name=name, dims=dims)


@caffe.reads("Eltwise")
def read_eltwise(reading: Reading) -> Value:
    parameters = reading.parameters("eltwise_param")
    operation, coefficients = parameters.take("operation"), parameters.take("coeff")
    if len(reading.inputs) < 2:
        raise reading.wrong("the layer needs two inputs or more")
    if len({x.dims for x in reading.inputs}) != 1:
        sizes = ", ".join(text_of(x.dims) for x in reading.inputs)
        raise reading.wrong(f"the inputs have different sizes: {sizes}", "check the sizes of the layer's inputs")
    match operation:
        case "SUM":
            return _sum(reading, coefficients or (1.0,) * len(reading.inputs))
        case "PROD":
            if coefficients:
                raise reading.wrong("coefficients are for sums alone")
            return _chain(reading, ops.Binary(BinaryOp.MULTIPLY), reading.inputs, "product")
        case _:
            return _chain(reading, ops.Binary(BinaryOp.MAXIMUM), reading.inputs, "maximum")


def _sum(reading: Reading, coefficients: tuple[float, ...]) -> Value:
    if len(coefficients) != len(reading.inputs):
        raise reading.wrong(f"{len(coefficients)} coefficients are given for {len(reading.inputs)} inputs")
    names = numbered(f"{reading.layer.name}/coeff")
    scaled = [
        x if factor == 1 else reading.add(ops.Scale(filled(factor, reading.shape(x).channels)), x, name=next(names))
        for x, factor in zip(reading.inputs, coefficients, strict=True)
    ]
    return _chain(reading, ops.Add(), scaled, "sum")


def _chain(reading: Reading, op: Op, inputs: list[Value] | tuple[Value, ...], word: str) -> Value:
    """An operator of two inputs on two or more, one after the other."""
    names = numbered(f"{reading.layer.name}/{word}")
    result = inputs[0]
    for x in inputs[1:-1]:
        result = reading.add(op, result, x, name=next(names))
    return reading.add(op, result, inputs[-1])


@caffe.reads("Axpy")
def read_axpy(reading: Reading) -> Value:
    """SENet's layer: a * x + y, with one a for each channel."""
    if len(reading.inputs) != 3:
        raise reading.wrong(f"the layer needs factors and two maps, not {len(reading.inputs)} inputs")
    a, x, y = reading.inputs
    reading.as_plain(x)
    if x.dims != y.dims or x.rank < 2 or a.dims not in {(*x.dims[:2], *[1] * rest) for rest in range(3)}:
        raise reading.wrong(f"factors of {text_of(a.dims)} for {text_of(x.dims)} and {text_of(y.dims)} do not fit")
    product = reading.add(ops.Binary(BinaryOp.MULTIPLY), x, a, name=f"{reading.layer.name}/product")
    return reading.add(ops.Add(), product, y)


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
    if len(reading.inputs) == 1:
        return reading.add(ops.Identity(), reading.input)
    if len({with_length(x.dims, axis, 0) for x in reading.inputs}) != 1:
        sizes = ", ".join(text_of(x.dims) for x in reading.inputs)
        raise reading.wrong(f"{sizes} cannot be joined on axis {axis}", "check the sizes of the layer's inputs")
    return _joined(reading, reading.inputs, axis)


def _joined(reading: Reading, inputs: tuple[Value, ...], axis: int) -> Value:
    dims = with_length(inputs[0].dims, axis, sum(x.dims[axis] for x in inputs))
    return reading.add(ops.Concat(reading.axis_of_map(inputs[0], axis)), *inputs, dims=dims)


@caffe.reads("Tile")
def read_tile(reading: Reading) -> Value:
    """The input several times, along an axis."""
    x = reading.input
    parameters = reading.parameters("tile_param")
    axis, tiles = reading.axis(parameters), parameters.take("tiles")
    if tiles < 1:
        raise reading.wrong('"tiles" must be at least 1')
    if tiles == 1:
        return reading.add(ops.Identity(), x)
    if tiles * reading.shape(x).size > MOST:
        raise reading.wrong(f"{tiles} times {text_of(x.dims)} is beyond all memory")
    return _joined(reading, (x,) * tiles, axis)


@caffe.reads("Dropout")
def read_dropout(reading: Reading) -> Value:
    """Does nothing at test time, unless it scales then in place of in training."""
    x = reading.input
    parameters = reading.parameters("dropout_param")
    if parameters.take("scale_train"):
        return reading.add(ops.Identity(), x)
    return reading.add(ops.Scale(filled(1 - parameters.take("dropout_ratio"), reading.shape(x).channels)), x)


@caffe.reads("Split")
def read_split(reading: Reading) -> list[Value]:
    return [reading.add(ops.Identity(), reading.input, name=top) for top in reading.layer.tops]
