"""Runs a graph with numpy: the independent reference of the tests.

Values are maps (height, width, channels), one per node. It does not use the package's own arithmetic:
windows are gathered by slicing, and sums are BLAS products (a SqueezeNet takes half a second in float32).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Shape

Array: TypeAlias = NDArray[np.floating[Any]]
CustomLayer: TypeAlias = Callable[..., Array]

LOWEST = float(np.finfo(np.float32).min)  # the maximum over padding alone


def from_nchw(values: NDArray[Any]) -> Array:
    """A framework's (1, C, H, W) or (1, C) array as a map."""
    batch, channels, *size = values.shape
    assert batch == 1
    return np.ascontiguousarray(values.reshape(channels, *(size or (1, 1))).transpose(1, 2, 0))


def to_chw(values: Array) -> Array:
    """A map as (C, H, W)."""
    return values.transpose(2, 0, 1)


def counted(x: Array, order: ops.Order) -> Array:
    """A map's elements in the given order."""
    assert order is not ops.Order.MEMORY
    return (x if order is ops.Order.HWC else to_chw(x)).reshape(-1)


def uncounted(values: Array, shape: ops.Shape, order: ops.Order) -> Array:
    """The inverse of `counted`."""
    height, width, channels = shape
    if order is ops.Order.HWC:
        return values.reshape(height, width, channels)
    return values.reshape(channels, height, width).transpose(1, 2, 0)


def run(
    graph: Graph,
    inputs: Mapping[str, NDArray[Any]],
    *,
    dtype: DTypeLike = np.float64,
    custom: Mapping[str, CustomLayer] = {},
) -> dict[str, Array]:
    """Every node's value.

    inputs: input name -> (H, W, C). custom: layer type -> function of (*inputs, **parameters).
    """
    values: dict[str, Array] = {}
    for node in graph.nodes:
        if isinstance(node.op, ops.Input):
            value = np.asarray(inputs[node.name])
        elif isinstance(node.op, ops.Custom):
            value = custom[node.op.type](*(values[i] for i in node.inputs), **dict(node.op.parameters))
        else:
            value = execute(node.op, *(values[i] for i in node.inputs))
        assert value.shape == tuple(graph.shape(node.name)), f"{node.name}: {value.shape}, not {graph.shape(node.name)}"
        values[node.name] = value.astype(dtype, copy=False)
    return values


