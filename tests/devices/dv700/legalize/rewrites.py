"""Graphs, and the lines of what makes them legal."""

from __future__ import annotations

from typing import Any

import numpy as np

from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Order, Padding, Pair, Shape, Window

RANDOM = np.random.default_rng(0)


def some(*shape: int) -> Constant:
    return Constant.of(RANDOM.normal(size=shape))


def chain(*made: Op, shape: Shape = Shape(6, 6, 4), outputs: str = "") -> Graph:
    nodes = [Node("x", ops.Input(shape))]
    for op, name in zip(made, "abcdefgh", strict=False):
        nodes.append(Node(name, op, (nodes[-1].name,), (Origin("net", name),)))
    return Graph(tuple(nodes), tuple(outputs.split()) or (nodes[-1].name,))


def conv(
    out: int,
    per_group: int,
    kernel: int = 3,
    *,
    groups: int = 1,
    function: ops.Function | None = None,
    **window: Any,
) -> ops.Conv2d:
    made = Window(Pair(kernel, kernel))._replace(**window)
    return ops.Conv2d(some(out, per_group, kernel, kernel), some(out), made, groups, function)


PRELU = ops.PRelu(some(4))


DEPTHWISE = "Conv2d[weight=Constant(4x1x1x1) window=kernel=1x1 groups=4"


