"""Places the nodes of a graph in layers, with the library fast-sugiyama."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from cnn_convertor.errors import UsageError

Point: TypeAlias = tuple[float, float]
_DUMMY = 0.5  # width of an arrow that passes by, in boxes; with a quarter, the library places boxes too close at times


class Layering(NamedTuple):
    """places: of nodes. routes: the points of each arrow, from node to node. Both from 0 on, in boxes, y down."""

    places: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]


def can_place() -> bool:
    """Whether the library is there."""
    try:
        import fast_sugiyama  # noqa: F401  # only whether it can be imported
    except ImportError:
        return False
    return True


def layered(count: int, arrows: Sequence[tuple[int, int]]) -> Layering:
    """Place nodes 0 to count - 1 so that arrows lead down. Raises UsageError without the library."""
    try:
        from fast_sugiyama import from_edges
    except ImportError:
        hint = "pip install fast-sugiyama, in a Python of version 3.11 or later"
        raise UsageError.of("DV160", "the library that lays out networks is not installed", hint=hint) from None
    joined = sorted({node for arrow in arrows for node in arrow})  # the library numbers bends from their number on
    short = {node: number for number, node in enumerate(joined)}
    edges = [(short[a], short[b]) for a, b in arrows]
    parts = from_edges(edges, vertex_spacing=1.0, dummy_vertices=True, dummy_size=_DUMMY) if edges else []
    spots: dict[int, Point] = {}
    next_of: dict[int, list[int]] = {}  # node -> the next ones; those from `count` on are bends
    left = 0.0
    for placed, _, _, ways in sorted(parts, key=lambda part: min(int(node) for node, _ in part[0])):
        end = max((count, *spots)) + 1  # bends of several parts have the same numbers
        number = {node: joined[int(node)] if int(node) < len(joined) else int(node) + end for node, _ in placed}
        start = min(x for _, (x, _) in placed)
        spots |= {number[node]: (left + x - start, y) for node, (x, y) in placed}
        for one, other in ways or ():
            next_of.setdefault(number[one], []).append(number[other])
        left = max(x for x, _ in spots.values()) + 1
    for alone in (node for node in range(count) if node not in spots):
        spots[alone] = (left, 0.0)
        left += 1
    spots = _from_zero(spots, arrows)
    routes = (tuple(spots[node] for node in _route(next_of, a, b, count)) for a, b in arrows)
    return Layering(tuple(spots[node] for node in range(count)), tuple(routes))


def _from_zero(spots: Mapping[int, Point], arrows: Sequence[tuple[int, int]]) -> dict[int, Point]:
    """The same places from 0 on, with arrows that lead down."""
    turn = -1 if any(spots[a][1] > spots[b][1] for a, b in arrows) else 1
    left = min((x for x, _ in spots.values()), default=0.0)
    top = min((turn * y for _, y in spots.values()), default=0.0)
    return {node: (x - left, turn * y - top) for node, (x, y) in spots.items()}


def _route(next_of: Mapping[int, Sequence[int]], start: int, end: int, count: int) -> list[int]:
    """The nodes from start to end, with the bends between them."""
    for first in next_of.get(start, ()):
        passed = [start, first]
        while passed[-1] >= count:
            passed.append(next_of[passed[-1]][0])
        if passed[-1] == end:
            return passed
    return [start, end]
