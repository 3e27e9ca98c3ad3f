"""Clusters weighted values in one dimension with the least squared error: exactly, in a fraction of a second.

The values, with zero inserted, are points 0 to n-1 in ascending order. A cluster is a range of points; its center is the FP16
number nearest to its mean, but 0.0 for the cluster that contains zero. A clustering into K clusters is a path of K edges from
position 0 to position n; each edge costs the squared error of the points it spans.

With these centers, the costs have the Monge property (crossing edges cost no more than nested ones). Hence the least cost is
convex in K, and for a suitable price per edge the cheapest path of any length has K edges: Aggarwal, Schieber and Tokuyama,
"Finding a minimum-weight k-link path in graphs with the concave Monge property and applications" (1994). For a given price,
policy iteration finds the cheapest path: evaluate all positions' choices of predecessors, then improve the choices, until
none changes. The price and the first choices come from coarse lines, which have a few positions per cluster.

The result is optimal up to rounding: improvements below 1e-9 of the price are ignored. It is deterministic: it depends only on
a fixed sequence of IEEE 754 double-precision operations. Sums accumulate from zero outwards, so that large values do not
swamp small ones. Ties go to the lower border.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]
Positions = NDArray[np.int64]
Booleans = NDArray[np.bool_]

_GAIN = 1e-9  # minimum improvement, relative to the price
_FINENESS = (4, 16)  # positions of the coarse lines per cluster
_COARSER = 3  # times as coarse, so that solving a coarse line first is worth it
_LEAST_SHARE = 2.0**-32  # of the largest weight: the sums of 2**16 weights in double precision show it
_MAX_ROUNDS = 1000  # of policy iteration, which needs about 10
_SMALLEST_NORMAL = 2.0**-14  # of FP16
_TO_SUBNORMAL = 1.5 * 2.0**28  # adding it rounds a double to a multiple of 2**-24, the FP16 subnormal step
_NEWTON_STEPS = 8


def divide(values: Real, weights: Real, clusters: int) -> Real:
    """The centers, ascending, including 0.0, of the best clustering.

    values: non-zero numbers within FP16's range, ascending, at least as many as clusters. weights: positive; those below 2**-32
    of the largest count as that.
    """
    zero = int(np.searchsorted(values, 0.0))
    points = np.insert(values, zero, 0.0)
    visible = np.maximum(weights, weights.max() * _LEAST_SHARE)
    # The center of zero is fixed, so any number would do but for the precision of sums with it.
    counts = np.insert(visible, zero, visible.max())
    line = _Line(zero, np.stack([_outwards(counts * points**power, zero) for power in range(3)]))
    borders = _cheapest_with(line, clusters, _near(line, _shares(points, counts), clusters)).borders
    return line.centers(borders[:-1], borders[1:])


class _Line(NamedTuple):
    """The points and the edge costs. Positions are 0 to size; edges go upwards.

    zero: the point whose center is 0.0. sums: of the weights times the values to the power 0, 1 and 2 between zero and each
    position, negative to the left: (3, size + 1).
    """

    zero: int
    sums: Real

    @property
    def size(self) -> int:
        return len(self.sums[0]) - 1

    def coarser(self, positions: Positions) -> _Line:
        """The line with these positions only."""
        zero = int(np.searchsorted(positions, self.zero, side="right")) - 1
        return _Line(zero, self.sums.take(positions, axis=1))

    def centers(self, start: Positions, stop: Positions) -> Real:
        """The center of the points from start up to stop, per pair."""
        return _centers(self._between(start, stop), self._spans(start, stop))

    def costs(self, start: Positions, stop: Positions) -> Real:
        """The squared error of the points from start up to stop, per pair."""
        return _errors(self._between(start, stop), self._spans(start, stop))

    def _between(self, start: Positions, stop: Positions) -> Real:
        """The sums of the points from start up to stop, per pair: (3, pairs)."""
        sums: Real = self.sums.take(stop, axis=1)
        sums -= self.sums.take(start, axis=1)
        return sums

    def _spans(self, start: Positions, stop: Positions) -> Booleans:
        """Whether the points from start up to stop include zero, per pair."""
        return (start <= self.zero) & (stop > self.zero)


def _centers(sums: Real, spans: Booleans) -> Real:
    """The centers of clusters of these sums, (3, clusters). spans: whether they include zero."""
    center = _half(sums[1] / sums[0])
    center *= ~spans
    return center


def _errors(sums: Real, spans: Booleans) -> Real:
    """The squared errors of clusters, as for `_centers`: second - center * (2 * first - center * weight). Overwrites the sums."""
    center = _centers(sums, spans)
    weight, first = sums[:2]
    second: Real = sums[2]
    weight *= center
    first *= 2
    first -= weight
    first *= center
    second -= first
    return second


def _outwards(terms: Real, zero: int) -> Real:
    """(size + 1,): the sum of terms between zero and each position, negative to the left."""
    left = -np.cumsum(terms[:zero][::-1])[::-1]
    return np.concatenate((left, [0.0], np.cumsum(terms[zero:])))


def _half(values: Real) -> Real:
    """Round to FP16, ties away from zero, within its range."""
    half = ((values.view(np.int64) + (1 << 41)) & -(1 << 42)).view(np.float64)  # keeps 10 bits behind the point
    small = np.flatnonzero(np.abs(values) < _SMALLEST_NORMAL)
    if small.size:
        half[small] = (values[small] + _TO_SUBNORMAL) - _TO_SUBNORMAL
    return half


# --- where to start ------------------------------------------------------------------------------------------------------
# With many points per cluster, clusters have equal shares of the integral of the density's cube root, and a cluster's error is
# half the price (Panter and Dite, 1951).


class _Start(NamedTuple):
    """A likely price, and a predecessor of each position: (size + 1,)."""

    price: float
    before: Positions


def _near(line: _Line, shares: Real, clusters: int) -> _Start:
    """A start near the result: from coarse lines, one finer than the other, where points are many and none has a large share."""
    start = _Start(2 * _cube(float(shares[-1])) / 12 / _cube(float(clusters)), _evenly_apart(shares, clusters))
    for fineness in _FINENESS:
        coarse = _coarse(shares, fineness * clusters)
        if 2 * clusters < coarse.size < line.size / _COARSER:
            near = _on_coarser_line(start.before, coarse)
            path = _cheapest_with(line.coarser(coarse), clusters, _Start(start.price, near))
            start = _Start(path.price, _on_finer_line(path.before, coarse))
    return start


def _shares(points: Real, counts: Real) -> Real:
    """(size + 1,): the integral of the density's cube root up to each position."""
    gaps = np.diff(points, prepend=points[0], append=points[-1])
    widths = (gaps[:-1] + gaps[1:]) / 2
    return np.concatenate(([0.0], np.cumsum(_cube_root(counts * widths * widths))))


