"""What a probe finds out about a board, its commands, and the builders of their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from cnn_convertor.devices.dv700.fusion.forms import forms_of
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.fusion.ub_fit import geometry, strips, why_alone, why_apart
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.probe.random_numbers import FRACTIONS, INTEGERS, SIGNS, draw
from cnn_convertor.devices.dv700.runs import (
    Convolution,
    ConvolutionKind,
    PackedByCpu,
    Pooling,
    PoolingKind,
    Run,
    Weights,
)
from cnn_convertor.devices.dv700.weights.streams import PackedShape
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import NO_PADDING, ONE, Function, Padding, Pair, PRelu, Shape


class Feature(Enum):
    """The value says in words what the device can do."""

    DECONVOLUTION = "a deconvolution"
    DILATION = "a dilated convolution"
    PALETTE = "weights with a palette"
    PRELU = "PReLU"
    UPSAMPLING = "upsampling"
    RECTANGULAR_POOL = "a pool whose width and height differ"
    U8_INPUT = "8-bit input through a table"
    BATCH = "several samples in one command"
    MAXIMIZER = "an argmax over channels"
    IPU = "an image drawn as a map"


Aspect: TypeAlias = Form | Feature
ASPECTS: tuple[Aspect, ...] = (*Form, *Feature)


def words(aspect: Aspect) -> str:
    return aspect.words if isinstance(aspect, Form) else aspect.value


RunBuilder: TypeAlias = Callable[[Shape, int], Run]  # input, seed of its weights -> a run
_SLOPES = (0.5, -0.5, 0.25, 2.0) * 4


@dataclass(frozen=True, slots=True)
class ProbeCommand:
    """One command of the convolution block.

    subject: what the command is about. branches: as in `forms_of`. adds: the command adds an operand. is_exact: every result is
    an FP16 number, in any order of accumulation. table: the input is 8-bit. batch: samples. repeats: how often it is in its list.
    """

    name: str
    subject: Aspect
    input: Shape
    branches: tuple[tuple[Run, ...], ...]
    adds: bool = False
    transposed: bool = False
    is_exact: bool = True
    table: bool = False
    batch: int = 1
    repeats: int = 1

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(run for branch in self.branches for run in branch)

    @property
    def topo(self) -> int:
        return sum(run.external << index for index, run in enumerate(self.runs))

    def aspects(self, limits: Limits) -> frozenset[Aspect]:
        """The forms and features that the command contains."""
        forms = forms_of(self.branches, adds=self.adds, limits=limits)
        return frozenset([*forms, *self._features()])

    def _features(self) -> Iterator[Feature]:
        if self.table:
            yield Feature.U8_INPUT
        if self.batch > 1:
            yield Feature.BATCH
        for run in self.runs:
            yield from _features_of(run)

    def fits(self, limits: Limits) -> bool:
        """Whether the device takes maps and kernels as large as the command's, and the command fits its unified buffer."""
        runs = self.runs
        sizes = [max(run.convolution.kernel) for run in runs if run.convolution is not None]
        if self.input.height > limits.max_height or self.input.width > limits.max_width:
            return False
        if max(sizes, default=0) > limits.max_kernel_size:
            return False
        if len(runs) == 1:
            return strips(runs[0], ub_size=limits.ub_size) is not None
        shapes = [geometry(run, external=run.external) for run in runs]
        return all(why_alone(run, limits) is None for run in runs) and why_apart(self.input, shapes, limits) is None


def _features_of(run: Run) -> Iterator[Feature]:
    convolution, pooling = run.convolution, run.pooling
    if convolution is not None:
        if convolution.kind.is_transposed:
            yield Feature.DECONVOLUTION
        if convolution.dilation != ONE and not convolution.kind.is_depthwise:  # a form of its own
            yield Feature.DILATION
        if convolution.weights.packed.palette:
            yield Feature.PALETTE
    if isinstance(run.activation, PRelu):
        yield Feature.PRELU
    if pooling is not None and pooling.kind is PoolingKind.UPSAMPLE:
        yield Feature.UPSAMPLING
    if pooling is not None and pooling.kernel.height != pooling.kernel.width:
        yield Feature.RECTANGULAR_POOL


def branches(shape: Shape, *builders: Sequence[RunBuilder]) -> tuple[tuple[Run, ...], ...]:
    """The runs of branches that start from a map of the shape."""
    results: list[tuple[Run, ...]] = []
    for number, branch in enumerate(builders):
        runs: list[Run] = []
        current = shape
        for depth, builder in enumerate(branch):
            run = builder(current, 1 + 7 * number + depth % 3)
            runs.append(replace(run, external=depth == len(branch) - 1))
            current = run.output
        results.append(tuple(runs))
    return tuple(results)


# --- builders of runs ------------------------------------------------------------------------------------------------------