REWRITES: dict[str, tuple[Graph, list[str]]] = {
    "slopes of a sum": (
        Graph((Node("x", ops.Input(Shape(2, 2, 4))), Node("a", ops.Add(PRELU), ("x", "x"))), ("a",)),
        ["a/linear = Add(x, x) -> 2x2x4", f"a = {DEPTHWISE} activation=PRelu[slopes=Constant(4)]](a/linear) -> 2x2x4"],
    ),
    "slopes of a pool": (
        chain(ops.AveragePool2d(Window(Pair(2, 2)), activation=PRELU)),
        ["a/linear = AveragePool2d[window=kernel=2x2](x) -> 5x5x4",
         f"a = {DEPTHWISE} activation=PRelu[slopes=Constant(4)]](a/linear) -> 5x5x4"],
    ),
    "slopes of a max pool that joins a convolution": (
        chain(conv(4, 4), ops.MaxPool2d(Window(Pair(2, 2)), PRELU)),
        ["a = Conv2d[weight=Constant(4x4x3x3) bias=Constant(4) window=kernel=3x3](x) -> 4x4x4",
         "b = MaxPool2d[window=kernel=2x2 activation=PRelu[slopes=Constant(4)]](a) -> 3x3x4"],
    ),
    "slopes of a max pool that is split": (
        chain(conv(4, 4), ops.MaxPool2d(Window(Pair(4, 4)), PRELU)),
        ["a = Conv2d[weight=Constant(4x4x3x3) bias=Constant(4) window=kernel=3x3](x) -> 4x4x4",
         "b/1 = MaxPool2d[window=kernel=2x2 stride=2x2](a) -> 2x2x4",
         "b/linear = MaxPool2d[window=kernel=2x2 stride=2x2](b/1) -> 1x1x4",
         f"b = {DEPTHWISE} activation=PRelu[slopes=Constant(4)]](b/linear) -> 1x1x4"],
    ),
    "slopes of a dilated convolution": (
        chain(conv(4, 4, function=PRELU, dilation=Pair(2, 2), padding=Padding(2, 2, 2, 2))),
        ["a/linear = Conv2d[weight=Constant(4x4x3x3) bias=Constant(4) window=kernel=3x3 dilation=2x2 padding=2x2x2x2](x) -> 6x6x4",
         f"a = {DEPTHWISE} activation=PRelu[slopes=Constant(4)]](a/linear) -> 6x6x4"],
    ),
    "slopes alone": (
        chain(ops.Activation(PRELU)),
        [f"a = {DEPTHWISE} activation=PRelu[slopes=Constant(4)]](x) -> 6x6x4"],
    ),
    "an activation alone": (
        chain(ops.Activation(ops.Elu())),
        ["a = AveragePool2d[window=kernel=1x1 factor=1.0 activation=Elu](x) -> 6x6x4"],
    ),
    "a scale": (
        chain(ops.Scale(some(4), some(4), ops.Relu())),
        ["a = Conv2d[weight=Constant(4x1x1x1) bias=Constant(4) window=kernel=1x1 groups=4 activation=Relu](x) -> 6x6x4"],
    ),
    "a scale by one number": (
        chain(ops.Scale(Constant.of([0.5] * 4), None, ops.Relu())),
        ["a = AveragePool2d[window=kernel=1x1 factor=0.5 activation=Relu](x) -> 6x6x4"],
    ),
    "a padding": (
        chain(ops.Pad(Padding(1, 2, 3, 0))),
        ["a = Conv2d[weight=Constant(4x1x1x1) window=kernel=1x1 padding=1x2x3x0 groups=4](x) -> 9x9x4"],
    ),
    "a padding of one channel": (
        chain(ops.Pad(Padding(1, 2, 3, 0)), shape=Shape(6, 6, 1)),
        ["a = Conv2d[weight=Constant(1x1x1x1) window=kernel=1x1 padding=1x2x3x0](x) -> 9x9x1"],
    ),
    "upsampling by 2": (chain(ops.Upsample(Pair(2, 2))), ["a = Upsample[factor=2x2](x) -> 12x12x4"]),
    "upsampling by 4": (
        chain(ops.Upsample(Pair(4, 4))),
        ["a/1 = Upsample[factor=2x2](x) -> 12x12x4", "a = Upsample[factor=2x2](a/1) -> 24x24x4"],
    ),
    "upsampling by 1": (chain(ops.Upsample(Pair(1, 1))), ["a = AveragePool2d[window=kernel=1x1 factor=1.0](x) -> 6x6x4"]),
    "upsampling by 2 x 3": (
        chain(ops.Upsample(Pair(2, 3))),
        ["a = ConvTranspose2d[weight=Constant(4x1x2x3) window=kernel=2x3 stride=2x3 groups=4](x) -> 12x18x4"],
    ),
    "groups": (
        chain(conv(6, 2, groups=2)),
        ["a = Conv2d[weight=Constant(6x4x3x3) bias=Constant(6) window=kernel=3x3](x) -> 4x4x6"],
    ),
    "a depth multiplier": (
        chain(conv(8, 1, groups=4)),
        ["a = Conv2d[weight=Constant(8x4x3x3) bias=Constant(8) window=kernel=3x3](x) -> 4x4x8"],
    ),
    "a depthwise convolution": (
        chain(conv(4, 1, groups=4)),
        ["a = Conv2d[weight=Constant(4x1x3x3) bias=Constant(4) window=kernel=3x3 groups=4](x) -> 4x4x4"],
    ),
    "groups of a deconvolution": (
        chain(ops.ConvTranspose2d(some(6, 2, 3, 3), None, Window(Pair(3, 3)), groups=2)),
        ["a = ConvTranspose2d[weight=Constant(6x4x3x3) window=kernel=3x3](x) -> 8x8x6"],
    ),
    "a dilation that the device has": (
        chain(conv(4, 4, dilation=Pair(2, 2), padding=Padding(2, 2, 2, 2))),
        ["a = Conv2d[weight=Constant(4x4x3x3) bias=Constant(4) window=kernel=3x3 dilation=2x2 padding=2x2x2x2](x) -> 6x6x4"],
    ),
    "a dilation with a stride, padded as SAME_UPPER": (
        chain(conv(4, 4, dilation=Pair(2, 2), stride=Pair(2, 2), padding=Padding(1, 2, 1, 2)), shape=Shape(16, 16, 4)),
        ["a = Conv2d[weight=Constant(4x4x3x3) bias=Constant(4) window=kernel=3x3 stride=2x2 dilation=2x2 padding=1x3x1x3](x) -> 8x8x4"],
    ),
    "a large dilation with a stride, padded as SAME_UPPER": (
        chain(conv(4, 4, dilation=Pair(5, 4), stride=Pair(3, 2), padding=Padding(4, 4, 3, 4)), shape=Shape(15, 16, 4)),
        ["a = Conv2d[weight=Constant(4x4x3x3) bias=Constant(4) window=kernel=3x3 stride=3x2 dilation=5x4 padding=4x6x3x5](x) -> 5x8x4"],
    ),
    "a dilation without 'same' output": (
        chain(conv(4, 4, dilation=Pair(2, 2))),
        ["a = Conv2d[weight=Constant(4x4x5x5) bias=Constant(4) window=kernel=5x5](x) -> 2x2x4"],
    ),
    "a dilation of an even kernel": (
        chain(conv(4, 4, 2, dilation=Pair(2, 2), padding=Padding(1, 1, 1, 1))),
        ["a = Conv2d[weight=Constant(4x4x3x3) bias=Constant(4) window=kernel=3x3 padding=1x1x1x1](x) -> 6x6x4"],
    ),
    "a dilation of a 1x1 kernel": (
        chain(conv(4, 4, 1, dilation=Pair(3, 3))),
        ["a = Conv2d[weight=Constant(4x4x1x1) bias=Constant(4) window=kernel=1x1](x) -> 6x6x4"],
    ),
    "a large dilation without padding": (
        chain(conv(4, 4, dilation=Pair(5, 5)), shape=Shape(12, 12, 4)),
        ["a/same = Conv2d[weight=Constant(4x4x3x3) bias=Constant(4) window=kernel=3x3 dilation=5x5 padding=5x5x5x5](x) -> 12x12x4",
         "a = OnCpu[op=Crop[start=5x5x0 stop=7x7x4]](a/same) -> 2x2x4"],
    ),
    "a large dilation with a stride and much padding": (
        chain(conv(4, 4, dilation=Pair(4, 5), stride=Pair(2, 3), padding=Padding(7, 0, 2, 9)), shape=Shape(12, 12, 4)),
        ["a/padded = Conv2d[weight=Constant(4x1x1x1) window=kernel=1x1 padding=3x0x0x4 groups=4](x) -> 15x16x4",
         "a/same = Conv2d[weight=Constant(4x4x3x3) bias=Constant(4) window=kernel=3x3 dilation=4x5 padding=4x4x5x5](a/padded) -> 15x16x4",
         "a = OnCpu[op=Crop[start=0x3x0 stop=11x16x4 stride=2x3x1]](a/same) -> 6x5x4"],
    ),
    "a large dilation of an even kernel": (
        chain(conv(4, 4, 2, dilation=Pair(7, 7), function=ops.Relu()), shape=Shape(12, 12, 4)),
        ["a/same = Conv2d[weight=Constant(4x4x3x3) bias=Constant(4) window=kernel=3x3 dilation=7x7 padding=7x7x7x7 activation=Relu](x) -> 12x12x4",
         "a = OnCpu[op=Crop[start=7x7x0 stop=12x12x4]](a/same) -> 5x5x4"],
    ),
    "groups of whole chunks, on a large map": (
        chain(conv(32, 16, groups=2, function=ops.Relu()), conv(4, 32, 1), shape=Shape(96, 96, 32)),
        ["a/slice0 = ChannelSlice[first=0 count=16](x) -> 96x96x16",
         "a/group0 = Conv2d[weight=Constant(16x16x3x3) bias=Constant(16) window=kernel=3x3 activation=Relu](a/slice0) -> 94x94x16",
         "a/slice1 = ChannelSlice[first=16 count=16](x) -> 96x96x16",
         "a/group1 = Conv2d[weight=Constant(16x16x3x3) bias=Constant(16) window=kernel=3x3 activation=Relu](a/slice1) -> 94x94x16",
         "a = Concat(a/group0, a/group1) -> 94x94x32",
         "b = Conv2d[weight=Constant(4x32x1x1) bias=Constant(4) window=kernel=1x1](a) -> 94x94x4"],
    ),
    "groups of which some fill a chunk": (
        chain(conv(32, 4, groups=8, function=ops.PRelu(some(32))), conv(4, 32, 1), shape=Shape(96, 96, 32)),
        ["a/slice0 = ChannelSlice[first=0 count=16](x) -> 96x96x16",
         "a/group0 = Conv2d[weight=Constant(16x16x3x3) bias=Constant(16) window=kernel=3x3 activation=PRelu[slopes=Constant(16)]](a/slice0) -> 94x94x16",
         "a/slice1 = ChannelSlice[first=16 count=16](x) -> 96x96x16",
         "a/group1 = Conv2d[weight=Constant(16x16x3x3) bias=Constant(16) window=kernel=3x3 activation=PRelu[slopes=Constant(16)]](a/slice1) -> 94x94x16",
         "a = Concat(a/group0, a/group1) -> 94x94x32",
         "b = Conv2d[weight=Constant(4x32x1x1) bias=Constant(4) window=kernel=1x1](a) -> 94x94x4"],
    ),
    "groups that cost less together: a command has its own time": (
        chain(conv(16, 8, groups=2, function=ops.Relu()), conv(4, 16, 1), shape=Shape(6, 6, 16)),
        ["a = Conv2d[weight=Constant(16x16x3x3) bias=Constant(16) window=kernel=3x3 activation=Relu](x) -> 4x4x16",
         "b = Conv2d[weight=Constant(4x16x1x1) bias=Constant(4) window=kernel=1x1](a) -> 4x4x4"],
    ),
    "a large kernel with a stride": (
        chain(conv(5, 3, 11, stride=Pair(4, 4), padding=Padding(1, 2, 0, 0), function=ops.Relu()), shape=Shape(25, 31, 3)),
        ["a/blocks = OnCpu[op=SpaceToDepth[block=4x4 padding=1x2x0x1]](x) -> 7x8x48",
         "a = Conv2d[weight=Constant(5x48x3x3) bias=Constant(5) window=kernel=3x3 activation=Relu](a/blocks) -> 5x6x5"],
    ),
    "a large kernel whose last rows are not read": (
        chain(conv(5, 3, 8, stride=Pair(3, 2)), shape=Shape(13, 11, 3)),
        ["a/blocks = OnCpu[op=SpaceToDepth[block=3x2 padding=0x-1x0x-1]](x) -> 4x5x18",
         "a = Conv2d[weight=Constant(5x18x3x4) bias=Constant(5) window=kernel=3x4](a/blocks) -> 2x2x5"],
    ),
    "a large kernel in pieces": (
        chain(conv(4, 4, 9, padding=Padding(4, 4, 4, 4), function=ops.Relu()), shape=Shape(9, 8, 4)),
        ["a/part0 = Conv2d[weight=Constant(4x4x7x7) bias=Constant(4) window=kernel=7x7 padding=4x2x4x2](x) -> 9x8x4",
         "a/part1 = Conv2d[weight=Constant(4x4x7x5) window=kernel=7x5 padding=4x2x0x4](x) -> 9x8x4",
         "a/sum1 = Add(a/part0, a/part1) -> 9x8x4",
         "a/part2 = Conv2d[weight=Constant(4x4x5x7) window=kernel=5x7 padding=0x4x4x2](x) -> 9x8x4",
         "a/sum2 = Add(a/sum1, a/part2) -> 9x8x4",
         "a/part3 = Conv2d[weight=Constant(4x4x5x5) window=kernel=5x5 padding=0x4x0x4](x) -> 9x8x4",
         "a = Add[activation=Relu](a/sum2, a/part3) -> 9x8x4"],
    ),
    "a long depthwise kernel in pieces": (
        chain(
            ops.Conv2d(some(4, 1, 13, 1), None, Window(Pair(13, 1), padding=Padding(6, 6, 0, 0)), 4),
            shape=Shape(7, 6, 4),
        ),
        ["a/part0 = Conv2d[weight=Constant(4x1x7x1) window=kernel=7x1 padding=6x0x0x0 groups=4](x) -> 7x6x4",
         "a/part1 = Conv2d[weight=Constant(4x1x7x1) window=kernel=7x1 padding=0x6x0x0 groups=4](x) -> 7x6x4",
         "a = Add(a/part0, a/part1) -> 7x6x4"],
    ),
    "a large kernel without padding": (
        chain(conv(4, 4, 9, function=ops.Relu()), shape=Shape(12, 9, 4)),
        ["a/part0 = Conv2d[weight=Constant(4x4x7x7) bias=Constant(4) window=kernel=7x7 padding=2x0x2x0](x) -> 8x5x4",
         "a/part1 = Conv2d[weight=Constant(4x4x7x7) window=kernel=7x7 padding=2x0x0x2](x) -> 8x5x4",
         "a/sum1 = Add(a/part0, a/part1) -> 8x5x4",
         "a/part2 = Conv2d[weight=Constant(4x4x7x7) window=kernel=7x7 padding=0x2x2x0](x) -> 8x5x4",
         "a/sum2 = Add(a/sum1, a/part2) -> 8x5x4",
         "a/part3 = Conv2d[weight=Constant(4x4x7x7) window=kernel=7x7 padding=0x2x0x2](x) -> 8x5x4",
         "a/sum3 = Add[activation=Relu](a/sum2, a/part3) -> 8x5x4",
         "a = OnCpu[op=Crop[start=2x2x0 stop=6x3x4]](a/sum3) -> 4x1x4"],
    ),
    "a long kernel with a stride": (
        chain(ops.Conv2d(some(5, 1, 33, 1), some(5), Window(Pair(33, 1), Pair(4, 1))), shape=Shape(45, 1, 1)),
        ["a/blocks = OnCpu[op=SpaceToDepth[block=4x1 padding=0x3x0x0]](x) -> 12x1x4",
         "a/part0 = Conv2d[weight=Constant(5x4x7x1) bias=Constant(5) window=kernel=7x1 padding=2x0x0x0](a/blocks) -> 8x1x5",
         "a/part1 = Conv2d[weight=Constant(5x4x7x1) window=kernel=7x1 padding=0x2x0x0](a/blocks) -> 8x1x5",
         "a/sum1 = Add(a/part0, a/part1) -> 8x1x5",
         "a = OnCpu[op=Crop[start=2x0x0 stop=6x1x5]](a/sum1) -> 4x1x5"],
    ),
    "a large dilated kernel": (
        chain(ops.Conv2d(some(4, 1, 8, 1), None, Window(Pair(8, 1), dilation=Pair(2, 1), padding=Padding(14, 0, 0, 0)), 4), shape=Shape(20, 1, 4)),
        ["a/part0 = Conv2d[weight=Constant(4x1x7x1) window=kernel=7x1 padding=14x0x0x0 groups=4](x) -> 28x1x4",
         "a/part1 = Conv2d[weight=Constant(4x1x7x1) window=kernel=7x1 padding=7x7x0x0 groups=4](x) -> 28x1x4",
         "a/sum1 = Add(a/part0, a/part1) -> 28x1x4",
         "a/part2 = Conv2d[weight=Constant(4x1x1x1) window=kernel=1x1 padding=0x8x0x0 groups=4](x) -> 28x1x4",
         "a/sum2 = Add(a/sum1, a/part2) -> 28x1x4",
         "a = OnCpu[op=Crop[start=0x0x0 stop=20x1x4]](a/sum2) -> 20x1x4"],
    ),
    "more padding than a command has": (
        chain(conv(4, 4, padding=Padding(1, 1, 300, 256)), shape=Shape(3, 4, 4)),
        [f"a/padded0 = {DEPTHWISE[:-len(' groups=4')]} padding=0x0x127x1 groups=4](x) -> 3x132x4",
         f"a/padded1 = {DEPTHWISE[:-len(' groups=4')]} padding=0x0x46x0 groups=4](a/padded0) -> 3x178x4",
         "a = Conv2d[weight=Constant(4x4x3x3) bias=Constant(4) window=kernel=3x3 padding=1x1x127x255](a/padded1) -> 3x558x4"],
    ),
    "slices on chunks and off": (
        chain(ops.Crop(Shape(0, 0, 8), Shape(6, 6, 20)), ops.Crop(Shape(0, 0, 8), Shape(6, 6, 11)), conv(4, 3, 1), shape=Shape(6, 6, 20)),
        ["a = ChannelSlice[first=8 count=12](x) -> 6x6x12", "c = Conv2d[weight=Constant(4x12x1x1) bias=Constant(4) window=kernel=1x1](a) -> 6x6x4"],
    ),
    "a slice that is an output": (
        chain(ops.Crop(Shape(0, 0, 8), Shape(6, 6, 16)), shape=Shape(6, 6, 20)),
        ["a = ChannelSlice[first=8 count=8](x) -> 6x6x8", "a/copy = AveragePool2d[window=kernel=1x1 factor=1.0](a) -> 6x6x8"],
    ),
    "activation behind a pool on the CPU": (
        chain(ops.AveragePool2d(Window(Pair(3, 3)), Padding(1, 1, 1, 1), activation=ops.Relu())),
        ["a/linear = OnCpu[op=AveragePool2d[window=kernel=3x3 uncounted=1x1x1x1]](x) -> 6x6x4",
         "a = AveragePool2d[window=kernel=1x1 factor=1.0 activation=Relu](a/linear) -> 6x6x4"],
    ),
    "a chunked output of the CPU": (chain(ops.Unary(ops.Absolute()), shape=Shape(2, 2, 9)), ["a = OnCpu[op=Unary[function=Absolute]](x) -> 2x2x9"]),
    "a chunked output of the CPU that the device reads, too": (
        chain(ops.Unary(ops.Gelu()), conv(4, 9, 1), shape=Shape(2, 2, 9), outputs="a b"),
        ["a = OnCpu[op=Unary[function=Gelu]](x) -> 2x2x9",
         "b = Conv2d[weight=Constant(4x9x1x1) bias=Constant(4) window=kernel=1x1](a) -> 2x2x4",
         "a/flatten = Reshape[shape=1x1x36 order=Order.HWC](a) -> 1x1x36"],
    ),
    "a dilated deconvolution with a stride": (
        chain(ops.ConvTranspose2d(some(4, 4, 3, 3), None, Window(Pair(3, 3), Pair(2, 2), Pair(2, 2)))),
        ["a = ConvTranspose2d[weight=Constant(4x4x5x5) window=kernel=5x5 stride=2x2](x) -> 15x15x4"],
    ),
    "a large deconvolution": (
        chain(ops.ConvTranspose2d(some(5, 4, 8, 9), some(5), Window(Pair(8, 9), Pair(4, 4), padding=Padding(2, 3, 1, 2)), activation=ops.PRelu(some(5)))),
        ["a/places = Conv2d[weight=Constant(80x4x2x3) bias=Constant(80) window=kernel=2x3 padding=1x1x2x2 activation=PRelu[slopes=Constant(80)]](x) -> 7x8x80",
         "a/pixels = OnCpu[op=TransposeReshape[dims=(7, 8, 5, 4, 4) axes=(0, 3, 1, 4, 2) shape=28x32x5 order=Order.HWC]](a/places) -> 28x32x5",
         "a = OnCpu[op=Crop[start=2x1x0 stop=25x27x5]](a/pixels) -> 23x26x5"],
    ),
    "a large depthwise deconvolution": (
        chain(ops.ConvTranspose2d(some(4, 1, 16, 16), None, Window(Pair(16, 16), Pair(8, 8), padding=Padding(4, 4, 4, 4)), groups=4)),
        ["a/places = Conv2d[weight=Constant(256x4x2x2) window=kernel=2x2 padding=1x1x1x1](x) -> 7x7x256",
         "a/pixels = OnCpu[op=TransposeReshape[dims=(7, 7, 4, 8, 8) axes=(0, 3, 1, 4, 2) shape=56x56x4 order=Order.HWC]](a/places) -> 56x56x4",
         "a = OnCpu[op=Crop[start=4x4x0 stop=52x52x4]](a/pixels) -> 48x48x4"],
    ),
    "a large deconvolution with more output": (
        chain(ops.ConvTranspose2d(some(4, 4, 9, 9), None, Window(Pair(9, 9), Pair(5, 5)), Pair(1, 1))),
        ["a/places = Conv2d[weight=Constant(100x4x2x2) window=kernel=2x2 padding=1x1x1x1](x) -> 7x7x100",
         "a = OnCpu[op=TransposeReshape[dims=(7, 7, 4, 5, 5) axes=(0, 3, 1, 4, 2) shape=35x35x4 order=Order.HWC]](a/places) -> 35x35x4"],
    ),
    "a large, dilated deconvolution": (
        chain(ops.ConvTranspose2d(some(4, 4, 2, 3), None, Window(Pair(2, 3), dilation=Pair(2, 4)))),
        ["a/part0 = Conv2d[weight=Constant(4x4x3x7) window=kernel=3x7 padding=2x2x8x6](x) -> 8x14x4",
         "a/part1 = Conv2d[weight=Constant(4x4x3x2) window=kernel=3x2 padding=2x2x1x8](x) -> 8x14x4",
         "a = Add(a/part0, a/part1) -> 8x14x4"],
    ),
    "a max pool of one element": (
        chain(ops.MaxPool2d(Window(Pair(1, 1), Pair(2, 2)))),
        ["a = AveragePool2d[window=kernel=1x1 stride=2x2 factor=1.0](x) -> 3x3x4"],
    ),
    "a dilated pool": (
        chain(ops.MaxPool2d(Window(Pair(2, 2), dilation=Pair(2, 1)))),
        ["a = OnCpu[op=MaxPool2d[window=kernel=2x2 dilation=2x1]](x) -> 4x5x4"],
    ),
    "a dilated average": (
        chain(ops.AveragePool2d(Window(Pair(9, 1), dilation=Pair(1, 2), padding=Padding(2, 2, 0, 0)), activation=ops.Relu())),
        ["a/linear = OnCpu[op=AveragePool2d[window=kernel=9x1 dilation=1x2 padding=2x2x0x0]](x) -> 2x6x4",
         "a = AveragePool2d[window=kernel=1x1 factor=1.0 activation=Relu](a/linear) -> 2x6x4"],
    ),
    "a large max pool": (
        chain(ops.MaxPool2d(Window(Pair(5, 5), padding=Padding(2, 2, 2, 2)), ops.Relu())),
        ["a/1 = MaxPool2d[window=kernel=3x3 padding=2x2x2x2](x) -> 8x8x4",
         "a = MaxPool2d[window=kernel=3x3 activation=Relu](a/1) -> 6x6x4"],
    ),
    "a global average pool": (
        chain(ops.AveragePool2d(Window(Pair(14, 14)), activation=ops.Relu()), shape=Shape(14, 14, 4)),
        ["a/1 = AveragePool2d[window=kernel=7x7 stride=7x7](x) -> 2x2x4",
         f"a = AveragePool2d[window=kernel=2x2 factor={1 / 196 * 49} activation=Relu](a/1) -> 1x1x4"],
    ),
    "padding that a given factor makes equal": (
        chain(ops.AveragePool2d(Window(Pair(3, 3)), Padding(1, 1, 1, 1), 0.5)),
        ["a = AveragePool2d[window=kernel=3x3 padding=1x1x1x1 factor=0.5](x) -> 6x6x4"],
    ),
    "padding that does not count": (
        chain(ops.AveragePool2d(Window(Pair(3, 3)), Padding(1, 1, 1, 1))),
        ["a = OnCpu[op=AveragePool2d[window=kernel=3x3 uncounted=1x1x1x1]](x) -> 6x6x4"],
    ),
    "an output that is an input": (
        chain(conv(4, 4), outputs="x a x"),
        ["a = Conv2d[weight=Constant(4x4x3x3) bias=Constant(4) window=kernel=3x3](x) -> 4x4x4",
         "x/copy = AveragePool2d[window=kernel=1x1 factor=1.0](x) -> 6x6x4"],
    ),
    "a layer of few weights between layers of the CPU": (
        chain(ops.Unary(ops.Swish()), ops.Dense(some(3, 4, 1, 1), some(3), ops.Sigmoid()), ops.Unary(ops.Swish()), shape=Shape(1, 1, 4)),
        ["a = OnCpu[op=Unary[function=Swish]](x) -> 1x1x4",
         "b/linear = OnCpu[op=Dense[weight=Constant(3x4x1x1) bias=Constant(3)]](a) -> 1x1x3",
         "b = OnCpu[op=Unary[function=Sigmoid]](b/linear) -> 1x1x3",
         "c = OnCpu[op=Unary[function=Swish]](b) -> 1x1x3"],
    ),
    "a global average between a layer of the CPU and one of few weights": (
        chain(ops.Unary(ops.Swish()), ops.AveragePool2d(Window(Pair(14, 14))), conv(4, 4, 1), ops.Unary(ops.Swish()), shape=Shape(14, 14, 4)),
        ["b = OnCpu[op=InPieces[steps=Unary[function=Swish](0) AveragePool2d[window=kernel=14x14](1)]](x) -> 1x1x4",
         "c = OnCpu[op=Dense[weight=Constant(4x4x1x1) bias=Constant(4)]](b) -> 1x1x4",
         "d = OnCpu[op=Unary[function=Swish]](c) -> 1x1x4"],
    ),
    "a chunked output, twice": (
        chain(conv(9, 4), outputs="a a"),
        ["a = Conv2d[weight=Constant(9x4x3x3) bias=Constant(9) window=kernel=3x3](x) -> 4x4x9",
         "a/flatten = Reshape[shape=1x1x144 order=Order.HWC](a) -> 1x1x144"],
    ),
    "a chunked softmax": (chain(ops.Softmax(), shape=Shape(2, 2, 9)), ["a = OnCpu[op=Softmax](x) -> 2x2x9"]),
    "a free flatten": (
        chain(ops.Reshape(Shape(1, 1, 144), Order.HWC)),
        ["a = Reshape[shape=1x1x144 order=Order.MEMORY](x) -> 1x1x144", "a/copy = AveragePool2d[window=kernel=1x1 factor=1.0](a) -> 1x1x144"],
    ),
    "from map to map": (
        chain(ops.Reshape(Shape(3, 6, 16), Order.HWC), conv(4, 16), shape=Shape(6, 3, 16)),
        ["a = Reshape[shape=3x6x16 order=Order.MEMORY](x) -> 3x6x16",
         "b = Conv2d[weight=Constant(4x16x3x3) bias=Constant(4) window=kernel=3x3](a) -> 1x4x4"],
    ),
    "from chunked map to map": (
        chain(ops.Reshape(Shape(6, 6, 8), Order.HWC), conv(4, 8), shape=Shape(3, 6, 16)),
        ["a/flat = Reshape[shape=1x1x288 order=Order.HWC](x) -> 1x1x288",
         "a = Reshape[shape=6x6x8 order=Order.MEMORY](a/flat) -> 6x6x8",
         "b = Conv2d[weight=Constant(4x8x3x3) bias=Constant(4) window=kernel=3x3](a) -> 4x4x4"],
    ),
    "from chunked map to chunked map": (
        chain(ops.Reshape(Shape(3, 3, 32), Order.HWC), conv(4, 32), shape=Shape(3, 6, 16)),
        ["a = OnCpu[op=TransposeReshape[dims=(288,) axes=(0,) shape=3x3x32 order=Order.HWC]](x) -> 3x3x32",
         "b = Conv2d[weight=Constant(4x32x3x3) bias=Constant(4) window=kernel=3x3](a) -> 1x1x4"],
    ),
    "from vector to map, behind a fully connected layer": (
        chain(ops.Dense(some(36, 4, 6, 6), some(36), ops.PRelu(some(36))), ops.Reshape(Shape(2, 2, 9), Order.CHW), conv(4, 9, 1)),
        ["a = Dense[weight=Constant(36x4x6x6) bias=Constant(36) activation=PRelu[slopes=Constant(36)]](x) -> 1x1x36",
         "b = Reshape[shape=2x2x9 order=Order.MEMORY](a) -> 2x2x9",
         "c = Conv2d[weight=Constant(4x9x1x1) bias=Constant(4) window=kernel=1x1](b) -> 2x2x4"],
    ),
    "from vector to map, behind a fully connected layer that the CPU has": (
        chain(ops.Unary(ops.Absolute()), ops.Dense(some(36, 4, 1, 1), None), ops.Reshape(Shape(2, 2, 9), Order.CHW), ops.Unary(ops.Absolute()), shape=Shape(1, 1, 4)),
        ["a = OnCpu[op=Unary[function=Absolute]](x) -> 1x1x4", "b = OnCpu[op=Dense[weight=Constant(36x4x1x1)]](a) -> 1x1x36",
         "c = Reshape[shape=2x2x9 order=Order.MEMORY](b) -> 2x2x9", "d = OnCpu[op=Unary[function=Absolute]](c) -> 2x2x9"],
    ),
}  # fmt: skip
