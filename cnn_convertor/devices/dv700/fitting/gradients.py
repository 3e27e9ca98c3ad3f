"""What errors of a network's maps do at its outputs: squares of gradients, backward through the layers.

The outputs are added up with random signs, several times. The squares of the sums' gradients are in the mean the power that
independent errors have at all outputs, as a share of the power of these.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700 import fp64
from cnn_convertor.devices.dv700.fitting.kernel_windows import Tap, Windows
from cnn_convertor.devices.dv700.runs import Convolution, Layer, PoolingKind, Program, Run
from cnn_convertor.devices.dv700.weights.palettes import convolutions_of
from cnn_convertor.devices.program import LayerType, Tensor
from cnn_convertor.emulation.feature_maps import Maps, as_maps, layout_of, to_memory
from cnn_convertor.emulation.variants import judged_layers
from cnn_convertor.errors import assert_never
from cnn_convertor.ir.ops import Crop, Elu, Function, PRelu, Relu, Relu6, Sigmoid, Tanh

Single: TypeAlias = NDArray[np.float32]
Real: TypeAlias = NDArray[np.float64]
Read: TypeAlias = Sequence[Maps]  # what a layer reads, (N, H, W, C) each

# Signs of outputs in turn, for each sum. Those of different outputs are orthogonal: the sums of up to 4 outputs are exact.
_SIGNS = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], np.float32)


def error_powers(program: Program, layers: Sequence[Maps], read: Callable[[int], Read]) -> Iterator[tuple[int, Real]]:
    """For each convolution that an output depends on, from the last to the first: its number, and what errors count.

    These are of what it writes before pooling and activation, (N, H, W, M): the share of the outputs' power that the square of an
    error becomes. All values of all outputs count alike, as shares of the power of the values of their own output.
    program: with a command for each convolution. layers: what each layer wrote, (N, size) in memory order. read: from the number of
    a command's layer to the maps of its inputs.
    """
    for index, gradients in _gradients(program, layers, read):
        yield index, np.square(gradients, dtype=np.float64).reshape(len(_SIGNS), -1, *gradients.shape[1:]).mean(axis=0)


def _gradients(program: Program, layers: Sequence[Maps], read: Callable[[int], Read]) -> Iterator[tuple[int, Single]]:
    """For each convolution, its number and the gradients of all samples for each sum, for what it writes, (S * N, H, W, M).

    A layer of the CPU passes on random gradients, since what it does with errors is not known.
    """
    random = np.random.default_rng(zlib.crc32(layers[0].tobytes()))
    index = sum(len(convolutions_of(layer)) for layer in program.layers)
    arrived: dict[int, Single] = {}
    judged = judged_layers(program)
    values_of_all = sum(layers[output].shape[1] for output in judged)
    for output in judged:
        maps = layers[output]
        signs = _SIGNS[:, np.newaxis, np.arange(maps.shape[1]) % _SIGNS.shape[1]] * _random_signs(random, maps.shape)
        arrived[output] = signs.reshape(-1, maps.shape[1]) / ((_size(maps) or 1.0) * math.sqrt(values_of_all))
    for number in reversed(range(len(program.layers))):
        layer = program.layers[number]
        index -= len(convolutions_of(layer))
        memory = arrived.pop(number, None)
        if memory is None:
            continue
        values = as_maps(memory, layer, layer.output.shape)
        if layer.runs:
            written = as_maps(layers[number], layer, layer.output.shape)
            at_convolution, passed = _through_run(layer.runs[0], read(number), written, values)
            if at_convolution is not None:
                yield index, at_convolution
        else:
            passed = _through_others(layer, values, random)
        for source, tensor, each in zip(layer.sources, layer.inputs, passed, strict=True):
            if source is not None:
                _add(arrived, program, source, tensor, each)


def _times(values: Single, factors: Single) -> Single:
    """The gradients of each sum, (S * N, H, W, C), times factors (N, H, W, C)."""
    return (values.reshape(-1, *factors.shape) * factors).reshape(values.shape)


def _random_signs(random: np.random.Generator, shape: tuple[int, ...]) -> Single:
    return random.choice(np.array([-1, 1], np.float32), shape)


def _size(values: Maps | Single) -> float:
    """The root of the mean square."""
    return math.sqrt(float(np.square(values, dtype=np.float64).mean()))


def _add(arrived: dict[int, Single], program: Program, source: int, tensor: Tensor, values: Single) -> None:
    """Add gradients, (N, H, W, C), to those of the layer that wrote the map. tensor: the part of it that was read."""
    writer = program.layers[source]
    flat = to_memory(values, layout_of(writer))
    first = (tensor.offset - writer.output.offset) // tensor.type.value
    whole = arrived.setdefault(source, np.zeros((len(values), writer.output.shape.size), np.float32))
    whole[:, first : first + flat.shape[1]] += flat


# --- layers --------------------------------------------------------------------------------------------------------------


def _through_others(layer: Layer, maps: Single, random: np.random.Generator) -> list[Single]:
    """Gradients of what a layer reads that is not a command. maps: those of its output, (N, H, W, C)."""
    shapes = [tensor.shape for tensor in layer.inputs]
    if joins_channels(layer):
        return np.split(maps, np.cumsum([shape.channels for shape in shapes])[:-1], axis=3)
    if layer.type is LayerType.FLATTEN:
        return [maps.reshape(len(maps), *shapes[0])]
    if isinstance(layer.cpu, Crop):  # for example behind a kernel that is divided
        whole = np.zeros((len(maps), *shapes[0]), np.float32)
        whole[(slice(None), *map(slice, layer.cpu.start, layer.cpu.stop, layer.cpu.stride))] = maps
        return [whole]
    return [_random_signs(random, (len(maps), *shape)) * _size(maps) for shape in shapes]


def joins_channels(layer: Layer) -> bool:
    """Whether it concatenates maps along their channels."""
    channels = sum(tensor.shape.channels for tensor in layer.inputs)
    return layer.type in {LayerType.CONCAT, LayerType.COPY_CONCAT} and channels == layer.output.shape.channels


def _through_run(run: Run, read: Read, written: Maps, values: Single) -> tuple[Single | None, list[Single]]:
    """Gradients behind the convolution, if there is one, and those of what the run reads. written, values: behind the run."""
    values = values if run.activation is None else _times(values, slopes_of(run.activation, written))
    inputs, *others = read
    pooling, convolution = run.pooling, run.convolution
    passed = [values] * len(others)
    if pooling is not None:
        windows = Windows.of_pooling(pooling, run)
        match pooling.kind:
            case PoolingKind.MAX:
                before = inputs.astype(np.float64)
                if convolution is not None:
                    before = fp64.convolved(before, convolution)
                for operand in others:
                    before = before + operand
                values = _to_largest(windows, before, values)
                passed = [values] * len(others)
            case PoolingKind.AVERAGE:
                scaled = values * pooling.factor
                shape = inputs.shape[1:] if convolution is None else convolution.output
                values = windows.back((len(scaled), *shape), lambda _: scaled)
            case PoolingKind.UPSAMPLE:
                samples, height, width, channels = values.shape
                tall, wide = pooling.kernel
                values = values.reshape(samples, height // tall, tall, width // wide, wide, channels).sum(axis=(2, 4))
    if convolution is None:
        return None, [values, *passed]
    return values, [_through_convolution(convolution, (len(values), *inputs.shape[1:]), values), *passed]


def slopes_of(function: Function, values: Maps) -> Single:
    """The derivative of an activation, from the values that it gave."""
    one = np.float32(1)
    match function:
        case Relu(slope=slope):
            return np.where(values > 0, one, np.float32(slope))
        case Relu6():
            return ((values > 0) & (values < 6)).astype(np.float32)
        case PRelu(slopes=slopes):
            return np.where(values > 0, one, slopes.load())
        case Elu():
            return np.where(values > 0, one, values + one)
        case Sigmoid():
            return values - np.square(values)
        case Tanh():
            return one - np.square(values)
        case _:
            assert_never(function)


def _to_largest(windows: Windows, maps: Real, values: Single) -> Single:
    """Gradients of a max pooling's input: those that are the largest of a window have its gradient."""
    largest = np.maximum.reduce([tap for _, tap in windows.taps(maps, -np.inf)])
    chosen = {at: (tap == largest).astype(np.float32) for at, tap in windows.taps(maps, -np.inf)}
    return windows.back((len(values), *maps.shape[1:]), lambda at: _times(values, chosen[at]))


# --- convolutions --------------------------------------------------------------------------------------------------------


def _through_convolution(convolution: Convolution, shape: tuple[int, ...], values: Single) -> Single:
    """Gradients of a convolution's inputs. shape: of these."""
    kernels = convolution.weights.kernels.load()
    is_depthwise = convolution.kind.is_depthwise

    def from_tap(tap: Tap) -> Single:
        y, x = tap
        return values * kernels[:, 0, y, x] if is_depthwise else values @ kernels[:, :, y, x]

    return Windows.of_convolution(convolution).back(shape, from_tap)
