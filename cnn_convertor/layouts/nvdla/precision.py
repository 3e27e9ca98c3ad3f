"""NVDLA's precisions, and how its input stage converts pixels."""

from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cnn_convertor.layouts.layout import DType, refuse

ATOM = 32  # bytes, of the full configuration; lines of pixels are multiples of it in all


class Precision(Enum):
    INT8 = "int8"
    INT16 = "int16"
    FP16 = "float16"

    @property
    def element(self) -> DType:
        return np.dtype(self.value)


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
        smallest = int(values.min(initial=0))
        largest = int(values.max(initial=0))
        if values.dtype.kind not in "iu" or not -32768 <= smallest <= largest <= 65535:
            refuse("DV830", f"conversion needs 16-bit integers, not {values.dtype}")
        if not isinstance(self.offset, int) and values.shape[-1:] != (len(self.offset),):
            refuse("DV830", f"{len(self.offset)} offsets for the last axis of {'x'.join(map(str, values.shape))}")
        product = (values.astype(np.int64) - np.asarray(self.offset, np.int64)) * self.scale
        if to is Precision.FP16:
            return np.ldexp(product.astype(np.float64), -self.truncate).clip(-65504, 65504).astype(np.float16)
        half = (1 << self.truncate) >> 1
        magnitude = (np.abs(product) + half) >> self.truncate
        limits = np.iinfo(to.element)
        return np.asarray((np.sign(product) * magnitude).clip(limits.min, limits.max), to.element)
