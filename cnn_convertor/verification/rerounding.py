"""Rounds to FP16 stochastically, which shows how far apart two right runs of a network are without its framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.encode.half import to_half
from cnn_convertor.devices.dv700.program import Program, Run, Weights
from cnn_convertor.emulation.execution import Maps
from cnn_convertor.ir.constant import Constant

_FEW: Final = 8  # numbers whose chances do not make up for each other


def rerounded(values: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """FP16 numbers that are as far from those of the device, on average, as these are from the values.

    A number is replaced by its neighbor on the other side of the value with the probability that gives the difference the
    power of the rounding error, and always where chance would decide too much. Values that FP16 holds stay.
    """
    half = to_half(values).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = values - half
        bits = to_half(values).view(np.int16)
        away = (np.abs(values) > np.abs(half)) * 2 - 1  # sign and magnitude: one more is farther from 0
        other = (bits + away.astype(np.int16)).view(np.float16).astype(np.float32)
        flips = np.random.default_rng(seed).random(values.shape) < np.square(error / (other - half))
    flips |= (values.size < _FEW) & np.isfinite(error)
    return np.where(flips & np.isfinite(other) & (error != 0), other, half)


def with_rerounded_weights(program: Program) -> Program:
    """A program with FP16 weights, whose weights are rounded stochastically."""
    count = 0

    def new(run: Run) -> Run:
        nonlocal count
        if run.convolution is None:
            return run
        count += 1
        return replace(run, convolution=replace(run.convolution, weights=_rerounded(run.convolution.weights, count)))

    layers = tuple(replace(layer, runs=tuple(map(new, layer.runs))) for layer in program.layers)
    return replace(program, layers=layers)


def _rerounded(weights: Weights, seed: int) -> Weights:
    def constant(values: Constant | None, part: int) -> Constant | None:
        if values is None:
            return None
        return values.map_rows_with(lambda w, rows: rerounded(w, (seed * 4 + part) << 24 | rows.start))

    kernels = constant(weights.kernels, 0)
    assert kernels is not None
    return replace(weights, kernels=kernels, bias=constant(weights.bias, 1), slopes=constant(weights.slopes, 2))


def rerounded_maps(maps: Mapping[str, Maps]) -> dict[str, Maps]:
    return {name: rerounded(values, number) for number, (name, values) in enumerate(maps.items())}
