"""Runs both sides on the same samples: the emulated device, and the framework or its known results."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cnn_convertor.emulation.execution import Maps, Outputs
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import Origin, Problem, UsageError
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Order, Shape
from cnn_convertor.progress import Progress, silent
from cnn_convertor.samples import EXPECTED, Samples, names_of_parts, split
from cnn_convertor.verification import frameworks
from cnn_convertor.verification.compare import layer_of
from cnn_convertor.verification.framework_maps import GIVEN, KEPT, Reference
from cnn_convertor.verification.unpooling import DeviceMaxima, unpoolings
from cnn_convertor.workers.outcomes import Ending, attempted
from cnn_convertor.workers.processes import HERE, Workers, gather


def run_device(
    network: EmulatedNetwork, inputs: Mapping[str, Maps], on: Workers = HERE, progress: Progress = silent
) -> Outputs:
    """The device's outputs for all samples, and its layers for the first ones. on: where the samples run, in parts."""
    return _joined_outputs([found.device for found in _run_spread(network, None, inputs, on, progress)])


def run_both(
    model: Model, network: EmulatedNetwork, given: Samples, on: Workers = HERE, progress: Progress = silent
) -> tuple[Outputs, Reference]:
    """The results of the device, as of `run_device`, and of the framework, or those that are given with the inputs.

    No framework is started if those cover every output. Its unpoolings follow the device's maxima.
    """
    graph = network.graph
    known = _known_results(model, graph, given)
    if len(known.outputs) == len(graph.outputs):
        return run_device(network, given.inputs, on, progress), known
    found = _run_spread(network, model, given.inputs, on, progress)
    reference = _joined_references([each.reference for each in found if each.reference is not None])
    judged = {layer_of(graph, graph.outputs[place]) for place in known.outputs}
    unjudged = {layer: why for layer, why in reference.unjudged.items() if layer not in judged}
    reference = replace(reference, outputs={**reference.outputs, **known.outputs}, unjudged=unjudged)
    return _joined_outputs([each.device for each in found]), reference


def first_samples(inputs: Mapping[str, Maps]) -> dict[str, Maps]:
    """The samples whose layers are kept."""
    return {name: values[:KEPT] for name, values in inputs.items()}


# --- results that are given ------------------------------------------------------------------------------------------------


def _known_results(model: Model, graph: Graph, given: Samples) -> Reference:
    """The results that are given with the inputs. Raises UsageError for those that do not fit the network."""
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
    first = first_samples(given.expected)
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


# --- parts of the samples --------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Samples for both sides, as a value for any process: input name -> (N, H, W, C). The network comes without weights.

    run: a name for all parts of a run. model: None for the device alone. first: the first sample of all, which chooses the
    judges. least: the number of the first judge that may judge. is_first: keep the layers.
    """

    run: str
    network: EmulatedNetwork
    model: Model | None
    inputs: Mapping[str, Maps]
    first: Mapping[str, Maps]
    least: int
    is_first: bool

    def carried(self) -> tuple[Path, ...]:
        return self.network.files


class _Found(NamedTuple):
    """The results of a part. judge: the number of the one whose reference this is."""

    device: Outputs
    reference: Reference | None = None
    judge: int = 0


def _run_spread(
    network: EmulatedNetwork, model: Model | None, inputs: Mapping[str, Maps], on: Workers, progress: Progress
) -> list[_Found]:
    """The results of all parts. They have one judge: where the best one refuses any of them, the next one judges all."""
    run, first = os.urandom(8).hex(), {name: values[:1] for name, values in inputs.items()}
    each = [inputs] if on == HERE else split(inputs)
    files = cache(lambda: () if model is None else model.files)  # only a cluster asks
    least = 0
    try:
        while True:
            found = gather(
                _run_part,
                [_Part(run, network, model, part, first, least, not number) for number, part in enumerate(each)],
                names=names_of_parts(len(each)),
                on=on,
                preload=[__name__],
                uses=() if model is None else frameworks.LIBRARIES,
                carries=_Part.carried,
                reads=lambda _: files(),
                ended=lambda done: progress("run", done, len(each)),
            )
            least = max(part.judge for part in found)
            if all(part.judge == least for part in found):
                return found
    finally:
        _JUDGES.clear()  # with the models that they keep; a worker of a cluster keeps them until its next run


def _run_part(part: _Part) -> Ending[_Found]:
    def work() -> _Found:
        network = part.network.built()
        device = _run_device(network, part.inputs, with_layers=part.is_first)
        if part.model is None:
            return _Found(device)
        judges, choices = _judges(part, part.model, network)[part.least :], _choices(network, part.inputs)
        number, found = frameworks.judged(judges, part.model, network.graph, part.inputs, choices)
        return _Found(device, found if part.is_first else replace(found, layers={}, maxima=()), part.least + number)

    return attempted(work)


_JUDGES: Final[dict[str, tuple[frameworks.Run, ...]]] = {}  # the name of the last run -> its judges


def _judges(part: _Part, model: Model, network: EmulatedNetwork) -> tuple[frameworks.Run, ...]:
    """The judges, the best first. A process chooses them once for all parts of a run."""
    found = _JUDGES.get(part.run)
    if found is None:
        found = frameworks.judges(model, network.graph, part.first, _choices(network, part.first))
        _JUDGES.clear()
        _JUDGES[part.run] = found
    return found


def _run_device(network: EmulatedNetwork, inputs: Mapping[str, Maps], *, with_layers: bool) -> Outputs:
    """The outputs of samples. with_layers: also the layers, of the first ones."""
    if not with_layers:
        return network.run(inputs)
    first = network.run(first_samples(inputs), layers=True)
    rest = {name: values[KEPT:] for name, values in inputs.items()}
    return _joined_outputs([first, network.run(rest)]) if all(map(len, rest.values())) else first


def _choices(network: EmulatedNetwork, inputs: Mapping[str, Maps]) -> dict[str, DeviceMaxima]:
    """Unpooling -> the device's maxima for samples."""
    found = unpoolings(network.graph, network.program)
    if not found:
        return {}
    held: dict[int, list[Maps]] = {unpooling.source: [] for unpooling in found}
    for start in range(0, len(next(iter(inputs.values()))), KEPT):  # a few at a time: layers fill the memory
        part = network.run({name: values[start : start + KEPT] for name, values in inputs.items()}, layers=True)
        for source, parts in held.items():
            parts.append(part.layers[source])
    return {u.name: u.choice(network.program, np.concatenate(held[u.source])) for u in found}


def _joined_outputs(parts: Sequence[Outputs]) -> Outputs:
    """The outputs of all samples, with the layers of the first ones."""
    outputs = zip(*(part.outputs for part in parts), strict=True)
    return replace(parts[0], outputs=tuple(map(_joined, outputs)))


def _joined_references(parts: Sequence[Reference]) -> Reference:
    """The results for all samples. Only outputs that have a result in every part have one."""
    places = sorted(set.intersection(*(set(part.outputs) for part in parts)))
    outputs = {place: _joined([part.outputs[place] for part in parts]) for place in places}
    unjudged = {layer: why for part in parts for layer, why in part.unjudged.items()}
    return replace(parts[0], outputs=outputs, unjudged=unjudged)


def _joined(maps: Sequence[Maps]) -> Maps:
    return maps[0] if len(maps) == 1 else np.concatenate(maps)
