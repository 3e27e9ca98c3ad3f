"""Kernels and inputs of a layer in the form that rounding works on: groups of columns and rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.fitting.layer_inputs import Kept

Real: TypeAlias = NDArray[np.float64]
Single: TypeAlias = NDArray[np.float32]
Values = TypeVar("Values", NDArray[np.float32], NDArray[np.float64])

_COLUMNS = 1152  # of a Hessian: a kernel with more inputs has several, as if those of different ones were independent
_AT_A_TIME = 1 << 20  # inputs in FP64
_LEAST = 1e-4  # of the mean: what an error of a row counts at least, since samples are few


class Grouping(NamedTuple):
    """The kernels (M, C, ky, kx) of a layer as rows of groups, and back."""

    shape: tuple[int, ...]
    is_depthwise: bool

    @property
    def size(self) -> int:
        """Of a kernel."""
        return math.prod(self.shape[1:])

    @property
    def groups(self) -> tuple[int, int]:
        """The number of groups and of columns. Those of a kernel with many inputs are filled up with zeros."""
        if self.is_depthwise:
            return self.shape[0], self.size
        count = -(-self.size // _COLUMNS)
        return count, -(-self.size // count)

    def columns(self, kernels: NDArray[np.floating]) -> Real:
        """(groups, columns, rows)"""
        rows = kernels.reshape(self.shape[0], -1).astype(np.float64)
        if self.is_depthwise:
            return rows[:, :, np.newaxis]
        return self._filled(rows).reshape(self.shape[0], *self.groups).transpose(1, 2, 0).copy()

    def kernels(self, columns: Real) -> Real:
        """The inverse of `columns`."""
        rows = columns.transpose(2, 0, 1).reshape(1 if self.is_depthwise else self.shape[0], -1)
        kernels: Real = rows[:, : self.shape[0] * self.size if self.is_depthwise else self.size].reshape(self.shape)
        return kernels

    def inputs(self, values: Single) -> Single:
        """Inputs (positions, C, ky * kx) as (groups, positions, columns)."""
        if self.is_depthwise:
            return np.ascontiguousarray(values.swapaxes(0, 1))
        rows = self._filled(values.reshape(len(values), -1))
        return np.ascontiguousarray(rows.reshape(len(values), *self.groups).swapaxes(0, 1))

    def means(self, kernels: Real, inputs: Real) -> Real:
        """The means of what kernels make of inputs with these means, (..., C, ky * kx): (..., M)."""
        rows = kernels.reshape(self.shape[0], -1)
        if self.is_depthwise:
            return np.asarray(np.einsum("...mk,mk->...m", inputs, rows))
        return np.asarray(inputs.reshape(*inputs.shape[:-2], -1) @ rows.T)

    def _filled(self, rows: Values) -> Values:
        if self.size == math.prod(self.groups):
            return rows
        return np.pad(rows, ((0, 0), (0, math.prod(self.groups) - self.size)))


class GroupedInputs(NamedTuple):
    """What a layer reads, less its mean, and what its errors count there.

    columns: (groups, positions of all samples, columns). counts: of the square of an error of each row, (groups or 1, positions, rows),
    1 in the mean. unit: the share of the outputs' power that an error of 1 at all positions of a sample becomes.
    """

    columns: Single
    counts: Single
    unit: float

    @classmethod
    def of(cls, grouping: Grouping, inputs: Kept, middle: Real) -> GroupedInputs:
        values = inputs.kept.reshape(-1, *inputs.kept.shape[2:]).astype(np.float32)
        values -= middle.astype(np.float32)
        counts = inputs.counts.reshape(len(values), -1)
        counts = counts.T[:, :, np.newaxis] if grouping.is_depthwise else counts[np.newaxis]
        mean = float(counts.mean(dtype=np.float64))
        is_known = mean >= np.finfo(np.float32).tiny and math.isfinite(mean)
        unit = mean * inputs.kept.shape[1] if is_known else 0.0
        return cls(grouping.inputs(values), counts / np.float32(mean) if is_known else np.ones_like(counts), unit)

    @property
    def positions(self) -> int:
        positions: int = self.columns.shape[1]
        return positions

    def some(self) -> Iterator[tuple[Real, Real]]:
        """Columns and counts in FP64, of some positions at a time."""
        step = max(1, _AT_A_TIME * self.positions // self.columns.size)
        for start in range(0, self.positions, step):
            positions = slice(start, start + step)
            yield self.columns[:, positions].astype(np.float64), self.counts[:, positions].astype(np.float64)

    @property
    def hessians(self) -> Real:
        """(groups, columns, columns), rounded to FP32 so that they do not depend on the order of the sums."""
        groups, _, columns = self.columns.shape
        hessians = np.zeros((groups, columns, columns))
        for values, counts in self.some():
            hessians += (values * counts.mean(axis=2, keepdims=True)).swapaxes(1, 2) @ values
        return (hessians / self.positions).astype(np.float32).astype(np.float64)

    @property
    def rows(self) -> Real:
        """What an error of each row counts where the inputs are large, (1, 1, R), 1 in the mean. Depthwise: the Hessians have it."""
        if len(self.counts) > 1 or self.counts.shape[2] == 1:
            return np.ones((1, 1, 1))
        powers = np.zeros(self.counts.shape[2])
        for values, counts in self.some():
            powers += np.square(values).sum(axis=(0, 2)) @ counts[0]
        mean = float(powers.mean())
        counted: Real = np.maximum(powers / mean, _LEAST) if mean > 0 else np.ones_like(powers)
        return counted.astype(np.float32).astype(np.float64)[np.newaxis, np.newaxis]

    def power(self, weights: Real) -> float:
        """Of what kernels (groups, columns, rows) make of the inputs: the mean over all positions."""
        power = 0.0
        for values, counts in self.some():
            outputs = values @ weights
            if len(counts) == 1:
                outputs = outputs.sum(axis=0, keepdims=True)
            power += float((np.square(outputs) * counts).sum())
        return power / self.positions
