"""What rounding to FP16 takes from the numbers that a program stores, so that it can run without any rounding."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.byte_input import without_byte_input
from cnn_convertor.devices.dv700.runs import Layer, Program, Run
from cnn_convertor.devices.dv700.weights.palettes import without_palettes
from cnn_convertor.devices.half import nearest
from cnn_convertor.devices.program import ElementType, StoredArray
from cnn_convertor.devices.target import Load
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import ConvertorWarning
from cnn_convertor.ir.constant import Constant

_UNIT = np.float32(2**12)  # makes residuals as large as the weights, so that FP16 holds 11 more bits of them

Weights = NDArray[np.float32]


def rounded_by_numpy(program: Program) -> Program:
    """A program with FP16 weights whose numbers need no more rounding."""
    return _with_constants(program, nearest)


def unrounded(load: Load, program: Program) -> EmulatedNetwork:
    """A network without palettes that rounds nothing to FP16: neither its inputs and weights, nor its maps."""
    program = without_byte_input(without_palettes(program))
    residuals = _with_constants(program, lambda values: (values - nearest(values)) * _UNIT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvertorWarning)  # of small weights, which the network itself has given
        return load(program, residuals)


def _with_constants(program: Program, change: Callable[[Weights], Weights]) -> Program:
    """The program with other numbers in its weight buffer, where these are FP16."""

    def of_layer(layer: Layer) -> Layer:
        return replace(layer, runs=tuple(map(of_run, layer.runs)), constants=tuple(map(of_array, layer.constants)))

    def of_run(run: Run) -> Run:
        if run.convolution is None:
            return run
        weights = run.convolution.weights
        changed = replace(
            weights,
            kernels=weights.kernels.map_rows(change),
            bias=of_vector(weights.bias),
            slopes=of_vector(weights.slopes),
        )
        return replace(run, convolution=replace(run.convolution, weights=changed))

    def of_vector(values: Constant | None) -> Constant | None:
        return None if values is None else values.map_rows(change)

    def of_array(array: StoredArray) -> StoredArray:
        if array.type is not ElementType.HALF:
            return array
        return replace(array, values=array.values.map_rows(change))

    return replace(program, layers=tuple(map(of_layer, program.layers)))
