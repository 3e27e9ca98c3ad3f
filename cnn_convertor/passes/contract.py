"""A pass as a value: a rewrite with its name, the reason for its place, and what holds before and after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from cnn_convertor.ir.graph import Graph, Node

Rewrite: TypeAlias = Callable[[Graph], Graph]
NodeRule: TypeAlias = Callable[[Graph, Node], Iterable[Node] | None]

CHECK = "CNN_CONVERTOR_CHECK_PASSES"  # in the environment: check what passes require and ensure


class Condition(NamedTuple):
    """What holds of a graph. broken: the names of nodes at which it does not hold.

    settles: the rewrite that then has nothing left to do.
    """

    words: str
    broken: Callable[[Graph], Iterable[str]]
    settles: Rewrite | None = None


class Pass(NamedTuple):
    """A rewrite of a graph, which then computes the same. Its name is unique; the reason is that for its place."""

    name: str
    rewrite: Rewrite
    reason: str
    ensures: tuple[Condition, ...]
    requires: tuple[Condition, ...] = ()


PassObserver: TypeAlias = Callable[[Pass, Graph, Graph], None]  # is given each pass, and the graph before and after


def run_passes(
    passes: Iterable[Pass], graph: Graph, observe: PassObserver | None = None, *, checks: bool = False
) -> Graph:
    """Run passes in order. checks: check what each requires and ensures, as the environment can ask for, too."""
    checks = checks or os.environ.get(CHECK, "0") != "0"
    for each in passes:
        after = checked(each, graph) if checks else each.rewrite(graph)
        if observe is not None:
            observe(each, graph, after)
        graph = after
    return graph


def checked(each: Pass, graph: Graph) -> Graph:
    """The graph after a pass. Raises AssertionError where a condition does not hold: a defect of the convertor."""
    _check(graph, each.requires, f"{each.name} requires")
    after = each.rewrite(graph)
    is_settled = after == graph  # as this run has shown, so that another need not
    ensured = (condition for condition in each.ensures if not (is_settled and condition.settles is each.rewrite))
    _check(after, ensured, f"{each.name} ensures")
    return after


def _check(graph: Graph, conditions: Iterable[Condition], promise: str) -> None:
    for condition in conditions:
        names = list(condition.broken(graph))
        assert not names, f"{promise} that {condition.words}, but see {', '.join(map(repr, names[:5]))}"


def for_no_node(words: str, breaks: Callable[[Graph, Node], bool]) -> Condition:
    """The condition that no node breaks."""
    return Condition(words, lambda graph: (node.name for node in graph.nodes if breaks(graph, node)))


def settled(words: str, rewrite: Rewrite) -> Condition:
    """The condition that a rewrite has nothing left to do."""
    return Condition(words, lambda graph: changed(graph, rewrite(graph)), rewrite)


def settling(
    name: str,
    rewrite: Rewrite,
    words: str,
    reason: str,
    *,
    requires: tuple[Condition, ...] = (),
    also: tuple[Condition, ...] = (),
) -> Pass:
    """A pass that leaves nothing for a second run. words: what then holds; also: further conditions that it ensures."""
    return Pass(name, rewrite, reason, (*also, settled(words, rewrite)), requires)


def each_node(rule: NodeRule) -> Rewrite:
    """The rewrite that replaces every node for which a rule has others."""
    return lambda graph: graph.expand(rule)


def settled_by(rule: NodeRule) -> Rewrite:
    """The rewrite that replaces nodes until the rule has no others."""

    def rewrite(graph: Graph) -> Graph:
        while (after := graph.expand(rule)) != graph:
            graph = after
        return graph

    return rewrite


def changed(before: Graph, after: Graph) -> list[str]:
    """The names of nodes that are in one graph alone, or differ; and of outputs that differ."""
    if before == after:
        return []
    old, new = ({node.name: node for node in graph.nodes} for graph in (before, after))
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return names or [*before.outputs]
