"""Small Keras files, written by hand, so that these tests need no TensorFlow."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import h5py
import numpy as np
import pytest

Json: TypeAlias = dict[str, Any]
Arrays: TypeAlias = Mapping[str, Sequence[tuple[str, Any]]]


def layer(type: str, name: str, *inbound: str, **config: Any) -> Json:
    """A layer as Keras 2 writes it, called once, on the named layers."""
    nodes = [[[source, 0, 0, {}] for source in inbound]] if inbound else []
    return {"class_name": type, "name": name, "config": {"name": name, **config}, "inbound_nodes": nodes}


def functional(layers: Sequence[Json], inputs: Sequence[str], outputs: Sequence[str], name: str = "model") -> Json:
    refs = {"input_layers": [[i, 0, 0] for i in inputs], "output_layers": [[o, 0, 0] for o in outputs]}
    return {"class_name": "Functional", "config": {"name": name, "layers": list(layers), **refs}}


def sequential(*layers: Json, name: str = "model") -> Json:
    return {"class_name": "Sequential", "config": {"name": name, "layers": list(layers)}}


def write_h5(path: Path, config: Json | None, arrays: Arrays, *, backend: Any = "tensorflow", **dataset: Any) -> Path:
    """A Keras 2 file. arrays: layer -> (name, values); config None makes a file of weights alone."""
    with h5py.File(path, "w") as file:
        if config is not None:
            file.attrs["model_config"] = json.dumps(config).encode()
            file.attrs["keras_version"] = b"2.4.0"
        group = file if config is None else file.create_group("model_weights")
        group.attrs["backend"] = backend
        group.attrs["layer_names"] = [name.encode() for name in arrays]
        for name, variables in arrays.items():
            child = group.create_group(name)
            child.attrs["weight_names"] = [f"{name}/{variable}:0".encode() for variable, _ in variables]
            for variable, values in variables:
                child.create_dataset(f"{name}/{variable}:0", data=values, **dataset)
    return path


def write_keras(
    path: Path, config: Json, arrays: Mapping[str, Any], *, packing: int = zipfile.ZIP_STORED, **dataset: Any
) -> Path:
    """A Keras 3 file. arrays: path in model.weights.h5 -> values, or None for a group without arrays."""
    inner = path.with_suffix(".inner")
    with h5py.File(inner, "w") as file:
        for name, values in arrays.items():
            if values is None:
                file.create_group(name)
            else:
                file.create_dataset(name, data=values, **dataset)
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.15.0"}))
        archive.writestr("config.json", json.dumps(config))
        archive.write(inner, "model.weights.h5")
    inner.unlink()
    return path


class Writer:
    """What the tests call to make models."""

    layer, functional, sequential = staticmethod(layer), staticmethod(functional), staticmethod(sequential)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def h5(
        self, config: Json | None, arrays: Arrays = MappingProxyType({}), name: str = "model.h5", **options: Any
    ) -> Path:
        return write_h5(self.folder / name, config, arrays, **options)

    def keras(
        self, config: Json, arrays: Mapping[str, Any] = MappingProxyType({}), name: str = "model.keras", **options: Any
    ) -> Path:
        return write_keras(self.folder / name, config, arrays, **options)

    def single(
        self, type: str, *, shape: Sequence[int | None] = (6, 5, 4), arrays: Sequence[Any] = (), **config: Any
    ) -> Path:
        """A network of one layer, called `x`."""
        model = sequential(layer("InputLayer", "in", batch_input_shape=[None, *shape]), layer(type, "x", **config))
        return self.h5(model, {"x": [(f"v{i}", values) for i, values in enumerate(arrays)]})


@pytest.fixture
def model(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


@pytest.fixture
def numbers() -> Callable[..., Any]:
    """Arrays of counted numbers: every element differs."""
    return lambda *shape: np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
