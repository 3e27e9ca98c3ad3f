"""Recognizes functions that exporters spell out as several nodes, and that no single operator of the graph can express.

1. GELU: x * (1 + Erf(x / sqrt(2))) / 2, in any order of the products; also its approximation by a Tanh
2. Swish: x * Sigmoid(x)
3. Mish: x * Tanh(Softplus(x))
4. Hard swish: x * HardSigmoid(x); a pass recognizes the forms with Clip, for all frontends
5. LayerNorm: (x - mean) / sqrt(mean of (x - mean)^2 + epsilon)
6. Focus: the pixels of each block, sliced with steps and joined as channels
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from cnn_convertor.frontends.onnx.folding import constant_of
from cnn_convertor.frontends.onnx.model import DOMAINS, Attribute, OnnxModel, OnnxNode
from cnn_convertor.frontends.onnx.stored import Stored

TOLERANCE = 1e-3  # exporters round sqrt(2) to FP16

INVENTED = frozenset({"Focus", "Standardize"})  # types that stand for idioms; no file has them


@dataclass(frozen=True, slots=True)
class _Nodes:
    """Looks nodes up by what they make."""

    made_by: Mapping[str, OnnxNode]
    constants: Mapping[str, Stored]

    def type(self, name: str) -> str:
        node = self.made_by.get(name)
        return node.type if node is not None and node.domain in DOMAINS else ""

    def source(self, name: str, type: str) -> str | None:
        """The first input of the node that makes the value, if it is of this type."""
        node = self.made_by.get(name)
        return node.inputs[0] if node is not None and self.type(name) == type and node.inputs else None

    def number(self, name: str) -> float | None:
        """The value of a one-element constant of rank 0 or 1. A higher rank could raise the rank of the result."""
        stored = self.constants.get(name)
        is_number = stored is not None and stored.size == 1 and len(stored.dims) <= 1
        return float(stored.load().reshape(-1)[0]) if stored is not None and is_number else None

    def with_number(self, name: str, type: str) -> tuple[str, float] | None:
        """The other input of a node of this type that has a number as one input; that of Sub, Div and Pow must be the second."""
        node = self.made_by.get(name)
        if node is None or self.type(name) != type or len(node.inputs) != 2:
            return None
        first, second = node.inputs
        if (number := self.number(second)) is not None:
            return first, number
        if type in ("Add", "Mul") and (number := self.number(first)) is not None:
            return second, number
        return None


def recognize_idioms(model: OnnxModel) -> tuple[OnnxNode, ...]:
    """The nodes, with the last node of each idiom replaced by one that computes all of it. The others may be left unused."""
    constants = dict(model.initializers)
    for node in model.nodes:
        if node.type == "Constant" and node.domain in DOMAINS and len(node.attributes) == 1:
            value = next(iter(node.attributes.values()))
            if isinstance(value, Stored | float | int | tuple) and node.outputs:
                constants[node.outputs[0]] = constant_of(node)
    nodes = _Nodes({name: node for node in model.nodes for name in node.outputs}, constants)
    return tuple(_recognized(nodes, node) for node in model.nodes)


def _recognized(nodes: _Nodes, node: OnnxNode) -> OnnxNode:
    if node.domain in DOMAINS:
        for find in IDIOMS:
            if (found := find(nodes, node)) is not None:
                return found
    return node


def _made(node: OnnxNode, type: str, inputs: Sequence[str], **attributes: Attribute) -> OnnxNode:
    where = replace(node.where, type=type)
    return OnnxNode(type, "", tuple(inputs), node.outputs, attributes, where)


def _gelu(nodes: _Nodes, node: OnnxNode) -> OnnxNode | None:
    """A product of x, 1/2 and 1 + Erf(x / sqrt(2)), or 1 + Tanh(...)."""
    if node.type not in ("Mul", "Div"):
        return None
    for approximate, gate_of in ((b"none", _erf_plus_one), (b"tanh", _tanh_plus_one)):
        found = (gate_of(nodes, name) for name in _product(nodes, node.outputs[0])[0])
        for x in dict.fromkeys(name for name in found if name is not None):
            factors, number = _product(nodes, node.outputs[0], whole=x)
            others = [name for name in factors if name != x]
            is_half = math.isclose(number, 0.5, rel_tol=TOLERANCE)
            if len(factors) == 2 and len(others) == 1 and is_half and gate_of(nodes, others[0]) == x:
                return _made(node, "Gelu", [x], approximate=approximate)
    return None


def _product(nodes: _Nodes, name: str, depth: int = 3, whole: str = "") -> tuple[list[str], float]:
    """The factors of nested products, and the numbers among them multiplied. whole: a value that is one factor."""
    node = nodes.made_by.get(name)
    number = nodes.number(name)
    if number is not None:
        return [], number
    if node is None or name == whole or depth == 0 or nodes.type(name) not in ("Mul", "Div") or len(node.inputs) != 2:
        return [name], 1.0
    (left, a), (right, b) = (_product(nodes, source, depth - 1, whole) for source in node.inputs)
    if nodes.type(name) == "Mul":
        return left + right, a * b
    return (left, a / b) if not right and b else ([name], 1.0)


def _erf_plus_one(nodes: _Nodes, name: str) -> str | None:
    """x, of 1 + Erf(x / sqrt(2))."""
    match nodes.with_number(name, "Add"):
        case (erf, 1.0):
            inner = nodes.source(erf, "Erf")
            if inner is None:
                return None
            factors, number = _product(nodes, inner, depth=1)
            is_root = math.isclose(number, math.sqrt(0.5), rel_tol=TOLERANCE)
            return factors[0] if len(factors) == 1 and is_root else None
    return None


def _tanh_plus_one(nodes: _Nodes, name: str) -> str | None:
    """x, of 1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)); the last product may also be x * (1 + 0.044715 * x^2)."""
    match nodes.with_number(name, "Add"):
        case (tanh, 1.0):
            inner = nodes.source(tanh, "Tanh")
        case _:
            return None
    factors, number = _product(nodes, inner or "", depth=1)
    if len(factors) == 2:
        factors, number = _product(nodes, inner or "", depth=2)
    if not math.isclose(number, math.sqrt(2 / math.pi), rel_tol=TOLERANCE):
        return None
    for sum in factors:
        made = nodes.made_by.get(sum)
        for x in made.inputs if made is not None and nodes.type(sum) == "Add" else ():
            others = [other for other in made.inputs if other != x] if made is not None else []
            if factors == [sum] and others and _is_power(nodes, others[0], x, 3):
                return x
        match nodes.with_number(sum, "Add"):
            case (square, 1.0):
                rest = [factor for factor in factors if factor != sum]
                if len(rest) == 1 and _is_power(nodes, square, rest[0], 2):
                    return rest[0]
    return None


def _is_power(nodes: _Nodes, name: str, x: str, exponent: int) -> bool:
    """Whether the value is 0.044715 * x^exponent."""
    factors, number = _product(nodes, name, whole=x)
    is_product = factors == [x] * exponent or (
        len(factors) == 1 and nodes.with_number(factors[0], "Pow") == (x, exponent)
    )
    return is_product and math.isclose(number, 0.044715, rel_tol=TOLERANCE)


def _swish(nodes: _Nodes, node: OnnxNode) -> OnnxNode | None:
    return _gated(node, "Swish", lambda gate: nodes.source(gate, "Sigmoid"))


def _mish(nodes: _Nodes, node: OnnxNode) -> OnnxNode | None:
    def source(gate: str) -> str | None:
        inner = nodes.source(gate, "Tanh")
        return None if inner is None else nodes.source(inner, "Softplus")

    return _gated(node, "Mish", source)


def _gated(node: OnnxNode, type: str, source: Callable[[str], str | None]) -> OnnxNode | None:
    """x * gate(x)"""
    if node.type != "Mul" or len(node.inputs) != 2:
        return None
    for x, gate in (node.inputs, node.inputs[::-1]):
        if source(gate) == x:
            return _made(node, type, [x])
    return None


def _hard_swish(nodes: _Nodes, node: OnnxNode) -> OnnxNode | None:
    def source(gate: str) -> str | None:
        made = nodes.made_by.get(gate)
        alpha = made.attributes.get("alpha", 0.2) if made is not None else None
        is_it = isinstance(alpha, float) and math.isclose(alpha, 1 / 6, rel_tol=1e-6)
        return nodes.source(gate, "HardSigmoid") if is_it and made and made.attributes.get("beta", 0.5) == 0.5 else None

    return _gated(node, "HardSwish", source)


def _layer_norm(nodes: _Nodes, node: OnnxNode) -> OnnxNode | None:
    """The quotient; factors and shifts after it stay nodes of their own."""
    if node.type != "Div" or len(node.inputs) != 2:
        return None
    difference, deviation = node.inputs
    variance = nodes.with_number(nodes.source(deviation, "Sqrt") or "", "Add")
    center = nodes.made_by.get(difference)
    if variance is None or center is None or nodes.type(difference) != "Sub" or len(center.inputs) != 2:
        return None
    x, mean = center.inputs
    axes = _mean_axes(nodes, mean)
    if nodes.source(mean, "ReduceMean") != x or axes is None or _mean_axes(nodes, variance[0]) != axes:
        return None
    square = nodes.source(variance[0], "ReduceMean") or ""
    is_power = nodes.with_number(square, "Pow") == (difference, 2.0)
    product = nodes.made_by.get(square)
    is_product = product is not None and product.type == "Mul" and product.inputs == (difference, difference)
    return _made(node, "Standardize", [x], axes=axes, epsilon=variance[1]) if is_power or is_product else None


def _mean_axes(nodes: _Nodes, name: str) -> tuple[int, ...] | None:
    """The axes of a ReduceMean that keeps them; None where it names none, which may mean all or none."""
    node = nodes.made_by.get(name)
    if node is None or nodes.type(name) != "ReduceMean" or node.attributes.get("keepdims", 1) != 1:
        return None
    given = node.attributes.get("axes")
    stored = nodes.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    return (given if _are_integers(given) else _integers(stored)) or None


def _are_integers(given: Attribute | None) -> TypeGuard[tuple[int, ...]]:
    return isinstance(given, tuple) and all(isinstance(n, int) for n in given)


def _integers(stored: Stored | None) -> tuple[int, ...]:
    """The numbers of a constant; none where it does not hold integers."""
    is_it = stored is not None and stored.dtype.kind in "iu"
    return tuple(int(n) for n in stored.load().reshape(-1)) if stored is not None and is_it else ()


LAST = 1 << 30  # ends of slices above it mean the end of the axis


def _focus(nodes: _Nodes, node: OnnxNode) -> OnnxNode | None:
    """A Concat on channels of b * b slices with the steps b, from every pixel of a block."""
    block = math.isqrt(len(node.inputs))
    if node.type != "Concat" or node.attributes.get("axis") != 1 or block < 2 or block * block != len(node.inputs):
        return None
    parts = [_strided(nodes, name, block) for name in node.inputs]
    sources = {None if part is None else part[0] for part in parts}
    starts = [part[1:] for part in parts if part is not None]
    rows = [(row, column) for row in range(block) for column in range(block)]
    if len(sources) != 1 or len(starts) != len(parts):
        return None
    (source,) = sources
    for order, wanted in ((b"rows", rows), (b"columns", [(row, column) for column, row in rows])):
        if starts == wanted and source is not None:
            return _made(node, "Focus", [source], blocksize=block, order=order)
    return None


def _strided(nodes: _Nodes, name: str, block: int) -> tuple[str, int, int] | None:
    """The source and the start (row, column) of one slice, or two, that take every block-th row and column to the end."""
    starts: dict[int, int] = {}
    while nodes.type(name) == "Slice" and len(starts) < 2:
        given = [nodes.constants.get(source) for source in nodes.made_by[name].inputs[1:]]
        if len(given) != 4:
            return None
        bounds = [_integers(stored) for stored in given]
        if not all(bounds) or any(step != block for step in bounds[3]) or any(end < LAST for end in bounds[1]):
            return None
        for axis, start in zip(bounds[2], bounds[0], strict=False):
            if axis not in (2, 3) or axis in starts:
                return None
            starts[axis] = start
        name = nodes.made_by[name].inputs[0]
    return (name, starts[2], starts[3]) if len(starts) == 2 else None


IDIOMS: tuple[Callable[[_Nodes, OnnxNode], OnnxNode | None], ...] = (
    _gelu,
    _swish,
    _mish,
    _hard_swish,
    _layer_norm,
    _focus,
)
