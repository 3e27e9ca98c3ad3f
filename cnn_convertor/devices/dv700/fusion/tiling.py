"""The driver's formulas for the unified buffer: the tiles of a convolution, and the size of several runs."""

from collections.abc import Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from cnn_convertor.ir.ops import NO_PADDING, ONE, Padding, Pair, Shape, Window

_HALF = 2  # bytes of an element
_UNIT = 16  # bytes: 8 elements; the unit of the formulas


class ConvGeometry(NamedTuple):
    """A convolution that is the only run of its command, with the window of the command.

    The stride of a deconvolution spreads the input; its padding is the command's, not the framework's.
    """

    input: Shape
    kernels: int
    window: Window
    deconvolution: bool = False


class PoolKind(Enum):
    MAX = auto()
    AVERAGE = auto()
    UPSAMPLE = auto()


class PoolGeometry(NamedTuple):
    kind: PoolKind
    window: Window = Window(Pair(2, 2), Pair(2, 2))


class RunGeometry(NamedTuple):
    """One run of a command.

    channels: of the output, m. external: the run writes to external memory (its bit in topo), and the next run starts from
    the command's input. convolution: the window of a convolution of any kind, not dilated.
    """

    channels: int
    external: bool
    convolution: Window | None = None
    pool: PoolGeometry | None = None
    deconvolution: bool = False


def tiles(conv: ConvGeometry, *, ub_size: int) -> int | None:
    """The least number of vertical strips in which a convolution runs; None if not even strips of one column fit.

    Pools and depthwise convolutions do not use the buffer: they always have one tile.

    From 600 expected results: the size of the output follows from the kernel p x p and the pads of the command, without the
    p - kx and p - ky that the hardware adds. A dilated kernel counts with its own width and height, not padded to p. A tile of
    a deconvolution has the output columns that the formula gives for its width, with the margin of p - 1 input columns.
    """
    if tile_bytes(conv, 1) <= ub_size:
        return 1
    too_few, enough = 1, conv.input.width
    if tile_bytes(conv, enough) > ub_size:
        return None
    while enough - too_few > 1:  # more tiles never take more bytes each, and a model may claim any width
        middle = (too_few + enough) // 2
        if tile_bytes(conv, middle) <= ub_size:
            enough = middle
        else:
            too_few = middle
    return enough


def tile_bytes(conv: ConvGeometry, count: int) -> int:
    """Bytes of the buffer that the widest of `count` tiles takes."""
    height, width, channels = conv.input
    dilated = conv.window.dilation != ONE
    if not dilated and channels <= 8 and conv.kernels <= 8:
        return 0
    extent = conv.window.extent if dilated else _square(conv.window.kernel)
    tile = Pair(height, _ceil(width, count) + extent.width - 1)
    size = _whole(_block(tile.height * tile.width * min(channels, 8)), channels) * _UNIT
    if dilated or channels > 8:
        output = _slide(tile, conv.window._replace(kernel=extent, dilation=ONE), conv.deconvolution)
        size += output.height * output.width * min(conv.kernels, 8) * _HALF
    return size


