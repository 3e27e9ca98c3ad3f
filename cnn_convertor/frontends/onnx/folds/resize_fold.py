"""Resizes of constants: embeddings of positions, which YOLOS fits to the size of its input."""

from __future__ import annotations

import math

import numpy as np

from cnn_convertor.errors import UnsupportedError
from cnn_convertor.frontends.onnx.folding import Folding, folds
from cnn_convertor.frontends.onnx.resampling import UNNAMED, Resampling
from cnn_convertor.frontends.onnx.stored import Numbers


@folds("Resize", "Upsample")
def _resized(folding: Folding) -> Numbers:
    x = folding[0]
    is_old = folding.opset < 11
    scales = folding.attribute("scales", folding.get(1 if is_old else 2))
    sizes = None if is_old or folding.get(3) is None else folding.indices(3).reshape(-1).tolist()
    axes = [int(axis) % x.ndim for axis in folding.attribute("axes", range(x.ndim))]
    how = Resampling(
        folding.attribute("mode", b"nearest").decode("utf-8", errors="replace"),
        folding.attribute("coordinate_transformation_mode", b"asymmetric" if is_old else b"half_pixel").decode(),
        UNNAMED if is_old else folding.attribute("nearest_mode", b"round_prefer_floor").decode(),
        folding.attribute("cubic_coeff_a", -0.75),
        bool(folding.attribute("antialias", 0)),
        bool(folding.attribute("exclude_outside", 0)),
    )
    if not how.is_known or folding.attribute("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        problem = f"a resize of constants with {how.mode}, {how.coordinates}, {how.rounding} cannot be converted"
        raise UnsupportedError.of("DV302", problem, folding.node.where, "export it with half_pixel")
    if sizes:
        factors = [length / x.shape[axis] for axis, length in zip(axes, sizes, strict=True)]
    else:
        factors = [float(factor) for factor in np.asarray(() if scales is None else scales).reshape(-1)]
        lengths = (np.float32(x.shape[axis]) * np.float32(f) for axis, f in zip(axes, factors, strict=True))
        sizes = [math.floor(length) for length in lengths]
    result = x.astype(np.float64) if x.dtype.kind == "f" else x
    for axis, length, factor in zip(axes, sizes, factors, strict=True):
        size = x.shape[axis]
        if (length, factor) == (size, 1):
            continue
        if length < 1 or factor <= 0:
            raise ValueError(f"a length of {length}")
        folding.budget.check([size, length])
        folding.budget.check([*result.shape[:axis], length, *result.shape[axis + 1 :]])
        if how.mode == "nearest":
            result = result.take(how.picked(size, length, factor).astype(np.intp), axis)
        else:
            result = np.moveaxis(np.tensordot(how.matrix(size, length, factor), result, (1, axis)), 0, axis)
    return np.asarray(result).astype(x.dtype)
