"""Places the nodes of a graph in layers, with the library fast-sugiyama."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from cnn_convertor.errors import UsageError

Point: TypeAlias = tuple[float, float]
_DUMMY = 1.0  # width of an arrow that passes by, in boxes; with less, the library places boxes too close at times


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
    if not can_place():
        hint = "pip install fast-sugiyama (the extra `pictures`), in a Python of version 3.11 or later"
        raise UsageError.of("DV160", "the library that lays out networks is not installed", hint=hint)
    places: dict[int, Point] = {}
    routes: dict[tuple[int, int], tuple[Point, ...]] = {}
    left = 0.0
    for part in _parts(count, arrows):
        # One part at a time, its nodes numbered from 0: the library numbers bends from there on.
        short = {node: number for number, node in enumerate(part)}
        own = [(a, b) for a, b in arrows if a in short]
        spots, next_of = _placed(len(part), [(short[a], short[b]) for a, b in own])
        places |= {node: (left + spots[number][0], spots[number][1]) for node, number in short.items()}
        for a, b in own:
            route = _route(next_of, short[a], short[b], len(part))
            routes[a, b] = tuple((left + spots[node][0], spots[node][1]) for node in route)
        left += max(x for x, _ in spots.values()) + 1
    return Layering(tuple(places[node] for node in range(count)), tuple(routes[arrow] for arrow in arrows))


def _parts(count: int, arrows: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The nodes that arrows connect, in any direction, together; in order."""
    part_of = {node: [node] for node in range(count)}
    for a, b in arrows:
        small, large = sorted((part_of[a], part_of[b]), key=len)
        if small is not large:
            large += small
            part_of |= dict.fromkeys(small, large)
    return sorted({id(part): sorted(part) for part in part_of.values()}.values())


def _placed(count: int, arrows: Sequence[tuple[int, int]]) -> tuple[dict[int, Point], dict[int, list[int]]]:
    """Where the nodes of one part and the bends of its arrows are, from 0 on, and the next nodes of each."""
    from fast_sugiyama import from_edges

    if not arrows:
        return {0: (0.0, 0.0)}, {}
    ((placed, _, _, ways),) = from_edges(arrows, vertex_spacing=1.0, dummy_vertices=True, dummy_size=_DUMMY)
    spots = {int(node): (float(x), float(y)) for node, (x, y) in placed}
    next_of: dict[int, list[int]] = {}
    for one, other in ways or arrows:
        next_of.setdefault(int(one), []).append(int(other))
    assert len(spots) == len(placed) and spots.keys() >= set(range(count)), "nodes and bends share numbers"
    turn = -1 if spots[arrows[0][0]][1] > spots[arrows[0][1]][1] else 1
    left, top = min(x for x, _ in spots.values()), min(turn * y for _, y in spots.values())
    return {node: (x - left, turn * y - top) for node, (x, y) in spots.items()}, next_of


def _route(next_of: Mapping[int, Sequence[int]], start: int, end: int, count: int) -> list[int]:
    """The nodes from start to end, with the bends between them, which are numbered from `count` on."""
    for first in next_of.get(start, ()):
        passed = [start, first]
        while passed[-1] >= count:
            passed.append(next_of[passed[-1]][0])
        if passed[-1] == end:
            return passed
    return [start, end]
