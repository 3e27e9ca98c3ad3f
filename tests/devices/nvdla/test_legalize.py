"""Networks that are rewritten for NVDLA compute the same; every node that is left has an engine, or a function of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from cnn_convertor.devices.nvdla.chains import chains_of
from cnn_convertor.devices.nvdla.configurations import NV_FULL
from cnn_convertor.devices.nvdla.legalize import legalization
from cnn_convertor.devices.nvdla.rules import broken_rules
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Order, Padding, Pair, Shape, Window
from cnn_convertor.passes import PASSES
from cnn_convertor.passes.contract import run_passes
from reference import random_networks
from reference.ir_reference import EXAMPLES, conv, run, some
from reference.registry import deconv


def legal(graph: Graph) -> Graph:
    return run_passes((*PASSES, *legalization(NV_FULL)), graph, checks=True)


def assert_same(graph: Graph) -> Graph:
    """The legal graph, which gives what the graph gives."""
    rewritten = legal(graph)
    inputs = random_networks.inputs_for(graph)
    expected, results = run(graph, inputs), run(rewritten, inputs)
    for name, mine in zip(graph.outputs, rewritten.outputs, strict=True):
        np.testing.assert_allclose(results[mine], expected[name], rtol=1e-5, atol=1e-6)
    return rewritten


def network(*operators: ops.Op, shape: Shape) -> Graph:
    nodes = [Node("x", ops.Input(shape))]
    for number, op in enumerate(operators):
        nodes.append(Node(f"n{number}", op, (nodes[-1].name,), (Origin("net", f"n{number}"),)))
    return Graph(tuple(nodes), (nodes[-1].name,))


FRAMEWORK = (
    ops.PackedFactors,
    ops.ScaledBy,
    ops.PackedMatrices,
    ops.TimesPacked,
    ops.OnCpu,
    ops.ChannelSlice,
    ops.InPieces,
)
OPERATORS = [name for name, example in EXAMPLES.items() if not isinstance(example.op, FRAMEWORK)]


@pytest.mark.rotating
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_the_same(name: str) -> None:
    op, inputs = EXAMPLES[name]
    nodes = [Node(f"x{number}", ops.Input(shape)) for number, shape in enumerate(EXAMPLES[name].shapes)]
    node = Node("y", op, tuple(each.name for each in nodes), (Origin("net", "y"),))
    graph = Graph((*nodes, node), ("y",))
    rewritten = legal(graph)
    values = {}
    for number, given in enumerate(inputs):
        random = np.random.default_rng(number)
        values[f"x{number}"] = random.normal(size=given) if isinstance(given, Shape) else given
    expected = run(graph, values)["y"]
    np.testing.assert_allclose(run(rewritten, values)[rewritten.outputs[0]], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(60))
def test_a_random_network_is_the_same(seed: int) -> None:
    make = random_networks.network_of_blocks if seed % 2 else random_networks.network
    rewritten = assert_same(make(seed, 12))
    for fuses in (False, True):
        steps = chains_of(rewritten, NV_FULL, fuses=fuses)
        assert not broken_rules(rewritten, steps, NV_FULL, ())
        written = {step.writes for step in steps}
        assert len(written) == len(steps)


DECONVOLUTIONS = {
    "side by side": deconv(5, 4, 2, 2, stride=Pair(2, 2)),
    "overlapping": deconv(5, 4, 4, 4, stride=Pair(2, 2), padding=Padding(1, 1, 1, 1)),
    "apart": deconv(5, 4, 2, 3, stride=Pair(3, 4), more=Pair(1, 1)),
    "cut by a stride": deconv(16, 4, 4, 4, stride=Pair(2, 2), padding=Padding(2, 2, 2, 2)),
    "odd": deconv(3, 4, 5, 5, stride=Pair(2, 2), padding=Padding(2, 2, 2, 2), more=Pair(1, 1)),
    "of other strides": deconv(3, 4, 6, 3, stride=Pair(3, 1), padding=Padding(1, 2, 1, 1)),
}


@pytest.mark.parametrize("name", DECONVOLUTIONS)
def test_a_deconvolution_is_a_convolution_and_a_spreading(name: str) -> None:
    rewritten = assert_same(network(DECONVOLUTIONS[name], shape=Shape(5, 6, 4)))
    kinds = [type(node.op) for node in rewritten.nodes]
    assert ops.OnCpu not in kinds
    assert ops.TransposeReshape in kinds or name == "of other strides"


def test_upsampling_spreads_blocks_of_channels() -> None:
    rewritten = assert_same(network(ops.Upsample(Pair(2, 2)), shape=Shape(3, 4, 144)))
    spread = [node for node in rewritten.nodes if isinstance(node.op, ops.TransposeReshape)]
    assert [rewritten.shape(node.name).channels for node in spread] == [64, 64, 16]


def test_large_averages_are_chains_or_sums() -> None:
    chain = assert_same(network(ops.AveragePool2d(Window(Pair(14, 14))), shape=Shape(14, 14, 4)))
    assert [type(node.op) for node in chain.nodes[1:]] == [ops.AveragePool2d, ops.AveragePool2d]
    sums = assert_same(network(ops.AveragePool2d(Window(Pair(13, 13), Pair(5, 5))), shape=Shape(23, 23, 4)))
    assert [type(node.op) for node in sums.nodes[1:]] == [ops.Conv2d, ops.Scale]


def test_a_depthwise_convolution_has_its_function_in_every_block() -> None:
    depthwise = conv(256, 1, 3, 3, groups=256, padding=Padding(1, 1, 1, 1))
    rewritten = assert_same(network(depthwise, ops.Unary(ops.Swish()), shape=Shape(28, 28, 256)))
    steps = chains_of(rewritten, NV_FULL, fuses=True)
    convolutions = [step for step in steps if step.first is not None]
    assert len(convolutions) > 1
    assert all(len(step.nodes) == 2 for step in convolutions)


def test_channels_that_are_shuffled_stay_on_the_device() -> None:
    shuffle = ops.TransposeReshape((4, 5, 2, 8), (0, 1, 3, 2), Shape(4, 5, 16), ops.Order.HWC)
    rewritten = assert_same(network(shuffle, ops.Activation(ops.Relu()), shape=Shape(4, 5, 16)))
    assert not any(isinstance(node.op, ops.OnCpu) for node in rewritten.nodes)


def test_parts_that_do_not_begin_with_surfaces_are_added() -> None:
    nodes = [Node("x", ops.Input(Shape(4, 5, 8)))]
    for name, count in (("a", 5), ("b", 20), ("c", 3)):
        nodes.append(
            Node(name, ops.Conv2d(some(count, 8, 1, 1), None, Window(ops.ONE)), ("x",), (Origin("net", name),))
        )
    nodes.append(Node("y", ops.Concat(), ("a", "b", "c"), (Origin("net", "y"),)))
    rewritten = assert_same(Graph(tuple(nodes), ("y",)))
    assert sum(isinstance(node.op, ops.Add) for node in rewritten.nodes) == 2


def test_a_convolution_whose_kernels_are_too_large_is_a_sum() -> None:
    dense = ops.Dense(some(20, 512, 7, 7), some(20), ops.Relu())
    rewritten = assert_same(network(dense, shape=Shape(7, 7, 512)))
    steps = chains_of(rewritten, NV_FULL, fuses=True)
    assert not broken_rules(rewritten, steps, NV_FULL, ())
    assert [len(step.nodes) for step in steps] == [1, 2]


def test_an_output_that_shows_an_input_or_a_part_of_a_map_is_a_copy() -> None:
    nodes = (
        Node("x", ops.Input(Shape(4, 6, 16))),
        Node("same", ops.Identity(), ("x",)),
        Node("rows", ops.Reshape(Shape(24, 1, 16), Order.HWC), ("x",)),
        Node("conv", conv(48, 16, 1, 1), ("x",)),
        Node("part", ops.ChannelSlice(16, 32), ("conv",)),
    )
    rewritten = assert_same(Graph(nodes, ("same", "rows", "conv", "part")))
    written = {step.writes for step in chains_of(rewritten, NV_FULL, fuses=True)}
    assert written == set(rewritten.outputs)
