"""Tracks which bytes of the I/O memory hold which map."""

from bisect import bisect_right
from typing import NamedTuple

from cnn_convertor.audit.source_network import Map


class Written(NamedTuple):
    """A map that was written. layer: -1 for the network's input. element: bytes. order: who chose the order of its elements.

    batch: how many samples lie one after the other.
    """

    layer: int
    name: str
    start: int
    map: Map
    element: int
    order: frozenset[str]
    batch: int = 1

    @property
    def nbytes(self) -> int:
        return self.map.elements * self.element * self.batch

    @property
    def end(self) -> int:
        return self.start + self.nbytes


class Segment(NamedTuple):
    """Adjacent bytes with one content; None where nothing was written."""

    start: int
    end: int
    content: Written | None


class Memory:
    """Starts empty."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._segments: list[Segment] = []

    def write(self, written: Written) -> None:
        start, end = written.start, written.end
        if start >= end:
            return
        first, last = self._touched(start, end)
        kept = []
        for segment in self._segments[first:last]:
            if segment.start < start:
                kept.append(segment._replace(end=start))
            if segment.end > end:
                kept.append(segment._replace(start=end))
        new = sorted([*kept, Segment(start, end, written)])
        self._segments[first:last] = new
        self._starts[first:last] = [segment.start for segment in new]

    def read(self, start: int, size: int) -> list[Segment]:
        """The contents of a range, in order; gaps are segments without content."""
        end = start + size
        at = start
        segments = []
        first, last = self._touched(start, end)
        for segment in self._segments[first:last]:
            if segment.start > at:
                segments.append(Segment(at, segment.start, None))
            segments.append(segment._replace(start=max(segment.start, start), end=min(segment.end, end)))
            at = segment.end
        if at < end:
            segments.append(Segment(at, end, None))
        return segments

    def _touched(self, start: int, end: int) -> tuple[int, int]:
        """The indices of the segments that overlap the range."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        if first < len(self._segments) and self._segments[first].end <= start:
            first += 1
        last = first
        while last < len(self._segments) and self._segments[last].start < end:
            last += 1
        return first, last