def unified_buffer_need(shape: Shape, runs: Sequence[RunGeometry]) -> int:
    """Bytes of the buffer that a command of several runs needs.

    shape: the command's input. Each run must need one tile only.

    From 800 expected results: an average pool counts as a convolution with a square kernel of its width, also for the place of a
    run's output. Where that is higher than the map, there are fewer rows than none, and the next run takes them for 16 bits
    without a sign.
    """
    assert runs[-1].external, "the last run of a command writes to external memory"
    ends = [index for index, run in enumerate(runs) if run.external]
    last_branch = ends[-2] + 1 if len(ends) > 1 else 0  # its first run
    command_input = _whole(_block(shape.height * shape.width * min(shape.channels, 8)), shape.channels)

    need = 0
    size = Pair(shape.height, shape.width)
    place = 0
    input_size = command_input
    for index, run in enumerate(runs):
        convolved, pooled = _run_outputs(size, run)
        convolves = run.convolution is not None or (run.pool is not None and run.pool.kind is PoolKind.AVERAGE)
        stored = convolved if convolves else pooled
        block = _block(stored.height * stored.width * min(run.channels, 8))
        output = _whole(block, run.channels)
        in_place = index >= last_branch and not convolves
        output_place = place + (0 if in_place else input_size)
        start = input_size if len(ends) == 1 else output_place
        need = max(need, start + (block if run.external else output))
        size = Pair(pooled.height & 0xFFFF, pooled.width & 0xFFFF)
        place = output_place
        input_size = output
        if run.external:
            size = Pair(shape.height, shape.width)
            place = 0
            input_size = command_input
    return need * _UNIT


def _effective_window(run: RunGeometry) -> Window | None:
    """The window of a convolution or of an average pool, which counts as one with a square kernel of its width."""
    if run.convolution is not None:
        return run.convolution
    if run.pool is not None and run.pool.kind is PoolKind.AVERAGE:
        window = run.pool.window
        return window._replace(kernel=Pair(window.kernel.width, window.kernel.width))
    return None


@lru_cache(maxsize=4096)  # the planner tries the same runs in many commands
def _run_outputs(size: Pair, run: RunGeometry) -> tuple[Pair, Pair]:
    """Sizes after the convolution and after the pooling of a run; the padding of a max pool applies before the convolution."""
    window = _effective_window(run) or Window(ONE)
    square = _square(window.kernel)
    stride = ONE if run.deconvolution else window.stride
    max_pool = run.pool.window if run.pool is not None and run.pool.kind is PoolKind.MAX else None
    margin = max_pool.padding if max_pool is not None else NO_PADDING
    padding = Padding(
        top=window.padding.top + square.height - window.kernel.height + margin.top * stride.height,
        bottom=window.padding.bottom + margin.bottom * stride.height,
        left=window.padding.left + margin.left * stride.width,
        right=window.padding.right + square.width - window.kernel.width + margin.right * stride.width,
    )
    convolved = _slide(size, Window(square, window.stride, padding=padding), run.deconvolution)
    if max_pool is not None:
        return convolved, _slide(convolved, max_pool._replace(padding=NO_PADDING), deconvolution=False)
    if run.pool is not None and run.pool.kind is PoolKind.UPSAMPLE:
        return convolved, Pair(2 * convolved.height, 2 * convolved.width)
    return convolved, convolved


def _slide(size: Pair, window: Window, deconvolution: bool) -> Pair:
    """Output size of a window without dilation, which the driver rounds toward 1 if the padded input is smaller than the kernel."""
    kernel, stride, _, padding = window
    rows = padding.top + padding.bottom
    columns = padding.left + padding.right
    if deconvolution:
        spread = Pair((size.height - 1) * stride.height + 1, (size.width - 1) * stride.width + 1)
        return Pair(spread.height + rows - kernel.height + 1, spread.width + columns - kernel.width + 1)
    return Pair(
        _towards_zero(size.height + rows - kernel.height, stride.height) + 1,
        _towards_zero(size.width + columns - kernel.width, stride.width) + 1,
    )


def _square(kernel: Pair) -> Pair:
    """The odd square kernel p x p of the device."""
    p = max(kernel) | 1
    return Pair(p, p)


def _block(elements: int) -> int:
    """Units of a block of 8 channels: rounded up to 2 modulo 16."""
    units = _ceil(elements, 8)
    return units + (2 - units) % 16


def _whole(block: int, channels: int) -> int:
    """Units of all blocks of a map: rounded up to a multiple of 16."""
    return _ceil(block * _ceil(channels, 8), 16) * 16


def _towards_zero(a: int, b: int) -> int:
    return -(-a // b) if a < 0 else a // b


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
