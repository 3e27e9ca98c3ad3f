"""Where each layer of a network runs and how, and why commands end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import groupby
from typing import Final, NamedTuple

from cnn_convertor.devices.facts import plain
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.target import Accelerator, Boundary, Legalized, PlannedLayer
from cnn_convertor.devices.words import describe
from cnn_convertor.errors import Origin, Problem
from cnn_convertor.frontends.builder import PartialGraph
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Concat, Identity, Input, Op, Reshape
from cnn_convertor.report.values import ModelLayer


class Runs(Enum):
    """Where a layer runs."""

    DEVICE = "device"
    REWRITTEN = "rewritten"  # on the device, as other operators
    CPU = "cpu"
    BOTH = "device+cpu"
    NOWHERE = "none"  # nothing is to be computed
    REFUSED = "refused"
    UNKNOWN = "unknown"  # it depends on a layer that cannot be read


ON_DEVICE: Final = frozenset({Runs.DEVICE, Runs.REWRITTEN, Runs.BOTH})


def boundaries_of(legalized: Legalized, target: Accelerator) -> tuple[Boundary, ...]:
    """The boundaries of commands and their reasons, with the names of the framework's layers."""

    def layer(name: str) -> str:
        where = legalized.graph[name].where
        return name if where is None else where.layer

    pairs = target.boundaries(legalized)
    named = (Boundary(layer(b.before), layer(b.after), b.reason) for b in pairs)
    return tuple(dict.fromkeys(b for b in named if b.before != b.after))


def work_of(partial_graph: PartialGraph, steps: Sequence[PlannedLayer]) -> dict[int, PlannedLayer]:
    """The steps that compute layers of the network, by their numbers."""
    return {number: step for number, step in enumerate(steps) if not _is_for_placeholders(partial_graph, step)}


def _is_for_placeholders(partial_graph: PartialGraph, step: PlannedLayer) -> bool:
    """Whether a step exists only because a layer that cannot be read was cut out."""
    unread = {origin for name in partial_graph.placeholders for origin in partial_graph.graph[name].origins}
    is_given_away = step.type is LayerType.FLATTEN and partial_graph.cut.issuperset(step.reads)
    return is_given_away or (bool(unread) and unread.issuperset(step.origins))


# --- rows ----------------------------------------------------------------------------------------------------------------


class _ExecutedNode(NamedTuple):
    """A node that a step runs, and the step's number."""

    number: int
    step: PlannedLayer
    node: Node


def rows(
    partial_graph: PartialGraph, work: Mapping[int, PlannedLayer], problems: Sequence[Problem]
) -> Iterator[ModelLayer]:
    """One row for each layer of the network, in its order."""
    graph = partial_graph.graph
    layers: dict[Origin, list[Node]] = {}
    for node in graph.nodes:
        for origin in node.origins:
            layers.setdefault(origin, []).append(node)
    by_layer: dict[Origin, list[_ExecutedNode]] = {}
    for number, step in work.items():
        for node in step.nodes:
            for origin in dict.fromkeys(node.origins):
                by_layer.setdefault(origin, []).append(_ExecutedNode(number, step, node))
    for origin, nodes in layers.items():
        its_problems = tuple(p for p in problems if p.where is not None and p.where.layer == origin.layer)
        executed = by_layer.get(origin, [])
        unread = any(node.name in partial_graph.placeholders for node in nodes)
        if its_problems:
            runs = Runs.REFUSED
            how = "; ".join(f"{p.code} {p.message}" for p in its_problems)
        elif unread:
            runs = Runs.UNKNOWN
            how = "it cannot be read, or its inputs are guesses since a layer before it cannot be"
        else:
            runs, how = _runs_and_how(origin, nodes, executed)
        outputs = _outputs(graph, nodes)
        yield ModelLayer(
            name=origin.layer,
            type=origin.type,
            outputs=tuple(plain(graph.shape(node.name)) for node in outputs),
            output_names=tuple(node.own_name for node in outputs) if any(node.own_name for node in outputs) else (),
            guessed=any(node.name in partial_graph.guessed for node in nodes),
            parameters=None if unread else partial_graph.parameters.get(origin, 0),
            macs=None if unread else sum(map(graph.multiplications, nodes)),
            runs=runs.value,
            how=how,
            steps=() if partial_graph.placeholders else tuple(dict.fromkeys(each.number for each in executed)),
        )


