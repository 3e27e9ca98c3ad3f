"""Functions of feature maps: resize, pools, and depth to space."""

from cnn_convertor.frontends.keras.axes import Axes, Value
from cnn_convertor.frontends.keras.operations.arguments import argument, function_of, integer, tensor
from cnn_convertor.frontends.keras.reading import KerasReading, operations, plain
from cnn_convertor.frontends.keras.resize import INTERPOLATED, POOLS, RESIZING_FLAGS, pooled, refuse_flags, resized
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Axis, Order, Pair, Shape, Window

FLAGS = (*RESIZING_FLAGS, "preserve_aspect_ratio")
OF_MAP = "of a map (height, width, channels)"


def _map(reading: KerasReading, *names: str) -> Value:
    """An argument that is a map, in the layout of data_format."""
    value = tensor(reading, 0, *names)
    if len(reading.sizes(value)) != 3:
        reading.misfit("the operation takes a map (height, width, channels)")
    is_first = reading.take("data_format") in ("NCHW", "channels_first")
    return reading.as_axes(value, Axes.CHW if is_first else Axes.HWC)


@operations.reads(
    "Resize", "image.resize", settings=f"data_format image size interpolation method {' '.join(FLAGS)}",
    ignores="fill_mode fill_value", makes=[ops.Resize], limits=f"{INTERPOLATED}; {', '.join(FLAGS)}: False",
)  # fmt: skip
def resize(reading: KerasReading) -> Value:
    value = _map(reading, "image")
    match plain(argument(reading, 1, "size")):
        case [int(height), int(width)] if min(height, width) > 0:
            size = Pair(height, width)
        case other:
            reading.refuse(f"a size of {other!r} is not supported", "use two numbers: (height, width)")
    refuse_flags(reading, FLAGS)
    return resized(reading, value, size, argument(reading, 2, "interpolation", "method", default="bilinear"))


@operations.reads(
    "DepthToSpace", "nn.depth_to_space", settings="data_format block_size", makes=[ops.TransposeReshape], limits=OF_MAP,
)  # fmt: skip
def depth_to_space(reading: KerasReading) -> Value:
    value = _map(reading)
    block = integer(reading, argument(reading, 1, "block_size"), "block_size")
    height, width, channels = shape = reading.builder.shape(value.node)
    if block < 1 or channels % block**2:
        reading.misfit(f"{channels} channels are not pixels of blocks of {block}x{block}")
    dims = (height, width, block, block, channels // block**2)
    result = Shape(height * block, width * block, dims[-1])
    assert result.size == shape.size
    return Value(reading.add(ops.TransposeReshape(dims, (0, 2, 1, 3, 4), result, Order.HWC), value.node), value.axes)


@operations.reads(
    "SpaceToDepth", "nn.space_to_depth", settings="data_format block_size", makes=[ops.SpaceToDepth], limits=OF_MAP,
)  # fmt: skip
def space_to_depth(reading: KerasReading) -> Value:
    value = _map(reading)
    block = integer(reading, argument(reading, 1, "block_size"), "block_size")
    if block < 1:
        reading.refuse(f"block_size is {block}")
    return Value(reading.add(ops.SpaceToDepth(Pair(block, block)), value.node), value.axes)


@operations.reads(
    "MaxPool", "AveragePool", settings="data_format pool_size strides padding", makes=POOLS, limits=OF_MAP,
)  # fmt: skip
def pool(reading: KerasReading) -> Value:
    value = _map(reading)
    kernel = reading.pair("pool_size", 2)
    stride = kernel if reading.take("strides") is None else reading.pair("strides")
    maximum = function_of(reading) == "MaxPool"
    return pooled(reading, value, Window(kernel, stride), same=reading.same(), maximum=maximum)


@operations.reads(
    "nn.local_response_normalization", "nn.lrn", settings="depth_radius bias alpha beta", makes=[ops.LocalResponseNorm],
    limits=OF_MAP,
)  # fmt: skip
def local_response_norm(reading: KerasReading) -> Value:
    """TensorFlow multiplies the sum by alpha, Caffe the mean."""
    value = tensor(reading)
    if value.axes.at(3) is not Axis.CHANNELS:
        reading.misfit("the operation takes a map (height, width, channels)")
    size = 2 * integer(reading, argument(reading, 1, "depth_radius", default=5), "depth_radius") + 1
    numbers = {name: reading.number(name, default) for name, default in (("bias", 1.0), ("alpha", 1.0), ("beta", 0.5))}
    op = ops.LocalResponseNorm(size, numbers["alpha"] * size, numbers["beta"], numbers["bias"])
    return Value(reading.add(op, value.node), value.axes)
