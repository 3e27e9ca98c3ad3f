"""Quantization parameters: a scale and a zero point, for a whole array or for each index along an axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.onnx.model import Attribute
from cnn_convertor.frontends.onnx.stored import Numbers
from cnn_convertor.frontends.onnx.tensors import TYPES


@dataclass(frozen=True, slots=True, eq=False)
class QuantParams:
    """number = (integer - zero) * scale. scale, zero: of shapes that broadcast to the array. type: of the integers."""

    scale: Numbers
    zero: Numbers
    type: np.dtype[Any]

    @property
    def low(self) -> Numbers:
        """The smallest numbers that the integers represent."""
        return np.asarray((np.iinfo(self.type).min - self.zero) * self.scale)

    @property
    def high(self) -> Numbers:
        """The largest numbers that the integers represent."""
        return np.asarray((np.iinfo(self.type).max - self.zero) * self.scale)

    def numbers(self, integers: Numbers) -> Numbers:
        """What the integers stand for, in FP64."""
        return np.asarray((integers - self.zero) * self.scale)

    def is_same(self, other: QuantParams) -> bool:
        return (
            self.type == other.type
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero, other.zero)
        )


def quant_params_of(
    dims: Dims,
    scale: Numbers | None,
    zero: Numbers | None,
    attributes: Mapping[str, Attribute],
    type: np.dtype[Any] | None = None,
) -> QuantParams:
    """Of a QuantizeLinear or DequantizeLinear on an array of these dims. type: None for that of a QuantizeLinear.

    Raises ValueError for parameters that are invalid or not supported.
    """
    axis = attributes.get("axis", 1)
    output_type = attributes.get("output_dtype", 0)
    if attributes.get("block_size", 0):
        raise ValueError("numbers that are quantized in blocks")
    if scale is None or scale.dtype.kind != "f" or not isinstance(axis, int):
        raise ValueError("the scale is not a number")
    if type is None:
        declared = TYPES.get(output_type) if output_type and isinstance(output_type, int) else np.dtype(np.uint8)
        type = declared if zero is None else zero.dtype
    if type is None or type.kind not in "iu" or (zero is not None and zero.dtype != type):
        raise ValueError("the integers are of a type that cannot be converted")
    zero = np.zeros(scale.shape, type) if zero is None else zero
    if zero.size != scale.size or scale.ndim > 1:
        raise ValueError(f"{scale.size} scales and {zero.size} zero points do not belong together")
    around = [1] * len(dims) if scale.size > 1 else []
    if scale.size > 1:
        if not -len(dims) <= axis < len(dims) or dims[axis] != scale.size:
            raise ValueError(f"{scale.size} scales do not fit axis {axis} of {'x'.join(map(str, dims))}")
        around[axis] = scale.size
    elif not scale.size:
        raise ValueError("the scale is not a number")
    return QuantParams(scale.astype(np.float64).reshape(around), zero.astype(np.float64).reshape(around), type)