def execute(op: ops.Op, *xs: Array) -> Array:
    """One operator's result, its activation included."""
    match op:
        case ops.Identity():
            result = xs[0]
        case ops.Conv2d():
            result = convolution(op, xs[0])
        case ops.ConvTranspose2d():
            result = transposed_convolution(op, xs[0])
        case ops.Dense():
            weight = op.weight.load().astype(xs[0].dtype)
            result = (weight.reshape(len(weight), -1) @ to_chw(xs[0]).reshape(-1))[None, None]
            result = result if op.bias is None else result + op.bias.load()
        case ops.MaxPool2d():
            result = windows(xs[0], op.window, fill=LOWEST).max(axis=(2, 3))
        case ops.AveragePool2d():
            result = average_pool(op, xs[0])
        case ops.Upsample():
            result = xs[0].repeat(op.factor.height, axis=0).repeat(op.factor.width, axis=1)
        case ops.MaxUnpool():
            result = unpooled(op.window, *xs)
        case ops.BatchNorm():
            result = (xs[0] - op.mean.load()) / np.sqrt(op.variance.load().astype(np.float64) + op.epsilon)
            result = result if op.gamma is None else result * op.gamma.load()
            result = result if op.beta is None else result + op.beta.load()
        case ops.Scale():
            result = xs[0] * op.factor.load()
            result = result if op.shift is None else result + op.shift.load()
        case ops.Activation():
            return activation(op.function, xs[0])
        case ops.Add():
            result = xs[0] + xs[1]
        case ops.Concat():
            result = np.concatenate(xs, axis=op.axis)
        case ops.Pad():
            result = padded(xs[0], op.padding)
        case ops.Reshape():
            result = uncounted(counted(xs[0], op.order), op.shape, op.order)
        case ops.ArraySoftmax(dims=dims, axis=axis):
            array = xs[0].reshape(dims)
            e = np.exp(array - array.max(axis=axis, keepdims=True))
            result = (e / e.sum(axis=axis, keepdims=True)).reshape(xs[0].shape)
        case ops.Softmax():
            powers = np.exp(xs[0] - xs[0].max(axis=op.axis, keepdims=True))
            result = powers / powers.sum(axis=op.axis, keepdims=True)
        case ops.Unary():
            result = apply(op.function, xs[0])
        case ops.Binary():
            result = BINARY_OPS[op.operation](xs[0], xs[1])
        case ops.LocalResponseNorm():
            result = local_response_norm(op, xs[0])
        case ops.MeanVarianceNorm():
            result = standardized(op, xs[0])
        case ops.L2Normalize():
            total = np.square(xs[0]).sum(axis=op.axes, keepdims=True)
            result = xs[0] / np.sqrt(np.maximum(total, op.epsilon) if op.at_least else total + op.epsilon)
        case ops.Reduce():
            result = REDUCTIONS[op.reduction](xs[0], op.axes) * op.factor
        case ops.ArgMax():
            result = largest(op, xs[0])
        case ops.Resize():
            result = resized(op, xs[0])
        case ops.Crop():
            rows, columns, channels = map(slice, op.start, op.stop, op.stride)
            result = xs[0][rows, columns, channels]
        case ops.TransposeReshape():
            result = uncounted(counted(xs[0], op.order).reshape(op.dims).transpose(op.axes), op.shape, op.order)
        case ops.SpaceToDepth():
            zeros = ops.Padding(*(max(0, side) for side in op.padding))
            (height, width, _), (bh, bw) = op.output_shape(Shape(*xs[0].shape)), op.block
            x = padded(xs[0], zeros)[: height * bh, : width * bw]
            result = np.concatenate([x[i::bh, j::bw] for i in range(bh) for j in range(bw)], axis=2)
        case ops.PriorBox():
            result = prior_boxes(op)
        case ops.DetectionOutput():
            result = detections(op, *xs)
        case _:
            raise NotImplementedError(type(op).__name__)
    function: ops.Function | None = getattr(op, "activation", None)
    return result if function is None else activation(function, result)


def activation(function: ops.Function, x: Array) -> Array:
    match function:
        case ops.Relu(slope=slope):
            return np.maximum(x, 0) + slope * np.minimum(x, 0)
        case ops.Relu6():
            return np.clip(x, 0, 6)
        case ops.PRelu(slopes=slopes):
            return np.maximum(x, 0) + slopes.load() * np.minimum(x, 0)
        case ops.Elu():
            return np.maximum(x, 0) + np.expm1(np.minimum(x, 0))
        case ops.Sigmoid():
            sigmoid: Array = 1 / (1 + np.exp(-x))
            return sigmoid
        case ops.Tanh():
            tanh: Array = np.tanh(x)
            return tanh
        case _:
            raise NotImplementedError(type(function).__name__)


def padded(x: Array, padding: ops.Padding, fill: float = 0.0) -> Array:
    return np.pad(x, ((padding.top, padding.bottom), (padding.left, padding.right), (0, 0)), constant_values=fill)


def windows(x: Array, window: ops.Window, *, fill: float = 0.0) -> Array:
    """The contents of every window: (out height, out width, kernel height, kernel width, C)."""
    x = padded(x, window.padding, fill)
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.stride, window.dilation
    height, width = (x.shape[0] - (kh - 1) * dh - 1) // sh + 1, (x.shape[1] - (kw - 1) * dw - 1) // sw + 1
    columns = np.empty((height, width, kh, kw, x.shape[2]), x.dtype)
    for i in range(kh):
        for j in range(kw):
            top, left = i * dh, j * dw
            columns[:, :, i, j] = x[top : top + (height - 1) * sh + 1 : sh, left : left + (width - 1) * sw + 1 : sw]
    return columns


