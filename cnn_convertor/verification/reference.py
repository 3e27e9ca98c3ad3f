"""Runs both sides on the same samples: the emulated device, and the framework or its known results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from cnn_convertor.devices.settings import Runtime
from cnn_convertor.emulation.feature_maps import Maps, Outputs
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import ConvertorError, Origin, Problem, UsageError, near_names
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Order, Shape
from cnn_convertor.progress import Progress, silent
from cnn_convertor.samples import EXPECTED, Samples, batch_name, in_batches
from cnn_convertor.verification import frameworks
from cnn_convertor.verification.both_sides import BothSides
from cnn_convertor.verification.compare import layer_of
from cnn_convertor.verification.framework_maps import GIVEN, KEPT, Reference
from cnn_convertor.verification.unpooling import DeviceMaxima, unpoolings
from cnn_convertor.workers.outcomes import Item, Outcome, attempted
from cnn_convertor.workers.processes import HERE, Workers, gather


def run_device(
    network: EmulatedNetwork, inputs: Mapping[str, Maps], on: Workers = HERE, progress: Progress = silent
) -> Outputs:
    """The device's outputs for all samples, and its layers for the first ones. on: where the samples run, in batches."""
    return _joined_outputs([batch.device for batch in _run_spread(network, None, inputs, on, progress)])


def run_both(
    model: Model, network: EmulatedNetwork, samples: Samples, on: Workers = HERE, progress: Progress = silent
) -> BothSides:
    """The results of the device, as in `run_device`, and of the framework, or the known results that come with the samples.

    No framework is started if the known results cover every output. Its unpoolings follow the device's maxima.
    """
    graph = network.graph
    known = _known_results(model, graph, samples)
    if len(known.outputs) == len(graph.outputs):
        return BothSides(network, run_device(network, samples.inputs, on, progress), known)
    batches = _run_spread(network, model, samples.inputs, on, progress)
    reference = _joined_references([each.reference for each in batches if each.reference is not None])
    known_layers = {layer_of(graph, graph.outputs[index]) for index in known.outputs}
    unjudged = {layer: why for layer, why in reference.unjudged.items() if layer not in known_layers}
    reference = replace(
        reference,
        outputs={**reference.outputs, **known.outputs},
        layers=_of_single_outputs(graph, reference.layers),
        unjudged=unjudged,
    )
    return BothSides(network, _joined_outputs([each.device for each in batches]), reference)


def first_samples(inputs: Mapping[str, Maps]) -> dict[str, Maps]:
    """The samples whose layers are kept."""
    return {name: values[:KEPT] for name, values in inputs.items()}


# --- known results -------------------------------------------------------------------------------------------------------


def _known_results(model: Model, graph: Graph, samples: Samples) -> Reference:
    """The known results that come with the samples. Raises UsageError for those that do not fit the network."""
    runner = frameworks.RUNNERS[model.frontend.runner]
    order = runner.order(graph)
    named = enumerate(zip(graph.outputs, graph.output_names, strict=True))
    positions = {name: (index, output) for index, (output, name) in named if name in samples.expected}
    _refuse_unknown(samples, graph)
    wrong = [
        Problem(
            "DV707",
            f"expected_{name} {problem}",
            Origin(samples.source),
            "see docs/verify.md for the shapes of results",
        )
        for name, (_, output) in positions.items()
        if (problem := _shape_problem(samples.expected[name], graph.shape(output), order))
    ]
    if wrong:
        raise UsageError(wrong)
    maps = {
        index: runner.as_output(samples.expected[name], graph.shape(output), order)
        for name, (index, output) in positions.items()
    }
    first = first_samples(samples.expected)
    layers = {n: m for n, values in first.items() if (m := runner.as_maps(values, order)) is not None}
    return Reference(framework=GIVEN, outputs=maps, layers=_of_single_outputs(graph, layers), order=order)


def _of_single_outputs(graph: Graph, layers: Mapping[str, Maps]) -> dict[str, Maps]:
    """Framework layer -> its map, without layers with several outputs: a name does not say which one it is."""
    several = {layer_of(graph, node.name) for node in graph.nodes if node.own_name}
    return {name: maps for name, maps in layers.items() if name not in several}


def _refuse_unknown(samples: Samples, graph: Graph) -> None:
    """Raises UsageError for results of layers that the network does not have, with the names that may be meant."""
    known = {origin.layer for node in graph.nodes for origin in node.origins}
    known |= {layer_of(graph, node.name) for node in graph.nodes}
    several = Counter(layer_of(graph, node.name) for node in graph.nodes if node.own_name)
    known -= {layer for layer, count in several.items() if count > 1}  # which of its outputs would it be?
    known |= {node.own_name for node in graph.nodes if node.own_name} | {*graph.output_names}
    problems = []
    for name in sorted(set(samples.expected) - known):
        near = near_names(name, sorted(known), n=3) or sorted(set(graph.output_names))
        hint = f"the name of a layer, like {', '.join(f'{EXPECTED}{each}' for each in near)}"
        problems.append(Problem("DV722", f'{EXPECTED}{name}: there is no layer "{name}"', Origin(samples.source), hint))
    if problems:
        raise UsageError(problems)


def _shape_problem(values: Maps, shape: Shape, order: Order) -> str:
    """Why an array does not hold the results of N samples in the framework's order; empty if it does."""
    height, width, channels = shape
    axes = (channels, height, width) if order is Order.CHW else (height, width, channels)
    if values[:1].size != shape.size:
        whole = f"{shape.size:,}, as many as {shape} (height x width x channels)"
        return f"holds {values[:1].size:,} numbers for each sample, not {whole}"
    actual, expected = ([size for size in sizes if size != 1] for sizes in (values.shape[1:], axes))
    if (
        actual == expected or values.ndim > 4
    ):  # axes of length 1 may be left out; more than 4 are as the framework has them
        return ""
    shown = ("x".join(map(str, sizes)) for sizes in (values.shape[1:], axes))
    return "has the shape N x {}, but the framework's order of axes is N x {}".format(*shown)


