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
from typing import NamedTuple, TypeAlias, TypeGuard

from cnn_convertor.frontends.onnx.folding import constant_of
from cnn_convertor.frontends.onnx.model import DOMAINS, Attribute, OnnxModel, OnnxNode
from cnn_convertor.frontends.onnx.operators import attributes_of
from cnn_convertor.frontends.onnx.stored import Stored
from cnn_convertor.ir.patterns import Bound, Either, Match, Numeric, OfKind, Pattern, Product, first_match

INVENTED = frozenset({"Focus", "Standardize"})  # types that stand for idioms; no file has them


@dataclass(frozen=True, slots=True)
class _Nodes:
    """Looks nodes up by what they compute, as patterns ask for them."""

    sources: Mapping[str, OnnxNode]
    constants: Mapping[str, Stored]

    def kind(self, name: str) -> str:
        """Of a node that is part of no idiom: none. Its own reader refuses attributes that its type does not have."""
        node = self.sources.get(name)
        if node is None or node.domain not in DOMAINS or not node.attributes.keys() <= attributes_of(node.type):
            return ""
        return node.type

    def inputs(self, name: str) -> Sequence[str]:
        return self.sources[name].inputs

    def number(self, name: str) -> float | None:
        """The value of a constant of one element. A constant of several axes may raise the rank of the result."""
        stored = self.constants.get(name)
        is_number = stored is not None and stored.size == 1 and len(stored.dims) <= 1
        return float(stored.load().reshape(-1)[0]) if stored is not None and is_number else None


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
    if node.domain not in DOMAINS or not node.outputs:
        return node
    for idiom in IDIOMS:
        match = first_match(nodes, idiom.pattern, node.outputs[0])
        if match is not None and (attributes := idiom.attributes(nodes, match)) is not None:
            return _replaced(node, idiom.type, match.values["x"], attributes)
    return _focus(nodes, node) or node


def _replaced(node: OnnxNode, type: str, x: str, attributes: Mapping[str, Attribute]) -> OnnxNode:
    return OnnxNode(type, "", (x,), node.outputs, dict(attributes), replace(node.where, type=type))


# --- the table -----------------------------------------------------------------------------------------------------------

Attributes: TypeAlias = Callable[[_Nodes, Match], Mapping[str, Attribute] | None]


def _always(**attributes: Attribute) -> Attributes:
    return lambda *_: attributes


def _of_hard_swish(nodes: _Nodes, match: Match) -> Mapping[str, Attribute] | None:
    """None unless the slope is 1/6 and the shift 1/2."""
    gate = nodes.sources[match.values["gate"]].attributes
    alpha = gate.get("alpha", 0.2)
    is_sixth = isinstance(alpha, float) and math.isclose(alpha, 1 / 6, rel_tol=1e-6)
    return {} if is_sixth and gate.get("beta", 0.5) == 0.5 else None


def _of_layer_norm(nodes: _Nodes, match: Match) -> Mapping[str, Attribute] | None:
    """None unless mean and variance are of the same axes, which they keep."""
    axes = _mean_axes(nodes, match.values["mean"])
    epsilon = nodes.number(match.values["epsilon"])
    if axes is None or epsilon is None or _mean_axes(nodes, match.values["variance"]) != axes:
        return None
    return {"axes": axes, "epsilon": epsilon}


def _mean_axes(nodes: _Nodes, name: str) -> tuple[int, ...] | None:
    """The axes of a ReduceMean that keeps them; None where it names none, which may mean all or none."""
    node = nodes.sources[name]
    if node.attributes.get("keepdims", 1) != 1:
        return None
    listed = node.attributes.get("axes")
    stored = nodes.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    return (listed if _are_integers(listed) else _integers(stored)) or None


def _are_integers(listed: Attribute | None) -> TypeGuard[tuple[int, ...]]:
    return isinstance(listed, tuple) and all(isinstance(n, int) for n in listed)


def _integers(stored: Stored | None) -> tuple[int, ...]:
    """The numbers of a constant; none where it does not hold integers."""
    is_integer = stored is not None and stored.dtype.kind in "iu"
    return tuple(int(n) for n in stored.load().reshape(-1)) if stored is not None and is_integer else ()


def _sum(one: Pattern, other: Pattern) -> Pattern:
    return OfKind("Add", (one, other), commutes=True)


