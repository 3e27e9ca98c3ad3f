"""Decomposes convolutions that the device lacks: groups, dilations, large kernels and wide padding."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.memory.memory_layout import CHUNK
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array, Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import NO_PADDING, ONE, Order, Padding, Pair, Shape, Window

_Grouped: TypeAlias = ops.Conv2d | ops.ConvTranspose2d
Rule: TypeAlias = Callable[[Graph, Node, Limits], "Iterable[Node] | None"]

_DENSE = 64  # channels of a slice whose depthwise kernels become dense: the device reads weights of 64 input channels at once


def groups(graph: Graph, node: Node, device: Device, *, dilates_depthwise: bool) -> Iterable[Node] | None:
    """Split groups into convolutions of a few groups, which fill whole chunks of channels: their slices are views.

    Each slice has as many groups as take the least time: more mean fewer commands, and more zeros in their dense kernels.
    dilates_depthwise: whether commands may have dilated depthwise convolutions. Otherwise `dense_kernels` gives the slices of
    those dense kernels, so a slice has few channels.
    """
    op = node.op
    if not isinstance(op, ops.Conv2d | ops.ConvTranspose2d) or op.groups == 1:
        return None
    out, per_group = op.weight.shape[0], op.weight.shape[1]
    most, window = device.limits.max_kernel_size, op.window
    if op.is_depthwise:
        if dilates_depthwise or window.dilation == ONE or max(window.extent) <= most or max(window.kernel) > most:
            return None  # dense_kernels fills the last two with zeros
        together = _DENSE
    else:
        least = math.lcm(*(CHUNK // math.gcd(CHUNK, n) for n in (per_group, out // op.groups)))
        if op.groups % least:
            return None
        together = _fastest(graph, node, device, least) if max(window.kernel) <= most else least
    if op.groups <= together:
        return None
    parts: list[Node] = []
    for index, first in enumerate(range(0, op.groups, together)):
        last = min(first + together, op.groups)
        channels = slice(first * per_group, last * per_group)
        x = graph.shape(node.inputs[0])
        part = replace(node, name=graph.fresh(f"{node.name}/slice{index}"), op=_channels(x, channels))
        parts += (
            part,
            replace(
                node,
                name=graph.fresh(f"{node.name}/group{index}"),
                op=_groups_of(op, first, last),
                inputs=(part.name,),
            ),
        )
    return *parts, replace(node, op=ops.Concat(), inputs=tuple(part.name for part in parts[1::2]))


def _groups_of(op: _Grouped, first: int, last: int) -> _Grouped:
    """The convolution of some of its groups."""
    per_group = op.weight.shape[0] // op.groups
    return replace(ops.with_outputs(op, np.arange(first * per_group, last * per_group)), groups=last - first)


def _fastest(graph: Graph, node: Node, device: Device, least: int) -> int:
    """How many groups, a multiple of `least` that divides them all, to give each slice; the most of equal ones.

    Times are intervals: the sums of both ends are compared.
    """
    op, x = node.op, graph.shape(node.inputs[0])
    assert isinstance(op, ops.Conv2d | ops.ConvTranspose2d)

    def time(together: int) -> tuple[float, int]:
        part = x._replace(channels=x.channels // op.groups * together)
        dense = Node("part", _dense(_groups_of(op, 0, together)), ("x",))
        usec = device.estimate(Graph((Node("x", ops.Input(part)), dense), ("part",)), (dense,)).usec
        return (usec.low + usec.high) * (op.groups // together), -together

    return min((n for n in range(least, op.groups + 1, least) if op.groups % n == 0), key=time)


def _dense(op: _Grouped) -> _Grouped:
    return replace(op, weight=ungrouped(op.weight, op.groups), groups=1)


def _channels(x: Shape, channels: slice) -> ops.Crop:
    return ops.Crop(Shape(0, 0, channels.start), Shape(x.height, x.width, channels.stop))


def dense_kernels(graph: Graph, node: Node, limits: Limits, *, dilates_depthwise: bool) -> Iterable[Node] | None:
    """Turn groups into a block-diagonal kernel, and dilations that the device refuses into zeros in the kernel.

    dilates_depthwise: whether commands may have dilated depthwise convolutions.
    """
    op = node.op
    if not isinstance(op, ops.Conv2d | ops.ConvTranspose2d):
        return None
    kernel, dilation = op.window.kernel, op.window.dilation
    window = op.window._replace(dilation=Pair(*(1 if k == 1 else d for k, d in zip(kernel, dilation, strict=True))))
    if isinstance(op, ops.Conv2d):
        window = _padded_for_any_stride(window, graph.shape(node.inputs[0]), graph.shape(node.name), limits)
    weight, groups = op.weight, op.groups
    fits, small = (max(size) <= limits.max_kernel_size for size in (window.extent, window.kernel))
    is_refused = op.is_depthwise and window.dilation != ONE and not dilates_depthwise
    if groups > 1 and (not op.is_depthwise or (is_refused and small and not fits)):
        weight, groups = ungrouped(weight, groups), 1
    if window.dilation != ONE and (
        (fits and (is_refused or not dilation_runs(op, window, graph.shape(node.inputs[0]))))
        or (not small and isinstance(op, ops.Conv2d))  # large_kernels splits it
    ):
        weight = _with_holes(weight, window)
        window = window._replace(kernel=window.extent, dilation=ONE)
    if (groups, window) == (op.groups, op.window):
        return None
    return (replace(node, op=replace(op, weight=weight, window=window, groups=groups)),)


def dilation_runs(op: ops.Conv2d | ops.ConvTranspose2d, window: Window, x: Shape) -> bool:
    """Whether the device runs the dilation: odd kernels, output * stride == input; deconvolution: stride 1.

    User drivers before 2019-12-23 compute the output with stride 1 there: it must be as large as the input, too.
    """
    if window.dilation == ONE:
        return True
    odd = all(k % 2 for k in window.kernel)
    out = op.output_shape(x)
    if isinstance(op, ops.ConvTranspose2d):
        return odd and window.stride == ONE and out[:2] == x[:2]
    whole = (out.height * window.stride.height, out.width * window.stride.width) == (x.height, x.width)
    return odd and whole and window._replace(stride=ONE).slide(x, channels=1)[:2] == x[:2]


def _padded_for_any_stride(window: Window, x: Shape, out: Shape, limits: Limits) -> Window:
    """A dilated window with the padding at the bottom and right that makes its output as large as the input with stride 1.

    With its own stride it has the same output: the added rows and columns are less than a stride, and no window reaches them.
    """
    pad = window.padding
    extent = window.extent
    stride = window.stride
    if window.dilation == ONE or (out.height * stride.height, out.width * stride.width) != x[:2]:
        return window
    bottom, right = extent.height - 1 - pad.top, extent.width - 1 - pad.left
    is_too_wide = max(bottom, right) > limits.max_padding_right_bottom
    if is_too_wide or (not limits.pads_beyond_map and (bottom > x.height or right > x.width)):
        return window
    return window._replace(padding=Padding(pad.top, bottom, pad.left, right))


def ungrouped(weight: Constant, groups: int) -> Constant:
    """Kernels (O, I / groups, ...) as a block-diagonal (O, I, ...)."""
    if groups == 1:
        return weight
    out, per_group, *kernel = weight.shape
    channels = per_group * groups

    def spread(values: Array, rows: slice) -> Array:
        dense = np.zeros((len(values), channels, *kernel), np.float32)
        group = np.arange(rows.start, rows.stop) // (out // groups)
        for g in np.unique(group):
            dense[group == g, g * per_group : (g + 1) * per_group] = values[group == g]
        return dense

    return weight.map_rows_with(spread, (channels, *kernel))


def _with_holes(weight: Constant, window: Window) -> Constant:
    channels = weight.shape[1]
    dilation = window.dilation
    if dilation == ONE:
        return weight

    def spread(values: Array) -> Array:
        wide = np.zeros((len(values), channels, *window.extent), np.float32)
        wide[:, :, :: dilation.height, :: dilation.width] = values
        return wide

    return weight.map_rows(spread, (channels, *window.extent))


def dilations(graph: Graph, node: Node, limits: Limits) -> Iterable[Node] | None:
    """Run a dilated convolution that is too large with zeros filled in as a "same" convolution, and crop its output."""
    op = node.op
    if not isinstance(op, ops.Conv2d) or max(op.window.kernel) > limits.max_kernel_size:
        return None
    x = graph.shape(node.inputs[0])
    if dilation_runs(op, op.window, x) or max(op.window.extent) <= limits.max_kernel_size:
        return None
    weight, kernel = op.weight, Pair(*(k | 1 for k in op.window.kernel))
    if kernel != op.window.kernel:
        weight = _grown(weight, _behind(op.window.kernel, kernel))
    window = op.window._replace(kernel=kernel, stride=ONE)
    around = Padding(*(e // 2 for e in (window.extent.height,) * 2 + (window.extent.width,) * 2))
    out = graph.shape(node.name)
    stride = op.window.stride
    pad = op.window.padding
    more = Padding(
        max(0, pad.top - around.top),
        max(0, (out.height - 1) * stride.height - pad.top + around.top + 1 - x.height),
        max(0, pad.left - around.left),
        max(0, (out.width - 1) * stride.width - pad.left + around.left + 1 - x.width),
    )
    nodes = []
    source = node.inputs
    if more != NO_PADDING:
        nodes.append(replace(node, name=graph.fresh(f"{node.name}/padded"), op=ops.Pad(more)))
        source = (nodes[-1].name,)
    same = replace(op, weight=weight, window=window._replace(padding=around))
    nodes.append(replace(node, name=graph.fresh(f"{node.name}/same"), op=same, inputs=source))
    start = Shape(around.top + more.top - pad.top, around.left + more.left - pad.left, 0)
    stop = Shape(
        start.height + (out.height - 1) * stride.height + 1,
        start.width + (out.width - 1) * stride.width + 1,
        out.channels,
    )
    part = ops.Crop(start, stop, Shape(*stride, 1))
    return *nodes, replace(node, op=part, inputs=(nodes[-1].name,))


def _behind(size: Pair, goal: Pair) -> Padding:
    """The rows and columns missing at the bottom and on the right."""
    return Padding(0, goal.height - size.height, 0, goal.width - size.width)


def _grown(weight: Constant, zeros: Padding) -> Constant:
    """Kernels with zeros around them."""
    _, channels, height, width = weight.shape
    return weight.map_rows(
        lambda rows: np.pad(rows, ((0, 0), (0, 0), (zeros.top, zeros.bottom), (zeros.left, zeros.right))),
        (channels, height + zeros.top + zeros.bottom, width + zeros.left + zeros.right),
    )


def strided_kernels(graph: Graph, node: Node, limits: Limits) -> Iterable[Node] | None:
    """Turn blocks of stride x stride pixels into channels, which divides a large strided kernel by its stride.

    11x11 with stride 4 on 3 channels becomes 3x3 with stride 1 on 48. large_kernels splits what is still too large.
    """
    op = node.op
    if not isinstance(op, ops.Conv2d) or op.is_depthwise or op.groups != 1 or op.window.dilation != ONE:
        return None
    kernel = op.window.kernel
    stride = op.window.stride
    pad = op.window.padding
    small = Pair(*(-(-k // s) for k, s in zip(kernel, stride, strict=True)))
    if max(kernel) <= limits.max_kernel_size or small == kernel:
        return None
    x, out = graph.shape(node.inputs[0]), graph.shape(node.name)
    rows, columns = ((n + k - 1) * s for n, k, s in zip(out[:2], small, stride, strict=True))
    blocks = ops.SpaceToDepth(
        stride, Padding(pad.top, rows - x.height - pad.top, pad.left, columns - x.width - pad.left)
    )
    weight = _grown(op.weight, _behind(kernel, Pair(small.height * stride.height, small.width * stride.width)))
    channels = x.channels * math.prod(stride)

    def spread(values: Array) -> Array:
        cut = values.reshape(len(values), x.channels, small.height, stride.height, small.width, stride.width)
        return cut.transpose(0, 3, 5, 1, 2, 4).reshape(len(values), channels, *small)

    first = replace(node, name=graph.fresh(f"{node.name}/blocks"), op=blocks)
    weight = weight.map_rows(spread, (channels, *small))
    return first, replace(node, op=replace(op, weight=weight, window=Window(small)), inputs=(first.name,))


def deconvolutions(graph: Graph, node: Node, limits: Limits) -> Iterable[Node] | None:
    """Turn a deconvolution that no command has into a convolution whose channels are the stride x stride pixels of each place.

    Output pixel q * stride + r is the sum over t of x[q - t] * kernel[r + t * stride]: for each r a small convolution.
    large_kernels splits what is still too large. Output padding beyond the reach of the kernel has places of its own.
    """
    op = node.op
    if not isinstance(op, ops.ConvTranspose2d):
        return None
    x, out = graph.shape(node.inputs[0]), graph.shape(node.name)
    if _deconvolution_runs(op, x, out, limits):
        return None
    kernel = op.window.extent
    stride = op.window.stride
    pad = op.window.padding
    small = Pair(*(-(-k // s) for k, s in zip(kernel, stride, strict=True)))
    part = ops.Crop(Shape(pad.top, pad.left, 0), Shape(pad.top + out.height, pad.left + out.width, out.channels))
    places = Pair(
        max(x.height + small.height - 1, -(-part.stop.height // stride.height)),
        max(x.width + small.width - 1, -(-part.stop.width // stride.width)),
    )
    pixels = Shape(places.height * stride.height, places.width * stride.width, out.channels)
    around = Padding(small.height - 1, places.height - x.height, small.width - 1, places.width - x.width)
    index = np.arange(out.channels).repeat(math.prod(stride))
    convolution = ops.Conv2d(
        _phases(_with_holes(op.weight, op.window), kernel, small, stride),
        None if op.bias is None else op.bias.take_rows(index),
        Window(small, padding=around),
        op.groups,
        None if op.activation is None else ops.for_channels(op.activation, index),
    )
    nodes = [replace(node, name=graph.fresh(f"{node.name}/places"), op=convolution)]
    if stride != ONE:
        dims = (*places, out.channels, *stride)
        spread = ops.TransposeReshape(dims, (0, 3, 1, 4, 2), pixels, Order.HWC)
        name = graph.fresh(f"{node.name}/pixels")
        nodes.append(replace(node, name=name, op=spread, inputs=(nodes[-1].name,)))
    if pixels == out:
        return *nodes[:-1], replace(nodes[-1], name=node.name)
    return *nodes, replace(node, op=part, inputs=(nodes[-1].name,))


def _deconvolution_runs(op: ops.ConvTranspose2d, x: Shape, out: Shape, limits: Limits) -> bool:
    """Whether a command can have the deconvolution, perhaps with zeros between the taps of its kernel."""
    window = op.window
    reach = op.window.extent
    pad = op.input_padding
    if not (limits.deconvolves and limits.holds(x) and limits.holds(out) and max(window.stride) <= limits.max_stride):
        return False
    if any(not 0 <= value <= most for value, most in zip(pad, limits.largest_padding, strict=True)):
        return False
    if max(reach) <= limits.max_kernel_size:
        return True
    fits = max(window.kernel) <= limits.max_kernel_size and max(window.dilation) <= limits.max_dilation
    return fits and dilation_runs(op, window, x)


def _phases(weight: Constant, kernel: Pair, small: Pair, stride: Pair) -> Constant:
    """(O, I / groups, h, w) to (O * stride * stride, I / groups, small h, small w), rotated for a convolution."""
    grown = _grown(weight, _behind(kernel, Pair(small.height * stride.height, small.width * stride.width)))
    out, channels, *_ = weight.shape
    count = math.prod(stride)

    def read(rows: slice) -> Array:
        first, last = rows.start // count, -(-rows.stop // count)
        values = grown.load(slice(first, last))
        cut = values.reshape(last - first, channels, small.height, stride.height, small.width, stride.width)
        turned = cut[:, :, ::-1, :, ::-1].transpose(0, 3, 5, 1, 2, 4).reshape(-1, channels, *small)
        return turned[rows.start - first * count : rows.stop - first * count]

    return Constant((out * count, channels, *small), read)


class _Piece(NamedTuple):
    """Rows (or columns) first to end - 1 of a kernel, with zeros around them, and the padding of their convolution."""

    first: int
    end: int
    zeros_before: int
    zeros_after: int
    before: int
    after: int

    @property
    def size(self) -> int:
        return self.zeros_before + self.end - self.first + self.zeros_after


def large_kernels(graph: Graph, node: Node, limits: Limits) -> Iterable[Node] | None:
    """Split a large kernel into a sum of smaller ones, each moved by its padding.

    If the padding is too small for that, there is more of it, and the output is cropped.
    """
    op = node.op
    most = limits.max_kernel_size
    if not isinstance(op, ops.Conv2d) or op.window.dilation != ONE or max(op.window.kernel) <= most:
        return None
    (height, width), stride, pad = op.window.kernel, op.window.stride, op.window.padding
    above, vertical = _pieces(height, stride.height, pad.top, pad.bottom, most)
    left, horizontal = _pieces(width, stride.width, pad.left, pad.right, most)
    pieces = [(rows, columns) for rows in vertical for columns in horizontal]
    parts = [_part(op, rows, columns, with_bias=index == 0) for index, (rows, columns) in enumerate(pieces)]
    nodes = [replace(node, name=graph.fresh(f"{node.name}/part0"), op=parts[0])]
    for index, part in enumerate(parts[1:], 1):
        other = replace(node, name=graph.fresh(f"{node.name}/part{index}"), op=part)
        add = ops.Add(op.activation if part is parts[-1] else None)
        name = graph.fresh(f"{node.name}/sum{index}")
        nodes += (other, replace(node, name=name, op=add, inputs=(nodes[-1].name, other.name)))
    out = graph.shape(node.name)
    if parts[0].output_shape(graph.shape(node.inputs[0])) == out:
        return *nodes[:-1], replace(nodes[-1], name=node.name)
    crop = ops.Crop(Shape(above, left, 0), Shape(above + out.height, left + out.width, out.channels))
    return *nodes, replace(node, op=crop, inputs=(nodes[-1].name,))


def _pieces(size: int, stride: int, before: int, after: int, most: int) -> tuple[int, list[_Piece]]:
    """The pieces of a kernel on one axis, and how many unwanted rows (or columns) they write first.

    Zeros extend a piece so that its padding is not negative. If they would make it too large, there is more padding.
    """
    missing = max(0, size - most - before)
    more = -(-missing // stride)
    before, after = before + more * stride, max(after, size - most)
    pieces = []
    for first in range(0, size, most):
        end = min(first + most, size)
        start, stop = min(first, before), max(end, size - after)
        pieces.append(_Piece(first, end, first - start, stop - end, before - start, after - (size - stop)))
    return more, pieces


def _part(op: ops.Conv2d, rows: _Piece, columns: _Piece, *, with_bias: bool) -> ops.Conv2d:
    """The convolution with one piece of the kernel."""
    weight = op.weight.map_rows(
        lambda w: w[:, :, rows.first : rows.end, columns.first : columns.end],
        (op.weight.shape[1], rows.end - rows.first, columns.end - columns.first),
    )
    zeros = Padding(rows.zeros_before, rows.zeros_after, columns.zeros_before, columns.zeros_after)
    padding = Padding(rows.before, rows.after, columns.before, columns.after)
    return replace(
        op,
        weight=_grown(weight, zeros),
        bias=op.bias if with_bias else None,
        window=Window(Pair(rows.size, columns.size), op.window.stride, ONE, padding),
        activation=None,
    )


def wide_padding(graph: Graph, node: Node, limits: Limits) -> Iterable[Node] | None:
    """Move padding beyond the fields of a command into commands of its own, unless no map can have it.

    The CPU pads maps to a size that no command has, and those that a device may not pad so far.
    """
    most = limits.largest_padding
    match node.op:
        case (
            ops.Conv2d(window=Window(padding=padding))
            | ops.AveragePool2d(window=Window(padding=padding))
            | ops.Pad(padding=padding)
        ):
            pass
        case _:
            return None
    if max(padding) > limits.max_field:
        return None
    x = graph.shape(node.inputs[0])
    fits = limits.holds(graph.shape(node.name)) and x.channels <= limits.max_channels
    is_too_large = isinstance(node.op, ops.Pad) and not fits
    if is_too_large or (not limits.pads_beyond_map and pads_beyond(padding, x)):
        padded = ops.SpaceToDepth(ONE, padding)
        if isinstance(node.op, ops.Pad):
            return (replace(node, op=padded),)
        before = replace(node, name=graph.fresh(f"{node.name}/padded"), op=padded)
        bare = replace(node.op, window=node.op.window._replace(padding=NO_PADDING))
        return before, replace(node, op=bare, inputs=(before.name,))
    kept = Padding(*map(min, padding, most))
    if kept == padding:
        return None
    nodes: list[Node] = []
    names = list(node.inputs)
    left = Padding(*(n - k for n, k in zip(padding, kept, strict=True)))
    while left != NO_PADDING:
        now = Padding(*map(min, left, most))
        nodes.append(
            replace(node, name=graph.fresh(f"{node.name}/padded{len(nodes)}"), op=ops.Pad(now), inputs=tuple(names))
        )
        names = [nodes[-1].name]
        left = Padding(*(n - k for n, k in zip(left, now, strict=True)))
    op = (
        ops.Pad(kept)
        if isinstance(node.op, ops.Pad)
        else replace(node.op, window=node.op.window._replace(padding=kept))
    )
    return *nodes, replace(node, op=op, inputs=tuple(names))


def pads_beyond(pad: Padding, x: Shape | Pair) -> bool:
    """Whether a map has more padding at a side than it has rows or columns."""
    return max(pad.top, pad.bottom) > x.height or max(pad.left, pad.right) > x.width
