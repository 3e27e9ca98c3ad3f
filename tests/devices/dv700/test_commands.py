"""Which nodes share a command, who does their work, and what the command's run says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cnn_convertor.devices.dv700.commands import Command, buffer_owner
from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.runs import ConvolutionKind, Pooling, PoolingKind, Run
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import ONE, Op, Order, Padding, Pair, Shape, Window

X = Shape(8, 8, 8)
RANDOM = np.random.default_rng(0)


def some(*shape: int) -> Constant:
    return Constant.of(RANDOM.normal(size=shape))


def chain(*made: Op, outputs: str = "", shape: Shape = X) -> Graph:
    nodes = [Node("x", ops.Input(shape))]
    for op, name in zip(made, "abcdefgh", strict=False):
        nodes.append(Node(name, op, (nodes[-1].name,), (Origin("net", name),)))
    return Graph(tuple(nodes), tuple(outputs.split()) or (nodes[-1].name,))


def steps(graph: Graph, *, transposed: bool = True, fusion: Fusion = Fusion.NONE) -> tuple[Command, ...]:
    return partition(graph, DV700, transposed=transposed, fusion=fusion).steps


def run(graph: Graph) -> Run:
    """The run of the only command."""
    (step,) = steps(graph)
    (found,) = step.runs
    return found


def conv(function: ops.Function | None = None, kernel: int = 3, out: int = 8, **window: Any) -> ops.Conv2d:
    made = Window(Pair(kernel, kernel))._replace(**window)
    return ops.Conv2d(some(out, 8, kernel, kernel), some(out), made, activation=function)


POOL = ops.MaxPool2d(Window(Pair(2, 2)))
NEGATIVE = ops.PRelu(Constant.of([0.5] * 7 + [-0.1]))
POSITIVE = ops.PRelu(Constant.of([0.5] * 8))

JOINS: list[tuple[str, Op, ops.MaxPool2d, ops.Function | None]] = [
    ("bare", conv(), POOL, None),
    ("a pool with an activation", conv(), replace(POOL, activation=ops.Relu(-1.0)), ops.Relu(-1.0)),
    ("a convolution with one that keeps the order", conv(ops.Relu(0.1)), POOL, ops.Relu(0.1)),
    ("slopes that keep the order", conv(POSITIVE), POOL, POSITIVE),
    ("a bounded one", conv(ops.Tanh()), POOL, ops.Tanh()),
    ("a deconvolution", ops.ConvTranspose2d(some(8, 8, 3, 3), None, Window(Pair(3, 3))), POOL, None),
    ("depthwise", ops.Conv2d(some(8, 1, 3, 3), None, Window(Pair(3, 3)), 8), POOL, None),
]


@pytest.mark.parametrize(("first", "pool", "function"), [case[1:] for case in JOINS], ids=[case[0] for case in JOINS])
def test_a_max_pool_joins_the_convolution_before_it(
    first: Op, pool: ops.MaxPool2d, function: ops.Function | None
) -> None:
    graph = chain(first, pool)
    (step,) = steps(graph, fusion=Fusion.FULL)
    assert (step.reads, step.writes, [node.name for node in step.nodes]) == (("x",), "b", ["a", "b"])
    assert [origin.layer for origin in step.origins] == ["a", "b"]
    (found,) = step.runs
    assert found.convolution is not None
    assert found.convolution.output == graph.shape("a")
    assert (found.input, found.output) == (X, graph.shape("b"))
    assert found.pooling == Pooling(PoolingKind.MAX, Pair(2, 2), ONE, ops.NO_PADDING)
    assert found.activation == function


APART: list[tuple[str, Graph]] = [
    ("a slope below zero", chain(conv(ops.Relu(-0.1)), POOL)),
    ("a PReLU with a slope below zero", chain(conv(NEGATIVE), POOL)),
    ("two activations", chain(conv(ops.Relu()), replace(POOL, activation=ops.Relu()))),
    ("a dilation", chain(conv(dilation=Pair(2, 2), padding=Padding(2, 2, 2, 2)), POOL)),
    ("an output between", chain(conv(), POOL, outputs="b a")),
    ("a fully connected layer", chain(ops.Dense(some(8, 8, 8, 8), None), ops.MaxPool2d(Window(ONE)))),
    ("an average pool", chain(conv(), ops.AveragePool2d(Window(Pair(2, 2))))),
    ("an upsampling", chain(conv(), ops.Upsample(Pair(2, 2)))),
]


@pytest.mark.parametrize("graph", [case[1] for case in APART], ids=[case[0] for case in APART])
def test_what_stays_apart(graph: Graph) -> None:
    assert [step.writes for step in steps(graph)] == ["a", "b"]


def test_a_pool_with_a_neighbor_stays_apart() -> None:
    nodes = (Node("x", ops.Input(X)), Node("a", conv(), ("x",)), Node("b", POOL, ("a",)), Node("c", conv(), ("a",)))
    assert [step.writes for step in steps(Graph(nodes, ("b", "c")))] == ["a", "b", "c"]


# --- runs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "pooling"),
    [
        (ops.AveragePool2d(Window(Pair(2, 4), Pair(2, 1), padding=Padding(1, 0, 2, 3))),
         Pooling(PoolingKind.AVERAGE, Pair(2, 4), Pair(2, 1), Padding(1, 0, 2, 3), 1 / 8)),
        (ops.AveragePool2d(Window(ONE), factor=0.3), Pooling(PoolingKind.AVERAGE, ONE, ONE, ops.NO_PADDING, 0.3)),
        (ops.Upsample(Pair(2, 2)), Pooling(PoolingKind.UPSAMPLE, Pair(2, 2), Pair(2, 2), ops.NO_PADDING)),
    ],
)  # fmt: skip
def test_pools(op: Op, pooling: Pooling) -> None:
    found = run(chain(op))
    assert (found.pooling, found.convolution, found.activation) == (pooling, None, None)


def test_a_sum_is_an_average_pool_of_one_element() -> None:
    nodes = (Node("x", ops.Input(X)), Node("a", ops.Add(ops.Relu()), ("x", "x")))
    (step,) = steps(Graph(nodes, ("a",)))
    assert step.reads == ("x", "x")
    assert step.runs == (Run(X, X, None, Pooling(PoolingKind.AVERAGE, ONE, ONE, ops.NO_PADDING, 1.0), ops.Relu()),)


DECONVOLUTIONS = [
    # kernel, stride, padding, more -> padding of the command
    (Pair(3, 3), ONE, ops.NO_PADDING, ops.NO_MORE, Padding(2, 2, 2, 2)),
    (Pair(4, 4), Pair(2, 2), Padding(1, 1, 1, 1), ops.NO_MORE, Padding(2, 2, 2, 2)),
    (Pair(3, 5), Pair(2, 2), Padding(0, 1, 2, 3), Pair(1, 0), Padding(2, 2, 2, 1)),
    (Pair(2, 2), Pair(3, 3), ops.NO_PADDING, Pair(1, 2), Padding(1, 2, 1, 3)),
]


@pytest.mark.parametrize(("kernel", "stride", "padding", "more", "expected"), DECONVOLUTIONS)
def test_deconvolutions(kernel: Pair, stride: Pair, padding: Padding, more: Pair, expected: Padding) -> None:
    weight = some(8, 8, *kernel)
    graph = chain(ops.ConvTranspose2d(weight, None, Window(kernel, stride, padding=padding), more))
    made = run(graph).convolution
    assert made is not None
    assert (made.kind, made.stride, made.padding) == (ConvolutionKind.DECONVOLUTION, stride, expected)
    np.testing.assert_array_equal(made.weights.kernels.load(), weight.load()[:, :, ::-1, ::-1])
    # section 2: out = pl + (w - 1) * stride + 1 + pr - kx + 1
    assert graph.shape("a").width == expected.left + 7 * stride.width + 1 + expected.right - kernel.width + 1
    assert graph.shape("a").height == expected.top + 7 * stride.height + 1 + expected.bottom - kernel.height + 1


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        (conv(), ConvolutionKind.CONVOLUTION),
        (ops.Conv2d(some(8, 1, 3, 3), None, Window(Pair(3, 3)), 8), ConvolutionKind.DEPTHWISE),
        (
            ops.ConvTranspose2d(some(8, 1, 3, 3), None, Window(Pair(3, 3)), groups=8),
            ConvolutionKind.DEPTHWISE_DECONVOLUTION,
        ),
        (ops.Dense(some(10, 8, 8, 8), None), ConvolutionKind.CONVOLUTION),
    ],
)
def test_kinds(op: Op, kind: ConvolutionKind) -> None:
    made = run(chain(op)).convolution
    assert made is not None and made.kind is kind


def test_a_fully_connected_layer_reads_its_map_as_a_vector() -> None:
    found = run(chain(ops.Dense(some(10, 8, 8, 8), some(10), ops.Relu())))
    assert (found.input, found.output) == (Shape(1, 1, 512), Shape(1, 1, 10))
    assert found.convolution is not None
    assert found.convolution.weights.kernels.shape == (10, 512, 1, 1)
    assert found.activation == ops.Relu()


def test_slopes_travel_with_fp16_weights() -> None:
    found = run(chain(conv(POSITIVE)))
    assert found.convolution is not None
    assert found.convolution.weights.slopes is POSITIVE.slopes
    packed = found.convolution.weights.packed
    assert (packed.prelu, packed.palette) == (True, False)


def test_slopes_of_the_pool_travel_with_the_convolution() -> None:
    found = run(chain(conv(), replace(POOL, activation=NEGATIVE)))
    assert found.convolution is not None and found.convolution.weights.slopes is NEGATIVE.slopes


# --- who does the work ---------------------------------------------------------------------------------------------------

VECTOR = Shape(1, 1, 512)
TYPES: list[tuple[Graph, list[LayerType]]] = [
    (chain(conv(), ops.OnCpu(ops.Softmax())), [LayerType.CONV, LayerType.CUSTOM]),
    (chain(ops.Reshape(VECTOR, Order.HWC)), [LayerType.FLATTEN]),
    (chain(conv(kernel=1), ops.Reshape(VECTOR, Order.MEMORY)), [LayerType.CONV]),
    (chain(ops.Custom("Mine", (), X)), [LayerType.CUSTOM]),
    (chain(ops.Concat()), [LayerType.INPUT, LayerType.CONCAT]),
    (
        chain(conv(out=5), ops.Concat()),
        [LayerType.CONV, LayerType.CONCAT],
    ),  # the last part may have any number of channels
]


@pytest.mark.parametrize(("graph", "types"), TYPES)
def test_who_does_the_work(graph: Graph, types: list[LayerType]) -> None:
    assert [step.type for step in steps(graph)] == types


@pytest.mark.parametrize(("channels", "type"), [((8, 16, 3), LayerType.CONCAT), ((8, 3, 8), LayerType.COPY_CONCAT)])
def test_concatenations_on_whole_chunks_are_in_place(channels: tuple[int, ...], type: LayerType) -> None:
    inputs = [Node(f"x{i}", ops.Input(Shape(2, 2, c))) for i, c in enumerate(channels)]
    graph = Graph((*inputs, Node("a", ops.Concat(), ("x0", "x1", "x2"))), ("a",))
    *announced, last = steps(graph)
    assert [step.type for step in announced] == [LayerType.INPUT] * 3
    assert (last.type, last.reads) == (type, ("x0", "x1", "x2"))


def test_a_single_input_needs_no_layer() -> None:
    assert [step.type for step in steps(chain(conv()))] == [LayerType.CONV]


def test_an_input_that_is_part_of_a_concatenation_through_a_view_is_a_layer() -> None:
    graph = chain(ops.Reshape(Shape(4, 16, 8), Order.MEMORY), ops.Concat())
    assert [step.type for step in steps(graph)] == [LayerType.INPUT, LayerType.CONCAT]


def test_source_looks_through_views() -> None:
    graph = chain(conv(), ops.Reshape(Shape(1, 36, 8), Order.MEMORY), ops.Reshape(Shape(36, 1, 8), Order.MEMORY))
    assert buffer_owner(graph, "c") is graph["a"]
    assert buffer_owner(graph, "a") is graph["a"]


def test_what_legalize_should_have_rewritten_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="Pad should have been rewritten"):
        steps(chain(ops.Pad(Padding(1, 1, 1, 1))))


def test_a_pool_with_slopes_and_no_convolution_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="slopes travel with kernels"):
        steps(chain(replace(POOL, activation=POSITIVE)))
