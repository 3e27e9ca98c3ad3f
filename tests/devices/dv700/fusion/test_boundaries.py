"""Why neighbors do not share a command."""

from __future__ import annotations

import numpy as np
import pytest

from cnn_convertor.devices.dv700.fusion.boundaries import boundaries
from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Order, Padding, Pair, Shape, Window
from cnn_convertor.passes import optimize
from devices.dv700.legal import legalize
from reference import random_networks


def conv(out: int = 8, channels: int = 8, kernel: int = 1, dilation: int = 1) -> ops.Conv2d:
    pad = Padding(*[dilation * (kernel // 2)] * 4)
    window = Window(Pair(kernel, kernel), dilation=Pair(dilation, dilation), padding=pad)
    return ops.Conv2d(Constant.of(np.ones((out, channels, kernel, kernel))), None, window)


def graph(outputs: str, *rows: tuple[str, Op, str], shape: Shape = Shape(8, 8, 8)) -> Graph:
    nodes = [Node(name, op, tuple(reads.split())) for name, op, reads in rows]
    return Graph((Node("x", ops.Input(shape)), *nodes), tuple(outputs.split()))


def reasons(network: Graph, fusion: Fusion = Fusion.FULL, limits: Limits | None = None) -> list[tuple[str, str, str]]:
    limits = limits or Limits()
    device = DV700._replace(limits=limits)
    made = partition(network, device, transposed=True, fusion=fusion)
    return [(row.before, row.after, row.reason) for row in boundaries(made, fusion, device)]


POOL = ops.AveragePool2d(Window(Pair(3, 3), padding=Padding(1, 1, 1, 1)), factor=0.125)
TWO = graph("b", ("a", conv(), "x"), ("b", conv(), "a"))
SUM = graph("sum", ("a", conv(), "x"), ("b", conv(), "x"), ("c", conv(), "b"), ("sum", ops.Add(), "a c"))
CASES: dict[str, tuple[Graph, Fusion, list[tuple[str, str, str]]]] = {
    "nothing to say": (TWO, Fusion.FULL, []),
    "a chain, proven": (
        TWO, Fusion.DOCUMENTED, [("a", "b", "fusion = documented excludes a chain of runs outside branches")],
    ),
    "a deconvolution": (
        graph("b", ("a", conv(), "x"), ("b", ops.ConvTranspose2d(conv().weight, None, Window(Pair(1, 1))), "a")), Fusion.FULL,
        [("a", "b", "a deconvolution is the only run of its command")],
    ),
    "an output": (
        graph("a b", ("a", conv(), "x"), ("b", conv(), "a")), Fusion.FULL, [("a", "b", "its map is an output of the network")],
    ),
    "several readers": (
        graph("b c", ("a", conv(), "x"), ("b", conv(), "a"), ("c", conv(), "a")), Fusion.FULL,
        [("a", "b", 'its map is read 2 times, by "b" and "c"'), ("a", "c", 'its map is read 2 times, by "b" and "c"')],
    ),
    "a view": (
        graph("b", ("a", conv(), "x"), ("v", ops.Reshape(Shape(4, 16, 8), Order.MEMORY), "a"), ("b", conv(), "v")), Fusion.FULL,
        [("a", "b", "the map is read in another shape, or in part")],
    ),
    "a fully connected layer": (
        graph("b", ("a", conv(), "x"), ("b", ops.Dense(Constant.of(np.ones((3, 8, 8, 8))), None), "a")), Fusion.FULL,
        [("a", "b", "a fully connected layer reads the map in the order of external memory")],
    ),
    "a dilation": (
        graph("b", ("a", conv(), "x"), ("b", conv(kernel=3, dilation=2), "a")), Fusion.FULL,
        [("a", "b", "a dilated convolution is the only run of its command")],
    ),
    "slices of channels": (
        graph("d", ("a", conv(), "x"), ("b", conv(40), "a"), ("c", POOL, "b"), ("d", conv(8, 40), "c"), shape=Shape(100, 100, 8)),
        Fusion.FULL,
        [
            ("a", "b/channels0", "its map is read for each of 3 slices of channels"),
            ("c", "d", "its map is computed in slices of channels"),
        ],
    ),
    "the unified buffer": (
        graph("b", ("a", conv(), "x"), ("b", conv(kernel=3), "a"), shape=Shape(200, 400, 8)), Fusion.FULL,
        [("a", "b", "together they need 2,560,512 bytes of the unified buffer's 655,360")],
    ),
    "a sum that another convolution carries": (
        SUM, Fusion.FULL, [("c", "sum", 'it shares a command with "a" already')],
    ),
    "a sum, proven": (
        SUM, Fusion.DOCUMENTED,
        [
            ("b", "c", "fusion = documented excludes a chain of runs outside branches"),
            ("c", "sum", 'it shares a command with "a" already'),
        ],
    ),
    "a sum, without fusion": (
        SUM, Fusion.NONE,
        [
            ("b", "c", "fusion = none excludes a chain of runs outside branches"),
            ("a", "sum", "fusion = none excludes an addition behind a convolution, in one tile"),
            ("c", "sum", "fusion = none excludes an addition behind a convolution, in one tile"),
        ],
    ),
    "behind a sum": (
        graph("b", ("a", conv(), "x"), ("sum", ops.Add(), "a x"), ("b", conv(), "sum")), Fusion.FULL,
        [("sum", "b", "an addition is the only run of its command")],
    ),
    "parts that start from different maps": (
        graph("cat", ("a", conv(), "x"), ("b", conv(), "a"), ("c", conv(), "a"), ("cat", ops.Concat(), "b a c")), Fusion.FULL,
        [
            ("a", "b", 'its map is read 3 times, by "b", "c" and "cat"'),
            ("a", "c", 'its map is read 3 times, by "b", "c" and "cat"'),
            ("b", "a", 'as parts of one concatenation they start from different maps, of "a" and "x"'),
            ("a", "c", 'as parts of one concatenation they start from different maps, of "x" and "a"'),
        ],
    ),
    "a map with many readers": (
        graph(" ".join(f"r{i}" for i in range(9)), ("a", conv(), "x"), *((f"r{i}", conv(), "a") for i in range(9))), Fusion.FULL,
        [("a", f"r{i}", 'its map is read 9 times, by "r0", "r1", "r2", "r3", "r4" and 4 others') for i in range(9)],
    ),
    "a part that is an output": (
        graph("cat a", ("a", conv(), "x"), ("b", conv(), "x"), ("cat", ops.Concat(), "a b")), Fusion.FULL,
        [("a", "b", 'the map of "a" is an output of the network')],
    ),
    "a part that a layer of the firmware looks for": (
        graph(
            "cat m", ("a", conv(), "x"), ("b", conv(), "x"), ("cat", ops.Concat(), "a b"), ("m", ops.Custom("M", (), Shape(8, 8, 8)), "b x"),
        ),
        Fusion.FULL, [("a", "b", '"m", a layer of the firmware, looks for the map of "b"')],
    ),
    "some parts in one command": (
        graph(
            "cat", ("far", conv(), "x"), ("a", conv(), "x"), ("b", conv(), "x"), ("c", conv(), "far"), ("d", conv(), "far"),
            ("cat", ops.Concat(), "a b c d"),
        ),
        Fusion.FULL,
        [
            ("far", "c", 'its map is read 2 times, by "c" and "d"'),
            ("far", "d", 'its map is read 2 times, by "c" and "d"'),
            ("b", "c", 'as parts of one concatenation they start from different maps, of "x" and "far"'),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("network", "fusion", "expected"), CASES.values(), ids=CASES)
def test_every_boundary_has_its_reason(network: Graph, fusion: Fusion, expected: list[tuple[str, str, str]]) -> None:
    assert reasons(network, fusion) == expected


def test_a_long_chain_ends_somewhere() -> None:
    network = graph("n39", *((f"n{i}", conv(), f"n{i - 1}" if i else "x") for i in range(40)))
    assert reasons(network) == [("n31", "n32", "a command has at most 32 runs")]


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("fusion", Fusion)
def test_all_neighbors_share_a_command_or_have_a_reason(fusion: Fusion) -> None:
    seen = 0
    for seed in range(60):
        network = legalize(optimize(random_networks.network(seed, 12)), DV700, transposed=True, fusion=fusion)
        made = partition(network, DV700, transposed=True, fusion=fusion)
        steps = {node.name: step for step in made.steps for node in step.nodes if step.type is LayerType.CONV}
        rows = {(row.before, row.after) for row in boundaries(made, fusion, DV700)}
        for node in made.graph.nodes:
            for name in node.inputs:
                if name in steps and node.name in steps and not isinstance(node.op, ops.Concat):
                    assert ((name, node.name) in rows) == (steps[name] is not steps[node.name])
                    seen += 1
    assert seen > 100
