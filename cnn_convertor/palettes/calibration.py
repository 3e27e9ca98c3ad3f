"""Fits palettes to the inputs of a network's layers, so that its outputs lose least.

The error of a palette at an output of a convolution is the sum, over the kernel, of weight error times input. Its mean is the
same at every pixel except at the border, and the bias corrects it. As far as inputs are independent, the rest has the power
sum(error**2 * variance of the input). So an error of a kernel's element is weighted by the variance of the inputs it meets.
(Without the corrected bias it would be the second moment, which includes the mean.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial as bind
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.encode.half import to_half
from cnn_convertor.devices.dv700.program import Convolution, Layer, Program, Tensor, Weights
from cnn_convertor.devices.dv700.weights.palette_report import Choice
from cnn_convertor.devices.dv700.weights.palettes import (
    convolutions_of,
    fit_weights,
    has_palettes,
    identity,
    ranges,
    with_choices,
    without_palettes,
)
from cnn_convertor.emulation.execution import Maps, as_maps, count_of, from_memory, to_memory
from cnn_convertor.emulation.network import EmulatedNetwork, install_data
from cnn_convertor.errors import Origin, Problem, UsageError, warn
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from cnn_convertor.progress import Progress, silent
from cnn_convertor.quantize import Palette
from cnn_convertor.samples import Samples, part_name, split
from cnn_convertor.workers.outcomes import Item, Outcome, attempted
from cnn_convertor.workers.processes import HERE, Workers, gather

Real: TypeAlias = NDArray[np.float64]
T = TypeVar("T")

_AT_A_TIME = 1 << 24  # elements of all layers, over the samples that are in memory
_LEAST_IMPORTANCE = 0.01  # of the mean: other inputs may have values that the samples lack


class Improvement(NamedTuple):
    """SQNR of one map in dB, against the same network with FP16 weights: before and after calibration."""

    name: str
    before: float
    after: float


class Calibration(NamedTuple):
    """What sample inputs improved. samples: their number; source: where they come from.

    outputs: one for each output of the network, or for the input of its softmax. layers: one for each convolution.
    """

    samples: int
    source: str
    outputs: tuple[Improvement, ...]
    layers: tuple[Improvement, ...]


class Calibrated(NamedTuple):
    """The program with the better palettes, and what they improved."""

    program: Program
    effect: Calibration


class Moments(NamedTuple):
    """Mean and variance of the inputs that each element of a kernel meets: (C, ky, kx) both."""

    mean: Real
    variance: Real


def calibrate(
    graph: Graph,
    program: Program,
    samples: Samples,
    *,
    unfused: Program,
    device: Device,
    progress: Progress = silent,
    on: Workers = HERE,
) -> Calibrated | None:
    """The program with palettes, and biases, fitted to sample inputs; None, after a warning, when it has no palettes.

    unfused: the same network with FP16 weights and a command for each convolution, so that the inputs of all are in memory.
    device: the target of the conversion. on: where the samples run.
    The program keeps its palettes when the calibrated ones do not improve its outputs. Raises UsageError for networks with
    custom layers, and without a C++ compiler.
    """
    refuse_custom_layers(program, "calibration", "convert without --calibrate")
    if not has_palettes(program):
        problem = "there is nothing to calibrate: no layer has a palette"
        warn(Problem("DV716", problem, Origin(program.name), "quantization = 1 or auto in the ini file"))
        return None
    with temporary_folder() as root:

        def installed(program: Program, folder: str) -> EmulatedNetwork:
            progress("calibrate: prepare", 0, 1)
            return install_data(graph, program, root / folder, device=device)

        plain = installed(without_palettes(program), "fp16")
        moments = measure(installed(without_palettes(unfused), "unfused"), samples, progress, on=on)
        calibrated = fitted(program, matched(program, unfused, moments), progress)
        pair = installed(program, "before"), installed(calibrated, "after")
        improvements = _improvements(plain, pair, samples, progress, on=on)
    outputs = _of_outputs(plain.program, improvements)
    layers = tuple(improvements[i] for i, layer in enumerate(plain.program.layers) if convolutions_of(layer))
    if sum(o.after for o in outputs) < sum(o.before for o in outputs):
        problem = "calibration does not improve the outputs, so the palettes stay as they were"
        hint = "use more samples, like those that the network will see"
        warn(Problem("DV717", problem, Origin(program.name), hint))
        calibrated = program
    return Calibrated(calibrated, Calibration(samples.count, samples.source, outputs, layers))


def refuse_custom_layers(program: Program, what: str, hint: str) -> None:
    """Raises UsageError for a network with custom layers. what: the feature that runs the network."""
    for layer in program.layers:
        if layer.custom is not None:
            where = layer.origins[-1] if layer.origins else Origin(program.name)
            problem = f"{what} runs every layer, but the code of custom layers is in the firmware"
            raise UsageError.of("DV715", problem, where, hint)


# --- fitting -------------------------------------------------------------------------------------------------------------


def fitted(program: Program, moments: Mapping[int, Moments], progress: Progress = silent) -> Program:
    """The program with its palettes fitted anew, and biases that correct the mean of their errors.

    moments: index of a convolution -> its inputs. The others keep their palettes, as do those that lose nothing.
    """
    convolutions = [c for layer in program.layers for c in convolutions_of(layer)]
    known = {i: c for i, c in enumerate(convolutions) if i in moments and _loses(c.weights.choice)}
    importances = {i: _by_weight(c, _importance(moments[i])) for i, c in known.items()}
    anew = fit_weights({i: c.weights for i, c in known.items()}, importances, bind(progress, "calibrate: palettes"))
    choices = []
    for i, convolution in enumerate(convolutions):
        choice = convolution.weights.choice
        assert choice is not None, "palettes are chosen first"
        if i in anew:
            palette = anew[i].palette
            assert palette is not None
            mean = _by_weight(convolution, moments[i].mean)
            bias = _corrected_bias(convolution.weights, palette, mean)
            choice = anew[i]._replace(reason=choice.reason, bias=bias)
        choices.append(choice)
    return with_choices(program, choices)


def _loses(choice: Choice | None) -> bool:
    assert choice is not None, "palettes are chosen first"
    return choice.palette is not None and choice.quality is not None and choice.quality.noise > 0


def _importance(moments: Moments) -> Real:
    importance: Real = moments.variance + _LEAST_IMPORTANCE * moments.variance.mean()
    return importance


def _by_weight(convolution: Convolution, values: Real) -> Real:
    """Values (C, ky, kx), broadcast to kernels (M, C, ky, kx): each depthwise kernel has its own channel."""
    return values[:, np.newaxis] if convolution.kind.is_depthwise else values[np.newaxis]


def _corrected_bias(weights: Weights, palette: Palette, mean: Real) -> Constant:
    """The bias minus the mean error of the palette. mean: of the inputs, (M or 1, C, ky, kx)."""
    shifts = np.zeros(weights.packed.kernels)
    for rows in ranges(weights.kernels):
        kernels = weights.kernels.load(rows)
        stored = palette.centers[palette.index[to_half(kernels).view(np.uint16)]].astype(np.float64)
        errors = (stored - kernels) * (mean[rows] if len(mean) > 1 else mean)
        shifts[rows] = errors.reshape(len(errors), -1).sum(axis=1)
    bias = np.zeros(weights.packed.kernels) if weights.bias is None else weights.bias.load()
    return Constant.of(bias - shifts)


def matched(program: Program, unfused: Program, moments: Mapping[int, Moments]) -> dict[int, Moments]:
    """The inputs of one program's convolutions, from those of the other: those of one layer have the same order."""
    known: dict[object, list[Moments | None]] = {}
    for index, weights in enumerate(unfused.weights):
        known.setdefault(identity(weights), []).append(moments.get(index))
    counts = Counter(map(identity, program.weights))
    theirs = {key: iter(values) for key, values in known.items() if len(values) == counts[key]}
    pairs = {i: next(theirs.get(identity(w), iter(())), None) for i, w in enumerate(program.weights)}
    return {i: value for i, value in pairs.items() if value is not None}


