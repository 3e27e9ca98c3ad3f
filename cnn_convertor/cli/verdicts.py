"""What `verify` prints: tables of measures, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cnn_convertor.cli.grids import Grid, Item, decibels, numbered, share

if TYPE_CHECKING:
    from cnn_convertor.verification.on_board import BoardLayer, BoardVerification, Measured, Modelled
    from cnn_convertor.verification.results import Cause, Comparison, LayerResult, Verification

_MEASURES = ("SQNR dB", "cosine", "max error", "mean error", "agreement", "largest")
_LARGEST_HALF = 65504.0  # apart from what needs numpy, which takes long
_ALONE = "alone dB"
_BESIDE = ("FP16 dB", "palette dB", "FP16 agreement", "palette agreement", "same class")
_MOST_WRONG = 5  # maps that are named
_UNFUSED = "* compared with fusion = none: the configured fusion keeps this map out of memory"


def verification(result: Verification) -> list[Item]:
    """What was compared, how it compares, and the verdict."""
    stored = "palette weights" if result.palette else "FP16 weights"
    lines: list[Item] = [
        f"{result.network} against {result.framework}, {stored}: {numbered(result.samples, 'sample')} ({result.inputs})"
    ]
    for table in _verified(result):
        lines += [*table, ""]
    return [*lines, *_remarks(result), *_verdict(result)]


def _verified(result: Verification) -> Iterator[list[Item]]:
    yield [Grid.of("output", _MEASURES, [_cells(output) for output in result.outputs])]
    if result.beside:
        rows = [
            [b.fp16.name, decibels(b.fp16.sqnr), decibels(b.palette.sqnr)]
            + [share(part) for part in (b.fp16.agreement, b.palette.agreement, b.same_class)]
            for b in result.beside
        ]
        yield [Grid.of("weights", _BESIDE, rows)]
    if result.sensitivity:
        yield [_sensitivity(result)]
    if result.accuracies:
        rows = [[a.output, share(a.framework), share(a.device)] for a in result.accuracies]
        yield [Grid.of("accuracy", (result.framework, "device"), rows)]
    if result.layers:
        causes = tuple(dict.fromkeys(c.cause for layer in result.layers for c in layer.causes))
        with_alone = any(layer.alone is not None for layer in result.layers)
        measures = (_MEASURES[0], *[_ALONE] * with_alone, *_MEASURES[1:], *(cause.value for cause in causes))
        rows = [
            [
                f"{layer.comparison.name}{'*' * layer.unfused} ({layer.type})",
                *(cells := _cells(layer.comparison))[1:2],
                *["" if layer.alone is None else decibels(layer.alone)] * with_alone,
                *cells[2:],
                *_by_cause(layer, causes),
            ]
            for layer in result.layers
        ]
        notes = [f"  {_UNFUSED}"] * any(layer.unfused for layer in result.layers)
        yield [Grid.of("layer", measures, rows), *notes]


def _sensitivity(result: Verification) -> Grid:
    """Each output with FP16 weights in one layer alone."""
    names = [output.name for output in result.outputs]

    def row(layer: str, more_bytes: int, outputs: Mapping[str, float]) -> list[str]:
        return [layer, f"{more_bytes:,}", *(decibels(outputs[n]) if n in outputs else "" for n in names)]

    everywhere = {each.fp16.name: each.fp16.sqnr for each in result.beside}
    rows = [
        row("none", 0, {output.name: output.sqnr for output in result.outputs}),
        *([row("none, calibrated", 0, result.if_calibrated.outputs)] if result.if_calibrated else []),
        *(row(each.layer, each.more_bytes, each.outputs) for each in result.sensitivity),
        row("all", sum(each.more_bytes for each in result.sensitivity), everywhere),
    ]
    return Grid.of("FP16 in", ("more bytes", *(f"{name} dB" for name in names)), rows)


def _by_cause(layer: LayerResult, causes: Sequence[Cause]) -> list[str]:
    ratios = {c.cause: decibels(c.sqnr) for c in layer.causes}
    return [ratios.get(cause, "") for cause in causes]


def _remarks(result: Verification) -> Iterator[str]:
    """What to know of single outputs and layers."""
    for output in result.outputs:
        if output.doubt:
            shown = output not in result.unverified and output not in result.failed
            yield f'"{output.name}": {output.doubt}{", so a map before it is compared" * shown}'
    for layer in result.unjudged:
        yield f'not compared: "{layer.layer}": {layer.reason}'
    for name, reason in result.by_sqnr_alone.items():
        yield f'"{name}": judged by its SQNR alone: {reason}'
    if result.sensitivity and (best := result.sensitivity[0]).sqnr > result.least_sqnr:
        yield f'FP16 weights in "{best.layer}" alone help most for their bytes: {decibels(best.sqnr)} dB at the worst output'
    if result.if_calibrated:
        images = numbered(result.if_calibrated.samples, "other random image")
        yield f"calibrated: with {images}; with your own (--calibrate SAMPLES), outputs may keep more or less"
    for excess in result.wrong_maps[:_MOST_WRONG]:
        part = f", {excess.part}" if excess.part else ""
        yield (
            f'"{excess.layer}"{part}: {decibels(excess.sqnr)} dB on the framework\'s inputs, before any rounding; '
            f"a right layer has {decibels(excess.allowed)} or more"
        )
    for output in _lowered(result):
        yield f'"{output.name}": rounding alone leaves no more, so {decibels(output.allowed or 0.0)} dB are enough'


def _lowered(result: Verification) -> list[Comparison]:
    """Outputs that are verified with less than the threshold, since rounding allows no more."""
    return [each for each in result.outputs if each.sqnr < result.min_sqnr and each.reaches(result.min_sqnr)]


def verdict(result: Verification) -> str:
    """The verdict, on one line."""
    return next(_verdict(result))


def _verdict(result: Verification) -> Iterator[str]:
    """Whether it passes, or else the first reason why not."""
    from cnn_convertor.samples import UNPREPARED
    from cnn_convertor.verification.results import LEAST_FP16

    jump = "" if result.first_jump is None else f'; the error jumps at the layer "{result.first_jump}"'
    if result.passed:
        verb = "differs" if result.judged_maps == 1 else "differ"
        maps = f"; {numbered(result.judged_maps, 'map')} {verb} from the framework by rounding alone"
        judged = maps if result.judged_maps else ""
        allowed = ", or what FP16 allows" * bool(_lowered(result))
        yield f"pass: every output has {result.min_sqnr:g} dB or more{allowed}{judged}{jump}"
    elif result.stale_files:
        names = ", ".join(each.file for each in result.stale_files)
        yield f"fail: what runs is not what the conversion gives: {names}"
    elif result.different_layers:
        first, *more = result.different_layers
        also = f", and {len(more)} more" * bool(more)
        yield f'fail: "{first}" computes other bits than the program in memory{also}'
    elif result.failed_fp16:
        yield f"fail: {_names(result.failed_fp16)} below {LEAST_FP16:g} dB with FP16 weights{jump}"
    elif result.failed:
        yield f"fail: {_names(result.failed)} below {result.min_sqnr:g} dB{jump}"
        if result.inputs.endswith(UNPREPARED):
            yield "the network may take other values than these images: give mean and scale in the ini file, or --inputs"
        if not any(layer.causes for layer in result.layers):
            yield "--attribute shows the causes of each layer's error; docs/verify.md says what to do about them"
    elif result.wrong_maps:
        layers = list(dict.fromkeys(excess.layer for excess in result.wrong_maps))
        yield f'fail: "{layers[0]}" computes something else{f", and {len(layers) - 1} more" * (len(layers) > 1)}{jump}'
    elif result.unverified:
        yield f"not verified: the values of {_names(result.unverified)} prove nothing; try other --inputs"
    else:
        names = ", ".join(f'"{layer.layer}"' for layer in result.unjudged if not layer.is_verified)
        yield f"not verified: {names} cannot be compared; give the expected outputs with the inputs (see docs/verify.md)"


def _names(outputs: Sequence[Comparison]) -> str:
    return ", ".join(f'"{output.name}"' for output in outputs)


def _cells(comparison: Comparison) -> list[str]:
    """One line of a verification; a magnitude beyond FP16's is marked."""
    c = comparison
    largest = f"{c.largest:.4g}{' > 65504' * (c.largest > _LARGEST_HALF)}"
    numbers = [f"{c.cosine:.7f}", f"{c.max_error:.2g}", f"{c.mean_error:.2g}"]
    return [c.name, decibels(c.sqnr), *numbers, share(c.agreement), largest]


