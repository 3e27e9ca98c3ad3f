"""The packed weights of a program as streams of arrays, and arrays from such streams."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.runs import Program, Weights
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.devices.dv700.weights.streams import PackedShape, unpack
from cnn_convertor.devices.target import PackedStream
from cnn_convertor.ir.ops import Pair
from cnn_convertor.layouts.packing import Bytes

LAYOUT = "dv700_weights"  # the name of a stream's layout, which the algebra cannot express


def streams_of(program: Program) -> Iterator[tuple[PackedStream, Iterator[Bytes]]]:
    """As `Accelerator.streams`."""
    encoded = encode_all(program.weights, transposed=program.transposed)
    for index, weights in enumerate(program.weights):
        is_last = index == len(program.weights) - 1
        yield _described(index, weights, program.transposed), _taken(encoded, weights.nbytes, rest=is_last)


def _described(index: int, weights: Weights, transposed: bool) -> PackedStream:
    packed, where = weights.packed, weights.where
    arrays: dict[str, tuple[int, ...]] = {
        "weights": (packed.kernels, packed.channels, *packed.kernel),
        "bias": (packed.kernels,),
    }
    if packed.prelu:
        arrays["slopes"] = (packed.kernels,)
    form = {
        "kernels": packed.kernels,
        "channels": packed.channels,
        "kernel": list(packed.kernel),
        "dilated": packed.dilated,
        "palette": packed.palette,
        "slopes": packed.prelu,
        "transposed": transposed,  # kernels have x and y swapped
    }
    layer, type = (f"convolution {index}", "") if where is None else (where.layer, where.type)
    return PackedStream(layer, type, LAYOUT, weights.offset, weights.nbytes, arrays, form)


def _taken(encoded: Iterator[Bytes], nbytes: int, *, rest: bool) -> Iterator[Bytes]:
    """The next pieces, `nbytes` in total. rest: also all that follow."""
    while nbytes > 0 or rest:
        piece = next(encoded, None)
        if piece is None:
            return
        nbytes -= piece.size
        yield piece


def array_of(form: Mapping[str, Any], stream: Bytes, name: str) -> NDArray[np.float16]:
    """An array of a stream. Raises KeyError, TypeError or ValueError for an invalid form."""
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
    array = {"weights": unpacked.kernels, "bias": unpacked.bias, "slopes": unpacked.slopes}.get(name)
    if array is None:
        raise ValueError(f"the stream has no {name}")
    return array
