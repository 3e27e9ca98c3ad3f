"""Nodes that resample a map."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, onnx
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Interpolation, Pair, Sampling

LARGEST = 1 << 15  # height or width of a map, far more than any device has
Positions = NDArray[np.floating[Any]]

COORDINATES = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric")
ROUNDINGS: Mapping[str, Callable[[Positions], Positions]] = {
    "round_prefer_floor": lambda p: np.ceil(p - 0.5),
    "round_prefer_ceil": lambda p: np.floor(p + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
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
    sizes = [math.floor(n * f) for n, f in zip(_sizes(reading, x), factors, strict=True)]
    return _resized(reading, x, sizes, factors, "asymmetric", "floor")


@onnx.reads(
    "Resize",
    settings="mode coordinate_transformation_mode nearest_mode antialias axes exclude_outside keep_aspect_ratio_policy",
    ignores="cubic_coeff_a extrapolation_value", makes=MAKES,
    limits="mode: nearest or linear; height and width only; no antialias; not tf_crop_and_resize",
)  # fmt: skip
def read_resize(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    first = 1 if reading.opset < 11 else 2
    scales, sizes = reading.numbers(first, "the scales"), reading.numbers(3, "the sizes")
    axes = reading.integers("axes")
    coordinates = reading.text("coordinate_transformation_mode", "half_pixel" if reading.opset >= 11 else "asymmetric")
    rounding = reading.text("nearest_mode", "round_prefer_floor" if reading.opset >= 11 else "floor")
    policy = reading.text("keep_aspect_ratio_policy", "stretch")
    for name in ("antialias", "exclude_outside"):
        if reading.integer(name, 0):
            raise reading.unsupported(f"a resize with {name} cannot be converted", f"export it without {name}")
    if sizes is not None and sizes.size:
        if policy != "stretch":
            raise reading.unsupported(f"a resize with the policy {policy} cannot be converted", "give the size itself")
        lengths = [int(n) for n in _of_map(reading, x, sizes.reshape(-1).tolist(), None, axes)]
        factors = [length / n for length, n in zip(lengths, _sizes(reading, x), strict=True)]
    else:
        factors = _of_map(reading, x, None if scales is None else scales.reshape(-1).tolist(), 1.0, axes)
        lengths = [math.floor(n * f) for n, f in zip(_sizes(reading, x), factors, strict=True)]
    return _resized(reading, x, lengths, factors, coordinates, rounding)


def _sizes(reading: OnnxReading, x: OnnxTensor) -> list[int]:
    shape = reading.shape(x)
    return [shape.height, shape.width]


def _of_map(
    reading: OnnxReading,
    x: OnnxTensor,
    given: Sequence[float] | None,
    neutral: float | None,
    axes: list[int] | None = None,
) -> list[float]:
    """The numbers for height and width, of those for all axes, of which the others must change nothing."""
    if reading.map.rank != x.rank or given is None:
        raise reading.wrong("neither scales nor sizes are given")
    places = list(range(x.rank)) if axes is None else [reading.axis_in(x.dims, axis) for axis in axes]
    if len(given) != len(places):
        raise reading.wrong(f"{len(given)} numbers are given for {len(places)} axes")
    every = [float(n) if neutral is None else neutral for n in x.dims]
    for place, number in zip(places, given, strict=True):
        every[place] = float(number)
    if any(every[at] != (x.dims[at] if neutral is None else neutral) for at in (0, 1)):
        raise reading.unsupported("a resize of the batch or the channels cannot be converted")
    if min(every) <= 0:
        raise reading.wrong("a size or a scale is not above 0")
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
    if coordinates not in COORDINATES or mode not in ("nearest", "linear", "bilinear") or rounding not in ROUNDINGS:
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
    wanted = [_positions(coordinates, *axis) for axis in zip(sizes, lengths, factors, strict=True)]
    size = Pair(*lengths)
    if mode == "nearest":
        return reading.add(_nearest(reading, sizes, size, [ROUNDINGS[rounding](p) for p in wanted]), x)
    for sampling, name in OURS.items():
        ours = [_positions(name, n, length, length / n) for n, length in zip(sizes, lengths, strict=True)]
        if all(_agree(_clipped(a, n), _clipped(b, n)) for a, b, n in zip(wanted, ours, sizes, strict=True)):
            return reading.add(ops.Resize(size, Interpolation.BILINEAR, sampling), x)
    raise reading.unsupported(
        "a resize whose scales do not give the size exactly cannot be converted", "give the size instead"
    )


def _positions(coordinates: str, size: int, length: int, factor: float) -> Positions:
    """The positions of output pixels in the input, as ONNX defines them; before they are cut to the input."""
    pixels = np.arange(length, dtype=np.float64)
    match coordinates:
        case "align_corners":
            return pixels * (size - 1) / max(length - 1, 1)
        case "asymmetric":
            return pixels / factor
        case "pytorch_half_pixel" if length == 1:
            return pixels
        case "half_pixel_symmetric":
            return size / 2 * (1 - length / (size * factor)) + (pixels + 0.5) / factor - 0.5
        case _:
            return (pixels + 0.5) / factor - 0.5


def _clipped(positions: Positions, size: int) -> Positions:
    return np.clip(positions, 0, size - 1)


def _agree(a: Positions, b: Positions) -> bool:
    return bool(np.allclose(a, b, rtol=0, atol=1e-4))


def _nearest(reading: OnnxReading, sizes: Sequence[int], size: Pair, wanted: Sequence[Positions]) -> ops.Op:
    """The operator that picks the wanted pixels."""
    indices = [_clipped(p, n) for p, n in zip(wanted, sizes, strict=True)]
    if all(length % n == 0 for length, n in zip(size, sizes, strict=True)):
        factor = Pair(*(length // n for length, n in zip(size, sizes, strict=True)))
        if all(np.array_equal(i, np.arange(len(i)) // f) for i, f in zip(indices, factor, strict=True)):
            return ops.Upsample(factor)
    for sampling, name in OURS.items():
        rounds = ROUNDINGS["floor" if sampling is Sampling.ASYMMETRIC else "round_prefer_ceil"]
        ours = (rounds(_positions(name, n, length, length / n)) for n, length in zip(sizes, size, strict=True))
        if all(np.array_equal(i, _clipped(p, n)) for i, p, n in zip(indices, ours, sizes, strict=True)):
            return ops.Resize(size, Interpolation.NEAREST, sampling)
    raise reading.unsupported(
        "no way of resizing on the board picks the same pixels", 'export it with "asymmetric" and "floor", or as linear'
    )
