"""Reads a Keras file, or the reasons why it cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cnn_convertor.errors import ModelError, UnsupportedError
from cnn_convertor.ir.graph import Graph
from frontends.loading import load_keras as load


def read(path: Path, **options: Any) -> Graph:
    return load(path, path, **options)


def refused(path: Path, **options: Any) -> list[str]:
    """Each problem on one line: code, message and layer."""
    with pytest.raises((UnsupportedError, ModelError)) as caught:
        load(path, path, **options)
    return [f"{p.code} {p.message} @{p.where.layer if p.where else ''}" for p in caught.value.problems]
