"""Checks that the weights of all runs fill the weight memory in order, and are well formed."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from cnn_convertor.audit.decoding import Meaning, meanings
from cnn_convertor.audit.processor import SourceFunction
from cnn_convertor.audit.source_network import SourceLayer, SourceNetwork
from cnn_convertor.audit.weight_checks import Bytes, Stream, faults, stream_of
from cnn_convertor.errors import Origin, Problem
from cnn_convertor.files.opening import open_file

SMALLEST_BUFFER = 16  # bytes: what a network without weights reserves, since the driver allocates no empty buffer


def check_weights(
    network: SourceNetwork, functions: Mapping[int, SourceFunction], path: Path | None
) -> Iterator[Problem]:
    """functions: of layers on the CPU. path: the file with the weights; None leaves their bytes unchecked."""
    size = None
    if path is not None:
        try:
            size = path.stat().st_size
        except OSError as error:
            message = f"cannot read the weights: {error.strerror or error}"
            yield Problem("DV680", message, Origin(path.name), "check the path")
    if size is not None and path is not None and size != network.weight_bytes:
        yield network.problem("DV680", f"{path.name} has {size} bytes, the source reserves {network.weight_bytes}")
    end = 0
    for layer, meaning, stream in streams(network):
        offset = meaning.run.weight_offs
        name = f"run[{meaning.index}].weight_buf.offs"
        yield from _place(layer, meaning, offset, name)
        if meaning.has_packed_factors:
            continue  # flow.py follows what lies there
        if offset != end:
            what = "overlap those before them" if offset < end else "leave a gap"
            yield layer.problem("DV682", f"{name}: weights at {offset} {what}: the next free byte is {end}", name)
        end = offset + stream.nbytes
        if end > network.weight_bytes:
            message = f"{name}: {stream.nbytes} bytes at {offset} exceed the {network.weight_bytes} bytes of weights"
            yield layer.problem("DV682", message, name)
        elif size is not None and path is not None and end <= size:
            with open_file(path) as file:
                data = np.fromfile(file, np.uint8, stream.nbytes, offset=offset)
            if data.size < stream.nbytes:  # a file that shrinks
                yield layer.problem("DV680", f"{name}: {path.name} has no {stream.nbytes} bytes at {offset}", name)
            else:
                yield from _bytes(layer, meaning, stream, data, path)
    for index, function in functions.items():
        for offset, nbytes in function.arrays:
            start = -(-end // 16) * 16
            end = offset + nbytes
            if offset != start:
                message = f"Layer_{index} reads weights at {offset}, where {start} is the next free multiple of 16"
                yield network.problem("DV682", f"{network.name}_cpu.h: {message}")
            elif end > network.weight_bytes:
                message = f"Layer_{index} reads {nbytes} bytes at {offset}, beyond the {network.weight_bytes} bytes of weights"
                yield network.problem("DV682", f"{network.name}_cpu.h: {message}")
    if max(end, SMALLEST_BUFFER) < network.weight_bytes:
        message = f"the layers use {end} bytes of weights, the source reserves {network.weight_bytes}"
        yield network.problem("DV682", message)


def streams(network: SourceNetwork) -> Iterator[tuple[SourceLayer, Meaning, Stream]]:
    for layer in network.layers:
        if layer.is_on_device and layer.command is not None:
            for meaning in meanings(layer.command):
                stream = stream_of(meaning, transposed=layer.command.is_transposed)
                if stream is not None:
                    yield layer, meaning, stream


def _place(layer: SourceLayer, meaning: Meaning, offset: int, name: str) -> Iterator[Problem]:
    if offset % 16:
        yield layer.problem("DV681", f"{name}: {offset} is not a multiple of 16", name)
    if meaning.run.weight_mem != "weights_mem_" and not meaning.has_packed_factors:
        name = f"run[{meaning.index}].weight_buf.mem"
        yield layer.problem("DV681", f"{name}: {meaning.run.weight_mem or 'nothing'} is not the weight memory", name)


def _bytes(layer: SourceLayer, meaning: Meaning, stream: Stream, data: Bytes, path: Path) -> Iterator[Problem]:
    for code, byte, message in faults(stream, data):
        where = f"byte {meaning.run.weight_offs + byte} of {path.name}"
        yield layer.problem(code, f"{where}: {message}", f"run[{meaning.index}].weight_buf.offs")
