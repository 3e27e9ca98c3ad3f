"""Places the nodes of a graph in layers, with the library fast-sugiyama."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Final, NamedTuple, TypeAlias

from cnn_convertor.budget import SHARES
from cnn_convertor.errors import UsageError
from cnn_convertor.samples import how_to_install

Point: TypeAlias = tuple[float, float]
_POINT: Final = 1_000  # steps of the budget for a box, and for each layer that an arrow passes by
_DUMMY = 1.0  # width of an arrow that passes by, in boxes; with less, the library places boxes too close at times


class Layering(NamedTuple):
    """positions: of nodes. routes: the points of each arrow, from node to node. Both from 0 on, in boxes, y down."""

    positions: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]


def layered(count: int, arrows: Sequence[tuple[int, int]]) -> Layering:
    """Place nodes 0 to count - 1 so that arrows lead down.

    Raises UsageError without the library, and for graphs that need more than the budget.
    """
    try:
        import fast_sugiyama  # noqa: F401  # only whether it can be imported
    except ImportError:
        hint = f"{how_to_install('pictures')}; it needs Python 3.11 or later"
        raise UsageError.of("DV160", "the library that lays out networks is not installed", hint=hint) from None
    needed = count + _passed(count, arrows)
    most = SHARES["picture"] // _POINT
    if needed > most:
        problem = f"the network is too large to draw: its steps and arrows need {needed:,} points, of at most {most:,}"
        raise UsageError.of("DV164", problem, hint="draw a part of it, with `outputs` or `inputs` in the ini file")
    positions: dict[int, Point] = {}
    routes: dict[tuple[int, int], tuple[Point, ...]] = {}
    left = 0.0
    for part, part_arrows in _parts(count, arrows):
        # One part at a time, its nodes numbered from 0: the library numbers bends from there on.
        short = {node: number for number, node in enumerate(part)}
        spots, next_of = _placed(len(part), [(short[a], short[b]) for a, b in part_arrows])
        positions |= {node: (left + spots[number][0], spots[number][1]) for node, number in short.items()}
        passes = {(route[0], route[-1]): route for route in _routes(next_of, len(part))}
        for a, b in part_arrows:
            route = passes.get((short[a], short[b]), (short[a], short[b]))
            routes[a, b] = tuple((left + spots[node][0], spots[node][1]) for node in route)
        left += max(x for x, _ in spots.values()) + 1
    return Layering(tuple(positions[node] for node in range(count)), tuple(routes[arrow] for arrow in arrows))


def _passed(count: int, arrows: Sequence[tuple[int, int]]) -> int:
    """How many layers arrows pass by, with each node right below the lowest that it follows: a layout needs hardly more."""
    above: dict[int, list[int]] = {node: [] for node in range(count)}
    for a, b in arrows:
        above[b].append(a)
    depth: dict[int, int] = {}
    for node in TopologicalSorter(above).static_order():
        depth[node] = 1 + max((depth[a] for a in above[node]), default=-1)
    return sum(depth[b] - depth[a] - 1 for a, b in arrows)


def _parts(count: int, arrows: Sequence[tuple[int, int]]) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """The nodes that arrows connect, in any direction, together, with these arrows; in order."""
    part_of = {node: [node] for node in range(count)}
    for a, b in arrows:
        small, large = sorted((part_of[a], part_of[b]), key=len)
        if small is not large:
            large += small
            part_of |= dict.fromkeys(small, large)
    arrows_of: dict[int, list[tuple[int, int]]] = {id(part): [] for part in part_of.values()}
    for a, b in arrows:
        arrows_of[id(part_of[a])].append((a, b))
    return sorted(
        (sorted(part), arrows_of[id(part)]) for part in {id(part): part for part in part_of.values()}.values()
    )


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
    left = min(x for x, _ in spots.values())
    top = min(turn * y for _, y in spots.values())
    return {node: (x - left, turn * y - top) for node, (x, y) in spots.items()}, next_of


def _routes(next_of: Mapping[int, Sequence[int]], count: int) -> Iterator[list[int]]:
    """The nodes that each arrow joins, with the bends between them, which are numbered from `count` on."""
    for start in range(count):
        for first in next_of.get(start, ()):
            route = [start, first]
            while route[-1] >= count:
                route.append(next_of[route[-1]][0])
            yield route
