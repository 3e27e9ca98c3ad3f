"""Decides which layers of a program have a palette, and fits those: several at a time, each to its layer's weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial as bind
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.runs import Convolution, Layer, Program, Run, Weights
from cnn_convertor.devices.dv700.weights.palette_report import Choice
from cnn_convertor.devices.facts import Reason, StoredWeights
from cnn_convertor.devices.half import to_half
from cnn_convertor.devices.settings import Override, Quantization, QuantizationOptions
from cnn_convertor.errors import Origin, Problem, UnsupportedError, UsageError, assert_never, near_names
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import ONE
from cnn_convertor.quantize import Counted, Counts, fit_all, histogram, measure, processes_to_fit
from cnn_convertor.workers.pool import in_order, share

FINITE = (np.arange(1 << 16) & 0x7FFF) < 0x7C00  # FP16 bit pattern -> whether it is a finite number

Progress: TypeAlias = Callable[[int, int], None]  # weights whose palette is fitted, of how many


class _Target(NamedTuple):
    """Whether a layer is to have a palette, and why. None: that depends on what the palette loses."""

    palette: bool | None
    reason: Reason


def choose(program: Program, options: QuantizationOptions, progress: Progress = lambda *_: None) -> Program:
    """The program with its weights stored as is wished, and with the palettes.

    Raises UsageError for layers of the ini file that the network does not have, UnsupportedError for palettes that the
    device refuses.
    """
    overrides = _overrides(program, options.overrides)
    convolutions = tuple(c for layer in program.layers for c in convolutions_of(layer))
    targets = [_target(c, override, options) for c, override in zip(convolutions, overrides, strict=True)]
    fitted = fit_weights(
        {i: c.weights for i, c in enumerate(convolutions) if targets[i].palette is not False}, {}, progress
    )
    choices = [_decided(target, fitted.get(i), options.threshold) for i, target in enumerate(targets)]
    return with_choices(program, choices)


def convolutions_of(layer: Layer) -> tuple[Convolution, ...]:
    return tuple(run.convolution for run in layer.runs if run.convolution is not None)


def with_choices(program: Program, choices: Sequence[Choice]) -> Program:
    """The program with each convolution's weights stored as chosen, at the offsets that follow from it."""
    new = iter(choices)
    end = 0
    layers = []
    for layer in program.layers:
        runs = []
        for run in layer.runs:
            if run.convolution is not None:
                choice = next(new)
                weights = run.convolution.weights
                packed = replace(weights.packed, palette=choice.palette is not None)
                weights = replace(weights, offset=end, packed=packed, choice=choice)
                end += weights.nbytes
                run = replace(run, convolution=replace(run.convolution, weights=weights))
            runs.append(run)
        layers.append(replace(layer, runs=tuple(runs)))
    return replace(program, layers=tuple(layers))


def has_palettes(program: Program) -> bool:
    return any(weights.packed.palette for weights in program.weights)


def without_palettes(program: Program) -> Program:
    """The same commands with FP16 weights."""
    return with_choices(program, [Choice(None, None, Reason.ASKED) for _ in program.weights])


def decoded(program: Program) -> Program:
    """The same program with FP16 weights of the values that its palettes give: its maps are equal, bit for bit."""
    layers = without_palettes(program).layers
    stored = iter(program.weights)

    def new(run: Run) -> Run:
        if run.convolution is None:
            return run
        choice, plain = next(stored), run.convolution.weights
        return replace(run, convolution=replace(run.convolution, weights=_decoded(plain, choice)))

    layers = tuple(replace(layer, runs=tuple(map(new, layer.runs))) for layer in layers)
    return replace(program, layers=layers)


def _decoded(plain: Weights, stored: Weights) -> Weights:
    """The FP16 weights with the values and the bias of the stored ones."""
    if stored.choice is None or stored.choice.palette is None:
        return plain
    palette = stored.choice.palette
    kernels = stored.stored_kernels.map_rows(
        lambda w: palette.centers[palette.index[to_half(w).view(np.uint16)]].astype(np.float32)
    )
    return replace(plain, kernels=kernels, bias=stored.stored_bias)


