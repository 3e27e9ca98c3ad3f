"""The DV700's memory as surfaces: packed weight streams, and maps at the program's offsets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.runs import Program, Weights
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.devices.dv700.weights.streams import PackedShape, unpack
from cnn_convertor.devices.program import ElementType
from cnn_convertor.emulation.feature_maps import layout_of
from cnn_convertor.export.parts import Role
from cnn_convertor.export.surface import Surface
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Pair
from cnn_convertor.layouts.packing import Bytes

_NUMPY_TYPES = {ElementType.BYTE: np.uint8, ElementType.HALF: np.float16, ElementType.FLOAT: np.float32}
STREAM = "dv700_weights"  # the name of a stream's layout, which the algebra cannot express


@dataclass(frozen=True, slots=True)
class PackedStream:
    """The packed weights of one convolution. transposed: kernels have x and y swapped."""

    layer: str
    type: str
    weights: Weights
    transposed: bool

    @property
    def shapes(self) -> dict[Role, tuple[int, ...]]:
        """The arrays in the stream, with their shapes."""
        packed = self.weights.packed
        shapes: dict[Role, tuple[int, ...]] = {
            Role.WEIGHTS: (packed.kernels, packed.channels, *packed.kernel),
            Role.BIAS: (packed.kernels,),
        }
        return shapes | ({Role.SLOPES: (packed.kernels,)} if packed.prelu else {})

    @property
    def form(self) -> dict[str, Any]:
        """The packing parameters for the manifest."""
        packed = self.weights.packed
        return {
            "kernels": packed.kernels,
            "channels": packed.channels,
            "kernel": list(packed.kernel),
            "dilated": packed.dilated,
            "palette": packed.palette,
            "slopes": packed.prelu,
            "transposed": self.transposed,
        }


def streams(program: Program) -> tuple[tuple[PackedStream, Iterator[Bytes]], ...]:
    """Every stream and its bytes, which must be read in order: all are encoded in one pass.

    Errors and warnings for any of them are raised with the last.
    """
    encoded = encode_all(program.weights, transposed=program.transposed)
    results = []
    for index, weights in enumerate(program.weights):
        layer, type_ = (
            (f"convolution {index}", "") if weights.where is None else (weights.where.layer, weights.where.type)
        )
        is_last = index == len(program.weights) - 1
        results.append(
            (PackedStream(layer, type_, weights, program.transposed), _taken(encoded, weights.nbytes, rest=is_last))
        )
    return tuple(results)


def _taken(encoded: Iterator[Bytes], nbytes: int, *, rest: bool) -> Iterator[Bytes]:
    """The next pieces, `nbytes` in total. rest: also all that follow."""
    while nbytes > 0 or rest:
        piece = next(encoded, None)
        if piece is None:
            return
        nbytes -= piece.size
        yield piece


def maps(program: Program, arrays: Mapping[str, NDArray[np.float32]]) -> Iterator[tuple[Surface, int]]:
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
        shape, values = tuple(tensor.shape), _known(arrays, name)
        yield Surface(name, shown, type_, layer.type.value, Role.OUTPUT, layout, shape, values, where), tensor.offset


def _known(arrays: Mapping[str, NDArray[np.float32]], name: str) -> Constant | None:
    return Constant.of(arrays[name]) if name in arrays else None


def part_of(form: Mapping[str, Any], stream: Bytes, role: Role) -> NDArray[np.float16]:
    """The stream's array for a role. Raises KeyError, TypeError or ValueError for an invalid form."""
    height, width = map(int, form["kernel"])
    packed = PackedShape(
        kernels=int(form["kernels"]),
        channels=int(form["channels"]),
        kernel=Pair(height, width),
        dilated=bool(form["dilated"]),
        palette=bool(form["palette"]),
        prelu=bool(form["slopes"]),
    )
    is_valid = min(packed.kernels, packed.channels, *packed.kernel) >= 1 and max(packed.kernel) <= 7
    if not is_valid or stream.size != packed.nbytes:
        raise ValueError("the stream does not have that form")
    unpacked = unpack(packed, stream, transposed=bool(form["transposed"]))
    match role:
        case Role.WEIGHTS:
            return unpacked.kernels
        case Role.BIAS:
            return unpacked.bias
        case Role.SLOPES if unpacked.slopes is not None:
            return unpacked.slopes
        case _:
            raise ValueError(f"the stream has no {role.value}")
