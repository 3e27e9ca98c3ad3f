"""Decides by cost which layers of the device run on the CPU: those between CPU layers, for the changes of side that this saves."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from cnn_convertor.devices.channel_moves import as_convolution, channels_of
from cnn_convertor.devices.cut import Alternative, Exchange, SideCosts, chosen_of, costs_of, grouped_sides
from cnn_convertor.devices.dv700.commands import joins_in_place
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.legalize.assign_cpu import resized, without_device
from cnn_convertor.devices.dv700.legalize.channel_gathers import is_slice, join_gathers
from cnn_convertor.devices.dv700.legalize.cpu_times import usec_on_cpu
from cnn_convertor.devices.dv700.legalize.device_forms import DeviceForm, device_forms
from cnn_convertor.devices.dv700.legalize.memory_views import reorders_dense
from cnn_convertor.devices.dv700.legalize.packed_factors import scaled_on_device
from cnn_convertor.devices.dv700.legalize.packed_products import DeviceProduct, packing_of
from cnn_convertor.devices.dv700.legalize.single_operators import single_operators
from cnn_convertor.devices.dv700.memory.memory_layout import same_memory
from cnn_convertor.devices.dv700.operators import OPERATORS, Executor
from cnn_convertor.devices.intervals import Interval, total
from cnn_convertor.devices.program import ElementType
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Function, Op, Order
from cnn_convertor.passes.fold_activations import fold_activations
from cnn_convertor.passes.fold_scales import fold_scales

_FREE: Final = SideCosts(0, 0)  # of a node that computes nothing: it is on the side of its neighbors
_ON_DEVICE: Final = SideCosts(0, None)
_ON_CPU: Final = SideCosts(None, 0)


class _Times(NamedTuple):
    """Microseconds of a layer that both can run. The device's is without starting a command: others need that, too."""

    device: Interval
    cpu: Interval


class _Choice(NamedTuple):
    """What the CPU does for a node, in how many microseconds, and what the device can do instead."""

    op: Op
    cpu: Interval
    forms: tuple[DeviceForm, ...]

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        device = (Alternative(_picoseconds(form.usec), is_second=False) for form in self.forms)
        return *device, Alternative(_sum(self.cpu), is_second=True)


def choose_executors(graph: Graph, device: Device, *, transposed: bool, fusion: Fusion) -> Graph:
    """Give to the CPU the layers with which the network takes the least time; to the device, where both take the same.

    Each map that one side writes and the other reads costs a change of side, as the runtime makes it, unless other maps cross at the
    same time. Times are intervals: their sums of both ends are compared. Inputs and outputs of the network are on no side, but for
    functions of the CPU that may have forms for the device, of which the cheapest counts, with all its commands and their traffic:
    the application writes and reads those on the CPU. The device takes products with a factor for each channel afterwards, where that
    changes no side.

    A function that goes to the other side than in the cheapest cut may leave its neighbors on the worse one: their sides are
    chosen again beside what is decided, until nothing changes. Each time the CPU gets at least one layer more.
    """
    while (after := _chosen_once(graph, device, transposed=transposed, fusion=fusion)) != graph:
        graph = after
    return graph


def _chosen_once(graph: Graph, device: Device, *, transposed: bool, fusion: Fusion) -> Graph:
    packing = packing_of(graph, device, fusion)
    graph = packing.graph
    numbers = {node.name: number for number, node in enumerate(graph.nodes)}
    times = {node.name: both for node in graph.nodes if (both := _times(graph, node, device)) is not None}
    choices = {node.name: each for node in graph.nodes if (each := _choice(graph, node, device, fusion)) is not None}
    costs = []
    for node in graph.nodes:
        if node.name in choices:
            costs.append(costs_of(choices[node.name].alternatives))
        elif isinstance(node.op, ops.Input):
            costs.append(_ON_CPU if choices.keys() & graph.users(node.name) else _FREE)
        else:
            costs.append(
                _costs(graph, node, times.get(node.name) or packing.products.get(node.name), transposed=transposed)
            )
    costs.append(_ON_CPU)  # the application
    io_bytes = max(_step_bytes(graph, node) for node in graph.nodes)
    changes = {node.name: device.change_usec(io_bytes, _map_bytes(graph, node.name)) for node in graph.nodes}
    exchanges = []
    for node in graph.nodes:
        readers = [numbers[user] for user in dict.fromkeys(graph.users(node.name))]
        if graph.is_output(node.name) and node.name in choices:
            readers.append(len(graph.nodes))
        if readers:
            exchanges.append(Exchange(numbers[node.name], tuple(readers), _sum(changes[node.name])))
    sides = grouped_sides(costs, exchanges)
    on_cpu = {node.name for node, is_cpu in zip(graph.nodes, sides[:-1], strict=True) if is_cpu}
    packed = _with_packed_factors(graph, on_cpu, device) if Form.PACKED_FACTORS in device.forms[fusion] else {}

    def rule(g: Graph, node: Node) -> Iterable[Node] | None:
        if node.name in choices:
            return _chosen(node, choices[node.name], is_cpu=node.name in on_cpu)
        if node.name in on_cpu and node.name in times:
            return _on_cpu(g, node, times[node.name], changes[node.name])
        if node.name in packing.products:
            product = packing.products[node.name]
            if node.name in on_cpu:
                return (replace(node, op=ops.OnCpu(node.op), reason=_reason(product, changes[node.name])),)
            usec = f"{product.device.text('.3g')} us on the device, {product.cpu.text('.3g')} us on the CPU"
            reason = f"the CPU packs a matrix as weights: {usec}"
            return [replace(each, reason=reason) for each in packing.on_device(g, node)]
        return packed.get(node.name)

    chosen = packing.finished(graph.expand(rule))
    return _with_forms(chosen, device) if choices.keys() - on_cpu else chosen


