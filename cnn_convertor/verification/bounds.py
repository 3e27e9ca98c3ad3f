"""Judges each map on the framework's inputs to it, by what rounding to FP16 allows there."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.program import ElementType, Layer, Program
from cnn_convertor.emulation.feature_maps import LARGEST_HALF, Maps, Outputs, given_layers
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import Origin
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import (
    ArgMax,
    Axis,
    DetectionInBoxes,
    DetectionOutput,
    MatMul,
    MaxUnpool,
    Scale,
    Shape,
    Unary,
)
from cnn_convertor.quantize import decibels
from cnn_convertor.verification.both_sides import BothSides
from cnn_convertor.verification.compare import known_logits, layer_of, sqnr
from cnn_convertor.verification.framework_maps import Reference
from cnn_convertor.verification.inner_maps import COMPARABLE_DB, ComparedMap, pair_of, pairs
from cnn_convertor.verification.jumps import has_jumps
from cnn_convertor.verification.rerounding import rerounded, rerounded_maps
from cnn_convertor.verification.results import Excess

_JUDGED: Final = 4  # samples: two runs more for each
_JUDGED_OF_LARGE: Final = 1  # where maps have so many values that these decide
_LARGE: Final = 1 << 20  # values of all maps of a sample
_DRAWS: Final = 6  # of stochastic rounding, for maps that the first finds wrong
_BEYOND_CHANCE: Final = 30.0  # dB below the limit: no further draw is that far from the first
# dB that a right map may lose beyond the estimate, and the more, the fewer values decide it. Of 2,400 maps of random and
# trained networks, none loses more than 3 with 25 values, 6.6 with 2, and no channel more than 7.5 with 6, 13 with 4.
_OF_A_MAP: Final = (4.0, 9.0)
_OF_A_CHANNEL: Final = (12.0, 20.0)
_OF_A_GROUP: Final = (5.0, 25.0)  # of indices of one magnitude
_OF_ALL_MEANS: Final = (5.0, 25.0)  # of channels
_OF_A_MEAN: Final = (24.0, 25.0)  # of a channel; the more, the fewer channels there are
_OF_MEANS: Final = 2.0  # dB beyond the rounding of a number that the mean error of channels needs to count
_NEAR_LARGEST: Final = 0.9  # of the largest FP16 number: beyond it, a right device can have infinity
_HALF_STEP: Final = 2.0**-22 / 3  # power of the rounding of a value to FP16, over its own
_LEAST_STEP: Final = 2.0**-48 / 12  # power of the rounding of the smallest values

_OTHER_MAGNITUDE: Final = 100.0  # of powers
_LEAST_VALUES: Final = 16  # of an index, that show its magnitude
_ROUNDING: Final = ("QuantizeLinear", "QLinear", "QGemm")  # how types of layers begin that round maps to integers
_LEVELS: Final = 256
_PARTS: Final = 32  # steps between the nearest two values, at most
_OFF_GRID: Final = 0.02  # of a step: what FP32 leaves of a whole number
_INDEX: Final = {Axis.HEIGHT: "row", Axis.WIDTH: "column", Axis.CHANNELS: "channel"}

Powers = NDArray[np.float64]


class Judgement(NamedTuple):
    """How many maps are judged, those that lose more than rounding explains, and outputs that are not judged, each with the reason."""

    judged: int
    wrong: tuple[Excess, ...]
    by_sqnr_alone: Mapping[str, str]


class JudgedMap(NamedTuple):
    """A map on both sides, and in each draw of stochastic rounding: (N, H, W, C) each.

    axes: those of which each index is judged.
    """

    name: str
    device: Maps
    reference: Maps
    others: tuple[Maps, ...]
    axes: tuple[Axis, ...] = (Axis.CHANNELS,)

    @property
    def is_moved(self) -> bool:
        """Whether both sides have the same values at different positions."""
        if sqnr(self.device, self.reference) >= COMPARABLE_DB:
            return False
        sides = (np.sort(maps.reshape(len(maps), -1), axis=1) for maps in (self.device, self.reference))
        return sqnr(*sides) >= COMPARABLE_DB


def judge_maps(sides: BothSides, other: Callable[[int], EmulatedNetwork], inputs: Mapping[str, Maps]) -> Judgement:
    """Judge the maps inside a network with FP16 weights, and its outputs.

    other: the network with weights that are rounded stochastically, for the number of a draw. Chance makes the rounding of
    few weights small or large, so further draws judge what the first finds wrong. Each layer reads the framework's maps, so
    that no error of a layer hides in those before it.
    Layers that are not continuous stay out, and networks whose framework rounds maps to integers in ranges that depend on
    the input.
    """
    network, reference = sides.network, sides.reference
    if any(origin.type == "DynamicQuantizeLinear" for node in network.graph.nodes for origin in node.origins):
        reason = "the framework rounds maps to integers whose scale depends on the input"
        return Judgement(0, (), dict.fromkeys(network.graph.output_names, reason))
    program = network.program
    sizes = [layer.output.shape.size for layer in program.layers]
    most = _JUDGED if sum(sizes) <= _LARGE else _JUDGED_OF_LARGE
    first = {name: values[:most] for name, values in inputs.items()}
    reference = replace(reference, layers={name: maps[:most] for name, maps in reference.layers.items()})
    is_rounded = rounds_to_integers(network.graph)
    scaled = _before_scales(network.graph, program, reference.layers) if is_rounded else {}
    both = partial(_both, program, reference, scaled)
    replaced_maps = {
        pair.layer: maps
        for pair in both([maps[:most] for maps in sides.device.layers]).values()
        if _is_held(maps := pair.reference_in_memory(transposed=program.transposed))
    }
    mine = network.run(first, layers=True, replaced=given_layers(program, replaced_maps))

    def drawn(draw: int) -> tuple[list[JudgedMap], dict[str, str]]:
        noisy = {layer: rerounded(maps, draw << 24 | layer) for layer, maps in replaced_maps.items()}
        rounded = first if program.byte_input else rerounded_maps(first, draw)
        theirs = other(draw).run(rounded, layers=True, exact=True, replaced=given_layers(program, noisy))
        return _comparable(
            BothSides(network, mine, reference), theirs, both, replaced_maps.keys(), is_rounded=is_rounded
        )

    def excesses(judged: JudgedMap) -> list[Excess]:
        return [*excesses_of(judged, _half_a_step(judged.reference) if is_rounded else None)]

    comparable, alone = drawn(0)
    exceeding = [(each, excess) for each in comparable for excess in excesses(each)]
    if certain := tuple(excess for _, excess in exceeding if _is_certain(excess)):
        return Judgement(len(comparable), certain, alone)
    wrong = {each.name: each for each, _ in exceeding}
    for draw in range(1, _DRAWS) if wrong else ():
        again = {each.name: each.others for each in drawn(draw)[0]}
        wrong = {name: each._replace(others=each.others + again.get(name, ())) for name, each in wrong.items()}
    return Judgement(len(comparable), tuple(excess for each in wrong.values() for excess in excesses(each)), alone)


def _comparable(
    sides: BothSides,
    other: Outputs,
    both: Callable[[Sequence[Maps]], Mapping[str, ComparedMap]],
    replaced: Collection[int],
    *,
    is_rounded: bool,
) -> tuple[list[JudgedMap], dict[str, str]]:
    """The maps of both sides and of another run, and the outputs that are not judged, each with the reason.

    replaced: as in `_outputs`.
    """
    program = sides.program
    jumping = _jumping(program, replaced) | (_unrounded(program, replaced) if is_rounded else set())
    # Around products of maps, layers put their values where the products read them.
    may_move = any(isinstance(node.op, MatMul) for node in sides.graph.nodes)
    results, alone = _outputs(sides, other, jumping, replaced, may_move=may_move)
    ends = frozenset(program.outputs)
    others = both(other.layers)
    for name, pair in both(sides.device.layers).items():
        if name in others and pair.layer in replaced and pair.layer not in jumping and pair.layer not in ends:
            shape = (len(pair.device), 1, -1, pair.shape.channels)
            maps = (pair.device, pair.reference, others[name].device)
            device, known, drawn = (each.reshape(shape) for each in maps)
            results.append(JudgedMap(name, device, known, (drawn,)))
    return [each for each in results if not (may_move and each.is_moved)], alone


def _outputs(
    sides: BothSides,
    other: Outputs,
    jumping: Collection[int],
    replaced: Collection[int],
    *,
    may_move: bool,
) -> tuple[list[JudgedMap], dict[str, str]]:
    """The outputs of both sides and of another run in the framework's shapes, and those that are not judged, each with the reason.

    replaced: layers whose maps are the framework's. With a softmax comes what it reads, unless the framework has that map.
    """
    program, judged, alone = sides.program, list[JudgedMap](), dict[str, str]()
    runs = (sides, sides._replace(device=other))
    ends = zip(sides.graph.output_names, program.outputs, sides.network.shapes, strict=True)
    for position, (name, index, shape) in enumerate(ends):
        if position not in sides.reference.outputs:
            continue
        device, drawn = (run.device_maps(index, shape) for run in runs)
        known = sides.reference.outputs[position][: len(device)]
        each = JudgedMap(name, device, known, (drawn,), tuple(Axis))
        if index in jumping:
            alone[name] = "rounding can change its values by any amount"
        elif may_move and each.is_moved:
            alone[name] = "the device has its values at other positions"
        else:
            judged.append(each)
            source = program.layers[index].sources[0] if program.layers[index].is_softmax else None
            if source is not None and source not in replaced:
                judged += _before_softmax(f"{name} before softmax", runs, source, shape, known)
    return judged, alone


def _before_softmax(
    name: str, runs: Sequence[BothSides], index: int, shape: Shape, probabilities: Maps
) -> Iterator[JudgedMap]:
    """The logits of both runs, and the framework's. index: of the layer that computes them."""
    match [known_logits(run.device_maps(index, shape), probabilities) for run in runs]:
        case [(device, known), (other, _)]:
            yield JudgedMap(name, device, known, (other,))


