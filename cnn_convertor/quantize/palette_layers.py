"""Chooses the layers that get palettes: they save many bytes while the noise at the outputs stays within a bound.

Near a measured set of layers, the errors of single layers add up at each output. So a quadratic form predicts the noise of
another set, with the errors' signs. (Their noises alone do not: errors of different layers cancel or amplify each other.)
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Real: TypeAlias = NDArray[np.float64]
Layers: TypeAlias = frozenset[int]

_CHANGES = (0, 1, 2)  # layers that one step takes out, and that it adds
_SPARE = 8  # measurements beside two for each layer
_DOUBT = 1.5  # times the bound: a prediction that is measured all the same in the end


class Effect(NamedTuple):
    """The effect of a set of layers on the outputs: the noise at the worst one, and the errors, (outputs, elements).

    The squares of an output's errors add up to its noise, at least nearly.
    """

    noise: float
    errors: Real


Measure: TypeAlias = Callable[[Layers], Effect]


def select(savings: Sequence[int], measure: Measure, bound: float) -> Layers | None:
    """Layers that save many bytes; None if the noise exceeds the bound even without any palette.

    savings: bytes that each layer saves. measure: is called once for each set of layers, at most twice as often as there are
    layers, and 8 times more. The noise of the result was measured.

    First each layer is measured alone. From there on, predictions lead in steps to another set, which is measured. If it
    exceeds the bound, the next one is fewer steps from the best one so far. A step takes out up to two layers, adds up to two,
    and saves bytes. The search ends when no step is left that may keep the bound, or no measurement. So the result may save
    less than the best set.
    """
    effects: dict[Layers, Effect] = {}

    def measured(layers: Layers) -> Effect:
        if layers not in effects:
            effects[layers] = measure(layers)
        return effects[layers]

    best = Layers()
    everything = Layers(range(len(savings)))
    if measured(best).noise > bound:
        return None
    if measured(everything).noise <= bound:
        return everything
    model = _Model.of(savings, measured(best), [measured(Layers([i])) for i in range(len(savings))])
    steps = len(savings)
    allowed = bound
    while len(effects) < 2 * len(savings) + _SPARE:
        failed = {layers for layers, effect in effects.items() if effect.noise > bound}
        candidate = _walk(model, best, measured(best).errors, allowed, failed, steps)
        if candidate != best and measured(candidate).noise <= bound:
            best = candidate
        elif candidate != best:
            steps = max(1, steps // 2)
        elif allowed == bound:
            steps = 1
            allowed = _DOUBT * bound
        else:
            break
    return best


class _Model(NamedTuple):
    """savings: of each layer. errors: what each adds, (outputs, layers, elements); products: of these, (outputs, layers, layers).

    layers: those that can be added at all.
    """

    savings: NDArray[np.int64]
    errors: Real
    products: Real
    layers: Layers

    @classmethod
    def of(cls, savings: Sequence[int], none: Effect, alone: Sequence[Effect]) -> "_Model":
        able = Layers(i for i, effect in enumerate(alone) if np.isfinite(effect.noise))
        errors = np.stack(
            [e.errors - none.errors if i in able else np.zeros_like(none.errors) for i, e in enumerate(alone)], axis=1
        )
        return cls(np.array(savings, np.int64), errors, np.einsum("oie,oje->oij", errors, errors), able)


def _walk(model: _Model, start: Layers, errors: Real, bound: float, failed: set[Layers], steps: int) -> Layers:
    """The set after some steps, of which each saves the most that its prediction allows. errors: at the start."""
    layers = start
    for _ in range(steps):
        nearby = next((s for s in _nearby(model, layers, errors, bound) if s not in failed), None)
        if nearby is None:
            break
        errors = errors + model.errors[:, sorted(nearby - layers)].sum(axis=1)
        errors = errors - model.errors[:, sorted(layers - nearby)].sum(axis=1)
        layers = nearby
    return layers


def _nearby(model: _Model, layers: Layers, errors: Real, bound: float) -> Iterator[Layers]:
    """Sets near `layers` that save more and are predicted to keep the bound, the best first. errors: of `layers`."""
    removals = _choices(layers)
    additions = _choices(model.layers - layers)
    out, into = (_indicators(choices, model.savings.size) for choices in (removals, additions))
    saved = (into @ model.savings)[:, np.newaxis] - out @ model.savings
    noise = np.zeros(saved.shape)
    for row, effects, products in zip(errors, model.errors, model.products, strict=True):
        linear = 2 * np.einsum("ie,e->i", effects, row)
        more, less = (x @ linear * sign + ((x @ products) * x).sum(axis=1) for x, sign in ((into, 1), (out, -1)))
        each = np.square(row).sum() + more[:, np.newaxis] + less - 2 * (into @ products) @ out.T
        noise = np.maximum(noise, each)
    first, second = np.nonzero((saved > 0) & (noise <= bound))
    for i in np.lexsort((noise[first, second], -saved[first, second])):
        yield layers - set(removals[second[i]]) | set(additions[first[i]])


def _choices(layers: Layers) -> list[tuple[int, ...]]:
    return [chosen for size in _CHANGES for chosen in combinations(sorted(layers), size)]


def _indicators(choices: Sequence[Sequence[int]], layers: int) -> Real:
    """A row for each choice, with 1 where it has a layer."""
    indicators = np.zeros((len(choices), layers))
    for row, chosen in zip(indicators, choices, strict=True):
        row[list(chosen)] = 1
    return indicators
