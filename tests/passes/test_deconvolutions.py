"""Deconvolutions with stride 1 become convolutions that compute the same."""

from __future__ import annotations

from typing import Any

import pytest

from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Op, Padding, Pair, Window
from cnn_convertor.passes.canonicalize import deconvolutions_to_convolutions
from passes.graphs import chain, same, some

RELU = ops.Relu()


def deconv(height: int, width: int, groups: int = 1, stride: int = 1, more: Pair = Pair(0, 0), **window: Any) -> Op:
    made = Window(Pair(height, width), Pair(stride, stride))._replace(**window)
    return ops.ConvTranspose2d(some(6, 3 // groups, height, width), some(6), made, more, groups, RELU)


def kinds(graph: Graph) -> list[str]:
    return [type(node.op).__name__ for node in graph.nodes[1:]]


BECOME: dict[str, Op] = {
    "one pixel": deconv(1, 1),
    "no padding": deconv(3, 2),
    "padding of its own for each side": deconv(3, 4, padding=Padding(0, 2, 3, 1)),
    "rows and columns more": deconv(3, 3, more=Pair(1, 2), padding=Padding(1, 1, 1, 1)),
    "groups": deconv(3, 3, groups=3),
    "a dilation": deconv(2, 3, dilation=Pair(2, 1), padding=Padding(0, 2, 1, 1)),
}
STAY: dict[str, Op] = {
    "a stride": deconv(3, 3, stride=2),
    "more of the output is cut than the kernel reaches": deconv(1, 1, padding=Padding(1, 0, 0, 0)),
}


@pytest.mark.parametrize("op", BECOME.values(), ids=BECOME)
def test_a_deconvolution_with_stride_1_becomes_a_convolution(op: Op) -> None:
    before = chain(op)
    after = deconvolutions_to_convolutions(before)
    assert kinds(after) == ["Conv2d"]
    same(before, after)


@pytest.mark.parametrize("op", STAY.values(), ids=STAY)
def test_others_stay(op: Op) -> None:
    assert kinds(deconvolutions_to_convolutions(chain(op))) == ["ConvTranspose2d"]
