"""Streams of weights against a slow packer that was written apart, and what is said of numbers that FP16 cannot hold."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.runs import Program, Weights
from cnn_convertor.devices.dv700.weights.encoding import encode_all, encode_buffer
from cnn_convertor.devices.dv700.weights.palettes import choose
from cnn_convertor.devices.settings import Quantization, QuantizationOptions
from cnn_convertor.errors import ConvertorWarning, Origin, UnsupportedError
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Padding, Pair, Shape, Window
from cnn_convertor.passes import optimize
from devices.dv700.legal import legalize
from reference import packing_reference

Real = NDArray[np.float64]
EVERYWHERE = QuantizationOptions(Quantization.PALETTE, threshold=0.0)
RANDOM = np.random.default_rng(0)


def chain(*made: Op, shape: Shape) -> Graph:
    nodes = [Node("x", ops.Input(shape))]
    for op, name in zip(made, "abcdefgh", strict=False):
        nodes.append(Node(name, op, (nodes[-1].name,), (Origin("net", name, type(op).__name__),)))
    return Graph(tuple(nodes), (nodes[-1].name,))


def program(graph: Graph, *, palette: bool = False, transposed: bool = False) -> Program:
    graph = legalize(optimize(graph), DV700, transposed=transposed)
    made = lower(*partition(graph, DV700, transposed=transposed), name="net", transposed=transposed)
    return choose(made, EVERYWHERE) if palette else made


def stream(made: Program) -> bytes:
    return b"".join(piece.tobytes() for piece in encode_all(made.weights, transposed=made.transposed))


def reference(
    kernels: Real, bias: Real, slopes: Real | None = None, *, dilated: bool = False, transposed: bool = False
) -> bytes:
    """FP16 weights, packed slowly."""
    half = [None if v is None else v.astype(np.float32).astype(np.float16) for v in (kernels, bias, slopes)]
    assert half[0] is not None and half[1] is not None
    return packing_reference.packed(half[0], half[1], half[2], None, dilated=dilated, transposed=transposed)


def values(*shape: int) -> Real:
    """What FP32 holds exactly."""
    drawn: Real = RANDOM.normal(size=shape).astype(np.float32).astype(np.float64)
    return drawn


def conv(kernels: Real, bias: Real | None = None, groups: int = 1, **window: Any) -> Op:
    made = Window(Pair(*kernels.shape[2:]))._replace(**window)
    return ops.Conv2d(Constant.of(kernels), None if bias is None else Constant.of(bias), made, groups)


BOTH = pytest.mark.parametrize("transposed", [False, True])


@BOTH
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (3, 1), (2, 5), (7, 6)])
def test_convolution(kernel: tuple[int, int], transposed: bool) -> None:
    kernels, bias = values(9, 11, *kernel), values(9)
    made = program(chain(conv(kernels, bias), shape=Shape(8, 8, 11)), transposed=transposed)
    assert stream(made) == reference(kernels, bias, transposed=transposed)


@BOTH
def test_folded_convolution(transposed: bool) -> None:
    kernels, bias, mean, variance, gamma, beta = values(5, 3, 3, 3), *values(5, 5)
    variance = np.abs(variance)
    norm = ops.BatchNorm(Constant.of(mean), Constant.of(variance), Constant.of(gamma), Constant.of(beta), 1e-3)
    made = program(chain(conv(kernels, bias), norm, shape=Shape(8, 8, 3)), transposed=transposed)
    scale = gamma / np.sqrt(variance + 1e-3)
    narrow = kernels.astype(np.float32) * scale.astype(np.float32)[:, None, None, None]
    assert stream(made) == reference(narrow.astype(np.float64), (bias - mean) * scale + beta, transposed=transposed)


@BOTH
def test_depthwise(transposed: bool) -> None:
    kernels, bias = values(11, 1, 3, 5), values(11)
    made = program(chain(conv(kernels, bias, groups=11), shape=Shape(8, 8, 11)), transposed=transposed)
    assert stream(made) == reference(kernels, bias, transposed=transposed)


@BOTH
def test_dilated(transposed: bool) -> None:
    kernels, bias = values(9, 3, 3, 3), values(9)
    op = conv(kernels, bias, dilation=Pair(2, 2), padding=Padding(2, 2, 2, 2))
    made = program(chain(op, shape=Shape(8, 8, 3)), transposed=transposed)
    assert stream(made) == reference(kernels, bias, dilated=True, transposed=transposed)


@BOTH
@pytest.mark.parametrize("groups", [1, 6])
def test_deconvolution_is_rotated(groups: int, transposed: bool) -> None:
    kernels, bias = values(6, 6 // groups, 3, 4), values(6)
    op = ops.ConvTranspose2d(Constant.of(kernels), Constant.of(bias), Window(Pair(3, 4), Pair(2, 2)), groups=groups)
    made = program(chain(op, shape=Shape(4, 4, 6)), transposed=transposed)
    assert stream(made) == reference(kernels[:, :, ::-1, ::-1], bias, transposed=transposed)


@BOTH
def test_prelu_slopes_lie_behind_the_biases(transposed: bool) -> None:
    kernels, slopes = values(9, 3, 3, 3), values(9)
    prelu = ops.Activation(ops.PRelu(Constant.of(slopes)))
    made = program(chain(conv(kernels), prelu, shape=Shape(8, 8, 3)), transposed=transposed, palette=True)
    assert stream(made) == reference(kernels, np.zeros(9), slopes, transposed=transposed), (
        "and there is no palette then"
    )


@BOTH
def test_dense_reads_a_chunked_map_as_it_lies(transposed: bool) -> None:
    shape = Shape(2, 3, 11)
    kernels = values(5, 11, 2, 3)
    made = program(chain(ops.Dense(Constant.of(kernels), None), shape=shape), transposed=transposed)
    rows = np.zeros((5, shape.size, 1, 1))
    for c, y, x in np.ndindex(11, 2, 3):
        width = min(8, 11 - c // 8 * 8)
        place = y * 3 + x if transposed else x * 2 + y
        rows[:, c // 8 * 8 * 6 + place * width + c % 8, 0, 0] = kernels[:, c, y, x]
    assert stream(made) == reference(rows, np.zeros(5), transposed=transposed)


@BOTH
@pytest.mark.parametrize("dilated", [False, True])
def test_a_palette_of_few_values_loses_nothing(dilated: bool, transposed: bool) -> None:
    kernels = RANDOM.integers(-9, 10, (9, 11, 3, 3)) / 4.0
    bias = values(9)
    op = conv(kernels, bias, padding=Padding(2, 2, 2, 2), dilation=Pair(2, 2)) if dilated else conv(kernels, bias)
    data = stream(program(chain(op, shape=Shape(8, 8, 11)), transposed=transposed, palette=True))
    palette = np.frombuffer(data[:512], np.float16)
    assert palette[0] == 0
    entries = {float(value): index for index, value in reversed(list(enumerate(palette)))}
    codes = np.vectorize(entries.__getitem__, otypes=[np.uint8])(kernels)
    assert data == packing_reference.packed(
        codes, bias.astype(np.float32).astype(np.float16), None, palette, dilated=dilated, transposed=transposed
    )


def test_streams_lie_one_after_the_other_at_multiples_of_16() -> None:
    graph = chain(conv(values(9, 3, 3, 3)), conv(values(4, 9, 1, 1)), conv(values(3, 4, 2, 2)), shape=Shape(8, 8, 3))
    made = program(graph)
    offset = 0
    for weights in made.weights:
        assert weights.offset == offset
        assert offset % 16 == 0
        offset += weights.nbytes
    assert offset == made.weight_bytes == len(stream(made))


# --- numbers that do not fit ---------------------------------------------------------------------------------------------


def encoded(*streams: Weights) -> None:
    for _ in encode_all(streams, transposed=False):
        pass


VARIANTS = pytest.mark.parametrize(
    ("palette", "dilated"),
    [(False, False), (True, False), (False, True), (True, True)],
    ids=["fp16", "palette", "dilated", "both"],
)


def weights_of(
    kernels: Real, bias: Real | None = None, slopes: Real | None = None, *, palette: bool, dilated: bool
) -> Weights:
    window: dict[str, Any] = {"dilation": Pair(2, 2), "padding": Padding(2, 2, 2, 2)} if dilated else {}
    made: list[Op] = [conv(kernels, bias, **window)]
    (weights,) = program(chain(*made, shape=Shape(8, 8, kernels.shape[1])), palette=palette).weights
    return weights if slopes is None else replace(
        weights, slopes=Constant.of(slopes), packed=replace(weights.packed, prelu=True)
    )  # fmt: skip


@VARIANTS
@pytest.mark.parametrize(
    ("value", "shown"), [(65520.0, "65520"), (-1e5, "-100000"), (np.inf, "inf"), (np.nan, "nan"), (1e30, "1e+30")]
)
def test_a_weight_that_fp16_cannot_hold_is_an_error(value: float, shown: str, palette: bool, dilated: bool) -> None:
    kernels = np.ones((9, 3, 3, 3))
    kernels[8, 1, 2, 0] = kernels[3, 2, 2, 2] = value
    with pytest.raises(UnsupportedError) as caught:
        list(encode_all([weights_of(kernels, palette=palette, dilated=dilated)], transposed=False))
    (problem,) = caught.value.problems
    assert problem.code == "DV501"
    flaw = "is NaN" if shown == "nan" else f"of {shown} does not fit FP16 (65504 at most)"
    assert problem.message == f"a weight {flaw} after folding; 2 such values"
    assert problem.where == Origin("net", "a", "Conv2d")


@VARIANTS
def test_the_largest_numbers_of_fp16_fit(palette: bool, dilated: bool) -> None:
    kernels = np.full((9, 3, 3, 3), -65519.0)
    list(encode_all([weights_of(kernels, np.full(9, 65504.0), palette=palette, dilated=dilated)], transposed=False))


def test_biases_and_slopes_must_fit_as_well() -> None:
    kernels, large = np.ones((9, 3, 3, 3)), np.full(9, 7e4)
    for weights, what in [
        (weights_of(kernels, large, palette=True, dilated=False), "bias"),
        (weights_of(kernels, None, large, palette=False, dilated=False), "PReLU slope"),
    ]:
        with pytest.raises(UnsupportedError, match=f"DV501: a {what} of 70000 does not fit"):
            list(encode_all([weights], transposed=False))


FLAT = ops.Reshape(Shape(1, 1, 512), ops.Order.CHW)  # the CPU does this, and what follows
ADDED: dict[str, tuple[list[Op], int, str]] = {
    "by the device": ([], 8, "a bias of 1e+09"),
    "by the CPU": ([FLAT], 512, "a constant of 1e+09"),
}


@pytest.mark.parametrize("name", ADDED)
def test_a_number_that_the_model_adds_is_named_with_one_to_write_in_its_place(name: str) -> None:
    before, channels, told = ADDED[name]

    def encoded(number: float) -> list[NDArray[np.uint8]]:
        added = ops.Scale(Constant.of(np.ones(channels)), Constant.of(np.full(channels, number)))
        return list(encode_buffer(program(chain(*before, added, shape=Shape(8, 8, 8)))))

    with pytest.raises(UnsupportedError, match=re.escape(told)) as caught:
        encoded(1e9)
    assert "write one from -60000 to 60000 in its place" in caught.value.problems[0].hint
    assert encoded(60_000)


def test_all_layers_with_numbers_that_do_not_fit_are_told_at_once() -> None:
    large, small = np.full((9, 9, 3, 3), 1e6), np.ones((9, 9, 3, 3))
    made = program(chain(conv(large), conv(small), conv(large), shape=Shape(8, 8, 9)), palette=True)
    with pytest.raises(UnsupportedError) as caught:
        stream(made)
    assert [problem.where for problem in caught.value.problems] == [Origin("net", name, "Conv2d") for name in "ac"]


def test_the_convolution_is_named_and_not_what_is_folded_into_it() -> None:
    factor = Constant.of(np.full(9, 1e9))
    graph = chain(ops.Scale(factor), conv(values(9, 9, 1, 1)), ops.Activation(ops.Relu()), shape=Shape(4, 4, 9))
    with pytest.raises(UnsupportedError) as caught:
        stream(program(graph))
    (problem,) = caught.value.problems
    assert problem.where == Origin("net", "b", "Conv2d")


@VARIANTS
def test_weights_that_become_zero_are_counted_once(palette: bool, dilated: bool) -> None:
    kernels = np.ones((9, 3, 3, 3))
    kernels[:, 0, 0, 0] = 1e-9
    kernels[:, 1, 1, 1] = -2e-8
    kernels[:, 2, 2, 2] = 0
    kernels[:, 2, 1, 1] = 6e-8  # the smallest number of FP16
    with pytest.warns(ConvertorWarning) as caught:
        list(encode_all([weights_of(kernels, palette=palette, dilated=dilated)], transposed=False))
    (warning,) = caught
    assert isinstance(warning.message, ConvertorWarning)
    problem = warning.message.problems[0]
    assert (problem.code, problem.where) == ("DV502", Origin("net"))
    assert problem.message == 'weights too small for FP16 became 0: 18 of 243 in "a"'
    assert problem.hint == "nothing, if `verify` passes: so few weights seldom matter"


@VARIANTS
def test_biases_that_become_zero_are_no_weights(palette: bool, dilated: bool) -> None:
    weights = weights_of(np.ones((9, 3, 3, 3)), np.full(9, 1e-9), palette=palette, dilated=dilated)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(encode_all([weights], transposed=False))


@pytest.mark.parametrize(("zeros", "count"), [(1, 0), (2, 1)])
def test_weights_that_chance_puts_near_zero_are_no_reason_to_warn(zeros: int, count: int) -> None:
    kernels = np.ones((100, 200, 1, 1))
    kernels.reshape(-1)[:zeros] = 1e-9
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(encode_all([weights_of(kernels, palette=False, dilated=False)], transposed=False))
    assert len(caught) == count


@pytest.mark.parametrize(("zeros", "share"), [(809, None), (810, "10.0%"), (8019, "99.0%"), (8100, "100.0%")])
def test_a_large_share_of_weights_that_became_zero_is_no_trifle(zeros: int, share: str | None) -> None:
    kernels = np.ones((90, 90, 1, 1))
    kernels.reshape(-1)[:zeros] = 1e-9
    with pytest.warns(ConvertorWarning) as caught:
        list(encode_all([weights_of(kernels, palette=False, dilated=False)], transposed=False))
    (warning,) = caught
    assert isinstance(warning.message, ConvertorWarning)
    advice = (
        f'"a" computes without {share} of its weights: run `verify`, and if the outputs suffer, '
        "scale the layer's weights up and the next layer's down"
    )
    expected = advice if share else "nothing, if `verify` passes: so few weights seldom matter"
    assert warning.message.problems[0].hint == expected


@VARIANTS
def test_layers_whose_weights_are_subnormal_are_named_with_what_they_keep(palette: bool, dilated: bool) -> None:
    kernels = np.random.default_rng(0).normal(0, 1e-6, (16, 16, 3, 3))
    half = kernels.astype(np.float16).astype(np.float64)
    measured = 10 * np.log10(np.square(kernels).sum() / np.square(half - kernels).sum())
    flushed, subnormal = np.count_nonzero(half == 0), np.count_nonzero(half)
    with pytest.warns(ConvertorWarning) as caught:
        list(encode_all([weights_of(kernels, palette=palette, dilated=dilated)], transposed=False))
    problems = [w.message.problems[0] for w in caught if isinstance(w.message, ConvertorWarning)]
    assert [(p.code, p.where) for p in problems] == [("DV502", Origin("net")), ("DV504", Origin("net"))]
    assert problems[0].message == f'weights too small for FP16 became 0: {flushed} of 2304 in "a"'
    text = r'weights below 6.1e-05 have fewer digits in FP16: (.*)% of "a", which keeps about (.*) dB'
    told = re.fullmatch(text, problems[1].message)
    assert told is not None
    assert float(told[1]) == pytest.approx(100 * subnormal / 2304, abs=0.05)
    assert float(told[2]) == pytest.approx(measured, abs=1)


def test_a_few_small_weights_among_large_ones_are_no_news() -> None:
    kernels = np.random.default_rng(0).normal(0, 0.01, (64, 64, 3, 3))
    assert np.count_nonzero(np.abs(kernels) < 2**-14) > 0
    kernels[np.abs(kernels) < 2**-24] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(encode_all([weights_of(kernels, palette=False, dilated=False)], transposed=False))


def test_the_layers_that_lost_most_are_named_first() -> None:
    streams = [weights_of(np.full((9, 3, 3, 3), 2.0**-power), palette=False, dilated=False) for power in range(16, 23)]
    offset, placed = 0, []
    for number, weights in enumerate(streams):
        placed.append(replace(weights, offset=offset, where=Origin("net", f"layer{number}")))
        offset += weights.nbytes
    with pytest.warns(ConvertorWarning) as caught:
        list(encode_all(placed, transposed=False))
    (warning,) = caught
    assert isinstance(warning.message, ConvertorWarning)
    named = re.findall(r'"(\w+)", which keeps about (\d+) dB', warning.message.problems[0].message)
    assert [layer for layer, _ in named] == [f"layer{number}" for number in (6, 5, 4, 3, 2)]
    assert [int(kept) for _, kept in named] == sorted(int(kept) for _, kept in named)
    assert warning.message.problems[0].message.endswith(", and in 2 other layers")


def test_nothing_is_said_where_nothing_is_lost() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(encode_all([weights_of(np.ones((9, 3, 3, 3)), np.zeros(9), palette=True, dilated=True)], transposed=False))
