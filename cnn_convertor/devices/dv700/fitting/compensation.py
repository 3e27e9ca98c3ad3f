"""Goes through a network's layers once, and lets each make up for what the palettes before it change.

The maps that palettes give are computed in FP64, command by command, and rounded to FP16. What a function of the CPU makes of them
is not known, so it passes no changes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700 import fp64
from cnn_convertor.devices.dv700.fitting.gradients import joins_channels
from cnn_convertor.devices.dv700.fitting.layer_compensation import InputPair, compensate
from cnn_convertor.devices.dv700.fitting.layer_fit import FittedLayer
from cnn_convertor.devices.dv700.fitting.layer_inputs import (
    Half,
    Kept,
    LayerInputs,
    kept_of,
    read_files,
    read_maps,
    small_batches,
)
from cnn_convertor.devices.dv700.runs import Convolution, Layer, Program
from cnn_convertor.devices.dv700.weights.palettes import SameKernels, convolutions_of, decoded
from cnn_convertor.devices.program import LayerType
from cnn_convertor.emulation.feature_maps import Maps, layout_of, to_memory
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.ir.constant import Constant
from cnn_convertor.progress import Progress, silent
from cnn_convertor.samples import Samples

Real: TypeAlias = NDArray[np.float64]

_AT_A_TIME = 1 << 20  # elements of a layer's maps in FP64
_ENOUGH = 1 << 21  # inputs of a layer, over all samples
_POSITIONS = 8  # for each input of a kernel


class Walked:
    """What the layers of a network with palettes write for some samples, layer after layer, in files.

    inputs: what the convolutions of the program that is calibrated read with FP16 weights. folder: of the files, new.
    """

    def __init__(
        self, network: EmulatedNetwork, samples: Samples, inputs: Mapping[int, LayerInputs], folder: Path
    ) -> None:
        self._network, self._samples, self._inputs, self._folder = network, samples, inputs, folder
        folder.mkdir()
        layers = network.program.layers
        read = {source for layer in layers for source in layer.sources if source is not None}
        if others := sorted(source for source in read if not _is_computed(layers[source])):
            self._write_as_with_fp16_weights(others)

    def kept(self, layer: Layer, convolution: Convolution) -> tuple[Half, Real]:
        """What `kept_of` keeps of the inputs of a convolution, and their means, with the palettes of the layers before."""
        each = [kept_of(convolution, maps[0], self._samples.count)[:2] for maps in self._read(layer)]
        kept, means = zip(*each, strict=True)
        return np.concatenate(kept), np.concatenate(means)

    def pair(self, index: int, kept: Half, means: Real, kernel_size: int) -> InputPair:
        """The inputs of a convolution of the program, with and without palettes before it. kept, means: from `kept`.

        Of large layers at fewer positions, but several for each of the inputs that a kernel has (kernel_size).
        """
        files = self._inputs[index].kept
        exact = read_files(files)
        samples, positions, *_ = exact.kept.shape
        step = max(1, min(exact.kept.size // _ENOUGH, samples * positions // (_POSITIONS * kernel_size)))
        some = slice(None, None, min(step, positions))
        counts = exact.counts[:, some]
        exact = Kept(exact.kept[:, some], exact.means, counts * np.float32(positions / counts.shape[1]))
        changed = exact._replace(
            kept=kept[:, some, files.channels], means=means[:, files.channels].reshape(exact.means.shape)
        )
        return InputPair(exact, changed)

    def write(self, number: int, layer: Layer) -> None:
        """Compute what the layer writes."""
        for maps in self._read(layer):
            self._append(number, to_memory(_computed(layer, maps), layout_of(layer)))

    def remove(self, number: int) -> None:
        """What the layer wrote."""
        self._path(number).unlink(missing_ok=True)

    def _read(self, layer: Layer) -> Iterator[tuple[Maps, ...]]:
        """What the layer reads, (N, H, W, C), of some samples at a time."""
        program = self._network.program
        largest = max(tensor.shape.size for tensor in (*layer.inputs, layer.output))
        step = max(1, _AT_A_TIME // largest)
        for start in range(0, self._samples.count, step):

            def written(number: int, start: int = start) -> Maps:
                size = program.layers[number].output.shape.size
                memory = np.fromfile(self._path(number), np.float16, step * size, offset=2 * start * size)
                return memory.reshape(-1, size).astype(np.float32)

            inputs = {name: values[start : start + step] for name, values in self._samples.inputs.items()}
            yield read_maps(program, layer, written, inputs)

    def _write_as_with_fp16_weights(self, numbers: Sequence[int]) -> None:
        for inputs in small_batches(self._network.program, self._samples):
            layers = self._network.built().run(inputs, layers=True).layers
            for number in numbers:
                self._append(number, layers[number])

    def _append(self, number: int, memory: Maps) -> None:
        """What a layer writes of the next samples: (N, size), in memory order."""
        with self._path(number).open("ab") as file, np.errstate(over="ignore"):
            memory.astype(np.float16).tofile(file)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.fp16"


def compensated(
    program: Program,
    layers: Mapping[int, FittedLayer],
    same: Mapping[int, SameKernels],
    palettes: Program,
    walks: Sequence[Walked],
    progress: Progress = silent,
) -> dict[int, FittedLayer]:
    """The layers, by the index of the program's convolution, with weights that make up for what those before them change.

    program: with palettes. same: where its kernels are in the network of both walks.
    palettes: that network's program with the palettes of these layers. walks: of the samples that fit, and of those that judge.
    """
    result = dict(layers)
    owners: dict[int, list[int]] = {}
    for i in sorted(layers):
        owners.setdefault(same[i].convolution, []).append(i)
    walked = decoded(palettes).layers
    last_reader = {source: number for number, layer in enumerate(walked) for source in layer.sources}
    changed: set[int | None] = set()
    index = 0  # of the convolution
    for number, layer in enumerate(walked):
        progress("calibrate: compensate", number, len(walked))
        own = owners.get(index, []) if convolutions_of(layer) else []
        index += len(convolutions_of(layer))
        is_changed = not changed.isdisjoint(layer.sources)
        if own and is_changed:
            layer = _compensated(layer, own, program, same, result, walks)
        if _is_computed(layer) and (own or is_changed):
            changed.add(number)
        for walk in walks:
            if number in last_reader and _is_computed(layer):
                walk.write(number, layer)
            for source in layer.sources:
                if source is not None and last_reader[source] == number:
                    walk.remove(source)
    progress("calibrate: compensate", len(walked), len(walked))
    return result


def _compensated(
    layer: Layer,
    own: Sequence[int],
    program: Program,
    same: Mapping[int, SameKernels],
    result: dict[int, FittedLayer],
    walks: Sequence[Walked],
) -> Layer:
    """The layer with the weights of its own convolutions in the program, which are put into the result."""
    run = layer.runs[0]
    convolution = run.convolution
    assert convolution is not None
    kept = [walk.kept(layer, convolution) for walk in walks]
    if not all(np.isfinite(each).all() for each, _ in kept):
        return layer
    kernels = convolution.weights.kernels.load()
    bias = np.zeros(len(kernels)) if convolution.weights.bias is None else convolution.weights.bias.load_wide()
    for i in own:
        weights, rows = program.weights[i], same[i].rows
        pairs = (
            walk.pair(i, *each, weights.kernels.size // len(kernels[rows]))
            for walk, each in zip(walks, kept, strict=True)
        )
        result[i] = compensate(weights.kernels.load(), result[i], convolution.kind.is_depthwise, *pairs)
        kernels[rows] = result[i].kernels.load()
        bias[rows] = (0.0 if weights.bias is None else weights.bias.load_wide()) - result[i].shifts
    stored = replace(convolution.weights, kernels=Constant.of(kernels), bias=Constant.of(bias))
    return replace(layer, runs=(replace(run, convolution=replace(convolution, weights=stored)),))


def _is_computed(layer: Layer) -> bool:
    """Whether `_computed` knows what the layer writes. Functions of the CPU are not among them."""
    if layer.runs:
        return all(run.factors is None for run in layer.runs)
    return layer.type is LayerType.FLATTEN or joins_channels(layer)


def _computed(layer: Layer, maps: Sequence[Maps]) -> Maps:
    """What a layer writes, (N, H, W, C). maps: what it reads."""
    if layer.runs:
        first, *operands = (each.astype(np.float64) for each in maps)
        with np.errstate(over="ignore", invalid="ignore"):  # FP16 overflows: what reads them stays as it is
            return fp64.compute(first, layer.runs, *operands)[-1].astype(np.float32)
    return np.concatenate(maps, axis=3) if len(maps) > 1 else maps[0]
