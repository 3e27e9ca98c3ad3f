"""What a conversion made, as values for people and programs."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cnn_convertor import codegen
from cnn_convertor.calibration import Calibration
from cnn_convertor.devices.dv700.estimate import estimates, palette_command_bytes, provenance, total_usec
from cnn_convertor.devices.dv700.fusion.forms import count_accepted
from cnn_convertor.devices.dv700.operators import describe
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.program import LayerType, Program
from cnn_convertor.devices.dv700.weights import palettes
from cnn_convertor.devices.dv700.weights.palette_report import Reason, StoredLayer
from cnn_convertor.output_budget import Kept

_NO_WORK = {LayerType.CONV, LayerType.CONCAT, LayerType.INPUT}  # layers for which the CPU does nothing

_NAMED = 5  # layers that one line names


class Report(NamedTuple):
    """files: what was written. summary: (label, value) rows. weights: how the weights of each layer are stored.

    calibration: the effect of sample inputs on the palettes, if any were given. kept: what the outputs keep, where they decided
    on the palettes. details: more rows, for verbose output.
    """

    files: tuple[Path, ...]
    summary: tuple[tuple[str, str], ...]
    weights: tuple[StoredLayer, ...] = ()
    calibration: Calibration | None = None
    kept: Kept | None = None
    details: tuple[tuple[str, str], ...] = ()


def report_of(
    program: Program, files: tuple[Path, ...], calibration: Calibration | None, kept: Kept | None, profile: Profile
) -> Report:
    details = (("I/O buffer", str(program.plan.peak)),)
    return Report(files, summary(program, profile, kept), palettes.describe(program), calibration, kept, details)


def summary(program: Program, profile: Profile, kept: Kept | None = None) -> tuple[tuple[str, str], ...]:
    """What the network needs of the device and the CPU."""
    commands = sum(layer.type is LayerType.CONV for layer in program.layers)
    accepted = count_accepted(program, profile)
    evidence = [("evidence", f"{accepted} of {commands} commands rest on the driver's check alone")] if accepted else []
    on_cpu = cpu_layers(program)
    return (
        ("device commands", str(commands)),
        *evidence,
        ("CPU layers", f"{len(on_cpu)} ({', '.join(dict.fromkeys(on_cpu))})" if on_cpu else "0"),
        ("weights", _weights(program)),
        *(("weights", line) for line in _with_slopes(program)),
        *([] if kept is None else [("outputs", _outputs(kept))]),
        ("I/O buffer", str(program.plan)),
        *_estimated(program, profile),
        *(("network", line) for line in codegen.description(program)[1:]),
    )


def cpu_layers(program: Program) -> list[str]:
    """What the CPU computes, in words, for each layer of its own."""
    working = [layer for layer in program.layers if layer.type not in _NO_WORK]
    return [layer.type.name.lower() if layer.cpu is None else describe(layer.cpu) for layer in working]


def _estimated(program: Program, profile: Profile) -> Iterator[tuple[str, str]]:
    """Rows about time and memory on the board."""
    commands = estimates(program, profile)
    if commands:
        traffic = sum(command.nbytes for command in commands) / 1e6
        text = f"{total_usec(commands) / 1e3:.3g} ms, {traffic:,.2f} MB for the commands on {profile.name}"
        yield "estimate", f"{text} ({provenance(profile)})"
    if size := palette_command_bytes(program, profile):
        yield "command buffer", f"about {size:,} bytes more for palettes, which the driver expands"


def _weights(program: Program) -> str:
    stored = palettes.describe(program)
    with_palette = sum(layer.palette for layer in stored)
    text = f"{program.weight_bytes:,} bytes"
    if not with_palette:
        return text
    before = sum(layer.fp16_bytes for layer in stored)
    return f"{text} (palettes in {with_palette} of {len(stored)} layers; {before:,} bytes in FP16)"


def _with_slopes(program: Program) -> list[str]:
    """The layers that have FP16 weights though palettes were wanted."""
    names = [f'"{layer.layer}"' for layer in palettes.describe(program) if layer.reason is Reason.PRELU]
    more = [f"and {len(names) - _NAMED} more"] * (len(names) > _NAMED)
    shown = ", ".join([*names[:_NAMED], *more])
    return [f"FP16 for {shown}: the device has no palettes for layers with PReLU"] if names else []


def _outputs(kept: Kept) -> str:
    """What the outputs keep of their precision."""
    given = f"{kept.samples} samples: {kept.source}"
    return f"{kept.sqnr:.1f} dB ({kept.wanted:g} wanted, {kept.with_all:.1f} with all palettes; {given})"