def with_weights_of(program: Program, other: Program) -> Program:
    """A program with the palettes of another one of the same network, whose commands differ.

    program: without slices of channels. Where the other one has some, each with its palette, the weights are FP16 with the values
    that these give.
    """
    sliced: dict[int, list[Weights]] = {}
    for index, kernels in same_kernels(other, program).items():
        sliced.setdefault(kernels.convolution, []).append(other.weights[index])
    return with_choices(program, [_joined(weights, sliced.get(i, [])) for i, weights in enumerate(program.weights)])


def _joined(weights: Weights, slices: Sequence[Weights]) -> Choice:
    """How weights are stored whose slices another program stores in these ways."""
    first = slices[0].choice if slices else None
    choice = first or Choice(None, None, Reason.ASKED)
    if len(slices) < 2 or not any(each.packed.palette for each in slices):
        return choice
    values = [_decoded(each, each) for each in slices]
    starts = [*accumulate((each.packed.kernels for each in slices), initial=0)]

    def read(rows: slice) -> NDArray[np.float32]:
        parts = zip(starts, values, strict=False)
        return np.concatenate(
            [each.kernels.load(slice(max(0, rows.start - start), max(0, rows.stop - start))) for start, each in parts]
        )

    biases = [np.zeros(each.packed.kernels) if each.bias is None else each.bias.load() for each in values]
    return Choice(None, None, choice.reason, Constant(weights.kernels.shape, read), Constant.of(np.concatenate(biases)))


class SameKernels(NamedTuple):
    """Some kernels of a program's convolution, which has this index."""

    convolution: int
    rows: slice


def same_kernels(program: Program, other: Program) -> dict[int, SameKernels]:
    """For convolutions of a program, where their kernels are in another one of the same network, without slices of channels.

    Those of one layer have the same order in both. Where one program has some that the other lacks, none of the layer are known.
    """
    # Convolutions of the other program, by the layer and the number of the kernel that comes next.
    waiting: dict[tuple[object, int], deque[int]] = {}
    for index, weights in enumerate(other.weights):
        waiting.setdefault((identity(weights), 0), deque()).append(index)
    counts = {key: len(indices) for (key, _), indices in waiting.items()}
    matches: dict[int, SameKernels] = {}
    for i, weights in enumerate(program.weights):
        key, end = identity(weights), weights.first + weights.packed.kernels
        if there := waiting.get((key, weights.first)):
            matches[i] = SameKernels(there.popleft(), slice(weights.first, end))
            waiting.setdefault((key, end), deque()).append(matches[i].convolution)
        else:
            counts.pop(key, None)
    ends = {i: other.weights[kernels.convolution].packed.kernels for i, kernels in matches.items()}
    keys = {i: identity(program.weights[i]) for i in matches}
    return {i: matches[i] for i in matches if len(waiting.get((keys[i], ends[i]), ())) == counts.get(keys[i])}


def identity(weights: Weights) -> object:
    """What the same weights have in common in programs that differ in their commands and palettes."""
    kernels = weights.whole or weights.packed.kernels
    return weights.where, replace(weights.packed, palette=False, kernels=kernels)


def split_layers(program: Program) -> dict[str, bool]:
    """The layers whose PReLU is a run of its own -> whether they have a palette."""
    convolutions = [(run, c) for layer in program.layers for run in layer.runs if (c := run.convolution) is not None]
    slopes = {origin.layer for run, convolution in convolutions if is_slopes(convolution) for origin in run.origins}
    others = (c.weights for _, c in convolutions if not is_slopes(c))
    return {weights.layer: weights.packed.palette for weights in others if weights.layer in slopes}


def is_slopes(convolution: Convolution) -> bool:
    """Whether a convolution does nothing but a PReLU."""
    return convolution.weights.packed.prelu and convolution.kind.is_depthwise and convolution.kernel == ONE


