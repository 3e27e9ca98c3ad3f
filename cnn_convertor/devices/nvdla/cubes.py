"""Feature maps in memory as the descriptors name them, and parts of these."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.firmware.descriptors import Cube, MemoryKind
from cnn_convertor.ir.ops import Shape
from cnn_convertor.layouts.nvdla.precision import Precision

NOWHERE = Cube(MemoryKind.HW, -1, 0, 0, 0, 0, 0, 0, 0, 0)


class Place(NamedTuple):
    """memory: an index of the program's list. offset: bytes in that memory."""

    memory: int
    offset: int


class Lines(NamedTuple):
    """Some lines of a map, each `step` after the one before."""

    first: int
    number: int
    step: int = 1

    def some(self, first: int, number: int) -> Lines:
        """So many of these lines, from that one of them on."""
        return Lines(self.first + first * self.step, number, self.step)


def number_of(precision: Precision) -> int:
    """The firmware's number of a precision."""
    return list(Precision).index(precision)


def lanes(configuration: Configuration, precision: Precision) -> int:
    """Channels of a surface."""
    return configuration.atom_bytes // precision.element.itemsize


def flying_cube(shape: Shape) -> Cube:
    """A map that goes from one engine to another."""
    return replace(NOWHERE, width=shape.width, height=shape.height, channel=shape.channels)


def packed_cube(shape: Shape, place: Place, configuration: Configuration, precision: Precision) -> Cube:
    """A map in DRAM without gaps between its lines and surfaces."""
    line = shape.width * configuration.atom_bytes
    surface = line * shape.height
    whole = replace(flying_cube(shape), type=MemoryKind.DRAM, address=place.memory, offset=place.offset)
    return _with_size(replace(whole, line_stride=line, surf_stride=surface), configuration, precision)


def rows_of(cube: Cube, rows: Lines, configuration: Configuration, precision: Precision) -> Cube:
    """Some rows of a map."""
    offset = cube.offset + rows.first * cube.line_stride
    part = replace(cube, offset=offset, height=rows.number, line_stride=rows.step * cube.line_stride)
    return _with_size(part, configuration, precision)


def channels_of(cube: Cube, first: int, channels: int, configuration: Configuration, precision: Precision) -> Cube:
    """Some channels of a map. first: the first one of a surface."""
    assert first % lanes(configuration, precision) == 0, first
    surface = first // lanes(configuration, precision)
    part = replace(cube, offset=cube.offset + surface * cube.surf_stride, channel=channels)
    return _with_size(part, configuration, precision)


def _with_size(cube: Cube, configuration: Configuration, precision: Precision) -> Cube:
    """With the bytes from its first to its last one."""
    surfaces = -(-cube.channel // lanes(configuration, precision))
    before = (surfaces - 1) * cube.surf_stride + (cube.height - 1) * cube.line_stride
    return replace(cube, size=before + cube.width * configuration.atom_bytes)
