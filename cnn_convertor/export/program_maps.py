"""The maps of a program as surfaces, at its offsets."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.program import ElementType, Program
from cnn_convertor.emulation.feature_maps import layout_of
from cnn_convertor.export.parts import Role
from cnn_convertor.export.surface import Surface
from cnn_convertor.ir.constant import Constant

_NUMPY_TYPES = {ElementType.BYTE: np.uint8, ElementType.HALF: np.float16, ElementType.FLOAT: np.float32}


def maps_of(program: Program, arrays: Mapping[str, NDArray[np.float32]]) -> Iterator[tuple[Surface, int]]:
    """Inputs and outputs with their offsets in the I/O buffer. arrays: input or output name -> (H, W, C)."""
    for name, tensor in program.inputs:
        values = _known(arrays, name)
        yield (
            Surface(
                name, name, "Input", "Input", Role.INPUT, tensor.layout.of(np.float16), tuple(tensor.shape), values
            ),
            tensor.offset,
        )
    for index, (name, tensor) in zip(program.outputs, program.results, strict=True):
        layer = program.layers[index]
        layout = layout_of(layer).of(_NUMPY_TYPES[tensor.type])
        where = layer.origins[-1] if layer.origins else None
        shown, type_ = (name, "") if where is None else (where.layer, where.type)
        shape = tuple(tensor.shape)
        values = _known(arrays, name)
        yield Surface(name, shown, type_, layer.type.value, Role.OUTPUT, layout, shape, values, where), tensor.offset


def _known(arrays: Mapping[str, NDArray[np.float32]], name: str) -> Constant | None:
    return Constant.of(arrays[name]) if name in arrays else None
