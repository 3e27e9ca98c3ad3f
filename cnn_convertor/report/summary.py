"""A report's summary, as (label, value) rows for the terminal."""

import math
from collections.abc import Iterator

from cnn_convertor.devices.facts import DeviceFacts, KeptPrecision, Reason
from cnn_convertor.devices.intervals import Interval, milliseconds
from cnn_convertor.memory import Peak, Plan
from cnn_convertor.report.values import Report, Work

_NAMED = 5  # layers that one line names
_CUSTOM = "custom"  # what a layer does whose code is in the firmware: such networks are not calibrated
_UNCALIBRATED = '--calibrate with a few images may keep more; "verify --sensitivity" measures it with random ones'


def summary(report: Report) -> tuple[tuple[str, str], ...]:
    """What the network needs of the device and the CPU."""
    commands = len(report.commands)
    on_cpu = [step.does for step in report.on_cpu]
    evidence = [("evidence", f"{report.accepted} of {commands} commands rest on the driver's check alone")]
    return (
        ("device commands", str(commands)),
        *(evidence if report.accepted else []),
        ("CPU layers", f"{len(on_cpu)} ({', '.join(dict.fromkeys(on_cpu))})" if on_cpu else "0"),
        ("weights", _weights(report)),
        *(("weights", line) for line in _with_slopes(report)),
        *([("palettes", _UNCALIBRATED)] if _could_be_calibrated(report) else []),
        *([] if report.kept is None else [("outputs", _outputs(report.kept))]),
        *([] if report.memory is None else [("I/O buffer", buffer_text(report))]),
        *_estimated(report),
        *(("network", line) for line in report.notes[1:]),
    )


def details(report: Report) -> tuple[tuple[str, str], ...]:
    """More rows, for verbose output."""
    memory = report.memory
    return () if memory is None else (("I/O buffer", str(Peak(memory.peak_step, memory.peak_bytes, memory.peak_maps))),)


def buffer_text(report: Report) -> str:
    """The size of the I/O buffer, and whether it is known to be the smallest."""
    assert report.memory is not None
    return str(Plan({}, report.memory.bytes, report.memory.lower_bound, of_lines=report.memory.of_lines))


def map_traffic_text(work: Work) -> str:
    """The feature maps that the commands move, beside the lower bound; empty where nothing is known of it."""
    if not work.map_bytes or not work.least_map_bytes:
        return ""
    moved = f"The commands move {work.map_bytes:,} bytes of feature maps"
    if work.map_bytes == work.least_map_bytes:
        return f"{moved}, proven least."
    gap = work.map_bytes / work.least_map_bytes - 1
    return f"{moved}, at most {gap:.1%} above the least: no choice moves less than {work.least_map_bytes:,}."


def _platform(device: DeviceFacts) -> str:
    """The user driver and the hardware that the commands are for."""
    driver, hardware = (f"{figure.value}{' (assumed)' * figure.assumed}" for figure in (device.driver, device.hardware))
    return f"{driver}; date of the hardware: {hardware}"


def _estimated(report: Report) -> Iterator[tuple[str, str]]:
    """Rows about time and memory on the board."""
    if report.commands:
        if report.device.driver.value:
            yield "driver", _platform(report.device)
        if whole := shares(report):
            yield "estimate", f"{milliseconds(report.usec)} ms in all: {whole}"
        yield "estimate", times(report)
        if (other := report.other_between) is not None and report.on_cpu:
            overlap = f", less {milliseconds(other.overlap)} ms at the same time" if other.overlap.high else ""
            yield "estimate", f"with runtime = {other.runtime}, {milliseconds(other.usec)} ms between them{overlap}"
        text = f"the commands on {report.device.name} move {report.traffic / 1e6:,.2f} MB"
        starts = f"; {milliseconds(report.command_usec)} ms to start and end them" if report.command_usec.high else ""
        yield "estimate", f"{text}{starts}"
        model, _, source = report.device.provenance.rpartition("; ")
        yield from (("estimate", line) for line in (model, source) if line)
    if (board := report.board) is not None:
        usec = board.whole.usec
        commands = "not measured" if usec is None else f"{milliseconds(Interval.of(usec))} ms"
        verdict = "computes the same" if board.passed else "computes something else"
        parts = f"{commands} on the device, {milliseconds(Interval.of(board.cpu_usec))} ms on the CPU"
        between = f"{milliseconds(Interval.of(board.between_usec))} ms between them"
        yield "board", f"{parts}, {between}; {board.device} {verdict}"
    if size := report.palette_command_bytes:
        yield "command buffer", f"about {size:,} bytes more for palettes, which the driver expands"


def times(report: Report) -> str:
    """The parts of the time."""
    parts = ", ".join(f"{milliseconds(usec)} ms {words}" for words, usec in report.usec_by_part.items())
    if report.overlap_usec.high:
        parts += f"; {milliseconds(report.overlap_usec)} ms of it at the same time"
    left_out = f"; {report.uncounted} of the CPU layers left out"  # custom layers and the runtime's
    return f"{parts}{left_out * (report.uncounted > 0)}"


def shares(report: Report) -> str:
    """The parts of the time in percent, by their shorter ends."""
    whole = report.usec.low
    if not whole:
        return ""
    parts = ", ".join(f"{usec.low / whole:.0%} {words}" for words, usec in report.usec_by_part.items())
    overlap = report.overlap_usec.low / whole
    return f"{parts}; {overlap:.0%} of it at the same time" if overlap else parts


def _weights(report: Report) -> str:
    layers = {weights.layer for weights in report.weights}  # groups and slices of channels have weights of their own
    with_palette = {weights.layer for weights in report.weights if weights.palette}
    text = f"{report.weight_bytes:,} bytes"
    if not with_palette:
        return text
    before = sum(weights.fp16_bytes for weights in report.weights)
    return f"{text} (palettes in {len(with_palette)} of {len(layers)} layers; {before:,} bytes in FP16)"


def _with_slopes(report: Report) -> list[str]:
    """The layers that have FP16 weights though palettes were wanted."""
    layers = dict.fromkeys(weights.layer for weights in report.weights if weights.reason == Reason.PRELU.value)
    names = [f'"{layer}"' for layer in layers]
    more = [f"and {len(names) - _NAMED} more"] * (len(names) > _NAMED)
    shown = ", ".join([*names[:_NAMED], *more])
    return [f"FP16 for {shown}: the device has no palettes for layers with PReLU"] if names else []


def _could_be_calibrated(report: Report) -> bool:
    """Whether sample inputs may improve the palettes: those of the weights alone lose something, and no budget measured it."""
    loses = any(weights.palette and weights.sqnr != math.inf for weights in report.weights)
    chosen = report.calibration is not None or report.kept is not None
    return loses and not chosen and not any(step.does == _CUSTOM for step in report.on_cpu)


def _outputs(kept: KeptPrecision) -> str:
    """What the outputs keep of their precision."""
    choose = "1 sample chooses" if kept.samples == 1 else f"{kept.samples} samples choose"
    judge = "1 other judges" if kept.judges == 1 else f"{kept.judges} others judge"
    samples = f"{choose}, {judge}" if kept.judges else "1 sample"
    source = f"{samples}: {kept.source}"
    return f"{kept.sqnr:.1f} dB ({kept.wanted:g} wanted, {kept.with_all:.1f} with all possible palettes; {source})"


def decibels(ratio: float | None) -> str:
    """A ratio, for tables; empty for none."""
    if ratio is None:
        return ""
    return {math.inf: "exact", -math.inf: "none"}.get(ratio, f"{ratio:.1f}")
