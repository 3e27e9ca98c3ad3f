"""Reads the functions of NAME_cpu.h, and checks that they work on the feature maps that their layers name."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cnn_convertor.audit.decoding import meanings
from cnn_convertor.audit.source_network import Map, SourceLayer, SourceNetwork, SourceTensor
from cnn_convertor.errors import Problem
from cnn_convertor.files.opening import text_of

_HEAD = re.compile(r"^inline void Layer_(\d{1,9})\(", re.MULTILINE)
_TENSOR = re.compile(r"const (?:Tensor|Bytes) \w+\(io, (\d{1,18}), (\d{1,9}), (\d{1,9}), (\d{1,9}), (\w+)\);")
_ARRAY = re.compile(r"const Tensor \w+\(weights, (\d{1,18}), (\d{1,9}), (\d{1,9}), (\d{1,9}), (\w+)\);")
_BY_ELEMENTS = re.compile(r"^  (?:Unary|Binary|InPieces)\(", re.MULTILINE)
_PACKS = re.compile(r"^  (PackedFactors|PackedMatrices)\(", re.MULTILINE)
_ELEMENTS = {"kHalf": 2, "kBytes": 1}  # bytes of an element, by format; FP32 otherwise


class SourceFunction(NamedTuple):
    """A function of a layer. maps: those that it reads, and last the one that it writes; none of a function in another form.

    arrays: offset and bytes of what it reads of the weight memory. by_elements: it reads each element before it writes it. packs: its name, if
    it packs weights of commands.
    """

    maps: list[SourceTensor]
    arrays: list[tuple[int, int]]
    by_elements: bool = False
    packs: str = ""


def read_functions(source: Path) -> dict[int, SourceFunction]:
    """Layer -> its function in the header beside a source."""
    header = source.with_name(source.name.replace("_gen.cpp", "_cpu.h"))
    if header == source or not header.is_file():
        return {}
    if f'#include "{header.name}"' not in text_of(source, "replace"):
        return {}  # left over from an earlier conversion
    _, *pieces = _HEAD.split(text_of(header, "replace"))
    bodies = ((index, body.partition("\n}")) for index, body in zip(pieces[::2], pieces[1::2], strict=True))
    return {int(index): _function_of(body) for index, (body, end, _) in bodies if end}


def check_processor(network: SourceNetwork, functions: Mapping[int, SourceFunction]) -> Iterator[Problem]:
    """Findings in the functions of the header beside a source."""
    for index, (tensors, *_) in functions.items():
        if index >= len(network.layers) or network.layers[index].type != "LT_CUSTOM":
            yield network.problem("DV666", f"{network.name}_cpu.h: layer {index} is not an LT_CUSTOM")
        elif not tensors:
            yield network.problem(
                "DV666", f"{network.name}_cpu.h: Layer_{index} names its feature maps in another form"
            )
        else:
            yield from _function(network, network.layers[index], tensors)
    packed_by: dict[int, str] = {}  # layer -> the function that packs
    for index, function in functions.items():
        if function.packs:
            packed_by[index] = function.packs
    for layer in network.layers:
        if layer.is_on_device and layer.command is not None:
            yield from _packed_for(layer, network.layers, packed_by)


def _packed_for(layer: SourceLayer, layers: Sequence[SourceLayer], packed_by: Mapping[int, str]) -> Iterator[Problem]:
    """Where a run reads weights that the CPU has packed for another kind of convolution: they can have the same size."""
    assert layer.command is not None
    for meaning in meanings(layer.command):
        if not meaning.has_packed_factors:
            continue
        expected = "PackedMatrices"
        if meaning.is_depthwise:
            expected = "PackedFactors"
        at = meaning.run.weight_offs
        before = reversed(layers[: layer.index])
        writer = next((w for w in before if w.output_offs <= at < w.output_offs + w.output_size), None)
        if writer is not None and packed_by.get(writer.index, expected) != expected:
            name = f"run[{meaning.index}].conv_enable"
            yield layer.problem("DV681", f'{name}: "{writer.name}" packs weights of another kind', name)


def _function_of(function: str) -> SourceFunction:
    rows, arrays = _TENSOR.findall(function), _ARRAY.findall(function)
    if len(rows) + len(arrays) != len(re.findall(r"\b(?:Tensor|Bytes)\b", function)):
        return SourceFunction([], [])
    maps = [
        SourceTensor(int(offset), Map(int(width), int(height), int(channels)), _ELEMENTS.get(format, 4))
        for offset, height, width, channels, format in rows
    ]
    return SourceFunction(
        maps,
        [
            (int(offset), int(height) * int(width) * int(channels) * _ELEMENTS.get(format, 4))
            for offset, height, width, channels, format in arrays
        ],
        _BY_ELEMENTS.search(function) is not None,
        "".join(_PACKS.findall(function)[:1]),
    )


def _function(network: SourceNetwork, layer: SourceLayer, tensors: list[SourceTensor]) -> Iterator[Problem]:
    """Where one function reads and writes other maps than its layer names."""
    *inputs, output = tensors
    if (output.offset, output.map, output.element) != (layer.output_offs, layer.output_map, layer.element):
        message = f"Layer_{layer.index} writes {output.map} at {output.offset}, {output.element} bytes an element"
        yield layer.problem("DV666", f"{message}; the layer names another map", "output_offs")
    if len(inputs) == 1 and (inputs[0].offset, inputs[0].map) != (layer.input_offs, layer.input_map):
        message = f"Layer_{layer.index} reads {inputs[0].map} at {inputs[0].offset}; the layer names another map"
        yield layer.problem("DV666", message, "input_offs")
    for tensor in inputs:
        if tensor.offset + tensor.nbytes > network.io_bytes:
            message = f"Layer_{layer.index} reads {tensor.nbytes} bytes at {tensor.offset}, beyond the I/O memory"
            yield layer.problem("DV666", message, "input_offs")
        before = reversed(network.layers[: layer.index])
        writer = next((w for w in before if w.output_offs <= tensor.offset < w.output_offs + w.output_size), None)
        if writer is not None and writer.element != tensor.element:
            message = f'Layer_{layer.index} reads {tensor.element} bytes an element, "{writer.name}" writes others'
            yield layer.problem("DV666", message, "input_offs")
