"""The whole conversion on one screen: load, optimize, legalize, check, lower, render, write."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor import codegen, files
from cnn_convertor.calibration import Calibration, calibrate
from cnn_convertor.calls import title
from cnn_convertor.config import Config, Quantization
from cnn_convertor.devices.dv700.commands import Command
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.legalize import legalize
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.memory.placement import arrange
from cnn_convertor.devices.dv700.program import LayerType, Program
from cnn_convertor.devices.dv700.rules import broken_rules, check
from cnn_convertor.devices.dv700.weights import palettes
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.devices.dv700.weights.palette_report import StoredLayer
from cnn_convertor.emulation import selftest
from cnn_convertor.errors import Problem
from cnn_convertor.frontends.builder import PartialGraph
from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes import optimize
from cnn_convertor.samples import Preparation

Progress = Callable[[str, int, int], None]  # step, done, total


def _silent(_step: str, _done: int, _total: int) -> None:
    """Nobody wants to know how far it is."""


class Report(NamedTuple):
    """files: what was written. summary: (label, value) rows for people. weights: how each layer's weights are stored.

    calibration: what sample inputs did for the palettes, where some were given. details: more rows, for who asks.
    """

    files: tuple[Path, ...]
    summary: tuple[tuple[str, str], ...]
    weights: tuple[StoredLayer, ...] = ()
    calibration: Calibration | None = None
    details: tuple[tuple[str, str], ...] = ()


def convert(config: Config, progress: Progress = _silent) -> Report:
    """Convert one network and write its files.

    Raises ConvertorError (one of its kinds, with every reason) and then leaves earlier outputs as they were.
    """
    progress("read", 0, 1)
    graph = load(config)
    progress("optimize", 0, 1)
    program, calibration = quantize(graph, config, progress)
    texts = codegen.render(program, _render_options(config))
    tests = _selftest(program, config) if config.selftest else {}
    weights = _counted(encode_all(program.weights, transposed=program.transposed), program.weight_bytes, progress)
    outputs = {**texts, **tests, _weights_file(program): weights}
    written = files.replace_all(config.output_folder / config.name, outputs)
    return Report(written, summary(program), palettes.describe(program), calibration, details(program))


def convert_for_trial(config: Config, folder: Path) -> tuple[Graph, Program]:
    """Convert a network to be tried out on the PC: what runs goes to the folder. Gives the network before and after."""
    graph = load(config)
    program = build(graph, config)
    _write_what_runs(program, folder, config)
    return graph, program


def load(config: Config) -> Graph:
    """The network as its framework has it.

    Raises ConvertorError when layers cannot be read, with every reason: what the device refuses of the others, too.
    """
    partial_graph = read(config)
    return partial_graph.require_complete(
        refused(partial_graph, fit(partial_graph.graph, config)) if partial_graph.problems else ()
    )


def read(config: Config, *, with_weights: bool = True) -> PartialGraph:
    """The network as its framework has it, as far as it can be read.

    with_weights: False where the weights may be missing; files that always hold them are read with them.
    """
    data = None if not with_weights and config.origin.is_without_weights(config.definition) else config.data
    return config.origin.read(config.definition, data, size=config.size, custom_layers=config.custom_layer)


def build(graph: Graph, config: Config, progress: Progress = _silent) -> Program:
    """The program that does the graph's work on the device, its weights stored as the configuration says."""
    return quantize(graph, config, progress)[0]


def quantize(graph: Graph, config: Config, progress: Progress = _silent) -> tuple[Program, Calibration | None]:
    """What `build` gives, and what sample inputs did for the palettes, where the configuration has some."""
    options = palettes.QuantizationOptions(
        Quantization(config.quantization), config.quantization_threshold, config.overrides
    )
    program = palettes.choose(plan(graph, config), options, partial(progress, "palettes"))
    if config.calibrate is None:
        return program, None
    progress("calibrate", 0, 1)
    apart = plan(graph, replace(config.in_fp16, fusion=Fusion.NONE.value))
    write = partial(_write_what_runs, config=config)
    calibration = calibrate(graph, program, config, config.calibrate, write, apart=apart)
    return (program if calibration is None else calibration.program), calibration