def describe(program: Program) -> tuple[StoredWeights, ...]:
    """How the weights of each layer are stored, in the order of the weight buffer."""
    described = []
    for step, layer in enumerate(program.layers):
        for number, run in enumerate(layer.runs):
            if run.stored is not None and run.stored.choice is not None:
                described.append(_stored(run.stored, run.stored.choice, step, number))
    return tuple(described)


def _stored(weights: Weights, choice: Choice, step: int, run: int) -> StoredWeights:
    quality = choice.quality
    return StoredWeights(
        layer=weights.layer,
        step=step,
        run=run,
        palette=choice.palette is not None,
        reason=choice.reason.value,
        distinct=None if quality is None else quality.distinct,
        zeros=None if quality is None else quality.zeros / max(1, quality.weights),
        sqnr=None if quality is None else quality.sqnr,
        fp16_bytes=replace(weights.packed, palette=False).nbytes,
        bytes=weights.nbytes,
    )


# --- which layers --------------------------------------------------------------------------------------------------------


def _target(convolution: Convolution, override: bool | None, options: QuantizationOptions) -> _Target:
    packed = convolution.weights.packed
    if override is not None:
        return _Target(override and not packed.prelu, Reason.OVERRIDE)
    match options.quantization:
        case Quantization.FP16:
            return _Target(False, Reason.ASKED)
        case _ if is_slopes(convolution):
            return _Target(False, Reason.SLOPES)
        case Quantization.PALETTE:
            return _Target(not packed.prelu, Reason.PRELU if packed.prelu else Reason.ASKED)
        case Quantization.AUTO:
            if packed.prelu:
                return _Target(False, Reason.PRELU)
            if convolution.kind.is_depthwise and options.threshold is not None:
                return _Target(False, Reason.DEPTHWISE)
            if replace(packed, palette=True).nbytes >= replace(packed, palette=False).nbytes:
                return _Target(False, Reason.LARGER)
            return _Target(None, Reason.LOSSY)
        case _:
            assert_never(options.quantization)


def _decided(target: _Target, fitted: Choice | None, threshold: float | None) -> Choice:
    if fitted is None or fitted.quality is None:
        return Choice(None, None, target.reason)
    if target.palette is not None:
        return fitted._replace(reason=target.reason)
    if fitted.quality.noise == 0:
        return fitted._replace(reason=Reason.LOSSLESS)
    if threshold is None:
        return fitted._replace(reason=Reason.KEPT)
    if fitted.quality.sqnr >= threshold:
        return fitted._replace(reason=Reason.CLOSE)
    return fitted._replace(palette=None, reason=Reason.LOSSY)


def _overrides(program: Program, overrides: Sequence[Override]) -> list[bool | None]:
    """For each convolution whether the ini file wants a palette, or None if it does not say."""
    origins = [weights.where or Origin("") for weights in program.weights]
    with_weights = {origin.layer for origin in origins}
    everywhere = {origin.layer for layer in program.layers for origin in layer.origins}
    on_cpu = {array.where.layer for array in program.arrays if array.where is not None}  # FP16 in any case
    known = with_weights | on_cpu
    strangers = [_stranger(o, with_weights, everywhere) for o in overrides if o.layer not in known]
    if strangers:
        raise UsageError(strangers)
    said = {override.layer: override for override in overrides}
    split = {weights.layer for weights in program.weights if not weights.packed.prelu}
    refused = [
        Problem(
            "DV430",
            f"the ini file ({said[where.layer].where}) asks for a palette, which the device does not have for PReLU slopes",
            where,
            "fp16 for this layer, or train it with another activation",
        )
        for where, weights in zip(origins, program.weights, strict=True)
        if where.layer in said and said[where.layer].palette and where.layer not in split
    ]
    if refused:
        raise UnsupportedError(refused)
    return [said[origin.layer].palette if origin.layer in said else None for origin in origins]


