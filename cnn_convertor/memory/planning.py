"""Assigns offsets to buffers so that no two live buffers share bytes."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.budget import SHARES, Budget
from cnn_convertor.memory.buffer import Buffer
from cnn_convertor.memory.search_state import Piece
from cnn_convertor.memory.searching import SearchStatus, search_blocks
from cnn_convertor.memory.validity import check

NODES = 2_000  # node limit of the complete search: about a second
_NODES_OF_WORK = 20_000  # for which the share of a conversion is the budget; for more, in proportion
_REPAIRS = 20  # repair rounds of a greedy plan per order
_LOOK = 300  # steps of looking for a free offset, beside one for each pair of pieces
_STEPS = 32  # steps with a birth, looked at together when a free offset is searched
_SHOWN = 4  # names of a peak's buffers in messages


Numbers: TypeAlias = NDArray[np.int64]
_NO_NUMBERS: Final = np.empty(0, np.int64)


class Peak(NamedTuple):
    """The first step with the most live bytes, their sum, and the buffers live then, the largest first."""

    step: int
    size: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(f'"{name}"' for name in self.names[:_SHOWN])
        more = len(self.names) - _SHOWN
        return f"most at step {self.step}: {names}" + (f" and {more} more" if more > 0 else "")


class Plan(NamedTuple):
    """offsets and size in bytes. lower_bound: proven minimum size: the peak, or more if a complete search has ruled it out.

    of_lines: bytes more at the peak since buffers take whole lines.
    """

    offsets: Mapping[str, int]
    size: int
    lower_bound: int
    peak: Peak = Peak(0, 0, ())
    of_lines: int = 0

    @property
    def proven(self) -> bool:
        """Whether the plan is known to be the smallest."""
        return self.size == self.lower_bound

    def __str__(self) -> str:
        lines = f"; {self.of_lines:,} of them for whole cache lines" if self.of_lines else ""
        if self.proven:
            return f"{self.size:,} bytes, proven smallest{lines}"
        return f"{self.size:,} bytes, not proven smallest: the lower bound is {self.lower_bound:,}{lines}"


class Block(NamedTuple):
    """A buffer and all buffers inside it, placed as one.

    size: bytes up to the end of the last live piece. pieces: bytes with a common live range, each `at` bytes from the start.
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


# First-fit orders. The best one reaches the lower bound for nearly all networks; the earlier order, and within an order
# the earlier block, wins ties, so the result is deterministic.
_ORDERS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda b: (-b.size,),
    lambda b: (-b.area,),
    lambda b: (b.first - b.last, -b.size),
    lambda b: (b.first, -b.size),
    lambda b: (-b.last, -b.size),
)


