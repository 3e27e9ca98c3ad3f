"""The chosen layers save what the best set of layers saves, or nearly, and never exceed the bound."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np
import pytest

from cnn_convertor.quantize.palette_layers import Effect, Layers, Real, select

BASE = 1.0


Noise: TypeAlias = Callable[[Layers], Effect]


def sums(noises: Sequence[float]) -> Noise:
    """Noises that add up, as those of independent errors do."""
    return lambda layers: effect(np.sqrt([BASE, *(noise * (i in layers) for i, noise in enumerate(noises))]))


def amplitudes(errors: Sequence[float]) -> Noise:
    """Noises of errors of which each is in part the same at the output: they add up to more, or to less."""

    def measure(layers: Layers) -> Effect:
        own = [error * (i in layers) for i, error in enumerate(errors)]
        return effect(np.array([BASE**0.5, *own, 0.1**0.5 * sum(own)]))

    return measure


def bent(measure: Noise, seed: int) -> Noise:
    """The same, but errors add up only in part: each set of layers has an error of its own."""

    def measure_bent(layers: Layers) -> Effect:
        errors = measure(layers).errors[0]
        random = np.random.default_rng([seed, *sorted(layers)])
        return effect(errors + 0.1 * len(layers) ** 0.5 * random.normal(size=errors.size) * np.abs(errors))

    return measure_bent


def effect(*errors: Real) -> Effect:
    """errors: of each output."""
    return Effect(max(float(np.square(row).sum()) for row in errors), np.stack(errors))


def subsets(count: int) -> list[Layers]:
    return [Layers(chosen) for size in range(count + 1) for chosen in combinations(range(count), size)]


def most_saved(savings: Sequence[int], measure: Noise, bound: float) -> int:
    return max(sum(savings[i] for i in layers) for layers in subsets(len(savings)) if measure(layers).noise <= bound)


def drawn(seed: int, count: int = 9) -> tuple[list[int], list[float]]:
    """Bytes and noises of layers, both of very different size."""
    random = np.random.default_rng(seed)
    return [int(b) for b in np.exp(random.uniform(4, 10, count))], list(np.exp(random.uniform(-4, 2, count)))


@pytest.mark.parametrize("seed", range(20))
def test_noises_that_add_up_give_the_best_selection(seed: int) -> None:
    savings, noises = drawn(seed)
    bound = BASE + sum(noises) * (1 + seed) / 22
    found = select(savings, sums(noises), bound)
    assert found is not None and sums(noises)(found).noise <= bound
    assert sum(savings[i] for i in found) >= 0.99 * most_saved(savings, sums(noises), bound)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("signs", [1, -1])
def test_noises_that_do_not_add_up_give_a_good_selection(seed: int, signs: int) -> None:
    savings, noises = drawn(seed)
    measure = amplitudes([noise * signs**i for i, noise in enumerate(noises)])
    bound = BASE + (measure(Layers(range(9))).noise - BASE) * (1 + seed) / 22
    found = select(savings, measure, bound)
    assert found is not None and measure(found).noise <= bound
    assert sum(savings[i] for i in found) >= 0.95 * most_saved(savings, measure, bound)


def test_errors_of_opposite_signs_cancel_each_other() -> None:
    """A sum of noises would take one of the first two and the last, which save less."""

    def measure(layers: Layers) -> Effect:
        return effect(np.array([1.0, 3.0 * (0 in layers) - 3.0 * (1 in layers), 2.0 * (2 in layers)]))

    assert select([500, 500, 900], measure, 3.0) == Layers({0, 1})


def test_the_worst_output_decides() -> None:
    def measure(layers: Layers) -> Effect:
        first = np.array([1.0, 2.0 * (0 in layers), 0.0])
        return effect(first, np.array([1.0, 0.5 * (0 in layers), 2.0 * (1 in layers)]))

    assert select([5, 6], measure, 5.0) == Layers({1})
    assert select([5, 6], measure, 5.5) == Layers({0, 1})
    assert select([5, 6], measure, 4.0) == Layers()


def test_a_better_selection_is_found_by_a_swap() -> None:
    """The selection with the largest layers first leaves room that smaller ones fill better."""
    assert select([100, 60, 60], sums([6.0, 4.0, 4.0]), BASE + 8.0) == Layers({1, 2})
    savings, noises = [100, 60, 60, 59, 58], [6.0, 3.9, 4.2, 4.0, 3.9]
    assert select(savings, sums(noises), BASE + 8.0) == Layers({1, 3})


@pytest.mark.parametrize("seed", range(20))
def test_predictions_that_do_not_hold_keep_the_bound(seed: int) -> None:
    savings, noises = drawn(seed)
    measure = bent(sums(noises), seed)
    bound = BASE + sum(noises) * (1 + seed) / 22
    found = select(savings, measure, bound)
    if found is not None:
        assert measure(found).noise <= bound
        alone = [saving for i, saving in enumerate(savings) if measure(Layers([i])).noise <= bound]
        assert sum(savings[i] for i in found) >= max(alone, default=0)


def test_nothing_is_measured_twice_and_little_in_all() -> None:
    savings, noises = drawn(1, 40)
    asked: list[Layers] = []

    def measure(layers: Layers) -> Effect:
        asked.append(layers)
        return bent(sums(noises), 1)(layers)

    select(savings, measure, BASE + sum(noises) / 3)
    assert len(asked) == len(set(asked)) <= 2 * 40 + 8


def test_all_layers_have_palettes_where_that_keeps_the_bound() -> None:
    assert select([5, 6], sums([0.1, 0.2]), BASE + 0.4) == Layers({0, 1})
    assert select([], sums([]), BASE) == Layers()


def test_a_bound_that_fails_without_palettes_gives_no_selection() -> None:
    assert select([5, 6], sums([0.1, 0.2]), BASE - 0.1) is None


def test_layers_that_make_no_noise_always_have_palettes() -> None:
    assert select([5, 6, 7], sums([0.0, 2.0, 0.0]), BASE) == Layers({0, 2})


def test_values_that_are_not_finite_keep_no_bound() -> None:
    def measure(layers: Layers) -> Effect:
        errors = np.array([[1.0, math.nan if 1 in layers else 0.0]])
        return Effect(math.inf if 1 in layers else BASE, errors)

    assert select([5, 6], measure, 2 * BASE) == Layers({0})
