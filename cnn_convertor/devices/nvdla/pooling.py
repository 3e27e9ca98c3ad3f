"""How a pool fits PDP: what of the input it reads, and in how many pieces of its width."""

from __future__ import annotations

from typing import Final, NamedTuple

from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import NO_PADDING, ONE, Shape

LARGEST_POOL: Final = 8  # rows and columns of a window, and strides
_LINE_BUFFER: Final = 7 * 1024 * 8  # bits, of the vendor's compiler
_BITS: Final = 28 * 16  # of a position in it: 16 channels with 28 bits each
_SHARES: Final = (1, 1, 2, 4, 4, 8, 8, 8, 8)  # of the buffer, by how many windows a row of the input is part of


class PoolPlan(NamedTuple):
    """width, height: of the input, without what no window sees. right, bottom: of padding that windows see.

    pieces_in, pieces_out: widths of the first, each middle and the last piece; all 0 where one piece is enough.
    pieces: how many.
    """

    width: int
    height: int
    right: int
    bottom: int
    pieces: int = 1
    pieces_in: tuple[int, int, int] = (0, 0, 0)
    pieces_out: tuple[int, int, int] = (0, 0, 0)


def fits_pdp(op: ops.MaxPool2d | ops.AveragePool2d) -> bool:
    """Whether PDP computes a pool: its average counts padding."""
    kernel, stride, dilation, pad = op.window
    if op.activation is not None or dilation != ONE or max(*kernel, *stride) > LARGEST_POOL:
        return False
    if isinstance(op, ops.AveragePool2d) and (op.uncounted != NO_PADDING or op.factor is not None):
        return False
    return max(pad.top, pad.bottom) < kernel.height and max(pad.left, pad.right) < kernel.width


def pool_plan(op: ops.MaxPool2d | ops.AveragePool2d, x: Shape) -> PoolPlan:
    """Of a pool that fits."""
    kernel, stride, _, pad = op.window
    y = op.output_shape(x)
    right = (y.width - 1) * stride.width + kernel.width - x.width - pad.left
    bottom = (y.height - 1) * stride.height + kernel.height - x.height - pad.top
    whole = PoolPlan(x.width + min(right, 0), x.height + min(bottom, 0), max(right, 0), max(bottom, 0))
    most = most_columns(op)
    if y.width <= most:
        return whole
    overlap = kernel.width - stride.width
    pieces = -(-y.width // most)
    first, last = most, y.width - (pieces - 1) * most
    while (last - 1) * stride.width + kernel.width - whole.right - overlap <= max(overlap, 0):
        first, last = first - 1, last + 1
    widths_in = (
        (first - 1) * stride.width + kernel.width - pad.left,
        most * stride.width if pieces > 2 else 0,
        (last - 1) * stride.width + kernel.width - whole.right - overlap,
    )
    return whole._replace(pieces=pieces, pieces_in=widths_in, pieces_out=(first, most if pieces > 2 else 0, last))


def most_columns(op: ops.MaxPool2d | ops.AveragePool2d) -> int:
    """Of the output, that the line buffer holds in one piece."""
    overlapping = -(-op.window.kernel.height // op.window.stride.height)
    return _LINE_BUFFER // (_SHARES[overlapping] * _BITS)


def flies(op: ops.MaxPool2d | ops.AveragePool2d, x: Shape) -> bool:
    """Whether the pool can take a map from SDP without memory: in one piece, and all of it."""
    plan = pool_plan(op, x)
    return plan.pieces == 1 and (plan.width, plan.height) == (x.width, x.height)
