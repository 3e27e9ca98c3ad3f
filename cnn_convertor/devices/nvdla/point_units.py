"""The single-point processor (SDP) as slots for functions of each element, in the order in which it computes them.

X1 and X2 each add (or take the larger or smaller number), multiply, and cut off what is negative. Y multiplies, adds, and looks a function
up in a table. Whatever passes through is FP32.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import BinaryOp, ElementFunction


class PointAction(Enum):
    """What a slot does with a value."""

    ADD = "add"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    MULTIPLY = "multiply"
    SCALE_NEGATIVE = "multiply negative values"
    RELU = "relu"
    TABLE = "table"


class MapOperand(NamedTuple):
    """A map of the graph: one of its values for each element, or for each channel if it is a vector."""

    name: str
    is_vector: bool


Operand: TypeAlias = float | Constant | MapOperand  # a constant has a number for each channel


class PointFunction(NamedTuple):
    """A function of each element. function: of a table."""

    action: PointAction
    operand: Operand | None = None
    function: ElementFunction | ops.Elu | None = None


class UnitSetting(NamedTuple):
    """What one unit does: at most one function in each of its slots."""

    alu: PointFunction | None = None
    multiplier: PointFunction | None = None
    end: PointFunction | None = None  # relu of X1 and X2, table of Y

    @property
    def operands(self) -> tuple[Operand, ...]:
        """In the order in which memory holds them: the ALU's before the multiplier's."""
        return tuple(
            each.operand for each in (self.alu, self.multiplier) if each is not None and each.operand is not None
        )

    @property
    def is_used(self) -> bool:
        return any(self)


class PointUnits(NamedTuple):
    x1: UnitSetting = UnitSetting()
    x2: UnitSetting = UnitSetting()
    y: UnitSetting = UnitSetting()


_ALU: Final = {PointAction.ADD, PointAction.MAXIMUM, PointAction.MINIMUM}
_MULTIPLIER: Final = {PointAction.MULTIPLY, PointAction.SCALE_NEGATIVE}
_SLOTS: Final = (  # in the order of computing
    ("x1", "alu"),
    ("x1", "multiplier"),
    ("x1", "end"),
    ("x2", "alu"),
    ("x2", "multiplier"),
    ("x2", "end"),
    ("y", "multiplier"),
    ("y", "alu"),
    ("y", "end"),
)


def assigned(functions: Iterable[PointFunction]) -> PointUnits | None:
    """The units that compute functions in this order, each in the first slot that can; None if there are not enough."""
    units = PointUnits()
    place = 0
    for function in functions:
        while place < len(_SLOTS):
            name, slot = _SLOTS[place]
            place += 1
            setting = getattr(units, name)._replace(**{slot: function})
            if _fits(name, slot, function) and _reads_one_way(setting):
                units = units._replace(**{name: setting})
                break
        else:
            return None
    return units


def _fits(unit: str, slot: str, function: PointFunction) -> bool:
    match slot:
        case "alu":
            return function.action in _ALU
        case "multiplier":
            return function.action in _MULTIPLIER
        case _:
            return function.action is (PointAction.TABLE if unit == "y" else PointAction.RELU)


def _reads_one_way(setting: UnitSetting) -> bool:
    """Whether the unit's operands are two registers, two arrays that lie between each other, or one map.

    A unit that scales negative values has no other end: the firmware's descriptor names one.
    """
    is_prelu = setting.multiplier is not None and setting.multiplier.action is PointAction.SCALE_NEGATIVE
    if is_prelu and setting.end is not None:
        return False
    return len(setting.operands) < 2 or not any(isinstance(each, MapOperand) for each in setting.operands)


# --- of nodes --------------------------------------------------------------------------------------------------------------


def functions_of(graph: Graph, node: Node, flowing: str) -> tuple[PointFunction, ...] | None:
    """What a node does with each element of one of its inputs; of a convolution, with each sum. None if SDP cannot."""
    match node.op:
        case ops.Conv2d(bias=bias, activation=activation):
            first = () if bias is None else (PointFunction(PointAction.ADD, bias),)
            return _then(first, activation)
        case ops.Scale(factor=factor, shift=shift, activation=activation):
            first = (PointFunction(PointAction.MULTIPLY, factor),)
            return _then(first if shift is None else (*first, PointFunction(PointAction.ADD, shift)), activation)
        case ops.Activation(function=activation):
            return activation_functions(activation)
        case ops.Unary(function=function):
            return element_functions(function)
        case ops.Add(activation=activation):
            return _then((PointFunction(PointAction.ADD, _other(graph, node, flowing)),), activation)
        case ops.Binary(operation=operation):
            return _binary(graph, node, operation, flowing)
        case _:
            return None


def _then(first: tuple[PointFunction, ...], activation: ops.Function | None) -> tuple[PointFunction, ...] | None:
    if activation is None:
        return first
    return (*first, *activation_functions(activation))


def activation_functions(function: ops.Function) -> tuple[PointFunction, ...]:
    match function:
        case ops.Relu(slope=0.0):
            return (PointFunction(PointAction.RELU),)
        case ops.Relu(slope=slope):
            return (PointFunction(PointAction.SCALE_NEGATIVE, slope),)
        case ops.PRelu(slopes=slopes):
            return (PointFunction(PointAction.SCALE_NEGATIVE, slopes),)
        case ops.Relu6():
            return PointFunction(PointAction.RELU), PointFunction(PointAction.MINIMUM, 6.0)
        case _:
            return (PointFunction(PointAction.TABLE, function=function),)


def element_functions(function: ElementFunction) -> tuple[PointFunction, ...] | None:
    match function:
        case ops.Absolute():
            return (PointFunction(PointAction.SCALE_NEGATIVE, -1.0),)
        case ops.Clip(low=low, high=high):
            ends = ((PointAction.MAXIMUM, float(low)), (PointAction.MINIMUM, float(high)))
            return tuple(PointFunction(action, end) for action, end in ends if np.isfinite(end))
        case ops.HardSigmoid(slope=slope, shift=shift) if slope != 0:
            line = PointFunction(PointAction.ADD, shift / slope), PointFunction(PointAction.MULTIPLY, slope)
            return *line, PointFunction(PointAction.RELU), PointFunction(PointAction.MINIMUM, 1.0)
        case _:
            return (PointFunction(PointAction.TABLE, function=function),)


_ACTIONS: Final = {
    BinaryOp.ADD: PointAction.ADD,
    BinaryOp.MULTIPLY: PointAction.MULTIPLY,
    BinaryOp.MAXIMUM: PointAction.MAXIMUM,
    BinaryOp.MINIMUM: PointAction.MINIMUM,
}


def _binary(graph: Graph, node: Node, operation: BinaryOp, flowing: str) -> tuple[PointFunction, ...] | None:
    x, y = node.inputs
    other = _other(graph, node, flowing)
    if graph.shape(flowing) != graph.shape(node.name):
        return None
    if graph.shape(other.name) != graph.shape(node.name) and not other.is_vector:
        return None
    if operation in _ACTIONS:
        return (PointFunction(_ACTIONS[operation], other),)
    if operation is BinaryOp.SUBTRACT and flowing == y and x != y:
        return PointFunction(PointAction.MULTIPLY, -1.0), PointFunction(PointAction.ADD, other)
    return None


def _other(graph: Graph, node: Node, flowing: str) -> MapOperand:
    """The input of a node with two that does not flow; both may be the same map."""
    x, y = node.inputs
    name = y if flowing == x else x
    shape = graph.shape(name)
    return MapOperand(name, shape.is_vector and shape.channels == graph.shape(node.name).channels)
