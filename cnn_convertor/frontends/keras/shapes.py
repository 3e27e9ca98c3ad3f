"""Finds what a Keras file tells of its tensors' shapes, for layers that cannot be read.

Keras 3 writes the shape beside each tensor that a layer is called with, and for a layer in a Sequential model the shape
that it was built for, which is that of the output before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from cnn_convertor.frontends.keras.model import FUNCTIONAL, SEQUENTIAL, Json

Sizes: TypeAlias = tuple[int, ...]


def known_shapes(model: Json) -> dict[str, Sizes]:
    """Layer name (with the names of the models that it is in) -> its output's sizes, without the batch.

    Only layers of which all sizes are known, and the same for all calls.
    """
    found: dict[str, set[Sizes | None]] = {}
    for name, shape in _told(model, ""):
        found.setdefault(name, set()).add(shape)
    return {name: shape for name, shapes in found.items() if len(shapes) == 1 and (shape := shapes.pop()) is not None}


def _told(model: Json, prefix: str) -> Iterator[tuple[str, Sizes | None]]:
    """Every shape that is told, and whose it is. What makes no sense tells nothing."""
    config = model.get("config") if isinstance(model, dict) else None
    layers = config.get("layers") if isinstance(config, dict) else None
    if not isinstance(layers, list):
        return
    layers = [layer for layer in layers if isinstance(layer, dict)]
    if model.get("class_name") == SEQUENTIAL:
        for layer, after in pairwise(layers):
            built = after.get("build_config")
            if isinstance(built, dict) and "input_shape" in built:
                yield prefix + _name(layer), _sizes(built["input_shape"])
    for layer in layers:
        for name, shape in _tensors(layer.get("inbound_nodes")):
            yield prefix + name, shape
        if layer.get("class_name") in (*FUNCTIONAL, SEQUENTIAL):
            yield from _told(layer, f"{prefix}{_name(layer)}/")


def _name(layer: Mapping[str, Json]) -> str:
    config = layer.get("config")
    return str(layer.get("name") or (config.get("name") if isinstance(config, dict) else ""))


def _tensors(data: Json) -> Iterator[tuple[str, Sizes | None]]:
    match data:
        case {"class_name": "__keras_tensor__", "config": {"shape": shape, "keras_history": [str(name), _, 0]}}:
            yield name, _sizes(shape)
        case dict():
            for value in data.values():
                yield from _tensors(value)
        case list():
            for value in data:
                yield from _tensors(value)


def _sizes(shape: Json) -> Sizes | None:
    """The sizes after the batch; None when one is open."""
    if not isinstance(shape, Sequence) or isinstance(shape, str) or len(shape) < 2:
        return None
    sizes = tuple(shape[1:])
    return sizes if all(type(size) is int and size > 0 for size in sizes) else None