def plan(graph: Graph, config: Config) -> Program:
    """The program as far as the weights' values do not matter: without palettes."""
    fitted = fit(graph, config)
    check(fitted.graph, fitted.steps, fitted.limits)
    steps, placement = arrange(fitted.graph, fitted.steps)
    return lower(
        fitted.graph,
        steps,
        name=config.name,
        transposed=config.transpose_weight,
        placement=placement,
        outputs=graph.output_names,
    )


class Fitted(NamedTuple):
    """A graph as the device would run it, and the layers of the program; nothing is checked yet."""

    graph: Graph
    steps: tuple[Command, ...]
    limits: Limits


def fit(graph: Graph, config: Config) -> Fitted:
    """Rewrite the graph for the device."""
    limits = Limits(max_kernel_size=config.max_kernel_size, ub_size=config.ub_size)
    fusion, transposed = Fusion(config.fusion), config.transpose_weight
    palette = bool(config.quantization)
    graph = legalize(optimize(graph), limits, transposed=transposed, fusion=fusion)
    graph, steps = partition(graph, palette=palette, transposed=transposed, fusion=fusion, limits=limits)
    return Fitted(graph, steps, limits)


def refused(partial_graph: PartialGraph, fitted: Fitted) -> tuple[Problem, ...]:
    """What the device refuses of a network, as far as it is known."""
    guessed = {origin for name in partial_graph.guessed for origin in partial_graph.graph[name].origins}
    return broken_rules(fitted.graph, fitted.steps, fitted.limits, guessed)


def summary(program: Program) -> tuple[tuple[str, str], ...]:
    """What a firmware engineer wants to know first."""
    on_device = sum(layer.type is LayerType.CONV for layer in program.layers)
    on_cpu = [
        layer for layer in program.layers if layer.type not in {LayerType.CONV, LayerType.CONCAT, LayerType.INPUT}
    ]
    cpu_types = ", ".join(
        dict.fromkeys(layer.type.name.lower() if layer.cpu is None else title(layer.cpu) for layer in on_cpu)
    )
    return (
        ("device commands", str(on_device)),
        ("CPU layers", f"{len(on_cpu)} ({cpu_types})" if on_cpu else "0"),
        ("weights", _weights_summary(program)),
        ("I/O buffer", str(program.plan)),
        *(("network", line) for line in codegen.description(program)[1:]),
    )


def details(program: Program) -> tuple[tuple[str, str], ...]:
    """What helps to make the network smaller."""
    return (("I/O buffer", str(program.plan.peak)),)


def _weights_summary(program: Program) -> str:
    stored = palettes.describe(program)
    with_palette = sum(layer.palette for layer in stored)
    text = f"{program.weight_bytes:,} bytes"
    if not with_palette:
        return text
    before = sum(layer.fp16_bytes for layer in stored)
    return f"{text} (palettes in {with_palette} of {len(stored)} layers; {before:,} bytes in FP16)"


def _write_what_runs(program: Program, folder: Path, config: Config) -> None:
    """Sources and weights alone, without the optional texts."""
    texts = codegen.render(program, codegen.RenderOptions(model=config.definition.name))
    files.replace_all(
        folder, {**texts, _weights_file(program): encode_all(program.weights, transposed=program.transposed)}
    )


def _weights_file(program: Program) -> str:
    return f"{program.name}_weights.bin"


def _selftest(program: Program, config: Config) -> Mapping[str, files.Contents]:
    """A test of the network that runs on the board, too: expected is what the emulated device gives."""
    with tempfile.TemporaryDirectory(prefix="cnn-convertor-") as name:
        _write_what_runs(program, Path(name), config)
        test = selftest.record(program, Path(name), *Preparation.of(config).range, ub_size=config.ub_size)
    return codegen.render_selftest(
        program,
        model=config.definition.name,
        levels=test.levels,
        generator=(selftest.MULTIPLIER, selftest.INCREMENT),
        outputs=test.outputs,
    )


def _render_options(config: Config) -> codegen.RenderOptions:
    return codegen.RenderOptions(
        model=config.definition.name,
        source=config.generate_source,
        doxygen=config.generate_doxy,
        dot=config.generate_dot,
        python_module=config.python_module,
        graphviz_path=config.graphviz_path,
    )


def _counted(pieces: Iterable[NDArray[np.uint8]], total: int, progress: Progress) -> Iterator[NDArray[np.uint8]]:
    """The same pieces, with progress in bytes."""
    done = 0
    progress("weights", 0, total)
    for piece in pieces:
        yield piece
        done += piece.size
        progress("weights", done, total)
