"""Places buffers in one piece of memory so that no two that live at the same time share bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from cnn_convertor.memory.checking import check


class Buffer(NamedTuple):
    """size in bytes; live from step `first` to step `last`, both included."""

    name: str
    size: int
    first: int
    last: int

    def meets(self, other: Buffer) -> bool:
        """Whether both live at some step."""
        return self.first <= other.last and other.first <= self.last


class Plan(NamedTuple):
    """offsets and size in bytes; lower_bound: the largest sum of live bytes at any step, which no plan can go below."""

    offsets: Mapping[str, int]
    size: int
    lower_bound: int


# The orders in which buffers are placed, first come, lowest free place. The best of them is at the lower bound for nearly
# all networks; ties fall to the earlier order, and within an order to the earlier buffer, so that the result is fixed.
_ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.size,),
    lambda b: (-b.size * (b.last - b.first + 1),),
    lambda b: (b.first - b.last, -b.size),
    lambda b: (b.first, -b.size),
    lambda b: (-b.last, -b.size),
)


def plan(buffers: Sequence[Buffer], *, alignment: int) -> Plan:
    """Offsets for all buffers, multiples of `alignment`; sizes are rounded up to it."""
    rounded = [b._replace(size=-(-b.size // alignment) * alignment) for b in buffers]
    bound = lower_bound(rounded)
    best: Plan | None = None
    for order in _ORDERS:
        offsets = _first_fit(sorted(rounded, key=order))
        size = max((offsets[b.name] + b.size for b in rounded), default=0)
        if best is None or size < best.size:
            best = Plan({b.name: offsets[b.name] for b in buffers}, size, bound)
        if size == bound:
            break
    assert best is not None
    if best.size > bound and (found := _from_both_ends(sorted(rounded, key=lambda b: b.first), bound)) is not None:
        best = Plan({b.name: found[b.name] for b in buffers}, bound, bound)
    check([(b, best.offsets[b.name]) for b in buffers], size=best.size, alignment=alignment)
    return best


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """The largest sum of sizes that live at one step, in bytes."""
    return max(
        (sum(b.size for b in buffers if b.first <= step <= b.last) for step in {b.first for b in buffers}), default=0
    )


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
