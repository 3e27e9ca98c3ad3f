"""Reads whole networks of Caffe and Keras."""

from pathlib import Path
from typing import Any

from cnn_convertor.frontends.caffe import CAFFE
from cnn_convertor.frontends.frontend import Frontend, ReadOptions
from cnn_convertor.frontends.keras import KERAS
from cnn_convertor.ir.graph import Graph


def load_caffe(definition: Path, data: Path, **options: Any) -> Graph:
    return _load(CAFFE, definition, data, options)


def load_keras(definition: Path, data: Path, **options: Any) -> Graph:
    return _load(KERAS, definition, data, options)


def _load(frontend: Frontend, definition: Path, data: Path, options: dict[str, Any]) -> Graph:
    """The whole network. options: fields of ReadOptions. Raises an error with every reason why it cannot be read."""
    return frontend.read(definition, data, ReadOptions(**options)).require_complete()
