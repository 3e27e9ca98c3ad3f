"""Measures the mean error that all palettes of a network leave together, for the biases of its last convolutions.

The bias of each layer takes up the mean error of its own weights, for the inputs that FP16 weights give. Behind activations and
maxima, errors of several layers have a mean of their own. The last convolutions see all of it, and little or nothing follows.
"""

from __future__ import annotations

from functools import partial as bind
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.fitting.gradients import slopes_of
from cnn_convertor.devices.dv700.fitting.layer_inputs import Batch, each_batch
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.weights.palettes import convolutions_of
from cnn_convertor.emulation.feature_maps import Maps, as_maps
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.ir.ops import PRelu
from cnn_convertor.progress import Progress, silent
from cnn_convertor.samples import Samples
from cnn_convertor.workers.outcomes import Outcome, attempted
from cnn_convertor.workers.processes import HERE, Workers

Real: TypeAlias = NDArray[np.float64]


def mean_errors(
    pair: tuple[EmulatedNetwork, EmulatedNetwork], samples: Samples, progress: Progress = silent, *, on: Workers = HERE
) -> dict[int, Real]:
    """What to subtract from the bias of each last convolution, (M,), by the index of the convolution.

    pair: a network with FP16 weights and a command for each convolution, and the same with palettes. The more a
    mean varies from sample to sample, the more it is shrunk towards 0 (James and Stein). A single sample gives no shift.
    """
    batches = list(each_batch(_errors, pair, samples, bind(progress, "calibrate: biases"), on))
    errors = {index: np.concatenate([batch[index] for batch in batches], axis=1) for index in batches[0]}
    return {index: shift for index, of_it in errors.items() if (shift := _shift(*of_it)) is not None}


def _shift(errors: Real, powers: Real) -> Real | None:
    """The shift of a bias that takes up the mean of the errors. None: nothing is known of it.

    errors: of each sample, (N, M), times the slopes of the activation; powers: of these slopes.
    """
    samples, power = len(errors), powers.sum(axis=0)
    if samples == 1 or not np.isfinite(errors).all():
        return None
    shift: Real = np.divide(errors.sum(axis=0), power, out=np.zeros_like(power), where=power > 0)
    wanted = float(np.square(shift) @ power)
    if wanted == 0:
        return None
    rest = np.square(errors - shift * powers).sum(axis=0) * samples / (samples - 1)
    uncertain = float(np.divide(rest, power, out=np.zeros_like(power), where=power > 0).sum())
    shift *= max(0.0, 1 - uncertain / wanted)
    return shift


def _errors(batch: Batch) -> Outcome[dict[int, Real]]:
    """For each last convolution the errors of the second network and the powers of slopes, (2, N, M), as in `_shift`."""

    def work() -> dict[int, Real]:
        program = batch.networks[0].program
        last = _last_convolutions(program)
        right, wrong = ([layers[number] for number in last.values()] for layers in batch.layers())
        return {
            index: _of_channels(program, number, *maps)
            for (index, number), *maps in zip(last.items(), right, wrong, strict=True)
        }

    return attempted(work)


def _of_channels(program: Program, number: int, right: Maps, wrong: Maps) -> Real:
    layer = program.layers[number]
    written, other = (as_maps(maps, layer, layer.output.shape) for maps in (right, wrong))
    errors = other.astype(np.float64) - written
    activation = layer.runs[0].activation
    slopes = np.ones_like(errors) if activation is None else slopes_of(activation, written)
    return np.stack([(slopes * errors).sum(axis=(1, 2)), np.square(slopes).sum(axis=(1, 2))])


def _last_convolutions(program: Program) -> dict[int, int]:
    """The convolutions behind which there is no other: their index, and the number of their layer. Slopes are none of them."""
    last: dict[int, int] = {}
    leads_on: set[int | None] = set()
    index = len(program.weights)
    for number in reversed(range(len(program.layers))):
        layer = program.layers[number]
        convolutions = convolutions_of(layer)
        index -= len(convolutions)
        if convolutions and number not in leads_on and not isinstance(layer.runs[0].activation, PRelu):
            last[index] = number
        if convolutions or number in leads_on:
            leads_on.update(layer.sources)
    return last
