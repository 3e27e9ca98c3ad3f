"""Tries other preparations of images, with which the framework may be more accurate than with that of the ini file.

Both sides of a verification read the same inputs, so they agree on wrong ones.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.config.request import Request
from cnn_convertor.errors import Origin, Problem, warn
from cnn_convertor.ir.graph import Graph
from cnn_convertor.samples import ARRAYS, IMAGES, Given, Preparation, axes_of, read_samples, shapes_of
from cnn_convertor.verification import frameworks
from cnn_convertor.verification.framework_maps import Reference
from cnn_convertor.verification.outputs import classes_of

_LEAST_RISE: Final = 0.05  # of the accuracy
_LEAST_SIGMAS: Final = 2.5  # of the samples that only one of both preparations classifies right
_CENTER: Final = 127.5
_PIXELS: Final = 0.1  # scales from here on leave numbers of the size of pixels


class _Other(NamedTuple):
    """Another preparation. what: differs, for messages. line: that sets it in the ini file."""

    what: str
    preparation: Preparation
    line: str


def warn_of_preparation(
    request: Request, graph: Graph, given: Given, classes: NDArray[np.intp], reference: Reference
) -> None:
    """Warn if the framework is markedly more accurate with another preparation. Only images are prepared, not arrays.

    classes: the right one of each sample. reference: the framework's results with the preparation of the ini file.
    """
    path = Path(given) if isinstance(given, str | os.PathLike) else None
    if path is None or not _has_only_images(path):
        return
    shapes, before = shapes_of(graph), classes_of(graph, reference)
    for other in _others(request.preparation, next(iter(shapes.values())).channels):
        inputs = read_samples(path, shapes, other.preparation, axes_of(graph)).inputs
        after = classes_of(graph, frameworks.run(request.model, graph, inputs))
        for output in before.keys() & after.keys():
            right, otherwise = before[output] == classes, after[output] == classes
            if _rises(right, otherwise):
                problem = (
                    f'{other.what}, the framework finds {otherwise.mean():.1%} of the classes of "{output}" instead of '
                    f"{right.mean():.1%}: the ini file prepares images otherwise than the training did"
                )
                warn(Problem("DV726", problem, Origin(request.name), f"try {other.line} in [INPUT]"))


def _has_only_images(path: Path) -> bool:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    suffixes = {file.suffix.lower() for file in files} & (IMAGES | ARRAYS)
    return bool(suffixes) and suffixes <= IMAGES


def _others(own: Preparation, channels: int) -> Iterator[_Other]:
    order = own.channel_order[::-1]
    if channels > 1:
        exchanged = replace(own, channel_order=order, is_given=True)
        yield _Other("with red and blue exchanged", exchanged, f"channel_order = {order}")
    if any(own.mean):
        yield _Other("without the mean", replace(own, mean=(0.0,), is_given=True), "mean = 0")
    else:
        yield _Other(f"with a mean of {_CENTER}", replace(own, mean=(_CENTER,), is_given=True), f"mean = {_CENTER}")
    small = float(np.abs(own.scale).max()) < _PIXELS
    scale, text = (1.0, "1") if small else (1 / 255, "0.00392157")
    yield _Other(f"with a scale of {text}", replace(own, scale=scale, is_given=True), f"scale = {text}")


def _rises(right: NDArray[np.bool_], otherwise: NDArray[np.bool_]) -> bool:
    """Whether the accuracy rises by more than chance explains."""
    won, lost = int((otherwise & ~right).sum()), int((right & ~otherwise).sum())
    return won - lost > max(_LEAST_RISE * len(right), _LEAST_SIGMAS * math.sqrt(won + lost))
