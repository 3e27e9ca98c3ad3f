"""How ONNX resizes along one axis: the positions of the output's pixels in the input, and the weights of their neighbors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.floating[Any]]
Precision: TypeAlias = type[np.floating[Any]]

COORDINATES = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric")
ROUNDINGS: Mapping[str, Callable[[Positions], Positions]] = {
    "round_prefer_floor": lambda p: np.ceil(p - 0.5),
    "round_prefer_ceil": lambda p: np.floor(p + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
UNNAMED = "of old versions"  # before version 11: up where a map becomes smaller, else down
REACH: Mapping[str, int] = {"linear": 1, "bilinear": 1, "cubic": 2}  # pixels on each side that count


@dataclass(frozen=True, slots=True)
class Resampling:
    """The settings of a Resize node that hold for each axis. cubic: the coefficient a of its curve.

    antialias: where the axis becomes shorter, the weights reach as far as the pixels of the output are apart.
    drops_outside: pixels outside of the input count for nothing; otherwise they are those of the edge.
    """

    mode: str
    coordinates: str
    rounding: str
    cubic: float = -0.75
    antialias: bool = False
    drops_outside: bool = False

    @property
    def is_known(self) -> bool:
        has_rounding = self.rounding in ROUNDINGS or self.rounding == UNNAMED
        return has_rounding and self.coordinates in COORDINATES and self.mode in ("nearest", *REACH)

    def positions(self, size: int, length: int, factor: float, type: Precision = np.float64) -> Positions:
        return positions(self.coordinates, size, length, factor, type)

    def picked(self, size: int, length: int, factor: float) -> Positions:
        """The pixels of the input that are nearest to those of the output. onnxruntime computes them in FP32."""
        name = ("ceil" if factor < 1 else "floor") if self.rounding == UNNAMED else self.rounding
        return clipped(ROUNDINGS[name](self.positions(size, length, factor, np.float32)), size)

    def matrix(self, size: int, length: int, factor: float) -> NDArray[np.float64]:
        """The weight (length, size) of each pixel of the input in each one of the output."""
        weights = np.zeros((length, size))
        rows = np.arange(length)
        if self.mode == "nearest":
            weights[rows, self.picked(size, length, factor).astype(np.intp)] = 1
            return weights
        stretch = max(1.0, 1 / factor) if self.antialias else 1.0
        reach = REACH[self.mode] * stretch
        centers = self.positions(size, length, factor)
        if self.mode != "cubic" and not self.antialias:
            centers = clipped(centers, size)
        pixels = np.floor(centers - reach)[:, None] + np.arange(int(np.ceil(2 * reach)) + 2)
        shares = self._curve(np.abs(pixels - centers[:, None]) / stretch)
        if self.drops_outside:
            shares = np.where((pixels >= 0) & (pixels < size), shares, 0)
        shares /= shares.sum(1, keepdims=True)
        np.add.at(weights, (rows[:, None], clipped(pixels, size).astype(np.intp)), shares)
        return weights

    def _curve(self, distances: Positions) -> Positions:
        """The weight of a pixel at these distances."""
        x = distances
        a = self.cubic
        if self.mode != "cubic":
            return np.maximum(1 - x, 0)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x < 1, near, np.where(x < 2, far, 0))


def positions(coordinates: str, size: int, length: int, factor: float, type: Precision = np.float64) -> Positions:
    """The positions of output pixels in the input, as ONNX defines them; before they are cut to the input."""
    half, by, old, new = (np.asarray(number, type) for number in (0.5, factor, size, length))
    pixels = np.arange(length, dtype=type)
    match coordinates:
        case "align_corners":
            return pixels * (old - 1) / np.maximum(new - 1, 1)
        case "asymmetric":
            return pixels / by
        case "pytorch_half_pixel" if length == 1:
            return pixels
        case "half_pixel_symmetric":
            return old * half * (1 - new / (by * old)) + (pixels + half) / by - half
        case _:
            return (pixels + half) / by - half


def clipped(positions: Positions, size: int) -> Positions:
    return np.clip(positions, 0, size - 1)
