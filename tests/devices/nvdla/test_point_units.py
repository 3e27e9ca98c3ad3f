"""Functions of elements take the first slots of SDP that can compute them in their order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from cnn_convertor.devices.nvdla.engine_descriptors import CHANNEL, ELEMENT, NUMBER, mode_of, sdp_operation
from cnn_convertor.devices.nvdla.point_units import MapOperand, PointAction, PointFunction, PointUnits, assigned
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant

EACH = Constant.of(np.ones(4))
MAP, VECTOR = MapOperand("m", is_vector=False), MapOperand("v", is_vector=True)


def f(action: str, operand: Any = None) -> PointFunction:
    function = ops.Sigmoid() if action == "table" else None
    return PointFunction(PointAction(action), operand, function)


def slots(units: PointUnits | None) -> list[str]:
    assert units is not None
    used = []
    for name, setting in units._asdict().items():
        for slot, function in setting._asdict().items():
            if function is not None:
                used.append(f"{name}.{slot} {function.action.value}")
    return used


CASES: dict[str, tuple[list[PointFunction], list[str]]] = {
    "a bias and a relu": ([f("add", EACH), f("relu")], ["x1.alu add", "x1.end relu"]),
    "a sum behind a bias": ([f("add", EACH), f("add", MAP), f("relu")], ["x1.alu add", "x2.alu add", "x2.end relu"]),
    "a factor, then an addend": ([f("multiply", EACH), f("add", EACH)], ["x1.multiplier multiply", "x2.alu add"]),
    "a relu6": ([f("add", EACH), f("relu"), f("minimum", 6.0)], ["x1.alu add", "x1.end relu", "x2.alu minimum"]),
    "a map beside constants": (
        [f("add", EACH), f("multiply", MAP)],
        ["x1.alu add", "x2.multiplier multiply"],
    ),
    "a table at the end": ([f("add", EACH), f("table")], ["x1.alu add", "y.end table"]),
    "a table of slopes' results": (
        [f("add", EACH), f("multiply negative values", 0.5), f("table")],
        ["x1.alu add", "x1.multiplier multiply negative values", "y.end table"],
    ),
    "a hard swish": (
        [f("add", 3.0), f("multiply", 1 / 6), f("relu"), f("minimum", 1.0), f("multiply", MAP)],
        ["x1.alu add", "x1.multiplier multiply", "x1.end relu", "x2.alu minimum", "y.multiplier multiply"],
    ),
    "no relu in a unit of slopes": (
        [f("multiply negative values", 0.5), f("relu")],
        ["x1.multiplier multiply negative values", "x2.end relu"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_functions_have_slots(name: str) -> None:
    functions, expected = CASES[name]
    units = assigned(functions)
    assert slots(units) == expected
    assert units is not None
    sdp_operation(units)  # the descriptor can say so


@pytest.mark.parametrize(
    "functions",
    [
        [f("table"), f("relu")],
        [f("add", MAP)] * 4,
        [f("relu"), f("relu"), f("relu")],
        [f("multiply", EACH)] * 4,
    ],
)
def test_what_does_not_fit_is_not_assigned(functions: list[PointFunction]) -> None:
    assert assigned(functions) is None


ORDER = ["x1.alu", "x1.multiplier", "x1.end", "x2.alu", "x2.multiplier", "x2.end", "y.multiplier", "y.alu", "y.end"]
KINDS = {
    "add": "alu",
    "relu": "end",
    "table": "end",
    "multiply": "multiplier",
    "multiply negative values": "multiplier",
}


def is_possible(functions: tuple[PointFunction, ...]) -> bool:
    """Whether any choice of slots in their order can have them, by the rules of the hardware."""
    for chosen in itertools.combinations(ORDER, len(functions)):
        units: dict[str, list[PointFunction]] = {"x1": [], "x2": [], "y": []}
        fits = True
        for place, function in zip(chosen, functions, strict=True):
            unit, slot = place.split(".")
            units[unit].append(function)
            wanted = KINDS[function.action.value]
            fits &= slot == wanted and (slot != "end" or (unit == "y") == (function.action is PointAction.TABLE))
        for of_unit in units.values():
            operands = [function.operand for function in of_unit if function.operand is not None]
            fits &= len(operands) < 2 or MAP not in operands
            slopes = any(function.action is PointAction.SCALE_NEGATIVE for function in of_unit)
            fits &= not (slopes and of_unit[-1].operand is None)  # the descriptor has one word for slopes and an end
        if fits:
            return True
    return False


def test_functions_are_assigned_wherever_any_choice_of_slots_has_them() -> None:
    kinds = [f("add", EACH), f("multiply", MAP), f("relu"), f("table"), f("multiply negative values", EACH)]
    possible = 0
    for length in (1, 2, 3):
        for functions in itertools.product(kinds, repeat=length):
            assert (assigned(functions) is not None) == is_possible(functions), functions
            possible += is_possible(functions)
    assert possible > 50


def test_operands_are_numbers_arrays_or_maps() -> None:
    def mode(*functions: PointFunction) -> int:
        units = assigned(functions)
        assert units is not None
        return mode_of(units.x1)

    assert mode(f("add", 3.0), f("multiply", 0.5)) == NUMBER
    assert mode(f("add", 3.0), f("multiply", 1 / 6)) == CHANNEL  # a register would round it
    assert mode(f("add", 3.0), f("multiply", EACH)) == CHANNEL
    assert mode(f("add", VECTOR)) == CHANNEL
    assert mode(f("add", MAP)) == ELEMENT