def _both(
    program: Program, reference: Reference, scaled: Mapping[int, Maps], memory: Sequence[Maps]
) -> dict[str, ComparedMap]:
    """Every map that exists on both sides, as in `pairs`, and those before scales. memory: of each layer."""
    order = reference.order
    compared = ((index, pair_of(program, index, memory[index], maps, order)) for index, maps in scaled.items())
    before = {program.layers[index].name: pair for index, pair in compared if pair is not None}
    return before | pairs(program, memory, reference)


def _before_scales(graph: Graph, program: Program, reference: Mapping[str, Maps]) -> dict[int, Maps]:
    """Layer of the program -> the framework's map, (N, H, W, C), as it is before a scale that a later layer contains.

    Rounding to integers ends in such a scale: what it reads is limited to the range of the integers.
    """
    maps = dict[int, Maps]()
    for index, layer in enumerate(program.layers):
        users = graph.users(layer.name) if layer.name in graph else ()
        match [(graph[name].op, name) for name in users if name == layer_of(graph, name)]:
            case [(Scale(factor=factor, shift=shift, activation=None), name)] if name in reference:
                known = reference[name]
                if known.shape[-1] == factor.size and factor.load().all():
                    less = 0 if shift is None else shift.load()
                    maps[index] = ((known - less) / factor.load()).astype(np.float32)
    return maps