def conv(
    outputs: int,
    kernel: int | tuple[int, int] = 1,
    *,
    stride: int | tuple[int, int] = 1,
    dilation: int = 1,
    padding: Padding | None = None,
    kind: ConvolutionKind = ConvolutionKind.CONVOLUTION,
    pooling: Pooling | None = None,
    function: Function | None = None,
    slopes: bool = False,
    palette: bool = False,
    exact: bool = True,
) -> RunBuilder:
    """A convolution; padding: None keeps the size where the stride is 1. slopes: PReLU, with other slopes in each channel."""

    def build(shape: Shape, seed: int) -> Run:
        size, spread = _pair(kernel), Pair(dilation, dilation)
        around = _same(size, dilation) if padding is None else padding
        packed = PackedShape(
            outputs, 1 if kind.is_depthwise else shape.channels, size, dilation > 1, palette, prelu=slopes
        )
        weights = _weights(packed, seed, INTEGERS if exact else FRACTIONS, SIGNS if exact else FRACTIONS)
        output = _slid(shape, size, _pair(stride), spread, around, kind)._replace(channels=outputs)
        convolution = Convolution(kind, size, _pair(stride), spread, around, output, weights)
        activation = PRelu(weights.slopes) if weights.slopes is not None else function
        return Run(shape, _after(output, pooling), convolution, pooling, activation)

    return build


def depthwise(channels: int, kernel: int = 3, **options: object) -> RunBuilder:
    return conv(channels, kernel, kind=ConvolutionKind.DEPTHWISE, **options)  # type: ignore[arg-type]  # those of conv


def deconv(
    outputs: int, kernel: int, *, stride: int, padding: int, depthwise: bool = False, **options: object
) -> RunBuilder:
    """padding: the framework's."""
    kind = ConvolutionKind.DEPTHWISE_DECONVOLUTION if depthwise else ConvolutionKind.DECONVOLUTION
    around = Padding(*[kernel - 1 - padding] * 4)
    return conv(outputs, kernel, stride=stride, padding=around, kind=kind, **options)  # type: ignore[arg-type]  # those of conv


def packed_factors(function: Function | None = None) -> RunBuilder:
    """A scale by factors that the CPU packs."""
    return lambda shape, _: Run(
        shape, shape, None, None, function, factors=PackedByCpu(PackedShape(shape.channels, 1, ONE))
    )


def packed_matrix(kernels: int) -> RunBuilder:
    """A product with a matrix that the CPU packs."""

    def build(shape: Shape, _: object) -> Run:
        factors = PackedByCpu(PackedShape(kernels, shape.channels, ONE), ConvolutionKind.CONVOLUTION)
        return Run(shape, shape._replace(channels=kernels), None, None, None, factors=factors)

    return build


def pool(pooling: Pooling | None, function: Function | None = None) -> RunBuilder:
    """A run without a convolution."""
    return lambda shape, _: Run(shape, _after(shape, pooling), None, pooling, function)


def max_pool(kernel: int | tuple[int, int] = 2, stride: int = 2, padding: Padding = NO_PADDING) -> Pooling:
    return Pooling(PoolingKind.MAX, _pair(kernel), _pair(stride), padding)


def average_pool(
    kernel: int | tuple[int, int], stride: int = 1, padding: Padding = NO_PADDING, *, factor: float
) -> Pooling:
    return Pooling(PoolingKind.AVERAGE, _pair(kernel), _pair(stride), padding, factor)


UPSAMPLE = Pooling(PoolingKind.UPSAMPLE, Pair(2, 2), Pair(2, 2), NO_PADDING)


def _pair(size: int | tuple[int, int]) -> Pair:
    return Pair(size, size) if isinstance(size, int) else Pair(*size)


def _same(kernel: Pair, dilation: int) -> Padding:
    rows = (kernel.height - 1) * dilation
    columns = (kernel.width - 1) * dilation
    return Padding(rows // 2, rows - rows // 2, columns // 2, columns - columns // 2)


def _weights(packed: PackedShape, seed: int, inputs: tuple[float, ...], levels: tuple[float, ...]) -> Weights:
    shape = (packed.kernels, packed.channels, *packed.kernel)
    count = packed.kernels * packed.channels * packed.kernel.height * packed.kernel.width
    kernels = Constant.of(draw(count, seed, levels).reshape(shape))
    bias = Constant.of(draw(packed.kernels, seed + 1, inputs))
    slopes = Constant.of(draw(packed.kernels, seed + 2, _SLOPES)) if packed.prelu else None
    return Weights(0, packed, kernels, bias, slopes, None)


def _slid(shape: Shape, kernel: Pair, stride: Pair, dilation: Pair, padding: Padding, kind: ConvolutionKind) -> Shape:
    height, width = padding.around(shape)
    if kind.is_transposed:
        height += (shape.height - 1) * (stride.height - 1)
        width += (shape.width - 1) * (stride.width - 1)
        stride = ONE
    return Shape(
        (height - (kernel.height - 1) * dilation.height - 1) // stride.height + 1,
        (width - (kernel.width - 1) * dilation.width - 1) // stride.width + 1,
        shape.channels,
    )


def _after(shape: Shape, pooling: Pooling | None) -> Shape:
    if pooling is None:
        return shape
    if pooling.kind is PoolingKind.UPSAMPLE:
        return Shape(2 * shape.height, 2 * shape.width, shape.channels)
    around = pooling.padding.around(shape)
    return Shape(
        (around.height - pooling.kernel.height) // pooling.stride.height + 1,
        (around.width - pooling.kernel.width) // pooling.stride.width + 1,
        shape.channels,
    )
