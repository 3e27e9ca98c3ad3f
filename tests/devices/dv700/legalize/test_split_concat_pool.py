"""The max pool behind a concatenation moves into the convolutions before it, or stays."""

from __future__ import annotations

import numpy as np
import pytest

from cnn_convertor.devices.dv700.legalize.split_concat_pool import pool_parts
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Padding, Pair, Shape, Window
from devices.dv700.legal import legalize
from reference import ir_reference, random_networks

RANDOM = np.random.default_rng(0)
POOL = ops.MaxPool2d(Window(Pair(3, 3), Pair(2, 2), padding=Padding(0, 1, 0, 1)))


def conv(out: int = 8, activation: ops.Function | None = None) -> Op:
    return ops.Conv2d(Constant.of(RANDOM.normal(size=(out, 3, 1, 1))), None, Window(Pair(1, 1)), activation=activation)


def joined(a: Op, b: Op, pool: Op = POOL, outputs: str = "p") -> Graph:
    rows = [("a", a, "x"), ("b", b, "x"), ("cat", ops.Concat(), "a b"), ("p", pool, "cat")]
    nodes = [Node(name, op, tuple(reads.split()), (Origin("net", name),)) for name, op, reads in rows]
    return Graph((Node("x", ops.Input(Shape(8, 8, 3))), *nodes), tuple(outputs.split()))


RELU, LEAKY, BACKWARDS = ops.Relu(), ops.Relu(0.1), ops.Relu(-0.1)
SLOPES = ops.PRelu(Constant.of(RANDOM.normal(size=13)))


@pytest.mark.parametrize(
    "before",
    [
        joined(conv(activation=RELU), conv(5, activation=LEAKY)),
        joined(conv(), conv(5), ops.MaxPool2d(POOL.window, activation=BACKWARDS)),
        joined(conv(), conv(5), ops.MaxPool2d(POOL.window, activation=SLOPES)),
    ],
)
def test_each_part_is_pooled_by_its_convolution(before: Graph) -> None:
    after = pool_parts(before, fusion=Fusion.DOCUMENTED, device=DV700)
    assert [(node.name, type(node.op).__name__, node.inputs) for node in after.nodes[3:]] == [
        ("p/0", "MaxPool2d", ("a",)),
        ("p/1", "MaxPool2d", ("b",)),
        ("p", "Concat", ("p/0", "p/1")),
    ]
    assert [origin.layer for origin in after["p"].origins] == ["cat", "p"]
    x = random_networks.inputs_for(before)
    np.testing.assert_allclose(ir_reference.run(after, x)["p"], ir_reference.run(before, x)["p"], rtol=1e-6)


@pytest.mark.parametrize(
    "before",
    [
        joined(conv(activation=RELU), ops.MaxPool2d(Window(Pair(3, 3), padding=Padding(1, 1, 1, 1)))),
        joined(conv(), conv(activation=BACKWARDS)),
        joined(conv(activation=RELU), conv(), ops.MaxPool2d(POOL.window, activation=RELU)),
        joined(conv(), conv(), outputs="p cat"),
        joined(conv(), conv(), outputs="p a"),
    ],
)
def test_a_pool_stays_where_a_part_cannot_take_it(before: Graph) -> None:
    assert pool_parts(before, fusion=Fusion.FULL, device=DV700) is before


def test_a_pool_stays_where_the_level_of_fusion_excludes_it_from_a_run() -> None:
    weight = Constant.of(RANDOM.normal(size=(8, 3, 1, 1)))
    before = joined(conv(), ops.ConvTranspose2d(weight, None, Window(Pair(1, 1))))
    assert pool_parts(before, fusion=Fusion.DOCUMENTED, device=DV700) is before
    assert pool_parts(before, fusion=Fusion.FULL, device=DV700) is not before


def test_without_fusion_it_stays() -> None:
    graph = joined(conv(), conv())
    kept = legalize(graph, DV700, transposed=True, fusion=Fusion.NONE)
    moved = legalize(graph, DV700, transposed=True, fusion=Fusion.DOCUMENTED)
    assert isinstance(kept["p"].op, ops.MaxPool2d) and isinstance(moved["p"].op, ops.Concat)
