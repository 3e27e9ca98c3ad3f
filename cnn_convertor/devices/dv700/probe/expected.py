"""Computes the expected outputs of a probe's commands."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.fp64 import Map, compute, from_memory, operand_of, rounded, to_memory
from cnn_convertor.devices.dv700.probe.blocks import BlockCommand
from cnn_convertor.devices.dv700.probe.probe_commands import ProbeCommand
from cnn_convertor.devices.dv700.probe.random_numbers import FRACTIONS, INTEGERS, SIGNS, draw
from cnn_convertor.emulation.generator import draw_bytes

Elements: TypeAlias = NDArray[np.float16] | NDArray[np.uint8]
INPUT_SEED = 5
OPERAND_SEED = 9
FACTOR_SEED = 3
_VALUES, _CHANNELS = 256, 3  # of the table of 8-bit input


class Expected(NamedTuple):
    """elements: in memory order, without minus zeros. is_exact: no result was rounded."""

    elements: Elements
    is_exact: bool
    operand_bytes: int = 0


def expect(command: ProbeCommand) -> Expected:
    """Compute a command of the convolution block, for each sample of its batch."""
    levels = INTEGERS if command.is_exact else FRACTIONS
    samples = [_sample(command, values, levels) for values in _inputs(command, levels)]
    elements = np.concatenate([sample.elements for sample in samples])
    return Expected(elements, all(sample.is_exact for sample in samples), samples[0].operand_bytes)


def expect_block(command: BlockCommand) -> Expected:
    """Compute a command of another block."""
    elements = command.expect(INPUT_SEED)
    return Expected(elements, command.is_exact)


def table() -> Map:
    """The table of 8-bit input, value x channel: small integers, other ones in each channel."""
    value, channel = np.indices((_VALUES, _CHANNELS))
    return np.asarray((5 * value + 3 * channel) % 7 - 3.0, np.float64)


def _sample(command: ProbeCommand, values: Map, levels: tuple[float, ...]) -> Expected:
    operand = None
    if command.adds:
        shape = operand_of(values, command.runs[0]).shape
        drawn = draw(int(np.prod(shape)), OPERAND_SEED, levels)
        operand = from_memory(drawn, shape, transposed=command.transposed)
    results = compute(values, command.runs, operand, factors_of(command))
    stored = [result for run, result in zip(command.runs, results, strict=True) if run.external]
    elements = np.concatenate([to_memory(result, transposed=command.transposed) for result in stored])
    return Expected(
        elements.astype(np.float16) + np.float16(0),  # minus zero plus zero is zero
        all(np.array_equal(rounded(result), result) for result in results),
        0 if operand is None else 2 * operand.size,
    )


def factors_of(command: ProbeCommand) -> Map | None:
    """The factors of the channels (C,), or of a matrix (kernels, C), that the CPU packs; None if the command has none."""
    factors = command.runs[0].factors
    if factors is None:
        return None
    levels = SIGNS if command.is_exact else FRACTIONS
    if factors.kind.is_depthwise:
        return draw(command.input.channels, FACTOR_SEED, levels)
    size = (factors.packed.kernels, factors.packed.channels)
    return draw(size[0] * size[1], FACTOR_SEED, levels).reshape(size)


def _inputs(command: ProbeCommand, levels: tuple[float, ...]) -> list[Map]:
    """The input of each sample."""
    size, shape = command.input.size, command.input
    if command.table:
        drawn = draw_bytes(size * command.batch, INPUT_SEED)
        values = table()[drawn, np.arange(drawn.size) % shape.channels]
    else:
        values = draw(size * command.batch, INPUT_SEED, levels)
    return [from_memory(part, shape, transposed=command.transposed) for part in np.split(values, command.batch)]
