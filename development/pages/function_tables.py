"""How well NVDLA's tables hold functions: rows for a page."""

from __future__ import annotations

from math import isfinite
from typing import Final

from cnn_convertor.devices.nvdla.function_tables import FittedTable, response_table, table_of
from cnn_convertor.ir import ops

_RANGE: Final = (-8.0, 8.0)
_FUNCTIONS: Final[tuple[tuple[str, ops.Function | ops.ScalarFunction, tuple[float, float]], ...]] = (
    ("sigmoid", ops.Sigmoid(), _RANGE),
    ("tanh", ops.Tanh(), _RANGE),
    ("swish", ops.Swish(), _RANGE),
    ("swish", ops.Swish(), (-60.0, 60.0)),
    ("GELU", ops.Gelu(), _RANGE),
    ("GELU by tanh", ops.Gelu(by_tanh=True), _RANGE),
    ("hard swish", ops.HardSwish(), _RANGE),
    ("hard sigmoid", ops.HardSigmoid(1 / 6, 0.5), _RANGE),
    ("Mish", ops.Mish(), _RANGE),
    ("softplus", ops.Softplus(), _RANGE),
    ("softsign", ops.Softsign(), _RANGE),
    ("ELU", ops.Elu(), _RANGE),
    ("SELU", ops.ScaledElu(1.6732632, 1.0507010), _RANGE),
    ("exp", ops.Exponential(), _RANGE),
    ("log", ops.Logarithm(), (0.01, 10.0)),
    ("square", ops.Power(2.0), _RANGE),
    ("square root", ops.Power(0.5), (0.0, 16.0)),
    ("1 / x", ops.Power(-1.0), (0.05, 16.0)),
    ("absolute value", ops.Absolute(), _RANGE),
    ("erf", ops.ErrorFunction(), _RANGE),
    ("sin", ops.Sine(), _RANGE),
    ("cos", ops.Cosine(), _RANGE),
    ("atan", ops.Arctangent(), _RANGE),
    ("ReLU6", ops.Relu6(), _RANGE),
    ("threshold", ops.Threshold(0.25), _RANGE),
)
# Size, alpha, beta and bias of LRN, and the largest sum of squares.
_RESPONSES: Final = ((5, 1e-4, 0.75, 1.0, 1e5), (5, 1.0, 0.75, 1.0, 1e3), (3, 5e-5, 0.75, 1.0, 1e6))


def rows() -> list[tuple[str, str, str, str, str]]:
    """Function, range, form of the table, largest error, dB."""
    result = []
    for name, function, (low, high) in _FUNCTIONS:
        result.append(_row(name, table_of(function, low, high)))
    for size, alpha, beta, bias, largest in _RESPONSES:
        name = f"LRN: size {size}, alpha {alpha:g}, beta {beta:g}, bias {bias:g}"
        result.append(_row(name, response_table(size, alpha, beta, bias, 0, largest)))
    return result


def _row(name: str, fitted: FittedTable | None) -> tuple[str, str, str, str, str]:
    assert fitted is not None, name
    quality = f"{fitted.sqnr:.0f}" if isfinite(fitted.sqnr) else "exact"
    return name, f"{fitted.low:g}..{fitted.high:g}", fitted.form, f"{fitted.largest_error:.1g}", quality
