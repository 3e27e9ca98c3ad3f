"""Gives to the device the product of a map and a factor for each channel, as in squeeze and excite, if that takes less time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.legalize.cpu_times import usec_on_cpu
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape


def scaled_on_device(graph: Graph, node: Node, device: Device) -> Iterable[Node] | None:
    """The CPU packs the factors as weights, and the device multiplies the map; None for other nodes, and where that takes longer.

    No change of side comes on top if the device reads the product: the packed factors cross in its place, together with the map
    if the CPU wrote that.
    """
    if node.op != ops.Binary(ops.BinaryOp.MULTIPLY) or graph.is_output(node.name) or not graph.users(node.name):
        return None
    x, factors = sorted(node.inputs, key=lambda name: graph.shape(name).is_vector)
    shape, count = graph.shape(x), graph.shape(factors)
    is_scale = not shape.is_vector and count == Shape(1, 1, shape.channels)
    if not is_scale or not device.limits.holds(shape) or shape.channels > device.limits.max_channels:
        return None
    packed = Node(graph.fresh(f"{node.name}/packed factors"), ops.OnCpu(ops.PackedFactors()), (factors,), node.origins)
    scaled = replace(node, op=ops.ScaledBy(), inputs=(x, packed.name))
    return (packed, scaled) if _saves_time(node, (x, shape), (packed, scaled), count, device) else None


def _saves_time(product: Node, x: tuple[str, Shape], instead: tuple[Node, Node], count: Shape, device: Device) -> bool:
    """Whether the nodes in place of a product take less time, as the sum of both ends. x: the map. count: the factors' shape."""
    (name, shape), (packed, scaled) = x, instead
    alone = Graph(
        (Node(name, ops.Input(shape)), Node(packed.inputs[0], ops.Input(count)), packed, scaled), (scaled.name,)
    )
    to_pack = usec_on_cpu(ops.PackedFactors(), [count], alone.shape(packed.name), device)
    there = device.estimate(alone, (scaled,)).usec + to_pack
    here = usec_on_cpu(product.op, [shape, count], shape, device)
    return there.low + there.high < here.low + here.high
