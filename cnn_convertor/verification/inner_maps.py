"""Compares the maps inside a network on both sides, and finds where and why they differ."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from cnn_convertor.devices.half import LARGEST_HALF
from cnn_convertor.devices.program import PLAIN, Layer, LayerType, Program, Tensor
from cnn_convertor.emulation.feature_maps import (
    Maps,
    as_maps,
    from_memory,
    given_layers,
    layout_of,
    to_memory,
)
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.ir.ops import Order, Shape
from cnn_convertor.ir.ops.packed_weights import MATRIX_NAME
from cnn_convertor.layouts.layout import Layout
from cnn_convertor.verification.both_sides import BothSides
from cnn_convertor.verification.compare import compare, sqnr
from cnn_convertor.verification.framework_maps import Reference
from cnn_convertor.verification.reference import first_samples
from cnn_convertor.verification.results import Attribution, Cause, Comparison, LayerResult

COMPARABLE_DB: Final = 20.0  # of maps that are the same, element by element
JUMP_DB = 15.0  # a jump: a layer is worse than its inputs by more than this
EXPECTED_DB = {False: 60.0, True: 40.0}  # palette? -> the SQNR that counts as perfect when looking for jumps


class ComparedMap(NamedTuple):
    """The same map on both sides, (N, size) each, in the same order.

    layer: its index in the program. shape: of the framework's map, with the axes as on the device.
    read_as, layout: the shape whose memory order the layer has, and that order; None: the order of the values here.
    """

    layer: int
    shape: Shape
    device: Maps
    reference: Maps
    read_as: Shape | None = None
    layout: Layout = PLAIN

    def reference_in_memory(self) -> Maps:
        """The framework's map in the order of the layer's memory, (N, size)."""
        if self.read_as is None:
            return self.reference
        return to_memory(self.reference.reshape(-1, *self.read_as), self.layout)


def compare_layers(
    sides: BothSides, *, palette: bool, unfused: bool = False
) -> tuple[tuple[LayerResult, ...], str | None]:
    """A comparison for every map that exists on both sides, and the first layer where the error jumps.

    unfused: whether the program is the one with a command for each layer.
    """
    program = sides.program
    matched = pairs(program, sides.device.layers, sides.reference)
    compared = {
        pair.layer: compare(name, pair.device.reshape(-1, *pair.shape), pair.reference.reshape(-1, *pair.shape))
        for name, pair in matched.items()
    }
    results = tuple(LayerResult(c, program.layers[index].origins[-1].type, unfused) for index, c in compared.items())
    return results, first_jump(program, compared, palette=palette)


def alone(sides: BothSides, inputs: Mapping[str, Maps]) -> dict[str, float]:
    """Framework layer -> the SQNR of its map in dB when the layers before it give the framework's maps, rounded to FP16.

    A layer without a map in the framework gets, and passes on, the device's own values.
    """
    program = sides.program
    known = pairs(program, sides.device.layers, sides.reference)
    maps = {pair.layer: pair.reference_in_memory() for pair in known.values()}
    fitting = {layer: values for layer, values in maps.items() if np.abs(values).max(initial=0) <= LARGEST_HALF}
    follows = sides.network.run(first_samples(inputs), layers=True, replaced=given_layers(program, fitting))
    matched = pairs(program, follows.layers, sides.reference)
    return {name: sqnr(pair.device, pair.reference) for name, pair in matched.items()}


def causes_of(
    exact: EmulatedNetwork,
    alone: Mapping[Cause, tuple[EmulatedNetwork, bool]],
    inputs: Mapping[str, Maps],
    reference: Reference,
    palettes: Mapping[str, float],
) -> dict[str, tuple[Attribution, ...]]:
    """Framework layer -> its error with each cause alone.

    exact: the network with FP16 weights. A run that keeps its maps in FP32 is the baseline, a network without any cause but
    one: its inputs and weights are FP16, which separates it from the framework. alone: for each other cause, the network
    that adds it, and whether its maps stay in FP32. palettes: layer -> dB of the outputs without its palette.
    """

    def matched(network: EmulatedNetwork, *, in_fp32: bool) -> dict[str, ComparedMap]:
        layers = network.run(first_samples(inputs), layers=True, exact=in_fp32).layers
        return pairs(network.program, layers, reference)

    baseline = matched(exact, in_fp32=True)
    others = {cause: matched(network, in_fp32=in_fp32) for cause, (network, in_fp32) in alone.items()}

    def causes(name: str, clean: ComparedMap) -> Iterator[Attribution]:
        for cause in Cause:
            if cause is Cause.PALETTE:
                origins = {origin.layer for origin in exact.program.layers[clean.layer].origins}
                if own := [palettes[layer] for layer in sorted(origins & palettes.keys())]:
                    yield Attribution(cause, max(own))
            elif cause is Cause.INPUTS_AND_WEIGHTS:
                yield Attribution(cause, sqnr(clean.device, clean.reference))
            elif name in others.get(cause, {}):
                yield Attribution(cause, sqnr(others[cause][name].device, clean.device))

    return {name: tuple(causes(name, clean)) for name, clean in baseline.items()}


# --- which map is which ------------------------------------------------------------------------------------------------


def pairs(program: Program, layers: Sequence[Maps], reference: Reference) -> dict[str, ComparedMap]:
    """Every map that exists on both sides: framework layer -> both maps, in the program's order.

    layers: the memory of each layer of the program, (N, size).
    """
    matched: dict[str, ComparedMap] = {}
    apart = _matrices_apart(program)
    for index, name in held_layers(program).items():
        pair: ComparedMap | None = None
        if index in apart:
            maps = _matrix(program.layers[index], layers[index], reference, apart[index])
            if maps is not None:
                pair = pair_of(program, index, layers[index], maps, Order.HWC)
        elif name in reference.layers:
            pair = pair_of(program, index, layers[index], reference.layers[name], reference.order)
        if pair is not None:
            matched[name] = pair
    return matched


def held_layers(program: Program) -> dict[int, str]:
    """Index of a layer of the program -> the framework layer whose output it holds.

    Where several compute one framework layer, the last one holds its output, unless it also computes another layer. Where the
    matrices of a map stay apart, each has a layer of the program, and a name of its own.
    """
    last: dict[str, int] = {}
    for index, layer in enumerate(program.layers):
        last |= dict.fromkeys((origin.layer for origin in layer.origins), index)
    finals = {
        index: layer.origins[-1].layer
        for index, layer in enumerate(program.layers)
        if layer.origins and layer.type is not LayerType.INPUT
    }
    apart = {index: f"{matrix.name}, matrix {matrix.number}" for index, matrix in _matrices_apart(program).items()}
    return {index: apart.get(index, name) for index, name in finals.items() if index in apart or last[name] == index}


class _MatrixApart(NamedTuple):
    """A matrix of a framework layer's map, and how many there are."""

    name: str
    number: int
    number_of_all: int


