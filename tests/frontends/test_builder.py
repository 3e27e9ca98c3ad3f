"""The graph under construction keeps nothing of a layer that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cnn_convertor.errors import ConvertorError, ModelError, Origin, UnsupportedError
from cnn_convertor.frontends.builder import Builder
from cnn_convertor.ir.ops import Identity, Shape

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


def test_behind_an_input_of_unknown_size_only_types_are_reported() -> None:
    builder = Builder()

    def fails(code: str, error: type[ConvertorError] = UnsupportedError) -> Callable[[], Sequence[str]]:
        def read() -> Sequence[str]:
            raise error.of(code, "no", WHERE)

        return read

    (source,) = builder.read((), fails("DV206", ModelError), ("source", WHERE))
    (first,) = builder.read([source], fails("DV302"), ("first", WHERE))
    (second,) = builder.read([first], fails("DV301"), ("second", WHERE))
    (known,) = builder.read((), fails("DV206", ModelError), ("known", WHERE), Shape(1, 2, 3))
    (last,) = builder.read([known], fails("DV302"), ("last", WHERE))
    partial = builder.finish([second, last])
    assert [problem.code for problem in partial.problems] == ["DV206", "DV301", "DV302"]
