"""Clusters weighted values in one dimension with the least squared error: exactly, in a fraction of a second.

The values, with zero inserted, are points 0 to n-1 in ascending order. A cluster is a range of points; its center is the FP16
number nearest to its mean, but 0.0 for the cluster that contains zero. A clustering into K clusters is a path of K edges from
position 0 to position n; each edge costs the squared error of the points it spans.

With these centers, the costs have the Monge property (crossing edges cost no more than nested ones). Hence the least cost is
convex in K, and for a suitable price per edge the cheapest path of any length has K edges: Aggarwal, Schieber and Tokuyama,
"Finding a minimum-weight k-link path in graphs with the concave Monge property and applications" (1994). For a given price,
policy iteration finds the cheapest path: evaluate all positions' choices of predecessors, then improve the choices, until
none changes.

The result is optimal up to rounding: improvements below 1e-9 of the price are ignored. It is deterministic: it depends only on
a fixed sequence of IEEE 754 double-precision operations. Sums accumulate from zero outwards, so that large values do not
swamp small ones. Ties go to the lower border.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]
Positions = NDArray[np.int64]

_GAIN = 1e-9  # minimum improvement, relative to the price
_ROUGH_GAIN = 0.1  # during the search for the price
_ROUGH_TRIES = 6
_NEAR = 2  # clusters from the target at which the rough search ends
_MAX_ROUNDS = 1000  # of policy iteration, which needs about 20
_SMALLEST_NORMAL = 2.0**-14  # of FP16
_TO_SUBNORMAL = 1.5 * 2.0**28  # adding it rounds a double to a multiple of 2**-24, the FP16 subnormal step
_NEWTON_STEPS = 8


def divide(values: Real, weights: Real, clusters: int) -> Real:
    """The centers, ascending, including 0.0, of the best clustering.

    values: non-zero numbers within FP16's range, ascending, at least as many as clusters. weights: positive.
    """
    line = _Line(values, weights)
    borders = _cheapest_with(line, clusters)
    return line.centers(borders[:-1], borders[1:])


class _Line:
    """The points and the edge costs. Positions are 0 to size; edges go upwards."""

    def __init__(self, values: Real, weights: Real) -> None:
        self.zero = int(np.searchsorted(values, 0.0))
        self.values = np.insert(values, self.zero, 0.0)
        self.weights = np.insert(weights, self.zero, 1.0)  # any number: its center is fixed
        self.size = self.values.size
        self._sums = [self._outwards(self.weights * self.values**power) for power in range(3)]

    def _outwards(self, terms: Real) -> Real:
        """(size + 1,): the sum of terms between zero and each position, negative to the left."""
        left = -np.cumsum(terms[: self.zero][::-1])[::-1]
        return np.concatenate((left, [0.0], np.cumsum(terms[self.zero :])))

    def centers(self, start: Positions, stop: Positions) -> Real:
        weight, first, _ = (sums[stop] - sums[start] for sums in self._sums)
        return self._centers(weight, first, start, stop)

    def costs(self, start: Positions, stop: Positions) -> Real:
        """The squared error of the points from start up to stop, per pair."""
        weight, first, second = (sums[stop] - sums[start] for sums in self._sums)
        center = self._centers(weight, first, start, stop)
        costs: Real = second - center * (2 * first - center * weight)
        return costs

    def _centers(self, weight: Real, first: Real, start: Positions, stop: Positions) -> Real:
        center = _half(first / weight)
        center *= (start > self.zero) | (stop <= self.zero)
        return center


def _half(values: Real) -> Real:
    """Round to FP16, ties away from zero, within its range."""
    half = ((values.view(np.int64) + (1 << 41)) & -(1 << 42)).view(np.float64)  # keeps 10 bits behind the point
    small = np.flatnonzero(np.abs(values) < _SMALLEST_NORMAL)
    if small.size:
        half[small] = (values[small] + _TO_SUBNORMAL) - _TO_SUBNORMAL
    return half


# --- the number of clusters ----------------------------------------------------------------------------------------------


class _Path(NamedTuple):
    """borders: the visited positions. cost: of the edges, without their price."""

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
            # Both ends cost the same at this price; unless a path is cheaper, so do all path lengths between them.
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
    """The price for many points: a cluster's error is half its price (Panter and Dite, 1951)."""
    gaps = np.diff(line.values, prepend=line.values[0], append=line.values[-1])
    widths = (gaps[:-1] + gaps[1:]) / 2
    total = float(np.cumsum(_cube_root(line.weights * widths * widths))[-1])
    return 2 * _cube(total) / 12 / _cube(float(edges))


def _cube(x: float) -> float:
    return x * x * x


def _cube_root(values: Real) -> Real:
    """Cube roots of positive values by Newton's method; libraries differ in the last bit."""
    root: Real = np.ldexp(1.0, -(-np.frexp(values)[1] // 3))  # at most twice too large
    for _ in range(_NEWTON_STEPS):
        root = (2 * root + values / (root * root)) / 3
    return root


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


def _first_choice(line: _Line, price: float) -> Positions:
    """For each position, the first one from which an edge costs at most half the price."""
    stop = np.arange(1, line.size + 1)
    low, high = np.zeros_like(stop), stop - 1
    while (low < high).any():
        middle = (low + high) // 2
        dear = line.costs(middle, stop) > price / 2
        low, high = np.where(dear, np.minimum(middle + 1, high), low), np.where(dear, high, middle)
    return np.concatenate(([0], low))


def _settle(line: _Line, price: float, before: Positions, least_gain: float) -> Positions:
    """Improve the predecessors (size + 1,) until no position gains more than `least_gain` of the price."""
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


def _best_choice(line: _Line, totals: Real) -> tuple[Positions, Real]:
    """For each position, the lowest i with the least totals[i] + costs(i, position), and that sum.

    By the Monge property the best choices ascend, so each lies between those of two known neighbors: divide and conquer.
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
    """For each position, the lowest i in low..high, inclusive, with the least sum, and the sum."""
    lengths = high - low + 1
    stops = np.cumsum(lengths)
    starts = stops - lengths
    candidates = np.arange(stops[-1]) - np.repeat(starts - low, lengths)
    sums = totals[candidates] + line.costs(candidates, np.repeat(positions, lengths))
    least = np.minimum.reduceat(sums, starts)
    equal = np.flatnonzero(sums == np.repeat(least, lengths))
    return candidates[equal[np.searchsorted(equal, starts)]], least