def _is_held(maps: Maps) -> bool:
    """Whether FP16 holds a map: it is finite, and not beyond the largest number."""
    return bool(np.abs(maps).max(initial=0) <= LARGEST_HALF) and bool(np.isfinite(maps).all())


def _jumping(program: Program, replaced: Collection[int]) -> set[int]:
    """Layers that are not continuous, and those that read such a layer's own map. replaced: those whose maps are."""
    jumping = set[int]()
    for index, layer in enumerate(program.layers):
        if not _is_continuous(layer) or any(s in jumping and s not in replaced for s in layer.sources):
            jumping.add(index)
    return jumping


def _unrounded(program: Program, replaced: Collection[int]) -> set[int]:
    """Layers that do not round between two layers of the framework where that rounds to integers."""
    unrounded = set[int]()
    for index, layer in enumerate(program.layers):
        sources = [program.layers[s] for s in layer.sources if s is not None and s in replaced]
        own = [s for s in layer.sources if s is not None and s not in replaced]
        rounded = {source.origins[-1] for source in sources if source.origins}
        before = [each for each in layer.origins[:-1] if not _is_part(each, layer.origins[-1])]
        inside = [each for each in before if each.type.startswith(_ROUNDING) and each not in rounded]
        if inside or any(s in unrounded or not _continues(program.layers[s], layer) for s in own):
            unrounded.add(index)
    return unrounded


