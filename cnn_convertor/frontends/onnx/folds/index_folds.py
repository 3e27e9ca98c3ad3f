"""Nodes on constants that take elements by their indices, replace them, find, sort, or move them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cnn_convertor.frontends.onnx.folding import Folding, folds
from cnn_convertor.frontends.onnx.stored import Numbers
from cnn_convertor.frontends.onnx.tensors import TYPES

# How Pad's modes are called in numpy.
MODES: Mapping[bytes, Any] = {b"constant": "constant", b"reflect": "reflect", b"edge": "edge", b"wrap": "wrap"}
# What a Scatter does with the numbers that are there.
SCATTERINGS: Mapping[bytes, Any] = {b"add": np.add, b"mul": np.multiply, b"max": np.maximum, b"min": np.minimum}


def _in_range(indices: Numbers, size: int) -> Numbers:
    """Indices counted from the front. Raises ValueError for those that do not exist."""
    if indices.size and (indices.min() < -size or indices.max() >= size):
        raise ValueError(f"an index does not exist: the axis has {size} elements")
    return np.where(indices < 0, indices + size, indices).astype(np.intp)


def gather_nd(x: Numbers, indices: Numbers, batch_axes: int) -> Numbers:
    """The parts of x at these indices, each a vector along the last axis. The batch axes come first in both."""
    depth = indices.shape[-1]
    if not 1 <= depth <= x.ndim - batch_axes or x.shape[:batch_axes] != indices.shape[:batch_axes]:
        raise ValueError(f"indices of {indices.shape} do not fit {x.shape}")
    positions: list[Numbers] = []
    for axis in range(batch_axes):  # each batch takes from itself
        ones = (1,) * (indices.ndim - 2 - axis)
        positions.append(np.arange(indices.shape[axis]).reshape(-1, *ones))
    positions += [_in_range(indices[..., at], x.shape[batch_axes + at]) for at in range(depth)]
    return np.asarray(x[tuple(positions)])


def gather_elements(x: Numbers, indices: Numbers, axis: int) -> Numbers:
    """The elements of x at these indices along an axis, and at the position of the index along the others."""
    return np.asarray(x[element_positions(x.shape, indices, axis)])


def element_positions(dims: Sequence[int], indices: Numbers, axis: int) -> tuple[Numbers, ...]:
    """Where the elements are that GatherElements reads, and ScatterElements writes: an index for each axis."""
    if indices.ndim != len(dims) or any(n > dims[at] for at, n in enumerate(indices.shape) if at != axis % len(dims)):
        raise ValueError(f"indices of {indices.shape} do not fit {tuple(dims)}")
    positions = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    positions[axis] = _in_range(indices, dims[axis])
    return tuple(positions)


@folds("GatherND")
def _gather_nd(folding: Folding) -> Numbers:
    x = folding[0]
    indices = folding.indices(1)
    batch_axes = folding.attribute("batch_dims", 0)
    folding.budget.check(indices.shape[:-1] + x.shape[batch_axes + indices.shape[-1] :])
    return gather_nd(x, indices, batch_axes)


@folds("GatherElements")
def _gather_elements(folding: Folding) -> Numbers:
    return gather_elements(folding[0], folding.indices(1), folding.attribute("axis", 0))


@folds("ScatterElements", "Scatter")
def _scatter_elements(folding: Folding) -> Numbers:
    x = folding[0]
    indices = folding.indices(1)
    return _scattered(folding, element_positions(x.shape, indices, folding.attribute("axis", 0)))


@folds("ScatterND")
def _scatter_nd(folding: Folding) -> Numbers:
    x = folding[0]
    indices = folding.indices(1)
    if not 1 <= indices.shape[-1] <= x.ndim:
        raise ValueError(f"indices of {indices.shape} do not fit {x.shape}")
    return _scattered(folding, tuple(_in_range(indices[..., at], x.shape[at]) for at in range(indices.shape[-1])))


def _scattered(folding: Folding, positions: tuple[Numbers, ...]) -> Numbers:
    result = folding[0].copy()
    updates = folding[2]
    kind = folding.attribute("reduction", b"none")
    if updates.shape != result[positions].shape:
        raise ValueError(f"updates of {updates.shape} do not fit the indices")
    if kind == b"none":
        result[positions] = updates
    else:
        SCATTERINGS[kind].at(result, positions, updates)
    return result


@folds("NonZero")
def _non_zero(folding: Folding) -> Numbers:
    return np.array(np.nonzero(np.atleast_1d(folding[0])), np.int64)


@folds("OneHot")
def _one_hot(folding: Folding) -> Numbers:
    indices = folding[0]
    depth = int(folding[1].reshape(-1)[0])
    (off, on) = folding[2]
    folding.budget.check([*indices.shape, depth])
    axis = folding.attribute("axis", -1)
    positions = np.expand_dims(np.where(indices < 0, indices + depth, indices), axis)
    numbers = np.arange(depth).reshape((depth,) + (1,) * ((-1 - axis) if axis < 0 else indices.ndim - axis))
    return np.asarray(np.where(positions == numbers, on, off))


@folds("Trilu")
def _triangle(folding: Folding) -> Numbers:
    diagonal = 0 if folding.get(1) is None else int(folding.indices(1).reshape(-1)[0])
    return np.asarray((np.triu if folding.attribute("upper", 1) else np.tril)(folding[0], diagonal))


@folds("EyeLike")
def _eye(folding: Folding) -> Numbers:
    rows, columns = folding[0].shape
    type = TYPES[folding.attribute("dtype")] if folding.attribute("dtype") else folding[0].dtype
    return np.eye(rows, columns, folding.attribute("k", 0), type)


@folds("CumSum", "CumProd")
def _accumulated(folding: Folding) -> Numbers:
    axis = int(folding.indices(1).reshape(-1)[0])
    x = np.flip(folding[0], axis) if folding.attribute("reverse", 0) else folding[0]
    is_sum = folding.node.type == "CumSum"
    result = (np.cumsum if is_sum else np.cumprod)(x, axis, dtype=x.dtype)
    if folding.attribute("exclusive", 0):
        result = np.roll(result, 1, axis)
        np.moveaxis(result, axis, 0)[:1] = 0 if is_sum else 1
    return np.asarray(np.flip(result, axis) if folding.attribute("reverse", 0) else result)


@folds("ArgMax", "ArgMin")
def _arg_max(folding: Folding) -> Numbers:
    x = folding[0]
    axis = folding.attribute("axis", 0)
    find: Callable[..., Numbers] = np.argmax if folding.node.type == "ArgMax" else np.argmin
    last = folding.attribute("select_last_index", 0)
    indices = np.asarray(x.shape[axis] - 1 - find(np.flip(x, axis), axis) if last else find(x, axis), np.int64)
    return np.expand_dims(indices, axis) if folding.attribute("keepdims", 1) else indices


@folds("TopK")
def _top(folding: Folding) -> list[Numbers]:
    x = folding[0]
    (count,) = folding.integers("k", 1) or [0]
    axis = folding.attribute("axis", -1)
    if not 0 <= count <= x.shape[axis]:
        raise ValueError(f"{count} of {x.shape[axis]} elements")
    keys = np.flip(x, axis) if folding.attribute("largest", 1) else x
    order = np.argsort(keys, axis, kind="stable")
    if folding.attribute("largest", 1):  # from the end: of equals, the first comes first
        order = x.shape[axis] - 1 - np.flip(order, axis)
    indices = np.take(order, range(count), axis)
    return [np.take_along_axis(x, indices, axis), indices.astype(np.int64)]


@folds("Pad")
def _padded(folding: Folding) -> Numbers:
    x = folding[0]
    pads = folding.integers("pads", 1)
    axes = folding.integers("axes", 3)
    listed = range(x.ndim) if axes is None else axes
    if pads is None or len(pads) != 2 * len(listed):
        raise ValueError("the pads do not fit the axes")
    sides = [(0, 0)] * x.ndim
    keys = [slice(None)] * x.ndim
    for axis, before, after in zip(listed, pads[: len(listed)], pads[len(listed) :], strict=True):
        sides[axis] = max(before, 0), max(after, 0)
        keys[axis] = slice(max(-before, 0), x.shape[axis] + min(after, 0))
    folding.budget.check([n + sum(both) for n, both in zip(x.shape, sides, strict=True)])
    mode = MODES[folding.attribute("mode", b"constant")]
    value = folding.attribute("value", 0) if folding.get(2) is None else folding[2].reshape(-1)[0]
    options: dict[str, Any] = {"constant_values": value} if mode == "constant" else {}
    return np.asarray(np.pad(x[tuple(keys)], sides, mode, **options))
