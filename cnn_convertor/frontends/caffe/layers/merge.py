"""Inputs, and layers that combine blobs or pass them on."""

from collections.abc import Sequence

from cnn_convertor.frontends.arithmetic import scale_and_shift
from cnn_convertor.frontends.caffe.reading import CaffeBlob, CaffeReading, caffe
from cnn_convertor.frontends.nchw import Dims, letters_of, shape_of, text_of, with_length
from cnn_convertor.frontends.readers import numbered
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import BinaryOp, Op

AXES = (2, 3, 4)  # how many an input may have
TILES = 64  # inputs of one concatenation
MOST = 1 << 31  # elements of a map, far more than the memory of any device holds


@caffe.reads("Input", group="input_param", settings="shape", makes=[ops.Input], limits="two to four axes")
def read_input(reading: CaffeReading) -> list[CaffeBlob]:
    shapes = [tuple(shape.dim) for shape in reading.take("shape")]
    tops = reading.layer.tops
    if len(shapes) not in (1, len(tops)):
        hint = 'give the size: input_param { shape { dim: 1 dim: 3 dim: 224 dim: 224 } }, or four "input_dim"'
        raise reading.wrong(f"{len(shapes)} sizes are given for {len(tops)} inputs", hint)
    sizes = [shapes[index % len(shapes)] for index in range(len(tops))]
    return [
        _one_input(reading, name, dims) if needed else CaffeBlob("", dims)
        for name, dims, needed in zip(tops, sizes, reading.needed, strict=True)
    ]


def _one_input(reading: CaffeReading, name: str, declared: Dims) -> CaffeBlob:
    if len(declared) not in AXES:
        raise reading.unsupported(f'the input "{name}" has {len(declared)} axes; two to four can be converted')
    sizes = list(declared[1:])
    if len(sizes) == 3 and reading.size is not None:
        sizes[1:] = reading.size
    if sizes[0] < 1:
        raise reading.wrong(f'the number of channels of the input "{name}" is not defined', "give it in the definition")
    if min(sizes) < 1:
        raise reading.wrong(f'the size of the input "{name}" is not defined', "set width_override and height_override")
    dims = (1, *sizes)
    return reading.add(ops.Input(shape_of(dims), letters_of(dims)), name=name, dims=dims)


@caffe.reads("Eltwise", group="eltwise_param", settings="operation coeff", makes=[ops.Scale, ops.Add, ops.Binary])
def read_eltwise(reading: CaffeReading) -> CaffeBlob:
    operation, coefficients = reading.take_each("operation", "coeff")
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
                raise reading.wrong("coefficients are for sums only")
            return _chain(reading, ops.Binary(BinaryOp.MULTIPLY), reading.inputs, "product")
        case _:
            return _chain(reading, ops.Binary(BinaryOp.MAXIMUM), reading.inputs, "maximum")


def _sum(reading: CaffeReading, coefficients: Sequence[float]) -> CaffeBlob:
    if len(coefficients) != len(reading.inputs):
        raise reading.wrong(f"{len(coefficients)} coefficients are given for {len(reading.inputs)} inputs")
    parts = numbered("coeff")
    scaled = [
        x if factor == 1 else reading.add(scale_and_shift(reading.shape(x).channels, factor), x, part=next(parts))
        for x, factor in zip(reading.inputs, coefficients, strict=True)
    ]
    return _chain(reading, ops.Add(), scaled, "sum")


def _chain(reading: CaffeReading, op: Op, inputs: Sequence[CaffeBlob], word: str) -> CaffeBlob:
    """An operator of two inputs on two or more, one after the other."""
    parts = numbered(word)
    result = inputs[0]
    for x in inputs[1:-1]:
        result = reading.add(op, result, x, part=next(parts))
    return reading.add(op, result, inputs[-1])


@caffe.reads("Axpy", makes=[ops.Binary, ops.Add])
def read_axpy(reading: CaffeReading) -> CaffeBlob:
    """SENet's layer: a * x + y, with one a for each channel."""
    reading.check_inputs(3, "factors and two maps")
    a, x, y = reading.inputs
    reading.as_plain(x)
    if x.dims != y.dims or x.rank < 2 or a.dims not in {x.dims[:2] + (1,) * rest for rest in range(3)}:
        raise reading.wrong(f"factors of {text_of(a.dims)} for {text_of(x.dims)} and {text_of(y.dims)} do not fit")
    product = reading.add(ops.Binary(BinaryOp.MULTIPLY), x, a, part="product")
    return reading.add(ops.Add(), product, y)


@caffe.reads("Concat", group="concat_param", settings="concat_dim axis", makes=[ops.Identity, ops.Concat])
def read_concat(reading: CaffeReading) -> CaffeBlob:
    if not reading.inputs:
        raise reading.wrong("the layer has no input")
    if reading.gives("axis") and reading.gives("concat_dim"):
        raise reading.wrong('"axis" and "concat_dim" are both given')
    axis = reading.axis("concat_dim" if reading.gives("concat_dim") else "axis")
    if len({x.rank for x in reading.inputs}) != 1:
        ranks = ", ".join(str(x.rank) for x in reading.inputs)
        raise reading.wrong(f"the inputs have different numbers of axes: {ranks}")
    if len(reading.inputs) == 1:
        return reading.add(ops.Identity(), reading.input)
    if len({with_length(x.dims, axis, 0) for x in reading.inputs}) != 1:
        sizes = ", ".join(text_of(x.dims) for x in reading.inputs)
        raise reading.wrong(f"{sizes} cannot be joined on axis {axis}", "check the sizes of the layer's inputs")
    return _joined(reading, reading.inputs, axis)


def _joined(reading: CaffeReading, inputs: tuple[CaffeBlob, ...], axis: int, *, part: str = "") -> CaffeBlob:
    dims = with_length(inputs[0].dims, axis, sum(x.dims[axis] for x in inputs))
    return reading.add(ops.Concat(reading.axis_of_map(inputs[0], axis)), *inputs, part=part, dims=dims)


@caffe.reads("Tile", group="tile_param", settings="axis tiles", makes=[ops.Identity, ops.Concat])
def read_tile(reading: CaffeReading) -> CaffeBlob:
    """Repeats the input along an axis."""
    x = reading.input
    axis = reading.axis()
    tiles = reading.take("tiles")
    if tiles < 1:
        raise reading.wrong('"tiles" must be at least 1')
    if tiles == 1:
        return reading.add(ops.Identity(), x)
    if tiles * reading.shape(x).size > MOST:
        raise reading.wrong(f"{tiles} times {text_of(x.dims)} does not fit any memory")
    rest: list[CaffeBlob] = []
    while tiles > TILES:  # many tiles are tiles of tiles, and a rest of each size
        tiles, left = divmod(tiles, TILES)
        rest += [x] * left
        x = _joined(reading, (x,) * TILES, axis, part=f"part of {tiles}")
    return _joined(reading, (*rest, *(x,) * tiles), axis)


@caffe.reads("Dropout", group="dropout_param", settings="scale_train dropout_ratio", makes=[ops.Identity, ops.Scale])
def read_dropout(reading: CaffeReading) -> CaffeBlob:
    """Scales at test time when scale_train is false, and else does nothing."""
    x = reading.input
    if reading.take("scale_train"):
        return reading.add(ops.Identity(), x)
    return reading.add(scale_and_shift(reading.shape(x).channels, 1 - reading.take("dropout_ratio")), x)


@caffe.reads("Split", makes=[ops.Identity])
def read_split(reading: CaffeReading) -> list[CaffeBlob]:
    return [reading.add(ops.Identity(), reading.input, name=top) for top in reading.layer.tops]
