"""Describes a configuration and its programs for reports."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from cnn_convertor.devices.facts import (
    Between,
    CommandRun,
    DeviceFacts,
    DeviceFigure,
    ProgramFacts,
    Step,
    StepInput,
    WeightBlob,
    map_of,
    plain,
)
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.devices.nvdla.costs import cost_of
from cnn_convertor.devices.nvdla.firmware.descriptors import MemoryKind
from cnn_convertor.devices.nvdla.hardware import NvdlaHardware
from cnn_convertor.devices.nvdla.network_program import NvdlaLayer, NvdlaProgram, NvdlaRun
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.words import describe

_PROVENANCE: Final = "by published formulas, nothing is measured; clock and bandwidth are assumed, as the public performance spreadsheet does"
_TYPES: Final = {LayerType.CONV: "NVDLA", LayerType.CONCAT: "in place", LayerType.CUSTOM: "CPU"}


def device_facts(hardware: NvdlaHardware, fusion: str) -> DeviceFacts:
    """What a network is converted for."""
    figures = []
    for name, figure in hardware.figures.items():
        kind = hardware.kinds[name]
        figures.append(DeviceFigure(kind.words, f"{figure.value:,}", kind.unit, figure.source, figure.is_assumed))
    none = DeviceFigure("", "", "", "", assumed=False)
    return DeviceFacts(
        hardware.name, hardware.title, fusion, False, _PROVENANCE, none, none, hardware.of_board, tuple(figures)
    )


def program_facts(program: NvdlaProgram, hardware: NvdlaHardware) -> ProgramFacts:
    """What is known of a program."""
    steps = tuple(_step(program, layer, hardware) for layer in program.layers)
    return ProgramFacts(steps, _between(program), None, (), 0)


def _step(program: NvdlaProgram, layer: NvdlaLayer, hardware: NvdlaHardware) -> Step:
    inputs = {tensor.offset: number for number, (_, tensor) in enumerate(program.inputs)}
    reads = []
    for tensor, source in zip(layer.inputs, layer.sources, strict=True):
        number = None if source is not None else inputs.get(tensor.offset)
        reads.append(StepInput(source, number, plain(tensor.shape)))
    stored = [run.stored for run in layer.runs if run.stored is not None]
    return Step(
        name=layer.name,
        type=_TYPES[layer.type],
        does=_does(layer),
        place=layer.type.executor,
        layers=tuple(origin.layer for origin in layer.origins),
        reads=tuple(reads),
        output=map_of(layer.output),
        is_output=layer.is_output,
        runs=tuple(map(_run, layer.runs)),
        weights=tuple(WeightBlob(each.offset, each.nbytes, palette=False) for each in stored),
        topo=None,
        evidence=None,
        cost=cost_of(layer, hardware) if layer.runs else None,
        reason="; ".join(dict.fromkeys(run.reason for run in layer.runs if run.reason)) or layer.reason,
    )


def _does(layer: NvdlaLayer) -> str:
    if layer.cpu is not None:
        return describe(layer.cpu)
    return "concatenation" if layer.type is LayerType.CONCAT else "; ".join(run.does for run in layer.runs)


def _run(run: NvdlaRun) -> CommandRun:
    layers = tuple(origin.layer for origin in run.origins)
    does = f"{run.operation.engine.name}: {run.does}"
    in_memory = run.operation.surfaces.dst_data.type != MemoryKind.HW
    return CommandRun(layers, does, plain(run.input), plain(run.output), 1, in_memory, ())


def _between(program: NvdlaProgram) -> Between:
    """Changes between device and CPU cost what the application's hooks take, which is not known."""
    places = [layer.type.executor for layer in program.layers if layer.type.executor != "none"]
    changes = sum(one != other for one, other in pairwise(places))
    lists = sum(place == "device" for place in places)
    return Between("bare-metal", lists, -(-changes // 2), 0, Interval.of(0.0), Interval.of(0.0))
