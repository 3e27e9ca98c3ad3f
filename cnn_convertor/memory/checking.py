"""Looks whether a plan is right, apart from how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Interval(Protocol):
    """What the checker must know of a buffer."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...


def check(placed: Sequence[tuple[Interval, int]], *, size: int, alignment: int) -> None:
    """Raise AssertionError when two live buffers share bytes, an offset is not aligned, or one lies outside `size` bytes."""
    for buffer, offset in placed:
        assert offset % alignment == 0, f"{buffer.name} at {offset} is not aligned to {alignment}"
        assert 0 <= offset <= size - buffer.size, f"{buffer.name} at {offset} is outside of {size} bytes"
    # Walk through time: among those alive at a step, neighbours in address order must not touch.
    for step in sorted({buffer.first for buffer, _ in placed}):
        end, owner = 0, ""
        alive = [(o, b) for b, o in placed if b.first <= step <= b.last and b.size > 0]
        for offset, buffer in sorted(alive, key=lambda item: item[0]):
            assert offset >= end, f"{owner} and {buffer.name} share bytes at step {step}"
            end, owner = offset + buffer.size, buffer.name