def convolution(op: ops.Conv2d, x: Array) -> Array:
    weight = op.weight.load().astype(x.dtype)
    out, per_group, kh, kw = weight.shape
    columns = windows(x, op.window)
    height, width = columns.shape[:2]
    columns = columns.reshape(height * width, kh * kw, op.groups, per_group)
    kernels = weight.reshape(op.groups, out // op.groups, per_group, kh * kw)
    results = [
        columns[:, :, g].reshape(height * width, -1) @ kernels[g].transpose(2, 1, 0).reshape(-1, out // op.groups)
        for g in range(op.groups)
    ]
    result: Array = np.concatenate(results, axis=1).reshape(height, width, out)
    return result if op.bias is None else result + op.bias.load()


def transposed_convolution(op: ops.ConvTranspose2d, x: Array) -> Array:
    weight = op.weight.load().astype(x.dtype)
    out, per_group, kh, kw = weight.shape
    (sh, sw), (dh, dw), pad = op.window.stride, op.window.dilation, op.window.padding
    height, width, _ = x.shape
    full = np.zeros(
        ((height - 1) * sh + op.window.extent.height + op.output_padding.height,
         (width - 1) * sw + op.window.extent.width + op.output_padding.width, out), x.dtype)  # fmt: skip
    for g in range(op.groups):
        source = x[:, :, g * per_group : (g + 1) * per_group]
        rows = slice(g * out // op.groups, (g + 1) * out // op.groups)
        for i in range(kh):
            for j in range(kw):
                top, left = i * dh, j * dw
                target = full[top : top + (height - 1) * sh + 1 : sh, left : left + (width - 1) * sw + 1 : sw, rows]
                target += source @ weight[rows, :, i, j].T
    result = full[pad.top : full.shape[0] - pad.bottom, pad.left : full.shape[1] - pad.right]
    return result if op.bias is None else result + op.bias.load()


def average_pool(op: ops.AveragePool2d, x: Array) -> Array:
    window = op.window._replace(padding=op.window.padding + op.uncounted)
    sums: Array = windows(x, window).sum(axis=(2, 3))
    if op.factor is not None:
        return sums * op.factor
    counted = padded(np.ones((*x.shape[:2], 1)), op.window.padding, fill=1.0)
    counts: Array = windows(padded(counted, op.uncounted), op.window._replace(padding=ops.NO_PADDING)).sum(axis=(2, 3))
    return sums / counts


def unpooled(window: ops.Window, values: Array, pooled: Array) -> Array:
    """Values where the first maxima of their windows are, window by window."""
    (kernel, stride, dilation, pad), result = window, np.zeros_like(pooled)
    around = padded(pooled, pad, -np.inf)
    for y, x, c in np.ndindex(values.shape):
        top, left = y * stride.height, x * stride.width
        seen = around[top :: dilation.height, left :: dilation.width, c][: kernel.height, : kernel.width]
        row, column = np.unravel_index(seen.argmax(), seen.shape)  # the first, row by row
        result[top + row * dilation.height - pad.top, left + column * dilation.width - pad.left, c] = values[y, x, c]
    return result


def apply(function: ops.ScalarFunction, x: Array) -> Array:
    """A function of one number, on every element."""
    result: Array
    match function:
        case ops.Swish(beta=beta):
            result = x / (1 + np.exp(-beta * x))
        case ops.HardSigmoid(slope=slope, shift=shift):
            result = np.clip(slope * x + shift, 0, 1)
        case ops.HardSwish():
            result = x * np.clip(x + 3, 0, 6) / 6
        case ops.Gelu(by_tanh=True):
            result = x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        case ops.Gelu():
            result = x / 2 * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))
        case ops.Mish():
            result = x * np.tanh(np.logaddexp(0, x))
        case ops.Softplus():
            result = np.logaddexp(0, x)
        case ops.Softsign():
            result = x / (1 + np.abs(x))
        case ops.ScaledElu(alpha=alpha, scale=scale):
            result = scale * (np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0)))
        case ops.Exponential(scale=scale, shift=shift):
            result = np.exp(scale * x + shift)
        case ops.Logarithm(factor=factor, scale=scale, shift=shift):
            result = factor * np.log(scale * x + shift)
        case ops.Power(power=power, scale=scale, shift=shift):
            result = (scale * x + shift) ** power
        case ops.Absolute():
            result = np.abs(x)
        case ops.Threshold(threshold=threshold):
            result = (x > threshold).astype(x.dtype)
        case ops.Clip(low=low, high=high):
            result = np.clip(x, low, high)
        case ops.BoundedRelu(slope=slope, threshold=threshold, high=high):
            result = np.where(x > threshold, np.minimum(x, high), slope * (x - threshold))
        case _:
            raise NotImplementedError(type(function).__name__)
    return result


