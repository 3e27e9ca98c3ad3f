"""Begins and ends a network at the layers that the user names, and finds where it can end if some layers are refused."""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from cnn_convertor.errors import Origin, Problem, UsageError, suggestion
from cnn_convertor.frontends.builder import PartialGraph
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Input


def part_of(
    partial: PartialGraph,
    inputs: Sequence[str],
    outputs: Sequence[str],
    where: Origin,
    lines: Mapping[str, Origin] = {},
    size: tuple[int, int] | None = None,
) -> PartialGraph:
    """The network between the named layers; empty: from its own inputs, to its own outputs.

    inputs: layers whose results become inputs, in place of what computes them. outputs: layers whose results are the outputs,
    in this order. A layer with several outputs gives all of them, the framework's own name of one output this one alone.
    Problems of other layers are dropped.
    lines: where the ini file names them. size: the (height, width) that the user gives for the network's input, which confirms
    the guess for a layer that cannot be read, if all others can. Raises UsageError there, or at `where`, for names that no layer has, and for inputs of
    unknown size or that no output needs.
    """
    whole = partial.graph
    by_layer = outputs_by_name(whole)
    begin = lines.get("inputs", where)
    end = lines.get("outputs", where)
    problems = []
    for key, names, origin in (("[INPUT] inputs", inputs, begin), ("[OUTPUT] outputs", outputs, end)):
        problems += [_unknown(name, by_layer, key, origin, where.file) for name in names if name not in by_layer]
    if problems:
        raise UsageError(problems)
    begins = set(chain.from_iterable(by_layer[name] for name in inputs))
    replaced = begins.difference({node.name for node in whole.inputs} - partial.placeholders)
    ends = tuple(chain.from_iterable(by_layer[name] for name in outputs))
    has_size = all(whole.shape(name)[:2] == size for name in partial.placeholders)
    if begins and partial.placeholders <= begins and has_size:
        partial = replace(partial, guessed=frozenset())
    if inputs:
        outputs_of_whole = tuple(name for name in whole.outputs if name not in partial.cut) or whole.outputs
        partial = _begun(partial, begins)
        ends = ends or outputs_of_whole
    part = _ended(partial, ends, replaced) if ends else partial
    for name in inputs:
        if not partial.guessed.isdisjoint(by_layer[name]):
            problem = f'[INPUT] inputs: the size of the result of "{name}" is unknown'
            hint = "begin behind a later layer, or give the result's size with width_override and height_override"
            raise UsageError.of("DV117", problem, begin, hint)
        if not any(output in part.graph for output in by_layer[name]):
            problem = f'[INPUT] inputs: no output needs the result of "{name}"'
            raise UsageError.of("DV117", problem, begin, "leave the name out, or name another layer")
    return part


def _begun(partial: PartialGraph, begins: Collection[str]) -> PartialGraph:
    """The network with inputs in place of some nodes."""
    graph = partial.graph
    axes_of_inputs = (node.op.axes for node in graph.inputs if isinstance(node.op, Input))
    axes = next((letters for letters in axes_of_inputs if len(letters) == 3), "")  # of maps, in the framework's order
    nodes = []
    for node in graph.nodes:
        if node.name in begins:
            node = replace(node, op=Input(graph.shape(node.name), axes), inputs=())
        nodes.append(node)
    placeholders = partial.placeholders.difference(begins)
    return replace(partial, graph=Graph(tuple(nodes), graph.outputs), placeholders=placeholders)


def _ended(partial: PartialGraph, outputs: tuple[str, ...], replaced: Collection[str]) -> PartialGraph:
    """What the outputs need, and what leads to a layer that cannot be read, if they need one.

    replaced: layers that are inputs now, whose problems are dropped.
    """
    whole = partial.graph
    kept = _needed(whole, outputs)
    cut = frozenset[str]()
    if any(node.name in partial.placeholders for node in kept):
        cut = partial.cut.difference(outputs)
        outputs = outputs + tuple(sorted(cut))
        kept = _needed(whole, outputs)
    names = {node.name for node in kept}
    origins = {origin for node in kept for origin in node.origins}
    dropped = _layers(whole.nodes) - _layers(node for node in kept if node.name not in replaced)
    return replace(
        partial,
        graph=Graph(kept, outputs),
        problems=tuple(p for p in partial.problems if p.where is None or p.where.layer not in dropped),
        placeholders=partial.placeholders & names,
        cut=cut,
        guessed=partial.guessed & names,
        parameters={origin: count for origin, count in partial.parameters.items() if origin in origins},
    )


def _layers(nodes: Iterable[Node]) -> set[str]:
    return {origin.layer for node in nodes for origin in node.origins}


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


def outputs_by_name(graph: Graph) -> dict[str, list[str]]:
    """Framework layer -> its outputs; the framework's own name of one of several outputs -> this one.

    A name that a layer shares with its own output means the output; one that it shares with another layer's, the layer.
    """
    layers = outputs_of_layers(graph)
    named: dict[str, list[str]] = {}
    for node in graph.nodes:
        if node.own_name and (node.own_name not in layers or node.name in layers[node.own_name]):
            named.setdefault(node.own_name, []).append(node.name)
    return layers | named


def layers_apart(partial: PartialGraph, refused: Collection[str]) -> tuple[tuple[str, ...], tuple[Origin, ...]]:
    """The names at which a network can end so that it needs no refused layer, and the layers that are then left out.

    A map that only the rest of the network reads is such an end. Inputs are none, since the application has them.
    """
    graph = partial.graph
    apart = set(refused)
    cut = set(partial.placeholders)
    size = -1
    while len(apart) != size:  # a layer is left out whole
        size = len(apart)
        for node in graph.nodes:
            layers = {origin.layer for origin in node.origins}
            if node.name in cut or not layers.isdisjoint(apart) or not cut.isdisjoint(node.inputs):
                cut.add(node.name)
                apart |= layers
    last = partial.cut.union(graph.outputs, *(graph[name].inputs for name in cut)) - cut
    by_name = outputs_by_name(graph)
    ends: dict[str, None] = {}  # as an ordered set
    rest: dict[Origin, None] = {}
    for node in graph.nodes:
        if node.name in cut:
            rest.update(dict.fromkeys(node.origins))
        elif node.name in last and not isinstance(node.op, Input):
            has_name = node.name in by_name.get(node.own_name, ())
            ends[node.own_name if has_name else node.origins[-1].layer] = None
    return tuple(ends), tuple(rest)


def _needed(graph: Graph, outputs: Sequence[str]) -> tuple[Node, ...]:
    """The nodes that the outputs need, inputs included."""
    nodes = Graph(graph.nodes, tuple(outputs)).without_dead().nodes
    read = {name for node in nodes for name in node.inputs}.union(outputs)
    return tuple(node for node in nodes if node.name in read or not isinstance(node.op, Input))


def _unknown(name: str, layers: Iterable[str], key: str, where: Origin, model: str) -> Problem:
    listing = f"cnn-convertor inspect {shlex.quote(model)}"
    hint = suggestion(name, layers) or f"`{listing}` lists the layers"
    return Problem("DV117", f'{key}: the network has no layer "{name}"', where, hint)
