"""Errors are measured relative to the signal, and the first layer that goes wrong is found."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.program import ElementType, LayerType, Tensor
from cnn_convertor.emulation.feature_maps import Maps, to_memory
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Order, Pair, Shape, Window
from cnn_convertor.layouts.dv700 import feature_map
from cnn_convertor.layouts.notation import parse
from cnn_convertor.pipeline import build
from cnn_convertor.verification.compare import before_softmax, compare, sqnr
from cnn_convertor.verification.framework_maps import Reference
from cnn_convertor.verification.inner_maps import first_jump, held_layers, pair_of, pairs
from cnn_convertor.verification.results import Comparison
from report.networks import verification
from verification.trials import config


def maps(*values: float) -> Maps:
    return np.array(values, np.float32).reshape(1, 1, 1, -1)


def test_the_measures_of_one_map() -> None:
    result = compare("x", maps(3, 4, 0, -1), maps(3, 4, 0, 0))
    assert result.cosine == pytest.approx(5 / math.sqrt(26))
    assert replace(result, cosine=0.0) == Comparison("x", 4, 1.0, 0.25, 10 * math.log10(25), 0.0, 1.0, 4.0)


@pytest.mark.parametrize(
    ("device", "reference", "expected"),
    [
        ((1, 2), (1, 2), math.inf),
        ((0, 0), (0, 0), math.inf),
        ((0, 1), (0, 0), -math.inf),
        ((math.nan, 1), (1, 1), -math.inf),
        ((math.inf, 1), (math.inf, 1), -math.inf),
        ((0.9, 0), (1, 0), 20.0),
        ((0, 0), (5, 5), 0.0),
    ],
)
def test_signal_to_noise(device: tuple[float, ...], reference: tuple[float, ...], expected: float) -> None:
    assert sqnr(maps(*device), maps(*reference)) == pytest.approx(expected, abs=1e-5)


def test_what_is_not_finite_on_both_sides_is_a_doubt_and_no_error() -> None:
    result = compare("x", maps(math.nan, math.inf, 2), maps(math.nan, math.inf, 2))
    assert result.sqnr == math.inf and result.largest == 2 and result.doubt
    for other in (maps(1, math.inf, 2), maps(math.nan, -math.inf, 2)):
        assert compare("x", other, maps(math.nan, math.inf, 2)).sqnr == -math.inf


def test_values_that_are_no_numbers_never_look_good() -> None:
    result = compare("x", maps(math.nan, 1), maps(0, 1))
    assert (result.max_error, result.sqnr, result.cosine) == (math.inf, -math.inf, 0.0)


def test_only_vectors_have_a_best_class() -> None:
    map_ = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    assert compare("x", map_, map_).agreement is None
    assert compare("x", maps(1), maps(1)).agreement is None
    both = np.concatenate([maps(1, 2, 3), maps(3, 2, 1)])
    assert compare("x", both, np.concatenate([maps(1, 2, 3), maps(1, 2, 3)])).agreement == 0.5


# --- before a softmax ------------------------------------------------------------------------------------------------------


def softmax(logits: Maps) -> Maps:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    result: Maps = (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)
    return result


def test_a_saturated_softmax_hides_errors_that_its_logits_show() -> None:
    logits, wrong = maps(40, 3, 0, -2), maps(40, 9, 0, -2)
    assert compare("x", softmax(wrong), softmax(logits)).sqnr > 100
    result = before_softmax("x", wrong, softmax(logits))
    assert result is not None and result.sqnr < 25
    right = before_softmax("x", logits + 7, softmax(logits))
    assert right is not None and right.sqnr > 100, "a constant does not matter to a softmax"


def test_probabilities_that_are_zero_say_nothing() -> None:
    assert before_softmax("x", maps(900, 0, -900), softmax(maps(900, 0, -900))) is None
    some = before_softmax("x", maps(5, 0, -900), softmax(maps(5, 0, -400)))
    assert some is not None and some.sqnr > 100


# --- which map is which ----------------------------------------------------------------------------------------------------


def origin(name: str) -> tuple[Origin, ...]:
    return (Origin("net", name, "Type"),)


def program_of(graph: Graph, folder: Path, **fields: Any) -> Program:
    return build(graph, config(Path("graph.keras"), **fields))


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("order", [Order.CHW, Order.HWC])
def test_a_vector_that_is_read_as_a_map_is_put_into_the_frameworks_order(
    order: Order, transposed: bool, tmp_path: Path
) -> None:
    shape = Shape(2, 3, 10)
    graph = Graph(
        (
            Node("in", ops.Input(Shape(1, 1, 4)), (), origin("in")),
            Node("dense", ops.Dense(Constant.of(np.ones((60, 4, 1, 1))), None), ("in",), origin("dense")),
            Node("map", ops.Reshape(shape, order), ("dense",), origin("reshape")),
            Node(
                "conv",
                ops.Conv2d(Constant.of(np.ones((8, 10, 1, 1))), None, Window(Pair(1, 1))),
                ("map",),
                origin("conv"),
            ),
        ),
        ("conv",),
    )
    program = program_of(graph, tmp_path, transpose_weight=transposed)
    vector = np.arange(60, dtype=np.float32).reshape(1, 1, 1, 60)  # as the framework has it
    axes = (10, 2, 3) if order is Order.CHW else (2, 3, 10)
    as_map = vector.reshape(1, *axes)
    as_map = as_map.transpose(0, 2, 3, 1) if order is Order.CHW else as_map
    memory = to_memory(np.ascontiguousarray(as_map), feature_map(transposed=transposed))
    layers = [
        memory if layer.name == "dense" else np.zeros((1, layer.output.shape.size), np.float32)
        for layer in program.layers
    ]
    found = pairs(program, layers, Reference("", {}, {"dense": vector}, order))
    assert np.array_equal(found["dense"].device, found["dense"].reference)


@pytest.mark.parametrize("counted", list(Order))
def test_a_vector_in_atoms_is_compared_with_a_map_that_needs_more_memory(counted: Order) -> None:
    """counted: how the vector has the elements of the framework's map."""
    atoms = parse("hwc: c/16 h w c%16")
    vector = Tensor(Shape(1, 1, 60), ElementType.HALF, 0, atoms)
    assert (vector.elements, vector._replace(shape=Shape(2, 3, 10)).elements) == (64, 96)
    program: Any = SimpleNamespace(layers=[SimpleNamespace(type=LayerType.CUSTOM, output=vector, origins=())])
    known = np.random.default_rng(0).normal(size=(2, 2, 3, 10)).astype(np.float32)
    elements = known.transpose(0, 3, 1, 2) if counted is Order.CHW else known
    memory = to_memory(elements.reshape(2, 1, 1, 60), atoms)
    found = pair_of(program, 0, memory, known, Order.CHW)
    assert found is not None
    assert np.array_equal(found.device, found.reference)
    assert np.array_equal(found.reference_in_memory(), memory)


