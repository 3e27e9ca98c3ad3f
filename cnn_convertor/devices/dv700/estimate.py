"""Estimates what a program costs on a board: cycles, bytes of external memory, and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cnn_convertor.devices.dv700.cpu_costs import ASSUMPTIONS as OF_CPU
from cnn_convertor.devices.dv700.cpu_costs import estimate_on_cpu
from cnn_convertor.devices.dv700.fusion.ub_fit import strips
from cnn_convertor.devices.dv700.profile import USUAL_MULTIPLIERS, Measurement, Profile
from cnn_convertor.devices.dv700.runs import Layer, Program, Run, operand_of
from cnn_convertor.devices.dv700.timetable import Act, Timetable, costs_of, overlap_of, timetable_of
from cnn_convertor.devices.dv700.weights.streams import BLOCK
from cnn_convertor.devices.facts import LEFT_OUT, Between, CpuCost
from cnn_convertor.devices.figures import Figure
from cnn_convertor.devices.intervals import Interval, larger
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.settings import Runtime
from cnn_convertor.ir.ops import ONE, Window

HALF = 2  # bytes of an element
# What the model takes for granted, and the evidence.
ASSUMPTIONS = (
    (
        "a cycle multiplies one tile of 72 weights for 8 output channels, with 576 multipliers",
        "mac_num; no measurement",
    ),
    ("a device with other multipliers is faster or slower in proportion", "no measurement"),
    ("pools, additions and activations take no cycles", "no measurement"),
    ("a command reads its input for each branch and again where tiles overlap, and its weights once", "no measurement"),
    (
        "a command takes as long as the slower of arithmetic and memory, plus `command_usec` to start and end",
        "no measurement",
    ),
    ("commands do not overlap", "no measurement"),
    (
        "with the SDK's runtime, each change to the CPU, and each to the device, needs cache maintenance for the whole I/O buffer",
        "the runtime's calls",
    ),
    (
        "with a generated runtime, cache maintenance costs as much for each byte of a range",
        "no measurement",
    ),
    (
        "with a generated runtime, commands and layers on the CPU that run at the same time do not slow each other",
        "no measurement",
    ),
    *OF_CPU,
)


class Estimate(NamedTuple):
    """What a command costs. The bytes are those that the counters of the emulated device show; operand is of an addition.

    command_usec: to start and end it.
    """

    cycles: int
    input_bytes: int
    operand_bytes: int
    output_bytes: int
    weights_bytes: int
    compute_usec: Interval
    memory_usec: Interval
    command_usec: Interval

    @property
    def nbytes(self) -> int:
        return self.input_bytes + self.operand_bytes + self.output_bytes + self.weights_bytes

    @property
    def bound(self) -> str:
        """What the command waits for. The shorter ends decide: those of the fastest clock and memory."""
        return "compute" if self.compute_usec.low > self.memory_usec.low else "memory"

    @property
    def work_usec(self) -> Interval:
        return larger(self.compute_usec, self.memory_usec)

    @property
    def usec(self) -> Interval:
        return self.work_usec + self.command_usec


def estimate(runs: Sequence[Run], *, operand_bytes: int, profile: Profile, element_bytes: int = HALF) -> Estimate:
    """The cost of a command with these runs on a device. element_bytes: of its input."""
    cycles = -(-sum(map(run_cycles, runs)) * USUAL_MULTIPLIERS // profile.multipliers.value)
    ub_size = profile.ub_size.value
    input_bytes = sum(_elements_read(run, ub_size) for run in _first_runs(runs)) * element_bytes
    output_bytes = sum(run.output.size for run in runs if run.external) * HALF
    weights_bytes = sum(run.weights.packed.nbytes for run in runs if run.weights is not None)
    nbytes = input_bytes + operand_bytes + output_bytes + weights_bytes
    return Estimate(
        cycles=cycles,
        input_bytes=input_bytes,
        operand_bytes=operand_bytes,
        output_bytes=output_bytes,
        weights_bytes=weights_bytes,
        compute_usec=cycles / profile.conv_freq.value,
        memory_usec=nbytes / profile.bandwidth.value,
        command_usec=profile.command_usec.value,
    )


def changes(program: Program, profile: Profile, runtime: Runtime) -> Between:
    """What a runtime spends between the sides; the application and the CPU take over from the device."""
    generated = replace(program.generated(), runtime=runtime, cache_line=profile.cache_line.value)
    overlap = Interval.of(0.0)
    timetable = timetable_for(generated, profile)
    if timetable is None:
        lists, pairs = _of_sdk(generated.layers)
        nbytes = 2 * pairs * program.io_bytes
    else:
        overlap = overlap_of(timetable, _layer_costs(generated, profile))
        lists = len(timetable.lists)
        acts = [action.act for action in timetable.actions]
        pairs = acts.count(Act.END_ACCESS) or lists
        nbytes = timetable.maintained + program.io_bytes * (acts.count(Act.END_ACCESS) + acts.count(Act.BEGIN_ACCESS))
    usec = profile.list_usec.value * lists + nbytes / profile.cache_rate.value
    return Between(runtime.value, lists, pairs, nbytes, usec, overlap)


def _of_sdk(layers: Sequence[Layer]) -> tuple[int, int]:
    """How many lists and changes of sides the SDK's runtime makes: it puts commands that follow each other into one list."""
    lists = [index for index, layer in enumerate(layers) if layer.runs and not _continues(layers, index)]
    sides = [layer.type.executor for layer in layers if layer.type.executor != "none"]
    pairs = sum(side == "device" and (index == 0 or sides[index - 1] == "cpu") for index, side in enumerate(sides))
    return len(lists), pairs


