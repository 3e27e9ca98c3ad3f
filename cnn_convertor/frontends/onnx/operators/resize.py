"""Nodes that resample a map."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.errors import assert_never
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, onnx
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Interpolation, Pair, Sampling

LARGEST = 1 << 15  # height or width of a map, far more than any device has
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
# The same of the graph's operator.
OURS: Mapping[Sampling, str] = {
    Sampling.HALF_PIXEL: "half_pixel",
    Sampling.CORNERS: "align_corners",
    Sampling.ASYMMETRIC: "asymmetric",
}
MAKES = [ops.Resize, ops.Upsample, ops.Identity]


@onnx.reads("Upsample", settings="mode scales", makes=MAKES, limits="mode: nearest or linear; height and width only")
def read_upsample(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    scales: Sequence[float] | None = reading.floats("scales")
    if scales is None:
        stored = reading.numbers(1, "the scales")
        scales = None if stored is None else stored.reshape(-1).tolist()
    factors = _of_map(reading, x, scales, 1.0)
    return _resized(reading, x, _lengths(reading, x, factors), factors, "asymmetric", UNNAMED)


@onnx.reads(
    "Resize",
    settings="mode coordinate_transformation_mode nearest_mode antialias axes exclude_outside keep_aspect_ratio_policy",
    ignores="cubic_coeff_a extrapolation_value", makes=MAKES,
    limits="mode: nearest or linear; height and width only; no antialias; not tf_crop_and_resize",
)  # fmt: skip
def read_resize(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    is_old = reading.opset < 11
    if not is_old:
        reading.at(1)  # the region of interest, of tf_crop_and_resize alone
    scales = reading.numbers(1 if is_old else 2, "the scales")
    sizes = None if is_old else reading.integers_at(3, "the sizes")
    axes = reading.integers("axes")
    coordinates = reading.text("coordinate_transformation_mode", "asymmetric" if is_old else "half_pixel")
    rounding = reading.text("nearest_mode", UNNAMED if is_old else "round_prefer_floor")
    policy = reading.text("keep_aspect_ratio_policy", "stretch")
    for name in ("antialias", "exclude_outside"):
        if reading.integer(name, 0):
            raise reading.unsupported(f"a resize with {name} cannot be converted", f"export it without {name}")
    if sizes:
        if policy != "stretch":
            raise reading.unsupported(f"a resize with the policy {policy} cannot be converted", "give the size itself")
        if scales is not None and scales.size:
            raise reading.wrong("both scales and sizes are given")
        lengths = [int(n) for n in _of_map(reading, x, sizes, None, axes)]
        factors = [length / n for length, n in zip(lengths, _sizes(reading, x), strict=True)]
    else:
        factors = _of_map(reading, x, None if scales is None else scales.reshape(-1).tolist(), 1.0, axes)
        lengths = _lengths(reading, x, factors)
    return _resized(reading, x, lengths, factors, coordinates, rounding)


def _sizes(reading: OnnxReading, x: OnnxTensor) -> list[int]:
    shape = reading.shape(x)
    return [shape.height, shape.width]


def _lengths(reading: OnnxReading, x: OnnxTensor, factors: Sequence[float]) -> list[int]:
    """The size of the result, in FP32: 50 * 0.04 is 2."""
    sizes = _sizes(reading, x)
    return [math.floor(np.float32(n) * np.float32(factor)) for n, factor in zip(sizes, factors, strict=True)]


def _of_map(
    reading: OnnxReading,
    x: OnnxTensor,
    numbers: Sequence[float] | None,
    neutral: float | None,
    axes: list[int] | None = None,
) -> list[float]:
    """The numbers for height and width, of those for all axes, of which the others must change nothing."""
    if reading.map.rank != x.rank or numbers is None:
        raise reading.wrong("neither scales nor sizes are given")
    positions = list(range(x.rank)) if axes is None else [reading.axis_in(x.dims, axis) for axis in axes]
    if len(numbers) != len(positions):
        raise reading.wrong(f"{len(numbers)} numbers are given for {len(positions)} axes")
    every = [float(n) if neutral is None else neutral for n in x.dims]
    for position, number in zip(positions, numbers, strict=True):
        every[position] = float(number)
    if any(every[at] != (x.dims[at] if neutral is None else neutral) for at in (0, 1)):
        raise reading.unsupported("a resize of the batch or the channels cannot be converted")
    if not all(0 < number < LARGEST for number in every[2:]):
        raise reading.wrong(f"sizes or scales of {every[2:]} are not those of a map")
    return [*every[2:], 1.0][:2]


def _resized(
    reading: OnnxReading,
    x: OnnxTensor,
    lengths: Sequence[int],
    factors: Sequence[float],
    coordinates: str,
    rounding: str,
) -> OnnxTensor:
    mode = reading.text("mode", "nearest")
    sizes = _sizes(reading, x)
    known = rounding in ROUNDINGS or rounding == UNNAMED
    if coordinates not in COORDINATES or mode not in ("nearest", "linear", "bilinear") or not known:
        raise reading.unsupported(
            f"a resize with the mode {mode}, {coordinates}, {rounding} cannot be converted",
            "export it with mode nearest or linear, and half_pixel, align_corners or asymmetric",
        )
    if min(lengths) < 1 or max(lengths) > LARGEST:
        raise reading.wrong(f"{lengths[0]}x{lengths[1]} is not a size of a map")
    if list(lengths) == sizes and all(factor == 1 for factor in factors):
        return reading.add(ops.Identity(), x)
    if coordinates == "align_corners" and any(
        n * f != length for n, f, length in zip(sizes, factors, lengths, strict=True)
    ):
        hint = "give the size instead of scales"
        raise reading.unsupported("runtimes differ on aligned corners with scales that do not give whole sizes", hint)
    axes, size = list(zip(sizes, lengths, factors, strict=True)), Pair(*lengths)
    if mode == "nearest":
        return reading.add(_nearest(reading, sizes, size, [_picked(coordinates, rounding, *axis) for axis in axes]), x)
    wanted = [_positions(coordinates, *axis) for axis in axes]
    for sampling, name in OURS.items():
        ours = [_positions(name, n, length, length / n) for n, length, _ in axes]
        if all(_agree(_clipped(a, n), _clipped(b, n)) for a, b, n in zip(wanted, ours, sizes, strict=True)):
            return reading.add(ops.Resize(size, Interpolation.BILINEAR, sampling), x)
    raise reading.unsupported(
        "a resize whose scales do not give the size exactly cannot be converted", "give the size instead"
    )


def _picked(coordinates: str, rounding: str, size: int, length: int, factor: float) -> Positions:
    """The pixels of the input that are nearest to those of the output. onnxruntime computes them in FP32."""
    rounds = ROUNDINGS[("ceil" if factor < 1 else "floor") if rounding == UNNAMED else rounding]
    return _clipped(rounds(_positions(coordinates, size, length, factor, np.float32)), size)


def _positions(coordinates: str, size: int, length: int, factor: float, type: Precision = np.float64) -> Positions:
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


def _clipped(positions: Positions, size: int) -> Positions:
    return np.clip(positions, 0, size - 1)


def _agree(a: Positions, b: Positions) -> bool:
    return bool(np.allclose(a, b, rtol=0, atol=1e-4))


def _nearest(reading: OnnxReading, sizes: Sequence[int], size: Pair, indices: Sequence[Positions]) -> ops.Op:
    """The operator that picks these pixels."""
    if all(length % n == 0 for length, n in zip(size, sizes, strict=True)):
        factor = Pair(*(length // n for length, n in zip(size, sizes, strict=True)))
        if all(np.array_equal(i, np.arange(len(i)) // f) for i, f in zip(indices, factor, strict=True)):
            return ops.Upsample(factor)
    for sampling in OURS:
        ours = (
            [_ours(sampling, n, length, type) for n, length in zip(sizes, size, strict=True)]
            for type in (np.float32, np.float64)
        )
        if all(np.array_equal(i, p) for picked in ours for i, p in zip(indices, picked, strict=True)):
            return ops.Resize(size, Interpolation.NEAREST, sampling)
    raise reading.unsupported(
        "no way of resizing on the board picks the same pixels", 'export it with "asymmetric" and "floor", or as linear'
    )


def _ours(sampling: Sampling, size: int, length: int, type: Precision) -> Positions:
    """The pixels that the graph's operator picks. A CPU layer computes them in FP32, where rounding may choose a neighbor."""
    half, old, new = (np.asarray(number, type) for number in (0.5, size, length))
    pixels = np.arange(length, dtype=type)
    match sampling:
        case Sampling.HALF_PIXEL:
            coordinates = (pixels + half) * (old / new) - half + half
        case Sampling.CORNERS:
            coordinates = pixels * (old - 1) / np.maximum(new - 1, 1) + half
        case Sampling.ASYMMETRIC:
            coordinates = pixels * (old / new)
        case _:
            assert_never(sampling)
    return _clipped(np.floor(coordinates), size)
