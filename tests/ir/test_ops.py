"""Each operator's shape rule and its errors."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest

from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import (
    Axis,
    BinaryOp,
    Interpolation,
    Op,
    Order,
    Padding,
    Pair,
    Sampling,
    Shape,
    ShapeError,
    Window,
)
from reference.ir_reference import EXAMPLES, execute

Sizes: TypeAlias = tuple[float, ...]


def ones(*shape: int) -> Constant:
    return Constant.of(np.ones(shape))


def conv(out: int, channels: int, *kernel: int, groups: int = 1, **window: Any) -> ops.Conv2d:
    made = Window(Pair(*kernel))._replace(**window)
    return ops.Conv2d(ones(out, channels, *kernel), None, made, groups)


def deconv(out: int, channels: int, *kernel: int, more: Pair = ops.NO_MORE, **window: Any) -> ops.ConvTranspose2d:
    made = Window(Pair(*kernel))._replace(**window)
    return ops.ConvTranspose2d(ones(out, channels, *kernel), None, made, more)


def prior_box(min_sizes: Sizes, max_sizes: Sizes, aspect_ratios: Sizes) -> ops.PriorBox:
    variance = (0.1, 0.1, 0.2, 0.2)
    return ops.PriorBox(Pair(2, 3), Pair(8, 9), min_sizes, max_sizes, aspect_ratios, False, variance, 4.0, 3.0, 0.5)


def detection_output(*, share_location: bool = True, keep_top_k: int = 5) -> ops.DetectionOutput:
    return ops.DetectionOutput(3, 0, share_location, ops.BoxCode.CENTER_SIZE, False, 0.5, 10, 1.0, 0.3, keep_top_k)


X = Shape(9, 12, 4)
PLANES = ops.Matrices(4, Axis.CHANNELS, Axis.HEIGHT, Axis.WIDTH)
PRODUCT = ops.MatMul(PLANES, PLANES, PLANES)
SAME = Padding(1, 1, 1, 1)
WITHOUT_REFERENCE: dict[type, tuple[Op, tuple[Shape, ...], Shape]] = {  # what the application gives, or computes
    ops.Input: (ops.Input(X), (), X),
    ops.Custom: (ops.Custom("Mine", (), Shape(1, 2, 3)), (X, X), Shape(1, 2, 3)),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_output_shape(name: str) -> None:
    op, inputs = EXAMPLES[name]
    random = np.random.default_rng(0)
    maps = (random.normal(size=x) if isinstance(x, Shape) else x for x in inputs)
    assert tuple(op.output_shape(*EXAMPLES[name].shapes)) == execute(op, *maps).shape


@pytest.mark.parametrize("kind", WITHOUT_REFERENCE)
def test_output_shape_without_a_reference(kind: type) -> None:
    op, inputs, expected = WITHOUT_REFERENCE[kind]
    assert op.output_shape(*inputs) == expected


def test_every_operator_has_an_example() -> None:
    examples = {type(example.op) for example in EXAMPLES.values()}
    assert examples | {*WITHOUT_REFERENCE} == set(ops.Op.__args__), "tests/reference needs a reference"


SMALLEST: list[tuple[Op, Shape]] = [  # the least that each rule takes -> its output
    (ops.LocalResponseNorm(1, 1.0, 0.75), X),
    (deconv(6, 4, 3, 3, padding=Padding(5, 5, 6, 7)), Shape(1, 1, 6)),
    (conv(6, 4, 9, 12), Shape(1, 1, 6)),
]


@pytest.mark.parametrize(("op", "output"), SMALLEST)
def test_the_smallest_sizes_are_sizes(op: Op, output: Shape) -> None:
    inputs = [X]
    assert op.output_shape(*inputs) == output


MISFITS: list[tuple[Op, list[Shape], str]] = [
    (ops.Input(Shape(0, 3, 3)), [], "the input size 0x3x3 is not a size"),
    (ops.Input(Shape(4096, 4096, 3)), [], "an input of 4096x4096x3 has more than 33,554,432 numbers"),
    (conv(6, 3, 3, 3), [X], "kernels for 3 channels in 1 groups meet an input of 4"),
    (conv(6, 1, 3, 3, groups=4), [X], "kernels for 4 channels in 4 groups meet an input of 4"),  # 6 kernels, 4 groups
    (conv(6, 4, 10, 3), [X], "the padded input 9x12 is smaller than the kernel 10x3"),
    (conv(6, 4, 3, 3, dilation=Pair(5, 1), padding=Padding(0, 1, 0, 0)), [X], "the padded input 10x12 is smaller than the kernel 11x3"),
    (conv(6, 4, 3, 3, stride=Pair(0, 1)), [X], "kernel, stride and dilation must be at least 1"),
    (conv(6, 4, 3, 3, padding=Padding(1 << 40, 0, 0, 0)), [X], "kernel, stride, dilation and padding must be at most 65535"),
    (deconv(6, 3, 3, 3), [X], "kernels for 3 channels in 1 groups meet an input of 4"),
    (deconv(6, 4, 3, 3, padding=Padding(6, 6, 0, 0)), [X], "the padding leaves an output of -1x14"),
    (ops.Dense(ones(5, 4, 9, 11), None), [X], "weights for 396 inputs (9x11x4) meet 432 (9x12x4)"),
    (ops.MaxPool2d(Window(Pair(10, 2))), [X], "the padded input 9x12 is smaller than the kernel 10x2"),
    (ops.Upsample(Pair(0, 2)), [X], "an upsampling factor must be at least 1"),
    (ops.MaxUnpool(Window(Pair(2, 3), Pair(2, 3))), [Shape(4, 4, 3), X], "a map of 4x4x3 meets the 4x4x4 maxima of a pooling"),
    (ops.BatchNorm(ones(3), ones(3), None, None, 0.001), [X], "statistics of 3 channels meet an input of 4"),
    (ops.Scale(ones(3)), [X], "3 factors meet an input of 4 channels"),
    (ops.Activation(ops.PRelu(ones(3))), [X], "3 slopes meet an input of 4 channels"),
    (ops.Add(), [X, Shape(9, 12, 3)], "cannot add maps of 9x12x4 and 9x12x3"),
    (ops.Concat(), [X, Shape(9, 11, 4)], "cannot join maps of 9x12x4, 9x11x4 on channels"),
    (ops.Pad(Padding(0, -1, 0, 0)), [X], "a padding below zero"),
    (ops.Concat(Axis.HEIGHT), [X, Shape(9, 11, 4)], "cannot join maps of 9x12x4, 9x11x4 on height"),
    (ops.Binary(BinaryOp.ADD), [X, Shape(9, 6, 4)], "cannot combine maps of 9x12x4 and 9x6x4"),
    (ops.LocalResponseNorm(4, 1.0, 0.75), [X], "a neighborhood of 4 has no middle"),
    (ops.LocalResponseNorm(2**31 + 1, 1.0, 0.75), [X], "a neighborhood is at most 65535"),
    (ops.MeanVarianceNorm((Axis.CHANNELS,), 0.1, groups=3), [X], "4 channels are not 3 groups"),
    (ops.ArgMax(Axis.CHANNELS, 5), [X], "5 of 4 numbers are asked for"),
    (ops.ArgMax(None, 433), [X], "433 of 432 numbers are asked for"),
    (ops.Resize(Pair(0, 2), Interpolation.NEAREST, Sampling.ASYMMETRIC), [X], "0x2 is not a size"),
    (ops.GridSample(Interpolation.BILINEAR), [X, Shape(3, 5, 4)], "9x12x4 and the places 3x5x4 are not 1 images, with two channels of places each"),
    (ops.GridSample(Interpolation.BILINEAR, images=3), [X, Shape(3, 5, 6)], "9x12x4 and the places 3x5x6 are not 3 images, with two channels of places each"),
    (PRODUCT, [X, Shape(9, 12, 4)], "cannot multiply matrices: 4 of 9x12 and 4 of 9x12"),
    (PRODUCT, [X, Shape(12, 9, 3)], "a map of 12x9x3 does not hold 4 matrices"),
    (ops.Crop(Shape(1, 2, 0), Shape(10, 8, 3)), [X], "1x2x0 to 10x8x3 is not a part of 9x12x4"),
    (ops.TransposeReshape((9, 48), (1, 0), Shape(6, 6, 11), Order.HWC), [X], "cannot rearrange 9x12x4 (432 elements) to 6x6x11 (396)"),
    (ops.SpaceToDepth(Pair(5, 2)), [X], "9x12 pixels are not blocks of 5x2"),
    (prior_box((1.0, 2.0), (3.0,), ()), [], "2 minimum and 1 maximum box sizes"),
    (detection_output(), [Shape(1, 1, 24), Shape(1, 1, 18), X], "9x12x4 is not a shape of prior boxes"),
    (detection_output(), [Shape(1, 1, 24), Shape(1, 1, 12), Shape(24, 1, 2)],
     "1x1x24 locations and 1x1x12 confidences meet 6 prior boxes of 3 classes, which need 24 and 18"),
    (ops.Reshape(Shape(1, 1, 431), Order.CHW), [X], "cannot reshape 9x12x4 (432 elements) to 1x1x431 (431)"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "message"), MISFITS, ids=[m[2] for m in MISFITS])
def test_misfits_are_reported_with_their_numbers(op: Op, inputs: list[Shape], message: str) -> None:
    with pytest.raises(ShapeError) as caught:
        op.output_shape(*inputs)
    assert str(caught.value) == message


def slopes(*values: float) -> ops.PRelu:
    return ops.PRelu(Constant.of(values))


@pytest.mark.parametrize(
    ("function", "never_decreases", "never_negative"),
    [
        (None, True, False),
        (ops.Relu(), True, True),
        (ops.Relu(0.1), True, False),
        (ops.Relu(-0.1), False, False),  # its results are never negative, either, but no pass needs that
        (ops.Relu6(), True, True),
        (ops.Elu(), True, False),
        (ops.Sigmoid(), True, True),
        (ops.Tanh(), True, False),
        (slopes(0.0, 0.5), True, False),
        (slopes(0.5, -0.5), False, False),
    ],
)
def test_properties_of_activations(function: ops.Function | None, never_decreases: bool, never_negative: bool) -> None:
    assert ops.never_decreases(function) is never_decreases
    assert ops.never_negative(function) is never_negative


@pytest.mark.parametrize(
    ("op", "is_depthwise"),
    [(conv(4, 1, 3, 3, groups=4), True), (conv(8, 1, 3, 3, groups=4), False), (conv(4, 2, 3, 3, groups=4), False),
     (conv(1, 1, 3, 3), False), (conv(4, 1, 3, 3), False)],
)  # fmt: skip
def test_depthwise_is_one_kernel_a_channel_of_several(op: ops.Conv2d, is_depthwise: bool) -> None:
    assert op.is_depthwise is is_depthwise
