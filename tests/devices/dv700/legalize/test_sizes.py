"""What is too large for a command is divided, refolded or left to the CPU, and computes the same.

The device of these tests has small limits, so that small maps exceed them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.legalize import legalization
from cnn_convertor.devices.dv700.legalize.fit_limits import refolded
from cnn_convertor.devices.dv700.legalize.split_slopes import NO_PALETTES
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.rules import broken_rules
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Padding, Pair, Shape, Window
from cnn_convertor.passes import optimize
from devices.dv700.legal import legalize
from reference import ir_reference, program_reference, random_networks

RANDOM = np.random.default_rng(0)
SMALL = Limits(max_width=20, max_height=12, max_channels=16, max_field=40, max_stride=4, max_dilation=4)
SMALL = SMALL._replace(max_padding_left_top=9, max_padding_right_bottom=9)


def some(*shape: int) -> Constant:
    return Constant.of(RANDOM.normal(size=shape))


def conv(out: int, channels: int, *kernel: int, groups: int = 1, function: Any = None, **window: Any) -> ops.Conv2d:
    made = Window(Pair(*kernel))._replace(**window)
    return ops.Conv2d(some(out, channels // groups, *kernel), some(out), made, groups, function)


def deconv(
    out: int, channels: int, kernel: int, *, more: int = 0, groups: int = 1, **window: Any
) -> ops.ConvTranspose2d:
    made = Window(Pair(kernel, kernel))._replace(**window)
    weight = some(out, channels // groups, kernel, kernel)
    return ops.ConvTranspose2d(weight, some(out), made, Pair(more, more), groups)


def chain(*made: Op, shape: Shape) -> Graph:
    nodes = [Node("x", ops.Input(shape))]
    for op, name in zip(made, "abcdefgh", strict=False):
        inputs = (nodes[-1].name,) * (2 if isinstance(op, ops.Add) else 1)
        nodes.append(Node(name, op, inputs, (Origin("net", name),)))
    return Graph(tuple(nodes), (nodes[-1].name,))


def fitted(graph: Graph, limits: Limits = SMALL, *, transposed: bool) -> Graph:
    """The legal graph, which breaks no rule and computes the same."""
    device = DV700._replace(limits=limits)
    result = legalize(graph, device, transposed=transposed)
    assert broken_rules(*partition(result, device, transposed=transposed), device, legal=result) == ()
    x = random_networks.inputs_for(graph)
    before, after = ir_reference.run(graph, x), program_reference.run_legal(result, x, transposed=transposed)
    for old, new in zip(graph.outputs, result.outputs, strict=True):
        close = 1e-4 * max(1e-3, np.abs(before[old]).max())
        np.testing.assert_allclose(after[new].reshape(-1), before[old].reshape(-1), rtol=1e-4, atol=close)
    return result


def executors(graph: Graph) -> str:
    """The operators that compute or copy, those of the CPU in lower case; views are left out."""
    words = []
    for node in graph.nodes:
        match node.op:
            case ops.OnCpu(op=op):
                words.append(type(op).__name__.lower())
            case ops.Reshape(order=ops.Order.MEMORY) | ops.ChannelSlice() | ops.Input():
                pass
            case op:
                words.append(type(op).__name__)
    return " ".join(words)


SAME = Padding(1, 1, 1, 1)
CASES: dict[str, tuple[Graph, str]] = {
    "a sum of a long map": (chain(ops.Add(), shape=Shape(1, 60, 5)), "Add"),
    "an activation of a high map": (
        chain(ops.Activation(ops.Sigmoid()), shape=Shape(30, 4, 11)), "AveragePool2d Reshape"),
    "a sum of a prime number of pixels": (chain(ops.Add(), shape=Shape(1, 23, 8)), "Add"),
    "a sum of a prime number of pixels with a prime number of channels": (
        chain(ops.Add(), shape=Shape(1, 47, 3)), "spacetodepth spacetodepth Add crop"),
    "an activation of a long vector": (chain(ops.Activation(ops.Tanh()), shape=Shape(1, 1, 80)), "AveragePool2d"),
    "an activation of the longest vector": (chain(ops.Activation(ops.Tanh()), shape=Shape(1, 1, 20 * 40)), "AveragePool2d"),
    "a scale of a long map": (chain(ops.Scale(some(5), some(5)), shape=Shape(3, 40, 5)), "Conv2d"),
    "a scale of a prime number of pixels": (
        chain(ops.Scale(some(5), some(5)), shape=Shape(1, 47, 5)), "spacetodepth Conv2d crop"),
    "slopes of many channels": (
        chain(ops.Activation(ops.PRelu(some(37))), shape=Shape(1, 1, 37)), "Conv2d Conv2d Conv2d Concat"),
    "a 1x1 convolution of a long map": (chain(conv(9, 3, 1, 1), shape=Shape(1, 60, 3)), "Conv2d Reshape"),
    "two 1x1 convolutions and an activation": (
        chain(conv(8, 3, 1, 1), ops.Activation(ops.Relu()), conv(4, 8, 1, 1), ops.Activation(ops.Sigmoid()), shape=Shape(2, 30, 3)),
        "Conv2d AveragePool2d Conv2d AveragePool2d"),
    "a 3x3 convolution of a wide map": (
        chain(conv(5, 3, 3, 3, padding=SAME), shape=Shape(4, 30, 3)), "crop Conv2d crop Conv2d concat"),
    "a strided convolution of a high map": (
        chain(conv(5, 3, 3, 3, stride=Pair(2, 2)), shape=Shape(15, 15, 3)), "crop Conv2d crop Conv2d concat"),
    "a depthwise convolution of a wide map": (
        chain(conv(3, 3, 3, 3, groups=3, padding=SAME), shape=Shape(4, 30, 3)),
        "crop Conv2d crop Conv2d concat"),
    "a dilated convolution of a wide map": (
        chain(conv(5, 3, 1, 5, dilation=Pair(1, 2), padding=Padding(0, 0, 4, 4)), shape=Shape(4, 30, 3)), ""),
    "a fully connected layer of many inputs": (
        chain(ops.Dense(some(5, 3, 3, 5), some(5), ops.Relu()), shape=Shape(3, 5, 3)), "Conv2d Conv2d Add Conv2d Add"),
    "a fully connected layer of many inputs and outputs": (
        chain(ops.Dense(some(20, 37, 1, 1), some(20)), shape=Shape(1, 1, 37)), ""),
    "a fully connected layer of many inputs with slopes": (
        chain(ops.Dense(some(5, 37, 1, 1), some(5), ops.PRelu(some(5))), shape=Shape(1, 1, 37)), ""),
    "a convolution of many channels": (
        chain(conv(5, 39, 3, 3, padding=SAME, function=ops.Relu()), shape=Shape(4, 5, 39)), "Conv2d Conv2d Add Conv2d Add"),
    "a convolution to many channels": (
        chain(conv(39, 5, 3, 3, function=ops.PRelu(some(39))), shape=Shape(4, 5, 5)), "Conv2d Conv2d Conv2d Concat Reshape"),
    "a depthwise convolution of many channels": (
        chain(conv(39, 39, 3, 3, groups=39), shape=Shape(4, 5, 39)), "Conv2d Conv2d Conv2d Concat Reshape"),
    "a deconvolution of many channels": (
        chain(deconv(5, 39, 3, stride=Pair(2, 2)), shape=Shape(4, 5, 39)), ""),
    "a deconvolution of a wide map": (
        chain(deconv(4, 5, 4, stride=Pair(2, 2), padding=SAME), shape=Shape(4, 15, 5)), ""),
    "a deconvolution with more output than its kernel reaches": (
        chain(deconv(4, 5, 8, stride=Pair(3, 3), more=2), shape=Shape(3, 3, 5)), ""),
    "a deconvolution that cuts more than its kernel": (
        chain(deconv(4, 5, 2, stride=Pair(2, 2), padding=Padding(3, 2, 2, 4)), shape=Shape(5, 6, 5)), ""),
    "a stride of many pixels": (
        chain(conv(4, 3, 3, 2, stride=Pair(5, 1), padding=SAME), shape=Shape(12, 6, 3)),
        "spacetodepth crop crop crop crop crop crop concat Conv2d Conv2d Add"),
    "a stride of many pixels, depthwise": (chain(conv(3, 3, 2, 2, stride=Pair(5, 5), groups=3), shape=Shape(12, 12, 3)), ""),
    "a dilation of many pixels": (
        chain(conv(4, 3, 3, 1, dilation=Pair(5, 1), padding=Padding(5, 5, 0, 0)), shape=Shape(12, 6, 3)), ""),
    "padding to a large map": (chain(ops.Pad(Padding(0, 0, 5, 6)), shape=Shape(3, 15, 3)), "spacetodepth"),
    "upsampling to a large map": (chain(ops.Upsample(Pair(2, 2)), shape=Shape(3, 15, 3)), "resize"),
    "a max pool of a large map": (
        chain(ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2)), ops.Relu()), shape=Shape(4, 50, 3)), "maxpool2d AveragePool2d"),
    "an average pool of a large map": (
        chain(ops.AveragePool2d(Window(Pair(2, 2), Pair(2, 2))), shape=Shape(4, 30, 3)), "averagepool2d"),
    "a scale of more pixels than a map has": (
        chain(ops.Scale(some(5), some(5)), ops.Activation(ops.Relu()), shape=Shape(13, 23, 5)), ""),
    "slopes of a sum of a long map": (chain(conv(4, 4, 1, 1), ops.Add(ops.PRelu(some(4))), shape=Shape(13, 10, 4)), ""),
    "taps that see padding alone": (
        chain(conv(4, 9, 3, 3, dilation=Pair(4, 4), padding=Padding(4, 4, 4, 4)), shape=Shape(4, 4, 9)), "Conv2d"),
    "a convolution without padding on one side": (
        chain(conv(4, 3, 4, 4, padding=Padding(0, 3, 3, 0)), shape=Shape(4, 4, 3)), "Conv2d"),
    "windows of nothing but padding": (
        chain(conv(4, 3, 2, 2, stride=Pair(2, 2), padding=Padding(2, 4, 4, 2)), shape=Shape(2, 3, 3)), "Conv2d"),
}  # fmt: skip


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_what_is_too_large_computes_the_same(case: str, transposed: bool) -> None:
    graph, words = CASES[case]
    made = executors(fitted(graph, transposed=transposed))
    assert not words or made == words


def test_each_rewrite_for_sizes_has_work_in_these_cases() -> None:
    passes = legalization(DV700._replace(limits=SMALL), Fusion.FULL, True, False, NO_PALETTES)
    active = set()
    shared = Graph((*chain(ops.Add(), shape=Shape(1, 60, 8)).nodes, Node("b", ops.Concat(), ("a", "a"))), ("b",))
    slopes = chain(ops.Add(ops.PRelu(some(40))), shape=Shape(2, 2, 40))
    for graph in (*(graph for graph, _ in CASES.values()), shared, slopes):
        for each in passes:
            after = each.rewrite(graph)
            if after != graph:
                active.add(each.name)
            graph = after
    assert {"drop-taps", "gather-taps", "tile-maps", "refold-pixels", "refold-copies"} <= active
    assert {"split-channels", "split-channels-of-slopes"} <= active


def test_convolutions_fit_a_small_unified_buffer() -> None:
    """In parts of the channels; of a high map that does not fit with 8 channels, in parts of the rows."""
    buffer = Limits(ub_size=1 << 14)
    channels = fitted(chain(conv(9, 200, 3, 3, padding=SAME), shape=Shape(16, 6, 200)), buffer, transposed=True)
    assert executors(channels).startswith("Conv2d Conv2d Add")
    dilated = conv(9, 80, 3, 3, dilation=Pair(6, 6), padding=Padding(6, 6, 6, 6))
    fitted(chain(dilated, shape=Shape(8, 8, 80)), buffer, transposed=False)
    lower = Limits(ub_size=1 << 13)
    high = fitted(chain(conv(9, 16, 3, 3, padding=SAME), shape=Shape(300, 4, 16)), lower, transposed=True)
    assert "crop" in executors(high) and "concat" in executors(high)
    pixels = fitted(chain(conv(9, 64, 1, 1), shape=Shape(300, 4, 64)), buffer, transposed=True)
    assert executors(pixels) == "Conv2d Reshape"  # in fewer rows


@pytest.mark.parametrize(
    ("pixels", "expected"), [(8400, (5, 1680)), (33600, (20, 1680)), (2053, None), (16000, (8, 2000))]
)
def test_pixels_have_as_few_rows_as_possible(pixels: int, expected: tuple[int, int] | None) -> None:
    made = refolded(Shape(1, pixels, 4), Limits())
    assert (None if made is None else made[:2]) == expected


@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, 8), transposed=st.booleans())
def test_any_network_fits_small_limits(seed: int, steps: int, transposed: bool) -> None:
    limits = Limits(max_width=11, max_height=9, max_channels=64, max_field=4096, max_stride=2)
    graph = optimize(random_networks.network(seed, steps))
    device = DV700._replace(limits=limits)
    result = legalize(graph, device, transposed=transposed)
    x = random_networks.inputs_for(graph)
    before, after = ir_reference.run(graph, x), program_reference.run_legal(result, x, transposed=transposed)
    for old, new in zip(graph.outputs, result.outputs, strict=True):
        close = 1e-4 * max(1e-3, np.abs(before[old]).max())
        np.testing.assert_allclose(after[new].reshape(-1), before[old].reshape(-1), rtol=1e-4, atol=close)
    left = broken_rules(*partition(result, device, transposed=transposed), device, legal=result)
    assert {problem.code for problem in left} <= {"DV416"}
