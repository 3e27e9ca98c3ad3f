"""The selected layers save what the best selection saves, or nearly, and never exceed the bound."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import pytest

from cnn_convertor.quantize.selection import Layers, knapsack, select

BASE = 1.0


def sums(noises: Sequence[float]) -> Callable[[Layers], float]:
    """Noises that add up, as those of independent errors do."""
    return lambda layers: BASE + sum(noises[i] for i in layers)


def amplitudes(errors: Sequence[float]) -> Callable[[Layers], float]:
    """Noises of errors of which each is in part the same at the output: they add up to more, or to less."""
    return lambda layers: BASE + sum(errors[i] ** 2 for i in layers) + 0.1 * sum(errors[i] for i in layers) ** 2


def subsets(count: int) -> list[Layers]:
    return [Layers(chosen) for size in range(count + 1) for chosen in combinations(range(count), size)]


def most_saved(savings: Sequence[int], noise: Callable[[Layers], float], bound: float) -> int:
    return max(sum(savings[i] for i in layers) for layers in subsets(len(savings)) if noise(layers) <= bound)


def drawn(seed: int, count: int = 9) -> tuple[list[int], list[float]]:
    """Bytes and noises of layers, both of very different size."""
    random = np.random.default_rng(seed)
    return [int(b) for b in np.exp(random.uniform(4, 10, count))], list(np.exp(random.uniform(-4, 2, count)))


@pytest.mark.parametrize("seed", range(20))
def test_noises_that_add_up_give_the_best_selection(seed: int) -> None:
    savings, noises = drawn(seed)
    bound = BASE + sum(noises) * (1 + seed) / 22
    found = select(savings, sums(noises), bound)
    assert found is not None and sums(noises)(found) <= bound
    assert sum(savings[i] for i in found) >= 0.99 * most_saved(savings, sums(noises), bound)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("signs", [1, -1])
def test_noises_that_do_not_add_up_give_a_good_selection(seed: int, signs: int) -> None:
    savings, noises = drawn(seed)
    measure = amplitudes([noise * signs**i for i, noise in enumerate(noises)])
    bound = BASE + (measure(Layers(range(9))) - BASE) * (1 + seed) / 22
    found = select(savings, measure, bound)
    assert found is not None and measure(found) <= bound
    assert sum(savings[i] for i in found) >= 0.9 * most_saved(savings, measure, bound)


def test_nothing_is_measured_twice_and_little_in_all() -> None:
    savings, noises = drawn(1, 40)
    asked: list[Layers] = []

    def measure(layers: Layers) -> float:
        asked.append(layers)
        return sums(noises)(layers)

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
    assert select([5, 6], lambda layers: float("inf") if 1 in layers else BASE, 2 * BASE) == Layers({0})


@pytest.mark.parametrize("room", [0.0, 0.5, 3.0, 100.0])
def test_a_knapsack_is_never_overfull(room: float) -> None:
    savings, noises = drawn(3)
    found = knapsack(savings, noises, room)
    assert sum(noises[i] for i in found) <= room
    assert found or room == 0
