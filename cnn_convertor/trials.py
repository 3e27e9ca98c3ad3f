"""Tries converted networks on the PC: runs them on the emulated device, or compares them with their framework."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from cnn_convertor import codegen
from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.devices.dv700.weights.palettes import has_palettes, without_palettes
from cnn_convertor.emulation.network import Network, install
from cnn_convertor.emulation.run import Maps
from cnn_convertor.errors import Origin, Problem, UsageError
from cnn_convertor.ir.graph import Graph
from cnn_convertor.pipeline import Target, build, load, plan
from cnn_convertor.samples import Preparation, random_samples, read_samples, shapes_of
from cnn_convertor.verification import (
    beside,
    causes_of,
    compare_layers,
    compare_outputs,
    reference_of,
    run_all,
)
from cnn_convertor.verification.compare import layer_of
from cnn_convertor.verification.report import Cause, Verification
from cnn_convertor.verification.unpooling import unpoolings

MIN_SQNR = {False: 40.0, True: 20.0}  # palette? -> dB that every output must reach
SAMPLES = 4

Install: TypeAlias = Callable[[Program], Network]


def prepare(graph: Graph, config: Config, folder: Path, *, sources: Sequence[Path] = ()) -> Network:
    """Convert a network into a folder and compile it. sources: C++ files with the callbacks of custom layers."""
    return _install(graph, build(graph, config), config, folder, sources)


def _install(graph: Graph, program: Program, config: Config, folder: Path, sources: Sequence[Path]) -> Network:
    files = codegen.emit(program, codegen.RenderOptions(config.definition.name))
    return install(graph, program, files, folder, sources=sources, ub_size=config.ub_size)


@contextmanager
def _installing(graph: Graph, config: Config, sources: Sequence[Path]) -> Iterator[Install]:
    """A function that compiles a program of the graph, each in a temporary folder of its own."""
    with tempfile.TemporaryDirectory(prefix="cnn-convertor-") as root:
        yield lambda program: _install(graph, program, config, Path(tempfile.mkdtemp(dir=root)), sources)


# --- run -----------------------------------------------------------------------------------------------------------------


def run(config: Config, given: Path, *, sources: Sequence[Path] = ()) -> dict[str, Maps]:
    """Run the converted network on an image or an array: framework layer -> (N, H, W, C), for each output."""
    graph = load(config)
    program = build(graph, config)
    samples = read_samples(given, shapes_of(graph), Preparation.of(config))
    with _installing(graph, config, sources) as installed:
        results = installed(program).run(samples.inputs).outputs
    named: dict[str, Maps] = {}
    for output, values in zip(graph.outputs, results, strict=True):
        name = layer_of(graph, output)
        named[name if name not in named else f"{name}#{len(named) + 1}"] = values  # a layer may have several outputs
    return named


def read_labels(path: Path) -> tuple[str, ...]:
    """Class names, one a line. Raises UsageError when the file cannot be read as text."""
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        reason = f"the class names cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        reason = "the class names are not UTF-8 text"
    raise UsageError(Problem("DV707", reason, Origin(str(path)), "write one name a line"))


def save(path: Path, results: Mapping[str, Maps]) -> None:
    """Write outputs as a .npz file."""
    try:
        with path.open("wb") as stream:
            np.savez(stream, **results)  # type: ignore[arg-type]  # layer names are not keywords of numpy's
    except OSError as error:
        problem = f"cannot write the outputs: {error.strerror}"
        raise UsageError(Problem("DV110", problem, Origin(str(path)))) from error


# --- verify --------------------------------------------------------------------------------------------------------------


def verify(
    config: Config,
    *,
    graph: Graph | None = None,
    inputs: Path | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    layers: bool = False,
    attribute: bool = False,
    min_sqnr: float | None = None,
    sources: Sequence[Path] = (),
) -> Verification:
    """Compare the converted network with its framework.

    graph: what to convert in place of the configured model.
    inputs: images or arrays; None: random images. layers: compare every map that exists on both sides.
    attribute: find the causes of each layer's error, too. min_sqnr: dB; None: 40, or 20 with a palette.
    Layers are compared in any case when an output is below the threshold, to name the first one that is wrong.
    """
    graph = load(config) if graph is None else graph
    program = build(graph, config)
    shapes, preparation = shapes_of(graph), Preparation.of(config)
    if inputs is None:
        given = random_samples(shapes, preparation, samples=samples, seed=seed)
    else:
        given = read_samples(inputs, shapes, preparation)
    palette = has_palettes(program)
    with _installing(graph, config, sources) as installed:
        network = installed(program)
        device = run_all(network, given.inputs)
        reference = reference_of(config, network, given, device)
        outputs = compare_outputs(network, device, reference)
        result = Verification(
            network=config.name,
            framework=reference.framework,
            inputs=given.source,
            samples=given.count,
            palette=palette,
            transposed=config.transpose_weight,
            min_sqnr=MIN_SQNR[palette] if min_sqnr is None else min_sqnr,
            outputs=outputs,
        )
        fp16 = installed(without_palettes(program)) if palette else network
        if palette:
            plain = run_all(fp16, given.inputs)
            # Unpoolings of the framework follow the maxima of the network that they are compared with.
            known = reference_of(config, fp16, given, plain) if unpoolings(graph, program) else reference
            result = replace(result, beside=beside(fp16, plain, device, outputs, known))
        if layers or attribute or not result.passed:
            compared, jump = compare_layers(program, device, reference, palette=palette)
            result = replace(result, layers=compared, first_jump=jump)
        if attribute:
            target = Target.of(config)
            mirrored = installed(plan(graph, config.name, target._replace(transposed=not target.transposed)))
            alone = {Cause.MAPS: (fp16, False), Cause.ARITHMETIC: (mirrored, True)}
            if palette:
                alone[Cause.PALETTE] = (network, True)
            causes = causes_of(fp16, alone, given.inputs, reference)
            attributed = tuple(replace(r, causes=causes.get(r.comparison.name, ())) for r in result.layers)
            result = replace(result, layers=attributed)
        return result
