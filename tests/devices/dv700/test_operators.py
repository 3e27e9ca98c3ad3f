"""The table of operators answers for each of them, and says what the rest of the convertor does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from cnn_convertor.codegen import kernels
from cnn_convertor.codegen.kernels import bundle
from cnn_convertor.devices.cpu_functions import FUNCTIONS, kernel_call
from cnn_convertor.devices.dv700.commands import layer_type
from cnn_convertor.devices.dv700.legalize.assign_cpu import on_cpu
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.operators import OPERATORS, Executor
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.words import WORDS, describe, words_of
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Shape
from ir.test_ops import WITHOUT_REFERENCE
from reference.ir_reference import SCALARS, examples_of

WITH_KERNEL = [*FUNCTIONS]


def example(kind: type) -> tuple[Op, tuple[Shape, ...]]:
    """An instance, and the shapes that it takes."""
    if kind in WITHOUT_REFERENCE:
        op, shapes, _ = WITHOUT_REFERENCE[kind]
        return op, shapes
    _, found = next(examples_of(kind))
    return found.op, found.shapes


def graph_of(op: Op, inputs: Sequence[Shape]) -> Graph:
    nodes = [Node(f"x{i}", ops.Input(shape)) for i, shape in enumerate(inputs)]
    return Graph((*nodes, Node("op", op, tuple(node.name for node in nodes))), ("op",))


def test_every_operator_is_in_the_table() -> None:
    assert set(OPERATORS) == set(WORDS) == set(get_args(Op))


def test_every_executor_has_a_meaning() -> None:
    assert all(executor.meaning for executor in Executor)


@pytest.mark.parametrize("kind", OPERATORS, ids=words_of)
def test_an_operator_runs_where_the_table_says(kind: type) -> None:
    """The CPU takes what has no layer of its own; other operators without a layer are rewritten before."""
    op, inputs = example(kind)
    graph, entry = graph_of(op, inputs), OPERATORS[kind]
    if entry.executor is Executor.CPU and entry.layer is None:
        (left,) = on_cpu(graph, graph["op"], Limits()) or ()
        assert left.op == ops.OnCpu(op) and kind in FUNCTIONS
    elif entry.layer is None:
        with pytest.raises(AssertionError, match="should have been rewritten"):
            layer_type(graph, graph["op"])
    else:
        expected = LayerType.COPY_CONCAT if kind is ops.Concat else entry.layer  # 4 channels, then 3
        assert layer_type(graph, graph["op"]) is expected


@pytest.mark.parametrize("kind", WITH_KERNEL, ids=words_of)
def test_every_kernel_has_a_header(kind: type) -> None:
    """Each example of a kernel runs in tests/verification/test_cpu_layers.py."""
    function = kernel_call(example(kind)[0]).function
    assert any(f"void {function}(" in body for body in bundle([function]).bodies)


def test_every_scalar_function_has_its_c_plus_plus_and_a_reference() -> None:
    header = (Path(kernels.__file__).parent / "unary.h").read_text("utf-8")
    for function in get_args(ops.ElementFunction):
        assert f"struct {function.__name__} {{" in header, f"unary.h needs a struct {function.__name__}"
        assert function in SCALARS, f"SCALARS in tests/reference/cpu_reference.py needs a row of {function.__name__}"
        assert SCALARS[function].examples
        timed = f"// Timed {function.__name__}: "
        assert not fields(function) or timed in header, f"unary.h needs a line {timed}..., with parameters"


def test_what_operators_are_called() -> None:
    assert describe(ops.OnCpu(ops.Unary(ops.HardSwish()))) == "hard swish"
    assert describe(ops.Binary(ops.BinaryOp.MULTIPLY)) == ops.BinaryOp.MULTIPLY.value
    assert describe(ops.MaxPool2d(ops.Window(ops.Pair(2, 3)))) == "max pool 2x3"
    assert describe(ops.Upsample(ops.Pair(2, 2))) == "upsampling by 2x2"
