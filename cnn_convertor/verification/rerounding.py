"""Rounds to FP16 stochastically, which shows how far apart two right runs of a network are without its framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.encode.half import to_half
from cnn_convertor.devices.dv700.program import ElementType, Layer, Program, Run, StoredArray
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Relu

_FEW: Final = 8  # numbers whose chances do not make up for each other


def rerounded(values: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """FP16 numbers that are as far from those of the device, on average, as these are from the values.

    A number is replaced by its neighbor on the other side of the value with the probability that gives the difference the
    power of the rounding error, and always where chance would decide too much. Values that FP16 holds stay.
    """
    nearest = to_half(values)
    half = nearest.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = values - half
        bits = nearest.view(np.int16)
        away = (np.abs(values) > np.abs(half)) * 2 - 1  # sign and magnitude: one more is farther from 0
        other = (bits + away.astype(np.int16)).view(np.float16).astype(np.float32)
        flips = np.random.default_rng(seed).random(values.shape) < np.square(error / (other - half))
    flips |= (values.size < _FEW) & np.isfinite(error)
    return np.where(flips & np.isfinite(other) & (error != 0), other, half)


def with_rerounded_weights(program: Program, draw: int = 0) -> Program:
    """A program with FP16 weights; they and the numbers in registers are rounded stochastically. draw: the number of a trial."""
    count = draw << 24

    def new(layer: Layer) -> Layer:
        return replace(layer, runs=tuple(map(of_run, layer.runs)), constants=tuple(map(of_array, layer.constants)))

    def of_run(run: Run) -> Run:
        if run.pooling is not None:
            run = replace(run, pooling=replace(run.pooling, factor=number(run.pooling.factor)))
        if isinstance(run.activation, Relu):
            run = replace(run, activation=Relu(number(run.activation.slope)))
        if run.convolution is None:
            return run
        weights = run.convolution.weights
        bias, slopes = (values and constant(values) for values in (weights.bias, weights.slopes))
        assert weights.kernels is not None
        changed = replace(weights, kernels=constant(weights.kernels), bias=bias, slopes=slopes)
        return replace(run, convolution=replace(run.convolution, weights=changed))

    def of_array(array: StoredArray) -> StoredArray:
        return replace(array, values=constant(array.values)) if array.type is ElementType.HALF else array

    def number(value: float) -> float:
        return float(rerounded(np.array([value], np.float32), 0)[0])

    def constant(values: Constant) -> Constant:
        nonlocal count
        count += 1
        seed = count
        return values.map_rows_with(lambda w, rows: rerounded(w, seed << 24 | rows.start))

    return replace(program, layers=tuple(map(new, program.layers)))


def rerounded_maps(maps: Mapping[str, Maps], draw: int = 0) -> dict[str, Maps]:
    return {name: rerounded(values, draw << 24 | number) for number, (name, values) in enumerate(maps.items())}
