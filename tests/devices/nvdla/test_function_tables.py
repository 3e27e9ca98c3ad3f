"""Tables of functions are as good as they say, on the twin and beyond their range."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.exact_functions import OneValued, exact
from cnn_convertor.devices.nvdla.firmware.descriptors import Lut
from cnn_convertor.devices.nvdla.function_tables import FittedTable, response_table, table_of
from cnn_convertor.devices.nvdla.table_arithmetic import evaluated, responded
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from devices.nvdla.test_table_arithmetic import played
from reference.cpu_reference import SCALARS

# dB over -8..8.
GOOD: Mapping[OneValued, float] = {
    ops.Sigmoid(): 70,
    ops.Tanh(): 70,
    ops.Swish(): 70,
    ops.Swish(1.702): 70,
    ops.Gelu(): 75,
    ops.Gelu(by_tanh=True): 75,
    ops.HardSwish(): 75,
    ops.HardSigmoid(1 / 6, 0.5): 70,
    ops.Mish(): 70,
    ops.Softplus(): 70,
    ops.Softsign(): 65,
    ops.Elu(): 80,
    ops.ScaledElu(1.6732632, 1.0507010): 65,
    ops.Exponential(): 65,
    ops.Power(2.0): 65,
    ops.ErrorFunction(): 70,
    ops.Sine(): 65,
    ops.Cosine(): 65,
    ops.Arctangent(): 65,
    ops.BoundedRelu(0.1, 0.5, 1.5): 75,
    ops.BoundedRelu(0.5, 2.0, 1.0): 70,
    ops.Relu(0.1): 75,
}
EXACT: tuple[OneValued, ...] = (
    ops.Absolute(),
    ops.Relu(),
    ops.Relu6(),
    ops.Clip(-1.0, 0.75),
    ops.Clip(0.5, np.inf),
    ops.Clip(-np.inf, 0.5),
    ops.Threshold(0.25),
    ops.BoundedRelu(2.0, 0.0, 1.5),
    ops.BoundedRelu(0.0, 0.5, np.inf),
)


def halves_between(low: float, high: float) -> NDArray[np.float16]:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    return np.sort(every[(every >= low) & (every <= high)])


def table(function: OneValued, low: float = -8, high: float = 8) -> FittedTable:
    fitted = table_of(function, low, high)
    assert fitted is not None
    return fitted


def decibels(computed: NDArray[np.float16], due: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    noise = np.sum(weights * (computed - due) ** 2)
    return float(10 * np.log10(np.sum(weights * due**2) / noise))


@pytest.mark.parametrize("kind", SCALARS, ids=lambda kind: kind.__name__)
def test_exact_functions_are_those_of_the_reference(kind: type) -> None:
    scalar = SCALARS[kind]
    x = np.linspace(-6, 6, 1001)
    for function in scalar.examples.values():
        assert np.allclose(exact(function, x), scalar.compute(function, x), rtol=1e-12, atol=1e-15, equal_nan=True)


@pytest.mark.parametrize("function", GOOD, ids=str)
def test_a_table_is_as_good_as_it_says(function: OneValued) -> None:
    fitted = table(function)
    x = halves_between(-8, 8)
    due = exact(function, x.astype(np.float64))
    computed = evaluated(fitted.lut, x)
    assert fitted.largest_error == np.max(np.abs(computed - due))
    gaps = np.gradient(x.astype(np.float64))
    normal = gaps * np.exp(-(x.astype(np.float64) ** 2) / 8)
    weights = gaps / gaps.sum() + normal / normal.sum()
    assert fitted.sqnr == pytest.approx(decibels(computed, due, weights), abs=1e-6)
    assert fitted.sqnr >= GOOD[function]
    assert min(decibels(computed, due, gaps), decibels(computed, due, normal)) >= GOOD[function] - 8


@pytest.mark.parametrize("function", EXACT, ids=str)
def test_functions_of_lines_are_exact(function: OneValued) -> None:
    """For every FP16 value, not only those in the range."""
    fitted = table(function)
    x = halves_between(-65504, 65504)
    due = np.clip(exact(function, x.astype(np.float64)), -65504, 65504).astype(np.float16)
    assert (fitted.form, fitted.largest_error) == ("lines", 0)
    assert np.array_equal(evaluated(fitted.lut, x), due)


@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        (ops.Swish(), -60, 60),
        (ops.Swish(), -3.7, 11.3),
        (ops.Swish(), -1000, 1000),
        (ops.Gelu(), -1000, 900),
        (ops.Sigmoid(), -40, 25),
        (ops.Tanh(), -0.01, 0.02),
        (ops.Power(0.5), 0, 100),
        (ops.Exponential(), -16, 0),
        (ops.HardSwish(), -2, 30),
        (ops.Softplus(), -100, 20),
    ],
    ids=str,
)
def test_other_ranges_have_tables_too(function: OneValued, low: float, high: float) -> None:
    fitted = table(function, low, high)
    x = halves_between(low, high)
    due = exact(function, x.astype(np.float64))
    assert fitted.sqnr >= 65
    assert decibels(evaluated(fitted.lut, x), due, np.gradient(x.astype(np.float64))) >= 60


def test_where_nothing_happens_a_table_is_refused_only_for_errors_that_matter() -> None:
    assert table(ops.Swish(), -60, -30).largest_error < 2.0**-14
    assert table(ops.Tanh(), 3, 3).sqnr > 60  # a map of one value


@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        (ops.Floor(), -8, 8),
        (ops.Round(), -8, 8),
        (ops.PRelu(Constant.of(np.ones(3, np.float32))), -8, 8),
        (ops.Logarithm(), -1, 8),  # has no values below 0
        (ops.Logarithm(), 0, 8),
        (ops.Power(-1.0), -8, 8),
        (ops.Exponential(), -8, 20),  # beyond FP16
        (ops.Sine(), -3000, 3000),  # too many waves
    ],
    ids=str,
)
def test_what_no_table_holds_is_refused(function: ops.Function | ops.ScalarFunction, low: float, high: float) -> None:
    assert table_of(function, low, high) is None


@pytest.mark.parametrize(
    ("function", "below", "above"),
    [
        (ops.Swish(), 0, 1000),
        (ops.Gelu(), 0, 1000),
        (ops.Mish(), 0, 1000),
        (ops.Softplus(), 0, 1000),
        (ops.Elu(), -1, 1000),
        (ops.Sigmoid(), 0, 1),
        (ops.Tanh(), -1, 1),
        (ops.Softsign(), -0.9, 0.9),
        (ops.Arctangent(), -1.5, 1.5),
        (ops.HardSwish(), 0, 1000),
    ],
    ids=str,
)
def test_beyond_its_range_a_table_continues_as_its_function(function: OneValued, below: float, above: float) -> None:
    lut = table(function).lut
    assert evaluated(lut, np.array([-1000.0, 1000.0])) == pytest.approx([below, above], abs=0.06)


@pytest.mark.parametrize(
    "function", [ops.Swish(), ops.Tanh(), ops.Gelu(), ops.HardSwish(), ops.Mish(), ops.Elu(), ops.Softsign()], ids=str
)
def test_a_zero_stays_zero_and_nan_stays_nan(function: OneValued) -> None:
    lut = table(function).lut
    assert evaluated(lut, np.zeros(1))[0] == 0
    assert np.isnan(evaluated(lut, np.array([np.nan]))[0])


def test_a_table_is_fitted_once() -> None:
    assert table(ops.Tanh()) is table(ops.Tanh(), -8.0, 8.0)


@pytest.mark.parametrize("function", [ops.Swish(), ops.Sigmoid(), ops.HardSigmoid(0.2, 0.5)], ids=str)
def test_the_twin_computes_a_function_by_its_table(compiler: None, function: OneValued) -> None:
    fitted = table(function)
    x = halves_between(-8, 8)[: 36 * 1024].reshape(16, 64, 36)
    computed = played("SDP", fitted.lut, x)
    assert np.max(np.abs(computed - exact(function, x.astype(np.float64)))) <= fitted.largest_error


# --- CDP ---------------------------------------------------------------------------------------------------------------


def normalized(x: NDArray[np.float64], size: int, alpha: float, beta: float, bias: float) -> NDArray[np.float64]:
    """LRN by its formula."""
    reach = size // 2
    squares = np.pad(x * x, ((0, 0), (0, 0), (reach, reach)))
    sums = np.zeros_like(x)
    for first in range(size):
        sums += squares[:, :, first : first + x.shape[2]]
    return x / (bias + alpha / size * sums) ** beta


def largest_sum(x: NDArray[np.float16], size: int) -> float:
    return size * float(np.max(np.abs(x))) ** 2


@pytest.mark.parametrize(
    ("size", "alpha", "beta", "bias", "spread"),
    [
        (5, 1e-4, 0.75, 1.0, 40.0),  # AlexNet's, and Caffe's defaults with alpha 1
        (5, 1.0, 0.75, 1.0, 2.0),
        (5, 2e-5 * 5, 0.75, 2.0, 100.0),
        (3, 5e-5, 0.75, 1.0, 300.0),
        (9, 0.1, 0.75, 1.0, 15.0),
        (7, 0.5, 0.5, 0.5, 1.0),
    ],
)
def test_the_twin_normalizes_by_its_table(
    compiler: None, size: int, alpha: float, beta: float, bias: float, spread: float
) -> None:
    x = (np.random.default_rng(size).normal(size=(6, 30, 40)) * spread).astype(np.float16)
    fitted = response_table(size, alpha, beta, bias, 0, largest_sum(x, size))
    assert fitted is not None
    computed = played("CDP", fitted.lut, x, size=size)
    assert np.array_equal(computed, responded(fitted.lut, x, size))
    due = normalized(x.astype(np.float64), size, alpha, beta, bias)
    assert decibels(computed, due, np.ones_like(due)) >= 60
    assert fitted.sqnr >= 60


def test_a_response_over_too_many_sizes_is_refused() -> None:
    assert response_table(5, 1.0, 0.5, 1e-6, 0, 1e9) is None


def test_descriptors_hold_every_table() -> None:
    """Entries and slopes are signed numbers of 16 bits, starts are FP32 numbers."""
    fitted = [table(function).lut for function in (*GOOD, *EXACT)]
    for lut in fitted:
        assert isinstance(lut, Lut)
        assert (len(lut.linear_exp_table), len(lut.linear_only_table)) == (65, 257)
        for entry in (*lut.linear_exp_table, *lut.linear_only_table, lut.linear_exp_underflow_slope.scale):
            assert -(1 << 15) <= entry < 1 << 15
        assert 0 <= lut.linear_exp_start < 1 << 32 and 0 <= lut.linear_only_end < 1 << 32
        assert -128 <= lut.linear_exp_offset < 128 and -128 <= lut.linear_only_offset < 128