def _with_forms(graph: Graph, device: Device) -> Graph:
    """The graph with forms for the device joined with the operators beside them; what is left of gathers as convolutions."""
    graph = fold_activations(fold_scales(join_gathers(graph, device)))

    def rule(graph: Graph, node: Node) -> Iterable[Node] | None:
        channels = channels_of(graph, node)
        if channels is None or is_slice(graph.shape(node.inputs[0]), channels):
            return None
        return (replace(node, op=as_convolution(channels, graph.shape(node.inputs[0]).channels)),)

    return graph.expand(rule)


def _choice(graph: Graph, node: Node, device: Device, fusion: Fusion) -> _Choice | None:
    """What the CPU and the device can do for a node; None where only one of them can, or where the choice is made."""
    if node.reason:
        return None
    channels = channels_of(graph, node)
    if channels is not None and is_slice(graph.shape(node.inputs[0]), channels):
        return None
    op = without_device(graph, node)
    forms = () if op is None else tuple(device_forms(graph, node, device, fusion))
    usable = tuple(form for form in forms if form.usec < math.inf)
    if op is None or not usable:
        return None
    cpu = usec_on_cpu(op, [graph.shape(name) for name in node.inputs], graph.shape(node.name), device)
    return _Choice(op, cpu, usable)


def _chosen(node: Node, choice: _Choice, *, is_cpu: bool) -> Iterable[Node]:
    form = choice.forms[chosen_of(choice.alternatives, is_second=False)]
    there = f"{form.words} ({form.rounding})"
    usec = f"{form.usec / 2:.3g} us on the device, {choice.cpu.text('.3g')} us on the CPU"
    if is_cpu:
        return (replace(node, op=ops.OnCpu(choice.op), reason=f"rather than {there}: {usec}"),)
    return [replace(each, reason=f"{there}: {usec}") for each in form.nodes]


def _with_packed_factors(graph: Graph, on_cpu: Collection[str], device: Device) -> dict[str, Iterable[Node]]:
    """What takes the place of products that the device reads, and can do itself in less time. on_cpu: the nodes on that side."""
    packed: dict[str, Iterable[Node]] = {}
    for node in reversed(graph.nodes):  # a product may be what another one multiplies
        is_read_there = all(user in packed or user not in on_cpu for user in graph.users(node.name))
        if is_read_there and (nodes := scaled_on_device(graph, node, device)) is not None:
            packed[node.name] = nodes
    return packed


def _sum(usec: Interval) -> int:
    """Both ends of a time, in whole picoseconds: sums of these are exact."""
    return _picoseconds(usec.low + usec.high)


def _picoseconds(usec: float) -> int:
    return round(1e6 * usec)