def _evenly_apart(shares: Real, clusters: int) -> Positions:
    """For each position, the one that is a cluster's share before it."""
    return _earlier(np.searchsorted(shares, shares - shares[-1] / clusters))


def _coarse(shares: Real, count: int) -> Positions:
    """About `count` positions with equal shares between them, fewer where a point has more."""
    inner = np.searchsorted(shares, np.arange(1, count) * (shares[-1] / count))
    return np.unique(np.concatenate(([0], inner, [shares.size - 1])))


def _on_finer_line(before: Positions, coarse: Positions) -> Positions:
    """The predecessors for all positions from those of the coarse ones: each has that of the next coarse one."""
    return _earlier(coarse[before[np.searchsorted(coarse, np.arange(coarse[-1] + 1))]])


def _on_coarser_line(before: Positions, coarse: Positions) -> Positions:
    """The predecessors of the coarse positions, as the next coarse ones."""
    return _earlier(np.searchsorted(coarse, before[coarse]))


def _earlier(before: Positions) -> Positions:
    """The predecessors, at most the position before each."""
    return np.minimum(before, np.maximum(np.arange(before.size) - 1, 0))


def _cube(x: float) -> float:
    return x * x * x


def _cube_root(values: Real) -> Real:
    """Cube roots of positive values by Newton's method; libraries differ in the last bit."""
    root: Real = np.ldexp(1.0, -(-np.frexp(values)[1] // 3))  # at most twice too large
    for _ in range(_NEWTON_STEPS):
        root = (2 * root + values / (root * root)) / 3
    return root


# --- the number of clusters ----------------------------------------------------------------------------------------------


class _Found(NamedTuple):
    """borders: the positions that the cheapest path visits. price, before: of the last search."""

    borders: Positions
    price: float
    before: Positions


class _Path(NamedTuple):
    """borders: the visited positions. cost: of the edges, without their price."""

    borders: Positions
    cost: float

    @property
    def edges(self) -> int:
        return self.borders.size - 1


def _cheapest_with(line: _Line, edges: int, start: _Start) -> _Found:
    """The cheapest path with the given number of edges."""
    price, before = start
    fewer: _Path | None = None
    more: _Path | None = None
    while True:
        before = _settle(line, price, before)
        path = _follow(line, before)
        if path.edges == edges:
            return _Found(path.borders, price, before)
        if fewer is not None and more is not None:
            # Both ends cost the same at this price; unless a path is cheaper, so do all path lengths between them.
            gain = fewer.cost + price * fewer.edges - (path.cost + price * path.edges)
            if not fewer.edges < path.edges < more.edges or gain <= _GAIN * price:
                return _Found(_spliced(fewer, more, edges), price, before)
        if path.edges < edges:
            fewer = path
        else:
            more = path
        if fewer is not None and more is not None:
            price = (fewer.cost - more.cost) / (more.edges - fewer.edges)
        else:
            price *= _cube(path.edges / edges)


def _spliced(fewer: _Path, more: _Path, edges: int) -> Positions:
    """A path with the given number of edges that follows one path, then the other.

    It switches where an edge of the first encloses the edge of the second that is ahead by the missing number. If both
    paths are cheapest at one price, so is the result.
    """
    ahead = more.edges - edges
    enclosed = fewer.borders[:-1] <= more.borders[ahead : ahead + fewer.edges]
    change = int(np.flatnonzero(enclosed)[-1])
    return np.concatenate((fewer.borders[: change + 1], more.borders[change + ahead + 1 :]))


# --- the cheapest path at one price --------------------------------------------------------------------------------------


def _settle(line: _Line, price: float, before: Positions) -> Positions:
    """Improve the predecessors (size + 1,) until no position gains more than `_GAIN` of the price."""
    totals = _totals(line, price, before)
    cheaper = np.arange(line.size)  # the positions that have become cheaper: the others were no better a choice before
    for _ in range(_MAX_ROUNDS):
        if not cheaper.size:
            break
        positions, best, lowest = _best_choice(line, totals, cheaper)
        better = np.flatnonzero(totals[positions] - (lowest + price) > _GAIN * price)
        before = before.copy()
        before[positions[better]] = best[better]
        earlier = totals
        totals = _totals(line, price, before)
        cheaper = np.flatnonzero(totals[:-1] < earlier[:-1])
    return before


def _follow(line: _Line, before: Positions) -> _Path:
    """The path to the last position."""
    borders = [line.size]
    while borders[-1]:
        borders.append(int(before[borders[-1]]))
    visited = np.array(borders[::-1], np.int64)
    return _Path(visited, float(np.cumsum(line.costs(visited[:-1], visited[1:]))[-1]))


def _totals(line: _Line, price: float, before: Positions) -> Real:
    """The cost of reaching each position by the chosen predecessors, by pointer doubling."""
    positions = np.arange(1, line.size + 1)
    totals = np.concatenate(([0.0], line.costs(before[1:], positions) + price))
    jumps = before
    while jumps.any():
        totals = totals + totals[jumps]
        jumps = jumps[jumps]
    return totals


def _best_choice(line: _Line, totals: Real, sources: Positions) -> tuple[Positions, Positions, Real]:
    """The positions after the first source; for each, the lowest source i with the least totals[i] + costs(i, position), and
    that sum. sources: ascending.

    By the Monge property the best choices ascend, so each lies between those of two known neighbors: divide and conquer.
    """
    positions = np.arange(sources[0] + 1, line.size + 1)
    count = positions.size
    last = np.searchsorted(sources, positions) - 1
    reached = _Reached(sources, totals[sources], line.sums.take(sources, axis=1))
    best = np.zeros(count + 2, np.int64)  # indices of sources; one more at each end
    best[-1] = sources.size - 1
    lowest = np.empty(count)
    step = 1 << count.bit_length()
    while step:
        chosen = np.arange(step, count + 1, 2 * step)
        if chosen.size:
            low = best[chosen - step]
            high = np.minimum(best[np.minimum(chosen + step, count + 1)], last[chosen - 1])
            stops = positions[chosen - 1]
            best[chosen], lowest[chosen - 1] = _least_between(line, reached, stops, low, high)
        step >>= 1
    return positions, sources[best[1:-1]], lowest


class _Reached(NamedTuple):
    """Positions, ascending; the least cost of reaching each; and the line's sums there, (3, positions)."""

    positions: Positions
    totals: Real
    sums: Real


def _least_between(
    line: _Line, reached: _Reached, stops: Positions, low: Positions, high: Positions
) -> tuple[Positions, Real]:
    """For each stop, the lowest i in low..high, inclusive, from which reaching it costs least, and that cost."""
    lengths = high - low + 1
    ends = np.cumsum(lengths)
    begins = ends - lengths
    candidates = np.arange(ends[-1])
    candidates -= np.repeat(begins - low, lengths)
    between = np.repeat(line.sums.take(stops, axis=1), lengths, axis=1)
    between -= reached.sums.take(candidates, axis=1)
    left = np.searchsorted(reached.positions, line.zero, side="right")
    costs = _errors(between, (candidates < left) & np.repeat(stops > line.zero, lengths))
    costs += reached.totals.take(candidates)
    lowest = np.minimum.reduceat(costs, begins)
    equal = np.flatnonzero(costs == np.repeat(lowest, lengths))
    if equal.size > begins.size:  # ties
        equal = equal[np.searchsorted(equal, begins)]
    return candidates[equal], lowest