def _matrices_apart(program: Program) -> dict[int, _MatrixApart]:
    """Index of a layer of the program -> the matrix of a framework layer's map that it holds, where these stay apart."""
    found: dict[str, dict[int, int]] = {}  # framework layer -> number -> index; without a number: that of the whole map
    for index, layer in enumerate(program.layers):
        if layer.origins:
            ending = MATRIX_NAME.search(layer.name)
            name = layer.origins[-1].layer
            if ending is None:
                found[name] = {}
            else:
                found.setdefault(name, {})[int(ending[1])] = index
    result: dict[int, _MatrixApart] = {}
    for name, indices in found.items():
        if len(indices) > 1:
            for number, index in indices.items():
                result[index] = _MatrixApart(name, number, len(indices))
    return result


def _matrix(layer: Layer, memory: Maps, reference: Reference, matrix: _MatrixApart) -> Maps | None:
    """A matrix of the framework's map, (N, 1, rows, columns) as on the device; None where its channels do not count the matrices."""
    whole = reference.layers.get(matrix.name)
    if whole is None or whole.shape[-1] != matrix.number_of_all:
        return None
    rows = whole[..., matrix.number][:, np.newaxis]
    fitting = [maps for maps in (rows, rows.swapaxes(2, 3)) if maps.shape[1:] == layer.output.shape]
    near = [maps for maps in fitting if sqnr(as_maps(memory, layer, Shape(*maps.shape[1:])), maps) >= COMPARABLE_DB]
    return next(iter(near or fitting), None)


