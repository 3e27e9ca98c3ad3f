"""Fits palettes to the inputs of a network's layers, so that its outputs lose least.

Most samples fit palettes, roundings and biases, each layer for itself; the others judge, first each layer, then the outputs.
The mean error of a layer's output leaves with its bias, so what counts is the variances and covariances of the layer's inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial as bind
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.emulating import install_data
from cnn_convertor.devices.dv700.fitting.compensation import Walked, compensated
from cnn_convertor.devices.dv700.fitting.last_biases import mean_errors
from cnn_convertor.devices.dv700.fitting.layer_fit import FittedLayer, LayerTask, fit_layer
from cnn_convertor.devices.dv700.fitting.layer_inputs import Batch, LayerInputs, each_batch, measure
from cnn_convertor.devices.dv700.runs import Layer, Program, Weights
from cnn_convertor.devices.dv700.weights.palette_report import Choice
from cnn_convertor.devices.dv700.weights.palettes import (
    SameKernels,
    convolutions_of,
    has_palettes,
    same_kernels,
    with_choices,
    with_weights_of,
    without_palettes,
)
from cnn_convertor.devices.facts import CalibrationEffect, Gain, LayerGain
from cnn_convertor.devices.half import to_half
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import Origin, Problem, UsageError, warn
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from cnn_convertor.progress import Progress, silent
from cnn_convertor.quantize import decibels
from cnn_convertor.samples import Samples
from cnn_convertor.workers.outcomes import Item, Outcome, attempted
from cnn_convertor.workers.processes import HERE, Workers, gather

Real: TypeAlias = NDArray[np.float64]

_JUDGES = 4  # of so many samples, one judges
_NOTICED = 0.2  # dB that an output loses while others gain


class Calibrated(NamedTuple):
    """The program with the better palettes, and what they improved."""

    program: Program
    effect: CalibrationEffect


def calibrate(
    graph: Graph,
    program: Program,
    samples: Samples,
    *,
    unfused: Program,
    device: Device,
    all_stay: bool = True,
    progress: Progress = silent,
    on: Workers = HERE,
) -> Calibrated | None:
    """The program with palettes, and biases, fitted to sample inputs; None, after a warning, when no palette loses something.

    unfused: the same network with FP16 weights and a command for each convolution, so that the inputs of all are in memory.
    device: the target of the conversion. all_stay: whether no layer gives its palette up later, so that layers may make up for those
    of others. on: where the samples run, and the layers are fitted.
    The program keeps its palettes when the calibrated ones do not improve its outputs. Raises UsageError for networks with
    custom layers, and without a C++ compiler.
    """
    refuse_custom_layers(program, "calibration", "convert without --calibrate")
    if not any(_chosen(weights).loses for weights in program.weights):
        why, hint = (
            ("the palettes hold all weights exactly", "convert without --calibrate")
            if has_palettes(program)
            else ("no layer has a palette", "quantization = 1 or auto in the ini file")
        )
        warn(Problem("DV716", f"there is nothing to calibrate: {why}", Origin(program.name), hint))
        return None
    fitting, judging = fitting_and_judging(samples)
    if samples.are_alike or fitting.are_alike:
        problem = "the samples that fit palettes are all the same, or repeat one number: other images may lose more"
        warn(Problem("DV727", problem, Origin(samples.source), "look at the samples, and give different ones"))
    with temporary_folder() as root:

        def installed(program: Program, folder: str) -> EmulatedNetwork:
            progress("calibrate: prepare", 0, 1)
            return install_data(graph, program, root / folder, device=device)

        apart = installed(without_palettes(unfused), "unfused")

        def inputs(some: Samples, folder: str) -> dict[int, LayerInputs]:
            (root / folder).mkdir()
            return measure(apart, some, root / folder, progress, on=on)

        measured = inputs(fitting, "fitting")
        same = same_kernels(program, unfused)
        read, judged = (_matched(program, same, each) for each in (measured, inputs(judging, "judging")))
        (root / "kernels").mkdir()
        layers = _fit_layers(program, read, judged, root / "kernels", progress, on)
        if all_stay and judging is not fitting:  # what one sample has in common with itself says nothing of others
            walks = [
                Walked(apart, some, known, root / f"walk-{i}")
                for i, (some, known) in enumerate(((fitting, read), (judging, judged)))
            ]
            palettes = with_weights_of(unfused, with_layers(program, layers))
            layers = compensated(program, layers, same, palettes, walks, progress)
        choices = [with_layers(program, layers)]
        if all_stay:
            together = installed(with_weights_of(unfused, choices[0]), "together")
            if shifts := mean_errors((apart, together), fitting, progress, on=on):
                choices.append(_with_shifts(choices[0], shifts, {i: same[i] for i in layers}))
        networks = [
            installed(each, f"network-{i}") for i, each in enumerate((without_palettes(program), program, *choices))
        ]
        compared = compare_outputs(networks[0], networks[1:], judging, progress, on=on)
        outputs, calibrated = max(zip(compared, choices, strict=True), key=lambda it: sum(o.gain for o in it[0]))
    hint = "use more samples, like those that the network will see"
    if sum(o.gain for o in outputs) < 0:
        problem = "calibration does not improve the outputs, so the palettes stay as they were"
        warn(Problem("DV717", problem, Origin(program.name), hint))
        calibrated = program
    elif worse := [f'"{o.name}" {o.before:.1f} -> {o.after:.1f} dB' for o in outputs if o.gain < -_NOTICED]:
        problem = f"calibration improves the outputs together, but not {', '.join(worse)}"
        warn(Problem("DV717", problem, Origin(program.name), hint))
    gains = tuple(
        LayerGain(program.weights[i].layer, layer.before, layer.after, layer.limit)
        for i, layer in sorted(layers.items())
    )
    judges = 0 if judging is fitting else judging.count
    return Calibrated(calibrated, CalibrationEffect(fitting.count, judges, samples.source, outputs, gains))


def refuse_custom_layers(program: Program, what: str, hint: str) -> None:
    """Raises UsageError for a network with custom layers. what: the feature that runs the network."""
    for layer in program.layers:
        if layer.custom is not None:
            where = layer.origins[-1] if layer.origins else Origin(program.name)
            problem = f"{what} runs every layer, but the code of custom layers is in the firmware"
            raise UsageError.of("DV715", problem, where, hint)


def fitting_and_judging(samples: Samples) -> tuple[Samples, Samples]:
    """The samples that fit, and those that judge: the last one, and every fourth one before it. A single one does both."""
    if samples.count == 1:
        return samples, samples
    judges = np.arange(samples.count) % _JUDGES == (samples.count - 1) % _JUDGES
    fitting, judging = (
        replace(samples, inputs={name: values[which] for name, values in samples.inputs.items()}, expected={})
        for which in (~judges, judges)
    )
    return fitting, judging


# --- fitting -------------------------------------------------------------------------------------------------------------


def _fit_layers(
    program: Program,
    fitting: Mapping[int, LayerInputs],
    judging: Mapping[int, LayerInputs],
    folder: Path,
    progress: Progress,
    on: Workers,
) -> dict[int, FittedLayer]:
    """The layers with a palette that loses something, by the index of the convolution, if samples tell something of them.

    folder: for their kernels.
    """
    convolutions = [c for layer in program.layers for c in convolutions_of(layer)]
    varying = {i for i, inputs in fitting.items() if inputs.moments.variance.any()}
    known = [i for i, c in enumerate(convolutions) if i in varying and i in judging and _chosen(c.weights).loses]
    known.sort(
        key=lambda i: convolutions[i].weights.kernels.size, reverse=True
    )  # the last ones are done at the same time
    items = []
    for i in known:
        weights, path = convolutions[i].weights, folder / f"{i}.npy"
        np.save(path, weights.kernels.load())
        palette = _chosen(weights).palette
        assert palette is not None, "it loses something"
        inputs = fitting[i].kept, judging[i].kept
        task = LayerTask(path, palette, convolutions[i].kind.is_depthwise, *inputs)
        items.append(Item(task, weights.layer, (path, *inputs[0].files, *inputs[1].files)))

    def finished(done: int) -> None:
        progress("calibrate: palettes", done, len(items))

    return dict(zip(known, gather(fit_layer, items, on=on, finished=finished), strict=True))


def _chosen(weights: Weights) -> Choice:
    assert weights.choice is not None, "palettes are chosen first"
    return weights.choice


def with_layers(program: Program, layers: Mapping[int, FittedLayer]) -> Program:
    """The program with other palettes in some layers, and with biases that correct the mean of their errors."""
    choices = []
    for i, weights in enumerate(program.weights):
        choice = _chosen(weights)
        choices.append(_with_layer(choice, layers[i], weights) if i in layers else choice)
    return with_choices(program, choices)


def _with_layer(choice: Choice, layer: FittedLayer, weights: Weights) -> Choice:
    rounded, noise = layer.kernels, 0.0
    for rows in weights.kernels.ranges():
        kernels = weights.kernels.load(rows)
        stored = rounded.load(rows).astype(np.float64)
        noise += float(np.square(stored - to_half(kernels)).sum())
    assert choice.quality is not None, "a palette was fitted before"
    bias = Constant.of(_bias(weights) - layer.shifts)
    quality = choice.quality._replace(noise=noise)
    return choice._replace(palette=layer.palette, quality=quality, kernels=rounded, bias=bias)


def _with_shifts(program: Program, shifts: Mapping[int, Real], kernels: Mapping[int, SameKernels]) -> Program:
    """The program with shifted biases. shifts: by the convolution of another program that has the same kernels."""
    choices = [_chosen(weights) for weights in program.weights]
    for i, (convolution, rows) in kernels.items():
        bias = choices[i].bias
        if convolution in shifts and bias is not None:
            choices[i] = choices[i]._replace(bias=Constant.of(bias.load_wide() - shifts[convolution][rows]))
    return with_choices(program, choices)


def _bias(weights: Weights) -> Real:
    return np.zeros(weights.packed.kernels) if weights.bias is None else weights.bias.load_wide()


def _matched(
    program: Program, same: Mapping[int, SameKernels], measured: Mapping[int, LayerInputs]
) -> dict[int, LayerInputs]:
    """What the convolutions of a program read, from what those read that have the same kernels in another one."""
    convolutions = [c for layer in program.layers for c in convolutions_of(layer)]
    return {
        i: measured[kernels.convolution].for_kernels(kernels.rows, is_depthwise=convolutions[i].kind.is_depthwise)
        for i, kernels in same.items()
        if kernels.convolution in measured
    }


# --- before and after ----------------------------------------------------------------------------------------------------


def compare_outputs(
    plain: EmulatedNetwork,
    others: Sequence[EmulatedNetwork],
    samples: Samples,
    progress: Progress = silent,
    *,
    on: Workers = HERE,
) -> list[tuple[Gain, ...]]:
    """Each output of the network, or the input of its softmax, against FP16 weights: from the first of the others to each later one.

    plain: with FP16 weights.
    """
    names = [_name(plain.program.layers[index]) for index in plain.program.outputs]
    signals = np.zeros(len(names))
    noises = np.zeros((len(others), len(names)))
    for signal, noise in each_batch(_compared, (plain, *others), samples, bind(progress, "calibrate: compare"), on):
        signals += signal
        noises += noise
    kept = [[decibels(*each) for each in zip(signals, noise, strict=True)] for noise in noises]
    return [tuple(map(Gain, names, kept[0], after)) for after in kept[1:]]


def _compared(batch: Batch) -> Outcome[tuple[Real, Real]]:
    """The power of each output of the first network, (outputs,), and of the differences of the others, (networks, outputs)."""

    def work() -> tuple[Real, Real]:
        right, *others = (
            [layers[_before_softmax(network.program, index)].astype(np.float64) for index in network.program.outputs]
            for network, layers in zip(batch.networks, batch.layers(), strict=True)
        )
        noises = [[np.sum(np.square(m - r)) for m, r in zip(maps, right, strict=True)] for maps in others]
        return np.array([np.sum(np.square(maps)) for maps in right]), np.array(noises)

    return attempted(work)


def _before_softmax(program: Program, index: int) -> int:
    """The layer whose map shows the quality of an output: a softmax hides errors when one class is certain."""
    layer = program.layers[index]
    source = layer.sources[0] if layer.is_softmax else None
    return index if source is None else source


def _name(layer: Layer) -> str:
    return layer.origins[-1].layer if layer.origins else layer.name
