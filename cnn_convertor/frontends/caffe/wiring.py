"""Joins layers by their blobs, and leaves out what only training needs."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cnn_convertor.errors import ModelError, Problem, warn
from cnn_convertor.frontends.caffe.definition import Layer

INPUTS = frozenset({"Input"})
SINKS = frozenset({"Silence", "HDF5Output"})
JUDGES = frozenset({"Accuracy", "MultiBoxLoss", "SoftmaxWithLoss", "SoftmaxLoss", "DetectionEvaluate"})


class Source(NamedTuple):
    """A value: what one top of one layer holds. A layer that works in place makes a new value of the same name."""

    layer: int
    top: int


@dataclass(frozen=True, slots=True)
class Step:
    """A layer, the values that it reads, and which of its tops anybody needs."""

    layer: Layer
    sources: tuple[Source, ...]
    tops: tuple[Source, ...]
    needed: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Net:
    """Layers in order of execution, and the values that nobody reads: the outputs, in the order of the definition."""

    steps: tuple[Step, ...]
    outputs: tuple[Source, ...]


def connect(layers: Sequence[Layer]) -> Net:
    """Find out who reads what. Raises ModelError where a blob comes from nowhere or from two layers."""
    sources = _sources(layers)
    judges = _judges(layers, sources)
    read = {
        source
        for index, layer in enumerate(layers)
        for position, source in enumerate(sources[index])
        if position > 0 or not _judges_predictions(layer)
    }
    outputs = tuple(
        source
        for index, layer in enumerate(layers)
        if index not in judges and layer.type not in INPUTS | SINKS
        for source in _tops(index, layer)
        if source not in read
    )
    if not outputs:
        raise ModelError(
            Problem("DV212", "the network computes nothing at test time", layers[-1].origin, "check its phase rules")
        )
    needed = _needed(sources, outputs)
    for index in judges:
        layer = layers[index]
        hint = f'its input "{layer.bottoms[0]}" is what the network gives' if layer.bottoms else ""
        warn(Problem("DV213", "the layer only judges the network's results, and is left out", layer.origin, hint))
    _warn_of_unread_inputs(layers, read)
    steps = tuple(
        Step(layer, sources[index], _tops(index, layer), tuple(source in needed for source in _tops(index, layer)))
        for index, layer in enumerate(layers)
        if any(source in needed for source in _tops(index, layer))
    )
    return Net(steps, outputs)


def _tops(index: int, layer: Layer) -> tuple[Source, ...]:
    return tuple(Source(index, top) for top in range(len(layer.tops)))


def _sources(layers: Sequence[Layer]) -> list[tuple[Source, ...]]:
    """For each layer, the values that it reads."""
    latest: dict[str, Source] = {}
    sources: list[tuple[Source, ...]] = []
    problems: list[Problem] = []
    for index, layer in enumerate(layers):
        found = []
        for bottom in layer.bottoms:
            if bottom in latest:
                found.append(latest[bottom])
                continue
            near = difflib.get_close_matches(bottom, latest, n=1)
            hint = (
                f'did you mean "{near[0]}"?'
                if near
                else "check the layer's phase rules and those of the layers before it"
            )
            problems.append(
                Problem(
                    "DV212", f'the layer reads the blob "{bottom}", which no layer before it makes', layer.origin, hint
                )
            )
        sources.append(tuple(found))
        for top, name in enumerate(layer.tops):
            if name in latest and name not in layer.bottoms:
                maker = layers[latest[name].layer].origin
                problem = f'the layer makes the blob "{name}", which is there already, from {maker}'
                problems.append(Problem("DV212", problem, layer.origin, "rename one of the two"))
            latest[name] = Source(index, top)
    if problems:
        raise ModelError(problems)
    return sources


def _judges_predictions(layer: Layer) -> bool:
    return layer.type in JUDGES or layer.type.endswith("Loss") or any(layer.message.loss_weight)


def _judges(layers: Sequence[Layer], sources: Sequence[tuple[Source, ...]]) -> list[int]:
    """Layers that compare the network's results with labels, and layers that read what those give."""
    found: list[int] = []
    for index, layer in enumerate(layers):
        if _judges_predictions(layer) or any(source.layer in found for source in sources[index]):
            found.append(index)
    return found


def _needed(sources: Sequence[tuple[Source, ...]], outputs: Sequence[Source]) -> set[Source]:
    """The values that the outputs are made of, the outputs included."""
    needed = set(outputs)
    makers = {source.layer for source in outputs}
    for index in reversed(range(len(sources))):
        if index in makers:
            needed.update(sources[index])
            makers.update(source.layer for source in sources[index])
    return needed


def _warn_of_unread_inputs(layers: Sequence[Layer], read: set[Source]) -> None:
    for index, layer in enumerate(layers):
        if layer.type in INPUTS:
            for source in _tops(index, layer):
                if source not in read:
                    problem = f'no layer reads the input "{layer.tops[source.top]}", and it is left out'
                    warn(Problem("DV213", problem, layer.origin))
