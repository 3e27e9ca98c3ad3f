"""Makes numbers of the integers that a quantized ONNX model computes with, as DequantizeLinear does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.frontends.onnx.model import OnnxModel

# Type of a node -> the position of its result's scale among its inputs; the zero point follows.
_SCALES: Final[Mapping[str, int]] = {
    "QuantizeLinear": 1,
    **dict.fromkeys(["QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul"], 6),
    **dict.fromkeys(["QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearSigmoid"], 3),
    "QLinearSoftmax": 3,
    "QGemm": 7,
    "QLinearConcat": 0,
}
# Types whose results are integers of the same scale. A Cast of them to another type of numbers cannot be converted.
_MOVING: Final = frozenset(
    ["Cast", "Concat", "DepthToSpace", "Dropout", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Transpose", "Unsqueeze"]
)  # fmt: skip


class Integers(NamedTuple):
    """What an array of integers stands for: (integer - zero) * scale."""

    scale: np.float32
    zero: int

    def numbers(self, values: NDArray[Any]) -> NDArray[np.float32]:
        return (values.astype(np.int32) - self.zero).astype(np.float32) * self.scale


def integers_of(model: OnnxModel) -> dict[str, Integers]:
    """The model's values that are integers with one known scale each."""
    known: dict[str, Integers] = {}
    for node in model.nodes:
        if node.type in _SCALES and node.outputs:
            position = _SCALES[node.type]
            stored = [model.initializers.get(name) for name in node.inputs[position : position + 2]]
            loaded = [each.load().reshape(-1) for each in stored if each is not None and each.size == 1]
            if len(loaded) == len(stored) > 0:
                zero = int(loaded[1][0]) if len(loaded) > 1 else 0
                known[node.outputs[0]] = Integers(np.float32(loaded[0][0]), zero)
        elif node.type in _MOVING and node.inputs and node.inputs[0] in known:
            known |= dict.fromkeys(node.outputs, known[node.inputs[0]])
    return known
