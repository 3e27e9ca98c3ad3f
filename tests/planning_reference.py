"""The smallest memory for a few buffers, by trying everything: slow, plain, and apart from what it is compared with."""

from __future__ import annotations

from collections.abc import Sequence

Life = tuple[int, int, int]  # size, first step, last step


def smallest(lives: Sequence[Life]) -> int:
    """The least size of a plan.

    In some best plan each buffer lies on the ground or on another one. Taken from the lowest to the highest, each then
    lies at the lowest place above all placed ones that it meets: so trying all orders is trying everything.
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
            if all(top + more < best for top, more in zip(tops, rest, strict=True)):
                go_on(left ^ 1 << b, place)
            for i, top in zip(here, before, strict=True):
                tops[i] = top
                rest[i] += size

    if lives:
        # The sum of all sizes is a plan, and the walk only looks for better ones.
        go_on((1 << len(lives)) - 1, 0)
    return best
