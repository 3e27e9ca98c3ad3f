"""Checks a memory plan, independently of the planner."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.memory.buffer import Buffer

_Numbers: TypeAlias = NDArray[np.int64]


class _Claim(NamedTuple):
    """Bytes that are live from one step to another. home: the outermost buffer that contains them."""

    offset: int
    end: int
    first: int
    last: int
    name: str
    home: str


def check(placed: Sequence[tuple[Buffer, int]], *, size: int, alignment: int) -> None:
    """Raise AssertionError unless the plan is valid.

    Offsets are aligned and within `size` bytes; parts lie at their offsets inside their containers; live buffers share bytes
    only where one contains the other; bytes that container and part share stay reserved from the first step of both to the
    last.
    """
    everyone = {buffer.name: (buffer, offset) for buffer, offset in placed}
    claims: list[_Claim] = []
    for buffer, offset in placed:
        assert offset % alignment == 0, f"{buffer.name} at {offset} is not aligned to {alignment}"
        lives = buffer.first <= buffer.last
        assert offset >= 0 and (offset + buffer.size <= size or not lives), (
            f"{buffer.name} at {offset} is outside of {size} bytes"
        )
        family = _outwards(buffer, offset, everyone)
        for whole in family:
            steps = [step for b in (buffer, whole) if b.first <= b.last for step in (b.first, b.last)]
            if steps and buffer.size:
                home = family[-1].name
                claims.append(_Claim(offset, offset + buffer.size, min(steps), max(steps), buffer.name, home))
    _check_apart(claims)
    _check_parts(placed)


def _outwards(buffer: Buffer, offset: int, everyone: Mapping[str, tuple[Buffer, int]]) -> list[Buffer]:
    """The buffer, its container, the container's container, and so on."""
    family = [buffer]
    while family[-1].inside:
        part = family[-1]
        whole, start = everyone[part.inside]
        assert offset == start + part.at, (
            f"{part.name} at {offset} is not {part.at} bytes inside {whole.name} at {start}"
        )
        assert part.at >= 0 and part.at + part.size <= whole.size, (
            f"{part.name} is larger than its place in {whole.name}"
        )
        family.append(whole)
        offset = start
    return family


def _check_apart(claims: Sequence[_Claim]) -> None:
    """Claims of unrelated buffers that are live at one step must not overlap.

    Looks at pairs that meet in time, or in bytes, whichever are fewer: claims that lie apart cannot be many pairs of both.
    """
    numbers: dict[str, int] = {}
    homes = np.array([numbers.setdefault(claim.home, len(numbers)) for claim in claims])
    offset, end, first, last = np.array([claim[:4] for claim in claims], np.int64).reshape(-1, 4).T
    order, stops = min(_meetings(first, last + 1), _meetings(offset, end), key=lambda axis: int(axis[1].sum()))
    for position, stop in enumerate(stops.tolist()):
        here = order[position]
        later = order[position + 1 : stop]
        shared = (offset[later] < end[here]) & (end[later] > offset[here])
        shared &= (first[later] <= last[here]) & (last[later] >= first[here]) & (homes[later] != homes[here])
        if shared.any():
            one, other = sorted((claims[here], claims[later[shared.argmax()]]))
            raise AssertionError(f"{one.name} and {other.name} share bytes at step {max(one.first, other.first)}")


def _meetings(low: _Numbers, high: _Numbers) -> tuple[_Numbers, _Numbers]:
    """An order of ranges, and per position in it, the one up to which the next ones begin before this one ends (exclusive)."""
    order = np.argsort(low, kind="stable")
    return order, np.searchsorted(low[order], high[order])


def _check_parts(placed: Sequence[tuple[Buffer, int]]) -> None:
    """Parts of one container must not overlap."""
    parts: dict[str, list[tuple[int, int, str]]] = {}
    for buffer, _ in placed:
        if buffer.inside and buffer.size:
            parts.setdefault(buffer.inside, []).append((buffer.at, buffer.at + buffer.size, buffer.name))
    for whole, there in parts.items():
        end, owner = 0, ""
        for start, stop, name in sorted(there):
            assert start >= end, f"{owner} and {name} share bytes of {whole}"
            end, owner = stop, name
