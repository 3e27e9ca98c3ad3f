"""The graph under construction keeps nothing of a layer that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence

from cnn_convertor.errors import Origin, UnsupportedError
from cnn_convertor.frontends.builder import Builder
from cnn_convertor.ir.ops import Identity

WHERE = Origin("net")


def test_nodes_of_a_layer_that_fails_midway_are_forgotten() -> None:
    builder = Builder()

    def fail() -> Sequence[str]:
        raise UnsupportedError.of("DV302", "no", WHERE)

    def fail_midway() -> Sequence[str]:
        builder.add("part", Identity(), [first], WHERE)
        return fail()

    (first,) = builder.read((), fail, ("first", WHERE))
    (second,) = builder.read([first], fail_midway, ("second", WHERE))
    partial = builder.finish([second])
    assert {node.name for node in partial.graph.nodes} == {first, second} == partial.guessed
