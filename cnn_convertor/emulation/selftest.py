"""Records what a network must give for a made-up input, for a test that also runs on a board."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.emulation.build import build
from cnn_convertor.emulation.run import UB_SIZE, Maps, execute
from cnn_convertor.errors import Origin, Problem, UsageError

LEVELS = 256
MULTIPLIER, INCREMENT = 1664525, 1013904223  # of the linear congruential generator that draws the levels


@dataclass(frozen=True, slots=True, eq=False)
class SelfTest:
    """levels: FP16 bits of the values that the input is made of. outputs: what the network gives, each as it lies in memory."""

    levels: NDArray[np.uint16]
    outputs: tuple[Maps, ...]


def record(program: Program, folder: Path, low: float, high: float, *, ub_size: int = UB_SIZE) -> SelfTest:
    """Run the network, whose sources and weights lie in a folder, on values from low to high.

    ub_size: bytes of the device's unified buffer.
    Raises UsageError for networks with custom layers, whose callbacks only the firmware has.
    """
    custom = [layer for layer in program.layers if layer.custom is not None]
    if custom:
        where = custom[0].origins[-1] if custom[0].origins else Origin(program.name)
        problem = "a self-test needs every layer's code, but custom layers have theirs in the firmware"
        raise UsageError(Problem("DV708", problem, where, "set selftest = 0"))
    levels = np.linspace(low, high, LEVELS).astype("<f2").view(np.uint16)
    halves = levels[_drawn(sum(tensor.shape.size for _, tensor in program.inputs))]
    executable = build(folder, program.name)
    weights = folder / f"{program.name}_weights.bin"
    flat = execute(executable, weights, program, halves.tobytes(), samples=1, ub_size=ub_size).outputs
    sizes = [program.layers[index].output.shape.size for index in program.outputs]
    return SelfTest(levels, tuple(np.split(flat[0], np.cumsum(sizes)[:-1])))


def _drawn(count: int) -> NDArray[np.intp]:
    """The first numbers of the generator that begins with 0, modulo 2**32: their upper 8 bits."""
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(count, MULTIPLIER, np.uint32), dtype=np.uint32)
        sums = np.cumsum(np.concatenate([np.ones(1, np.uint32), powers[:-1]]), dtype=np.uint32)
        states = sums * np.uint32(INCREMENT)
    return (states >> np.uint32(24)).astype(np.intp)
