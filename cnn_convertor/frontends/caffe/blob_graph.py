"""Connects layers by their blobs, and leaves out what only training needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cnn_convertor.errors import ModelError, Origin, Problem, suggestion, warn
from cnn_convertor.frontends.caffe.definition import CaffeLayer

INPUTS = frozenset({"Input"})
SINKS = frozenset({"Silence", "HDF5Output"})
_COMPARED = 20  # blobs that no layer makes, for which near names are looked for
LOSS_AND_ACCURACY = frozenset({"Accuracy", "MultiBoxLoss", "SoftmaxWithLoss", "SoftmaxLoss", "DetectionEvaluate"})


class Top(NamedTuple):
    """One top of one layer, by their indices. A layer that works in place makes a new top of the same name."""

    layer: int
    top: int


@dataclass(frozen=True, slots=True)
class ConnectedLayer:
    """A layer, the tops that it reads, its own, and which of these are needed."""

    layer: CaffeLayer
    sources: tuple[Top, ...]
    tops: tuple[Top, ...]
    needed: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class BlobGraph:
    """Layers in order of execution; outputs are the tops that no layer reads, in the order of the definition."""

    layers: tuple[ConnectedLayer, ...]
    outputs: tuple[Top, ...]


def connect(layers: Sequence[CaffeLayer], definition: Origin) -> BlobGraph:
    """Resolve the names of blobs. definition: the file. Raises ModelError where a blob comes from no layer or from two."""
    sources = _sources(layers)
    evaluating = _evaluating_layers(layers, sources)
    read = {
        source
        for index, layer in enumerate(layers)
        for position, source in enumerate(sources[index])
        if position > 0 or not _is_loss_or_accuracy(layer)
    }
    outputs = tuple(
        top
        for index, layer in enumerate(layers)
        if index not in evaluating and layer.type not in INPUTS | SINKS
        for top in _tops(index, layer)
        if top not in read
    )
    if not outputs:
        where = layers[-1].origin if layers else definition
        hint = "check the phase rules"
        raise ModelError.of("DV212", "the network computes nothing at test time", where, hint)
    for index in evaluating:
        layer = layers[index]
        hint = f'its input "{layer.bottoms[0]}" is what the network gives' if layer.bottoms else ""
        warn(Problem("DV213", "the layer only evaluates the network, and is left out", layer.origin, hint))
    _warn_of_unread_inputs(layers, read)
    needed = _needed(sources, outputs)
    connected = tuple(
        ConnectedLayer(layer, sources[index], tops, tuple(top in needed for top in tops))
        for index, layer in enumerate(layers)
        if not needed.isdisjoint(tops := _tops(index, layer))
    )
    return BlobGraph(connected, outputs)


def _tops(index: int, layer: CaffeLayer) -> tuple[Top, ...]:
    return tuple(Top(index, top) for top in range(len(layer.tops)))


def _sources(layers: Sequence[CaffeLayer]) -> list[tuple[Top, ...]]:
    """For each layer, the tops that it reads."""
    latest: dict[str, Top] = {}
    sources: list[tuple[Top, ...]] = []
    problems: list[Problem] = []
    for index, layer in enumerate(layers):
        for bottom in layer.bottoms:
            if bottom not in latest:
                rules = "check the layer's phase rules and those of the layers before it"
                problem = f'the layer reads the blob "{bottom}", which no layer before it makes'
                near = suggestion(bottom, latest) if len(problems) < _COMPARED else ""
                problems.append(Problem("DV212", problem, layer.origin, near or rules))
        sources.append(tuple(latest[bottom] for bottom in layer.bottoms if bottom in latest))
        for top, name in enumerate(layer.tops):
            if name in latest and name not in layer.bottoms:
                maker = layers[latest[name].layer].origin
                problem = f'the layer redefines the blob "{name}" of {maker}'
                problems.append(Problem("DV212", problem, layer.origin, "rename one of the two"))
            latest[name] = Top(index, top)
    if problems:
        raise ModelError(problems)
    return sources


def _is_loss_or_accuracy(layer: CaffeLayer) -> bool:
    return layer.type in LOSS_AND_ACCURACY or layer.type.endswith("Loss") or any(layer.message.loss_weight)


def _evaluating_layers(layers: Sequence[CaffeLayer], sources: Sequence[tuple[Top, ...]]) -> list[int]:
    """Indices of the loss and accuracy layers, and of the layers that read their results."""
    evaluating: list[int] = []
    for index, layer in enumerate(layers):
        if _is_loss_or_accuracy(layer) or any(source.layer in evaluating for source in sources[index]):
            evaluating.append(index)
    return evaluating


def _needed(sources: Sequence[tuple[Top, ...]], outputs: Sequence[Top]) -> set[Top]:
    """The tops that the outputs are computed from, the outputs included."""
    needed = set(outputs)
    makers = {source.layer for source in outputs}
    for index in reversed(range(len(sources))):
        if index in makers:
            needed.update(sources[index])
            makers.update(source.layer for source in sources[index])
    return needed


def _warn_of_unread_inputs(layers: Sequence[CaffeLayer], read: set[Top]) -> None:
    for index, layer in enumerate(layers):
        if layer.type in INPUTS:
            for top in _tops(index, layer):
                if top not in read:
                    problem = f'no layer reads the input "{layer.tops[top.top]}", and it is left out'
                    warn(Problem("DV213", problem, layer.origin))
