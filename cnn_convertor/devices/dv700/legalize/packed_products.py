"""Gives to the device products of two maps, as in attention: of one map the CPU packs weights of 1x1 convolutions.

Each matrix is a command of its own. Between two products the matrices stay apart: see `arranged` and `kept_apart`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cnn_convertor.devices.dv700.commands import joins_in_place, run_of
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.fusion.ub_fit import strips
from cnn_convertor.devices.dv700.legalize.cpu_times import usec_on_cpu
from cnn_convertor.devices.dv700.legalize.fit_limits import refolded
from cnn_convertor.devices.dv700.legalize.memory_views import channel_slices
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.intervals import Interval, total
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, MatMul, Matrices, Order, Pair, Shape


class DeviceProduct(NamedTuple):
    """A product that takes less time on the device than on the CPU. packed: the number of the input that the CPU packs.

    device: with what the CPU does for it. is_moved, is_joined: whether the CPU takes the other input apart, and joins the result.
    """

    packed: int
    device: Interval
    cpu: Interval
    is_moved: bool = False
    is_joined: bool = False


class Packing(NamedTuple):
    """A graph that shows what the CPU would do for products on the device, by nodes that compute nothing: `placeholders`.

    apart: maps whose matrices, in rows of pixels, go from one product to another.
    """

    graph: Graph
    products: Mapping[str, DeviceProduct]
    placeholders: Collection[str]
    apart: Collection[str]
    limits: Limits

    def on_device(self, graph: Graph, node: Node) -> Iterable[Node]:
        """What computes a product there."""
        return _nodes(graph, node, self.products[node.name].packed, self.limits)

    def finished(self, graph: Graph) -> Graph:
        """The graph with products on the device, without placeholders."""
        return kept_apart(graph.bypass(self.placeholders), self.apart)


def packing_of(graph: Graph, device: Device, fusion: Fusion) -> Packing:
    """The products of maps that the device computes in less time, as the sum of both ends, if no change of side comes on top."""
    arranged_graph, apart = arranged(graph)
    products: dict[str, DeviceProduct] = {}
    if Form.PACKED_MATRIX in device.forms[fusion]:
        products = _device_products(arranged_graph, apart, device)
    if not products:
        return Packing(graph, {}, (), (), device.limits)
    nodes: list[Node] = []
    placeholders: list[str] = []
    joined: dict[str, str] = {}  # product -> its placeholder

    def placed(name: str, source: str) -> str:
        placeholders.append(arranged_graph.fresh(name))
        nodes.append(Node(placeholders[-1], ops.OnCpu(ops.Identity()), (source,)))
        return placeholders[-1]

    for node in arranged_graph.nodes:
        inputs = [joined.get(name, name) for name in node.inputs]
        product = products.get(node.name)
        if product is not None:
            for position, name in enumerate(inputs):
                if position == product.packed or product.is_moved:
                    inputs[position] = placed(f"{node.name}/input{position}", name)
        nodes.append(replace(node, inputs=tuple(inputs)))
        if product is not None and product.is_joined and arranged_graph.users(node.name):
            joined[node.name] = placed(f"{node.name}/joined", node.name)
    return Packing(Graph(tuple(nodes), arranged_graph.outputs), products, placeholders, apart, device.limits)


def _device_products(graph: Graph, apart: Collection[str], device: Device) -> dict[str, DeviceProduct]:
    found: dict[str, DeviceProduct] = {}
    for node in graph.nodes:
        if isinstance(node.op, MatMul):
            product = _device_product(graph, node, apart, device)
            if product is not None:
                found[node.name] = product
    return found


def _device_product(graph: Graph, node: Node, apart: Collection[str], device: Device) -> DeviceProduct | None:
    """The faster way to compute a product on the device; None where the CPU is faster than that."""
    assert isinstance(node.op, MatMul)
    shapes = [graph.shape(name) for name in node.inputs]
    cpu = usec_on_cpu(node.op, shapes, graph.shape(node.name), device)
    least = device.profile.command_usec.value * node.op.result.number
    best: DeviceProduct | None = None
    for packed in (0, 1):
        if node.inputs[packed] in apart or _sum(least) >= _sum(cpu):
            continue
        inputs = dict(zip(node.inputs, shapes, strict=True))
        sources = tuple(Node(name, ops.Input(shape)) for name, shape in inputs.items())
        nodes = tuple(_nodes(Graph((*sources, node), (node.name,)), node, packed, device.limits))
        found = _timed(Graph((*sources, *nodes), (node.name,)), nodes, packed, cpu, apart, device)
        if found is not None and _sum(found.device) < _sum(cpu if best is None else best.device):
            best = found
    return best


def _timed(
    graph: Graph, nodes: Sequence[Node], packed: int, cpu: Interval, apart: Collection[str], device: Device
) -> DeviceProduct | None:
    """How long the nodes in place of a product take; None where the device cannot compute them. cpu: the product's own time.

    Maps that stay apart between two products need no time to be taken apart and joined.
    """
    times: list[Interval] = []
    moves: list[bool] = []  # whether a node of the CPU comes after the first command
    limits = device.limits
    has_begun = False
    for node in nodes:
        shape = graph.shape(node.name)
        if isinstance(node.op, ops.TimesPacked):
            has_begun = True
            run = run_of(graph, (node,), transposed=True)
            channels = max(run.input.channels, run.output.channels)
            if not limits.holds(shape) or channels > limits.max_channels or strips(run, ub_size=limits.ub_size) is None:
                return None
            times.append(device.estimate(graph, (node,)).usec)
        elif not _is_free(graph, node, apart):
            op: ops.Op = node.op
            if isinstance(op, ops.OnCpu):
                op = op.op
            else:
                moves.append(has_begun)
            times.append(usec_on_cpu(op, [graph.shape(name) for name in node.inputs], shape, device))
    return DeviceProduct(packed, total(times), cpu, is_moved=False in moves, is_joined=True in moves)


def _is_free(graph: Graph, node: Node, apart: Collection[str]) -> bool:
    """Whether a node moves nothing in memory."""
    match node.op:
        case ops.Reshape() | ops.ChannelSlice():  # of lines of pixels
            return True
        case ops.Crop():
            return node.inputs[0] in apart or channel_slices(graph, node) is not None
        case ops.Concat(axis=axis):
            return node.name in apart or (axis is Axis.CHANNELS and joins_in_place(graph, node))
        case _:
            return False


def _sum(usec: Interval) -> float:
    return usec.low + usec.high


# --- one product ---------------------------------------------------------------------------------------------------------


class _Adder:
    """Collects the nodes in place of another one."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node = graph, node
        self.nodes: list[Node] = []

    def __call__(self, part: str, op: ops.Op, *inputs: str) -> str:
        name = self.graph.fresh(f"{self.node.name}/{part}")
        self.nodes.append(replace(self.node, name=name, op=op, inputs=inputs))
        return name


