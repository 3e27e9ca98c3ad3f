"""The smallest memory for a few buffers, by exhaustive search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import add
from typing import NamedTuple

Life = tuple[int, int, int]  # size, first step, last step


def smallest(lives: Sequence[Life]) -> int:
    """The least size of a plan.

    In some optimal plan each buffer lies at the bottom or on another one. Taken from the lowest to the highest, each then
    lies at the lowest place above all placed ones that it meets, so trying all orders is exhaustive.
    """
    names = {step: i for i, step in enumerate(sorted({first for _, first, _ in lives}))}
    inside = [tuple(i for step, i in names.items() if first <= step <= last) for _, first, last in lives]
    rest = [sum(size for size, first, last in lives if first <= step <= last) for step in names]
    ground = max(rest, default=0)
    best = sum(size for size, _, _ in lives)
    tops = [0] * len(names)
    seen: set[tuple[int, ...]] = set()

    def go_on(left: int, low: int) -> None:
        nonlocal best
        state = (left, *tops)
        if best == ground or state in seen:
            return
        seen.add(state)
        if not left:
            best = max(tops)
            return
        for b, here in enumerate(inside):
            if not left >> b & 1:
                continue
            place, size = max(tops[i] for i in here), lives[b][0]
            if place < low:
                continue
            before = [tops[i] for i in here]
            for i in here:
                tops[i] = place + size
                rest[i] -= size
            if max(map(add, tops, rest)) < best:
                go_on(left ^ 1 << b, place)
            for i, top in zip(here, before, strict=True):
                tops[i] = top
                rest[i] += size

    if lives:
        # The sum of all sizes is a plan, and the walk only looks for better ones.
        go_on((1 << len(lives)) - 1, 0)
    return best


# --- buffers that lie inside of others -----------------------------------------------------------------------------------


class Part(NamedTuple):
    """Like the planner's buffer: `inside` names the container, `at` is the offset in it."""

    name: str
    size: int
    first: int
    last: int
    inside: str = ""
    at: int = 0


def needed(parts: Sequence[Part]) -> dict[str, set[tuple[int, int]]]:
    """The (step, byte) pairs that each outermost buffer needs, including all buffers inside it."""
    named = {part.name: part for part in parts}
    lives: dict[tuple[str, int], list[int]] = {}
    for part in parts:
        home, start = part, 0
        while home.inside:
            start += home.at
            home = named[home.inside]
        for byte in range(start, start + part.size):
            if part.first <= part.last:
                lives.setdefault((home.name, byte), []).extend((part.first, part.last))
    found: dict[str, set[tuple[int, int]]] = {part.name: set() for part in parts if not part.inside}
    for (home_name, byte), steps in lives.items():
        found[home_name] |= {(step, byte) for step in range(min(steps), max(steps) + 1)}
    return found


def clashes(parts: Sequence[Part], offsets: Mapping[str, int]) -> bool:
    """Whether two buffers need the same byte at the same step."""
    used = [(step, offsets[name] + byte) for name, cells in needed(parts).items() for step, byte in cells]
    return len(used) > len(set(used))


def smallest_nested(parts: Sequence[Part]) -> int:
    """The least size of a plan, by trying all offsets."""
    homes = sorted(needed(parts).values(), key=len, reverse=True)
    homes = [cells for cells in homes if cells]
    size = max((sum(step == when for cells in homes for step, _ in cells) for when in range(20)), default=0)

    def fits(index: int, used: set[tuple[int, int]]) -> bool:
        if index == len(homes):
            return True
        height = 1 + max(byte for _, byte in homes[index])
        for offset in range(size - height + 1):
            moved = {(step, byte + offset) for step, byte in homes[index]}
            if not moved & used and fits(index + 1, used | moved):
                return True
        return False

    while not fits(0, set()):
        size += 1
    return size