def _times(x: Pattern, gate: Pattern) -> Pattern:
    return OfKind("Mul", (x, gate), commutes=True)


def _power(exponent: int) -> Pattern:
    """0.044715 * x^exponent"""
    power = OfKind("Pow", (X, Numeric(exponent)))
    return Either((Product((X,) * exponent, 0.044715), Product((power,), 0.044715)))


def _mean(name: str, of: Pattern) -> Pattern:
    return Bound(name, OfKind("ReduceMean", (of,), more=True))


X, CENTER = Bound("x"), Bound("center")
ROOT = math.sqrt(2 / math.pi)
ERF = OfKind("Erf", (Product((X,), math.sqrt(0.5)),))
TANH = OfKind(
    "Tanh", (Either((Product((_sum(X, _power(3)),), ROOT), Product((X, _sum(_power(2), Numeric(1.0))), ROOT))),)
)
VARIANCE = _mean("variance", Either((OfKind("Pow", (CENTER, Numeric(2.0))), OfKind("Mul", (CENTER, CENTER)))))


class Idiom(NamedTuple):
    """pattern: of x. type: of the node that stands for it. attributes: of that node; None if it is not such an idiom after all."""

    type: str
    pattern: Pattern
    attributes: Attributes


IDIOMS = (
    Idiom("Gelu", Product((X, _sum(ERF, Numeric(1.0))), 0.5), _always(approximate=b"none")),
    Idiom("Gelu", Product((X, _sum(TANH, Numeric(1.0))), 0.5), _always(approximate=b"tanh")),
    Idiom("Swish", _times(X, OfKind("Sigmoid", (X,))), _always()),
    Idiom("Mish", _times(X, OfKind("Tanh", (OfKind("Softplus", (X,)),))), _always()),
    Idiom("HardSwish", _times(X, Bound("gate", OfKind("HardSigmoid", (X,)))), _of_hard_swish),
    Idiom(  # factors and shifts after the quotient stay nodes of their own
        "Standardize",
        OfKind(
            "Div",
            (
                Bound("center", OfKind("Sub", (X, _mean("mean", X)))),
                OfKind("Sqrt", (_sum(VARIANCE, Numeric(name="epsilon")),)),
            ),
        ),
        _of_layer_norm,
    ),
)


# --- slices --------------------------------------------------------------------------------------------------------------

LAST = 1 << 30  # ends of slices above it mean the end of the axis


def _focus(nodes: _Nodes, node: OnnxNode) -> OnnxNode | None:
    """A Concat on channels of b * b slices with the steps b, from every pixel of a block."""
    block = math.isqrt(len(node.inputs))
    if (
        nodes.kind(node.outputs[0]) != "Concat"
        or node.attributes.get("axis") != 1
        or block < 2
        or block * block != len(node.inputs)
    ):
        return None
    parts = [_strided(nodes, name, block) for name in node.inputs]
    sources = {None if part is None else part[0] for part in parts}
    starts = [part[1:] for part in parts if part is not None]
    rows = [(row, column) for row in range(block) for column in range(block)]
    if len(sources) != 1 or len(starts) != len(parts):
        return None
    (source,) = sources
    for order, expected in ((b"rows", rows), (b"columns", [(row, column) for column, row in rows])):
        if starts == expected and source is not None:
            return _replaced(node, "Focus", source, {"blocksize": block, "order": order})
    return None


def _strided(nodes: _Nodes, name: str, block: int) -> tuple[str, int, int] | None:
    """The source and the start (row, column) of one slice, or two, that take every block-th row and column to the end."""
    starts: dict[int, int] = {}
    while nodes.kind(name) == "Slice" and len(starts) < 2:
        operands = [nodes.constants.get(source) for source in nodes.sources[name].inputs[1:]]
        if len(operands) != 4:
            return None
        bounds = [_integers(stored) for stored in operands]
        if not all(bounds) or any(step != block for step in bounds[3]) or any(end < LAST for end in bounds[1]):
            return None
        for axis, start in zip(bounds[2], bounds[0], strict=False):
            if axis not in (2, 3) or axis in starts:
                return None
            starts[axis] = start
        name = nodes.sources[name].inputs[0]
    return (name, starts[2], starts[3]) if len(starts) == 2 else None