def _nodes(graph: Graph, node: Node, packed: int, limits: Limits) -> Iterable[Node]:
    """What computes a product on the device, where the CPU packs the given input. The last node has the product's name."""
    assert isinstance(node.op, MatMul)
    left, right, result, factor = node.op.left, node.op.right, node.op.result, node.op.factor
    if packed == 0:  # the product of the transposed matrices is the transposed product
        left, right, result = _turned(right), _turned(left), _turned(result)
    pixels, source = node.inputs[1 - packed], node.inputs[packed]
    x, y = graph.shape(pixels), graph.shape(source)
    rows, inner = left.size_in(x)
    columns = right.size_in(y).width
    add = _Adder(graph, node)
    weights = add("packed", ops.OnCpu(ops.PackedMatrices(_turned(right), factor)), source)
    size = ops.packed_matrix(columns, inner)
    lines = [_line(add, pixels, x, left, number) for number in range(left.number)]
    whole = Shape(1, rows, inner)
    folded = refolded(whole, limits) or whole  # a command treats each pixel by itself
    if folded != whole:
        lines = [add(f"folded{number}", ops.Reshape(folded, Order.MEMORY), line) for number, line in enumerate(lines)]
    parts: list[str] = []
    for number in range(result.number):
        line = lines[number % left.number]
        of_matrix = weights
        if right.number > 1:
            of_matrix = add(f"packed{number}", ops.ChannelSlice(number * size, size), weights)
        part = add(f"matrix{number}", ops.TimesPacked(columns), line, of_matrix)
        if folded != whole:
            part = add(f"unfolded{number}", ops.Reshape(Shape(1, rows, columns), Order.MEMORY), part)
        parts.append(part)
    _join(add, parts, result, Pair(rows, columns))
    *others, last = add.nodes
    return (*others, replace(last, name=node.name))


