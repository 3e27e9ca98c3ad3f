"""Scalar functions: `Function` can be an operator's activation, `ElementFunction` is for `Unary`."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.ir.constant import Constant


@dataclass(frozen=True, slots=True)
class Relu:
    """max(x, 0) + slope * min(x, 0)"""

    slope: float = 0.0


@dataclass(frozen=True, slots=True)
class Relu6:
    """min(max(x, 0), 6)"""


@dataclass(frozen=True, slots=True)
class PRelu:
    """max(x, 0) + slopes[channel] * min(x, 0); slopes: (C,)"""

    slopes: Constant


@dataclass(frozen=True, slots=True)
class Elu:
    """x for x > 0, exp(x) - 1 otherwise"""


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """1 / (1 + exp(-x))"""


@dataclass(frozen=True, slots=True)
class Tanh:
    """tanh(x)"""


Function: TypeAlias = Relu | Relu6 | PRelu | Elu | Sigmoid | Tanh


@dataclass(frozen=True, slots=True)
class Swish:
    """x / (1 + exp(-beta * x)), also called SiLU"""

    beta: float = 1.0


@dataclass(frozen=True, slots=True)
class HardSigmoid:
    """slope * x + shift, clipped to 0..1"""

    slope: float
    shift: float


@dataclass(frozen=True, slots=True)
class HardSwish:
    """x * min(max(x + 3, 0), 6) / 6"""


@dataclass(frozen=True, slots=True)
class Gelu:
    """x * P(X <= x) for a standard normal X. by_tanh: the usual approximation"""

    by_tanh: bool = False


@dataclass(frozen=True, slots=True)
class Mish:
    """x * tanh(log(1 + exp(x)))"""


@dataclass(frozen=True, slots=True)
class Softplus:
    """log(1 + exp(x)); also Caffe's BNLL"""


@dataclass(frozen=True, slots=True)
class Softsign:
    """x / (1 + |x|)"""


@dataclass(frozen=True, slots=True)
class ScaledElu:
    """scale * x for x > 0, scale * alpha * (exp(x) - 1) otherwise: SELU, and ELU with any alpha"""

    alpha: float
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Exponential:
    """exp(scale * x + shift)"""

    scale: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class Logarithm:
    """factor * log(scale * x + shift)"""

    factor: float = 1.0
    scale: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class Power:
    """(scale * x + shift) ** power"""

    power: float
    scale: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class Absolute:
    """|x|"""


@dataclass(frozen=True, slots=True)
class Sine:
    """sin(x), x in radians"""


@dataclass(frozen=True, slots=True)
class Cosine:
    """cos(x), x in radians"""


@dataclass(frozen=True, slots=True)
class Arctangent:
    """atan(x), in radians"""


@dataclass(frozen=True, slots=True)
class ErrorFunction:
    """erf(x)"""


@dataclass(frozen=True, slots=True)
class Floor:
    """The largest whole number up to x"""


@dataclass(frozen=True, slots=True)
class Round:
    """The nearest whole number; of two, the even one"""


@dataclass(frozen=True, slots=True)
class Threshold:
    """1 for x > threshold, 0 otherwise"""

    threshold: float = 0.0


@dataclass(frozen=True, slots=True)
class Clip:
    """x clipped to low..high, either of which may be infinite"""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class BoundedRelu:
    """min(x, high) for x > threshold, slope * (x - threshold) otherwise: Keras's general ReLU"""

    slope: float
    threshold: float
    high: float


ScalarFunction: TypeAlias = (
    Swish
    | HardSigmoid
    | HardSwish
    | Gelu
    | Mish
    | Softplus
    | Softsign
    | ScaledElu
    | Exponential
    | Logarithm
    | Power
    | Absolute
    | Sine
    | Cosine
    | Arctangent
    | ErrorFunction
    | Floor
    | Round
    | Threshold
    | Clip
    | BoundedRelu
)

ElementFunction: TypeAlias = (
    ScalarFunction | Sigmoid | Tanh
)  # of Unary: these two are activations that the CPU has taken


def for_channels(function: Function, channels: NDArray[np.intp]) -> Function:
    """The function with the slopes of the given channels."""
    return PRelu(function.slopes.take_rows(channels)) if isinstance(function, PRelu) else function


def never_decreases(function: Function | None) -> bool:
    """Whether the function is monotonic, so that it commutes with a maximum."""
    match function:
        case Relu(slope=slope):
            return slope >= 0
        case PRelu(slopes=slopes):
            return bool(np.all(slopes.load() >= 0))
        case _:
            return True


def never_negative(function: Function | None) -> bool:
    """Whether all results are >= 0."""
    match function:
        case Relu(slope=slope):
            return slope == 0
        case Relu6() | Sigmoid():
            return True
        case _:
            return False
