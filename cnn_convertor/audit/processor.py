"""Reads the functions of NAME_cpu.h, and checks that they work on the feature maps that their layers name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from cnn_convertor.audit.network import Layer, Map, Network
from cnn_convertor.errors import Problem

_FUNCTION = re.compile(r"^inline void Layer_(\d+)\(.*?^\}", re.MULTILINE | re.DOTALL)
_TENSOR = re.compile(r"const Tensor (\w+)\(io, (\d+), (\d+), (\d+), (\d+), (\w+)\);")
_HINT = "convert the network again, and do not edit what was generated"


class Tensor(NamedTuple):
    """A map as a function sees it. element: bytes."""

    name: str
    offset: int
    map: Map
    element: int

    @property
    def nbytes(self) -> int:
        return self.map.elements * self.element


def read_functions(source: Path) -> dict[int, list[Tensor]]:
    """Layer -> the maps that its function reads, and last the one that it writes; none without a header."""
    header = source.with_name(source.name.replace("_gen.cpp", "_cpu.h"))
    if header == source or not header.is_file():
        return {}
    functions = _FUNCTION.finditer(header.read_text(encoding="utf-8"))
    return {int(found[1]): [_tensor(*row) for row in _TENSOR.findall(found[0])] for found in functions}


def check_processor(network: Network, functions: Mapping[int, list[Tensor]]) -> Iterator[Problem]:
    """Findings in the functions of the header beside a source."""
    for index, tensors in functions.items():
        if index >= len(network.layers) or network.layers[index].type != "LT_CUSTOM":
            hint = "the header belongs to another source: convert the network again"
            yield network.problem("DV666", f"{network.name}_cpu.h: layer {index} is no LT_CUSTOM", hint)
            continue
        yield from _function(network, network.layers[index], tensors)


def _tensor(name: str, offset: str, height: str, width: str, channels: str, format: str) -> Tensor:
    return Tensor(name, int(offset), Map(int(width), int(height), int(channels)), 2 if format == "kHalf" else 4)


def _function(network: Network, layer: Layer, tensors: list[Tensor]) -> Iterator[Problem]:
    """What one function reads and writes, beside what the layer says of it."""
    *inputs, output = tensors
    told = (layer.output_offs, layer.output_map, 4 if layer.is_f32_output else 2)
    if (output.offset, output.map, output.element) != told:
        message = f"Layer_{layer.index} writes {output.map} at {output.offset}, {output.element} bytes an element"
        yield layer.problem("DV666", f"{message}; the layer tells otherwise", _HINT, "output_offs")
    if len(inputs) == 1 and (inputs[0].offset, inputs[0].map) != (layer.input_offs, layer.input_map):
        message = f"Layer_{layer.index} reads {inputs[0].map} at {inputs[0].offset}; the layer tells otherwise"
        yield layer.problem("DV666", message, _HINT, "input_offs")
    for tensor in inputs:
        if tensor.offset + tensor.nbytes > network.io_bytes:
            message = f"Layer_{layer.index} reads {tensor.nbytes} bytes at {tensor.offset}, behind the I/O memory"
            yield layer.problem("DV666", message, _HINT, "input_offs")
        writer = next((w for w in reversed(network.layers[: layer.index]) if w.output_offs == tensor.offset), None)
        if writer is not None and (4 if writer.is_f32_output else 2) != tensor.element:
            message = (
                f'Layer_{layer.index} reads {tensor.element} bytes an element, which "{writer.name}" writes otherwise'
            )
            yield layer.problem("DV666", message, _HINT, "input_offs")
