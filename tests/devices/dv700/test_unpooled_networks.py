"""Networks with unpoolings compute the right results after all rewrites and fusions around the pooled maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

from cnn_convertor.errors import ConvertorError
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Shape, Window
from cnn_convertor.pipeline import build
from reference import ir_reference, program_reference, random_networks
from verification.trials import config


def check(graph: Graph, *, transposed: bool = True) -> None:
    """The program gives what a plain reading of the graph gives, in exact arithmetic."""
    program = build(graph, config(Path("graph.keras"), transpose_weight=transposed))
    inputs = random_networks.inputs_for(graph)
    values = ir_reference.run(graph, inputs)
    for name, got in zip(graph.outputs, program_reference.run(program, inputs), strict=True):
        expected = program_reference.as_output(values[name], graph[name].op, transposed=transposed)
        largest = max(1e-3, float(np.abs(expected).max()))
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * largest, err_msg=f"{name} of {graph}")


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
# A third of the networks has an unpooling.
@settings(max_examples=100, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(seed=st.integers(0, 1 << 32), transposed=st.booleans())
def test_random_networks_with_unpoolings(seed: int, transposed: bool) -> None:
    graph = random_networks.network(seed, 10, unpoolings=True)
    assume(any(isinstance(node.op, ops.MaxUnpool) for node in graph.nodes))
    try:
        check(graph, transposed=transposed)
    except ConvertorError:
        reject()


HALVES = Window(Pair(2, 2), Pair(2, 2))
CHANGES: dict[str, list[ops.Op]] = {
    "a convolution with an activation": [
        ops.Conv2d(random_networks.values(np.random.default_rng(0), 16, 8, 3, 3), None, Window(Pair(3, 3))),
        ops.Activation(ops.Relu()),
    ],
    "a scale that pools pass on": [ops.Scale(random_networks.values(np.random.default_rng(1), 8))],
    "padding that pools can do": [ops.Activation(ops.Relu()), ops.Pad(ops.Padding(1, 1, 1, 1))],
    "a pool": [ops.MaxPool2d(Window(Pair(3, 3)))],
    "some of the channels": [ops.Crop(Shape(0, 0, 3), Shape(8, 8, 7))],
    "what the CPU does": [ops.Unary(ops.Swish())],
    "nothing": [],
}


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("case", CHANGES)
def test_what_was_pooled_is_there_when_the_unpooling_needs_it(case: str, twice: bool) -> None:
    """twice: the map that was pooled is an output, too."""
    nodes = [Node("x", ops.Input(Shape(8, 8, 8)))]
    for index, op in enumerate(CHANGES[case]):
        nodes.append(Node(f"a{index}", op, (nodes[-1].name,)))
    pooled = nodes[-1].name
    nodes += [Node("p", ops.MaxPool2d(HALVES), (pooled,)), Node("r", ops.Activation(ops.Tanh()), ("p",))]
    nodes += [Node("u", ops.MaxUnpool(HALVES), ("r", pooled)), Node("y", ops.Activation(ops.Relu()), ("u",))]
    check(Graph(tuple(nodes), ("y", pooled) if twice and pooled != "x" else ("y",)))
