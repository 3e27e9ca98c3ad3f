"""Layers that measure an input: its statistics, its largest elements; and those that scale it by what they measure."""

from __future__ import annotations

from cnn_convertor.frontends.caffe.blobs import axis_of, is_plain, with_length
from cnn_convertor.frontends.caffe.reading import Reading, Value, caffe, for_all
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Axis, Reduction

PIXELS = (Axis.HEIGHT, Axis.WIDTH)
REDUCTIONS = {
    "SUM": Reduction.SUM,
    "ASUM": Reduction.SUM_OF_MAGNITUDES,
    "SUMSQ": Reduction.SUM_OF_SQUARES,
    "MEAN": Reduction.MEAN,
}


@caffe.reads("LRN")
def read_lrn(reading: Reading) -> Value:
    x = reading.map
    parameters = reading.parameters("lrn_param")
    size, alpha, beta, k = (parameters.take(name) for name in ("local_size", "alpha", "beta", "k"))
    if size % 2 == 0:
        raise reading.wrong(f"local_size is {size}, but must be odd")
    across = parameters.take("norm_region") == "ACROSS_CHANNELS"
    return reading.add(
        ops.LocalResponseNorm(size, alpha, beta, k if across else 1.0, across), x
    )  # within: k is ignored


@caffe.reads("Normalize")
def read_normalize(reading: Reading) -> Value:
    """SSD's layer: the length is made 1, then each channel has its factor."""
    x = reading.as_plain(reading.input)
    parameters = reading.parameters("norm_param")
    channels = reading.shape(x).channels
    axes = (Axis.HEIGHT, Axis.WIDTH, Axis.CHANNELS) if parameters.take("across_spatial") else (Axis.CHANNELS,)
    (factor,) = reading.constants((1,) if parameters.take("channel_shared") else (channels,))
    normal = reading.add(ops.L2Normalize(axes, parameters.take("eps")), x, name=f"{reading.layer.name}/length")
    return reading.add(ops.Scale(for_all(factor, channels)), normal)


@caffe.reads("MVN")
def read_mvn(reading: Reading) -> Value:
    x = reading.as_plain(reading.input)
    parameters = reading.parameters("mvn_param")
    axes = (*PIXELS, Axis.CHANNELS) if parameters.take("across_channels") else PIXELS
    divides, epsilon = parameters.take("normalize_variance"), parameters.take("eps")
    return reading.add(ops.MeanVarianceNorm(axes, epsilon, divides=divides, epsilon_outside=True), x)


@caffe.reads("Softmax")
def read_softmax(reading: Reading) -> Value:
    x = reading.input
    axis = reading.axis(reading.parameters("softmax_param"))
    return reading.add(ops.Softmax(reading.axis_of_map(x, axis)), x)


@caffe.reads("ArgMax")
def read_arg_max(reading: Reading) -> Value:
    x = reading.input
    parameters = reading.parameters("argmax_param")
    count, values = parameters.take("top_k"), parameters.take("out_max_val")
    if "axis" in parameters:
        axis = reading.axis(parameters)
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


@caffe.reads("Reduction")
def read_reduction(reading: Reading) -> Value:
    """One number for all elements of an axis and those behind it."""
    x = reading.input
    parameters = reading.parameters("reduction_param")
    first = reading.axis(parameters)
    reduction, factor = REDUCTIONS[parameters.take("operation")], parameters.take("coeff")
    behind = [axis_of(x.dims, axis) for axis in range(first, x.rank)]
    axes = tuple(axis for axis in behind if axis is not None)
    if not is_plain(x.dims) and len(axes) < len(behind):
        raise reading.unsupported(f"a reduction of the axes {first} to {x.rank - 1} of {x.rank} cannot be converted")
    return reading.add(ops.Reduce(reduction, axes, factor), x, dims=x.dims[:first])
