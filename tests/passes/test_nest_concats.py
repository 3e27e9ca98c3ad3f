"""Concatenations that begin with the maps of another read it: before and after as text."""

from __future__ import annotations

from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Axis
from cnn_convertor.passes import optimize
from cnn_convertor.passes.contract import run_passes
from cnn_convertor.passes.nest_concats import nest_concats
from cnn_convertor.pipeline import passes_of
from passes.test_hoisting import RELU, conv, graph, same, scale

JOIN = ops.Concat()


def reads(nodes: Graph) -> dict[str, str]:
    return {node.name: " ".join(node.inputs) for node in nodes.nodes if isinstance(node.op, ops.Concat)}


def joins(*rows: tuple[str, str], axis: Axis = Axis.CHANNELS) -> Graph:
    """Concatenations of convolutions a to e, all of them outputs."""
    convolutions = [(name, conv(), "x") for name in "abcde"]
    return graph(
        " ".join(name for name, _ in rows), *convolutions, *((name, ops.Concat(axis), of) for name, of in rows)
    )


def test_each_concatenation_reads_the_longest_that_it_begins_with() -> None:
    before = joins(("p", "a b"), ("q", "a b c"), ("r", "a b c d e"), ("s", "a b d"))
    after = nest_concats(before)
    assert reads(after) == {"p": "a b", "q": "p c", "r": "q d e", "s": "p d"}
    same(before, after)
    assert nest_concats(after) == after


def test_other_concatenations_stay() -> None:
    for before in (
        joins(("p", "a b"), ("q", "b a c"), ("r", "c a b")),  # other orders
        joins(("p", "a b c"), ("q", "a b"), ("r", "a b")),  # an earlier one is longer, or equal
        joins(("p", "a a"), ("q", "a")),
    ):
        assert nest_concats(before) == before


def test_only_concatenations_along_one_axis_are_nested() -> None:
    along_width = joins(("p", "a b"), ("q", "a b c"), axis=Axis.WIDTH)
    assert reads(nest_concats(along_width)) == {"p": "a b", "q": "p c"}
    rows = [(name, conv(), "x") for name in "abc"]
    before = graph("p q", *rows, ("p", ops.Concat(Axis.HEIGHT), "a b"), ("q", ops.Concat(Axis.WIDTH), "a b"))
    assert nest_concats(before) == before


def dense(layers: int, *, flat: bool) -> Graph:
    """DenseNet's block: each layer normalizes all maps before it. flat: concatenates these again for each layer."""
    rows: list[tuple[str, ops.Op, str]] = [("m0", conv(8), "x")]
    features, last, channels = ["m0"], "m0", 8
    for layer in range(1, layers + 1):
        rows += [
            (f"n{layer}", scale(channels), last),
            (f"r{layer}", RELU, f"n{layer}"),
            (f"m{layer}", conv(8, channels), f"r{layer}"),
        ]
        before, last = last, f"c{layer}"
        features.append(f"m{layer}")
        rows.append((last, JOIN, " ".join(features) if flat else f"{before} m{layer}"))
        channels += 8
    return graph(last, *rows)


def test_a_flat_dense_block_needs_no_more_nodes_than_a_nested_one() -> None:
    """Each part would be copied for each concatenation behind it: 62 commands in place of 6 for a block of DenseNet-121."""
    device = passes_of(Dv700(DV700, Fusion.DOCUMENTED, transposed=True, uses_sdk_softmax=False))
    flat, nested = (run_passes(device, optimize(dense(6, flat=flat))) for flat in (True, False))
    assert len(flat.nodes) == len(nested.nodes)
