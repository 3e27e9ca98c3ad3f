"""Tries other preparations of images, with which the framework may be more accurate than with that of the ini file.

Both sides of a verification read the same inputs, so they agree on wrong ones.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.config.request import Request
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.errors import Origin, Problem, warn
from cnn_convertor.ir.graph import Graph
from cnn_convertor.samples import ARRAYS, IMAGES, Given, Preparation, samples_of
from cnn_convertor.verification import frameworks
from cnn_convertor.verification.framework_maps import Reference
from cnn_convertor.verification.outputs import classes_of

_LEAST_RISE: Final = 0.05  # of the accuracy
_LEAST_SIGMAS: Final = 2.5  # of the samples that only one of both preparations classifies right
_SAMPLES: Final = 256  # images that other preparations are tried on, at most
_VALUES: Final = 1 << 26  # of them in all preparations: 256 MB
_CENTER: Final = 127.5
_PIXELS: Final = 0.1  # scales from here on leave numbers of the size of pixels


class _Other(NamedTuple):
    """Another preparation. what: differs, for messages. lines: that set it in the ini file."""

    what: str
    preparation: Preparation
    lines: str


class _Change(NamedTuple):
    """One way in which another preparation differs. what, line: as of it. of: what it changes of a Preparation."""

    what: str
    line: str
    of: Mapping[str, Any]


def warn_of_preparation(
    request: Request, graph: Graph, given: Given, classes: NDArray[np.intp], reference: Reference
) -> None:
    """Warn if the framework is markedly more accurate with another preparation. Only images are prepared, not arrays.

    One error can hide another, so changes are also tried together. The most accurate preparation is named; if several are,
    that with the fewest changes. classes: the right one of each sample. reference: the framework's results with the
    preparation of the ini file.
    """
    path = Path(given) if isinstance(given, str | os.PathLike) else None
    if path is None or not _has_only_images(path):
        return
    pixels = samples_of(path, graph, Preparation(is_given=True))
    ((name, images),) = pixels.inputs.items()  # a network with several inputs takes no images
    others = _others(request.preparation, images.shape[-1])
    count = min(_SAMPLES, max(1, _VALUES // (len(others) * images[0].size)))
    images, classes = images[:count], classes[:count]
    prepared = np.concatenate([_applied(other.preparation, images) for other in others])
    predicted = classes_of(graph, frameworks.run(request.model, graph, {name: prepared}))
    for output, own in classes_of(graph, reference).items():
        if output not in predicted:
            continue
        right = own[:count] == classes
        tried = zip(others, np.split(predicted[output] == np.tile(classes, len(others)), len(others)), strict=True)
        better = [(other, otherwise) for other, otherwise in tried if _rises(right, otherwise)]
        if better:
            other, otherwise = max(better, key=lambda each: each[1].sum())
            problem = (
                f'{other.what}, the framework finds {otherwise.mean():.1%} of the classes of "{output}" instead of '
                f"{right.mean():.1%}: the ini file prepares images differently than the training did"
            )
            warn(Problem("DV726", problem, Origin(request.name), f"{other.lines} in [INPUT]"))


def _applied(preparation: Preparation, images: Maps) -> Maps:
    """Images in RGB, or gray ones, (N, H, W, C) of 0..255, as the network's input."""
    return preparation.apply(images if preparation.channel_order == "RGB" else images[..., ::-1])


def _has_only_images(path: Path) -> bool:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    suffixes = {file.suffix.lower() for file in files} & (IMAGES | ARRAYS)
    return bool(suffixes) and suffixes <= IMAGES


def _others(own: Preparation, channels: int) -> list[_Other]:
    """Each change alone, then two, then all."""
    changes = [*_changes(own, channels)]
    counts = range(1, len(changes) + 1)
    return [_with(own, chosen) for count in counts for chosen in combinations(changes, count)]


def _with(own: Preparation, changes: Sequence[_Change]) -> _Other:
    new = replace(own, is_given=True, **{key: value for change in changes for key, value in change.of.items()})
    *first, last = [change.what for change in changes]
    what = f"{', '.join(first)} and {last}" if first else last
    return _Other(what, new, ", ".join(change.line for change in changes))


def _changes(own: Preparation, channels: int) -> Iterator[_Change]:
    if channels > 1:
        order = own.channel_order[::-1]
        yield _Change("with red and blue exchanged", f"channel_order = {order}", {"channel_order": order})
    if any(own.mean):
        yield _Change("without the mean", "mean = 0", {"mean": (0.0,)})
    else:
        yield _Change(f"with a mean of {_CENTER}", f"mean = {_CENTER}", {"mean": (_CENTER,)})
    small = float(np.abs(own.scale).max()) < _PIXELS
    scale, text = (1.0, "1") if small else (1 / 255, "0.00392157")
    yield _Change(f"with a scale of {text}", f"scale = {text}", {"scale": scale})


def _rises(right: NDArray[np.bool_], otherwise: NDArray[np.bool_]) -> bool:
    """Whether the accuracy rises by more than chance explains."""
    won = int((otherwise & ~right).sum())
    lost = int((right & ~otherwise).sum())
    return won - lost > max(_LEAST_RISE * len(right), _LEAST_SIGMAS * math.sqrt(won + lost))