def _costs(graph: Graph, node: Node, times: _Times | DeviceProduct | None, *, transposed: bool) -> SideCosts:
    if times is not None:
        cpu = _sum(times.cpu)
        return SideCosts(
            min(_sum(times.device), cpu), cpu
        )  # no layer leaves the device but for changes that this saves
    channels = channels_of(graph, node)
    if channels is not None and is_slice(graph.shape(node.inputs[0]), channels):
        return _FREE
    match node.op:
        case ops.Identity() | ops.ChannelSlice():
            return _FREE
        case ops.Concat(axis=ops.Axis.CHANNELS) if joins_in_place(graph, node):
            return _FREE
        case ops.Reshape(order=order, shape=shape):
            before = graph.shape(node.inputs[0])
            is_view = order is Order.MEMORY or same_memory(before, shape, order, transposed=transposed)
            return _FREE if is_view or reorders_dense(graph, node) else _ON_CPU
        case ops.OnCpu() | ops.Custom() | ops.ArraySoftmax():
            return _ON_CPU
        case _:
            of_cpu = (Executor.CPU, Executor.CHEAPER, Executor.IN_PLACE)
            return _ON_CPU if OPERATORS[type(node.op)].executor in of_cpu else _ON_DEVICE


def _step_bytes(graph: Graph, node: Node) -> int:
    """What the I/O buffer holds at least while a node runs."""
    return sum(_map_bytes(graph, name) for name in {*node.inputs, node.name})


def _map_bytes(graph: Graph, name: str) -> int:
    return graph.shape(name).size * ElementType.HALF.value


def _times(graph: Graph, node: Node, device: Device) -> _Times | None:
    """The times of a node that both can run; None of others."""
    forms = _forms(graph, node)
    if forms is None:
        return None
    inputs = [graph.shape(name) for name in node.inputs]
    output = graph.shape(node.name)
    cpu = []
    for op in forms:
        cpu.append(usec_on_cpu(op, inputs, output, device))
        inputs = [output]
    return _Times(_device_usec(graph, node, device), total(cpu))


def _device_usec(graph: Graph, node: Node, device: Device) -> Interval:
    """Of a node's command, with the weights that a scale alone has there."""
    command: tuple[Node, ...] = (node,)
    if isinstance(node.op, ops.Scale):
        command = tuple(single_operators(graph, node, device.limits) or command)
    return device.estimate(graph, command).work_usec


def _forms(graph: Graph, node: Node) -> tuple[Op, ...] | None:
    """What the CPU does in place of the device, one after the other; None where it has no functions for it."""
    op = _form(graph, node)
    if op is None:
        return None
    function = getattr(node.op, "activation", None)
    if function is None:
        return (op,)
    unary = _unary(function)
    return None if unary is None else (op, unary)


def _form(graph: Graph, node: Node) -> Op | None:
    """A node's operator for the CPU, without its activation."""
    match node.op:
        case ops.Dense() | ops.Conv2d(groups=1, window=ops.Window(kernel=(1, 1))) as op if _is_of_vectors(graph, node):
            return ops.Dense(op.weight, op.bias)
        case ops.MaxPool2d() | ops.AveragePool2d() | ops.Scale() as op:
            return replace(op, activation=None)
        case ops.Add():
            return ops.Binary(ops.BinaryOp.ADD)
        case ops.Activation(function=function):
            return _unary(function)
        case ops.Upsample():
            return resized(graph, node)
        case _:
            return None


def _is_of_vectors(graph: Graph, node: Node) -> bool:
    return graph.shape(node.inputs[0]).is_vector and graph.shape(node.name).is_vector


def _unary(function: Function) -> ops.Unary | None:
    """An activation of the device as a function of the CPU; slopes travel with kernels."""
    match function:
        case ops.Relu(slope=slope):
            return ops.Unary(ops.BoundedRelu(slope, 0.0, math.inf) if slope else ops.Clip(0.0, math.inf))
        case ops.Relu6():
            return ops.Unary(ops.Clip(0.0, 6.0))
        case ops.Elu():
            return ops.Unary(ops.ScaledElu(1.0))
        case ops.Sigmoid() | ops.Tanh():
            return ops.Unary(function)
        case ops.PRelu():
            return None


def _reason(times: _Times | DeviceProduct, change: Interval) -> str:
    return (
        f"saves changes of side: {times.cpu.text('.3g')} us here, {times.device.text('.3g')} us on the device, "
        f"{change.text('.3g')} us for a change"
    )


def _on_cpu(graph: Graph, node: Node, times: _Times, change: Interval) -> Iterable[Node]:
    """The node on the CPU: one for each function."""
    forms = _forms(graph, node)
    assert forms is not None, "it has been chosen"
    reason = _reason(times, change)
    nodes: list[Node] = []
    for op in forms:
        is_last = op is forms[-1]
        name = node.name if is_last else graph.fresh(f"{node.name}/linear")
        nodes.append(
            replace(
                node,
                name=name,
                op=ops.OnCpu(op),
                reason=reason,
                inputs=(nodes[-1].name,) if nodes else node.inputs,
            )
        )
    return nodes
