"""Selects the layers whose palettes save the most bytes while the noise at the outputs stays within a bound."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

Layers: TypeAlias = frozenset[int]
Measure: TypeAlias = Callable[[Layers], float]

_UNITS = 1000  # into which the knapsack divides the room for noise
_STEPS = 6  # of the bisection


def select(savings: Sequence[int], noise: Measure, bound: float) -> Layers | None:
    """The layers that save the most; None if the noise exceeds the bound even without any palette.

    savings: bytes that each layer saves. noise: measures a selection; it is called once for each.

    Noises nearly add up, so each layer's own noise predicts that of a selection, and a knapsack finds the best prediction. How
    much of the bound to give to the knapsack is bisected with measurements. Then the layers that still fit are added. The
    result was measured: its noise is within the bound.
    """
    known: dict[Layers, float] = {}

    def measured(layers: Layers) -> float:
        if layers not in known:
            known[layers] = noise(layers)
        return known[layers]

    def saved(layers: Layers) -> int:
        return sum(savings[i] for i in layers)

    none, everything = Layers(), Layers(range(len(savings)))
    base = measured(none)
    if base > bound:
        return None
    if measured(everything) <= bound:
        return everything
    alone = [max(0.0, measured(Layers([i])) - base) for i in everything]
    best = max((layers for layers, found in known.items() if found <= bound), key=saved)
    low, high = 0.0, 2.0  # shares of the room for noise: one that keeps the bound, and one that should not
    for _ in range(_STEPS):
        share = (low + high) / 2
        candidate = knapsack(savings, alone, share * (bound - base))
        if measured(candidate) <= bound:
            best, low = max(best, candidate, key=saved), share
        else:
            high = share
    for i in sorted(everything - best, key=lambda i: -savings[i]):
        if measured(best | {i}) <= bound:
            best |= {i}
    return best


def knapsack(savings: Sequence[int], noises: Sequence[float], room: float) -> Layers:
    """The layers that save the most of those whose noises add up to the room at most, in steps of a thousandth of it."""
    units = [_UNITS + 1 if noise > room else math.ceil(_UNITS * noise / (room or 1)) for noise in noises]
    best = [(0, 0)] * (_UNITS + 1)  # units that are filled -> bytes that are saved, and the layers as bits
    for i, (saving, size) in enumerate(zip(savings, units, strict=True)):
        for filled in range(_UNITS, size - 1, -1):
            bytes_before, layers = best[filled - size]
            best[filled] = max(best[filled], (bytes_before + saving, layers | 1 << i))
    chosen = best[_UNITS][1]
    return Layers(i for i in range(len(savings)) if chosen >> i & 1)
