"""Whether runs fit the unified buffer: one by itself, in strips, and several of one command together."""

from collections.abc import Sequence

from cnn_convertor.devices.dv700.fusion.tiling import (
    ConvGeometry,
    PoolGeometry,
    PoolKind,
    RunGeometry,
    tiles,
    unified_buffer_need,
)
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.runs import PoolingKind, Run
from cnn_convertor.ir.ops import ONE, Shape, Window

_POOLS = {
    PoolingKind.MAX: PoolKind.MAX,
    PoolingKind.AVERAGE: PoolKind.AVERAGE,
    PoolingKind.UPSAMPLE: PoolKind.UPSAMPLE,
}


def strips(run: Run, *, ub_size: int) -> int | None:
    """The number of vertical strips (tiles) of the run's input; None if not even strips of one column fit."""
    convolution = conv_geometry(run)
    return 1 if convolution is None else tiles(convolution, ub_size=ub_size)


def conv_geometry(run: Run) -> ConvGeometry | None:
    """What the unified buffer must hold for a convolution; None for a run that does not use it."""
    convolution = run.convolution
    if run.kind is None or run.kind.is_depthwise:
        return None
    if convolution is None:  # packed by the CPU
        return ConvGeometry(run.input, run.output.channels, Window(ONE))
    window = Window(convolution.kernel, convolution.stride, convolution.dilation, convolution.padding)
    return ConvGeometry(run.input, run.output.channels, window, convolution.kind.is_transposed)


def why_alone(run: Run, limits: Limits) -> str | None:
    """Why the run must be the only one of its command; None if it need not be."""
    if run.convolution is not None and run.convolution.dilation != ONE:
        return "a dilated convolution is the only run of its command"
    if run.convolution is not None and run.convolution.kind.is_transposed:
        # The driver's size formula takes the output of a deconvolution for as small as its input.
        return "a deconvolution is the only run of its command"
    count = strips(run, ub_size=limits.ub_size)
    if count != 1:
        return f"a convolution over {run.input} needs {count or 'too many'} tiles, and several runs have one each"
    return None


def why_apart(shape: Shape, runs: Sequence[RunGeometry], limits: Limits) -> str | None:
    """Why several runs cannot share a command that reads a map of the shape; None if they can."""
    if len(runs) > limits.max_runs:
        return f"a command has at most {limits.max_runs} runs"
    need = unified_buffer_need(shape, runs)
    if need > limits.ub_size:
        return f"together they need {need:,} bytes of the unified buffer's {limits.ub_size:,}"
    return None


def geometry(run: Run, *, external: bool) -> RunGeometry:
    """What the unified buffer must hold for a run."""
    convolution, pooling = run.convolution, run.pooling
    window = None if run.factors is None else Window(ONE)
    if convolution is not None:
        window = Window(convolution.kernel, convolution.stride, padding=convolution.padding)
    return RunGeometry(
        channels=run.output.channels,
        external=external,
        convolution=window,
        pool=None
        if pooling is None
        else PoolGeometry(_POOLS[pooling.kind], Window(pooling.kernel, pooling.stride, padding=pooling.padding)),
        deconvolution=convolution is not None and convolution.kind.is_transposed,
    )
