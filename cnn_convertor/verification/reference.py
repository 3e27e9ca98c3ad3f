"""Runs both sides on the same samples: the emulated device, and the framework or its known results."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.emulation.run import Maps, Outputs
from cnn_convertor.errors import Origin, Problem, UsageError
from cnn_convertor.failures import Ending, attempted
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Order, Shape
from cnn_convertor.samples import EXPECTED, Samples, names_of_parts, split
from cnn_convertor.verification import frameworks
from cnn_convertor.verification.compare import layer_of
from cnn_convertor.verification.framework_maps import GIVEN, KEPT, Reference
from cnn_convertor.verification.unpooling import DeviceMaxima, unpoolings
from cnn_convertor.workers import HERE, Workers, gather


def run_all(network: EmulatedNetwork, inputs: Mapping[str, Maps], on: Workers = HERE) -> Outputs:
    """The device's outputs for all samples, and its layers for the first ones, which run here. on: where the other samples run."""
    first = network.run(first_samples(inputs), layers=True)
    rest = {name: values[KEPT:] for name, values in inputs.items()}
    if not all(map(len, rest.values())):
        return first
    outputs = zip(first.outputs, _run_spread(network, rest, on), strict=True)
    return Outputs(tuple(map(np.concatenate, outputs)), first.layers)


def first_samples(inputs: Mapping[str, Maps]) -> dict[str, Maps]:
    """The samples whose layers are kept."""
    return {name: values[:KEPT] for name, values in inputs.items()}


def reference_of(
    model: Model, network: EmulatedNetwork, given: Samples, device: Outputs, on: Workers = HERE
) -> Reference:
    """The framework's results, or those given with the inputs; no framework is started if they cover every output.

    device: the network's results, by whose maxima the framework unpools. on: where the framework runs.
    """
    graph = network.graph
    runner = frameworks.RUNNERS[model.frontend.runner]
    named = enumerate(zip(graph.outputs, graph.output_names, strict=True))
    places = {name: (place, output) for place, (output, name) in named if name in given.expected}
    _refuse_unknown(given, graph)
    wrong = [
        Problem(
            "DV707", f"expected_{name} {problem}", Origin(given.source), "see docs/verify.md for the shapes of results"
        )
        for name, (_, output) in places.items()
        if (problem := _shape_problem(given.expected[name], graph.shape(output), runner.order))
    ]
    if wrong:
        raise UsageError(wrong)
    maps = {
        place: runner.as_output(given.expected[name], graph.shape(output)) for name, (place, output) in places.items()
    }
    if len(maps) < len(graph.outputs):
        found = frameworks.run(model, graph, given.inputs, _choices(network, given.inputs, device), on)
        known = {layer_of(graph, output) for _, output in places.values()}
        unjudged = {layer: why for layer, why in found.unjudged.items() if layer not in known}
        return replace(found, outputs={**found.outputs, **maps}, unjudged=unjudged)
    first = {name: values[:KEPT] for name, values in given.expected.items()}
    layers = {n: m for n, values in first.items() if (m := runner.as_maps(values)) is not None}
    return Reference(framework=GIVEN, outputs=maps, layers=layers, order=runner.order)


def _refuse_unknown(given: Samples, graph: Graph) -> None:
    """Raises UsageError for results of layers that the network does not have, with the names that may be meant."""
    known = {origin.layer for node in graph.nodes for origin in node.origins} | {*graph.output_names}
    known |= {layer_of(graph, node.name) for node in graph.nodes}
    problems = []
    for name in sorted(set(given.expected) - known):
        near = difflib.get_close_matches(name, sorted(known), n=3) or sorted(set(graph.output_names))
        hint = f"the name of a layer, like {', '.join(f'{EXPECTED}{each}' for each in near)}"
        problems.append(Problem("DV722", f'{EXPECTED}{name}: there is no layer "{name}"', Origin(given.source), hint))
    if problems:
        raise UsageError(problems)


def _shape_problem(values: Maps, shape: Shape, order: Order) -> str:
    """Why an array does not hold the results of N samples in the framework's order; empty if it does."""
    height, width, channels = shape
    axes = (channels, height, width) if order is Order.CHW else (height, width, channels)
    if values[:1].size != shape.size:
        whole = f"{shape.size:,}, as many as {shape} (height x width x channels)"
        return f"holds {values[:1].size:,} numbers for each sample, not {whole}"
    given, wanted = ([size for size in sizes if size != 1] for sizes in (values.shape[1:], axes))
    if (
        given == wanted or values.ndim > 4
    ):  # axes of length 1 may be left out; more than 4 are as the framework has them
        return ""
    shown = ("x".join(map(str, sizes)) for sizes in (values.shape[1:], axes))
    return "has the shape N x {}, but the framework's order of axes is N x {}".format(*shown)


def _choices(network: EmulatedNetwork, inputs: Mapping[str, Maps], device: Outputs) -> dict[str, DeviceMaxima]:
    """Unpooling -> the device's maxima, of all samples."""
    found = unpoolings(network.graph, network.program)
    if not found:
        return {}
    held = {unpooling.source: [device.layers[unpooling.source]] for unpooling in found}
    for start in range(KEPT, len(next(iter(inputs.values()))), KEPT):  # a few at a time: layers fill the memory
        part = network.run({name: values[start : start + KEPT] for name, values in inputs.items()}, layers=True)
        for source, parts in held.items():
            parts.append(part.layers[source])
    return {u.name: u.choice(network.program, np.concatenate(held[u.source])) for u in found}


# --- several at work -----------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Samples of a network, as a value for any process: input name -> (N, H, W, C)."""

    network: EmulatedNetwork
    inputs: Mapping[str, Maps]

    def files(self) -> tuple[Path, ...]:
        return self.network.files


def _run_spread(network: EmulatedNetwork, inputs: Mapping[str, Maps], on: Workers) -> tuple[Maps, ...]:
    """The outputs for samples, like those of `EmulatedNetwork.run`. on: where they run."""
    if on == HERE:
        return network.run(inputs).outputs
    given = [_Part(network, part) for part in split(inputs)]
    names = names_of_parts(len(given))
    outputs = gather(_run_part, given, names=names, on=on, preload=[__name__], carries=_Part.files)
    return tuple(map(np.concatenate, zip(*outputs, strict=True)))


def _run_part(part: _Part) -> Ending[tuple[Maps, ...]]:
    return attempted(lambda: part.network.built().run(part.inputs).outputs)