BINARY_OPS: Mapping[ops.BinaryOp, Callable[[Array, Array], Array]] = {
    ops.BinaryOp.ADD: np.add,
    ops.BinaryOp.SUBTRACT: np.subtract,
    ops.BinaryOp.MULTIPLY: np.multiply,
    ops.BinaryOp.DIVIDE: np.divide,
    ops.BinaryOp.MAXIMUM: np.maximum,
    ops.BinaryOp.MINIMUM: np.minimum,
}
REDUCTIONS: Mapping[ops.Reduction, Callable[[Array, tuple[int, ...]], Array]] = {
    ops.Reduction.SUM: lambda x, axes: x.sum(axes, keepdims=True),
    ops.Reduction.MEAN: lambda x, axes: x.mean(axes, keepdims=True),
    ops.Reduction.MAXIMUM: lambda x, axes: x.max(axes, keepdims=True),
    ops.Reduction.MINIMUM: lambda x, axes: x.min(axes, keepdims=True),
    ops.Reduction.SUM_OF_MAGNITUDES: lambda x, axes: np.abs(x).sum(axes, keepdims=True),
    ops.Reduction.SUM_OF_SQUARES: lambda x, axes: np.square(x).sum(axes, keepdims=True),
}


def local_response_norm(op: ops.LocalResponseNorm, x: Array) -> Array:
    reach, squares = op.size // 2, np.square(x)
    if op.across_channels:
        wide = np.pad(squares, ((0, 0), (0, 0), (reach, reach)))
        sums = sum(wide[:, :, i : i + x.shape[2]] for i in range(op.size))
        count = op.size
    else:
        around = ops.Padding(reach, reach, reach, reach)
        sums = windows(squares, ops.Window(ops.Pair(op.size, op.size), padding=around)).sum(axis=(2, 3))
        count = op.size**2
    result: Array = x / (op.bias + op.alpha / count * sums) ** op.beta
    return result


