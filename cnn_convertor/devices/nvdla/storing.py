"""The weight buffer of a program, in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.half import nearest
from cnn_convertor.devices.half_check import encoded
from cnn_convertor.devices.nvdla import weight_packing
from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.network_program import NvdlaLayer, NvdlaProgram
from cnn_convertor.devices.nvdla.weight_packing import StoredArrays, StoredKernels
from cnn_convertor.devices.program import ElementType, StoredArray
from cnn_convertor.devices.target import Observer, PackedStream
from cnn_convertor.ir.constant import Constant
from cnn_convertor.layouts.packing import Bytes


def packed(
    program: NvdlaProgram, configuration: Configuration, observe: Observer | None = None
) -> Iterator[NDArray[np.uint8]]:
    """The weight buffer. observe: is given the kernels as they are read. Raises UnsupportedError for what FP16 does not hold."""
    stored = {array: stream for stream in program.weights for array in stream.arrays}

    def observe_stream(array: StoredKernels, values: NDArray[np.float32]) -> None:
        if observe is not None:
            observe(stored[array], values)

    written = 0
    for piece in weight_packing.packed([*stored], configuration, unrounded=program.unrounded, observe=observe_stream):
        written += piece.size
        yield piece
    for array in program.arrays:
        start = program.arrays_offset + array.offset
        yield np.zeros(start - written, np.uint8)
        yield encoded(array)
        written = start + array.nbytes
    yield np.zeros(program.weight_bytes - written, np.uint8)


def rounded_by_numpy(program: NvdlaProgram) -> NvdlaProgram:
    """The program with the FP16 numbers nearest to what it stores: they need no more rounding."""

    def of_layer(layer: NvdlaLayer) -> NvdlaLayer:
        runs = []
        for run in layer.runs:
            stored = run.stored
            if stored is not None:
                stored = replace(stored, arrays=tuple(map(_rounded, stored.arrays)))
            runs.append(run._replace(stored=stored))
        return replace(layer, runs=tuple(runs), constants=tuple(map(_rounded_array, layer.constants)))

    return replace(program, layers=tuple(map(of_layer, program.layers)))


def _rounded(array: StoredArrays) -> StoredArrays:
    if isinstance(array, StoredKernels):
        return replace(array, weight=_nearest(array.weight))
    return replace(array, arrays=tuple((what, _nearest(values)) for what, values in array.arrays))


def _nearest(constant: Constant) -> Constant:
    return constant.map_rows(nearest)


def _rounded_array(array: StoredArray) -> StoredArray:
    return replace(array, values=_nearest(array.values)) if array.type is ElementType.HALF else array


def streams_of(program: NvdlaProgram, configuration: Configuration) -> Iterator[tuple[PackedStream, Iterator[Bytes]]]:
    """Each array of the weight buffer and its bytes."""
    for stream in program.weights:
        for array in stream.arrays:
            constants = [("weights", array.weight)] if isinstance(array, StoredKernels) else array.arrays
            shapes = {name: constant.shape for name, constant in constants}
            kind = "weights" if isinstance(array, StoredKernels) else "operands"
            nbytes = array.nbytes(configuration)
            layout = f"nvdla_{kind}_fp16"
            yield (
                PackedStream(stream.layer, kind, layout, array.offset, nbytes, shapes, {}),
                weight_packing.packed([replace(array, offset=0)], configuration),
            )
