"""Ends a network at the layers that the user names."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from cnn_convertor.errors import Origin, Problem, UsageError
from cnn_convertor.frontends.builder import PartialGraph
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Input
from cnn_convertor.near_names import suggestion


def end_at(partial: PartialGraph, layers: Sequence[str], where: Origin) -> PartialGraph:
    """The network whose outputs are those of the named layers, in this order, and that holds what they need.

    Problems of other layers are dropped. A layer with several outputs gives all of them.
    Raises UsageError, at `where`, for names that no layer has.
    """
    whole = partial.graph
    by_layer = outputs_of_layers(whole)
    if problems := [_unknown(name, by_layer, where) for name in layers if name not in by_layer]:
        raise UsageError(problems)
    outputs = tuple(chain.from_iterable(by_layer[name] for name in layers))
    kept, cut = _needed(whole, outputs), frozenset[str]()
    if any(
        node.name in partial.placeholders for node in kept
    ):  # what leads to a layer that cannot be read is checked, too
        cut = partial.cut.difference(outputs)
        outputs = (*outputs, *sorted(cut))
        kept = _needed(whole, outputs)
    names = {node.name for node in kept}
    origins = {origin for node in kept for origin in node.origins}
    dropped = {o.layer for node in whole.nodes for o in node.origins} - {o.layer for o in origins}
    return replace(
        partial,
        graph=Graph(kept, outputs),
        problems=tuple(p for p in partial.problems if p.where is None or p.where.layer not in dropped),
        placeholders=partial.placeholders & names,
        cut=cut,
        guessed=partial.guessed & names,
        parameters={origin: count for origin, count in partial.parameters.items() if origin in origins},
    )


def outputs_of_layers(graph: Graph) -> dict[str, list[str]]:
    """Framework layer -> its outputs: of its nodes, those that not only the layer itself reads."""
    nodes: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for origin in node.origins:
            nodes.setdefault(origin.layer, []).append(node)
    outputs = {}
    for layer, its in nodes.items():
        inner = {node.name for node in its}
        outputs[layer] = [n.name for n in its if not (graph.users(n.name) and inner.issuperset(graph.users(n.name)))]
    return outputs


def _needed(graph: Graph, outputs: Sequence[str]) -> tuple[Node, ...]:
    """The nodes that the outputs need, inputs included."""
    nodes = Graph(graph.nodes, tuple(outputs)).without_dead().nodes
    read = {name for node in nodes for name in node.inputs}.union(outputs)
    return tuple(node for node in nodes if node.name in read or not isinstance(node.op, Input))


def _unknown(name: str, layers: Iterable[str], where: Origin) -> Problem:
    listing = f"cnn-convertor inspect {shlex.quote(where.file)}"
    hint = suggestion(name, layers) or f"`{listing}` lists the layers"
    return Problem("DV117", f'[OUTPUT] outputs: the network has no layer "{name}"', where, hint)
