"""How long the CPU takes for its layers: the cycles of each function, on each processor."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from cnn_convertor.devices.cpu_functions import CpuKernelCall, kernel_call
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.runs import Layer
from cnn_convertor.devices.facts import CpuCost
from cnn_convertor.devices.intervals import Interval, larger, total
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Pair, Shape, Window

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER: Final = Path(__file__).parent / "processors"  # `python -m development.cpu_cycles` writes it
_VALUES: Final = 1 << 16  # of FP16: a function keeps the result of each
_SHARED: Final = 1 << 14  # units that are worth a thread, as threads.h has it
# What the model of the CPU takes for granted, and the evidence.
ASSUMPTIONS: Final = (
    ("a function takes the cycles of a static analysis for each unit of its work", "llvm-mca; no measurement"),
    ("`cpu_threads` share the work equally, on the most of `cpu_cores` (the shorter end) or the fewest", "no measurement"),
    ("a function that keeps results meets up to 65,536 different values (the longer end), or one alone (the shorter)", "the source"),
    ("a function waits for memory while it computes (the shorter end), or before that (the longer)", "no measurement"),
)  # fmt: skip


class Cycles(NamedTuple):
    """Of one unit of a function's work: where its value has occurred before, and where it is new."""

    known: float
    new: float


class CpuWork(NamedTuple):
    """What a function of a layer does on the CPU. function: a key of the tables. units: most often elements of the output."""

    function: str
    units: int


@cache
def cycles(processor: str) -> Mapping[str, Cycles]:
    """The table of a processor, by the name of the function."""
    text = (FOLDER / f"{processor}.toml").read_text(encoding="utf-8")
    return {name: Cycles(*row) for name, row in tomllib.loads(text)["cycles"].items()}


def works_of(layer: Layer) -> tuple[CpuWork, ...]:
    """What the generated functions of a layer do, in order; nothing for others, which the runtime or the firmware does."""
    shapes = [tensor.shape for tensor in layer.inputs]
    match layer.cpu:
        case None:
            return ()
        case ops.InPieces(steps=steps):
            works = []
            for op, reads in steps:
                inputs = [shapes[number] for number in reads]
                shapes.append(op.output_shape(*inputs))
                works.append(_work(op, inputs, shapes[-1].size))
            return tuple(works)
        case op:
            return (_work(op, shapes, layer.output.shape.size),)


def _work(op: ops.Op, inputs: Sequence[Shape], size: int) -> CpuWork:
    """size: of the output."""
    match op:
        case ops.AveragePool2d(window=window) if window == Window(Pair(*inputs[0][:2])):
            return CpuWork("GlobalAverage", inputs[0].size)
        case ops.MaxPool2d(window=window) | ops.AveragePool2d(window=window):
            return CpuWork(_name(op), size * window.kernel.height * window.kernel.width)
        case ops.Dense(weight=weight):
            return CpuWork(_name(op), weight.size)
        case ops.MatMul():
            return CpuWork(_name(op), op.multiplications(*inputs))
        case ops.Resize(interpolation=ops.Interpolation.NEAREST):
            return CpuWork("Nearest", size)
        case ops.Reduce() | ops.ArgMax():
            return CpuWork(_name(op), inputs[0].size)
        case ops.DetectionOutput() | ops.DetectionInBoxes():
            return CpuWork(_name(op), inputs[1].size)
        case _:
            return CpuWork(_name(op), size)


def _name(op: ops.Op) -> str:
    """The function of an operator: that of its elements, if it has one."""
    call = kernel_call(op)
    inner = call.arguments[0] if call.arguments else None
    is_of_elements = isinstance(op, ops.Unary | ops.Binary) and isinstance(inner, CpuKernelCall)
    return inner.function if is_of_elements and isinstance(inner, CpuKernelCall) else call.function


def can_share(layer: Layer) -> bool:
    """Whether a function of a layer has work for more than one thread."""
    works = works_of(layer)
    sizes = [tensor.shape.size for tensor in (*layer.inputs, layer.output)]
    return bool(works) and max(*sizes, *(work.units for work in works)) >= 2 * _SHARED


def _workers(units: int, threads: int, cores: int) -> int:
    """How many threads share the work of a function on so many cores."""
    return max(1, min(threads or cores, cores, units // _SHARED))


def estimate_on_cpu(layer: Layer, profile: Profile, threads: int = 1) -> CpuCost | None:
    """The cost of a layer on the CPU of a device; None where nothing is known of it. threads: as `Program.cpu_threads`."""
    works = works_of(layer)
    if not works:
        return None
    nbytes = sum(tensor.nbytes for tensor in (*layer.inputs, layer.output))
    nbytes += sum(array.nbytes for array in layer.constants)
    name = ", ".join(work.function for work in works)
    units = sum(work.units for work in works)
    compute = total(_compute_usec(work, profile, threads) for work in works)
    if all(work.function in profile.functions for work in works):  # their times have what they wait for memory
        return CpuCost(name, units, nbytes, compute)
    memory = nbytes / profile.bandwidth.value
    return CpuCost(name, units, nbytes, Interval(larger(compute, memory).low, (compute + memory).high))


def _compute_usec(work: CpuWork, profile: Profile, threads: int) -> Interval:
    """The time of a function's work without its memory, or as a board has measured it."""
    cores, clock = profile.cpu_cores.value, profile.cpu_freq.value
    fewest, most = (_workers(work.units, threads, int(end)) for end in (cores.low, cores.high))
    if (measured := profile.functions.get(work.function)) is not None:
        usec = measured * work.units / 1e3
        return Interval(usec / most, usec / fewest)
    known, new = cycles(profile.cpu.value)[work.function]
    return Interval(
        known * work.units / clock.high / most,
        (known * work.units + (new - known) * min(work.units, _VALUES)) / clock.low / fewest,
    )
