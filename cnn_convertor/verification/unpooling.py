"""The pixel indices of the maxima that the device's unpoolings use, so that unpoolings are compared apart from their poolings.

Rounding to FP16 makes neighbors equal, or changes which of two is larger. An unpooling then puts a value one pixel
away: numerically far from the framework's result, but equally valid. So the framework unpools by the device's maxima, which are
compared with its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.program import Program
from cnn_convertor.emulation.feature_maps import Maps, as_maps
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import MaxUnpool, Shape, Window
from cnn_convertor.verification.compare import layer_of

Indices: TypeAlias = NDArray[np.intp]


class DeviceMaxima(NamedTuple):
    """The maxima of an unpooling. pooled: the framework layer that was pooled; maps: the device's, (N, H, W, C)."""

    pooled: str
    maps: Maps
    window: Window

    def indices(self, samples: slice) -> Indices:
        """The indices of the device's maxima: (N, h, w, C). Pixels are counted row by row."""
        return first_maxima(self.maps[samples], self.window)


class Unpooling(NamedTuple):
    """name, pooled: framework layers, of the unpooling and of the pooled map. source: the program's layer with that map."""

    name: str
    pooled: str
    source: int
    shape: Shape
    window: Window

    def choice(self, program: Program, memory: Maps) -> DeviceMaxima:
        """memory: of the source, (N, size)."""
        layer = program.layers[self.source]
        return DeviceMaxima(self.pooled, as_maps(memory, layer, self.shape), self.window)


def unpoolings(graph: Graph, program: Program) -> list[Unpooling]:
    """The unpoolings whose pooled map is the output of a layer of the program. graph: as the framework has it."""
    results = []
    for layer in program.layers:
        if isinstance(layer.cpu, MaxUnpool):
            pooled, source = graph[graph[layer.name].inputs[1]], layer.sources[1]
            shape = graph.shape(pooled.name)
            if source is not None and program.layers[source].output.shape == shape:
                names = (layer_of(graph, layer.name), layer_of(graph, pooled.name))
                results.append(Unpooling(*names, source, shape, layer.cpu.window))
    return results


def first_maxima(maps: Maps, window: Window) -> Indices:
    """The pixel index of the maximum of each window, the first of equal ones. maps: (N, H, W, C); result: (N, h, w, C)."""
    samples, rows, columns, channels = maps.shape
    height, width, _ = window.slide(Shape(rows, columns, channels), channels=channels)
    largest = np.full((samples, height, width, channels), -np.inf, maps.dtype)
    indices = np.zeros(largest.shape, np.intp)
    for i, j in np.ndindex(*window.kernel):
        y = np.arange(height) * window.stride.height + i * window.dilation.height - window.padding.top
        x = np.arange(width) * window.stride.width + j * window.dilation.width - window.padding.left
        inside = ((y >= 0) & (y < rows))[:, None] & ((x >= 0) & (x < columns))
        values = maps[:, np.clip(y, 0, rows - 1)][:, :, np.clip(x, 0, columns - 1)]
        larger = inside[:, :, None] & (values > largest)
        largest = np.where(larger, values, largest)
        indices = np.where(larger, (y[:, None] * columns + x)[:, :, None], indices)
    return indices


def values_at(maps: Maps, indices: Indices) -> Maps:
    """The values of maps (N, H, W, C) at indices of pixels (N, h, w, C)."""
    flat = indices.reshape(len(maps), -1, maps.shape[-1])
    return np.take_along_axis(maps.reshape(len(maps), -1, maps.shape[-1]), flat, axis=1).reshape(indices.shape)


class Maxima(NamedTuple):
    """Of a map of the framework, (N, h, w, C): its values where the device has the maxima of its own, and its maxima."""

    name: str
    chosen: Maps
    largest: Maps


def compared_maxima(
    choices: Mapping[str, DeviceMaxima], masks: Mapping[str, Indices], layers: Mapping[str, Maps]
) -> Iterator[Maxima]:
    """The framework's values at the device's maxima beside its own maxima, for the first samples of each unpooling.

    masks: unpooling -> the framework's own, (N, h, w, C). layers: framework layer, or input -> (N, H, W, C).
    """
    for name, mask in masks.items():
        choice = choices[name]
        maps, indices = layers[choice.pooled], choice.indices(slice(len(mask)))
        yield Maxima(f"maxima of {choice.pooled}, for {name}", values_at(maps, indices), values_at(maps, mask))
