"""Chooses the layers with palettes so that the weights take few bytes while the outputs keep their SQNR.

Most samples choose; the others, which took no part in that, say whether the choice is accepted. The error of an output is measured on the emulated device, against the same network with FP16 weights that keeps its maps in FP32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.emulating import install_data
from cnn_convertor.devices.dv700.fitting.calibration import fitting_and_judging, refuse_custom_layers
from cnn_convertor.devices.dv700.fitting.layer_inputs import small_batches
from cnn_convertor.devices.dv700.runs import Program, Weights
from cnn_convertor.devices.dv700.variant_files import variants_of
from cnn_convertor.devices.dv700.weights.palette_report import Choice
from cnn_convertor.devices.dv700.weights.palettes import with_choices, without_palettes
from cnn_convertor.devices.facts import KeptPrecision, Reason
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.emulation.variants import Variants, judged_layers
from cnn_convertor.errors import Origin, Problem, UnsupportedError
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.ir.graph import Graph
from cnn_convertor.progress import Progress, silent
from cnn_convertor.quantize import decibels
from cnn_convertor.quantize.palette_layers import Effect, Layers, select
from cnn_convertor.samples import Samples

Real: TypeAlias = NDArray[np.float64]

_CHOOSING = 32  # samples: each set of layers runs with all of them
_ATTEMPTS = 4  # choices that the other samples may refuse
_MORE = 0.25  # dB beside what a refused choice lacks
_KEPT = 1 << 14  # errors of an output, over all samples, from which those of other sets of layers are predicted


def keep_outputs(
    graph: Graph,
    program: Program,
    samples: Samples,
    *,
    sqnr: float,
    device: Device,
    progress: Progress = silent,
) -> tuple[Program, KeptPrecision]:
    """The program with palettes that save many bytes while every output keeps the SQNR in dB.

    program: with a palette wherever one is possible. Palettes that lose nothing, and what the ini file says, stay.
    Raises UnsupportedError when even FP16 weights do not keep it, UsageError for networks with custom layers and without a C++
    compiler.
    """
    refuse_custom_layers(program, "quantization_output_sqnr", "use quantization_threshold")
    fitting, judging = fitting_and_judging(samples)
    choosing = replace(fitting, inputs={name: values[:_CHOOSING] for name, values in fitting.inputs.items()})
    with temporary_folder() as folder:
        plain = without_palettes(program)
        variants = variants_of(install_data(graph, plain, folder, device=device), program)
        names = [n for n, indices in variants.layers.items() if any(_is_open(program.weights[i]) for i in indices)]
        fixed = frozenset(variants.layers) - frozenset(names)
        savings = [variants.saved_bytes[name] for name in names]
        choose, judge = (_Meter(variants, samples) for samples in (choosing, judging))

        @cache
        def measure(layers: Layers) -> Effect:
            progress("measure outputs", measure.cache_info().currsize, 2 * len(names))
            return choose.effect(fixed | {names[i] for i in layers})

        @cache
        def kept(layers: Layers) -> float:
            return decibels(1.0, judge.effect(fixed | {names[i] for i in layers}).noise)

        chosen = _accepted(savings, measure, kept, sqnr)
        if kept(chosen) < sqnr:
            raise UnsupportedError(_missed(program, judging, sqnr, kept(chosen)))
        with_all = kept(Layers(range(len(names))))
    judges = 0 if judging is fitting else judging.count
    budget = KeptPrecision(sqnr, kept(chosen), with_all, choosing.count, judges, samples.source)
    return _without(program, frozenset(names) - {names[i] for i in chosen}), budget


def _accepted(
    savings: Sequence[int], measure: Callable[[Layers], Effect], kept: Callable[[Layers], float], sqnr: float
) -> Layers:
    """The layers that save many bytes while the samples that did not choose them keep the SQNR, if any choice does.

    kept: dB on those samples. A choice that they refuse is made once more with what it lacks; in the end no layer has a palette.
    """
    wanted = sqnr
    for _ in range(_ATTEMPTS):
        chosen = select(savings, measure, 10 ** (-wanted / 10))
        if chosen is None:
            break
        if (reached := kept(chosen)) >= sqnr:
            return chosen
        wanted += sqnr - reached + _MORE
    return Layers()


def _missed(program: Program, judging: Samples, goal: float, reached: float) -> Problem:
    forced = {w.layer: None for w in program.weights if w.choice and w.choice.loses and not _is_open(w)}
    apart = f" in all layers but {', '.join(forced)}, which [QUANTIZATION] names" if forced else ""
    problem = (
        f"the outputs keep {reached:.1f} dB, not {goal:g}, even with FP16 weights{apart} "
        f"(on {judging.count} of the samples: {judging.source})"
    )
    hint = "a smaller quantization_output_sqnr, or other samples (--calibrate)"
    return Problem("DV505", problem, Origin(program.name), f"FP16 for these layers, {hint}" if forced else hint)


def _is_open(weights: Weights) -> bool:
    """Whether a palette may be given up."""
    assert weights.choice is not None, "palettes are chosen first"
    return weights.choice.reason is Reason.KEPT


def _without(program: Program, layers: frozenset[str]) -> Program:
    """The program with FP16 weights in some layers."""

    def chosen(weights: Weights) -> Choice:
        assert weights.choice is not None
        gives_up = weights.layer in layers and _is_open(weights)
        return (
            weights.choice._replace(palette=None, kernels=None, bias=None, reason=Reason.MISSED)
            if gives_up
            else weights.choice
        )

    return with_choices(program, [chosen(weights) for weights in program.weights])


# --- measuring -----------------------------------------------------------------------------------------------------------


class _Meter:
    """Measures the noise of the outputs, over their signal."""

    def __init__(self, variants: Variants, samples: Samples) -> None:
        self._variants, self._samples = variants, samples
        self._judged = judged_layers(variants.network.program)
        self._right = list(self._maps(variants.network, exact=True))
        self._signals = [sum(float(np.square(maps[i]).sum()) for maps in self._right) for i in range(len(self._judged))]

    def effect(self, layers: frozenset[str]) -> Effect:
        """That of the palettes of some layers. The errors are those of some elements, always the same."""
        noises = np.zeros(len(self._judged))
        errors: list[list[Real]] = [[] for _ in self._judged]
        random = np.random.default_rng(0)
        with self._variants.with_palettes(layers) as network, np.errstate(invalid="ignore", divide="ignore"):
            for right, maps in zip(self._right, self._maps(network), strict=True):
                for i, signal in enumerate(self._signals):
                    error = (maps[i] - right[i]).reshape(-1)
                    noises[i] += np.square(error).sum()
                    errors[i].append(self._some(error, len(maps[i]), random) / math.sqrt(signal or math.nan))
        rows = [np.concatenate(parts_of_it) for parts_of_it in errors]
        longest = max(row.size for row in rows)
        return Effect(
            max(map(_ratio, noises.tolist(), self._signals)),
            np.stack([np.pad(row, (0, longest - row.size)) for row in rows]),
        )

    def _some(self, values: Real, samples: int, random: np.random.Generator) -> Real:
        """As many of the values as memory has room for, scaled so that their squares add up to nearly the same."""
        share = max(1, _KEPT * samples // self._samples.count)
        if values.size <= share:
            return values
        return values[random.integers(values.size, size=share)] * math.sqrt(values.size / share)

    def _maps(self, network: EmulatedNetwork, *, exact: bool = False) -> Iterator[Sequence[Real]]:
        """The judged maps of the samples, a batch at a time."""
        for inputs in small_batches(network.program, self._samples):
            layers = network.run(inputs, layers=True, exact=exact).layers
            yield [layers[index].astype(np.float64) for index in self._judged]


def _ratio(noise: float, signal: float) -> float:
    """Infinite where a value is not finite."""
    if noise == 0:
        return 0.0
    return noise / signal if signal > 0 and math.isfinite(noise + signal) else math.inf
