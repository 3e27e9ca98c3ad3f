"""Small networks, written and read on the spot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.ir.graph import Graph
from examples.caffemodel import write
from frontends.loading import load_caffe
from reference import ir_reference

Blobs = Mapping[str, Sequence[NDArray[Any]]]

NO_BLOBS: Blobs = {"nothing": ()}


class Load(Protocol):
    def __call__(
        self, definition: str, blobs: Blobs = ..., *, size: tuple[int, int] | None = ..., v1: bool = ...
    ) -> Graph: ...


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a definition with weights: layer name -> blobs."""

    def load(
        definition: str, blobs: Blobs = NO_BLOBS, *, size: tuple[int, int] | None = None, v1: bool = False
    ) -> Graph:
        (tmp_path / "net.prototxt").write_text(definition)
        write(tmp_path / "net.caffemodel", [(name, "Any", arrays) for name, arrays in blobs.items()], v1=v1)
        return load_caffe(tmp_path / "net.prototxt", tmp_path / "net.caffemodel", size=size)

    return load


@pytest.fixture
def values() -> Callable[[Graph, NDArray[Any]], list[NDArray[Any]]]:
    """What a graph with one input gives for a map (C, H, W): its outputs, as (C, H, W)."""

    def values(graph: Graph, x: NDArray[Any]) -> list[NDArray[Any]]:
        (source,) = graph.inputs
        results = ir_reference.run(graph, {source.name: ir_reference.from_nchw(np.asarray(x)[None])})
        return [ir_reference.to_chw(results[name]) for name in graph.outputs]

    return values
