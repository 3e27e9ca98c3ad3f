"""Places buffers in one piece of memory so that no two that live at the same time share bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from cnn_convertor.memory.checking import check
from cnn_convertor.memory.searching import Outcome, search

NODES = 2_000  # what one plan may take of the complete search: about a second
_SHOWN = 4  # names of a peak's buffers, in messages


class Buffer(NamedTuple):
    """size in bytes; live from step `first` to step `last`, both included."""

    name: str
    size: int
    first: int
    last: int

    def meets(self, other: Buffer) -> bool:
        """Whether both live at some step."""
        return self.first <= other.last and other.first <= self.last


class Peak(NamedTuple):
    """The first step at which the sum of live bytes is largest, that sum, and who lives then, the largest first."""

    step: int
    size: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(f'"{name}"' for name in self.names[:_SHOWN])
        more = len(self.names) - _SHOWN
        return f"most at step {self.step}: {names}" + (f" and {more} more" if more > 0 else "")


class Plan(NamedTuple):
    """Where everything lies.

    offsets and size in bytes. lower_bound: what no plan can go below, for which there is a proof: the peak, or more when a
    complete search has found that the peak cannot be reached.
    """

    offsets: Mapping[str, int]
    size: int
    lower_bound: int
    peak: Peak = Peak(0, 0, ())

    @property
    def proven(self) -> bool:
        """Whether no smaller plan exists. If not, nobody knows."""
        return self.size == self.lower_bound

    def __str__(self) -> str:
        if self.proven:
            return f"{self.size:,} bytes, proven smallest"
        return f"{self.size:,} bytes, not proven smallest: the lower bound is {self.lower_bound:,}"


# The orders in which buffers are placed, first come, lowest free place. The best of them is at the lower bound for nearly
# all networks; ties fall to the earlier order, and within an order to the earlier buffer, so that the result is fixed.
_ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.size,),
    lambda b: (-b.size * (b.last - b.first + 1),),
    lambda b: (b.first - b.last, -b.size),
    lambda b: (b.first, -b.size),
    lambda b: (-b.last, -b.size),
)


def plan(buffers: Sequence[Buffer], *, alignment: int, nodes: int = NODES) -> Plan:
    """Offsets for all buffers, multiples of `alignment`; sizes are rounded up to it.

    nodes: the limit of the complete search, which is made when no greedy order reaches the lower bound. It counts states
    and not seconds, so that the plan does not depend on the machine.
    """
    rounded = [b._replace(size=-(-b.size // alignment) * alignment) for b in buffers]
    peak = find_peak(rounded)
    offsets = _greedily(rounded, peak.size)
    size, bound = _end(rounded, offsets), peak.size
    if size > bound:
        offsets, bound = _completely(rounded, offsets, bound, nodes)
        size = _end(rounded, offsets)
    check([(b, offsets[b.name]) for b in rounded], size=size, alignment=alignment)
    return Plan({b.name: offsets[b.name] for b in buffers}, size, bound, peak)


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """The largest sum of sizes that live at one step, in bytes."""
    return find_peak(buffers).size


def find_peak(buffers: Sequence[Buffer]) -> Peak:
    """When, how much and which buffers live when most bytes do."""
    changes: dict[int, int] = {}
    for b in buffers:
        changes[b.first] = changes.get(b.first, 0) + b.size
        changes[b.last + 1] = changes.get(b.last + 1, 0) - b.size
    step, size, live = 0, 0, 0
    for when in sorted(changes):
        live += changes[when]
        if live > size:
            step, size = when, live
    alive = sorted((b for b in buffers if b.size and b.first <= step <= b.last), key=lambda b: -b.size)
    return Peak(step, size, tuple(b.name for b in alive))


def _end(buffers: Sequence[Buffer], offsets: Mapping[str, int]) -> int:
    return max((offsets[b.name] + b.size for b in buffers), default=0)


def _completely(
    buffers: Sequence[Buffer], offsets: dict[str, int], bound: int, nodes: int
) -> tuple[dict[str, int], int]:
    """The smallest plan and the highest bound that the search reaches within `nodes`, from those that are known."""
    real = [b for b in buffers if b.size]
    unit = math.gcd(*(b.size for b in real))  # all tops are sums of sizes
    size, failed = _end(buffers, offsets), bound - unit  # failed: the largest capacity that was tried in vain
    capacity = bound  # which is reached most often; after it, halve what is between
    while failed + unit < size and nodes > 0:
        result = search([(b.size, b.first, b.last) for b in real], capacity, limit=(nodes + 1) // 2)
        nodes -= max(result.nodes, 1)
        match result.outcome:
            case Outcome.FOUND:
                offsets = {b.name: 0 for b in buffers} | dict(zip((b.name for b in real), result.offsets, strict=True))
                size = _end(buffers, offsets)
            case Outcome.IMPOSSIBLE:
                bound, failed = capacity + unit, capacity
            case Outcome.GAVE_UP:
                failed = capacity
        capacity = failed + max(1, (size - failed) // unit // 2) * unit
    return offsets, bound


def _greedily(buffers: Sequence[Buffer], bound: int) -> dict[str, int]:
    """The best that the greedy orders find; those after the first that reaches the bound are not tried."""
    best: dict[str, int] = {}
    for position, order in enumerate(_ORDERS):
        offsets = _first_fit(sorted(buffers, key=order))
        if position == 0 or _end(buffers, offsets) < _end(buffers, best):
            best = offsets
        if _end(buffers, best) == bound:
            return best
    return _from_both_ends(sorted(buffers, key=lambda b: b.first), bound) or best


def _first_fit(buffers: Sequence[Buffer]) -> dict[str, int]:
    """Each buffer, in the order given, at the lowest place that no placed one needs while it lives."""
    placed: list[tuple[int, Buffer]] = []
    for buffer in buffers:
        placed.append((_lowest_place(buffer, placed), buffer))
    return {buffer.name: offset for offset, buffer in placed}


def _from_both_ends(buffers: Sequence[Buffer], size: int) -> dict[str, int] | None:
    """In turn at the lowest and at the highest place within `size` bytes, which is the best for chains; None if one has none."""
    placed: list[tuple[int, Buffer]] = []
    for position, buffer in enumerate(buffers):
        if position % 2 == 0:
            offset = _lowest_place(buffer, placed)
        else:
            mirrored = [(size - start - other.size, other) for start, other in placed]
            offset = size - _lowest_place(buffer, mirrored) - buffer.size
        if offset < 0 or offset + buffer.size > size:
            return None
        placed.append((offset, buffer))
    return {buffer.name: offset for offset, buffer in placed}


def _lowest_place(buffer: Buffer, placed: Sequence[tuple[int, Buffer]]) -> int:
    """The lowest offset at which no placed buffer lies that lives at the same time."""
    offset = 0
    for start, other in sorted((p for p in placed if p[1].meets(buffer)), key=lambda p: p[0]):
        if offset + buffer.size <= start:
            break
        offset = max(offset, start + other.size)
    return offset
