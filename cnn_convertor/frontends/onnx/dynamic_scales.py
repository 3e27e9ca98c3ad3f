"""Checks that what follows from a scale which the network computes itself is numbers again: the graph has 1 in its place."""

from __future__ import annotations

from collections.abc import Sequence, Set
from enum import Enum
from typing import NamedTuple

from cnn_convertor.errors import Origin, UnsupportedError
from cnn_convertor.frontends.onnx.model import DOMAINS, OnnxModel, OnnxNode
from cnn_convertor.frontends.onnx.quantized_operators import MOVES_QUANTIZED

_HINT = "convert the model from before its quantization, in FP32"
_MOVES = MOVES_QUANTIZED - {"Concat"} | {"Cast"}


class _Kind(Enum):
    """The outputs of a DynamicQuantizeLinear, and the products of its integers."""

    INTEGERS = "integers"
    SCALE = "scale"
    ZERO = "zero point"
    SUMS = "sums of products of integers"


class _Value(NamedTuple):
    """of: the first output of the DynamicQuantizeLinear."""

    kind: _Kind
    of: str


def check_dynamic_scales(model: OnnxModel, nodes: Sequence[OnnxNode]) -> None:
    """Raises UnsupportedError for a node, or an output, that reads such values for anything but to make numbers again."""
    values: dict[str, _Value] = {}
    computed = {info.name for info in model.inputs} - model.initializers.keys()
    for node in nodes:
        reads = [values.get(name) if name else None for name in node.inputs]
        results: Sequence[_Value | None] = [None] * len(node.outputs)
        if node.type == "DynamicQuantizeLinear" and node.domain in DOMAINS and node.outputs:
            results = [_Value(kind, node.outputs[0]) for kind in (_Kind.INTEGERS, _Kind.SCALE, _Kind.ZERO)]
        elif any(reads):
            results = [_result(node, reads, computed)] * len(node.outputs)
        for name, value in zip(node.outputs, results, strict=False):
            if value is not None:
                values[name] = value
            elif any(reads) or not computed.isdisjoint(node.inputs):
                computed.add(name)
    for info in model.outputs:
        if info.name in values:
            kind = values[info.name].kind
            hint = "leave the output out" if kind in (_Kind.SCALE, _Kind.ZERO) else _HINT
            raise _error(values[info.name], Origin(str(model.path), info.name), hint)


def _result(node: OnnxNode, reads: Sequence[_Value | None], computed: Set[str]) -> _Value | None:
    """What a node makes of the values among its inputs; None: numbers. computed: values that depend on the network's input."""
    kinds = [None if value is None else value.kind for value in reads]
    first, *further = [value for value in reads if value is not None]
    is_one = all(value.of == first.of for value in further)
    match node.type, kinds:
        case "Shape" | "Size", _:
            return None
        case "DequantizeLinear", [_Kind.INTEGERS, _Kind.SCALE, _Kind.ZERO] if is_one:
            return None
        case "ConvInteger" | "MatMulInteger", [_Kind.INTEGERS, None, _Kind.ZERO, *rest] if is_one and not any(rest):
            return _Value(_Kind.SUMS, first.of)
        case "Mul", [_Kind.SUMS, _Kind.SCALE] | [_Kind.SCALE, _Kind.SUMS] if is_one:
            return None
        case "Mul", [_Kind.SCALE, None] | [None, _Kind.SCALE] if computed.isdisjoint(node.inputs):
            return first
        case "Concat", _ if all(value == first for value in reads):
            return first
        case type, [_, *rest] if type in _MOVES and reads[0] is not None and not any(rest):
            return first
    raise _error(first, node.where, _HINT)


def _error(value: _Value, where: Origin, hint: str) -> UnsupportedError:
    what = f'the {value.kind.value} of "{value.of}" (DynamicQuantizeLinear)'
    only = "the convertor only makes numbers of its integers again, by its own scale and zero point"
    return UnsupportedError.of("DV302", f"this use of {what} cannot be converted: {only}", where, hint)
