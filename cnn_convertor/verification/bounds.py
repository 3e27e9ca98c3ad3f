"""Judges each map on the framework's inputs to it: without any rounding, a layer must compute what the framework computes.

The same program runs twice. One run rounds nothing to FP16: what is then left of a difference to the framework is an error of
the conversion, but for the order of sums in FP32. The other run rounds as the device does. Its distance from the first shows
how much rounding takes, and so how small an error has to be. docs/internals/judge.md gives the evidence for each number here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.half import LARGEST_HALF
from cnn_convertor.devices.program import ElementType, Layer, Program
from cnn_convertor.emulation.feature_maps import Maps, given_layers
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
from cnn_convertor.verification.results import Excess

_JUDGED: Final = 4  # samples
_JUDGED_OF_LARGE: Final = 1  # where maps have so many values that these decide
_LARGE: Final = 1 << 20  # values of all maps of a sample
_SHARE: Final = 0.1  # of the power that rounding takes: what an error may have
_WITH_CALLBACKS: Final = 4.0  # the same in a network with custom layers, whose functions round in both runs
_OF_FP32: Final = 2.0**-21  # of a map's RMS: what the order of sums in FP32 changes
_LEAST_STEP: Final = 2.0**-24  # of FP16
_HALF_STEP: Final = 2.0**-22 / 3  # power of the rounding of a value to FP16, over its own
_NEAR_LARGEST: Final = 0.9  # of the largest FP16 number: beyond it, a right device can have infinity
_ROUNDING: Final = ("QuantizeLinear", "QLinear", "QGemm")  # how types of layers begin that round maps to integers
_LEVELS: Final = 256
_PARTS: Final = 32  # steps between the nearest two values, at most
_OFF_GRID: Final = 0.02  # of a step: what FP32 leaves of a whole number
_INDEX: Final = {Axis.HEIGHT: "row", Axis.WIDTH: "column", Axis.CHANNELS: "channel"}

Powers = NDArray[np.float64]


class Judgement(NamedTuple):
    """How many maps are judged, those that are wrong, and outputs that are not judged, each with the reason."""

    judged: int
    wrong: tuple[Excess, ...]
    by_sqnr_alone: Mapping[str, str]


class JudgedMap(NamedTuple):
    """A map of the framework, and of the program without rounding and with it: (N, H, W, C) each.

    axes: those of which each index is judged.
    """

    name: str
    reference: Maps
    unrounded: Maps
    rounded: Maps
    axes: tuple[Axis, ...] = (Axis.CHANNELS,)

    @property
    def is_moved(self) -> bool:
        """Whether both sides have the same values at different positions."""
        if sqnr(self.unrounded, self.reference) >= COMPARABLE_DB:
            return False
        sides = (np.sort(maps.reshape(len(maps), -1), axis=1) for maps in (self.unrounded, self.reference))
        return sqnr(*sides) >= COMPARABLE_DB


def judge_maps(sides: BothSides, unrounded: EmulatedNetwork, inputs: Mapping[str, Maps]) -> Judgement:
    """Judge the maps inside a network with FP16 weights, and its outputs. unrounded: the same network, which rounds nothing.

    Each layer reads the framework's maps, so that no error of a layer hides in those before it.
    Layers that are not continuous stay out, and networks whose framework rounds maps to integers in ranges that depend on
    the input.
    """
    network, reference = sides.network, sides.reference
    if any(origin.type == "DynamicQuantizeLinear" for node in network.graph.nodes for origin in node.origins):
        reason = "the framework rounds maps to integers whose scale depends on the input"
        return Judgement(0, (), dict.fromkeys(network.graph.output_names, reason))
    program = network.program
    sizes = [layer.output.elements for layer in program.layers]
    count = _JUDGED if sum(sizes) <= _LARGE else _JUDGED_OF_LARGE
    first = {name: values[:count] for name, values in inputs.items()}
    reference = reference.of_first(count)
    is_rounded = rounds_to_integers(network.graph)
    scaled = _before_scales(network.graph, program, reference.layers) if is_rounded else {}
    both = partial(_both, program, reference, scaled)

    replaced = dict[int, Maps]()
    for pair in both([maps[:count] for maps in sides.device.layers]).values():
        maps = pair.reference_in_memory()
        if _is_held(maps):
            replaced[pair.layer] = maps
    plain = network.run(first, layers=True, replaced=given_layers(program, replaced))
    exact = unrounded.run(first, layers=True, replaced=given_layers(program, replaced, unrounded=True))

    runs = (BothSides(network, exact, reference), BothSides(network, plain, reference))
    judged, alone = _comparable(runs, both, replaced.keys(), is_rounded=is_rounded)
    share = _SHARE if unrounded.data is not None else _WITH_CALLBACKS
    wrong = list[Excess]()
    for each in judged:
        explained = _half_a_step(each.reference) if is_rounded else 0.0
        excess = excess_of(each, share=share, explained=explained)
        if excess is not None:
            wrong.append(excess)
    return Judgement(len(judged), tuple(wrong), alone)


def _comparable(
    runs: tuple[BothSides, BothSides],
    both: Callable[[Sequence[Maps]], Mapping[str, ComparedMap]],
    replaced: Collection[int],
    *,
    is_rounded: bool,
) -> tuple[list[JudgedMap], dict[str, str]]:
    """The maps that can be judged, and the outputs that cannot, each with the reason. runs: without rounding, and with it.

    replaced: as in `_outputs`.
    """
    exact, plain = runs
    program = exact.program
    jumping = _jumping(program, replaced) | (_unrounded(program, replaced) if is_rounded else set())
    # Around products of maps, layers put their values where the products read them.
    may_move = any(isinstance(node.op, MatMul) for node in exact.graph.nodes)
    results, alone = _outputs(runs, jumping, replaced, may_move=may_move)
    ends = frozenset(program.outputs)
    rounded = both(plain.device.layers)
    for name, pair in both(exact.device.layers).items():
        if name in rounded and pair.layer in replaced and pair.layer not in jumping and pair.layer not in ends:
            shape = (len(pair.device), 1, -1, pair.shape.channels)
            reference = pair.reference.reshape(shape)
            unrounded = pair.device.reshape(shape)
            results.append(JudgedMap(name, reference, unrounded, rounded[name].device.reshape(shape)))
    if may_move:
        results = [each for each in results if not each.is_moved]
    return results, alone


def _outputs(
    runs: tuple[BothSides, BothSides],
    jumping: Collection[int],
    replaced: Collection[int],
    *,
    may_move: bool,
) -> tuple[list[JudgedMap], dict[str, str]]:
    """The outputs in the framework's shapes, and those that are not judged, each with the reason. runs: as above.

    replaced: layers whose maps are the framework's. With a softmax comes what it reads, unless the framework has that map.
    """
    exact, _ = runs
    program = exact.program
    judged = list[JudgedMap]()
    alone = dict[str, str]()
    ends = zip(exact.graph.output_names, program.outputs, exact.network.shapes, strict=True)
    for position, (name, index, shape) in enumerate(ends):
        if position not in exact.reference.outputs:
            continue
        unrounded, rounded = (run.device_maps(index, shape) for run in runs)
        reference = exact.reference.outputs[position][: len(unrounded)]
        each = JudgedMap(name, reference, unrounded, rounded, tuple(Axis))
        if index in jumping:
            alone[name] = "rounding can change its values by any amount"
        elif may_move and each.is_moved:
            alone[name] = "the device has its values at other positions"
        else:
            judged.append(each)
            source = program.layers[index].sources[0] if program.layers[index].is_softmax else None
            if source is not None and source not in replaced:
                judged += _before_softmax(f"{name} before softmax", runs, source, shape, reference)
    return judged, alone


def _before_softmax(
    name: str, runs: Sequence[BothSides], index: int, shape: Shape, probabilities: Maps
) -> Iterator[JudgedMap]:
    """The logits of both runs, and the framework's. index: of the layer that computes them."""
    match [known_logits(run.device_maps(index, shape), probabilities) for run in runs]:
        case [(unrounded, reference), (rounded, _)]:
            yield JudgedMap(name, reference, unrounded, rounded)


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