# --- verify --board ------------------------------------------------------------------------------------------------------

_BOARD = ("same dB", "max error", "board dB", "emulated dB", "us", "us, model", "bytes", "emulated")


def board_verification(result: BoardVerification) -> list[Item]:
    """How the board compares with the emulated device and with the framework, and the verdict."""
    lines: list[Item] = [
        f"{result.network} on the board against {result.framework}: {numbered(result.samples, 'sample')} ({result.inputs})",
        f"device: {result.device}",
        Grid.of("output", _MEASURES, [_cells(output) for output in result.outputs]),
        "",
        Grid.of("emulated", _MEASURES, [_cells(output) for output in result.emulated]),
        "",
        Grid.of("layer", _BOARD, [*map(_board_cells, result.layers), _whole_cells(result)]),
        "  same dB: the board against the emulated device, each on the inputs that the board had",
        "",
    ]
    return [*lines, board_verdict(result)]


def board_verdict(result: BoardVerification) -> str:
    """Whether the board passes, on one line."""
    if result.first_leaving is not None:
        return f'fail: the board leaves the emulation at the layer "{result.first_leaving}"'
    if result.failed:
        return f"fail: {_names(result.failed)} below {result.min_sqnr:g} dB, though every layer is as emulated"
    return f"pass: the board does what the emulated device does; every output has {result.min_sqnr:g} dB or more"


def _board_cells(layer: BoardLayer) -> list[str]:
    errors = ["" if error is None else decibels(error) for error in (layer.framework, layer.emulated)]
    measured, modelled = layer.measured, layer.modelled
    return [
        f"{layer.name}{' !' * (not layer.is_same)} ({layer.type})",
        decibels(layer.emulation.sqnr),
        f"{layer.emulation.max_error:.2g}",
        *errors,
        *_beside_model(measured, modelled),
    ]


def _whole_cells(result: BoardVerification) -> list[str]:
    return ["all", "", "", "", "", *_beside_model(result.whole, result.modelled)]


def _beside_model(measured: Measured, modelled: Modelled) -> list[str]:
    usec, nbytes = ("" if n is None else f"{n:,}" for n in (measured.usec, measured.nbytes))
    return [usec, modelled.usec.text(",.0f"), nbytes, f"{modelled.bytes:,}"]
