"""What the device can do in place of functions of the CPU: small graphs, with what they round."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from cnn_convertor.devices.channel_moves import Channels, as_convolution, channels_of, gather
from cnn_convertor.devices.dv700.commands import joins_in_place
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.legalize.channel_gathers import command_usec, taken_above, usec_below
from cnn_convertor.devices.dv700.legalize.single_operators import single_operators
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.memory.memory_layout import CHUNK
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array, Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import NO_PADDING, ONE, Axis, Op, Padding, Pair, Reduction, Shape, Window
from cnn_convertor.passes.movement import movement_of

FUNCTIONS: Final = (ops.Absolute, ops.Clip, ops.HardSigmoid)  # of single elements, of which some have forms
_SAME: Final = "the same values"
_MOST_WEIGHTS: Final = 1 << 24  # of a convolution of zeros and ones


class DeviceForm(NamedTuple):
    """A way to compute a node on the device. nodes: the last one in its place. usec: the sum of both ends.

    words: what it does; rounding: what it computes differently.
    """

    words: str
    rounding: str
    nodes: tuple[Node, ...]
    usec: float


class _Rewrite(NamedTuple):
    """A form before its cost is known: operators, each with the numbers of what it reads, first the inputs of the node."""

    words: str
    rounding: str
    steps: tuple[_Step, ...]


_Step: TypeAlias = "tuple[Op, tuple[int, ...]]"


class _Maps(NamedTuple):
    """What a node reads and writes, and what the device has room for."""

    reads: tuple[Shape, ...]
    writes: Shape
    limits: Limits


def device_forms(graph: Graph, node: Node, device: Device, fusion: Fusion) -> Iterator[DeviceForm]:
    """The forms of a node that the CPU runs otherwise."""
    for in_context in (_gathered, _joined):
        form = in_context(graph, node, device)
        if form is not None:
            yield form
    maps = _Maps(tuple(map(graph.shape, node.inputs)), graph.shape(node.name), device.limits)
    for rule in _RULES:
        rewrite = rule(node.op, maps)
        if rewrite is not None:
            nodes = _nodes_of(graph, node, rewrite.steps)
            yield DeviceForm(rewrite.words, rewrite.rounding, nodes, _usec(graph, node, nodes, device, fusion))


def _nodes_of(graph: Graph, node: Node, steps: Sequence[_Step]) -> tuple[Node, ...]:
    nodes: list[Node] = []
    names = list(node.inputs)
    for number, (op, reads) in enumerate(steps, 1):
        name = node.name if number == len(steps) else graph.fresh(f"{node.name}/step{number}")
        names.append(name)
        nodes.append(replace(node, name=name, op=op, inputs=tuple(names[place] for place in reads)))
    return tuple(nodes)


def _usec(graph: Graph, node: Node, nodes: Sequence[Node], device: Device, fusion: Fusion) -> float:
    """The time of the commands that the nodes take by themselves. Infinite where a map has no room in the unified buffer."""
    inputs = [Node(name, ops.Input(graph.shape(name))) for name in dict.fromkeys(node.inputs)]
    alone = Graph((*inputs, *nodes), (node.name,))
    alone = alone.expand(lambda graph, node: single_operators(graph, node, device.limits))
    usec = 0.0
    for step in partition(alone, device, transposed=True, fusion=fusion).steps:
        if step.assignments:
            time = device.estimate(alone, step.nodes).usec
            usec += time.low + time.high
    return usec


# --- forms that depend on the operators beside them ----------------------------------------------------------------------


def _gathered(graph: Graph, node: Node, device: Device) -> DeviceForm | None:
    """Channels: what is left of these gathers becomes a convolution when their neighbors have taken what they can."""
    channels = channels_of(graph, node)
    if channels is None:
        return None
    x = graph.shape(node.inputs[0])
    usec = command_usec(x, as_convolution(channels, x.channels), device)
    return DeviceForm("a 1x1 convolution of zeros and ones", _SAME, (replace(node, op=gather(x, channels)),), usec)


def _joined(graph: Graph, node: Node, device: Device) -> DeviceForm | None:
    """Maps whose channels are no whole chunks: each gets channels that nothing reads, which its readers then leave out."""
    if node.op != ops.Concat(Axis.CHANNELS) or joins_in_place(graph, node) or graph.shape(node.name).is_vector:
        return None
    nodes: list[Node] = []
    parts: list[str] = []
    places: list[int] = []
    usec = 0.0
    width = 0
    for position, name in enumerate(node.inputs):
        shape = graph.shape(name)
        is_last = position == len(node.inputs) - 1
        whole = shape.channels if is_last else -(-shape.channels // CHUNK) * CHUNK
        places += range(width, width + shape.channels)
        width += whole
        if whole == shape.channels:
            parts.append(name)
            continue
        channels = np.minimum(np.arange(whole), shape.channels - 1)
        part = replace(
            node, name=graph.fresh(f"{node.name}/part{position}"), op=gather(shape, channels), inputs=(name,)
        )
        is_gather = graph.is_private(name) and channels_of(graph, graph[name]) is not None
        if not is_gather and taken_above(graph, part, channels, device) is None:
            usec += command_usec(shape, as_convolution(channels, shape.channels), device)
        nodes.append(part)
        parts.append(part.name)
    x = graph.shape(node.name)._replace(channels=width)
    left = np.array(places, np.intp)
    alone = command_usec(x, as_convolution(left, width), device)
    usec += min(alone, usec_below(graph, node, x, left, device))
    joined = replace(node, name=graph.fresh(f"{node.name}/joined"), inputs=tuple(parts))
    nodes += (joined, replace(node, op=gather(x, left), inputs=(joined.name,)))
    return DeviceForm(
        "parts of whole chunks of channels, of which readers take what they need", _SAME, tuple(nodes), usec
    )


# --- forms that move elements --------------------------------------------------------------------------------------------


def _blocks(op: Op, maps: _Maps) -> _Rewrite | None:
    """Blocks of pixels that become channels: a convolution with the block as its stride; the other way round, a deconvolution."""
    if isinstance(op, ops.SpaceToDepth):
        channels = maps.reads[0].channels
        area = op.block.height * op.block.width
        places = np.arange(maps.writes.channels).reshape(*op.block, channels).transpose(2, 0, 1)
        return None if min(op.padding) < 0 or area == 1 else _to_channels(places, op.block, op.padding, maps.limits)
    if not isinstance(op, ops.TransposeReshape) or (movement := movement_of(op, maps.reads[0])) is None:
        return None
    before, after = movement.before, movement.after
    if any(before[axis][:1] != after[axis][:1] for axis in (Axis.HEIGHT, Axis.WIDTH)):
        return None
    in_rows, in_columns, into = before[Axis.HEIGHT][1:], before[Axis.WIDTH][1:], before[Axis.CHANNELS]
    rows, columns, left = after[Axis.HEIGHT][1:], after[Axis.WIDTH][1:], after[Axis.CHANNELS]

    def size(runs: Sequence[tuple[int, int, int]]) -> int:
        return math.prod(movement.lengths[run] for run in runs)

    if not rows and not columns and {*left} == {*into, *in_rows, *in_columns}:
        block = Pair(size(in_rows), size(in_columns))
        order = [left.index(run) for run in (*into, *in_rows, *in_columns)]
        places = np.arange(maps.writes.channels).reshape([movement.lengths[run] for run in left]).transpose(order)
        return _to_channels(places.reshape(-1, *block), block, NO_PADDING, maps.limits)
    if not in_rows and not in_columns and {*into} == {*left, *rows, *columns}:
        block = Pair(size(rows), size(columns))
        order = [into.index(run) for run in (*left, *rows, *columns)]
        places = np.arange(maps.reads[0].channels).reshape([movement.lengths[run] for run in into]).transpose(order)
        return _from_channels(places.reshape(-1, *block), block, maps.limits)
    return None


def _to_channels(places: Channels, block: Pair, padding: Padding, limits: Limits) -> _Rewrite | None:
    """places: (input channels, rows, columns) -> the output channel."""
    channels, outputs = len(places), places.size
    if block == ONE or max(block) > limits.max_kernel_size or outputs * outputs > _MOST_WEIGHTS:
        return None

    def read(rows: slice) -> Array:
        return np.equal(places[None], np.arange(outputs)[rows, None, None, None]).astype(np.float32)

    weight = Constant((outputs, channels, *block), read)
    op = ops.Conv2d(weight, None, Window(block, block, padding=padding))
    return _Rewrite(f"a {block} convolution of zeros and ones with stride {block}", _SAME, ((op, (0,)),))


def _from_channels(places: Channels, block: Pair, limits: Limits) -> _Rewrite | None:
    """places: (output channels, rows, columns) -> the input channel."""
    inputs = places.size
    if block == ONE or max(block) > limits.max_kernel_size or inputs * inputs > _MOST_WEIGHTS or not limits.deconvolves:
        return None

    def read(rows: slice) -> Array:
        return np.equal(places[rows, None], np.arange(inputs)[None, :, None, None]).astype(np.float32)

    weight = Constant((len(places), inputs, *block), read)
    op = ops.ConvTranspose2d(weight, None, Window(block, block))
    return _Rewrite(f"a {block} deconvolution of zeros and ones with stride {block}", _SAME, ((op, (0,)),))


def _cropped(op: Op, maps: _Maps) -> _Rewrite | None:
    """Every n-th pixel, and crops of a few pixels: a depthwise convolution whose kernel is as large as what is cut."""
    if (
        not isinstance(op, ops.Crop)
        or maps.writes.channels != maps.reads[0].channels
        or maps.writes[:2] == maps.reads[0][:2]
    ):
        return None
    x = maps.reads[0]
    kernel = Pair(_reach(op, x, maps.writes, Axis.HEIGHT), _reach(op, x, maps.writes, Axis.WIDTH))
    if max(kernel) > maps.limits.max_kernel_size or max(op.stride) > maps.limits.max_stride:
        return None
    ones = np.zeros((x.channels, 1, *kernel))
    ones[:, :, op.start.height, op.start.width] = 1
    window = Window(kernel, Pair(*op.stride[:2]))
    crop = ops.Conv2d(Constant.of(ones), None, window, x.channels)
    return _Rewrite(f"a {window.kernel} depthwise convolution of zeros and ones", _SAME, ((crop, (0,)),))


def _reach(crop: ops.Crop, x: Shape, y: Shape, axis: Axis) -> int:
    """The least kernel that has the first pixel of a crop, and leaves no room for more pixels than the crop has."""
    return max(crop.start[axis] + 1, x[axis] - y[axis] * crop.stride[axis] + 1)


def _beside(op: Op, maps: _Maps) -> _Rewrite | None:
    """A concatenation of rows or columns: the sum of padded maps."""
    if not isinstance(op, ops.Concat) or op.axis is Axis.CHANNELS or len(maps.reads) > 8:
        return None
    steps: list[_Step] = []
    start = 0
    total = -1
    for number, x in enumerate(maps.reads):
        before, after = start, maps.writes[op.axis] - start - x[op.axis]
        start += x[op.axis]
        padding = Padding(before, after, 0, 0) if op.axis is Axis.HEIGHT else Padding(0, 0, before, after)
        if any(value > most for value, most in zip(padding, maps.limits.largest_padding, strict=True)):
            return None
        steps.append((ops.Pad(padding), (number,)))
        if total >= 0:
            steps.append((ops.Add(), (len(maps.reads) + len(steps) - 1, total)))
        total = len(maps.reads) + len(steps) - 1
    return _Rewrite("a sum of padded maps", _SAME, tuple(steps))


# --- forms that compute --------------------------------------------------------------------------------------------------


def _scaled(maps: _Maps, factor: float, shift: float = 0.0) -> ops.Scale:
    count = maps.writes.channels
    return ops.Scale(Constant.of(np.full(count, factor)), Constant.of(np.full(count, shift)) if shift else None)


def _is_exact(factor: float) -> bool:
    return math.frexp(factor)[0] == 0.5


def _function(op: Op, maps: _Maps) -> _Rewrite | None:
    """Functions of one value that are activations of the device between two scales."""
    if not isinstance(op, ops.Unary) or not isinstance(op.function, FUNCTIONS):
        return None
    match op:
        case ops.Unary(function=ops.Absolute()):
            return _Rewrite("leaky ReLU with a slope of -1", _SAME, ((ops.Activation(ops.Relu(-1.0)), (0,)),))
        case ops.Unary(function=ops.Clip(low=0.0, high=high)) if 0 < high < math.inf:
            factor, shift, after = 6 / high, 0.0, high / 6
        case ops.Unary(function=ops.Clip(low=low, high=0.0)) if low == -math.inf:
            relu = ops.Activation(ops.Relu())
            steps = (_scaled(maps, -1.0), (0,)), (relu, (1,)), (_scaled(maps, -1.0), (2,))
            return _Rewrite("ReLU between two changes of sign", _SAME, steps)
        case ops.Unary(function=ops.HardSigmoid(slope=slope, shift=offset)) if slope:
            factor, shift, after = 6 * slope, 6 * offset, 1 / 6
        case _:
            return None
    relu6 = ops.Activation(ops.Relu6())
    steps = (_scaled(maps, factor, shift), (0,)), (relu6, (1,)), (_scaled(maps, after), (2,))
    is_exact = _is_exact(factor) and _is_exact(after) and not shift
    rounding = _SAME if is_exact else "both scales round: 2 ** -11 of the value each"
    return _Rewrite("ReLU6 between two scales", rounding, steps)


def _extreme(op: Op, maps: _Maps) -> _Rewrite | None:
    """The larger or smaller of two maps: b + ReLU(a - b), a - ReLU(a - b)."""
    if not isinstance(op, ops.Binary) or any(x != maps.writes for x in maps.reads):
        return None
    difference = (_scaled(maps, -1.0), (1,)), (ops.Add(ops.Relu()), (2, 0))
    rounding = "the difference is rounded to FP16: half a unit in its last place"
    if op.operation is ops.BinaryOp.MAXIMUM:
        return _Rewrite("b + ReLU(a - b)", rounding, (*difference, (ops.Add(), (3, 1))))
    if op.operation is ops.BinaryOp.MINIMUM:
        return _Rewrite("a - ReLU(a - b)", rounding, (*difference, (_scaled(maps, -1.0), (3,)), (ops.Add(), (4, 0))))
    return None


def _reduced(op: Op, maps: _Maps) -> _Rewrite | None:
    """A sum or mean over the channels: a 1x1 convolution with one output."""
    if not isinstance(op, ops.Reduce) or op.axes != (Axis.CHANNELS,):
        return None
    channels = maps.reads[0].channels
    factor = op.factor / channels if op.reduction is Reduction.MEAN else op.factor
    if op.reduction not in (Reduction.MEAN, Reduction.SUM) or channels > maps.limits.max_channels:
        return None
    weight = Constant.of(np.full((1, channels, 1, 1), factor))
    rounding = "the sums in another order" if _is_exact(factor) else "the factor is rounded to FP16, as weights are"
    return _Rewrite("a 1x1 convolution with equal weights", rounding, ((ops.Conv2d(weight, None, Window(ONE)), (0,)),))


_RULES: Final[tuple[Callable[[Op, _Maps], _Rewrite | None], ...]] = (
    _blocks,
    _cropped,
    _beside,
    _function,
    _extreme,
    _reduced,
)
