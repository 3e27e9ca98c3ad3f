"""Places buffers in one piece of memory so that no two that live at the same time share bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from cnn_convertor.memory.checking import check
from cnn_convertor.memory.searching import Outcome, Piece, search_blocks

NODES = 2_000  # what one plan may take of the complete search: about a second
_REPAIRS = 20  # times that a greedy plan is made again from each order,
_MANY = 200  # unless there are more pieces than this: then fewer times
_SHOWN = 4  # names of a peak's buffers, in messages


class Buffer(NamedTuple):
    """size in bytes; live from step `first` to step `last`, both included; never by itself, if `last` is before `first`.

    inside: the name of another buffer in which this one must lie, `at` bytes from its start. What a buffer shares with those
    inside of it lives from the first step of all of them to the last; what it shares with none lives as long as itself. So
    the place of a part that is not yet born, or dead, is free for others, unless the whole lives.
    """

    name: str
    size: int
    first: int
    last: int
    inside: str = ""
    at: int = 0

    def meets(self, other: Buffer) -> bool:
        """Whether both live at some step."""
        return self.first <= other.last and other.first <= self.last

    @property
    def lives(self) -> bool:
        """Whether it takes any bytes at any step."""
        return self.size > 0 and self.first <= self.last


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


class Block(NamedTuple):
    """A buffer with all that lies inside of it: it is moved as one.

    size: bytes to the end of what ever lives. pieces: what lives as one, each at `at` bytes from the start.
    """

    name: str
    size: int
    pieces: tuple[Buffer, ...]

    @property
    def first(self) -> int:
        return min((piece.first for piece in self.pieces), default=0)

    @property
    def last(self) -> int:
        return max((piece.last for piece in self.pieces), default=-1)

    @property
    def area(self) -> int:
        """Bytes times steps."""
        return sum(piece.size * (piece.last - piece.first + 1) for piece in self.pieces)

    def mirrored(self) -> Block:
        return self._replace(pieces=tuple(p._replace(at=self.size - p.at - p.size) for p in self.pieces))


# The orders in which blocks are placed, first come, lowest free place. The best of them is at the lower bound for nearly
# all networks; ties fall to the earlier order, and within an order to the earlier block, so that the result is fixed.
_ORDERS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda b: (-b.size,),
    lambda b: (-b.area,),
    lambda b: (b.first - b.last, -b.size),
    lambda b: (b.first, -b.size),
    lambda b: (-b.last, -b.size),
)


def plan(buffers: Sequence[Buffer], *, alignment: int, nodes: int = NODES, enough: int = 0) -> Plan:
    """Offsets for all buffers, multiples of `alignment`; sizes are rounded up to it.

    nodes: the limit of the complete search, which is made when no greedy order reaches the lower bound. It counts states
    and not seconds, so that the plan does not depend on the machine. enough: nobody needs a smaller plan than this. Raises ValueError when a part does not fit into its
    whole, or overlaps another part that it is not inside of, or its place in the whole is not aligned.
    """
    rounded = [b._replace(size=-(-b.size // alignment) * alignment) for b in buffers]
    nesting = Nesting(rounded, alignment)
    blocks = nesting.blocks
    peak = _find_peak(nesting.pieces)
    offsets = _greedily(blocks, max(peak.size, enough))
    size, bound = _end(blocks, offsets), peak.size
    if size > max(bound, enough):
        offsets, bound = _completely(blocks, offsets, bound, nodes, enough)
        size = _end(blocks, offsets)
    placed = nesting.places(offsets)
    check([(b, placed[b.name]) for b in rounded], size=size, alignment=alignment)
    return Plan(placed, size, bound, peak)


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """The largest sum of bytes that live at one step."""
    return find_peak(buffers).size


def find_peak(buffers: Sequence[Buffer]) -> Peak:
    """When, how much and which buffers live when most bytes do."""
    return _find_peak(Nesting(buffers, 1).pieces)


def _find_peak(pieces: Sequence[Buffer]) -> Peak:
    changes: dict[int, int] = {}
    for b in pieces:
        changes[b.first] = changes.get(b.first, 0) + b.size
        changes[b.last + 1] = changes.get(b.last + 1, 0) - b.size
    step, size, live = 0, 0, 0
    for when in sorted(changes):
        live += changes[when]
        if live > size:
            step, size = when, live
    alive: dict[str, int] = {}
    for b in pieces:
        if b.size and b.first <= step <= b.last:
            alive[b.name] = alive.get(b.name, 0) + b.size
    return Peak(step, size, tuple(sorted(alive, key=lambda name: -alive[name])))


def _end(blocks: Sequence[Block], offsets: Mapping[str, int]) -> int:
    return max((offsets[b.name] + b.size for b in blocks), default=0)


# --- buffers inside of others --------------------------------------------------------------------------------------------


class Nesting:
    """Which buffers lie in which: blocks, the pieces of all of them named after the smallest buffer there, and places.

    Raises ValueError as `plan` does.
    """

    def __init__(self, buffers: Sequence[Buffer], alignment: int) -> None:
        self._named = {b.name: b for b in buffers}
        self._starts: dict[str, tuple[str, int]] = {}
        families: dict[str, list[Buffer]] = {}
        for b in buffers:
            root, _ = self._start(b)
            families.setdefault(root, []).append(b)
            if b.at % alignment:
                raise ValueError(
                    f"{b.name} lies {b.at} bytes inside {b.inside}, which is not a multiple of {alignment}"
                )
        self.pieces: list[Buffer] = []
        self.blocks: list[Block] = []
        for root, family in families.items():
            pieces = self._cut(family) if len(family) > 1 else [b for b in family if b.lives]
            self.pieces += pieces
            size = max((piece.at + piece.size for piece in pieces), default=0)
            self.blocks.append(Block(root, size, _joined(pieces)))

    def places(self, offsets: Mapping[str, int]) -> dict[str, int]:
        """The offset of each buffer from those of the blocks."""
        return {name: offsets[root] + start for name, (root, start) in self._starts.items()}

    def _start(self, buffer: Buffer) -> tuple[str, int]:
        """The block that the buffer is part of, and where in it."""
        if buffer.name not in self._starts:
            root, start = buffer.name, 0
            if buffer.inside:
                whole = self._named[buffer.inside]
                root, start = self._start(whole)
                if not 0 <= buffer.at <= whole.size - buffer.size:
                    raise ValueError(f"{buffer.name} does not lie inside {whole.name}")
                start += buffer.at
            self._starts[buffer.name] = root, start
        return self._starts[buffer.name]

    def _cut(self, family: Sequence[Buffer]) -> list[Buffer]:
        """Pieces of one block that live as one. Of all buffers that share bytes each must lie inside the next."""
        spans = [(self._start(b)[1], self._start(b)[1] + b.size, b) for b in family if b.size]
        cuts = sorted({place for start, end, _ in spans for place in (start, end)})
        pieces = []
        for start, end in pairwise(cuts):
            there = sorted((b for low, high, b in spans if low <= start < high), key=self._depth, reverse=True)
            if len(there) > self._depth(there[0]):
                raise ValueError(f"{there[0].name} shares bytes with {there[1].name}, which it does not lie inside of")
            lives = [(b.first, b.last) for b in there if b.lives]
            if not lives:
                continue
            first, last = min(first for first, _ in lives), max(last for _, last in lives)
            pieces.append(Buffer(there[0].name, end - start, first, last, family[0].name, start))
        return pieces

    def _depth(self, buffer: Buffer) -> int:
        """How many buffers the buffer lies in, itself among them."""
        above = self._depth(self._named[buffer.inside]) if buffer.inside else 0
        return above + 1


def _joined(pieces: Sequence[Buffer]) -> tuple[Buffer, ...]:
    """Neighbors that live at the same time are one piece."""
    joined: list[Buffer] = []
    for piece in pieces:
        before = joined[-1] if joined else None
        if before and (before.at + before.size, before.first, before.last) == (piece.at, piece.first, piece.last):
            joined[-1] = before._replace(size=before.size + piece.size)
        else:
            joined.append(piece)
    return tuple(joined)


# --- the complete search -------------------------------------------------------------------------------------------------


def _completely(
    blocks: Sequence[Block], offsets: dict[str, int], bound: int, nodes: int, enough: int
) -> tuple[dict[str, int], int]:
    """The smallest plan and the highest bound that the search reaches within `nodes`, from those that are known."""
    real = [b for b in blocks if b.pieces]
    pieces = [[Piece(p.at, p.size, p.first, p.last) for p in b.pieces] for b in real]
    unit = math.gcd(*(n for those in pieces for p in those for n in (p.at, p.size)))  # all tops are sums of these
    size, failed = _end(blocks, offsets), bound - unit  # failed: the largest capacity that was tried in vain
    capacity = max(bound, enough)  # the bound is reached most often; after it, halve what is between
    while failed + unit < size > enough and nodes > 0:
        result = search_blocks(pieces, capacity, limit=(nodes + 1) // 2)
        nodes -= max(result.nodes, 1)
        match result.outcome:
            case Outcome.FOUND:
                offsets = {b.name: 0 for b in blocks} | dict(zip((b.name for b in real), result.offsets, strict=True))
                size = _end(blocks, offsets)
            case Outcome.IMPOSSIBLE:
                bound, failed = capacity + unit, capacity
            case Outcome.GAVE_UP:
                failed = capacity
        capacity = failed + max(1, (size - failed) // unit // 2) * unit
    return offsets, bound


# --- greedy orders -------------------------------------------------------------------------------------------------------


def _greedily(blocks: Sequence[Block], bound: int) -> dict[str, int]:
    """The best that the greedy orders find; those after the first that reaches the bound are not tried."""
    best: dict[str, int] = {}
    for position, order in enumerate(_ORDERS):
        offsets = _first_fit(sorted(blocks, key=order))
        if position == 0 or _end(blocks, offsets) < _end(blocks, best):
            best = offsets
        if _end(blocks, best) <= bound:
            return best
    if (found := _from_both_ends(sorted(blocks, key=lambda b: b.first), bound)) is not None:
        return found
    return _repaired(blocks, best, bound)


def _first_fit(blocks: Sequence[Block]) -> dict[str, int]:
    """Each block, in the order given, at the lowest place that no placed one needs while it lives."""
    placed: list[tuple[int, Block]] = []
    for block in blocks:
        placed.append((_lowest_place(block, placed), block))
    return {block.name: offset for offset, block in placed}


def _from_both_ends(blocks: Sequence[Block], size: int) -> dict[str, int] | None:
    """In turn at the lowest and at the highest place within `size` bytes, which is the best for chains; None if one has none."""
    placed: list[tuple[int, Block]] = []
    for position, block in enumerate(blocks):
        if position % 2 == 0:
            offset = _lowest_place(block, placed)
        else:
            mirrored = [(size - start - other.size, other.mirrored()) for start, other in placed]
            offset = size - _lowest_place(block.mirrored(), mirrored) - block.size
        if offset < 0 or offset + block.size > size:
            return None
        placed.append((offset, block))
    return {block.name: offset for offset, block in placed}


def _repaired(blocks: Sequence[Block], best: dict[str, int], bound: int) -> dict[str, int]:
    """Place again and again, those first that have come to lie too high, from each of the orders."""
    pieces = sum(len(block.pieces) for block in blocks)
    rounds = min(_REPAIRS, _REPAIRS * _MANY**2 // max(pieces, 1) ** 2)
    for first in _ORDERS:
        order = sorted(blocks, key=first)
        urgency = {block.name: 0 for block in blocks}
        for _ in range(rounds):
            offsets = _first_fit(order)
            if _end(blocks, offsets) < _end(blocks, best):
                best = offsets
            if _end(blocks, best) <= bound:
                return best
            for block in blocks:
                urgency[block.name] += offsets[block.name] + block.size > bound
            order.sort(key=lambda block: -urgency[block.name])
    return best


def _lowest_place(block: Block, placed: Sequence[tuple[int, Block]]) -> int:
    """The lowest offset at which no placed piece lies that lives at the same time."""
    taken = [
        (start + other.at - own.at - own.size, start + other.at + other.size - own.at)  # both ends excluded
        for start, there in placed
        for other in there.pieces
        for own in block.pieces
        if own.meets(other)
    ]
    offset = 0
    for low, high in sorted(taken):
        if offset <= low:
            break
        offset = max(offset, high)
    return offset
