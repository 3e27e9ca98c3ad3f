"""Divides a line of weighted values into clusters with the least squared error: exactly, in a fraction of a second.

The values, and zero among them, are points 0 to n-1 in ascending order. A cluster is a range of points; its center is the
FP16 number that is nearest to its mean, but 0.0 for the cluster with zero in it. A division into K clusters is a path of K
edges from position 0 to position n, and each edge costs the squared error of the points that it passes.

These costs have the Monge property (crossing edges cost no more than nested ones), with the centers so restricted, too.
Hence the least cost falls with K, ever more slowly, and for a suitable price of an edge the cheapest path of any length
has the K edges that are wanted: Aggarwal, Schieber and Tokuyama, "Finding a minimum-weight k-link path in graphs with
the concave Monge property and applications" (1994). For one price the cheapest path is found by policy iteration: follow
everybody's choice of a predecessor, then let everybody choose anew, until nobody gains.

The result is the optimum but for rounding: a step is not taken when it would gain less than 1e-9 of the price. All that
decides is a fixed sequence of additions, multiplications, divisions and comparisons in double precision, which IEEE 754
defines to the last bit; sums are cumulative, from zero outwards, so that large values do not blur the small ones. Hence
every machine gives the same result. Where several are equal, the lower border is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]
Positions = NDArray[np.int64]

_GAIN = 1e-9  # of the price, that is worth a change
_ROUGH_GAIN = 0.1  # while the price is sought
_ROUGH_TRIES = 6
_NEAR = 2  # clusters: the rough search may end
_MAX_ROUNDS = 1000  # of policy iteration; it needs about 20
_SMALLEST_NORMAL = 2.0**-14  # of FP16
_TO_SUBNORMAL = 1.5 * 2.0**28  # added to a double, this leaves a multiple of 2**-24, as FP16's subnormal numbers are
_NEWTON_STEPS = 8


def divide(values: Real, weights: Real, clusters: int) -> Real:
    """The centers, ascending and 0.0 among them, of the best division into the given number of clusters.

    values: ascending numbers within FP16's range, other than zero, at least as many as clusters. weights: above zero.
    """
    line = _Line(values, weights)
    borders = _cheapest_with(line, clusters)
    return line.centers(borders[:-1], borders[1:])


class _Line:
    """The points, and what edges over them cost. Positions are 0 to size, edges go from a lower to a higher one."""

    def __init__(self, values: Real, weights: Real) -> None:
        self.zero = int(np.searchsorted(values, 0.0))
        self.values = np.insert(values, self.zero, 0.0)
        self.weights = np.insert(weights, self.zero, 1.0)  # any number will do, since its center is given
        self.size = self.values.size
        self._sums = [self._outwards(self.weights * self.values**power) for power in range(3)]

    def _outwards(self, terms: Real) -> Real:
        """(size + 1,): the sum of the terms between the zero point and each position, negative on its left."""
        left = -np.cumsum(terms[: self.zero][::-1])[::-1]
        return np.concatenate((left, [0.0], np.cumsum(terms[self.zero :])))

    def centers(self, start: Positions, stop: Positions) -> Real:
        weight, first, _ = (sums[stop] - sums[start] for sums in self._sums)
        return self._centers(weight, first, start, stop)

    def costs(self, start: Positions, stop: Positions) -> Real:
        """Squared errors of the points from start up to stop, for each pair."""
        weight, first, second = (sums[stop] - sums[start] for sums in self._sums)
        center = self._centers(weight, first, start, stop)
        costs: Real = second - center * (2 * first - center * weight)
        return costs

    def _centers(self, weight: Real, first: Real, start: Positions, stop: Positions) -> Real:
        center = _half(first / weight)
        center *= (start > self.zero) | (stop <= self.zero)
        return center


def _half(values: Real) -> Real:
    """Round to FP16 numbers, ties away from zero. The values are within FP16's range."""
    half = ((values.view(np.int64) + (1 << 41)) & -(1 << 42)).view(np.float64)  # keeps 10 bits behind the point
    small = np.flatnonzero(np.abs(values) < _SMALLEST_NORMAL)
    if small.size:
        half[small] = (values[small] + _TO_SUBNORMAL) - _TO_SUBNORMAL
    return half


# --- the number of clusters ----------------------------------------------------------------------------------------------


class _Path(NamedTuple):
    """borders: the positions that it visits. cost: of its edges, without their price."""

    borders: Positions
    cost: float

    @property
    def edges(self) -> int:
        return self.borders.size - 1


def _cheapest_with(line: _Line, edges: int) -> Positions:
    """The borders of the cheapest path with the given number of edges."""
    price = _likely_price(line, edges)
    before = _first_choice(line, price)
    for _ in range(_ROUGH_TRIES):
        before = _settle(line, price, before, _ROUGH_GAIN)
        found = _follow(line, before).edges
        if abs(found - edges) <= _NEAR:
            break
        price *= _cube(found / edges)

    fewer: _Path | None = None
    more: _Path | None = None
    while True:
        before = _settle(line, price, before, _GAIN)
        path = _follow(line, before)
        if path.edges == edges:
            return path.borders
        if fewer is not None and more is not None:
            # Both ends have cost the same at this price: unless another path is cheaper, so do all between them.
            gain = fewer.cost + price * fewer.edges - (path.cost + price * path.edges)
            if not fewer.edges < path.edges < more.edges or gain <= _GAIN * price:
                return _spliced(fewer, more, edges)
        if path.edges < edges:
            fewer = path
        else:
            more = path
        if fewer is not None and more is not None:
            price = (fewer.cost - more.cost) / (more.edges - fewer.edges)
        else:
            price *= _cube(path.edges / edges)