def plan(
    buffers: Sequence[Buffer],
    *,
    alignment: int,
    line: int = 1,
    nodes: int = NODES,
    enough: int = 0,
    budget: Budget | None = None,
) -> Plan:
    """Offsets for all buffers, multiples of `alignment`; sizes are rounded up to it.

    line: bytes, a multiple of the alignment. Buffers that lie in no other start on a line, and share none with others at one step.
    nodes: limit of the complete search, which runs if no greedy order reaches the lower bound; it counts states, so the plan
    does not depend on the machine. enough: a plan of this size need not be improved. budget: for all improvements, by default
    a conversion's share, or in proportion to more nodes.
    Raises ValueError for values that no buffer has, and for a part that does not fit into its container, overlaps another part,
    or is not aligned.
    """
    if alignment < 1:
        raise ValueError(f"the alignment is at least 1, not {alignment}")
    for buffer in buffers:
        if buffer.size < 0:
            raise ValueError(f"{buffer.name} has a negative size")
    if len({buffer.name for buffer in buffers}) < len(buffers):
        raise ValueError("two buffers have the same name")
    rounded = [b._replace(size=-(-b.size // alignment) * alignment) for b in buffers]
    nesting = Nesting(rounded, alignment, line)
    blocks = nesting.blocks
    peak = find_peak(nesting.pieces)
    budget = budget or Budget(SHARES["memory"] * max(1, nodes // _NODES_OF_WORK))
    offsets = _greedily(blocks, max(peak.size, enough), budget)
    size = _end(blocks, offsets)
    bound = peak.size
    if size > max(bound, enough):
        offsets, bound = _completely(blocks, offsets, bound, nodes, enough, budget)
        size = _end(blocks, offsets)
    placed = nesting.offsets(offsets)
    check([(b, placed[b.name]) for b in rounded], size=size, alignment=alignment)
    of_lines = peak.size - find_peak(Nesting(rounded, alignment).pieces).size if line > alignment else 0
    return Plan(placed, size, bound, peak, of_lines)


def find_peak(pieces: Sequence[Buffer]) -> Peak:
    changes: Counter[int] = Counter()
    for b in pieces:
        changes[b.first] += b.size
        changes[b.last + 1] -= b.size
    step = 0
    size = 0
    live = 0
    for when in sorted(changes):
        live += changes[when]
        if live > size:
            step, size = when, live
    alive: Counter[str] = Counter()
    for b in pieces:
        if b.size and b.first <= step <= b.last:
            alive[b.name] += b.size
    return Peak(step, size, tuple(sorted(alive, key=lambda name: -alive[name])))


def _end(blocks: Sequence[Block], offsets: Mapping[str, int]) -> int:
    return max((offsets[b.name] + b.size for b in blocks), default=0)


# --- buffers inside of others --------------------------------------------------------------------------------------------


class Nesting:
    """Groups nested buffers into blocks of pieces; a piece is named after its innermost buffer.

    Raises ValueError as `plan` does.
    """

    def __init__(self, buffers: Sequence[Buffer], alignment: int, line: int = 1) -> None:
        self._named = {b.name: b for b in buffers}
        self._starts: dict[str, tuple[str, int]] = {}
        families: dict[str, list[Buffer]] = {}
        for b in buffers:
            root, _ = self._start(b)
            families.setdefault(root, []).append(b)
            if b.at % alignment:
                raise ValueError(f"{b.name} is {b.at} bytes inside {b.inside}, not a multiple of {alignment}")
        self.pieces: list[Buffer] = []
        self.blocks: list[Block] = []
        for root, family in families.items():
            pieces = self._cut(family) if len(family) > 1 else [b for b in family if b.lives]
            pieces = _on_lines(pieces, line)
            self.pieces += pieces
            size = max((piece.at + piece.size for piece in pieces), default=0)
            self.blocks.append(Block(root, size, _joined(pieces)))

    def offsets(self, offsets: Mapping[str, int]) -> dict[str, int]:
        """The offset of each buffer, given those of the blocks."""
        return {name: offsets[root] + start for name, (root, start) in self._starts.items()}

    def _start(self, buffer: Buffer) -> tuple[str, int]:
        """The block that contains the buffer, and its offset there."""
        if buffer.name not in self._starts:
            root = buffer.name
            start = 0
            if buffer.inside:
                whole = self._named[buffer.inside]
                root, start = self._start(whole)
                if not 0 <= buffer.at <= whole.size - buffer.size:
                    raise ValueError(f"{buffer.name} does not lie inside {whole.name}")
                start += buffer.at
            self._starts[buffer.name] = root, start
        return self._starts[buffer.name]

    def _cut(self, family: Sequence[Buffer]) -> list[Buffer]:
        """Cuts a block into pieces with a common live range. Buffers that share bytes must be nested."""
        ends = {b.name: self._start(b)[1] + b.size for b in family if b.size}
        starting: dict[int, list[Buffer]] = {}
        for b in family:
            if b.size:
                starting.setdefault(self._start(b)[1], []).append(b)
        pieces = []
        there: list[Buffer] = []
        for start, end in pairwise(sorted(starting.keys() | ends.values())):
            there = [b for b in there if ends[b.name] > start] + starting.get(start, [])
            there.sort(key=self._depth, reverse=True)
            if len(there) > self._depth(there[0]):
                raise ValueError(f"{there[0].name} shares bytes with {there[1].name}, which it does not lie inside of")
            lives = [(b.first, b.last) for b in there if b.lives]
            if not lives:
                continue
            first = min(first for first, _ in lives)
            last = max(last for _, last in lives)
            pieces.append(Buffer(there[0].name, end - start, first, last, family[0].name, start))
        return pieces

    def _depth(self, buffer: Buffer) -> int:
        """The nesting depth; 1 is outermost."""
        above = self._depth(self._named[buffer.inside]) if buffer.inside else 0
        return above + 1


def _on_lines(pieces: Sequence[Buffer], line: int) -> list[Buffer]:
    """The pieces of a block, in order, in whole lines. One that several pieces share lives as long as any of them."""
    whole: list[Buffer] = []
    for piece in pieces:
        start = piece.at // line * line
        end = -(-(piece.at + piece.size) // line) * line
        if whole and whole[-1].at + whole[-1].size > start:
            before = whole.pop()
            if before.at < start:
                whole.append(before._replace(size=start - before.at))
            first, last = min(before.first, piece.first), max(before.last, piece.last)
            whole.append(piece._replace(at=start, size=line, first=first, last=last))
            start += line
        if start < end:
            whole.append(piece._replace(at=start, size=end - start))
    return whole


def _joined(pieces: Sequence[Buffer]) -> tuple[Buffer, ...]:
    """Merges adjacent pieces with the same live range."""
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
    blocks: Sequence[Block], offsets: dict[str, int], bound: int, nodes: int, enough: int, budget: Budget
) -> tuple[dict[str, int], int]:
    """The smallest plan and the highest bound found within `nodes`, starting from the known ones."""
    real = [b for b in blocks if b.pieces]
    pieces = []
    unit = 0  # divides all ends
    for block in real:
        pieces.append([Piece(p.at, p.size, p.first, p.last) for p in block.pieces])
        for piece in block.pieces:
            unit = math.gcd(unit, piece.at, piece.size)
    size = _end(blocks, offsets)
    failed = bound - unit  # failed: the largest capacity without a plan
    capacity = max(bound, enough)  # try the bound first, then repair, then bisect
    repaired = False
    while failed + unit < size > enough and nodes > 0 and not budget.is_spent:
        part = budget.part(2)
        result = search_blocks(pieces, capacity, limit=(nodes + 1) // 2, budget=part)
        budget.take_back(part)
        nodes -= max(result.nodes, 1)
        match result.status:
            case SearchStatus.FOUND:
                offsets = {b.name: 0 for b in blocks} | dict(zip((b.name for b in real), result.offsets, strict=True))
            case SearchStatus.IMPOSSIBLE:
                bound = capacity + unit
                failed = capacity
            case SearchStatus.GAVE_UP:
                failed = capacity
        if not repaired and result.status is not SearchStatus.FOUND:
            repaired = True
            part = budget.part(2)
            offsets = _repaired(blocks, offsets, max(bound, enough), part)
            budget.take_back(part)
        size = _end(blocks, offsets)
        capacity = failed + max(1, (size - failed) // unit // 2) * unit
    return offsets, bound


# --- greedy orders -------------------------------------------------------------------------------------------------------


def _greedily(blocks: Sequence[Block], bound: int, budget: Budget) -> dict[str, int]:
    """The best greedy plan; stops at the first one that reaches the bound."""
    least = max(SHARES["memory"], budget.left)  # also when nothing is left for improvements
    first = Budget(least)
    best = _first_fit(sorted(blocks, key=_ORDERS[0]), first)
    budget.spend(least - first.left)
    for order in _ORDERS[1:]:
        if _end(blocks, best) <= bound or budget.is_spent:
            return best
        offsets = _first_fit(sorted(blocks, key=order), budget)
        if _end(blocks, offsets) < _end(blocks, best):
            best = offsets
    if _end(blocks, best) <= bound:
        return best
    plan_from_ends = _from_both_ends(sorted(blocks, key=lambda b: b.first), bound, budget)
    return best if plan_from_ends is None else plan_from_ends


def _first_fit(blocks: Sequence[Block], budget: Budget) -> dict[str, int]:
    """Each block in turn at the lowest free offset, or above its neighbors when the budget is spent."""
    placed = _Placed(blocks, budget)
    for block in blocks:
        placed.add(block, placed.lowest_offset(block))
    return placed.offsets


def _from_both_ends(blocks: Sequence[Block], size: int, budget: Budget) -> dict[str, int] | None:
    """Blocks alternately at the lowest and the highest offset within `size` bytes, best for chains; None if one does not fit."""
    placed = _Placed(blocks, budget)
    for position, block in enumerate(blocks):
        offset = placed.lowest_offset(block) if position % 2 == 0 else placed.highest_offset(block, size)
        if offset < 0 or offset + block.size > size:
            return None
        placed.add(block, offset)
    return placed.offsets


def _repaired(blocks: Sequence[Block], best: dict[str, int], bound: int, budget: Budget) -> dict[str, int]:
    """Repeats first fit from each order, with blocks that end too high moved to the front."""
    for first in _ORDERS:
        order = sorted(blocks, key=first)
        urgency = {block.name: 0 for block in blocks}
        for _ in range(_REPAIRS):
            if budget.is_spent:
                return best
            offsets = _first_fit(order, budget)
            if _end(blocks, offsets) < _end(blocks, best):
                best = offsets
            if _end(blocks, best) <= bound:
                return best
            for block in blocks:
                urgency[block.name] += offsets[block.name] + block.size > bound
            order.sort(key=lambda block: -urgency[block.name])
    return best


class _Placed:
    """The offsets of placed blocks, and their pieces by the steps at which they are live: few meet a block of a long chain.

    blocks: all that will be placed. The work depends on how many steps they begin at, not on how far these lie apart. When the
    budget is spent, it takes almost none: a block lies above all that was ever placed in the stretches of its life.
    """

    def __init__(self, blocks: Sequence[Block], budget: Budget) -> None:
        self.offsets: dict[str, int] = {}
        self._budget = budget
        births = sorted({piece.first for block in blocks for piece in block.pieces})
        self._starts = births[::_STEPS]  # the first step of each stretch
        self._tops = np.zeros(len(self._starts), np.int64)  # the highest end in each stretch
        self._begun: list[list[int]] = [[] for _ in self._starts]  # per stretch: pieces that begin in it
        self._going: list[list[int]] = [[] for _ in self._starts]  # and those that were live before it
        count = sum(len(block.pieces) for block in blocks)
        self._taken = np.empty((count, 4), np.int64)  # of each piece: lowest byte, exclusive end, first and last step
        self._count = 0

    def add(self, block: Block, offset: int) -> None:
        self.offsets[block.name] = offset
        for piece in block.pieces:
            low = offset + piece.at
            self._taken[self._count] = low, low + piece.size, piece.first, piece.last
            begin, end = self._stretches(piece)
            self._tops[begin:end] = np.maximum(self._tops[begin:end], low + piece.size)
            if self._budget.is_spent:
                continue
            self._budget.spend(end - begin)
            self._begun[begin].append(self._count)
            for stretch in range(begin + 1, end):
                self._going[stretch].append(self._count)
            self._count += 1

    def lowest_offset(self, block: Block) -> int:
        """The lowest offset without overlap with a placed piece that is live at the same time."""
        if self._budget.is_spent:
            tops = ((piece, self._tops[slice(*self._stretches(piece))].max()) for piece in block.pieces)
            return max((0, *(int(top) - piece.at for piece, top in tops)))
        return _lowest_free(*self._overlapping(block))

    def highest_offset(self, block: Block, size: int) -> int:
        """The highest such offset within `size` bytes; negative if there is none, or when the budget is spent."""
        if self._budget.is_spent:
            return -1
        low, high = self._overlapping(block)
        highest = size - block.size
        return highest - _lowest_free(highest - high, highest - low)

    def _overlapping(self, block: Block) -> tuple[Numbers, Numbers]:
        """Ranges of offsets, from low up to high, both exclusive: there a piece of the block overlaps one of the same time."""
        low, high = [_NO_NUMBERS], [_NO_NUMBERS]
        for piece in block.pieces:
            begin, end = self._stretches(piece)
            pieces = [*self._going[begin], *chain(*self._begun[begin:end])]
            self._budget.spend(_LOOK + len(pieces))
            if pieces:
                taken = self._taken[pieces]
                taken = taken[(taken[:, 2] <= piece.last) & (taken[:, 3] >= piece.first)]
                low.append(taken[:, 0] - (piece.at + piece.size))
                high.append(taken[:, 1] - piece.at)
        return np.concatenate(low), np.concatenate(high)

    def _stretches(self, piece: Buffer) -> tuple[int, int]:
        """The stretch that the piece begins in, and the first one after its last step."""
        return bisect_right(self._starts, piece.first) - 1, bisect_right(self._starts, piece.last)


def _lowest_free(low: Numbers, high: Numbers) -> int:
    """The lowest offset outside of all ranges, from low up to high, both exclusive."""
    order = low.argsort()
    reached = np.zeros(len(low) + 1, np.int64)  # by the ranges before each, and by all
    np.maximum.accumulate(high[order], out=reached[1:])
    np.maximum(reached, 0, out=reached)
    free = (reached[:-1] <= low[order]).nonzero()[0]
    return int(reached[free[0] if len(free) else -1])
