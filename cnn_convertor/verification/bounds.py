"""Judges each map on the framework's inputs to it, by what rounding to FP16 allows there."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.program import Layer, Program
from cnn_convertor.emulation.execution import LARGEST_HALF, Maps, count_of, given_layers
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import ArgMax, DetectionOutput, Floor, MaxUnpool, Round, Threshold, Unary
from cnn_convertor.verification.compare import sqnr
from cnn_convertor.verification.framework_maps import Reference
from cnn_convertor.verification.inner_maps import ComparedMap, pairs
from cnn_convertor.verification.rerounding import rerounded, rerounded_maps
from cnn_convertor.verification.results import Excess

_JUDGED: Final = 4  # samples: two runs more for each
_JUDGED_OF_LARGE: Final = 1  # where maps have so many values that these decide
_LARGE: Final = 1 << 20  # values of all maps of a sample
_COMPARABLE: Final = 20.0  # dB, element by element
# dB that a right map may lose beyond the estimate, and the more, the fewer values decide it: from random networks, whose
# maps lose at most 1 dB with 1000 values, 3 with 100, 14 with 2, and whose single channels lose at most 24 with 2.
_OF_A_MAP: Final = (5.0, 25.0)
_OF_A_CHANNEL: Final = (20.0, 25.0)
_HALF_STEP: Final = 2.0**-22 / 3  # power of the rounding of a value to FP16, over its own
_LEAST_STEP: Final = 2.0**-48 / 12  # power of the rounding of the smallest values

Powers = NDArray[np.float64]


def judge_maps(
    network: EmulatedNetwork, other: EmulatedNetwork, inputs: Mapping[str, Maps], reference: Reference
) -> tuple[int, tuple[Excess, ...]]:
    """How many maps are judged, and those that lose more than rounding explains.

    network: with FP16 weights. other: the same with weights that are rounded stochastically. Each layer reads the
    framework's maps, so that no error of a layer hides in those before it. Layers that are not continuous stay out, as do
    networks whose framework rounds maps to 8 bits, which the device does not.
    """
    if _rounds_to_bytes(network.graph):
        return 0, ()
    program = network.program
    sizes = [layer.output.shape.size for layer in program.layers]
    most = _JUDGED if sum(sizes) <= _LARGE else _JUDGED_OF_LARGE
    first = {name: values[:most] for name, values in inputs.items()}
    layers = {name: maps[:most] for name, maps in reference.layers.items()}
    nothing = [np.zeros((count_of(first), size), np.float32) for size in sizes]
    known = pairs(program, nothing, layers, reference.order)
    given = {
        pair.layer: maps
        for pair in known.values()
        if _is_held(maps := pair.reference_in_memory(transposed=program.transposed))
    }
    mine = network.run(first, layers=True, replaced=given_layers(program, given))
    noisy = {layer: rerounded(maps, layer) for layer, maps in given.items()}
    drawn = first if program.byte_input else rerounded_maps(first)
    theirs = other.run(drawn, layers=True, exact=True, replaced=given_layers(program, noisy))
    judged = pairs(program, mine.layers, layers, reference.order)
    compared = pairs(program, theirs.layers, layers, reference.order)
    found, number = list[Excess](), 0
    jumping = _jumping(program, given.keys())
    for name, pair in judged.items():
        if pair.layer in given and pair.layer not in jumping and _is_comparable(pair):
            number += 1
            found += _excesses(name, pair, compared[name], layers[name].shape[-1])
    return number, tuple(found)


def _rounds_to_bytes(graph: Graph) -> bool:
    types = {origin.type for node in graph.nodes for origin in node.origins}
    return any(name in {"QuantizeLinear", "DynamicQuantizeLinear"} or name.startswith("QLinear") for name in types)


def _is_held(maps: Maps) -> bool:
    """Whether FP16 holds a map: it is finite, and not beyond the largest number."""
    return bool(np.abs(maps).max(initial=0) <= LARGEST_HALF) and bool(np.isfinite(maps).all())


def _is_comparable(pair: ComparedMap) -> bool:
    """Whether both sides hold the same map: around products of maps the device has the values at other places.

    A map that is so wrong for another reason spoils the outputs, which are compared by themselves.
    """
    return sqnr(pair.device, pair.reference) >= _COMPARABLE


def _jumping(program: Program, given: Collection[int]) -> set[int]:
    """Layers that are not continuous, and those that read such a layer's own map. given: those whose maps are replaced."""
    found = set[int]()
    for index, layer in enumerate(program.layers):
        if not _is_continuous(layer) or any(s in found and s not in given for s in layer.sources):
            found.add(index)
    return found


def _is_continuous(layer: Layer) -> bool:
    """Whether a tiny error of its inputs is always a tiny error of its map."""
    match layer.cpu:
        case ArgMax() | DetectionOutput() | MaxUnpool():
            return False
        case Unary(function=function):
            return not isinstance(function, Floor | Round | Threshold)
        case _:
            return layer.custom is None


def _excesses(name: str, mine: ComparedMap, other: ComparedMap, channels: int) -> Iterator[Excess]:
    """The map, or else its worst channel, if it loses too much."""
    shape = (-1, channels)
    signal = _powers(mine.reference).reshape(shape)
    error = np.square(mine.device.astype(np.float64) - mine.reference).reshape(shape)
    noise = np.square(mine.device.astype(np.float64) - other.device).reshape(shape)
    if not (np.isfinite(error).all() and np.isfinite(noise).all()):
        return
    own = _own_rounding(signal)
    allowed = _decibels(float(signal.sum()), max(float(noise.sum()), float(own.sum())))
    allowed -= _margin(_deciding(noise), _OF_A_MAP)
    if (reached := _decibels(float(signal.sum()), float(error.sum()))) < allowed:
        yield Excess(name, None, reached, allowed)
        return
    for channel, limit in _worst_channel(signal, error, noise, own):
        yield Excess(name, channel, _decibels(float(signal[:, channel].sum()), float(error[:, channel].sum())), limit)


def _worst_channel(signal: Powers, error: Powers, noise: Powers, own: Powers) -> Iterator[tuple[int, float]]:
    """The channel furthest below what it is allowed, with that limit in dB, if one is below.

    Few weights make the error of a channel, so the noise of a channel counts as no less than the mean of all channels.
    """
    powers, losses = signal.sum(axis=0), error.sum(axis=0)
    expected = np.maximum(np.maximum(noise, own).sum(axis=0), noise.sum() / signal.shape[1])
    margin = _margin(signal.shape[0], _OF_A_CHANNEL)
    with np.errstate(divide="ignore"):
        beyond = 10 * np.log10(losses / np.maximum(expected, 1e-300)) - margin
    channel = int(beyond.argmax())
    if beyond[channel] > 0:
        yield channel, _decibels(float(powers[channel]), float(expected[channel])) - margin


def _powers(values: Maps) -> Powers:
    return np.square(values.astype(np.float64))


def _own_rounding(signal: Powers) -> Powers:
    """What rounding the map itself to FP16 loses, on average."""
    return signal * _HALF_STEP + _LEAST_STEP


def _deciding(noise: Powers) -> float:
    """How many values decide the noise: all if they have the same power, one if it has all of it."""
    fourth = float(np.square(noise).sum())
    return max(1.0, float(noise.sum()) ** 2 / fourth) if fourth else 1.0


def _margin(values: float, of: tuple[float, float]) -> float:
    return of[0] + of[1] / math.sqrt(values)


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf
