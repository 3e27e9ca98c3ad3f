"""The functions of one value in FP64: what tables stand for."""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.errors import assert_never
from cnn_convertor.ir import ops

Numbers: TypeAlias = NDArray[np.float64]
# Functions of one value: all but PRelu, which has a slope for each channel.
OneValued: TypeAlias = ops.Relu | ops.Relu6 | ops.Elu | ops.Sigmoid | ops.Tanh | ops.ScalarFunction
_ERF: Final = np.vectorize(math.erf, otypes=[np.float64])
_ERFC: Final = np.vectorize(math.erfc, otypes=[np.float64])


def exact(function: OneValued, x: Numbers) -> Numbers:
    """The function of each value; NaN or infinite where it has none."""
    with np.errstate(all="ignore"):
        return np.asarray(_exact(function, np.asarray(x, np.float64)), np.float64)


def _exact(function: OneValued, x: Numbers) -> Any:
    match function:
        case ops.Relu(slope=slope):
            return np.maximum(x, 0) + slope * np.minimum(x, 0)
        case ops.Relu6():
            return np.clip(x, 0, 6)
        case ops.Elu():
            return np.maximum(x, 0) + np.expm1(np.minimum(x, 0))
        case ops.Sigmoid():
            return 1 / (1 + np.exp(-x))
        case ops.Tanh():
            return np.tanh(x)
        case ops.Swish(beta=beta):
            return x / (1 + np.exp(-beta * x))
        case ops.HardSigmoid(slope=slope, shift=shift):
            return np.clip(slope * x + shift, 0, 1)
        case ops.HardSwish():
            return x * np.clip(x + 3, 0, 6) / 6
        case ops.Gelu(by_tanh=True):
            return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        case ops.Gelu():
            return x / 2 * _ERFC(-x / math.sqrt(2))
        case ops.Mish():
            return x * np.tanh(np.logaddexp(0, x))
        case ops.Softplus():
            return np.logaddexp(0, x)
        case ops.Softsign():
            return x / (1 + np.abs(x))
        case ops.ScaledElu(alpha=alpha, scale=scale):
            return scale * (np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0)))
        case ops.Exponential(scale=scale, shift=shift):
            return np.exp(scale * x + shift)
        case ops.Logarithm(factor=factor, scale=scale, shift=shift):
            return factor * np.log(scale * x + shift)
        case ops.Power(power=power, scale=scale, shift=shift):
            return (scale * x + shift) ** power
        case ops.Absolute():
            return np.abs(x)
        case ops.Sine():
            return np.sin(x)
        case ops.Cosine():
            return np.cos(x)
        case ops.Arctangent():
            return np.arctan(x)
        case ops.ErrorFunction():
            return _ERF(x)
        case ops.Floor():
            return np.floor(x)
        case ops.Round():
            return np.round(x)
        case ops.Threshold(threshold=threshold):
            return (x > threshold).astype(np.float64)
        case ops.Clip(low=low, high=high):
            return np.clip(x, low, high)
        case ops.BoundedRelu(slope=slope, threshold=threshold, high=high):
            return np.where(x > threshold, np.minimum(x, high), slope * (x - threshold))
        case _:
            assert_never(function)
