"""Dropping unneeded channels: before and after as text, with equal results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Padding, Pair, Shape, Window
from cnn_convertor.passes.drop_channels import drop_channels
from reference import ir_reference, random_networks

RANDOM = np.random.default_rng(0)
X = Shape(4, 6, 8)
SAME = Window(Pair(3, 3), padding=Padding(1, 1, 1, 1))


def some(*shape: int) -> Constant:
    return Constant.of(RANDOM.normal(size=shape))


def conv(out: int, channels: int = 8, groups: int = 1) -> Op:
    return ops.Conv2d(some(out, channels // groups, 3, 3), some(out), SAME, groups)


def crop(first: int, stop: int, height: int = 4) -> Op:
    return ops.Crop(Shape(0, 0, first), Shape(height, 6, stop))


def graph(outputs: str, *rows: tuple[str, Op, str]) -> Graph:
    """x is the input; then (name, operator, what it reads)."""
    nodes = [Node(name, op, tuple(reads.split()), (Origin("net", name),)) for name, op, reads in rows]
    return Graph((Node("x", ops.Input(X)), *nodes), tuple(outputs.split()))


def short(graph: Graph) -> list[str]:
    """One line per node except the input: name, operator, inputs, channels. [a:b] is a crop."""
    lines = []
    for node in graph.nodes[1:]:
        op = node.op
        part = f"[{op.start.channels}:{op.stop.channels}]" if isinstance(op, ops.Crop) else ""
        lines.append(
            f"{node.name} = {type(op).__name__}{part}({', '.join(node.inputs)}) {graph.shape(node.name).channels}"
        )
    return lines


MAX = ops.MaxPool2d(Window(Pair(2, 1), Pair(2, 1)), ops.PRelu(some(24)))
NARROWED: dict[str, tuple[Graph, list[str]]] = {
    "a convolution": (graph("c", ("a", conv(24), "x"), ("c", crop(8, 16), "a")), ["c = Conv2d(x) 8"]),
    "any channels": (graph("c", ("a", conv(24), "x"), ("c", crop(3, 5), "a")), ["c = Conv2d(x) 2"]),
    "a fully connected layer": (
        graph("c", ("a", ops.Dense(some(24, 8, 4, 6), some(24)), "x"), ("c", ops.Crop(Shape(0, 0, 8), Shape(1, 1, 16)), "a")),
        ["c = Dense(x) 8"],
    ),
    "a deconvolution": (
        graph("c", ("a", ops.ConvTranspose2d(some(24, 8, 3, 3), None, SAME), "x"), ("c", crop(0, 8), "a")),
        ["c = ConvTranspose2d(x) 8"],
    ),
    "rows are left out, too": (
        graph("c", ("a", conv(24), "x"), ("c", crop(8, 16, height=2), "a")), ["a = Conv2d(x) 8", "c = Crop[0:8](a) 8"],
    ),
    "what treats each channel by itself": (
        graph("c", ("a", conv(24), "x"), ("s", ops.Scale(some(24), some(24), ops.PRelu(some(24))), "a"), ("d", conv(24, 24, 24), "s"),
              ("r", ops.Activation(ops.PRelu(some(24))), "d"), ("u", ops.Upsample(Pair(2, 1)), "r"), ("p", MAX, "u"), ("c", crop(8, 16), "p")),
        ["a = Conv2d(x) 8", "s = Scale(a) 8", "d = Conv2d(s) 8", "r = Activation(d) 8", "u = Upsample(r) 8", "c = MaxPool2d(u) 8"],
    ),
    "parts of a concatenation": (
        graph("c", ("a", conv(16), "x"), ("b", conv(16), "x"), ("d", conv(16), "x"), ("cat", ops.Concat(), "a b d x"), ("c", crop(24, 40), "cat")),
        ["b = Conv2d(x) 8", "d = Conv2d(x) 8", "c = Concat(b, d) 16"],
    ),
    "one part of a concatenation": (
        graph("c", ("a", conv(16), "x"), ("b", conv(16), "x"), ("cat", ops.Concat(), "a b"), ("c", crop(16, 32), "cat")),
        ["c = Conv2d(x) 16"],
    ),
    "several crops: what is behind all of them": (
        graph("c d", ("a", conv(24), "x"), ("c", crop(4, 8), "a"), ("d", crop(8, 16), "a")),
        ["a = Conv2d(x) 16", "c = Crop[4:8](a) 4", "d = Crop[8:16](a) 8"],
    ),
    "several crops that begin alike": (
        graph("c d", ("a", conv(24), "x"), ("c", crop(8, 12), "a"), ("d", crop(8, 16), "a")),
        ["a = Conv2d(x) 8", "c = Crop[0:4](a) 4", "d = Crop[0:8](a) 8"],
    ),
    "crops of crops": (
        graph("d", ("a", conv(24), "x"), ("c", crop(4, 20), "a"), ("d", crop(4, 12), "c")),
        ["d = Conv2d(x) 8"],
    ),
    "rows of channels": (
        graph("d", ("c", ops.Crop(Shape(1, 0, 1), Shape(4, 5, 8), Shape(2, 1, 3)), "x"), ("d", ops.Crop(Shape(1, 1, 1), Shape(2, 5, 3), Shape(1, 3, 1)), "c")),
        ["d = Crop[4:8](x) 2"],
    ),
    "every other channel": (
        graph("c", ("a", conv(24), "x"), ("c", ops.Crop(Shape(0, 0, 4), Shape(4, 6, 12), Shape(1, 1, 2)), "a")),
        ["a = Conv2d(x) 7", "c = Crop[0:7](a) 4"],
    ),
    "the input cannot be narrowed, a part of it that is joined neither": (
        graph("c", ("a", conv(16), "x"), ("cat", ops.Concat(), "x a"), ("c", crop(4, 12), "cat")),
        ["a = Conv2d(x) 4", "cat = Concat(x, a) 12", "c = Crop[4:12](cat) 8"],
    ),
    "a crop that takes all, a concatenation of one part": (
        graph("b", ("a", conv(8), "x"), ("c", crop(0, 8), "a"), ("cat", ops.Concat(), "c"), ("b", conv(8), "cat")),
        ["cat = Conv2d(x) 8", "b = Conv2d(cat) 8"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "lines"), NARROWED.values(), ids=NARROWED)
def test_unneeded_channels_are_dropped(before: Graph, lines: list[str]) -> None:
    after = drop_channels(before)
    assert short(after) == lines
    same(before, after)


STAYING: dict[str, Graph] = {
    "an output": graph("c a", ("a", conv(24), "x"), ("c", crop(8, 16), "a")),
    "who needs all": graph("c b", ("a", conv(24), "x"), ("c", crop(8, 16), "a"), ("b", conv(8, 24), "a")),
    "a sum": graph("c", ("a", conv(24), "x"), ("b", conv(24), "x"), ("s", ops.Add(), "a b"), ("c", crop(8, 16), "s")),
    "neighboring channels that are looked at": graph(
        "c", ("a", conv(24), "x"), ("n", ops.LocalResponseNorm(3, 1.0, 0.75), "a"), ("c", crop(8, 16), "n")
    ),
    "groups": graph("c", ("a", conv(24, groups=2), "x"), ("c", crop(8, 16), "a")),
    "an output that is the whole input": graph("c", ("c", crop(0, 8), "x")),
}


@pytest.mark.parametrize("network", STAYING.values(), ids=STAYING)
def test_channels_are_kept(network: Graph) -> None:
    assert str(drop_channels(network)) == str(network)


def test_nodes_that_absorb_a_crop_get_its_origin() -> None:
    before, _ = NARROWED["a convolution"]
    (_, node) = drop_channels(before).nodes
    assert ([origin.layer for origin in node.origins], node.where) == (["a", "c"], Origin("net", "a"))


def same(before: Graph, after: Graph) -> None:
    """Both compute the same outputs."""
    x = random_networks.inputs_for(before)
    expected, found = ir_reference.run(before, x), ir_reference.run(after, x)
    assert len(before.outputs) == len(after.outputs)
    for name, made in zip(before.outputs, after.outputs, strict=True):
        largest = max(1.0, np.abs(expected[name]).max())
        np.testing.assert_allclose(found[made], expected[name], rtol=1e-4, atol=1e-4 * largest)


@settings(max_examples=150)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(2, 10))
def test_networks_full_of_crops_compute_the_same(seed: int, steps: int) -> None:
    maker = random_networks.Maker(np.random.default_rng(seed))
    for _ in range(steps):
        maker.step()
        if maker.chance(0.5):
            maker.crop(maker.some())
    before = maker.graph().without_dead()
    after = drop_channels(before).without_dead()
    same(before, after)
    assert sum(after.shape(n.name).size for n in after.nodes) <= sum(before.shape(n.name).size for n in before.nodes)