def standardized(op: ops.MeanVarianceNorm, x: Array) -> Array:
    height, width, channels = x.shape
    grouped = x.reshape(height, width, op.groups, channels // op.groups)
    # Without the channels among the axes there is one group, and a channel stays alone.
    axes = tuple({ops.Axis.HEIGHT: 0, ops.Axis.WIDTH: 1, ops.Axis.CHANNELS: 3}[axis] for axis in op.axes)
    result: Array = grouped - grouped.mean(axes, keepdims=True)
    if op.divides:
        variance = np.square(result).mean(axes, keepdims=True)
        result = result / (np.sqrt(variance) + op.epsilon if op.epsilon_outside else np.sqrt(variance + op.epsilon))
    return result.reshape(height, width, channels)


def largest(op: ops.ArgMax, x: Array) -> Array:
    lines = (
        to_chw(x).reshape(-1)[:, None] if op.axis is None else np.moveaxis(x, op.axis, 0).reshape(x.shape[op.axis], -1)
    )
    places, values = np.empty((op.count, lines.shape[1])), np.empty((op.count, lines.shape[1]))
    for column, line in enumerate(lines.T.tolist()):
        best = sorted(range(len(line)), key=lambda i: (-line[i], -i if op.last_of_equals else i))[: op.count]
        places[:, column], values[:, column] = best, [line[i] for i in best]
    if op.axis is None:
        return np.stack([places, values][: 2 if op.values else 1], axis=2)
    rest = [n for axis, n in enumerate(x.shape) if axis != op.axis]
    return np.moveaxis((values if op.values else places).reshape(op.count, *rest), 0, op.axis)


def resized(op: ops.Resize, x: Array) -> Array:
    for axis, size in enumerate(op.size):
        old, i = x.shape[axis], np.arange(size)
        match op.sampling:
            case ops.Sampling.HALF_PIXEL:
                places = (i + 0.5) * old / size - 0.5
            case ops.Sampling.CORNERS:
                places = i * (old - 1) / (size - 1) if size > 1 else i * 0.0
            case ops.Sampling.ASYMMETRIC:
                places = i * old / size
        if op.interpolation is ops.Interpolation.NEAREST:
            rounds = op.sampling is not ops.Sampling.ASYMMETRIC
            x = x.take(np.clip(np.floor(places + 0.5 if rounds else places), 0, old - 1).astype(int), axis)
        else:
            places = np.clip(places, 0, old - 1)
            below = np.floor(places).astype(int)
            part = (places - below).reshape([-1 if a == axis else 1 for a in range(3)])
            x = x.take(below, axis) * (1 - part) + x.take(np.minimum(below + 1, old - 1), axis) * part
    return x


def prior_boxes(op: ops.PriorBox) -> Array:
    sizes: list[tuple[float, float]] = []
    for index, size in enumerate(op.min_sizes):
        sizes.append((size, size))
        if op.max_sizes:
            sizes.append((math.sqrt(size * op.max_sizes[index]),) * 2)
        sizes += [(size / math.sqrt(ratio), size * math.sqrt(ratio)) for ratio in op.aspect_ratios]
    boxes = []
    for row in range(op.map_size.height):
        for column in range(op.map_size.width):
            y, x = (row + op.offset) * op.step_height, (column + op.offset) * op.step_width
            for height, width in sizes:
                boxes += [(x - width / 2) / op.image_size.width, (y - height / 2) / op.image_size.height,
                          (x + width / 2) / op.image_size.width, (y + height / 2) / op.image_size.height]  # fmt: skip
    coordinates = np.clip(boxes, 0, 1) if op.clip else np.array(boxes)
    return np.stack([coordinates, np.tile(op.variance, len(boxes) // 4)], axis=1)[:, None]


def detections(op: ops.DetectionOutput, locations: Array, confidences: Array, priors: Array) -> Array:
    variances = priors[:, 0, 1].reshape(-1, 4)
    corners = priors[:, 0, 0].reshape(-1, 4)
    scores = to_chw(confidences).reshape(len(corners), op.classes)
    moves = to_chw(locations).reshape(len(corners), -1, 4)
    found = []
    for label in set(range(op.classes)) - {op.background}:
        boxes = [
            decoded_box(op, corner, move[0 if op.share_location else label], variance)
            for corner, move, variance in zip(corners, moves, variances, strict=True)
        ]
        found += [(float(scores[i, label]), label, boxes[i]) for i in suppressed(op, boxes, scores[:, label])]
    if op.keep_top_k >= 0:
        found = sorted(found, key=lambda detection: -detection[0])[: op.keep_top_k]
    result = np.zeros((op.output_shape(*(ops.Shape(*x.shape) for x in (locations, confidences, priors))).height, 7, 1))
    result[len(found) :, 0] = -1
    if not found:
        result[0, :, 0] = (0, *[-1] * 6)
    for row, (score, label, box) in enumerate(sorted(found, key=lambda detection: detection[1])):
        result[row, :, 0] = (0, label, score, *box)
    return result


def decoded_box(op: ops.DetectionOutput, corner: Array, move: Array, variance: Array) -> Array:
    """left, top, right, bottom of the box encoded by a location and a prior box."""
    if not op.variance_encoded:
        move = move * variance
    size = corner[2:] - corner[:2]
    match op.code:
        case ops.BoxCode.CORNER:
            return corner + move
        case ops.BoxCode.CORNER_SIZE:
            moved: Array = corner + move * np.concatenate([size, size])
            return moved
        case ops.BoxCode.CENTER_SIZE:
            middle, new = (corner[:2] + corner[2:]) / 2 + move[:2] * size, np.exp(move[2:]) * size
            box: Array = np.concatenate([middle - new / 2, middle + new / 2])
            return box


def suppressed(op: ops.DetectionOutput, boxes: list[Array], scores: Array) -> list[int]:
    """The indices of the remaining boxes of a class, by descending confidence."""
    candidates = sorted(np.flatnonzero(scores > op.confidence_threshold).tolist(), key=lambda i: -float(scores[i]))
    kept: list[int] = []
    threshold = op.nms_threshold
    for i in candidates if op.top_k < 0 else candidates[: op.top_k]:
        if all(overlap(boxes[i], boxes[j]) <= threshold for j in kept):
            kept.append(i)
            threshold *= op.eta if op.eta < 1 and threshold > 0.5 else 1
    return kept


def overlap(a: Array, b: Array) -> float:
    """Intersection over union."""
    common = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if min(common) <= 0:
        return 0.0
    areas = [float(np.prod(box[2:] - box[:2])) if (box[2:] >= box[:2]).all() else 0.0 for box in (a, b)]
    return float(np.prod(common)) / (sum(areas) - float(np.prod(common)))
