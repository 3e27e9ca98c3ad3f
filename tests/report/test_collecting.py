"""The numbers of a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from cnn_convertor.devices.dv700.runs import Weights
from cnn_convertor.devices.facts import Magnitudes
from cnn_convertor.ir.constant import Constant
from cnn_convertor.pipeline import build
from cnn_convertor.report.magnitudes import MagnitudeCounter
from report.networks import joined, report
from verification.trials import config


def weights(values: list[float]) -> Weights:
    first: Weights = build(joined(), config(Path("graph.keras"))).weights[0]
    return replace(first, kernels=Constant.of(np.array(values).reshape(-1, 1, 1, 1)))


def magnitudes(given: Weights) -> Magnitudes:
    """Of weights that come in pieces of 64 rows."""
    counter = MagnitudeCounter()
    for start in range(0, given.kernels.shape[0], 64):
        counter(given, given.kernels.load(slice(start, start + 64)))
    return counter.of(given)


def test_magnitudes_are_counted_by_powers_of_two() -> None:
    found = magnitudes(weights([0.0, 1.0, -1.5, 1.999, 2.0, 0.25]))
    assert (found.first, found.counts, found.zeros) == (-2, (1, 0, 3, 1), 1)
    assert found.overflow == found.underflow == 0


def test_overflow_and_underflow_are_those_of_rounding_to_fp16() -> None:
    edges = [65504.0, 65519.9, 65520.0, 1e9, 2.0**-24, 2.0**-25, 2.0**-25 * 1.01, 1e-30]
    found = magnitudes(weights(edges))
    with np.errstate(over="ignore"):
        half = np.array(edges, np.float32).astype(np.float16)
    assert found.overflow == np.count_nonzero(np.isinf(half)) == 2
    assert found.underflow == np.count_nonzero(half == 0) == 2


def test_magnitudes_of_all_kinds_of_numbers_are_those_of_plain_counting() -> None:
    random = np.random.default_rng(0)
    numbers = (random.normal(size=3001) * 2.0 ** random.integers(-60, 20, size=3001)).astype(np.float32)
    numbers[::50] = 0
    edges = [65519.99, -65520, 65535, 65536, 2.0**-25, -(2.0**-25), 1e-40, -1e-45, 2**15, 65504]
    numbers[: len(edges)] = edges
    found = magnitudes(weights(numbers.tolist()))
    size = np.abs(numbers[numbers != 0]).astype(np.float64)
    powers = np.maximum(np.floor(np.log2(size)), -127).astype(int)  # denormal FP32 numbers count as the smallest
    assert found.first == powers.min() and list(found.counts) == np.bincount(powers - powers.min()).tolist()
    assert found.zeros == np.count_nonzero(numbers == 0)
    assert found.overflow == np.count_nonzero(size >= 65520)
    assert found.underflow == np.count_nonzero(size <= 2.0**-25)


def test_many_pieces_of_weights_are_counted_together() -> None:
    assert magnitudes(weights([1.0] * 1000)).counts == (1000,)


def test_steps_say_what_they_do_and_where() -> None:
    made = report(fusion="none")
    assert made.steps[0].does.startswith("convolution") and made.steps[0].place == "device"
    assert made.commands and all(step.cost is not None and step.evidence for step in made.commands)
    assert all(step.cost is None for step in made.steps if step not in made.commands)
    assert sum(blob.bytes for step in made.steps for blob in step.weights) == made.weight_bytes


def test_a_step_names_the_input_or_the_step_that_it_reads() -> None:
    made = report()
    for index, step in enumerate(made.steps):
        for read in step.reads:
            assert (read.step is None) != (read.input is None)
            assert read.step is None or read.step < index