def _turned(matrices: Matrices) -> Matrices:
    """How a map holds the transposed matrices."""
    return matrices._replace(rows=matrices.columns, columns=matrices.rows)


def _line(add: _Adder, name: str, x: Shape, matrices: Matrices, number: int) -> str:
    """A matrix of a map as a line of pixels, each a row, with the columns as channels."""
    size = matrices.size_in(x)
    if matrices.number > 1:
        length = x[matrices.batch] // matrices.number
        start = Shape(0, 0, 0).with_length(matrices.batch, number * length)
        name = add(f"input{number}", ops.Crop(start, x.with_length(matrices.batch, (number + 1) * length)), name)
        x = x.with_length(matrices.batch, length)
    line = Shape(1, *size)
    if matrices.columns is Axis.CHANNELS:
        if x != line:
            name = add(f"line{number}", ops.Reshape(line, Order.HWC), name)
        return name
    (other,) = set(Axis) - {matrices.rows, matrices.columns}
    axes = (int(other), int(matrices.rows), int(matrices.columns))
    return add(f"line{number}", ops.TransposeReshape(tuple(x), axes, line, Order.HWC), name)


def _join(add: _Adder, parts: Sequence[str], result: Matrices, size: Pair) -> None:
    """The map that holds the matrices, of lines of pixels."""
    number, batch, rows, columns = result
    shape = result.shape(size)
    if number == 1 and columns is Axis.CHANNELS:
        if rows is Axis.HEIGHT:
            add("column", ops.Reshape(shape, Order.HWC), parts[0])
    elif batch is columns is Axis.CHANNELS:
        joined = add("joined", ops.Concat(Axis.CHANNELS), *parts)
        if rows is Axis.HEIGHT:
            add("column", ops.Reshape(shape, Order.HWC), joined)
    else:
        joined = parts[0]
        if number > 1:
            joined = add("joined", ops.Concat(Axis.HEIGHT), *parts)
        if (batch, rows, columns) == tuple(Axis):
            return
        axes: list[int] = []
        for axis in Axis:  # of the map; the line has the batch, the rows and the columns
            axes += [place for place, holder in enumerate((batch, rows, columns)) if holder is axis]
        add("arranged", ops.TransposeReshape((number, *size), tuple(axes), shape, Order.HWC), joined)


# --- between two products ------------------------------------------------------------------------------------------------


class _Arranged(NamedTuple):
    """A graph, and the maps whose matrices are rows of pixels: those between two products."""

    graph: Graph
    apart: Collection[str]


