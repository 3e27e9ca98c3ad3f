"""Splits PReLU from layers that should have palettes: the device has no palettes for weights with slopes."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from cnn_convertor.devices.dv700.weights.streams import PackedShape
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import ONE, Shape


class PaletteTargets(NamedTuple):
    """The layers that are to have palettes: all but the exceptions if everywhere, else the exceptions alone."""

    everywhere: bool = False
    exceptions: frozenset[str] = frozenset()

    def include(self, layer: str) -> bool:
        return (layer in self.exceptions) != self.everywhere


NO_PALETTES = PaletteTargets()


def split_slopes(graph: Graph, targets: PaletteTargets) -> Graph:
    """Move PReLU out of convolutions and fully connected layers where the weights of both then take fewer bytes."""

    def rule(graph: Graph, node: Node) -> Iterable[Node] | None:
        match node.op:
            case (
                ops.Conv2d(activation=ops.PRelu() as function)
                | ops.ConvTranspose2d(activation=ops.PRelu() as function)
                | ops.Dense(activation=ops.PRelu() as function)
            ) if node.where is not None and targets.include(node.where.layer):
                if not _gets_smaller(_packed(node.op, graph.shape(node.inputs[0]))):
                    return None
                bare = replace(node, name=graph.fresh(f"{node.name}/linear"), op=replace(node.op, activation=None))
                if node.main is not None and len(node.origins) > 1:  # the last layer is the PReLU
                    bare = replace(bare, origins=node.origins[:-1])
                return bare, replace(node, op=ops.Activation(function), inputs=(bare.name,), main=None)
            case _:
                return None

    return graph.expand(rule)


def _packed(op: ops.Conv2d | ops.ConvTranspose2d | ops.Dense, x: Shape) -> PackedShape:
    """The weights of the layer with its slopes."""
    kernels = op.weight.shape[0]
    if isinstance(op, ops.Dense):
        return PackedShape(kernels, x.size, ONE, prelu=True)
    return PackedShape(kernels, op.weight.shape[1], op.window.kernel, op.window.dilation != ONE, prelu=True)


def _gets_smaller(together: PackedShape) -> bool:
    alone = replace(together, palette=True, prelu=False)
    slopes = PackedShape(together.kernels, 1, ONE, prelu=True)
    return alone.nbytes + slopes.nbytes < together.nbytes