# --- measuring -----------------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Samples for some networks, as a value for any process: input name -> (N, H, W, C)."""

    networks: tuple[EmulatedNetwork, ...]
    inputs: Mapping[str, Maps]

    def layers(self) -> Iterator[tuple[Maps, ...]]:
        """The maps of each network."""
        for network in self.networks:
            yield network.built().run(self.inputs, layers=True).layers


def _each_part(
    work: Callable[[_Part], Outcome[T]],
    networks: tuple[EmulatedNetwork, ...],
    samples: Samples,
    progress: Callable[[int, int], None],
    on: Workers,
) -> list[T]:
    """The results of work on each part of the samples, in their order.

    progress: called with the number of finished samples and of all samples.
    """
    each = parts(networks[0].program, samples)
    files = tuple(path for network in networks for path in network.files)
    items = [Item(_Part(networks, inputs), part_name(i, len(each)), files) for i, inputs in enumerate(each)]
    sizes = [count_of(inputs) for inputs in each]
    return gather(work, items, on=on, finished=lambda done: progress(sum(sizes[:done]), samples.count))


def measure(
    network: EmulatedNetwork, samples: Samples, progress: Progress = silent, *, on: Workers = HERE
) -> dict[int, Moments]:
    """The moments of each convolution's inputs, by its index, if they lie in memory and vary."""
    sums: dict[int, tuple[Real, Real]] = {}
    for count, powers in _each_part(_measured, (network,), samples, bind(progress, "calibrate: measure"), on):
        share = count / samples.count
        for index, (mean, square) in powers:
            before = sums.get(index, (np.zeros_like(mean), np.zeros_like(square)))
            sums[index] = before[0] + share * mean, before[1] + share * square
    return {i: moments for i, (mean, square) in sums.items() if (moments := _moments(mean, square)) is not None}


