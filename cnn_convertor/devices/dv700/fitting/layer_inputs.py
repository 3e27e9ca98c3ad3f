"""Measures what the layers of a network read: means, variances, and some of the inputs themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial as bind
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.fitting.gradients import error_powers
from cnn_convertor.devices.dv700.fitting.kernel_windows import Windows
from cnn_convertor.devices.dv700.runs import Convolution, Layer, Program, Run
from cnn_convertor.devices.dv700.weights.palettes import convolutions_of
from cnn_convertor.devices.half import to_half
from cnn_convertor.devices.program import Tensor
from cnn_convertor.emulation.feature_maps import Maps, as_maps, count_of, from_memory, to_memory
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.ir.constant import ALL, Constant
from cnn_convertor.ir.ops import PRelu, Shape
from cnn_convertor.progress import Progress, silent
from cnn_convertor.samples import Samples, batch_name, in_batches
from cnn_convertor.workers.outcomes import Item, Outcome, attempted
from cnn_convertor.workers.processes import HERE, Workers, gathered

Real: TypeAlias = NDArray[np.float64]
Half: TypeAlias = NDArray[np.float16]
T = TypeVar("T")

_AT_A_TIME = 1 << 22  # elements of all layers, over the samples that are in memory
_KEPT = 1 << 22  # inputs of a layer that are kept, over all samples
_MOST_POSITIONS = 1 << 16  # of them that meet one element of a kernel
_LEAST_POSITIONS = 2  # of them, for each element of a kernel


class Moments(NamedTuple):
    """Mean and variance of the inputs that each element of a kernel meets: (C, ky, kx) both."""

    mean: Real
    variance: Real


class KeptFiles(NamedTuple):
    """Files that `read_files` reads, for the samples in their order. channels: of the inputs, kernels: those of them that count."""

    files: tuple[Path, ...]
    channels: slice = ALL
    kernels: slice = ALL


class LayerInputs(NamedTuple):
    """What a convolution reads."""

    moments: Moments
    kept: KeptFiles

    def for_kernels(self, rows: slice, *, is_depthwise: bool) -> LayerInputs:
        """What some of the kernels read. All of them read all channels, unless the convolution is depthwise."""
        kept = self.kept._replace(kernels=rows)
        if not is_depthwise:
            return self._replace(kept=kept)
        return LayerInputs(Moments(*(each[rows] for each in self.moments)), kept._replace(channels=rows))


class Batch(NamedTuple):
    """Samples for some networks, as a value for any process: input name -> (N, H, W, C). whole: the number of all samples.

    constants: the files of those of the first network, which other processes lack.
    """

    networks: tuple[EmulatedNetwork, ...]
    inputs: Mapping[str, Maps]
    whole: int
    constants: tuple[Path, ...] = ()

    def layers(self) -> Iterator[tuple[Maps, ...]]:
        """The maps of each network."""
        for network in self.networks:
            yield network.built().run(self.inputs, layers=True).layers


class _Measured(NamedTuple):
    """What one convolution reads. number: its index.

    means: of the inputs of its kernel, (N, C, ky, kx). square: the mean of their squares, (C, ky, kx). kept: (N, positions, C, ky * kx)
    counts: what the square of an error of each output counts at the same positions and all that these stand for, (N, positions, M).
    """

    number: int
    means: Real
    square: Real
    kept: Half
    counts: Maps


def measure(
    network: EmulatedNetwork, samples: Samples, folder: Path, progress: Progress = silent, *, on: Workers = HERE
) -> dict[int, LayerInputs]:
    """What each convolution reads, by its index, if it lies in memory and is finite. folder: for some of the inputs."""
    sums: dict[int, list[Real]] = {}
    files: dict[int, list[Path]] = {}
    stored = _stored(network.program, folder)
    measured = each_batch(_measured, (network,), samples, bind(progress, "calibrate: measure"), on, stored)
    for number, (count, layers) in enumerate(measured):
        share = count / samples.count
        for index, means, square, kept, counts in layers:
            terms = [share * each for each in (means.mean(axis=0), square)]
            sums[index] = [a + b for a, b in zip(sums[index], terms, strict=True)] if index in sums else terms
            files.setdefault(index, []).append(folder / f"{index}-{number}.npz")
            np.savez(files[index][-1], kept=kept, means=means, counts=counts)
    moments = {i: _moments(mean, square) for i, (mean, square) in sums.items()}
    return {i: LayerInputs(known, KeptFiles(tuple(files[i]))) for i, known in moments.items() if known is not None}


class Kept(NamedTuple):
    """Inputs of a convolution. kept: FP16 inputs at some positions of the kernel, (N, positions, C, ky * kx).

    means: over all positions, (N, C, ky * kx). counts: what the square of an error of each output counts at the same positions and all
    that these stand for, (N, positions, M).
    """

    kept: Half
    means: Real
    counts: Maps


def read_files(inputs: KeptFiles) -> Kept:
    """What `measure` kept of a convolution's inputs."""
    kept = []
    means = []
    counts = []
    for path in inputs.files:
        with np.load(path) as arrays:
            kept.append(arrays["kept"][:, :, inputs.channels])
            means.append(arrays["means"][:, inputs.channels])
            counts.append(arrays["counts"][:, :, inputs.kernels])
    return Kept(np.concatenate(kept), np.concatenate(means).reshape(-1, *kept[0].shape[2:]), np.concatenate(counts))


