"""Which layers get a palette, what is said of it, and that the program stays whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.devices.dv700.weights.palettes import choose, count, count_importance, describe, fit_weights
from cnn_convertor.devices.facts import Reason, StoredWeights
from cnn_convertor.devices.settings import Override, Quantization, QuantizationOptions
from cnn_convertor.errors import Origin, UnsupportedError, UsageError
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Shape, Window
from cnn_convertor.passes import optimize
from devices.dv700.legal import legalize

Real = NDArray[np.float64]
LINE = Origin("net.ini", line=7)


def normal(*shape: int) -> Real:
    return np.random.default_rng(0).normal(size=shape)


def heavy(*shape: int) -> Real:
    """A palette costs such weights more than normal ones."""
    random = np.random.default_rng(0)
    drawn: Real = np.exp(random.normal(size=shape)) * random.choice([-1.0, 1.0], shape)
    return drawn


def conv(kernels: Real, groups: int = 1) -> ops.Op:
    return ops.Conv2d(Constant.of(kernels), None, Window(Pair(*kernels.shape[2:])), groups)


def planned(*made: ops.Op, channels: int = 16) -> Program:
    """Layers named a, b, c, ... one after the other, with weights in FP16 until palettes are chosen."""
    nodes = [Node("x", ops.Input(Shape(20, 20, channels)))]
    for op, name in zip(made, "abcdefgh", strict=False):
        nodes.append(Node(name, op, (nodes[-1].name,), (Origin("net", name, type(op).__name__),)))
    graph = legalize(optimize(Graph(tuple(nodes), (nodes[-1].name,))), DV700, transposed=True)
    return lower(*partition(graph, DV700, transposed=True), name="net", transposed=True)


def every_kind() -> Program:
    return planned(
        conv(normal(32, 16, 3, 3)),  # a: as usual
        conv(normal(32, 1, 3, 3), groups=32),  # b: depthwise
        conv(normal(16, 32, 1, 1)),  # c, d: with PReLU
        ops.Activation(ops.PRelu(Constant.of(np.ones(16)))),
        conv(np.round(normal(40, 16, 3, 3) * 10)),  # e: few values
        conv(heavy(64, 40, 3, 3)),  # f
        conv(normal(2, 64, 1, 1)),  # g: tiny
    )


def chosen(program: Program, quantization: Quantization, threshold: float = 40.0, **overrides: bool) -> Program:
    said = tuple(Override(layer, palette, LINE) for layer, palette in overrides.items())
    return choose(program, QuantizationOptions(quantization, threshold, said))


def stored(program: Program) -> dict[str, StoredWeights]:
    return {layer.layer: layer for layer in describe(program)}


def reasons(program: Program) -> dict[str, tuple[bool, Reason]]:
    return {name: (layer.palette, Reason(layer.reason)) for name, layer in stored(program).items()}


def test_without_quantization_everything_is_fp16_and_nothing_is_fitted() -> None:
    found = stored(chosen(every_kind(), Quantization.FP16))
    assert {(y.palette, Reason(y.reason), y.sqnr, y.distinct, y.zeros) for y in found.values()} == {
        (False, Reason.ASKED, None, None, None)
    }
    assert all(layer.fp16_bytes == layer.bytes for layer in found.values())


def test_quantization_gives_a_palette_to_all_layers_that_the_device_takes_it_for() -> None:
    assert reasons(chosen(every_kind(), Quantization.PALETTE)) == {
        **dict.fromkeys("abefg", (True, Reason.ASKED)),
        "c": (False, Reason.PRELU),
    }


def test_auto_gives_a_palette_to_layers_that_get_smaller_and_lose_little() -> None:
    assert reasons(chosen(every_kind(), Quantization.AUTO, 43.0)) == {
        "a": (True, Reason.CLOSE),
        "b": (False, Reason.DEPTHWISE),
        "c": (False, Reason.PRELU),
        "e": (True, Reason.LOSSLESS),
        "f": (False, Reason.LOSSY),
        "g": (False, Reason.LARGER),
    }


@pytest.mark.parametrize("threshold", [-10.0, 30.0, 45.0, 90.0])
def test_the_threshold_decides_for_all_that_lose_something(threshold: float) -> None:
    found = stored(chosen(every_kind(), Quantization.AUTO, threshold))
    for name in "af":
        sqnr = found[name].sqnr
        assert sqnr is not None and found[name].palette == (sqnr >= threshold)
    assert found["e"].palette and found["e"].sqnr == float("inf")


def test_an_override_counts_more_than_anything_else() -> None:
    said = {"a": False, "b": True, "e": False, "f": True, "g": True}
    for quantization in Quantization:
        found = reasons(chosen(every_kind(), quantization, **said))
        assert {name: found[name] for name in said} == {name: (p, Reason.OVERRIDE) for name, p in said.items()}


def test_fp16_for_a_layer_with_prelu_changes_nothing() -> None:
    program = chosen(every_kind(), Quantization.PALETTE, c=False)
    assert reasons(program)["c"] == (False, Reason.OVERRIDE)


def test_a_palette_for_a_layer_with_prelu_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        chosen(every_kind(), Quantization.FP16, c=True)
    (problem,) = caught.value.problems
    assert problem.code == "DV430"
    assert "net.ini:7" in problem.message and problem.where == Origin("net", "c", "Conv2d")
    assert problem.hint.startswith("fp16 for this layer")


def test_unknown_layers_are_all_told_with_the_nearest_names() -> None:
    nodes = every_kind()
    with pytest.raises(UsageError) as caught:
        chosen(nodes, Quantization.AUTO, A=True, d=False, a=True)
    found = [(p.code, p.message, p.where) for p in caught.value.problems]
    assert found == [
        ("DV130", "[QUANTIZATION] A: there is no such layer", LINE),
        ("DV130", "[QUANTIZATION] d: the device's kernels do not come from it", LINE),
    ]
    hints = [p.hint.partition("like ")[2] for p in caught.value.problems]
    assert hints == ['"a"', '"a", "b", "c"']


def test_a_layer_that_the_cpu_runs_has_no_palette_and_may_be_asked_for_one() -> None:
    nodes = [Node("x", ops.Input(Shape(1, 1, 16)))]
    swish = ops.Unary(ops.Swish())
    for name, op in ("a", swish), ("b", ops.Dense(Constant.of(normal(4, 16, 1, 1)), None)), ("c", swish):
        nodes.append(Node(name, op, (nodes[-1].name,), (Origin("net", name),)))
    graph = legalize(Graph(tuple(nodes), ("c",)), DV700, transposed=True)
    program = lower(*partition(graph, DV700, transposed=True), name="net", transposed=True)
    assert [array.where.layer for array in program.arrays if array.where] == ["b", "b"]
    assert chosen(program, Quantization.FP16, b=True) == program


def test_the_nearest_name_comes_first() -> None:
    x = Node("x", ops.Input(Shape(8, 8, 16)))
    nodes = [x]
    for name in ("conv1_1", "conv1_2", "branch"):
        nodes.append(Node(name, conv(normal(16, 16, 1, 1)), (nodes[-1].name,), (Origin("net", name),)))
    graph = legalize(Graph(tuple(nodes), ("branch",)), DV700, transposed=True)
    program = lower(*partition(graph, DV700, transposed=True), name="net", transposed=True)
    with pytest.raises(UsageError) as caught:
        chosen(program, Quantization.AUTO, conv1_3=True)
    assert caught.value.problems[0].hint.endswith('like "conv1_2", "conv1_1"')


@pytest.mark.parametrize("quantization", list(Quantization))
@pytest.mark.parametrize("palette", [False, True])
def test_offsets_and_sizes_are_those_of_the_bytes(quantization: Quantization, palette: bool) -> None:
    before = every_kind()
    program = chosen(before, quantization)
    end = 0
    for weights in program.weights:
        assert weights.offset == end
        end += len(b"".join(p.tobytes() for p in encode_all([replace(weights, offset=0)], transposed=True)))
    assert end == program.weight_bytes == sum(layer.bytes for layer in describe(program))
    assert replace(program, layers=before.layers) == before


def test_what_is_told_of_a_layer_is_counted() -> None:
    kernels = np.zeros((16, 16, 1, 1))
    kernels[:8] = np.arange(2048).reshape(8, 256)[:, :16, None, None] - 100
    found = stored(chosen(planned(conv(kernels)), Quantization.PALETTE))["a"]
    half = kernels.astype(np.float16)
    assert found.distinct == np.unique(half).size
    assert found.zeros == np.mean(half == 0)
    assert (found.fp16_bytes, found.bytes) == (144 * 16 + 32, 512 + 72 * 16 + 32)


def test_the_told_sqnr_is_that_of_the_stored_weights() -> None:
    kernels = normal(64, 64, 1, 1)
    program = chosen(planned(conv(kernels), channels=64), Quantization.PALETTE)
    (weights,) = program.weights
    assert weights.choice is not None and weights.choice.palette is not None
    palette, half = weights.choice.palette, kernels.astype(np.float16)
    error = palette.centers[palette.index[half.view(np.uint16)]].astype(np.float64) - half
    expected = 10 * np.log10(np.sum(half.astype(np.float64) ** 2) / np.sum(error**2))
    assert stored(program)["a"].sqnr == pytest.approx(expected, abs=1e-9)


def test_weights_beyond_fp16_get_no_palette_and_are_refused_as_ever() -> None:
    kernels = normal(16, 16, 3, 3)
    kernels[3, 2, 1, 0] = 1e6
    program = chosen(planned(conv(kernels), conv(kernels)), Quantization.PALETTE)
    assert [weights.choice and weights.choice.palette for weights in program.weights] == [None, None]
    with pytest.raises(UnsupportedError) as caught:
        list(encode_all(program.weights, transposed=True))
    assert [(p.code, p.where and p.where.layer) for p in caught.value.problems] == [("DV501", "a"), ("DV501", "b")]


def test_counts_do_not_depend_on_the_rows_that_are_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = normal(100, 7, 3, 3)
    importance = np.abs(normal(1, 7, 3, 3))
    each = np.abs(normal(100, 7, 3, 3))
    narrow = kernels.astype(np.float32)
    patterns = narrow.astype(np.float16).view(np.uint16)
    expected = np.bincount(patterns.reshape(-1), minlength=1 << 16)
    for size in (1, 10_000, 1 << 30):
        monkeypatch.setattr("cnn_convertor.ir.constant._ROWS_BYTES", size)
        counts, means = count(Constant.of(kernels))
        np.testing.assert_array_equal(counts, expected)
        assert means[patterns[5, 5, 1, 1]] == pytest.approx(narrow[patterns == patterns[5, 5, 1, 1]].mean(), rel=1e-7)
        for given in (importance, each):
            found = count_importance(Constant.of(kernels), given)
            assert found.means is not None
            for pattern in (patterns[0, 0, 0, 0], patterns[99, 6, 2, 2]):
                those, each = patterns == pattern, np.broadcast_to(given, kernels.shape)
                assert found.counts[pattern] == pytest.approx(each[those].sum())
                assert found.means[pattern] == pytest.approx(np.average(narrow[those], weights=each[those]), rel=1e-7)
        equal = count_importance(Constant.of(kernels), np.ones((1, 7, 3, 3)))
        np.testing.assert_array_equal(equal.counts, counts)
        assert equal.means is not None and np.allclose(equal.means, means, rtol=1e-9)


def test_progress_ends_with_all_weights() -> None:
    told: list[tuple[int, int]] = []
    choose(every_kind(), QuantizationOptions(Quantization.PALETTE, 0.0), lambda done, total: told.append((done, total)))
    total = 32 * 16 * 9 + 32 * 9 + 40 * 16 * 9 + 64 * 40 * 9 + 2 * 64
    assert told[0] == (0, total) and told[-1] == (total, total)
    assert told == sorted(told)


def test_without_palettes_there_is_no_step_for_them() -> None:
    steps: list[tuple[int, int]] = []
    choose(every_kind(), QuantizationOptions(Quantization.FP16, 0.0), lambda *step: steps.append(step))
    assert steps == []


def test_no_layer_is_fitted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    program = chosen(every_kind(), Quantization.PALETTE)

    def refuse(*_: Any) -> Any:
        raise AssertionError("the palette is there already")

    monkeypatch.setattr("cnn_convertor.devices.dv700.weights.encoding.fit", refuse)
    assert sum(piece.size for piece in encode_all(program.weights, transposed=True)) == program.weight_bytes


def test_an_importance_moves_the_palette_to_what_counts() -> None:
    kernels = normal(64, 64, 1, 1)
    (weights,) = planned(conv(kernels), channels=64).weights
    importance = np.ones((1, 64, 1, 1))
    importance[0, :8] = 100.0
    half = kernels.astype(np.float16)
    errors = []
    for given in ({}, {0: importance}):
        choice = fit_weights({0: weights}, given)[0]
        assert choice.palette is not None
        error = choice.palette.centers[choice.palette.index[half.view(np.uint16)]].astype(np.float64) - half
        errors.append(float(np.sum(importance * error**2)))
    assert errors[1] < 0.8 * errors[0]
