"""The error of values that are stored: its measures, also where nothing is lost or nothing is there."""

from __future__ import annotations

import math

import numpy as np

from cnn_convertor.export.quantizing import StorageLoss


def loss(values: list[float], stored: list[float]) -> StorageLoss:
    result = StorageLoss()
    result.add(np.array(values, np.float32), np.array(stored, np.float64))
    return result


def test_an_error_is_measured_over_all_values() -> None:
    error = loss([3.0, 4.0], [3.0, 2.0])
    error.add(np.array([0.0, 0.0], np.float32), np.array([0.0, -1.0]))
    assert (error.largest, error.rms, error.sqnr) == (2.0, math.sqrt(5 / 4), 10 * math.log10(25 / 5))


def test_what_loses_nothing_has_no_noise() -> None:
    for values in ([], [0.0], [1.5, -2.0]):
        error = loss(values, values)
        assert (error.largest, error.rms, error.sqnr) == (0.0, 0.0, math.inf)


def test_noise_without_a_signal_is_the_worst() -> None:
    assert loss([0.0], [1.0]).sqnr == -math.inf
