"""The state of the search for offsets: pieces and sections of time, floors and the choices behind them, and what follows."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Choices: TypeAlias = int  # a set of choices: bit i for the one at depth i of the search
PLACED = 1 << 60  # the "floor" of a placed buffer


class Piece(NamedTuple):
    """at: bytes from the start of its block. Live from step `first` to step `last`, inclusive."""

    at: int
    size: int
    first: int
    last: int


class Table:
    """The pieces in order of time, and the sections: steps with a maximal set of live pieces.

    inside: (piece, section), whether it is live there; live: the same, (section, piece). meets: (piece, piece), whether both
    are live at some step and belong to different blocks. load: bytes per section. block: per piece. family: piece -> all
    pieces of its block, for blocks of several pieces. unit: divides all offsets.
    """

    def __init__(self, blocks: Sequence[Sequence[Piece]]) -> None:
        pieces = [piece for block in blocks for piece in block]
        steps = np.array(_sections(pieces), np.int64)
        at, sizes, first, last = np.array(pieces, np.int64).reshape(-1, 4).T
        start = np.searchsorted(steps, first)
        stop = np.searchsorted(steps, last, "right")
        order = np.lexsort((at, sizes, stop, start))
        self.block: Numbers = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])[order]
        self.at: Numbers = at[order]
        self.sizes: Numbers = sizes[order]
        self.start, self.stop = start[order], stop[order]
        sections = np.arange(len(steps))
        self.inside: Flags = (self.start[:, None] <= sections) & (sections < self.stop[:, None])
        self.live: Flags = np.ascontiguousarray(self.inside.T)
        self.members = [np.flatnonzero(row) for row in self.live]
        together = (self.start[:, None] < self.stop) & (self.start < self.stop[:, None])
        self.meets: Flags = together & (self.block[:, None] != self.block)
        self.load: Numbers = self.live @ self.sizes
        self.family: dict[int, list[int]] = {}
        for block in (i for i, those in enumerate(blocks) if len(those) > 1):
            family = np.flatnonzero(self.block == block).tolist()
            self.family |= dict.fromkeys(family, family)
        self.heights = [max(piece.at + piece.size for piece in block) for block in blocks]
        self.unit = math.gcd(*(n for piece in pieces for n in (piece.at, piece.size)))
        self.ranks = self._ranks()

    def around(self, piece: int) -> Numbers:
        """All pieces that meet the piece's block."""
        return np.flatnonzero(np.logical_or.reduce(self.meets[self.family.get(piece, [piece])], axis=0))

    def _ranks(self) -> dict[str, list[int]]:
        """Orders of trying buffers: the rank of each buffer, from 0."""
        length = self.stop - self.start
        size = self.sizes
        fullest = np.where(self.inside, self.load, 0).max(axis=1, initial=0)
        orders = {"largest": (-length, -size), "fullest": (-size, -length, -fullest)}
        return {name: np.argsort(np.lexsort(keys)).tolist() for name, keys in orders.items()}

    def lives(self, buffers: Sequence[int] | Numbers) -> Flags:
        """The sections in which any of them is live."""
        live: Flags = np.logical_or.reduce(self.inside[buffers], axis=0)
        return live


def _sections(pieces: Sequence[Piece]) -> list[int]:
    """Steps whose live set is not part of another step's: the last births before each death."""
    births = sorted({piece.first for piece in pieces})
    deaths = sorted({piece.last for piece in pieces})
    return sorted({max(b for b in births if b <= death) for death in deaths})


@dataclass(slots=True)
class SearchState:
    """The state after some choices.

    Per buffer: floors, the lowest possible offset; why, the choices behind its floor, or the choice that placed it; ceilings,
    the highest possible offset; pins, the choice behind the ceiling, if any. Per section: rest, the bytes still to be
    placed; bottoms, the lowest floor; lowest, the number of buffers on it; tops, the lowest possible end of a buffer.
    """

    floors: Numbers
    ceilings: Numbers
    why: list[Choices]
    pins: dict[int, Choices]
    rest: Numbers
    bottoms: Numbers
    lowest: Numbers
    tops: Numbers

    def copy(self) -> SearchState:
        return SearchState(*(getattr(self, name).copy() for name in self.__slots__))

    def reasons(self, buffers: Iterable[int]) -> Choices:
        """The choices behind the floors or offsets of the buffers."""
        return reduce(operator.or_, (self.why[b] for b in buffers), 0)


