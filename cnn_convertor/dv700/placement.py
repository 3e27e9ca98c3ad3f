"""Finds out where every map lies: which maps share memory, how long each piece lives, and at which offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cnn_convertor.dv700.maps import is_chunked
from cnn_convertor.dv700.program import ElementType
from cnn_convertor.dv700.steps import Step, is_view, joins_in_place, readers, source
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import ChannelSlice, Concat, Custom, OnCpu, Softmax
from cnn_convertor.memory import Buffer, Plan, plan

ALIGNMENT = 16  # bytes


class Placement(NamedTuple):
    """offsets: node name -> bytes from the start of the I/O buffer."""

    offsets: dict[str, int]
    plan: Plan


def element_type(graph: Graph, name: str) -> ElementType:
    """How the memory is written that the named map shows.

    Softmax and the firmware's own layers write FP32. So do our layers on the CPU, for the application and for each other; what
    anybody else reads is FP16.
    """
    node = source(graph, name)
    match node.op:
        case Softmax() | Custom():
            return ElementType.FLOAT
        case OnCpu() if all(isinstance(reader.op, OnCpu) for reader in readers(graph, node.name)):
            return ElementType.FLOAT
        case _:
            return ElementType.HALF


def is_plain(graph: Graph, name: str) -> bool:
    """Whether the CPU has brought the map into the order H, W, C, since the application reads it as it lies."""
    node = source(graph, name)
    if not is_chunked(graph.shape(node.name)):
        return False
    return isinstance(node.op, Softmax) or (isinstance(node.op, OnCpu) and node.name in graph.outputs)


def place(graph: Graph, steps: Sequence[Step]) -> Placement:
    """Offsets for all maps that are ever written. A concatenation in place is one buffer, in which its parts lie.

    Inputs are there from the start, outputs until the end.
    """
    homes = homes_of(graph)
    born = {homes[node.name][0]: 0 for node in graph.inputs}
    dies = dict(born)
    for index, step in enumerate(steps):
        for name in (*step.reads, step.writes):
            home, _ = homes[name]
            born.setdefault(home, index)
            dies[home] = index
    for name in graph.outputs:
        dies[homes[name][0]] = len(steps)
    made = plan([Buffer(home, nbytes(graph, home), born[home], dies[home]) for home in born], alignment=ALIGNMENT)
    offsets = {name: made.offsets[home] + offset for name, (home, offset) in homes.items() if home in born}
    return Placement(offsets, made)


def nbytes(graph: Graph, name: str) -> int:
    """Size of the named map in memory."""
    return graph.shape(name).size * element_type(graph, name).value


def homes_of(graph: Graph) -> dict[str, tuple[str, int]]:
    """Node name -> the buffer in which its map lies (named after the largest map there) and the offset in bytes."""
    homes: dict[str, tuple[str, int]] = {}
    for node in reversed(graph.nodes):  # backwards, since a concatenation stands after its parts
        if is_view(node):
            continue
        home, offset = homes.setdefault(node.name, (node.name, 0))
        if isinstance(node.op, Concat) and joins_in_place(graph, node):
            for part in node.inputs:
                written = source(graph, part).name
                assert written not in homes, f"{written} cannot lie in two places"
                homes[written] = home, offset
                offset += nbytes(graph, part)
    for node in graph.nodes:
        if is_view(node):
            home, offset = homes[node.inputs[0]]
            homes[node.name] = home, offset + _bytes_before(graph, node)
    return homes


def _bytes_before(graph: Graph, view: Node) -> int:
    """Where a view begins in the map that it shows."""
    if not isinstance(view.op, ChannelSlice):
        return 0
    height, width, _ = graph.shape(view.name)
    return height * width * view.op.first * element_type(graph, view.name).value
