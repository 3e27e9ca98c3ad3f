"""NVDLA's precisions and the conversions between them, including NaN and infinities."""

from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cnn_convertor.layouts.layout import DType, refuse

ATOM = 32  # bytes
LARGEST_HALF = 65504.0


class Precision(Enum):
    INT8 = "int8"
    INT16 = "int16"
    FP16 = "float16"

    @property
    def element(self) -> DType:
        return np.dtype(self.value)

    @property
    def atom(self) -> int:
        """Elements per atom of 32 bytes."""
        return ATOM // self.element.itemsize

    @property
    def kernels(self) -> int:
        """Kernels per group of weights; elements per atom of SDP operands."""
        return 32 if self is Precision.INT8 else 16


class Stage(Enum):
    """A stage that reads FP16. The value replaces infinities."""

    CONVOLUTION = 65536.0
    WINOGRAD = LARGEST_HALF
    SDP = float(np.finfo(np.float32).max)  # 3.40282e+38
    CDP = 4292870144.0
    PDP_AVERAGE = CDP  # an alias
    PDP_MAXIMUM = float("inf")  # and minimum


class Requantization(NamedTuple):
    """result = round((value - offset) * scale / 2 ** truncate), clipped to the type.

    offset: signed 16 bits; one number, or one per channel (the last axis) in mean format
    scale: signed 16 bits
    truncate: a right shift
    """

    offset: int | tuple[int, ...] = 0
    scale: int = 1
    truncate: int = 0

    def check(self) -> None:
        offsets = (self.offset,) if isinstance(self.offset, int) else self.offset
        if not all(isinstance(number, int) for number in (*offsets, self.scale, self.truncate)):
            refuse("DV830", f"offset {self.offset}, scale {self.scale} and shift {self.truncate} must be integers")
        if not all(-32768 <= number <= 32767 for number in (*offsets, self.scale)):
            refuse("DV830", f"offset {self.offset} and scale {self.scale} must fit signed 16 bits")
        if not 0 <= self.truncate <= 63:
            refuse("DV830", f"a shift by {self.truncate} bits")

    def apply(self, values: npt.NDArray[np.integer[Any]], to: Precision) -> npt.NDArray[Any]:
        """Convert 8- and 16-bit integers: to integers rounded to nearest, ties away from zero; to FP16 rounded to nearest."""
        self.check()
        smallest, largest = int(values.min(initial=0)), int(values.max(initial=0))
        if values.dtype.kind not in "iu" or not -32768 <= smallest <= largest <= 65535:
            refuse("DV830", f"conversion needs 16-bit integers, not {values.dtype}")
        if not isinstance(self.offset, int) and values.shape[-1:] != (len(self.offset),):
            refuse("DV830", f"{len(self.offset)} offsets for the last axis of {'x'.join(map(str, values.shape))}")
        product = (values.astype(np.int64) - np.asarray(self.offset, np.int64)) * self.scale
        if to is Precision.FP16:
            return to_output(np.ldexp(product.astype(np.float64), -self.truncate), to)
        half = (1 << self.truncate) >> 1
        magnitude = (np.abs(product) + half) >> self.truncate
        limits = np.iinfo(to.element)
        return np.asarray((np.sign(product) * magnitude).clip(limits.min, limits.max), to.element)


def from_input(values: npt.NDArray[np.float16], stage: Stage, *, flush_nan: bool = False) -> npt.NDArray[np.float64]:
    """FP16 values as a stage reads them: infinities replaced, NaN flushed to zero if requested; denormals stay."""
    real = values.astype(np.float64)
    if flush_nan:
        real[np.isnan(real)] = 0
    infinite = np.isinf(real)
    real[infinite] = np.copysign(stage.value, real[infinite])
    return real


def to_output(values: npt.NDArray[np.floating[Any]], to: Precision) -> npt.NDArray[Any]:
    """Results as written: clipped, never infinite; FP16 keeps NaN and denormals."""
    if to is Precision.FP16:
        return values.clip(-LARGEST_HALF, LARGEST_HALF).astype(np.float16)
    if np.isnan(values).any():
        refuse("DV830", "NaN has no integer value")
    limits = np.iinfo(to.element)
    rounded = np.copysign(np.floor(np.abs(values) + 0.5), values)
    return np.asarray(rounded.clip(limits.min, limits.max), to.element)


def count_nan(values: npt.NDArray[np.float16]) -> int:
    """The value of the NaN counter registers."""
    return int(np.count_nonzero(np.isnan(values)))


# The (from, to) pairs of each unit; the unit "image" converts pixels of any integer type.
LEGAL: dict[str, frozenset[tuple[str, str]]] = {
    "image": frozenset({("integer", "int8"), ("integer", "int16"), ("integer", "float16"), ("float16", "float16")}),
    "convolution": frozenset({("int8", "int8"), ("int16", "int16"), ("float16", "float16")}),
    "sdp": frozenset(
        {("int8", "int8"), ("int8", "int16"), ("int16", "int8"), ("int16", "int16"), ("int16", "float16")}
        | {("float16", "int16"), ("float16", "float16")}
    ),
    "sdp on the fly": frozenset(
        {("int8", "int8"), ("int16", "int16"), ("int16", "float16"), ("float16", "int16"), ("float16", "float16")}
    ),
    "lrn": frozenset({("int8", "int8"), ("int16", "int16"), ("float16", "float16")}),
    "pooling": frozenset({("int8", "int8"), ("int16", "int16"), ("float16", "float16")}),
}


def check_conversion(unit: str, source: str, to: str) -> None:
    """Raise UsageError for an unsupported change of precision."""
    if unit not in LEGAL:
        refuse("DV831", f'no unit "{unit}" converts precisions', ", ".join(LEGAL))
    if (source, to) not in LEGAL[unit]:
        others = sorted(out for start, out in LEGAL[unit] if start == source)
        hint = f"it can become {' or '.join(others)}" if others else ""
        refuse("DV831", f"{unit}: {source} cannot become {to}", hint)