def test_a_layer_that_holds_half_of_a_frameworks_layer_is_not_compared() -> None:
    def layer(*names: str, type: LayerType = LayerType.CONV) -> Any:
        return SimpleNamespace(name="", origins=tuple(Origin("net", name) for name in names), type=type)

    program: Any = SimpleNamespace(
        layers=[
            layer("image", type=LayerType.INPUT),
            layer("separable"),  # depthwise
            layer("separable", "norm"),  # pointwise, and more
            layer("concat"),  # a copy of a part
            layer("concat"),
            layer(),
        ]
    )
    assert held_layers(program) == {2: "norm", 4: "concat"}


# --- where it goes wrong ---------------------------------------------------------------------------------------------------


def comparison(name: str, ratio: float) -> Comparison:
    return Comparison(name, 1, 0.0, 0.0, ratio, 1.0, None, 1.0)


@pytest.mark.parametrize(
    ("ratios", "palette", "expected"),
    [
        ([70, 65, 60, 55, 50], False, None),  # errors add up: no jump
        ([70, 65, 12, 14, 11], False, "2"),
        ([70, None, 12, 14, 11], False, "2"),
        ([44, 60, 60, 60, 60], False, "0"),
        ([math.inf, 46, 46, 46, -math.inf], False, "4"),
        ([30, 29, 28, 27, 26], True, None),
        ([30, 29, 10, 10, 10], True, "2"),
    ],
)
def test_the_first_layer_that_is_much_worse_than_what_it_reads(
    ratios: list[float | None], palette: bool, expected: str | None
) -> None:
    program: Any = SimpleNamespace(
        layers=[SimpleNamespace(sources=(i - 1 if i else None,), runs=()) for i in range(len(ratios))]
    )
    compared = {i: comparison(str(i), ratio) for i, ratio in enumerate(ratios) if ratio is not None}
    assert first_jump(program, compared, palette=palette) == expected


def test_a_branch_counts_from_its_own_source() -> None:
    sources = [(None,), (0,), (0,), (1, 2)]
    program: Any = SimpleNamespace(layers=[SimpleNamespace(sources=s, runs=()) for s in sources])
    compared = {i: comparison(str(i), ratio) for i, ratio in enumerate([70.0, 50.0, 20.0, 19.0])}
    assert first_jump(program, compared, palette=False) == "2"


@pytest.mark.parametrize(("runs", "expected"), [(1, "1"), (9, "1"), (10, None)])
def test_a_command_of_several_runs_may_lose_more(runs: int, expected: str | None) -> None:
    """10 runs with equal errors have 10 dB more of them."""
    layers = [SimpleNamespace(sources=(None,), runs=()), SimpleNamespace(sources=(0,), runs=(None,) * runs)]
    program: Any = SimpleNamespace(layers=layers)
    assert first_jump(program, {0: comparison("0", 60), 1: comparison("1", 35)}, palette=False) == expected


# --- report ----------------------------------------------------------------------------------------------------------------


def test_the_report_as_json() -> None:
    result = replace(verification(), outputs=(comparison("a", math.inf), comparison("b", 19.99999999999)))
    assert not result.passed
    values = json.loads(result.to_json())
    assert values["passed"] is False
    assert [output["sqnr"] for output in values["outputs"]] == ["Infinity", 20.0]
    assert values["layers"][0]["causes"] == [{"cause": "palette", "sqnr": 40.25}]
    assert result.to_json() == result.to_json()