def timetable_for(program: Program, profile: Profile) -> Timetable | None:
    """When a generated runtime does what, in a program whose layers have the order of the generated network; None for the SDK's."""
    if program.runtime is Runtime.SDK:
        return None
    return timetable_of(program, _layer_costs(program, profile), profile.list_usec.value)


def _layer_costs(program: Program, profile: Profile) -> tuple[Interval, ...]:
    """The time of each layer."""
    return costs_of(program, [cost.usec for cost in estimates(program, profile)], profile)


def change_usec(profile: Profile, runtime: Runtime, io_bytes: int, map_bytes: int) -> Interval:
    """One change between device and CPU for a map: half of a command list with its changes before and after it."""
    by_ranges = runtime is Runtime.GENERATED and profile.cache_line.value
    return profile.list_usec.value / 2 + (map_bytes if by_ranges else io_bytes) / profile.cache_rate.value


def _continues(layers: Sequence[Layer], index: int) -> bool:
    """Whether a command is in the list of the one before."""
    return index > 0 and layers[index - 1].type is LayerType.CONV


def cpu_estimates(program: Program, profile: Profile) -> tuple[CpuCost | None, ...]:
    """The cost of each layer on the CPU; None for the others, and where nothing is known of it."""
    return tuple(estimate_on_cpu(layer, profile, program.cpu_threads) for layer in program.layers)


def estimates(program: Program, profile: Profile) -> tuple[Estimate, ...]:
    """The cost of each command of a program, in order."""
    costs = []
    for index, layer in enumerate(program.layers):
        if layer.runs:
            operand = operand_of(layer)
            operand_bytes = 0 if operand is None else operand.nbytes
            # The first command alone converts bytes.
            element_bytes = HALF if index or program.byte_input is None else 1
            costs.append(
                estimate(layer.runs, operand_bytes=operand_bytes, profile=profile, element_bytes=element_bytes)
            )
    return tuple(costs)


def run_cycles(run: Run) -> int:
    """Cycles of a run with one tile of weights for 8 output channels a cycle."""
    if run.weights is None:
        return 0
    packed = run.weights.packed
    output = run.output if run.convolution is None else run.convolution.output
    taps = packed.kernel.height * packed.kernel.width if packed.dilated else 1
    return output.height * output.width * -(-packed.kernels // BLOCK) * packed.tiles * taps


def _first_runs(runs: Sequence[Run]) -> list[Run]:
    """The runs that read the command's input."""
    return [run for index, run in enumerate(runs) if index == 0 or runs[index - 1].external]


def _elements_read(run: Run, ub_size: int) -> int:
    """Elements that a run reads of the command's input: neighboring tiles share columns."""
    height, width, channels = run.input
    count = strips(run, ub_size=ub_size) or 1
    columns = width
    if count > 1 and run.convolution is not None:
        kernel, dilation = run.convolution.kernel, run.convolution.dilation
        reach = max(kernel) | 1 if dilation == ONE else Window(kernel, dilation=dilation).extent.width
        columns = min(width + (count - 1) * min(reach - 1, width), count * width)
    return height * columns * channels


# --- measurements --------------------------------------------------------------------------------------------------------


class EstimateError(NamedTuple):
    """How far the model is from what a board measured: |estimate / measurement - 1|, of the nearer end."""

    commands: int
    median: float
    largest: float


def model_error(profile: Profile) -> EstimateError | None:
    """The error of the model on the commands that a probe measured; None without measurements."""
    errors = [_error(row, profile) for row in profile.measured]
    if not errors:
        return None
    from statistics import median  # here, as it takes long

    return EstimateError(len(errors), median(errors), max(errors))


def _error(row: Measurement, profile: Profile) -> float:
    clock = profile.conv_freq.value * (profile.multipliers.value / USUAL_MULTIPLIERS)
    work = larger(row.cycles / clock, row.nbytes / profile.bandwidth.value)
    usec = work + profile.command_usec.value * row.commands
    return max(usec.low / row.usec - 1, 1 - usec.high / row.usec, 0.0)


def provenance(profile: Profile) -> str:
    """Where the estimated times come from, and what they leave out, in words."""
    error = model_error(profile)
    if error is not None:
        text = f"model; {LEFT_OUT}; on {error.commands} commands of the probe its median error is {error.median:.0%}"
        return f"{text}, its largest {error.largest:.0%}"
    figures: tuple[Figure[Any], ...] = (
        *(profile.conv_freq, profile.bandwidth, profile.multipliers, profile.command_usec, profile.list_usec),
        *(profile.cache_rate, profile.cpu, profile.cpu_freq, profile.cpu_cores),
    )
    assumed = sum(figure.is_assumed for figure in figures)
    parts = ["model", LEFT_OUT]
    if assumed:
        share = f"all {len(figures)}" if assumed == len(figures) else f"{assumed} of {len(figures)}"
        parts.append(f"{share} board figures are assumptions (see `devices`)")
    return "; ".join(parts)


# --- palettes on the DV740 -----------------------------------------------------------------------------------------------

_RUN_BYTES, _BLOCK_BYTES = 224, 32  # about, from the user driver


def palette_command_bytes(program: Program, profile: Profile) -> int:
    """About how many bytes of its command buffer a driver needs that expands palettes there; 0 for other drivers."""
    if not profile.expands_palettes.value:
        return 0
    packed = [weights.packed for weights in program.weights if weights.packed.palette]
    blocks = sum(-(-shape.channels // BLOCK) * -(-shape.kernels // BLOCK) for shape in packed)
    return _RUN_BYTES * len(packed) + _BLOCK_BYTES * blocks