def _continues(source: Layer, layer: Layer) -> bool:
    """Whether a layer of the program goes on with the framework's layer that another one has begun."""
    return bool(source.origins and layer.origins) and _is_part(source.origins[-1], layer.origins[-1])


def _is_part(part: Origin, whole: Origin) -> bool:
    """Whether a layer is another one, or of what that is spelled out as."""
    return part.layer == whole.layer or part.layer.startswith(f"{whole.layer}/")


def rounds_to_integers(graph: Graph) -> bool:
    """Whether the framework rounds maps to integers, which the device does not."""
    return any(origin.type.startswith(_ROUNDING) for node in graph.nodes for origin in node.origins)


def _is_continuous(layer: Layer) -> bool:
    """Whether a tiny error of its inputs is always a tiny error of its map."""
    match layer.cpu:
        case ArgMax() | DetectionOutput() | DetectionInBoxes() | MaxUnpool():
            return False
        case Unary(function=function):
            return not has_jumps(function)
        case _:
            return layer.custom is None and layer.output.type is not ElementType.BYTE


def excesses_of(judged: JudgedMap, explained: float | None) -> Iterator[Excess]:
    """The map, or else its worst row, column or channel, if it loses too much.

    explained: what the framework rounds away; None for a network whose framework does not round.
    """
    reference, device = judged.reference.astype(np.float64), judged.device.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # infinity on both sides; such maps are not judged
        signal = np.square(reference)
        noise = np.mean([np.square(device - other) for other in judged.others], axis=0)
        error = np.square(np.maximum(np.abs(device - reference) - (explained or 0.0), 0))
    if not np.isfinite(device).all() and float(np.abs(reference).max()) < _NEAR_LARGEST * LARGEST_HALF:
        yield Excess(judged.name, "", -math.inf, 0.0)
    if not (np.isfinite(error).all() and np.isfinite(noise).all()):
        return
    own = _own_rounding(signal)
    allowed = decibels(float(signal.sum()), max(float(noise.sum()), float(own.sum())))
    allowed -= _margin(_deciding(noise), _OF_A_MAP)
    if (reached := decibels(float(signal.sum()), float(error.sum()))) < allowed:
        yield Excess(judged.name, "", reached, allowed)
        return
    if explained is None and (means := _worst_means(judged, own)) is not None:
        yield Excess(judged.name, *means)
        return
    for axis in judged.axes:
        powers = _Powers(
            *(np.moveaxis(each, 1 + axis, -1).reshape(-1, each.shape[1 + axis]) for each in (signal, error, noise, own))
        )
        if (worst := _worst_index(powers)) is not None:
            what, reached, allowed = worst
            yield Excess(judged.name, f"{_INDEX[axis]} {what}", reached, allowed)
            return


def _is_certain(excess: Excess) -> bool:
    """Whether a whole map is so far from the framework's that chance cannot be the reason."""
    return not excess.part and excess.sqnr < min(COMPARABLE_DB, excess.allowed - _BEYOND_CHANCE)


def _worst_means(judged: JudgedMap, own: Powers) -> tuple[str, float, float] | None:
    """The means of all channels, or the worst one, with what it reaches and is allowed, in dB; None if they suffice.

    Errors of rounding cancel out over many values, but those of a bias do not.
    """
    values = judged.reference[..., 0].size
    axes = tuple(range(judged.reference.ndim - 1))

    def means(maps: NDArray[np.floating]) -> Powers:
        return np.square(np.asarray(maps.mean(axis=axes, dtype=np.float64), np.float64))

    reference = judged.reference.astype(np.float64)
    signal, errors = means(np.abs(reference)), means(judged.device - reference)
    drawn = np.max([means(judged.device.astype(np.float64) - other) for other in judged.others], axis=0)
    noise = np.maximum(drawn, own.sum(axis=axes) / values**2)
    error, power = float(errors.sum()), float(signal.sum())
    margin = _margin(_deciding(noise), _OF_ALL_MEANS)
    most = max(float(noise.sum()) * 10 ** (margin / 10), power * _HALF_STEP * 10 ** (_OF_MEANS / 10))
    if error > most:
        return "means of its channels", decibels(power, error), decibels(power, most)
    each_most = np.maximum(noise, noise.mean()) * 10 ** (_margin(noise.size, _OF_A_MEAN) / 10)
    worst = int((errors - each_most).argmax())
    if errors[worst] <= each_most[worst]:
        return None
    what = f"mean of channel {worst}"
    return (
        what,
        decibels(float(signal[worst]), float(errors[worst])),
        decibels(float(signal[worst]), float(each_most[worst])),
    )


