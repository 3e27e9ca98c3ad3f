"""Nodes that resample a map."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from cnn_convertor.errors import assert_never
from cnn_convertor.frontends import nchw
from cnn_convertor.frontends.onnx.operators.batches import images_as_channels
from cnn_convertor.frontends.onnx.operators.products import product_along
from cnn_convertor.frontends.onnx.reading import OnnxReading, OnnxTensor, onnx
from cnn_convertor.frontends.onnx.resampling import UNNAMED, Positions, Precision, Resampling, clipped, positions
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Interpolation, Outside, Pair, Sampling

Axis: TypeAlias = tuple[int, int, float]  # its length in the input and in the output, and the scale
LARGEST = 1 << 15  # height or width of a map, far more than any device has
# The same of the graph's operator.
OURS: Mapping[Sampling, str] = {
    Sampling.HALF_PIXEL: "half_pixel",
    Sampling.CORNERS: "align_corners",
    Sampling.ASYMMETRIC: "asymmetric",
}
MAKES = [ops.Resize, ops.Upsample, ops.Identity, ops.Conv2d]


@onnx.reads("Upsample", settings="mode scales", makes=MAKES, limits="mode: nearest or linear; height and width only")
@images_as_channels
def read_upsample(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    scales: Sequence[float] | None = reading.floats("scales")
    if scales is None:
        stored = reading.numbers(1, "the scales")
        scales = None if stored is None else stored.reshape(-1).tolist()
    factors = _of_map(reading, x, scales, 1.0)
    how = Resampling(reading.text("mode", "nearest"), "asymmetric", UNNAMED)
    return _resized(reading, x, _lengths(reading, x, factors), factors, how)


@onnx.reads(
    "Resize",
    settings="mode coordinate_transformation_mode nearest_mode antialias axes cubic_coeff_a exclude_outside "
    "keep_aspect_ratio_policy",
    ignores="extrapolation_value", makes=MAKES,
    limits="height and width only; not tf_crop_and_resize",
)  # fmt: skip
@images_as_channels
def read_resize(reading: OnnxReading) -> OnnxTensor:
    x = reading.input
    is_old = reading.opset < 11
    if not is_old:
        reading.at(1)  # the region of interest, of tf_crop_and_resize alone
    scales = reading.numbers(1 if is_old else 2, "the scales")
    sizes = None if is_old else reading.integers_at(3, "the sizes")
    axes = reading.integers("axes")
    how = Resampling(
        reading.text("mode", "nearest"),
        reading.text("coordinate_transformation_mode", "asymmetric" if is_old else "half_pixel"),
        reading.text("nearest_mode", UNNAMED if is_old else "round_prefer_floor"),
        reading.number("cubic_coeff_a", -0.75),
        bool(reading.integer("antialias", 0)),
        bool(reading.integer("exclude_outside", 0)),
    )
    policy = reading.text("keep_aspect_ratio_policy", "stretch")
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
    return _resized(reading, x, lengths, factors, how)


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
    dims = (reading.images, x.dims[1] // reading.images, *x.dims[2:])
    every = [float(n) if neutral is None else neutral for n in dims]
    for position, number in zip(positions, numbers, strict=True):
        every[position] = float(number)
    if any(every[at] != (dims[at] if neutral is None else neutral) for at in (0, 1)):
        raise reading.unsupported("a resize of the batch or the channels cannot be converted")
    if not all(0 < number < LARGEST for number in every[2:]):
        raise reading.wrong(f"sizes or scales of {every[2:]} are not those of a map")
    return [*every[2:], 1.0][:2]


def _resized(
    reading: OnnxReading, x: OnnxTensor, lengths: Sequence[int], factors: Sequence[float], how: Resampling
) -> OnnxTensor:
    sizes = _sizes(reading, x)
    if not how.is_known:
        raise reading.unsupported(
            f"a resize with the mode {how.mode}, {how.coordinates}, {how.rounding} cannot be converted",
            "export it with half_pixel, align_corners or asymmetric",
        )
    if min(lengths) < 1 or max(lengths) > LARGEST:
        raise reading.wrong(f"{lengths[0]}x{lengths[1]} is not a size of a map")
    if list(lengths) == sizes and all(factor == 1 for factor in factors):
        return reading.add(ops.Identity(), x)
    axes = list(zip(sizes, lengths, factors, strict=True))
    is_whole = all(size * factor == length for size, length, factor in axes)
    if how.coordinates == "align_corners" and not is_whole:
        hint = "give the size instead of scales"
        raise reading.unsupported("runtimes differ on aligned corners with scales that do not give whole sizes", hint)
    size = Pair(*lengths)
    if how.mode == "nearest":
        op = _nearest(sizes, size, [how.picked(*axis) for axis in axes])
    else:
        op = _bilinear(axes, size, how)
    return _multiplied(reading, x, axes, how) if op is None else reading.add(op, x)


def _bilinear(axes: Sequence[Axis], size: Pair, how: Resampling) -> ops.Op | None:
    """The operator that gives each pixel of the output these positions, if there is one."""
    if how.mode == "cubic" or (how.antialias and any(factor < 1 for _, _, factor in axes)):
        return None
    for sampling, name in OURS.items():
        if all(_is_same(name, how, axis) for axis in axes):
            return ops.Resize(size, Interpolation.BILINEAR, sampling)
    return None


def _is_same(name: str, how: Resampling, axis: Axis) -> bool:
    """Whether the coordinates of this name give all pixels along an axis the same positions."""
    size, length, _ = axis
    named = positions(name, size, length, length / size)
    return np.allclose(clipped(how.positions(*axis), size), clipped(named, size), rtol=0, atol=1e-4)


def _multiplied(reading: OnnxReading, x: OnnxTensor, axes: Sequence[Axis], how: Resampling) -> OnnxTensor:
    """Each pixel as a sum of pixels with constant weights: a product with a matrix along each axis that changes."""
    changed = {}
    for at, (size, length, factor) in enumerate(axes, 2):
        if at < x.rank and (length, factor) != (size, 1):
            changed[at] = Constant.of(how.matrix(size, length, factor))
    for at, weights in changed.items():
        inside = f"axis{at}"
        part = "" if at == max(changed) else inside
        x = product_along(reading, x, at, weights, part, rows=f"{inside}/rows", sums=f"{inside}/product")
    return x


def _nearest(sizes: Sequence[int], size: Pair, indices: Sequence[Positions]) -> ops.Op | None:
    """The operator that picks these pixels, if there is one."""
    height, width = sizes
    rows, columns = indices
    if size.height % height == 0 and size.width % width == 0:
        factor = Pair(size.height // height, size.width // width)
        repeats_rows = np.array_equal(rows, np.arange(size.height) // factor.height)
        if repeats_rows and np.array_equal(columns, np.arange(size.width) // factor.width):
            return ops.Upsample(factor)
    for sampling in OURS:
        is_same = True
        for type in (np.float32, np.float64):
            is_same &= np.array_equal(rows, _ours(sampling, height, size.height, type))
            is_same &= np.array_equal(columns, _ours(sampling, width, size.width, type))
        if is_same:
            return ops.Resize(size, Interpolation.NEAREST, sampling)
    return None


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
    return clipped(np.floor(coordinates), size)


# --- computed positions --------------------------------------------------------------------------------------------------

MODES = {"linear": Interpolation.BILINEAR, "bilinear": Interpolation.BILINEAR, "nearest": Interpolation.NEAREST}
OUTSIDE = {"zeros": Outside.ZEROS, "border": Outside.BORDER, "reflection": Outside.REFLECTED}


@onnx.reads(
    "GridSample", settings="mode padding_mode align_corners", makes=[ops.GridSample, ops.TransposeReshape],
    limits="a computed grid; mode: linear or nearest; height and width only",
)  # fmt: skip
@images_as_channels
def read_grid_sample(reading: OnnxReading) -> OnnxTensor:
    """Samples the input at computed positions."""
    x = reading.map
    grid = reading.tensor(1)
    mode = reading.text("mode", "linear")
    outside = reading.text("padding_mode", "zeros")
    corners = reading.integer("align_corners", 0) != 0
    if mode not in MODES:
        raise reading.unsupported(f"the mode {mode} cannot be converted; linear and nearest can")
    if outside not in OUTSIDE:
        raise reading.contradiction(f"the padding mode {outside} does not exist")
    if x.rank != 4 or grid.rank != 4 or (grid.dims[0], grid.dims[3]) != (reading.images, 2):
        raise reading.wrong(f"places of {nchw.text_of(grid.dims)} do not fit {nchw.text_of(x.dims)}")
    count, height, width, _ = grid.dims
    places = reading.permute(grid, grid.dims, (0, 3, 1, 2), (1, 2 * count, height, width), part="places")
    op = ops.GridSample(MODES[mode], OUTSIDE[outside], corners, reading.images)
    return reading.add(op, x, places)