class Crowd:
    """The unplaced buffers of some sections, the one with the highest end first.

    floors, ends: their lowest possible offsets and ends. here: (section, buffer), whether it is live there. tight: the buffers
    that cannot lie on their floors, as too many others would have to lie above.
    """

    def __init__(self, table: Table, state: SearchState, sections: Numbers, capacity: int) -> None:
        self.sections = sections
        self._capacity = capacity
        inside = table.live[sections]
        buffers = np.flatnonzero(inside.any(axis=0) & (state.floors < PLACED))
        ends = state.floors[buffers] + table.sizes[buffers]
        order = (-ends).argsort(kind="stable")
        self.buffers, self.ends = buffers[order], ends[order]
        self.floors, self._sizes = state.floors[self.buffers], table.sizes[self.buffers]
        self.here = inside[:, self.buffers]
        # Of no buffer, of the first, of the first two, ...
        bytes_of_first = np.zeros((len(sections), len(ends) + 1), np.int64)
        np.cumsum(self.here * self._sizes, axis=1, out=bytes_of_first[:, 1:])
        self._above = self._ending_above(self.floors)
        tight = (bytes_of_first[:, self._above] > capacity - self.floors) & self.here
        self.tight, self._crowded = np.flatnonzero(tight.any(axis=0)), np.flatnonzero(tight.any(axis=1))
        # Of the crowded sections, where any buffer is tight:
        self._tight_here, self._bytes_of_first = tight[self._crowded][:, self.tight], bytes_of_first[self._crowded]

    def _ending_above(self, heights: Numbers) -> Numbers:
        """How many buffers end above each height."""
        return (-self.ends).searchsorted(-heights)

    def overflow(self, state: SearchState) -> Choices | None:
        """The choices behind a section whose buffers above some floor do not fit; None if all fit."""
        by_floor = (-self.floors).argsort(kind="stable")
        here = self.here[self._crowded][:, by_floor]
        above = (here * self._sizes[by_floor]).cumsum(axis=1)
        over = (above > self._capacity - self.floors[by_floor]) & here
        if not over.any():
            return None
        first = over.any(axis=0).argmax()
        those = here[over[:, first].argmax(), : first + 1]
        return state.reasons(self.buffers[by_floor[: first + 1]][those].tolist())

    def raised(self, state: SearchState) -> list[tuple[int, int, Choices]]:
        """Higher floors for the tight buffers, each with the choices behind it."""
        if not len(self.tight):
            return []
        here = self.here[self._crowded]
        fits = here & (self._bytes_of_first[:, self._ending_above(self.ends)] <= self._capacity - self.ends)
        rests = np.full_like(self._bytes_of_first, self._capacity)  # the lowest end of the first n on which others fit
        np.minimum.accumulate(np.where(fits, self.ends, self._capacity), axis=1, out=rests[:, 1:])
        floors = np.where(self._tight_here, rests[:, self._above[self.tight]], 0)
        raised = []
        # Per section: its buffers, and the choices behind the first n.
        behind: dict[int, tuple[Numbers, list[Choices]]] = {}
        for row, section, floor in zip(
            self.tight.tolist(), floors.argmax(axis=0).tolist(), floors.max(axis=0).tolist(), strict=True
        ):
            if section not in behind:
                those = np.flatnonzero(here[section])
                whys = (state.why[b] for b in self.buffers[those].tolist())
                behind[section] = those, [0, *accumulate(whys, operator.or_)]
            those, reasons = behind[section]
            raised.append((int(self.buffers[row]), floor, reasons[int(those.searchsorted(self._above[row]))]))
        return raised

    def note(self, state: SearchState) -> None:
        """Store the summary of the sections."""
        if not len(self.buffers):
            state.bottoms[self.sections] = state.tops[self.sections] = PLACED
            return
        floors = np.where(self.here, self.floors, PLACED)
        bottoms = floors.min(axis=1)
        state.bottoms[self.sections] = bottoms
        state.lowest[self.sections] = (floors == bottoms[:, None]).sum(axis=1)
        state.tops[self.sections] = np.where(
            bottoms < PLACED, self.ends[::-1][self.here[:, ::-1].argmax(axis=1)], PLACED
        )
