"""Which ranges of the I/O buffer change sides before each step of a generated runtime, by lines of the CPU's cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# The driver's flags. CPU_HADNT_READ is not among them: a processor may load a line that no instruction reads, so each result of the
# device is taken out of the cache once the device has written it.
CPU_WONT_READ, AS_DEV_OUTPUT = 1, 2


class Bytes(NamedTuple):
    """A range of the I/O buffer."""

    offset: int
    end: int


class RangeAccess(NamedTuple):
    """What one step reads and writes."""

    reads: tuple[Bytes, ...]
    writes: tuple[Bytes, ...]


class Maintenance(NamedTuple):
    """A call of the driver. flags: as to_device takes them."""

    to_device: bool
    offset: int
    nbytes: int
    flags: int = 0


class CacheLines:
    """What the CPU's cache may hold of the I/O buffer, line by line. starts: of all maps, in bytes.

    dirty: what the CPU has written and memory may lack. stale: what the device has written since the cache took it. A line that
    several maps share is `shared`: who writes a part of it needs the rest as it is.
    """

    def __init__(self, nbytes: int, line: int, starts: Sequence[int]) -> None:
        self.line = line
        count = -(-nbytes // line)
        self.dirty: NDArray[np.bool_] = np.zeros(count, np.bool_)
        self.stale: NDArray[np.bool_] = np.zeros(count, np.bool_)
        self.shared: NDArray[np.bool_] = np.zeros(count, np.bool_)
        for start in starts:
            if start % line:
                self.shared[start // line] = True

    def lines(self, part: Bytes) -> slice:
        return slice(part.offset // self.line, -(-part.end // self.line))

    def before_device(self, access: RangeAccess) -> Iterator[Maintenance]:
        """What is due before the device does a step; afterwards the state is that behind the step."""
        for part in access.reads:
            yield from self._cleaned(part, 0)
        for part in access.writes:
            for edge in self.shared_edges(part):
                yield from self._cleaned(edge, CPU_WONT_READ)
            yield from self._cleaned(part, CPU_WONT_READ | AS_DEV_OUTPUT)
        for part in access.writes:
            self.stale[self.lines(part)] = True

    def before_cpu(self, access: RangeAccess) -> Iterator[Maintenance]:
        """The same for a step of the CPU."""
        for part in access.reads:
            yield from self._taken(part)
        for part in access.writes:
            for edge in self.shared_edges(part):
                yield from self._taken(edge)
            self.stale[self.lines(part)] = False
            self.dirty[self.lines(part)] = True

    def merge(self, other: CacheLines) -> bool:
        """Make the state that of either; returns whether it changes."""
        before = int(self.dirty.sum()) + int(self.stale.sum())
        self.dirty |= other.dirty
        self.stale |= other.stale
        return int(self.dirty.sum()) + int(self.stale.sum()) > before

    def copy(self) -> CacheLines:
        twin = CacheLines(0, self.line, ())
        twin.dirty, twin.stale, twin.shared = self.dirty.copy(), self.stale.copy(), self.shared
        return twin

    def shared_edges(self, part: Bytes) -> Iterator[Bytes]:
        """The first and the last line of a range, where it has a part of them and another map the rest."""
        lines = self.lines(part)
        for index in dict.fromkeys((lines.start, lines.stop - 1)):
            start = index * self.line
            is_partial = start < part.offset or part.end < start + self.line
            if is_partial and self.shared[index]:
                yield Bytes(start, min(start + self.line, len(self.dirty) * self.line))

    def _cleaned(self, part: Bytes, flags: int) -> Iterator[Maintenance]:
        for found in self._where(self.dirty, part):
            yield Maintenance(True, found.offset, found.end - found.offset, flags)
        self.dirty[self.lines(part)] = False

    def _taken(self, part: Bytes) -> Iterator[Maintenance]:
        for found in self._where(self.stale, part):
            yield Maintenance(False, found.offset, found.end - found.offset)
            self.dirty[self.lines(found)] = False  # to_cpu cleans, too
        self.stale[self.lines(part)] = False

    def _where(self, state: NDArray[np.bool_], part: Bytes) -> Iterator[Bytes]:
        """The parts of a range whose lines are in a state."""
        lines = self.lines(part)
        padded = np.concatenate(([False], state[lines], [False]))
        changes = (np.flatnonzero(padded[1:] != padded[:-1]) + lines.start) * self.line
        for start, end in zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True):
            yield Bytes(max(start, part.offset), min(end, part.end))
