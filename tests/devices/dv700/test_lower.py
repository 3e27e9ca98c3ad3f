"""Programs compute what the network computed: run in a memory of their own, from the runs, offsets and kernels alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from cnn_convertor.devices.dv700.commands import Command
from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.memory.placement import can_be_copied
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.rules import check
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.devices.program import ElementType, LayerType
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.errors import Origin, UnsupportedError
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Op, Order, Pair, Shape, Window
from cnn_convertor.passes import optimize
from devices.dv700.legal import legalize
from reference import ir_reference, program_reference, random_networks

UB_SIZE = Limits().ub_size
RANDOM = np.random.default_rng(0)


def build(
    graph: Graph,
    *,
    transposed: bool = True,
    fusion: Fusion = Fusion.FULL,
    ub_size: int = UB_SIZE,
) -> Program:
    limits = Limits(ub_size=ub_size)
    device = DV700._replace(limits=limits)
    legal = legalize(optimize(graph), device, transposed=transposed, fusion=fusion)
    graph, steps = partition(legal, device, transposed=transposed, fusion=fusion)
    check(graph, steps, device, legal=legal)
    return lower(graph, steps, name="net", transposed=transposed)


def assert_computes(program: Program, graph: Graph) -> None:
    """The program's outputs are the graph's, in the order in which an application finds them."""
    x = random_networks.inputs_for(graph)
    custom = {"Twice": lambda *maps: 2 * maps[0], "Sum": lambda *maps: sum(maps)}
    values = ir_reference.run(graph, x, custom=custom)
    results = program_reference.run(program, x, custom)
    for name, result in zip(graph.outputs, results, strict=True):
        expected = program_reference.as_output(values[name], graph[name].op, transposed=program.transposed)
        np.testing.assert_allclose(
            result, expected, rtol=1e-4, atol=1e-4 * max(1e-3, np.abs(expected).max()), err_msg=name
        )


@pytest.mark.slow
@settings(max_examples=150)
@given(
    seed=st.integers(0, 1 << 32),
    steps=st.integers(1, 14),
    transposed=st.booleans(),
    fusion=st.sampled_from(Fusion),
    ub_size=st.sampled_from([4096, 16384, UB_SIZE]),
    make=st.sampled_from([random_networks.network, random_networks.network_of_blocks]),
)
def test_programs_compute_what_the_network_computes(
    seed: int,
    steps: int,
    transposed: bool,
    fusion: Fusion,
    ub_size: int,
    make: Callable[[int, int], Graph],
) -> None:
    graph = make(seed, steps)
    try:
        program = build(graph, transposed=transposed, fusion=fusion, ub_size=ub_size)
    except UnsupportedError:
        assume(False)
    assert_computes(program, graph)


def some(*shape: int) -> Constant:
    return Constant.of(RANDOM.normal(size=shape))


def conv(out: int, channels: int, kernel: int = 1) -> Op:
    return ops.Conv2d(some(out, channels, kernel, kernel), some(out), Window(Pair(kernel, kernel)))


def chain(*made: Op, shape: Shape = Shape(4, 6, 8), outputs: str = "") -> Graph:
    nodes = [Node("x", ops.Input(shape))]
    for op, name in zip(made, "abcdefgh", strict=False):
        nodes.append(Node(name, op, (nodes[-1].name,)))
    return Graph(tuple(nodes), tuple(outputs.split()) or (nodes[-1].name,))


X = Node("x", ops.Input(Shape(4, 6, 8)))
BOTH = pytest.mark.parametrize("transposed", [False, True])

NETWORKS: dict[str, Graph] = {
    "outputs in another order": chain(conv(8, 8), conv(3, 8), ops.Softmax(), outputs="c a b"),
    "one output twice": chain(conv(8, 8), outputs="a a"),
    "an output that is an input": chain(conv(8, 8), outputs="x a x"),
    "a chunked output": chain(conv(20, 8, 3)),
    "a chunked softmax": chain(conv(20, 8), ops.Softmax()),
    "a softmax in another shape": chain(conv(20, 8), ops.Softmax(), ops.Reshape(Shape(24, 1, 20), Order.HWC)),
    "softmax then reshape, beside other maps": Graph(
        (X, Node("a", conv(4, 8), ("x",)), Node("s", ops.Softmax(), ("a",)), Node("r", ops.Reshape(Shape(6, 4, 4), Order.HWC), ("s",)),
         Node("b", conv(8, 8), ("x",)), Node("c", conv(8, 8), ("b",))), ("c", "r")),
    "a custom layer": chain(conv(12, 8), ops.Custom("Twice", (), Shape(4, 6, 12))),
    "a slice of what a custom layer writes": chain(
        conv(16, 8), ops.Custom("Twice", (), Shape(4, 6, 16)), ops.Crop(Shape(0, 0, 8), Shape(4, 6, 16)), ops.Unary(ops.Absolute())),
    "a custom layer of a slice, and of a part that could share a command": Graph(
        (X, Node("a", conv(16, 8), ("x",)), Node("s", ops.Crop(Shape(0, 0, 8), Shape(4, 6, 16)), ("a",)),
         Node("b", conv(8, 8), ("x",)), Node("c", conv(8, 8), ("x",)), Node("cat", ops.Concat(), ("b", "c")),
         Node("m", ops.Custom("Sum", (), Shape(4, 6, 8)), ("s", "c"))), ("cat", "m", "a")),
    "a pool split behind a convolution with slopes": chain(conv(8, 8), ops.MaxPool2d(Window(Pair(4, 5))), ops.Activation(ops.PRelu(some(8)))),
    "vectors of any length, joined": Graph(
        (X, Node("a", ops.Dense(some(5, 8, 4, 6), None), ("x",)), Node("b", ops.Dense(some(3, 8, 4, 6), None), ("x",)),
         Node("c", ops.Concat(), ("a", "b", "a")), Node("d", conv(4, 13), ("c",))), ("d", "c")),
    "flattened maps, joined": Graph(
        (X, Node("a", conv(3, 8), ("x",)), Node("f", ops.Reshape(Shape(1, 1, 72), Order.HWC), ("a",)),
         Node("b", ops.Dense(some(3, 8, 4, 6), None), ("x",)), Node("c", ops.Concat(), ("b", "f"))), ("c",)),
    "an autoencoder": chain(ops.Dense(some(96, 8, 4, 6), some(96)), ops.Activation(ops.PRelu(some(96))),
                            ops.Reshape(Shape(2, 3, 16), Order.CHW), conv(8, 16)),
    "dense connections": Graph(
        (X, Node("a", conv(8, 8), ("x",)), Node("c0", ops.Concat(), ("x", "a")), Node("b", conv(8, 16), ("c0",)),
         Node("c1", ops.Concat(), ("c0", "b")), Node("d", conv(4, 24), ("c1",)), Node("c2", ops.Concat(), ("c1", "d", "x"))), ("d",)),
}  # fmt: skip


@BOTH
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, transposed: bool) -> None:
    graph = NETWORKS[name]
    assert_computes(build(graph, transposed=transposed), graph)


def test_layers_know_who_wrote_their_inputs() -> None:
    program = build(NETWORKS["vectors of any length, joined"])
    assert [layer.type for layer in program.layers] == [
        LayerType.CONV,
        LayerType.CONV,
        LayerType.CONV,
        LayerType.COPY_CONCAT,
        LayerType.CUSTOM,
    ]
    assert [layer.sources for layer in program.layers] == [(None,), (None,), (0,), (0, 1, 2), (3,)]


def test_outputs_are_marked_and_keep_the_order_of_the_definition() -> None:
    program = build(NETWORKS["outputs in another order"])
    assert [program.layers[index].name for index in program.outputs] == ["c", "a", "b"]
    assert [layer.is_output for layer in program.layers] == [True, True, True]
    assert [layer.output.type for layer in program.layers] == [ElementType.HALF, ElementType.HALF, ElementType.FLOAT]


def test_inputs_keep_their_names_and_are_at_the_first_layer() -> None:
    program = build(chain(conv(8, 8), conv(8, 8)))
    ((name, tensor),) = program.inputs
    assert (name, tensor.shape, tensor.type) == ("x", Shape(4, 6, 8), ElementType.HALF)
    assert program.layers[0].inputs[0].offset == tensor.offset


def test_the_application_writes_the_whole_input_where_a_layer_says_so() -> None:
    """A command that reads a slice of the input does not say where the input lies, and how large it is."""
    part = ops.Crop(Shape(0, 0, 8), Shape(4, 6, 16))
    graph = chain(part, conv(8, 8), shape=Shape(4, 6, 16))
    program = build(graph)
    assert [layer.type for layer in program.layers] == [LayerType.INPUT, LayerType.CONV]
    assert program.layers[0].output == program.inputs[0][1]
    assert_computes(program, graph)


FLATTEN = ops.Reshape(Shape(1, 1, 384), Order.HWC)
ORIGINS_OF_MAPS = [
    # the last layer works on the CPU: does it find its input in the device's order?
    (chain(conv(16, 8), FLATTEN), True),
    (chain(FLATTEN, shape=Shape(4, 6, 16)), True),  # the application fills it in that order
    (chain(conv(16, 8), FLATTEN, ops.Softmax()), False),  # the CPU has written it
    (
        Graph(
            (X, Node("a", conv(8, 8), ("x",)), Node("c", ops.Concat(), ("x", "a")), Node("f", FLATTEN, ("c",))), ("f",)
        ),
        True,
    ),
]


@pytest.mark.parametrize(("graph", "from_device"), ORIGINS_OF_MAPS)
def test_layers_on_the_cpu_know_the_order_of_their_input(graph: Graph, from_device: bool) -> None:
    last = build(graph).layers[-1]
    assert last.type in {LayerType.FLATTEN, LayerType.CUSTOM}
    assert last.from_device is from_device


def test_commands_know_whether_the_device_wrote_their_input() -> None:
    program = build(chain(conv(8, 8), conv(8, 8)), fusion=Fusion.NONE)
    assert [layer.from_device for layer in program.layers] == [False, True]


# --- what the runtime takes ----------------------------------------------------------------------------------------------


def test_a_network_without_weights_has_16_bytes_of_them() -> None:
    program = build(chain(ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2)))))
    assert program.weights == () and program.weight_bytes == 16
    assert sum(piece.size for piece in encode_all(program.weights, transposed=True)) == 16


def test_a_map_that_another_shape_was_written_of_is_not_copied() -> None:
    """LT_COPY_CONCAT takes the channels of a part from the layer that wrote it; that layer has written a vector."""
    dense = Node("d", ops.Dense(some(96, 8, 4, 6), None), ("x",))
    view = Node("v", ops.Reshape(Shape(2, 3, 16), Order.MEMORY), ("d",))
    graph = Graph((X, dense, view, Node("w", conv(8, 16), ("v",)), Node("c", ops.Concat(), ("v", "w"))), ("c",))
    step, same = (Command(LayerType.CONCAT, (), reads, "c") for reads in (("v", "w"), ("w", "w")))
    assert can_be_copied(graph, same) and not can_be_copied(graph, step)


@BOTH
@settings(max_examples=50)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, 14))
@example(seed=1062720, steps=2)  # joins vectors; one of them is a view of a map
@example(seed=87, steps=8)  # flattens a map of chunks whose parts are views of a flattened map
def test_layers_of_the_runtime_are_told_what_it_needs(transposed: bool, seed: int, steps: int) -> None:
    try:
        program = build(random_networks.network(seed, steps), transposed=transposed)
    except UnsupportedError:
        assume(False)
    assert program.layers[0].inputs or program.layers[0].type is LayerType.INPUT, (
        "the application asks it for the input"
    )
    for layer in program.layers:
        if layer.type is LayerType.FLATTEN:
            assert layer.from_device and not layer.inputs[0].shape.is_vector
        if layer.type is LayerType.FLATTEN or layer.lists_sources:
            assert all(tensor.type is ElementType.HALF for tensor in (*layer.inputs, layer.output))
        if layer.type is LayerType.COPY_CONCAT:
            for tensor, source in zip(layer.inputs, layer.sources, strict=True):
                assert source is not None
                written = program.layers[source].output
                # The runtime joins vectors byte by byte, and maps by the dimensions of their layers.
                same_bytes = (written.offset, written.nbytes) == (tensor.offset, tensor.nbytes)
                assert same_bytes if layer.output.shape.is_vector else written == tensor


@pytest.mark.parametrize(("shape", "is_reordered"), [(Shape(1, 1, 8), False), (Shape(4, 6, 8), True)])
def test_get_layer_input_reorders_maps_alone(shape: Shape, is_reordered: bool) -> None:
    program = build(chain(conv(8, 8), ops.Custom("Twice", (), shape), shape=shape))
    assert program.layers[-1].from_device is is_reordered


# --- the SDK's softmax ---------------------------------------------------------------------------------------------------


def build_with_sdk_softmax(graph: Graph, *, transposed: bool = True) -> Program:
    legal = legalize(optimize(graph), DV700, transposed=transposed, uses_sdk_softmax=True)
    partitioned, steps = partition(legal, DV700, transposed=transposed)
    check(partitioned, steps, DV700, legal=legal)
    return lower(partitioned, steps, name="net", transposed=transposed, original=graph)


@BOTH
@pytest.mark.parametrize(
    ("axis", "channels", "dims"),
    [
        (Axis.CHANNELS, 12, ((24, 12), 1)),
        (Axis.CHANNELS, 5, ((24, 5), 1)),
        (Axis.HEIGHT, 12, ((4, 6, 12), 0)),
        (Axis.WIDTH, 12, ((4, 6, 12), 1)),
        (Axis.HEIGHT, 1, ((4, 6, 1), 0)),
    ],
)
def test_the_softmax_of_the_sdk_works_on_a_row_major_array(
    axis: Axis, channels: int, dims: tuple[tuple[int, ...], int], transposed: bool
) -> None:
    graph = chain(conv(channels, 8), ops.Softmax(axis))
    program = build_with_sdk_softmax(graph, transposed=transposed)
    last = program.layers[-1]
    assert last.type is LayerType.SOFTMAX and last.softmax == ops.ArraySoftmax(*dims) and last.from_device
    assert last.output.type is ElementType.HALF and program.results[0][1].is_plain
    assert program.results[0] == ("b", last.output._replace(shape=Shape(4, 6, channels)))
    (result,) = program_reference.run(program, x := random_networks.inputs_for(graph))
    np.testing.assert_allclose(result, ir_reference.run(graph, x)["b"].reshape(-1), atol=1e-6)


@BOTH
def test_layers_read_what_the_softmax_of_the_sdk_wrote(transposed: bool) -> None:
    for graph in (
        chain(conv(12, 8), ops.Softmax(), conv(3, 12)),
        chain(conv(5, 8), ops.Softmax(), conv(3, 5)),
        chain(ops.Dense(some(7, 8, 4, 6), None), ops.Softmax(), ops.Dense(some(3, 7, 1, 1), None)),
    ):
        program = build_with_sdk_softmax(graph, transposed=transposed)
        assert LayerType.SOFTMAX in {layer.type for layer in program.layers}
        assert_computes(program, graph)


DENSE = ops.Dense(some(7, 8, 4, 6), None)
SHARED: dict[str, tuple[Graph, str]] = {
    "another layer": (Graph((X, Node("d", DENSE, ("x",)), Node("s", ops.Softmax(), ("d",)),
                             Node("r", ops.Activation(ops.Relu()), ("d",))), ("s", "r")), 'read by "r", too'),
    "a layer of the framework": (Graph((X, Node("d", DENSE, ("x",)), Node("s", ops.Softmax(), ("d",)),
                                        Node("r/inner", ops.Activation(ops.Relu()), ("d",), (Origin("net", "r"),))),
                                       ("s", "r/inner")), 'read by "r", too'),
    "the application": (chain(DENSE, ops.Softmax(), outputs="a b"), 'the output "a"'),
    "the next run": (chain(ops.Softmax(), shape=Shape(1, 1, 9)), 'the input "x"'),
    "a sum that stops growing": (chain(ops.Dense(some(2049, 8, 4, 6), None), ops.Softmax()), "stops growing at 2048"),
}  # fmt: skip


@pytest.mark.parametrize(("graph", "why"), SHARED.values(), ids=list(SHARED))
def test_the_softmax_of_the_sdk_is_refused_where_it_does_harm(graph: Graph, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why) as caught:
        build_with_sdk_softmax(graph)
    (problem,) = caught.value.problems
    assert problem.code == "DV425" and "softmax = cpu" in problem.hint
    build(graph)


def test_the_softmax_of_the_sdk_spares_the_parts_of_a_concatenation() -> None:
    nodes = [X, *(Node(name, ops.Dense(some(8, 8, 4, 6), None), ("x",)) for name in "ab")]
    nodes += [Node("c", ops.Concat(), ("a", "b")), Node("s", ops.Softmax(), ("c",))]
    build_with_sdk_softmax(Graph(tuple(nodes), ("s",)))
    with pytest.raises(UnsupportedError, match='the output "a"'):
        build_with_sdk_softmax(Graph(tuple(nodes), ("s", "a")))