def each_batch(
    work: Callable[[Batch], Outcome[T]],
    networks: tuple[EmulatedNetwork, ...],
    samples: Samples,
    progress: Callable[[int, int], None],
    on: Workers,
    constants: tuple[Path, ...] = (),
) -> Iterator[T]:
    """The results of work on each batch of samples, in their order.

    progress: called with the number of finished samples and of all samples. constants: as in `Batch`.
    """
    each = small_batches(networks[0].program, samples)
    files = (*(path for network in networks for path in network.files), *constants)
    items = [
        Item(Batch(networks, inputs, samples.count, constants), batch_name(i, len(each)), files)
        for i, inputs in enumerate(each)
    ]
    ends = [0, *accumulate(count_of(inputs) for inputs in each)]
    return gathered(work, items, on=on, finished=lambda done: progress(ends[done], samples.count))


def _measured(batch: Batch) -> Outcome[tuple[int, list[_Measured]]]:
    """The number of samples, and what each convolution reads that begins a command."""

    def work() -> tuple[int, list[_Measured]]:
        (layers,) = batch.layers()
        with np.errstate(over="ignore", invalid="ignore"):  # FP16 overflows: such layers are left out
            return count_of(batch.inputs), list(_each_layer(batch, layers))

    return attempted(work)


def _each_layer(batch: Batch, layers: tuple[Maps, ...]) -> Iterator[_Measured]:
    program = _with_stored(batch.networks[0].program, batch.constants)

    def read(number: int) -> tuple[Maps, ...]:  # when needed: each is a copy
        return read_maps(program, program.layers[number], layers.__getitem__, batch.inputs)

    owners = [number for number, layer in enumerate(program.layers) for _ in convolutions_of(layer)]
    for index, powers in error_powers(program, layers, read):
        first = program.layers[owners[index]].runs[0].convolution
        assert first is not None
        yield _measured_layer(index, first, read(owners[index])[0], powers, batch.whole)


def _stored(program: Program, folder: Path) -> tuple[Path, ...]:
    """The files of a program's constants, in the order of its runs."""
    paths: list[Path] = []

    def store(constant: Constant) -> Constant:
        paths.append(folder / f"constant-{len(paths)}.npy")
        np.save(paths[-1], constant.load())
        return constant

    _with_constants(program, store)
    return tuple(paths)


def _with_stored(program: Program, paths: Iterable[Path]) -> Program:
    """The program with the constants of the files."""
    remaining = iter(paths)

    def restore(constant: Constant) -> Constant:
        path = next(remaining)
        return Constant(constant.shape, lambda rows: np.load(path)[rows])

    return _with_constants(program, restore)


def _with_constants(program: Program, new: Callable[[Constant], Constant]) -> Program:
    def convolution(it: Convolution) -> Convolution:
        bias = None if it.weights.bias is None else new(it.weights.bias)
        return replace(it, weights=replace(it.weights, kernels=new(it.weights.kernels), bias=bias))

    def run(it: Run) -> Run:
        activation = it.activation
        if isinstance(activation, PRelu):
            activation = replace(activation, slopes=new(activation.slopes))
        return replace(it, convolution=it.convolution and convolution(it.convolution), activation=activation)

    return replace(program, layers=tuple(replace(it, runs=tuple(map(run, it.runs))) for it in program.layers))