def arranged(graph: Graph) -> _Arranged:
    """Let a product, functions and the next product hold matrices in rows of pixels, what the second sums up as channels.

    As in attention: product -> functions of elements, softmax -> product, if nothing else reads the maps between.
    """
    nodes = {node.name: node for node in graph.nodes}
    apart: set[str] = set()
    for node in graph.nodes:
        if not isinstance(node.op, MatMul) or node.name in apart:
            continue
        chain = _chain(graph, node)
        if chain is None:
            continue
        *between, last = chain
        assert isinstance(last.op, MatMul)
        is_left = last.inputs[0] == between[-1].name
        held = last.op.left if is_left else last.op.right
        places = _places(node.op.result, held.columns if is_left else held.rows)
        for each in between:
            apart.add(each.name)
            nodes[each.name] = replace(each, op=_with_places(nodes[each.name].op, places))
        product = nodes[last.name].op
        assert isinstance(product, MatMul)
        moved = _moved(held, places)
        product = replace(product, left=moved) if is_left else replace(product, right=moved)
        nodes[last.name] = replace(nodes[last.name], op=product)
    if apart:
        graph = Graph(tuple(nodes.values()), graph.outputs)
    return _Arranged(graph, apart)


def _chain(graph: Graph, product: Node) -> tuple[Node, ...] | None:
    """A product, what treats its matrices row by row or column by column, and the next product; None if none follows."""
    assert isinstance(product.op, MatMul)
    held = product.op.result
    if held.number > 1 and held.batch in (held.rows, held.columns):
        return None
    chain = [product]
    while graph.is_private(chain[-1].name):
        name = chain[-1].name
        chain.append(graph[graph.users(name)[0]])
        match chain[-1].op:
            case ops.Unary() | ops.Softmax():
                continue
            case MatMul(left=left, right=right) if chain[-1].inputs.count(name) == 1:
                read = right
                if chain[-1].inputs[0] == name:
                    read = left
                if _holds_alike(held, read):
                    return tuple(chain)
                return None
            case _:
                return None
    return None


def _holds_alike(held: Matrices, read: Matrices) -> bool:
    """Whether a product reads the matrices that another one writes, or these turned."""
    if held.number > 1:
        return read in (held, _turned(held))
    return read.number == 1 and {read.rows, read.columns} == {held.rows, held.columns}


def _places(held: Matrices, inner: Axis) -> Mapping[Axis, Axis]:
    """Where the axes of a map go. inner: what the next product sums up."""
    (pixels,) = {held.rows, held.columns} - {inner}
    (batch,) = set(Axis) - {held.rows, held.columns}
    return {batch: Axis.HEIGHT, pixels: Axis.WIDTH, inner: Axis.CHANNELS}


def _moved(held: Matrices, places: Mapping[Axis, Axis]) -> Matrices:
    return Matrices(held.number, Axis.HEIGHT, places[held.rows], places[held.columns])


def _with_places(op: ops.Op, places: Mapping[Axis, Axis]) -> ops.Op:
    match op:
        case MatMul(result=result):
            return replace(op, result=_moved(result, places))
        case ops.Softmax(axis=axis):
            return ops.Softmax(places[axis])
        case _:
            return op


def kept_apart(graph: Graph, apart: Collection[str]) -> Graph:
    """Give each matrix the functions between two products, before the matrices are joined.

    Case 1: joined rows -> function; case 2: joined rows -> a row, which is what was joined.
    """
    rows: dict[str, tuple[str, ...]] = {}  # map -> its rows
    same: dict[str, str] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = replace(node, inputs=tuple(same.get(name, name) for name in node.inputs))
        known = rows.get(node.inputs[0], ()) if node.inputs else ()
        match node.op:
            case ops.Concat(axis=Axis.HEIGHT) if node.name in apart:
                rows[node.name] = node.inputs
            case ops.Unary() | ops.Softmax(axis=Axis.WIDTH | Axis.CHANNELS) if known:
                for number, row in enumerate(known):
                    nodes.append(replace(node, name=graph.fresh(f"{node.name}/matrix{number}"), inputs=(row,)))
                rows[node.name] = tuple(each.name for each in nodes[-len(known) :])
                node = replace(node, op=ops.Concat(Axis.HEIGHT), inputs=rows[node.name])
            case ops.Crop(start=start, stop=stop) if known and stop.height - start.height == 1:
                same[node.name] = known[start.height]
                continue
        nodes.append(node)
    return Graph(tuple(nodes), graph.outputs).without_dead()