class _Powers(NamedTuple):
    """Of the values of a map, of errors, of stochastic rounding, and of rounding the map itself: (values, indices of an axis)."""

    signal: Powers
    error: Powers
    noise: Powers
    own: Powers


def _worst_index(of: _Powers) -> tuple[str, float, float] | None:
    """The index of an axis that is furthest below what it is allowed, or its group, with both in dB; None where none is below.

    Few weights make the error of a channel, so its noise counts as no less than the mean of all channels of its magnitude.
    """
    powers, losses = of.signal.sum(axis=0), of.error.sum(axis=0)
    expected = np.maximum(of.noise, of.own).sum(axis=0)
    groups = _of_one_magnitude(of.signal)
    for group in groups if len(groups) > 1 else ():
        noise = of.noise[:, group]
        allowed = max(float(noise.sum()), float(of.own[:, group].sum())) * 10 ** (
            _margin(_deciding(noise), _OF_A_GROUP) / 10
        )
        if (lost := float(losses[group].sum())) > allowed:
            signal = float(powers[group].sum())
            what = f"{group.min()} and {len(group) - 1} of its magnitude"
            return what, decibels(signal, lost), decibels(signal, allowed)
    for group in groups:
        expected[group] = np.maximum(expected[group], of.noise[:, group].sum() / len(group))
    margin = _margin(of.signal.shape[0], _OF_A_CHANNEL)
    with np.errstate(divide="ignore"):
        beyond = 10 * np.log10(losses / np.maximum(expected, 1e-300)) - margin
    worst = int(beyond.argmax())
    if beyond[worst] <= 0:
        return None
    limit = decibels(float(powers[worst]), float(expected[worst])) - margin
    return f"{worst}", decibels(float(powers[worst]), float(losses[worst])), limit


def _of_one_magnitude(signal: Powers) -> list[NDArray[np.intp]]:
    """The indices of an axis in groups, such as boxes and scores, whose magnitudes lie far apart.

    Where values are exactly 0, an activation cuts them off, and the magnitude says nothing about the error: they join the
    group of the largest. Nor do few values, which can be small by chance.
    """
    powers = signal.sum(axis=0)
    if len(signal) < _LEAST_VALUES:
        return [np.arange(len(powers))]
    powers = np.where(signal.all(axis=0), powers, powers.max())
    order = np.argsort(-powers, kind="stable")
    falling = powers[order]
    return np.split(order, np.flatnonzero(falling[:-1] > _OTHER_MAGNITUDE * falling[1:]) + 1)


# --- quantized networks --------------------------------------------------------------------------------------------------


def _half_a_step(values: Maps) -> float:
    """What rounding to the framework's integers changes at most: values are multiples of a step; 0 if not of one of 8 bits.

    The step is the coarsest that all values allow.
    """
    levels = np.unique(values).astype(np.float64)
    if not 2 <= len(levels) <= _LEVELS:
        return 0.0
    least = float(np.diff(levels).min())
    for parts in range(1, _PARTS):
        steps = levels * parts / least
        if float(np.abs(steps).max()) < _LEVELS and bool((np.abs(steps - np.rint(steps)) < _OFF_GRID).all()):
            return least / parts / 2
    return 0.0


def left_by_rounding(maps: Collection[Maps]) -> float:
    """dB that the framework's rounding of its maps to integers leaves, where the errors of all maps add up."""
    lost = sum(_half_a_step(each) ** 2 / 3 / float(np.square(each).mean()) for each in maps if each.any())
    return decibels(1.0, lost)


# --- decibels ------------------------------------------------------------------------------------------------------------


def _own_rounding(signal: Powers) -> Powers:
    """What rounding the map itself to FP16 loses, on average."""
    return signal * _HALF_STEP + _LEAST_STEP


def _deciding(noise: Powers) -> float:
    """How many values decide the noise: all if they have the same power, one if it has all of it."""
    fourth = float(np.square(noise).sum())
    return max(1.0, float(noise.sum()) ** 2 / fourth) if fourth else 1.0


def _margin(values: float, of: tuple[float, float]) -> float:
    return of[0] + of[1] / math.sqrt(values)