# --- batches of samples ----------------------------------------------------------------------------------------------------


class _Batch(NamedTuple):
    """Samples for both sides, as a value for any process: input name -> (N, H, W, C). The network comes without weights.

    run: a name for all batches of a run. model: None for the device alone. is_first: keep the layers.
    """

    run: str
    network: EmulatedNetwork
    model: Model | None
    inputs: Mapping[str, Maps]
    is_first: bool


class _BatchResults(NamedTuple):
    """The results of a batch."""

    device: Outputs
    reference: Reference | None = None


def _run_spread(
    network: EmulatedNetwork, model: Model | None, inputs: Mapping[str, Maps], on: Workers, progress: Progress
) -> list[_BatchResults]:
    """The results of all batches."""
    run = os.urandom(8).hex()
    batches = [inputs] if on == HERE else in_batches(inputs)
    files = cache(lambda: () if model is None else model.files)  # only a cluster asks
    items = []
    for number, samples in enumerate(batches):
        batch = _Batch(run, network, model, samples, is_first=number == 0)
        items.append(Item(batch, batch_name(number, len(batches)), network.files, files))
    try:
        return gather(
            _run_batch,
            items,
            on=on,
            uses=() if model is None else frameworks.LIBRARIES,
            finished=lambda done: progress("run", done, len(batches)),
        )
    finally:
        _OPENED.clear()  # with the model that it keeps; a worker of a cluster keeps it until its next run


def _run_batch(batch: _Batch) -> Outcome[_BatchResults]:
    def work() -> _BatchResults:
        network = batch.network.built()
        device = _run_device(network, batch.inputs, with_layers=batch.is_first)
        if batch.model is None:
            return _BatchResults(device)
        reference = _opened(batch, batch.model)(batch.model, batch.inputs, _choices(network, batch.inputs))
        if not batch.is_first:
            reference = replace(reference, layers={}, maxima=())
        return _BatchResults(device, reference)

    return attempted(work)


_OPENED: Final[dict[str, frameworks.Run]] = {}  # the name of the last run -> its reference runner


def _opened(batch: _Batch, model: Model) -> frameworks.Run:
    """The reference runner. A process reads the model once for all batches of a run."""
    runner = _OPENED.get(batch.run)
    if runner is None:
        runner = frameworks.opened(model, batch.network.graph)
        _OPENED.clear()
        _OPENED[batch.run] = runner
    return runner


def _run_device(network: EmulatedNetwork, inputs: Mapping[str, Maps], *, with_layers: bool) -> Outputs:
    """The outputs of samples. with_layers: also the layers, of the first ones."""
    if not with_layers:
        return network.run(inputs)
    first = network.run(first_samples(inputs), layers=True)
    if network.program.runtime is Runtime.GENERATED:
        whole = network.run(inputs)
        _require_same(network, first.outputs, whole.outputs)
        return replace(first, outputs=whole.outputs)
    rest = {name: values[KEPT:] for name, values in inputs.items()}
    return _joined_outputs([first, network.run(rest)]) if all(map(len, rest.values())) else first


def _require_same(network: EmulatedNetwork, alone: Sequence[Maps], whole: Sequence[Maps]) -> None:
    """Raises ConvertorError if outputs of a network as a whole are not those of each layer by itself."""
    for name, one, other in zip(network.graph.output_names, alone, whole, strict=True):
        if one.tobytes() != other[: len(one)].tobytes():
            problem = f'the output "{name}" has other bits if each layer runs by itself'
            hint = "unless its files were changed, this is an error of the convertor: please report it"
            raise ConvertorError.of("DV876", problem, Origin(network.program.name), hint)


def _choices(network: EmulatedNetwork, inputs: Mapping[str, Maps]) -> dict[str, DeviceMaxima]:
    """Unpooling -> the device's maxima for samples."""
    layers = unpoolings(network.graph, network.program)
    if not layers:
        return {}
    held: dict[int, list[Maps]] = {unpooling.source: [] for unpooling in layers}
    for start in range(0, len(next(iter(inputs.values()))), KEPT):  # a few at a time: layers fill the memory
        outputs = network.run({name: values[start : start + KEPT] for name, values in inputs.items()}, layers=True)
        for source, maps in held.items():
            maps.append(outputs.layers[source])
    return {u.name: u.choice(network.program, np.concatenate(held[u.source])) for u in layers}


def _joined_outputs(batches: Sequence[Outputs]) -> Outputs:
    """The outputs of all samples, with the layers of the first ones."""
    outputs = zip(*(batch.outputs for batch in batches), strict=True)
    return replace(batches[0], outputs=tuple(map(_joined, outputs)))


def _joined_references(batches: Sequence[Reference]) -> Reference:
    """The results for all samples. Only outputs that have a result in every batch have one."""
    indices = sorted(set.intersection(*(set(batch.outputs) for batch in batches)))
    outputs = {index: _joined([batch.outputs[index] for batch in batches]) for index in indices}
    unjudged = {layer: why for batch in batches for layer, why in batch.unjudged.items()}
    return replace(batches[0], outputs=outputs, unjudged=unjudged)


def _joined(maps: Sequence[Maps]) -> Maps:
    return maps[0] if len(maps) == 1 else np.concatenate(maps)
