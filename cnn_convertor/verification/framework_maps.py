"""A framework's results as values, and its arrays as maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.errors import ConvertorError, Origin, Problem, UsageError
from cnn_convertor.frontends.nchw import shape_of
from cnn_convertor.ir.ops import Order, Shape
from cnn_convertor.samples import how_to_install
from cnn_convertor.verification.unpooling import Maxima

GIVEN = "given results"
HINT = "give the expected outputs together with the inputs (see docs/verify.md)"
KEPT = 8  # samples whose layers are kept; more would fill the memory and show little more


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The framework's results for N samples.

    outputs: index of an output -> (N, H, W, C), for those that have a result. layers: framework layer ->
    (N or KEPT, H, W, C) of the first samples, a vector being 1 x 1 x C.
    order: in which the framework counts the elements of a map. maxima: those of the device that its unpoolings used.
    unjudged: framework layer -> why it has no result.
    """

    framework: str
    outputs: Mapping[int, Maps]
    layers: Mapping[str, Maps]
    order: Order
    maxima: tuple[Maxima, ...] = ()
    unjudged: Mapping[str, str] = field(default_factory=dict)

    def of_first(self, samples: int) -> Reference:
        """The same with the layers of so many samples."""
        return replace(self, layers={name: maps[:samples] for name, maps in self.layers.items()})


def as_output(values: Maps, shape: Shape, order: Order) -> Maps:
    """A Keras tensor of N samples as maps (N, *shape): axes that are counted C, H, W or C, W are turned."""
    if order is Order.CHW and values.ndim in (3, 4):
        values = np.moveaxis(values, 1, -1)
    return np.ascontiguousarray(values).reshape(len(values), *shape).astype(np.float32, copy=False)


def as_maps(values: Maps, order: Order) -> Maps | None:
    """A Keras tensor of N samples as (N, H, W, C); None unless it is a map, a row or a vector."""
    match values.shape[1:]:
        case (channels,):
            shape = Shape(1, 1, channels)
        case (channels, width) if order is Order.CHW:
            shape = Shape(1, width, channels)
        case (width, channels):
            shape = Shape(1, width, channels)
        case (channels, height, width) if order is Order.CHW:
            shape = Shape(height, width, channels)
        case (height, width, channels):
            shape = Shape(height, width, channels)
        case _:
            return None
    return as_output(values, shape, order)


def blobs_as_output(values: Maps, shape: Shape) -> Maps:
    """A Caffe blob of N samples, of any axes, as maps (N, *shape)."""
    height, width, channels = shape
    maps = values.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(maps).astype(np.float32, copy=False)


def blobs_as_maps(values: Maps) -> Maps:
    """A Caffe blob of N samples as (N, H, W, C)."""
    return blobs_as_output(values, shape_of((1, *values.shape[1:])))


def require_outputs(framework: str, path: Path, names: Sequence[str], graph_outputs: Sequence[str]) -> None:
    """Raises ConvertorError unless the conversion has the outputs that the framework has, in their order."""
    if list(names) == list(graph_outputs):
        return
    expected, converted = ('", "'.join(each) for each in (names, graph_outputs))
    problem = f'the outputs are "{converted}" in the conversion, and "{expected}" in {framework}'
    raise ConvertorError.of("DV734", problem, Origin(str(path)), "please report it, with the model")


def missing(package: str, extra: str = "verify") -> UsageError:
    """package: as users call what computes the expected outputs. extra: the one that installs it."""
    problem = f"{package} computes the outputs that `verify` expects, and is not installed"
    return UsageError(Problem("DV711", problem, hint=f"{how_to_install(extra)}; or {HINT}"))


def no_integers(name: str, low: int, high: int) -> UsageError:
    """A sample of an input that the framework would turn into integers, which the device does not."""
    problem = (
        f'the model takes integers from {low:,} to {high:,} for the input "{name}", and a sample holds other numbers'
    )
    return UsageError.of("DV707", problem, hint="give such integers with --inputs, or correct [INPUT] mean and scale")


def first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
