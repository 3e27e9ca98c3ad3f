"""Reads trained networks into graphs, independently of the device; each framework has a folder."""

import re
from pathlib import Path

from cnn_convertor.files.opening import open_file
from cnn_convertor.frontends.caffe import CAFFE
from cnn_convertor.frontends.frontend import Frontend
from cnn_convertor.frontends.keras import KERAS
from cnn_convertor.frontends.onnx import ONNX

FRONTENDS = (CAFFE, KERAS, ONNX)
START = 2048  # bytes at which the content shows the framework


def recognize(*paths: Path) -> Frontend | None:
    """The framework of a model's files: by the suffix of any, or else by the content of the first."""
    for path in paths:
        for frontend in FRONTENDS:
            if path.suffix.lower() in frontend.suffixes:
                return frontend
    try:
        with open_file(paths[0]) as file:
            return recognize_content(file.read(START))
    except (OSError, ValueError):  # reading the model reports it
        return None


def recognize_content(start: bytes) -> Frontend | None:
    """The framework whose files begin so."""
    for frontend in FRONTENDS:
        if start.startswith(frontend.magic) or (frontend.pattern and re.match(frontend.pattern, start[:START])):
            return frontend
    return None
