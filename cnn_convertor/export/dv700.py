"""The DV700's own memory as surfaces: the streams of packed weights, and maps where the program puts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.program import ElementType, Program, Weights
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.devices.dv700.weights.packing import PackedShape, unpack
from cnn_convertor.emulation.run import is_plain
from cnn_convertor.export.parts import Role
from cnn_convertor.export.surface import Surface
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Pair
from cnn_convertor.layouts.dv700 import feature_map
from cnn_convertor.layouts.packing import Bytes
from cnn_convertor.layouts.text import parse

STREAM = "dv700_weights"  # the layout of a stream, which is no layout of the algebra


@dataclass(frozen=True, slots=True)
class Stream:
    """The packed weights of one convolution. transposed: x and y of kernels are swapped."""

    layer: str
    type: str
    weights: Weights
    transposed: bool

    @property
    def parts(self) -> dict[Role, tuple[int, ...]]:
        """What it holds, and the shape of that."""
        packed = self.weights.packed
        shapes: dict[Role, tuple[int, ...]] = {
            Role.WEIGHTS: (packed.kernels, packed.channels, *packed.kernel),
            Role.BIAS: (packed.kernels,),
        }
        return shapes | ({Role.SLOPES: (packed.kernels,)} if packed.prelu else {})

    @property
    def form(self) -> dict[str, Any]:
        """How it is packed, as the manifest tells it."""
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


def streams(program: Program) -> tuple[tuple[Stream, Iterator[Bytes]], ...]:
    """Every stream, and its bytes; these must be asked for in order, since all are encoded in one go.

    What is raised, or warned of, for any of them comes with the last.
    """
    encoded = encode_all(program.weights, transposed=program.transposed)
    found = []
    for index, weights in enumerate(program.weights):
        layer, type_ = (
            (f"convolution {index}", "") if weights.where is None else (weights.where.layer, weights.where.type)
        )
        is_last = index == len(program.weights) - 1
        found.append((Stream(layer, type_, weights, program.transposed), _taken(encoded, weights.nbytes, rest=is_last)))
    return tuple(found)


def _taken(encoded: Iterator[Bytes], nbytes: int, *, rest: bool) -> Iterator[Bytes]:
    """Pieces of so many bytes together. rest: and what comes then."""
    while nbytes > 0 or rest:
        piece = next(encoded, None)
        if piece is None:
            return
        nbytes -= piece.size
        yield piece


def maps(program: Program, given: Mapping[str, NDArray[np.float32]]) -> Iterator[tuple[Surface, int]]:
    """Inputs and outputs, and their offsets in the I/O buffer. given: input or output name -> (H, W, C)."""
    device = feature_map(transposed=program.transposed)
    for name, tensor in program.inputs:
        values = _known(given, name)
        yield Surface(name, name, "Input", "Input", Role.INPUT, device, tuple(tensor.shape), values), tensor.offset
    for index, (name, tensor) in zip(program.outputs, program.results, strict=True):
        layer = program.layers[index]
        layout = parse("hwc: h w c") if is_plain(layer) else device
        layout = layout.of(np.float16 if tensor.type is ElementType.HALF else np.float32)
        layout = replace(layout, name="HWC" if is_plain(layer) else device.name)
        where = layer.origins[-1] if layer.origins else None
        shown, type_ = (name, "") if where is None else (where.layer, where.type)
        shape, values = tuple(tensor.shape), _known(given, name)
        yield Surface(name, shown, type_, layer.type.value, Role.OUTPUT, layout, shape, values, where), tensor.offset


def _known(given: Mapping[str, NDArray[np.float32]], name: str) -> Constant | None:
    return Constant.of(given[name]) if name in given else None


def part_of(form: Mapping[str, Any], stream: Bytes, role: Role) -> NDArray[np.float16]:
    """What a stream holds for a role. Raises KeyError, TypeError or ValueError for a form that is none."""
    height, width = map(int, form["kernel"])
    packed = PackedShape(
        kernels=int(form["kernels"]),
        channels=int(form["channels"]),
        kernel=Pair(height, width),
        dilated=bool(form["dilated"]),
        palette=bool(form["palette"]),
        prelu=bool(form["slopes"]),
    )
    if (
        min(packed.kernels, packed.channels, *packed.kernel) < 1
        or max(packed.kernel) > 7
        or stream.size != packed.nbytes
    ):
        raise ValueError("the stream is not of that form")
    made = unpack(packed, stream, transposed=bool(form["transposed"]))
    match role:
        case Role.WEIGHTS:
            return made.kernels
        case Role.BIAS:
            return made.bias
        case Role.SLOPES if made.slopes is not None:
            return made.slopes
        case _:
            raise ValueError(f"a stream holds no {role.value}")
