"""Computes the unified buffer that a command needs, and the number of strips of a run."""

from typing import NamedTuple

from cnn_convertor.audit.decoding import (
    AVERAGE_POOL,
    MAX_POOL,
    UPSAMPLE,
    Meaning,
    RegisterPair,
    RegisterWindow,
    kernel,
    meanings,
    pair,
    sides,
)
from cnn_convertor.audit.source_network import SourceCommand

UNIT = 16  # bytes, 8 elements


def strips(meaning: Meaning, ub_size: int) -> int:
    """The smallest number of vertical strips whose input and output fit; 0 when there is none."""
    window = meaning.convolution
    small = meaning.input.channels <= 8 and meaning.run.m <= 8
    if window is None or meaning.is_depthwise or (small and not window.is_dilated):
        return 1
    if not window.is_dilated:
        p = max(window.size) | 1
        window = window._replace(size=RegisterPair(p, p))
    width = meaning.input.width
    for count in range(1, width + 1):
        if 16 * _strip_units(meaning, window, -(-width // count) + window.extent.x - 1) <= ub_size:
            return count
    return 0


def _strip_units(meaning: Meaning, window: RegisterWindow, width: int) -> int:
    """Twice the memory of one strip, in units: the specification compares with half of the buffer."""
    _, height, channels = meaning.input
    elements = 8 * _whole(_block(width * height * min(channels, 8)), channels)
    if window.is_dilated or channels > 8:
        across, down = window.positions(width, height)
        elements += across * down * min(meaning.run.m, 8)
    return -(-2 * elements // UNIT)


def need(command: SourceCommand) -> int:
    """Bytes that all runs of a command need together, each in one strip."""
    runs = list(meanings(command))
    whole_input = _whole(_block(command.map.area * min(command.c, 8)), command.c)
    branches = command.topo.bit_count()
    last_branch = max((meaning.index for meaning in runs[:-1] if meaning.is_external), default=-1)
    most = 0
    offset = 0
    size = whole_input
    read = RegisterPair(command.w, command.h)
    for meaning in runs:
        if meaning.index == 0 or runs[meaning.index - 1].is_external:
            offset = 0
            size = whole_input
            read = RegisterPair(command.w, command.h)
        result = _result(meaning, read)
        block = _block(result.held * min(meaning.run.m, 8))
        output = _whole(block, meaning.run.m)
        convolves = meaning.run.conv_enable != 0 or meaning.run.pool_enable == AVERAGE_POOL
        out_offset = offset + (size if convolves or meaning.index <= last_branch else 0)
        units = (size if branches == 1 else out_offset) + (block if meaning.is_external else output)
        most = max(most, units)
        offset = out_offset
        size = output
        read = result.size
    return UNIT * most


class _Result(NamedTuple):
    """What the driver counts for a run: the positions that are held at a time, and the size that the next run reads."""

    held: int
    size: RegisterPair


def _result(meaning: Meaning, read: RegisterPair) -> _Result:
    """The convolution's positions are held, with a max pool's padding around. An average pool counts as a square of its width.

    A square that is higher than its map leaves a negative number of rows, of which the next run reads 16 bits.
    """
    run = meaning.run
    left = 0
    right = 0
    top = 0
    bottom = 0
    stride = RegisterPair(1, 1)
    spread = RegisterPair(1, 1)
    p = 0
    if run.pool_enable == AVERAGE_POOL or run.conv_enable:
        pooled = run.pool_enable == AVERAGE_POOL
        size = RegisterPair(run.pool_size & 0xFF, run.pool_size & 0xFF) if pooled else kernel(run.p)
        left, right, top, bottom = sides(run.pool_pad if pooled else run.conv_pad)
        stride = pair(run.pool_stride if pooled else run.conv_stride)
        p = max(size) | 1
        right, top = right + p - size.x, top + p - size.y
        if meaning.is_deconvolution and not pooled:
            stride, spread = spread, stride
    if run.pool_enable == MAX_POOL:
        more = sides(run.pool_pad)
        left = left + more.left * stride.x
        right = right + more.right * stride.x
        top = top + more.top * stride.y
        bottom = bottom + more.bottom * stride.y
    width = left + (read.x - 1) * spread.x + 1 + right
    height = top + (read.y - 1) * spread.y + 1 + bottom
    if p:
        width = _steps(width - p, stride.x)
        height = _steps(height - p, stride.y)
    held = width * height
    if run.pool_enable == MAX_POOL:
        size, step = pair(run.pool_size), pair(run.pool_stride)
        width = _steps(width - size.x, step.x)
        height = _steps(height - size.y, step.y)
    if run.pool_enable == UPSAMPLE:
        width, height = 2 * width, 2 * height
    return _Result(held if p else width * height, RegisterPair(width % 65536, height % 65536))


def _steps(room: int, stride: int) -> int:
    """Positions of a window with so much room to move, with the division of C."""
    return 1 + (room // stride if room >= 0 else -(-room // stride))


def _block(elements: int) -> int:
    """Units of an 8-channel block: rounded up to the next number that leaves 2 when divided by 16."""
    units = -(-elements // 8)
    return units + (2 - units) % 16


def _whole(block: int, channels: int) -> int:
    return -(-block * -(-channels // 8) // 16) * 16