def _likely_price(line: _Line, edges: int) -> float:
    """What an edge costs where the points are many: a cluster's error is half its price (Panter and Dite, 1951)."""
    gaps = np.diff(line.values, prepend=line.values[0], append=line.values[-1])
    widths = (gaps[:-1] + gaps[1:]) / 2
    total = float(np.cumsum(_cube_root(line.weights * widths * widths))[-1])
    return 2 * _cube(total) / 12 / _cube(float(edges))


def _cube(x: float) -> float:
    return x * x * x


def _cube_root(values: Real) -> Real:
    """By Newton's method, since libraries differ in the last bit. The values are above zero."""
    root: Real = np.ldexp(1.0, -(-np.frexp(values)[1] // 3))  # too large by a factor of 2 at most
    for _ in range(_NEWTON_STEPS):
        root = (2 * root + values / (root * root)) / 3
    return root


def _spliced(fewer: _Path, more: _Path, edges: int) -> Positions:
    """A path with the given number of edges that follows one path, then the other.

    It changes over where an edge of the first encloses one of the second that is as many edges further as need be; if both
    paths are the cheapest at one price, the result is as well.
    """
    ahead = more.edges - edges
    enclosed = fewer.borders[:-1] <= more.borders[ahead : ahead + fewer.edges]
    change = int(np.flatnonzero(enclosed)[-1])
    return np.concatenate((fewer.borders[: change + 1], more.borders[change + ahead + 1 :]))


# --- the cheapest path at one price --------------------------------------------------------------------------------------


def _first_choice(line: _Line, price: float) -> Positions:
    """For each position the furthest one before it from which an edge costs at most half the price."""
    stop = np.arange(1, line.size + 1)
    low, high = np.zeros_like(stop), stop - 1
    while (low < high).any():
        middle = (low + high) // 2
        dear = line.costs(middle, stop) > price / 2
        low, high = np.where(dear, np.minimum(middle + 1, high), low), np.where(dear, high, middle)
    return np.concatenate(([0], low))


def _settle(line: _Line, price: float, before: Positions, least_gain: float) -> Positions:
    """Improve a choice of predecessors (size + 1,) until no position gains more than a share of the price."""
    for _ in range(_MAX_ROUNDS):
        totals = _totals(line, price, before)
        best, least = _best_choice(line, totals)
        gains = totals - (least + price)
        gains[0] = 0.0
        before = np.where(gains > _GAIN * price, best, before)
        if not (gains > least_gain * price).any():
            break
    return before


def _follow(line: _Line, before: Positions) -> _Path:
    """The path that leads to the last position."""
    borders = [line.size]
    while borders[-1]:
        borders.append(int(before[borders[-1]]))
    visited = np.array(borders[::-1], np.int64)
    return _Path(visited, float(np.cumsum(line.costs(visited[:-1], visited[1:]))[-1]))


def _totals(line: _Line, price: float, before: Positions) -> Real:
    """What it costs to reach each position by everybody's choice: ever longer jumps are put together."""
    positions = np.arange(1, line.size + 1)
    totals = np.concatenate(([0.0], line.costs(before[1:], positions) + price))
    jumps = before
    while jumps.any():
        totals = totals + totals[jumps]
        jumps = jumps[jumps]
    return totals


def _best_choice(line: _Line, totals: Real) -> tuple[Positions, Real]:
    """For each position the lowest i that makes totals[i] + costs(i, position) least, and that sum.

    By the Monge property the choices ascend, so that each is sought between those of two neighbors that are known
    already: every second of all positions, every second of the rest, and so on.
    """
    size = line.size
    best = np.zeros(size + 2, np.int64)
    best[size + 1] = size
    least = np.zeros(size + 1)
    step = 1 << size.bit_length()
    while step:
        positions = np.arange(step, size + 1, 2 * step)
        if positions.size:
            low = best[positions - step]
            high = np.minimum(best[np.minimum(positions + step, size + 1)], positions - 1)
            best[positions], least[positions] = _least_between(line, totals, positions, low, high)
        step >>= 1
    return best[:-1], least


def _least_between(
    line: _Line, totals: Real, positions: Positions, low: Positions, high: Positions
) -> tuple[Positions, Real]:
    """For each position the lowest i from low to high, both included, with the least sum, and the sum."""
    lengths = high - low + 1
    stops = np.cumsum(lengths)
    starts = stops - lengths
    candidates = np.arange(stops[-1]) - np.repeat(starts - low, lengths)
    sums = totals[candidates] + line.costs(candidates, np.repeat(positions, lengths))
    least = np.minimum.reduceat(sums, starts)
    equal = np.flatnonzero(sums == np.repeat(least, lengths))
    return candidates[equal[np.searchsorted(equal, starts)]], least
