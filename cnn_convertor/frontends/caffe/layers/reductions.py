"""Layers that reduce axes of an input, and layers that scale it by such reductions."""

from cnn_convertor.frontends.arithmetic import scale_and_shift
from cnn_convertor.frontends.caffe.reading import CaffeBlob, CaffeReading, caffe
from cnn_convertor.frontends.nchw import axis_of, is_plain, with_length
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Axis, Reduction

PIXELS = (Axis.HEIGHT, Axis.WIDTH)
REDUCTIONS = {
    "SUM": Reduction.SUM,
    "ASUM": Reduction.SUM_OF_MAGNITUDES,
    "SUMSQ": Reduction.SUM_OF_SQUARES,
    "MEAN": Reduction.MEAN,
}


@caffe.reads("LRN", group="lrn_param", settings="local_size alpha beta k norm_region", makes=[ops.LocalResponseNorm])
def read_lrn(reading: CaffeReading) -> CaffeBlob:
    x = reading.map
    size, alpha, beta, k = reading.take_each("local_size", "alpha", "beta", "k")
    if size % 2 == 0:
        raise reading.wrong(f"local_size is {size}, but must be odd")
    across = reading.take("norm_region") == "ACROSS_CHANNELS"
    k = k if across else 1.0  # within a channel, Caffe ignores k
    return reading.add(ops.LocalResponseNorm(size, alpha, beta, k, across), x)


@caffe.reads(
    "Normalize", group="norm_param", settings="across_spatial channel_shared eps", makes=[ops.L2Normalize, ops.Scale],
)  # fmt: skip
def read_normalize(reading: CaffeReading) -> CaffeBlob:
    """SSD's layer: scales to length 1, then each channel by its factor."""
    x = reading.as_plain(reading.input)
    channels = reading.shape(x).channels
    axes = (*PIXELS, Axis.CHANNELS) if reading.take("across_spatial") else (Axis.CHANNELS,)
    (factor,) = reading.constants((1,) if reading.take("channel_shared") else (channels,))
    normal = reading.add(ops.L2Normalize(axes, reading.take("eps")), x, part="length")
    return reading.add(scale_and_shift(channels, factor), normal)


@caffe.reads("MVN", group="mvn_param", settings="across_channels normalize_variance eps", makes=[ops.MeanVarianceNorm])
def read_mvn(reading: CaffeReading) -> CaffeBlob:
    x = reading.as_plain(reading.input)
    axes = (*PIXELS, Axis.CHANNELS) if reading.take("across_channels") else PIXELS
    divides, epsilon = reading.take_each("normalize_variance", "eps")
    return reading.add(ops.MeanVarianceNorm(axes, epsilon, divides=divides, epsilon_outside=True), x)


@caffe.reads("Softmax", group="softmax_param", settings="axis", makes=[ops.Softmax])
def read_softmax(reading: CaffeReading) -> CaffeBlob:
    x = reading.input
    return reading.add(ops.Softmax(reading.axis_of_map(x, reading.axis())), x)


@caffe.reads(
    "ArgMax", group="argmax_param", settings="top_k out_max_val axis", makes=[ops.ArgMax],
    limits="without axis: a batch of one",
)  # fmt: skip
def read_arg_max(reading: CaffeReading) -> CaffeBlob:
    x = reading.input
    count, values = reading.take_each("top_k", "out_max_val")
    if reading.gives("axis"):
        axis = reading.axis()
        op = ops.ArgMax(reading.axis_of_map(x, axis), count, values, last_of_equals=True)
        dims = with_length(x.dims, axis, count)
    else:
        if x.dims[:1] != (1,):
            raise reading.unsupported("the largest elements of each of several samples cannot be found")
        op = ops.ArgMax(None, count, values, last_of_equals=True)
        dims = (1, 2 if values else 1, count, *[1] * (x.rank - 3))
    available = reading.shape(x).size if op.axis is None else reading.shape(x)[op.axis]
    if not 1 <= count <= available:
        raise reading.wrong(f"top_k is {count}, of {available} elements")
    return reading.add(op, x, dims=dims)


@caffe.reads(
    "Reduction", group="reduction_param", settings="axis operation coeff", makes=[ops.Reduce],
    limits="of a batch that is not one or of more than four axes: the last axes only",
)  # fmt: skip
def read_reduction(reading: CaffeReading) -> CaffeBlob:
    """One number for all elements of an axis and those after it."""
    x = reading.input
    first = reading.axis()
    reduction = REDUCTIONS[reading.take("operation")]
    factor = reading.take("coeff")
    after = [axis_of(x.dims, axis) for axis in range(first, x.rank)]
    axes = tuple(axis for axis in after if axis is not None)
    if not is_plain(x.dims) and len(axes) < len(after):
        raise reading.unsupported(f"a reduction of the axes {first} to {x.rank - 1} of {x.rank} cannot be converted")
    return reading.add(ops.Reduce(reduction, axes, factor), x, dims=x.dims[:first])
