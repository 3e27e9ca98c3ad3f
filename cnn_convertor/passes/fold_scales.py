"""Folds scales (batch norm, Scale, Power) into neighboring weights."""

from dataclasses import replace

import numpy as np

from cnn_convertor.ir.constant import Constant, Wide
from cnn_convertor.ir.graph import Graph, Lookup, Node
from cnn_convertor.ir.ops import NO_PADDING, Conv2d, ConvTranspose2d, Dense, Op, Scale


def fold_scales(graph: Graph) -> Graph:
    """Case 1: weights -> scale; case 2: scale -> scale; case 3: scale -> weights without padding between them."""
    return graph.fuse(_fold)


def scaled(
    before: Conv2d | ConvTranspose2d | Dense | Scale, factor: Wide, shift: Wide
) -> Conv2d | ConvTranspose2d | Dense | Scale:
    """before(x) * factor + shift, each (C,), for an operator without an activation."""
    if isinstance(before, Scale):
        own_factor, own_shift = wide(before)
        return replace(
            before, factor=Constant.wide(own_factor * factor), shift=Constant.wide(own_shift * factor + shift)
        )
    bias = factor * _values(before.bias, len(factor)) + shift
    return replace(before, weight=before.weight.scale_rows(factor), bias=Constant.wide(bias))


def _fold(_: Lookup, first: Node, second: Node) -> Op | None:
    match first.op, second.op:
        case Conv2d() | ConvTranspose2d() | Dense() | Scale() as before, Scale() as scale if before.activation is None:
            return replace(scaled(before, *wide(scale)), activation=scale.activation)
        case Scale(activation=None) as scale, Conv2d() | Dense() as after:
            if isinstance(after, Conv2d) and after.window.padding != NO_PADDING and scale.shift is not None:
                return None  # the padding is zero after the scale, not before it
            return _scale_inputs(scale, after)
        case _:
            return None


def _scale_inputs(scale: Scale, after: Conv2d | Dense) -> Op | None:
    """after(x * factor + shift), with the factor in the weights and the shift in the bias."""
    factor, shift = wide(scale)
    groups = after.groups if isinstance(after, Conv2d) else 1
    out, per_group = after.weight.shape[:2]
    channel = np.arange(per_group) + np.arange(out)[:, None] // (out // groups) * per_group  # (O, I / groups)

    def read(rows: slice) -> Wide:
        product: Wide = after.weight.load_wide(rows) * factor[channel[rows]][:, :, None, None]
        return product

    bias = after.bias
    if scale.shift is not None:
        added = np.zeros(out)
        for start in range(0, out, 256):  # bounds the memory for large layers
            rows = slice(start, min(start + 256, out))
            sums = after.weight.load_wide(rows).sum(axis=(2, 3))
            added[rows] = (sums * shift[channel[rows]]).sum(axis=1)
        bias = Constant.wide(_values(after.bias, out) + added)
    return replace(after, weight=Constant(after.weight.shape, read), bias=bias)


def wide(scale: Scale) -> tuple[Wide, Wide]:
    """Factor and shift in FP64."""
    factor = scale.factor.load_wide()
    return factor, _values(scale.shift, len(factor))


def _values(constant: Constant | None, size: int) -> Wide:
    return np.zeros(size) if constant is None else constant.load_wide()