def excess_of(judged: JudgedMap, *, share: float = _SHARE, explained: float = 0.0) -> Excess | None:
    """The error of a map, or else of its worst row, column or channel, if it is more than FP32 explains; None if it is not.

    share: of the power that rounding takes, which an error may have. explained: a difference that the framework rounds away.
    """
    reference, unrounded = (maps.astype(np.float64) for maps in (judged.reference, judged.unrounded))
    if not np.isfinite(judged.rounded).all() and float(np.abs(reference).max()) < _NEAR_LARGEST * LARGEST_HALF:
        return Excess(judged.name, "", -math.inf, 0.0)
    with np.errstate(invalid="ignore", over="ignore"):  # infinity on both sides; such maps are not judged
        signal = np.square(reference)
        error = np.square(np.maximum(np.abs(unrounded - reference) - explained, 0))
        noise = np.maximum(np.square(judged.rounded - unrounded), signal * _HALF_STEP)
    if not (np.isfinite(error).all() and np.isfinite(noise).all()):
        return None
    least = float(signal.mean()) * _OF_FP32**2 + _LEAST_STEP**2
    for axis in (None, *judged.axes):
        of_index = _sums(axis, (signal, error, noise))
        allowed = of_index[2] * share + least * signal.size / of_index[0].size
        beyond = of_index[1] / allowed
        worst = int(beyond.argmax())
        if beyond[worst] > 1:
            part = "" if axis is None else f"{_INDEX[axis]} {worst}"
            power = float(of_index[0][worst])
            return Excess(
                judged.name, part, decibels(power, float(of_index[1][worst])), decibels(power, float(allowed[worst]))
            )
    return None


def _sums(axis: Axis | None, powers: Sequence[Powers]) -> list[Powers]:
    """Powers of values, (N, H, W, C), summed up for each index of an axis; None: for the whole map."""
    if axis is None:
        return [power.sum().reshape(1) for power in powers]
    return [np.moveaxis(power, 1 + axis, -1).reshape(-1, power.shape[1 + axis]).sum(axis=0) for power in powers]


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