def _measured_layer(index: int, convolution: Convolution, maps: Maps, powers: Real, samples: int) -> _Measured:
    """powers: what the square of an error counts of what the convolution writes, (N, H, W, M)."""
    square = np.zeros((maps.shape[3], *convolution.kernel))
    for (y, x), tap in Windows.of_convolution(convolution).taps(maps):
        square[:, y, x] = np.square(tap).mean(axis=(0, 1, 2), dtype=np.float64)
    kept, means, positions = kept_of(convolution, maps, samples)
    everywhere = powers.reshape(len(powers), -1, powers.shape[3])
    counts = (everywhere[:, positions] * (everywhere.shape[1] / positions.size)).astype(np.float32)
    return _Measured(index, means, square, kept, counts)


def kept_of(convolution: Convolution, maps: Maps, samples: int) -> tuple[Half, Real, NDArray[np.intp]]:
    """What is kept of the inputs of a convolution, (N, positions, C, ky * kx), the means of all, (N, C, ky, kx), and the positions.

    samples: the number of all.
    """
    shape = (maps.shape[3], *convolution.kernel)
    means = np.zeros((len(maps), *shape))
    positions = _positions(convolution, maps.shape[3], samples)
    kept = np.empty((len(maps), positions.size, *shape), np.float16)
    for (y, x), tap in Windows.of_convolution(convolution).taps(maps):
        means[..., y, x] = tap.mean(axis=(1, 2), dtype=np.float64)
        kept[..., y, x] = tap.reshape(len(maps), -1, maps.shape[3])[:, positions]
    return kept.reshape(*kept.shape[:3], -1), means, positions


def _positions(convolution: Convolution, channels: int, samples: int) -> NDArray[np.intp]:
    """Which outputs of a sample show what the kernel meets: all, or as many as there is room for, at random."""
    size = max(channels * convolution.kernel.height * convolution.kernel.width, convolution.output.channels)
    wanted = min(_MOST_POSITIONS, max(_KEPT // size, 0 if convolution.kind.is_depthwise else _LEAST_POSITIONS * size))
    there = convolution.output.height * convolution.output.width
    if samples * there <= wanted:
        return np.arange(there)
    each = max(1, wanted // samples)
    return np.sort(np.random.default_rng(0).choice(there, each, replace=False))


def _moments(mean: Real, square: Real) -> Moments | None:
    """None for FP16 overflows. Rounding to FP32 makes the result independent of the accumulation order."""
    mean = mean.astype(np.float32).astype(np.float64)
    variance = np.maximum(square.astype(np.float32) - mean**2, 0.0)
    return Moments(mean, variance) if math.isfinite(float(variance.sum())) else None


def small_batches(program: Program, samples: Samples) -> list[dict[str, Maps]]:
    """The samples, in batches whose layers fit memory."""
    elements = sum(layer.output.shape.size for layer in program.layers)
    return in_batches(samples.inputs, max(1, _AT_A_TIME // elements))


def read_maps(
    program: Program, layer: Layer, written: Callable[[int], Maps], inputs: Mapping[str, Maps]
) -> tuple[Maps, ...]:
    """The inputs of a layer, or of its first run: (N, H, W, C). They may be some channels of the map that was written.

    written: from the number of a layer to what it wrote, (N, size) in memory order.
    """
    shapes = [tensor.shape for tensor in layer.inputs]
    if layer.runs:
        shapes[0] = layer.runs[0].input
    return tuple(
        _part_read(program, written, inputs, source, address, shape)
        for source, address, shape in zip(layer.sources, layer.inputs, shapes, strict=True)
    )


def _part_read(
    program: Program,
    written: Callable[[int], Maps],
    inputs: Mapping[str, Maps],
    source: int | None,
    address: Tensor,
    shape: Shape,
) -> Maps:
    if source is None:
        name, tensor = next((name, tensor) for name, tensor in program.inputs if _holds(tensor, address))
        memory = to_memory(to_half(inputs[name]).astype(np.float32), tensor.layout)
        return from_memory(_part(memory, tensor, address), shape, tensor.layout)
    writer = program.layers[source]
    return as_maps(_part(written(source), writer.output, address), writer, shape)


def _holds(whole: Tensor, part: Tensor) -> bool:
    return whole.offset <= part.offset < whole.offset + whole.nbytes


def _part(memory: Maps, whole: Tensor, part: Tensor) -> Maps:
    """The elements of one map, (N, size), in the memory of another that holds it."""
    assert _holds(whole, part)
    first = (part.offset - whole.offset) // whole.type.value
    return memory[:, first : first + part.shape.size]
