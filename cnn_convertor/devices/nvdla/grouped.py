"""Convolutions of groups as dense convolutions with zeros, of all channels or of blocks of them."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.convolving import ConvolutionSize, Convolving, MisfitError, bands_of
from cnn_convertor.devices.nvdla.cubes import lanes
from cnn_convertor.ir.constant import Constant
from cnn_convertor.layouts.nvdla.precision import Precision


class Pace(NamedTuple):
    """What weighs multiplications against memory. evidence: where the figures are from."""

    bytes_per_cycle: int
    cycles_per_operation: int
    evidence: str


ASSUMED_PACE: Final = Pace(
    bytes_per_cycle=10,
    cycles_per_operation=2000,
    evidence="10 GB/s of DRAM at 1 GHz: defaults of the vendor's public performance spreadsheet. An operation: some 130 writes of "
    "registers, 15 ns each, assumed.",
)


class GroupsBlock(NamedTuple):
    """A dense convolution that computes some groups; it reads and writes channels of the whole maps.

    first_input, first_output: channels, the first ones of surfaces. size: with the channels and kernels of the block
    groups: how many; with more than one the kernels have zeros for channels of other groups
    """

    first_input: int
    first_output: int
    groups: int
    size: ConvolutionSize
    convolving: Convolving

    def weight_of(self, weight: Constant) -> Constant:
        """The kernels of the block, of all kernels (K, C / groups, rows, columns)."""
        end = self.first_output + self.size.kernels
        return weight.take_rows(np.arange(self.first_output, end))


def blocks_of(
    size: ConvolutionSize, groups: int, configuration: Configuration, precision: Precision
) -> tuple[GroupsBlock, ...]:
    """The blocks that take the least estimated time. Raises MisfitError where no size of blocks fits the device."""
    best = math.inf
    chosen: tuple[GroupsBlock, ...] = ()
    reasons = []
    for groups_of_block in _choices(size, groups, lanes(configuration, precision)):
        try:
            blocks = _blocks(size, groups, groups_of_block, configuration, precision)
        except MisfitError as reason:
            reasons.append(reason)
            continue
        cycles = sum(_cycles(block, configuration, precision) for block in blocks)
        if cycles < best:
            best = cycles
            chosen = blocks
    if not chosen:
        raise reasons[0]
    return chosen


def _choices(size: ConvolutionSize, groups: int, of_surface: int) -> list[int]:
    """How many groups a block may have, so that each begins with a surface; also all of them."""
    least = 1
    for channels in (size.input.channels // groups, size.kernels // groups):
        least = math.lcm(least, of_surface // math.gcd(of_surface, channels))
    choices = []
    while least < groups:
        choices.append(least)
        least *= 2
    return [*choices, groups]


def _blocks(
    size: ConvolutionSize, groups: int, groups_of_block: int, configuration: Configuration, precision: Precision
) -> tuple[GroupsBlock, ...]:
    inputs, outputs = size.input.channels // groups, size.kernels // groups
    plans: dict[int, tuple[ConvolutionSize, Convolving]] = {}
    blocks = []
    for first in range(0, groups, groups_of_block):
        count = min(groups_of_block, groups - first)
        if count not in plans:
            part = size._replace(input=size.input._replace(channels=count * inputs), kernels=count * outputs)
            plans[count] = part, bands_of(part, configuration, precision)
        blocks.append(GroupsBlock(first * inputs, first * outputs, count, *plans[count]))
    return tuple(blocks)


def _cycles(block: GroupsBlock, configuration: Configuration, precision: Precision) -> float:
    """An estimate: the multipliers work while the memory is read."""
    computing = block.size.mac_cycles(configuration, precision)
    reading = block.convolving.moved_bytes / ASSUMED_PACE.bytes_per_cycle
    return max(computing, reading) + ASSUMED_PACE.cycles_per_operation * len(block.convolving.bands)