def _measured(part: _Part) -> Outcome[tuple[int, list[tuple[int, tuple[Real, Real]]]]]:
    """The number of samples, and what `_powers` gives."""

    def work() -> tuple[int, list[tuple[int, tuple[Real, Real]]]]:
        (layers,) = part.layers()
        powers = list(_powers(part.networks[0].program, layers, part.inputs))
        return count_of(part.inputs), powers

    return attempted(work)


def _moments(mean: Real, square: Real) -> Moments | None:
    """None for constants and FP16 overflows. Rounding to FP32 makes the result independent of the accumulation order."""
    mean = mean.astype(np.float32).astype(np.float64)
    variance = np.maximum(square.astype(np.float32) - mean**2, 0.0)
    total = float(variance.sum())
    return Moments(mean, variance) if math.isfinite(total) and total > 0 else None


def parts(program: Program, samples: Samples) -> list[dict[str, Maps]]:
    """The samples, in parts whose layers fit memory."""
    elements = sum(layer.output.shape.size for layer in program.layers)
    return split(samples.inputs, max(1, _AT_A_TIME // elements))


def _powers(
    program: Program, layers: tuple[Maps, ...], inputs: Mapping[str, Maps]
) -> Iterator[tuple[int, tuple[Real, Real]]]:
    """For each convolution that begins a command, the means of the inputs of its kernel, and of their squares: (C, ky, kx)."""
    index = 0
    for layer in program.layers:
        first = layer.runs[0].convolution if layer.runs else None
        if first is not None:
            maps = _read(program, layer, layers, inputs)
            shape = (maps.shape[3], *first.kernel)
            mean, square = np.zeros(shape), np.zeros(shape)
            for (y, x), tap in _taps(maps, first):
                mean[:, y, x] = tap.mean(axis=(0, 1, 2), dtype=np.float64)
                square[:, y, x] = np.square(tap).mean(axis=(0, 1, 2), dtype=np.float64)
            yield index, (mean, square)
        index += len(convolutions_of(layer))


def _read(program: Program, layer: Layer, layers: tuple[Maps, ...], inputs: Mapping[str, Maps]) -> Maps:
    """The input of a layer's first run: (N, H, W, C). It may be some channels of the map that was written."""
    shape, source, address = layer.runs[0].input, layer.sources[0], layer.inputs[0]
    if source is None:
        name, tensor = next((name, tensor) for name, tensor in program.inputs if _holds(tensor, address))
        memory = to_memory(to_half(inputs[name]).astype(np.float32), transposed=program.transposed)
        return from_memory(_part(memory, tensor, address), shape, transposed=program.transposed)
    writer = program.layers[source]
    return as_maps(_part(layers[source], writer.output, address), writer, shape, transposed=program.transposed)


def _holds(whole: Tensor, part: Tensor) -> bool:
    return whole.offset <= part.offset < whole.offset + whole.nbytes


def _part(memory: Maps, whole: Tensor, part: Tensor) -> Maps:
    """The elements of one map, (N, size), in the memory of another that holds it."""
    assert _holds(whole, part)
    first = (part.offset - whole.offset) // whole.type.value
    return memory[:, first : first + part.shape.size]


def _taps(maps: Maps, convolution: Convolution) -> Iterator[tuple[tuple[int, int], Maps]]:
    """For each element (y, x) of the kernel, the inputs it meets: (N, H, W, C) of the output's size."""
    samples, height, width, channels = maps.shape
    stride, dilation, padding = convolution.stride, convolution.dilation, convolution.padding
    step_y, step_x = stride
    if convolution.kind.is_transposed:  # a convolution with stride 1 over pixels with zeros between them
        spread = np.zeros((samples, (height - 1) * step_y + 1, (width - 1) * step_x + 1, channels), maps.dtype)
        spread[:, ::step_y, ::step_x] = maps
        maps, step_y, step_x = spread, 1, 1
    maps = np.pad(maps, ((0, 0), (padding.top, padding.bottom), (padding.left, padding.right), (0, 0)))
    rows, columns = (convolution.output.height - 1) * step_y + 1, (convolution.output.width - 1) * step_x + 1
    for y, x in np.ndindex(*convolution.kernel):
        top, left = y * dilation.height, x * dilation.width
        yield (y, x), maps[:, top : top + rows : step_y, left : left + columns : step_x]


# --- before and after ----------------------------------------------------------------------------------------------------


def compare_outputs(
    plain: EmulatedNetwork, pair: tuple[EmulatedNetwork, EmulatedNetwork], samples: Samples
) -> tuple[Improvement, ...]:
    """For each output of the network, or the input of its softmax: two networks against one with FP16 weights."""
    return _of_outputs(plain.program, _improvements(plain, pair, samples))


def _of_outputs(program: Program, improvements: Mapping[int, Improvement]) -> tuple[Improvement, ...]:
    return tuple(
        improvements[_before_softmax(program, index)]._replace(name=_name(program.layers[index]))
        for index in program.outputs
    )


def _improvements(
    plain: EmulatedNetwork,
    pair: tuple[EmulatedNetwork, EmulatedNetwork],
    samples: Samples,
    progress: Progress = silent,
    *,
    on: Workers = HERE,
) -> dict[int, Improvement]:
    """For each layer of the program, by its index. pair: the network before and after calibration."""
    signals = np.zeros(len(plain.program.layers))
    noises = np.zeros((2, signals.size))
    for signal, noise in _each_part(_compared, (plain, *pair), samples, bind(progress, "calibrate: compare"), on):
        signals += signal
        noises += noise
    names = map(_name, plain.program.layers)
    columns = zip(names, signals, *noises, strict=True)
    return {
        index: Improvement(name, _decibels(signal, before), _decibels(signal, after))
        for index, (name, signal, before, after) in enumerate(columns)
    }


def _compared(part: _Part) -> Outcome[tuple[Real, Real]]:
    """The power of each layer of the first network, (layers,), and of the differences of the others, (networks, layers)."""

    def work() -> tuple[Real, Real]:
        first, *others = part.layers()
        right = [maps.astype(np.float64) for maps in first]
        noises = [[np.sum(np.square(m - r)) for m, r in zip(layers, right, strict=True)] for layers in others]
        return np.array([np.sum(np.square(maps)) for maps in right]), np.array(noises)

    return attempted(work)


def _before_softmax(program: Program, index: int) -> int:
    """The layer whose map shows the quality of an output: a softmax hides errors when one class is certain."""
    layer = program.layers[index]
    source = layer.sources[0] if layer.is_softmax else None
    return index if source is None else source


def _name(layer: Layer) -> str:
    return layer.origins[-1].layer if layer.origins else layer.name


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf
