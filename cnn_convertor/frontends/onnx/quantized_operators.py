"""Spells operators on quantized numbers (QLinearConv and its kin) out as DequantizeLinear, the operator on numbers, QuantizeLinear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cnn_convertor.frontends.onnx.model import DOMAINS, Attribute, OnnxModel, OnnxNode
from cnn_convertor.frontends.onnx.stored import Stored

_CONTRIBUTED = "com.microsoft"
# A type whose inputs are a number of quantized arrays (integers, scale, zero point), then the scale and the zero point of the
# result -> the operator on numbers, and how many arrays.
_OF_ARRAYS: Mapping[tuple[str, str], tuple[str, int]] = {
    ("", "QLinearMatMul"): ("MatMul", 2),
    (_CONTRIBUTED, "QLinearAdd"): ("Add", 2),
    (_CONTRIBUTED, "QLinearMul"): ("Mul", 2),
    (_CONTRIBUTED, "QLinearSigmoid"): ("Sigmoid", 1),
    (_CONTRIBUTED, "QLinearLeakyRelu"): ("LeakyRelu", 1),
    (_CONTRIBUTED, "QLinearSoftmax"): ("Softmax", 1),
    (_CONTRIBUTED, "QLinearAveragePool"): ("AveragePool", 1),
    (_CONTRIBUTED, "QLinearGlobalAveragePool"): ("GlobalAveragePool", 1),
}
_OF_ONE_AXIS = 13  # the version from which a softmax is over its axis alone, and not over those behind it, too
# What types have beside the attributes of the operator on numbers.
_FURTHER: Mapping[str, str] = {
    "QLinearSoftmax": "opset",
    "QLinearAveragePool": "channels_last",
    "QLinearGlobalAveragePool": "channels_last",
}
# Types that move numbers or choose among them: what they do to integers, they do to the numbers that these stand for.
MOVES_QUANTIZED = frozenset(
    ["Concat", "DepthToSpace", "Dropout", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Transpose", "Unsqueeze"]
)  # fmt: skip


def spell_out(model: OnnxModel, nodes: Sequence[OnnxNode]) -> tuple[tuple[OnnxNode, ...], dict[str, Stored]]:
    """The nodes with those on quantized numbers spelled out, and the constants that they read besides the model's.

    Warns of each feature map that is not rounded. A node of a form that has no such spelling stays as it is.
    """
    names = set(model.initializers)
    names.update(info.name for info in model.inputs)
    for node in nodes:
        names.update(node.inputs, node.outputs)
    spelling = _Spelling(model, names)
    return tuple(part for node in nodes for part in spelling.of(node)), spelling.constants


@dataclass
class _Spelling:
    """names: all that are taken. constants: name -> value. dynamic: of each DynamicQuantizeLinear, zero point -> scale."""

    model: OnnxModel
    names: set[str]
    constants: dict[str, Stored] = field(default_factory=dict)
    dynamic: dict[str, str] = field(default_factory=dict)

    def of(self, node: OnnxNode) -> Iterator[OnnxNode]:
        domain = "" if node.domain in DOMAINS else node.domain
        if not node.outputs or not all(node.outputs):
            yield node
            return
        if (domain, node.type) in _OF_ARRAYS:
            type, count = _OF_ARRAYS[domain, node.type]
            opset = node.attributes.get("opset", self.model.opset)
            is_alike = isinstance(opset, int) and (opset < _OF_ONE_AXIS) == (self.model.opset < _OF_ONE_AXIS)
            if (
                len(node.inputs) in (3 * count + 1, 3 * count + 2)
                and not node.attributes.get("channels_last")
                and is_alike
            ):
                yield from self._linear(node, type, _triples(node.inputs[: 3 * count]), node.inputs[3 * count :])
                return
        match domain, node.type:
            case "", "QLinearConv" if len(node.inputs) in (8, 9):
                yield from self._product(node, "Conv", node.inputs[8:], node.inputs[6:8], axis=0)
            case "com.microsoft", "QGemm" if len(node.inputs) >= 6 and node.attributes.get("alpha", 1.0) == 1.0:
                axis = 0 if node.attributes.get("transB") else 1
                yield from self._product(node, "Gemm", node.inputs[6:7], node.inputs[7:], axis=axis)
            case "com.microsoft", "QLinearConcat" if len(node.inputs) >= 5 and len(node.inputs) % 3 == 2:
                yield from self._linear(node, "Concat", _triples(node.inputs[2:]), node.inputs[:2])
            case "", "DynamicQuantizeLinear" if len(node.inputs) == 1 and len(node.outputs) == 3:
                self.dynamic[node.outputs[2]] = node.outputs[1]
                yield node
            case "", "ConvInteger" | "MatMulInteger" if self._is_dynamic(node):
                yield from self._of_integers(node)
            case _:
                yield node

    def _linear(
        self, node: OnnxNode, type: str, arrays: Sequence[tuple[str, ...]], result: Sequence[str]
    ) -> Iterator[OnnxNode]:
        """An operator on arrays, each of which has a scale for all its numbers. result: scale and zero point."""
        values = []
        for array in arrays:
            values.append(self._name(node, "numbers"))
            yield _part(node, "DequantizeLinear", array, values[-1])
        yield from self._rounded(node, type, values, result)

    def _product(
        self, node: OnnxNode, type: str, bias: Sequence[str], result: Sequence[str], *, axis: int
    ) -> Iterator[OnnxNode]:
        """A product with weights that have a scale for each output, along an axis. bias: integers, if there are any."""
        x = self._name(node, "numbers")
        weight = self._name(node, "weights")
        yield _part(node, "DequantizeLinear", node.inputs[:3], x)
        yield _part(node, "DequantizeLinear", node.inputs[3:6], weight, axis=axis)
        values = [x, weight]
        if any(bias):
            scale, shift = self._name(node, "scale"), self._name(node, "bias")
            yield _part(node, "Mul", (node.inputs[1], node.inputs[4]), scale)
            yield _part(node, "DequantizeLinear", (*bias, scale), shift, axis=0)
            values.append(shift)
        yield from self._rounded(node, type, values, result)

    def _rounded(self, node: OnnxNode, type: str, values: Sequence[str], result: Sequence[str]) -> Iterator[OnnxNode]:
        """The operator on numbers, and its result as integers; as numbers where the node names no scale for it."""
        attributes = {name: value for name, value in node.attributes.items() if name != _FURTHER.get(node.type)}
        if not any(result):
            yield _part(node, type, values, node.outputs[0], **attributes)
            return
        exact = self._name(node, "exact")
        yield _part(node, type, values, exact, **attributes)
        yield replace(_part(node, "QuantizeLinear", (exact, *result), node.outputs[0]), where=node.where)

    def _is_dynamic(self, node: OnnxNode) -> bool:
        """Whether the node multiplies numbers that are not rounded by weights of the file with one zero point, or none."""
        _, weight, zero, *others = (*node.inputs, "", "", "", "")[:4]
        zeros = self.model.initializers.get(others[0]) if others[0] else None
        is_single = not others[0] or (zeros is not None and zeros.size == 1)
        return zero in self.dynamic and weight in self.model.initializers and is_single

    def _of_integers(self, node: OnnxNode) -> Iterator[OnnxNode]:
        numbers, weight, one = (self._name(node, part) for part in ("numbers", "weights", "one"))
        zero = node.inputs[3:4] if any(node.inputs[3:4]) else ()
        zeros = self.model.initializers.get(zero[0]) if zero else None
        self.constants[one] = Stored.of(np.ones(() if zeros is None else zeros.dims, np.float32))
        yield _part(node, "DequantizeLinear", (node.inputs[1], one, *zero), weight, axis=0)
        quantized = (node.inputs[0], self.dynamic[node.inputs[2]], node.inputs[2])
        yield _part(node, "DequantizeLinear", quantized, numbers)
        yield _part(node, node.type.removesuffix("Integer"), (numbers, weight), node.outputs[0], **node.attributes)

    def _name(self, node: OnnxNode, part: str) -> str:
        name = f"{node.outputs[0]}/{part}"
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name


def _part(node: OnnxNode, type: str, inputs: Sequence[str], output: str, **attributes: Attribute) -> OnnxNode:
    """A node that does a part of another one's work."""
    return OnnxNode(type, "", tuple(inputs), (output,), attributes, replace(node.where, layer=output))


def _triples(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(names[at : at + 3]) for at in range(0, len(names), 3)]