def _stranger(override: Override, with_weights: set[str], everywhere: set[str]) -> Problem:
    what = "the device's kernels do not come from it" if override.layer in everywhere else "there is no such layer"
    close = near_names(override.layer, sorted(with_weights), n=3)
    names = ", ".join(f'"{name}"' for name in close or sorted(with_weights)[:3])
    hint = f"the name of a convolution or a fully connected layer, like {names}" if names else ""
    return Problem("DV130", f"[QUANTIZATION] {override.layer}: {what}", override.where, hint)


# --- fitting -------------------------------------------------------------------------------------------------------------


def fit_weights(
    which: Mapping[int, Weights],
    importances: Mapping[int, NDArray[np.float64]],
    progress: Progress = lambda *_: None,
) -> dict[int, Choice]:
    """A palette for each of the weights, by its key. Weights that are not finite in FP16 get none; they are refused later.

    importances: what an error of a weight counts, where they differ: (M or 1, C, ky, kx).
    """
    order = sorted(which, key=lambda i: which[i].kernels.size, reverse=True)  # the last ones are done at the same time
    total = sum(weights.kernels.size for weights in which.values())
    counted: dict[int, NDArray[np.int64]] = {}

    def all_counts() -> Iterator[Counted]:
        for i in order:
            counts, means = count(which[i].kernels)
            if not counts[~FINITE].any():
                counted[i] = counts
                yield count_importance(which[i].kernels, importances[i]) if i in importances else Counted(counts, means)

    processes = min(share(), processes_to_fit(weights.kernels.size for weights in which.values()))
    fitted: dict[int, Choice] = {}
    done = 0
    if which:
        progress(done, total)
    for palette in fit_all(all_counts(), bind(in_order, processes=processes)):
        i = next(iter(counted))
        fitted[i] = Choice(palette, measure(palette, counted.pop(i)), Reason.ASKED)
        done += which[i].kernels.size
        progress(done, total)
    return fitted


def count(kernels: Constant) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """How often each FP16 bit pattern occurs in the kernels, and the mean of the FP32 weights that become it."""
    counts, lost = np.zeros(1 << 16, np.int64), np.zeros(1 << 16)
    for rows in kernels.ranges():
        weights = kernels.load(rows)
        half = to_half(weights)
        counts += histogram(half)
        lost += _sums(half, _lost(weights, half))
    return counts, _means(counts, lost)


def count_importance(kernels: Constant, importance: NDArray[np.float64]) -> Counted:
    """What the weights of each FP16 bit pattern count: the sum of their importance, (M or 1, C, ky, kx)."""
    counts, lost = np.zeros(1 << 16), np.zeros(1 << 16)
    for rows in kernels.ranges():
        weights = kernels.load(rows)
        half = to_half(weights)
        each = np.broadcast_to(importance[rows] if len(importance) > 1 else importance, half.shape)
        counts += _sums(half, each)
        lost += _sums(half, each * _lost(weights, half))
    return Counted(counts, _means(counts, lost))


def _lost(weights: NDArray[np.float32], half: NDArray[np.float16]) -> NDArray[np.float32]:
    """What rounding to FP16 takes away, which FP32 holds exactly."""
    with np.errstate(invalid="ignore"):  # infinity less infinity: such weights are refused later
        return weights - half.astype(np.float32)


def _sums(half: NDArray[np.float16], values: NDArray[np.floating]) -> NDArray[np.float64]:
    """The sum of the values that belong to each bit pattern, added in their order."""
    return np.bincount(half.view(np.uint16).reshape(-1), values.reshape(-1), 1 << 16).astype(np.float64, copy=False)


def _means(counts: Counts, lost: NDArray[np.float64]) -> NDArray[np.float64]:
    means = np.zeros(1 << 16)
    np.divide(lost, counts, out=means, where=counts > 0)
    means[FINITE] += np.flatnonzero(FINITE).astype(np.uint16).view(np.float16)
    return means
