"""Reads trained networks: one folder for each framework, which turns its files into a graph and knows no device."""

from __future__ import annotations

from pathlib import Path

from cnn_convertor.frontends.caffe import CAFFE
from cnn_convertor.frontends.frontend import Frontend
from cnn_convertor.frontends.keras import KERAS

FRONTENDS = (CAFFE, KERAS)


def recognize(*paths: Path) -> Frontend | None:
    """The framework of a model's files: by the suffix of any, or else by how the first one begins."""
    for path in paths:
        for frontend in FRONTENDS:
            if path.suffix.lower() in frontend.suffixes:
                return frontend
    try:
        with paths[0].open("rb") as file:
            start = file.read(8)
    except (OSError, ValueError):  # reading the model reports it
        return None
    return next((frontend for frontend in FRONTENDS if start.startswith(frontend.magic)), None)