def _outputs(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """A layer's outputs: its nodes that other layers read, or that none reads."""
    inner = {node.name for node in nodes}
    return [
        node
        for node in nodes
        if graph.is_output(node.name) or not graph.users(node.name) or not inner.issuperset(graph.users(node.name))
    ]


class _LayerShare(NamedTuple):
    """What the program has of a layer.

    own: the nodes that it became. hosts: nodes of other layers that do its work. flattening: of its map for an output, which
    is no work of the layer.
    """

    own: tuple[_ExecutedNode, ...]
    hosts: tuple[_ExecutedNode, ...]
    flattening: tuple[_ExecutedNode, ...]

    @staticmethod
    def of(origin: Origin, nodes: Sequence[Node], executed: Sequence[_ExecutedNode]) -> _LayerShare:
        """nodes: of the framework's graph."""
        own = tuple(each for each in executed if each.node.where == origin)
        flattening = tuple(each for each in own if each.step.type is LayerType.FLATTEN)
        if any(isinstance(node.op, Reshape) for node in nodes):
            flattening = ()
        hosts = (each for each in executed if each.node.where != origin and each.step.type is not LayerType.FLATTEN)
        return _LayerShare(tuple(each for each in own if each not in flattening), tuple(hosts), flattening)

    @property
    def runs_on(self) -> set[Runs]:
        """Where anything is computed."""
        executed = (*(self.own or self.hosts), *self.flattening)
        return {Runs(each.step.type.executor) for each in executed} - {Runs.NOWHERE}


def _runs_and_how(origin: Origin, nodes: Sequence[Node], executed: Sequence[_ExecutedNode]) -> tuple[Runs, str]:
    """Where a layer without problems runs, and how. nodes: of the framework; executed: of the program."""
    share = _LayerShare.of(origin, nodes, executed)
    runs_on = share.runs_on
    if not runs_on:
        return Runs.NOWHERE, _idle(nodes[-1].op)
    if len(runs_on) > 1:
        return Runs.BOTH, _how(origin, share)
    (only,) = runs_on
    before = [describe(node.op) for node in nodes if not isinstance(node.op, Identity)]
    is_rewritten = only is Runs.DEVICE and bool(share.own) and [describe(each.node.op) for each in share.own] != before
    return Runs.REWRITTEN if is_rewritten else only, _how(origin, share)


def _how(origin: Origin, share: _LayerShare) -> str:
    """The operators of a layer, and the layers whose commands it shares."""
    heads = [each.step.nodes[0].where for each in share.own] or [each.node.where for each in share.hosts]
    others = dict.fromkeys(f'"{head.layer}"' for head in heads if head is not None and head != origin)
    operators = _counted(describe(each.node.op) for each in share.own)
    if others:
        operators.append(f"{'in the command of' if share.own else 'within'} {', '.join(others)}")
    how = [", ".join(operators)] if operators else []
    reasons = {each.node.reason for each in share.own}
    return "; ".join([*how, *sorted(reasons - {""}), *["flattened for the output"] * bool(share.flattening)])


# --- words ---------------------------------------------------------------------------------------------------------------


def _idle(op: Op) -> str:
    """Why nothing is to be computed."""
    match op:
        case Input():
            return "the application writes it"
        case Concat():
            return "its inputs are written in place"
        case Identity():
            return "nothing to do"
        case _:
            return "nothing to compute"


def _counted(words: Iterable[str]) -> list[str]:
    """Each run of the same words once, with their number."""
    counts = [(word, len(list(same))) for word, same in groupby(words)]
    return [word if count == 1 else f"{count} times {word}" for word, count in counts]
