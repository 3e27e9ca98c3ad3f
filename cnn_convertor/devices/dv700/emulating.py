"""Networks on the emulated DV700: compiled from their generated sources, or as data for the runner."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cnn_convertor import escaping
from cnn_convertor.codegen.cpp import c_string, class_name
from cnn_convertor.codegen.description import output_constants
from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.sources.rendering import emit
from cnn_convertor.devices.dv700.sources.runner_data import program_data, runner_kernels
from cnn_convertor.devices.dv700.weights.encoding import encode_buffer
from cnn_convertor.devices.program import Program
from cnn_convertor.devices.settings import Runtime
from cnn_convertor.emulation.build import build, runner
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.files.replacing import Contents, replace_all
from cnn_convertor.ir.graph import Graph

_BLOCKS: Final = {"conv": "CONV", "fc": "FC", "maximizer": "MX", "ipu": "IPU"}  # in the device tree
_RESIDUALS: Final = "residuals.bin"
_LOG = logging.getLogger(__name__)  # the command line shows it


class Twin(NamedTuple):
    """The emulated device: an `EmulatedDevice`."""

    device: Device

    @property
    def environment(self) -> Mapping[str, str]:
        environment = {"DMP_DV_CHECK_UNINITIALIZED": "1", "DMP_DV_STRICT": "1"}
        for name, limit in self.device.limits.of_board.items():
            environment[f"DMP_DV_{name.upper()}"] = str(int(limit))
        environment["DMP_DV_BLOCKS"] = ",".join(_BLOCKS[block] for block in sorted(self.device.blocks))
        return environment

    def build(self, network: EmulatedNetwork) -> Path:
        if network.data is not None:
            return runner(runner_kernels())
        wanted = _wanted(network.graph, network.program)
        return build(network.folder, network.program.name, wanted=wanted, sources=network.sources)


def _wanted(graph: Graph, program: Program) -> str:
    """Definitions for the runner: the inputs and outputs that an application looks for in the header, with positions and sizes, and
    what each layer on the CPU reads."""
    inputs = [(name, "0", tensor.shape) for name, tensor in program.inputs]
    shapes = [tensor.shape for _, tensor in program.results]
    constants = output_constants(graph.output_names)
    outputs = [
        (name, f"{class_name(program)}::{constant}", shape)
        for (constant, _, name), shape in zip(constants, shapes, strict=True)
    ]
    lines = []
    for kind, maps in (("INPUTS", inputs), ("OUTPUTS", outputs)):
        values = [
            f"{{{escaping.text(c_string(name))}, {place}, {', '.join(map(str, shape))}}}" for name, place, shape in maps
        ]
        lines.append(f"#define NETWORK_{kind} {', '.join(values)}\n")
    reads = []
    for index, layer in enumerate(program.generated().layers):
        if layer.type.executor == "cpu":
            reads += [f"{{{index}, {tensor.offset}, {tensor.nbytes}}}" for tensor in layer.inputs]
    lines.append(f"#define NETWORK_READS {', '.join(reads)}\n")
    return "".join(lines)


def install(
    graph: Graph,
    program: Program,
    files: Mapping[str, Contents],
    folder: Path,
    *,
    sources: Sequence[Path] = (),
    device: Device,
) -> EmulatedNetwork:
    """Write the files that a program was emitted as to a folder, and compile them.

    sources: C++ files with the callbacks of custom layers. Raises ConvertorError as `build` does.
    """
    replace_all(folder, files)
    return installed(graph, program, folder, sources=sources, device=device)


def installed(
    graph: Graph, program: Program, folder: Path, *, sources: Sequence[Path] = (), device: Device
) -> EmulatedNetwork:
    """Compile the files that a folder has. They are not changed. Raises ConvertorError as `build` does."""
    return EmulatedNetwork.of(graph, program, folder, Twin(device), sources=tuple(sources))


def install_data(
    graph: Graph,
    program: Program,
    folder: Path,
    *,
    sources: Sequence[Path] = (),
    device: Device,
    residuals: Program | None = None,
) -> EmulatedNetwork:
    """Write a program as data to a folder. It gives the same bits as what `install` compiles, without a compilation.

    A program with custom layers is compiled, since their code is C++. sources: the callbacks. residuals: the program with what
    rounding takes from its weights, for a network that rounds nothing, but for what functions of a compiled one store.
    Raises as `install` does.
    """
    if any(layer.custom is not None for layer in program.layers):
        _LOG.info("%s has custom layers, whose code is C++, so it is compiled", program.name)
        files: dict[str, Contents] = dict(emit(replace(program, runtime=Runtime.SDK), RenderOptions(program.name)))
        if residuals is not None:
            files[_RESIDUALS] = encode_buffer(residuals)
        network = install(graph, program, files, folder, sources=sources, device=device)
        return network if residuals is None else network._replace(residuals=folder / _RESIDUALS)
    data, weights = f"{program.name}.program", f"{program.name}_weights.bin"
    described = np.frombuffer(program_data(program, unrounded=residuals is not None), np.uint8)
    contents: dict[str, Contents] = {data: [described], weights: encode_buffer(program)}
    if residuals is not None:
        contents[_RESIDUALS] = encode_buffer(residuals)
    replace_all(folder, contents)
    rest = None if residuals is None else folder / _RESIDUALS
    return EmulatedNetwork.of(graph, program, folder, Twin(device), data=folder / data, residuals=rest)
