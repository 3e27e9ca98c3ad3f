"""Renders a program, in which every value is final, as C++ without an operating system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from cnn_convertor.codegen.cpp import c_string, class_name, literal
from cnn_convertor.codegen.description import description, map_view, output_constants, shape_text
from cnn_convertor.codegen.drawing import drawing
from cnn_convertor.codegen.kernels import bundle, kernel_view
from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.codegen.text_templates import made_by, render_template
from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.firmware.descriptors import Engine
from cnn_convertor.devices.nvdla.network_program import NvdlaLayer, NvdlaProgram
from cnn_convertor.devices.nvdla.placement import ALIGNMENT
from cnn_convertor.devices.nvdla.register_table import registers
from cnn_convertor.devices.nvdla.sources.access_table import TableAccess, TableKind, access_table
from cnn_convertor.devices.nvdla.storing import packed
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.target import Observer
from cnn_convertor.devices.words import describe
from cnn_convertor.files.replacing import Contents

_COMMENT_COLUMN: Final = 34
# Engines, by the start of their blocks' names -> the bits of their interrupts in GLB.S_INTR_STATUS, of both groups.
_INTERRUPTS: Final = {"SDP": 0x3, "CDP": 0xC, "PDP": 0x30, "RBK": 0x300, "CACC": 0x300000, "CDMA": 0xF0000}


def emit(
    program: NvdlaProgram, options: RenderOptions, configuration: Configuration, observe: Observer | None = None
) -> dict[str, Contents]:
    """File name -> contents of everything that runs a program: its texts and its packed weights."""
    common = {
        "made_by": made_by(options.model),
        "name": program.name,
        "class_name": class_name(program),
        "header_name": f"{program.name}_gen.h",
    }
    files: dict[str, Contents] = {}
    for name, template, values in _texts(program, options, configuration):
        files[name] = render_template(template, {**common, **values})
    files[f"{program.name}_weights.bin"] = packed(program, configuration, observe)
    return files


def names_of(program: NvdlaProgram, options: RenderOptions, configuration: Configuration) -> set[str]:
    """The files that `emit` gives."""
    return {f"{program.name}_weights.bin", *(name for name, *_ in _texts(program, options, configuration))}


def _texts(
    program: NvdlaProgram, options: RenderOptions, configuration: Configuration
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The name of each file, its template, and the values that it has beside the common ones."""
    if options.source:
        yield from _sources(program, options, configuration)
    if options.dot:
        yield f"{program.name}.dot", "network.dot.j2", drawing(program, _title)


def _sources(
    program: NvdlaProgram, options: RenderOptions, configuration: Configuration
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    program = program.generated()
    table = access_table(program, configuration)
    calls = [kernel_view(program, layer) for layer in program.layers if layer.cpu is not None]
    functions = dict.fromkeys(function for call in calls for function in call.functions)
    names = [name for name, _ in program.results]
    bases = configuration.bases
    known = registers(initial=configuration.initial)
    values: dict[str, Any] = {
        "description": description(program),
        "half": bundle(["Half"]).bodies[0],
        "input_maps": [map_view(name, tensor) for name, tensor in program.inputs],
        "output_maps": [map_view(name, tensor) for name, tensor in program.results],
        "output_constants": output_constants(names),
        "means": ", ".join(literal("float", mean) for mean in options.mean),
        "scale": None if isinstance(options.scale, tuple) else literal("float", options.scale),
        "scales": ", ".join(literal("float", scale) for scale in np.atleast_1d(options.scale)),
        "channel_order": options.channel_order,
        "weight_bytes": program.weight_bytes,
        "io_bytes": program.io_bytes,
        "alignment": ALIGNMENT,
        "layers": [
            _layer_view(program, index, layer, table.layers.get(index, ()))
            for index, layer in enumerate(program.layers)
        ],
        "kernels": bundle(functions),
        "threads": 1,
        "bare": True,
        "transposed": True,  # rows of pixels
        "pointers": [_pointer_view(address, configuration) for address in table.pointers],
        "input_ranges": [(tensor.offset, tensor.nbytes) for _, tensor in program.inputs],
        "convolves": any(run.operation.engine is Engine.CONV for layer in program.layers for run in layer.runs),
        "mask_address": hex(bases["GLB"] + known["GLB", "S_INTR_MASK"].offset),
        "status_address": hex(bases["GLB"] + known["GLB", "S_INTR_STATUS"].offset),
        "flush_address": hex(bases["CDMA"] + known["CDMA", "S_CBUF_FLUSH_STATUS"].offset),
    }
    yield f"{program.name}_gen.h", "nvdla_network.h.j2", values
    yield f"{program.name}_gen.cpp", "nvdla_network.cpp.j2", values
    if functions:
        yield f"{program.name}_cpu.h", "network_cpu.h.j2", values


def _layer_view(
    program: NvdlaProgram, index: int, layer: NvdlaLayer, accesses: Sequence[TableAccess]
) -> dict[str, Any]:
    reads = ", ".join(f"{shape_text(tensor)} at {tensor.offset}" for tensor in layer.inputs)
    return {
        "index": index,
        "name": c_string(layer.name),
        "title": _title(layer),
        "origins": [f'"{origin.layer}" ({origin.type})' for origin in layer.origins],
        "flow": f"{reads} -> {shape_text(layer.output)} at {layer.output.offset}",
        "accesses": [_row(access) for access in accesses],
        "cpu": None if layer.cpu is None else kernel_view(program, layer),
        "read_ranges": [(tensor.offset, tensor.nbytes) for tensor in layer.inputs],
        "output_offset": layer.output.offset,
        "output_bytes": layer.output.nbytes,
        "is_output": layer.is_output,
        "maximizes": False,
    }


def _title(layer: NvdlaLayer) -> str:
    if layer.cpu is not None:
        return f"{describe(layer.cpu)}, on the CPU"
    if layer.type is LayerType.CONCAT:
        return "concatenation, in place"
    return "; ".join(run.does for run in layer.runs)


def _row(access: TableAccess) -> str:
    """An access as C++."""
    words = [access.kind.value]
    if access.kind is TableKind.POINTER:
        words.append(f"{access.block}u << 20")
    if access.kind is not TableKind.WAIT:
        words.append(f"{access.address:#x}")
    code = f"{{{' | '.join(words)}, {access.value:#x}}},"
    return f"{code:<{_COMMENT_COLUMN}}  // {access.name}"


def _pointer_view(address: int, configuration: Configuration) -> dict[str, str]:
    for block, base in configuration.bases.items():
        if base == address - address % 0x1000:
            bits = _INTERRUPTS.get(block, 0)
            return {"address": f"{address:#x}", "interrupts": f"{bits:#x}", "name": f"{block}.S_POINTER"}
    raise AssertionError("a pointer of no block")