def pair_of(program: Program, index: int, memory: Maps, reference: Maps, order: Order) -> ComparedMap | None:
    """Both maps in the order H, W, C, or in the order of a vector; None when the layer holds something else.

    Around attention the framework can have the axes in another order than the device.
    """
    if order is Order.CHW and _moves_axes(program):
        turned = _turned(program, index, memory, reference)
        if turned is None:
            return None
        reference = turned
    samples, *dims = reference.shape
    layer, shape = program.layers[index], Shape(*dims)
    own = layer.output.shape
    if shape.size != own.size or not (own.is_vector or shape.is_vector or own.channels == shape.channels):
        return None  # a part of a map
    flat = reference.reshape(samples, -1)
    if layout_of(layer) == PLAIN:
        return ComparedMap(index, shape, memory, flat)
    read_as = _shape_read(program, index) if shape.is_vector else shape
    if not layer.output.reads_as(read_as):
        read_as = own
    if shape.is_vector and not read_as.is_vector and order is Order.CHW:
        height, width, channels = read_as
        flat = reference.reshape(samples, channels, height, width).transpose(0, 2, 3, 1).reshape(samples, -1)
    values = from_memory(memory, read_as, layer.output.layout).reshape(samples, -1)
    if own.is_vector and not shape.is_vector and order is Order.CHW and sqnr(values, flat) < COMPARABLE_DB:
        counted = reference.transpose(0, 3, 1, 2).reshape(samples, -1)  # as a reshape of the framework counts elements
        vector = as_maps(memory, layer, own).reshape(samples, -1)
        if sqnr(vector, counted) >= COMPARABLE_DB:
            return ComparedMap(index, own, vector, counted, own, layer.output.layout)
    return ComparedMap(index, shape, values, flat, read_as, layer.output.layout)


def _turned(program: Program, index: int, memory: Maps, reference: Maps) -> Maps | None:
    """The framework's map with its axes as the device has them; None where neither the sizes nor the values say how.

    Of the orders of axes that fit, that of the nearest values is right: the others have next to nothing in common.
    """
    layer, shape = program.layers[index], Shape(*reference.shape[1:])
    own = layer.output.shape
    if own.is_vector or shape.is_vector or own.size != shape.size:
        return reference

    def nearness(turned: Maps) -> float:
        return sqnr(as_maps(memory, layer, Shape(*turned.shape[1:])), turned)

    orders = (reference.transpose(0, *axes) for axes in permutations((1, 2, 3)))
    fitting = [(nearness(turned), turned) for turned in orders if turned.shape[-1] == own.channels]
    nearest, turned = max(fitting, key=itemgetter(0), default=(-math.inf, reference))
    if nearest >= COMPARABLE_DB:
        return turned
    return None if _is_ambiguous(layer, shape) else reference


def _is_ambiguous(layer: Layer, shape: Shape) -> bool:
    """Whether the sizes do not say which axis of the framework's map has the channels, or the rows of a product."""
    height, width, channels = shape
    is_product = bool(layer.origins) and layer.origins[-1].type == "MatMul"
    return channels > 1 and (channels in (height, width) or (height == width and is_product))


def _moves_axes(program: Program) -> bool:
    """Whether some of the framework's maps may have their axes in other places, as around attention."""
    return any(origin.type in {"Transpose", "MatMul"} for layer in program.layers for origin in layer.origins)


def _shape_read(program: Program, index: int) -> Shape:
    """The shape of a layer's memory order: a vector that is read as a map has the order of that map."""
    own = program.layers[index].output.shape
    readers = [tensor.shape for reader in program.layers for source, tensor in _read(reader) if source == index]
    return next((s for s in readers if s.size == own.size and not s.is_vector), own) if own.is_vector else own


def _read(layer: Layer) -> Iterator[tuple[int | None, Tensor]]:
    """The layers that a layer reads, and their tensors."""
    return zip(layer.sources, layer.inputs, strict=True)


# --- where it goes wrong -----------------------------------------------------------------------------------------------


def first_jump(program: Program, compared: Mapping[int, Comparison], *, palette: bool) -> str | None:
    """The first layer that is much worse than its inputs.

    compared: index of a layer of the program -> its comparison. A layer without one counts as good as its inputs; a layer
    that is better than an ordinary one counts as ordinary.
    """
    best = EXPECTED_DB[palette]
    quality: list[float] = []
    for index, layer in enumerate(program.layers):
        read = _read_quality(layer, quality, best)
        comparison = compared.get(index)
        if comparison is None:
            quality.append(read)
            continue
        # the errors of a command's runs add up; the maps between them are not in memory
        if comparison.sqnr < read - JUMP_DB - 10 * math.log10(max(1, len(layer.runs))):
            return comparison.name
        quality.append(min(best, comparison.sqnr))
    return None


def _read_quality(layer: Layer, quality: Sequence[float], best: float) -> float:
    return min((best if source is None else quality[source] for source in layer.sources), default=best)
