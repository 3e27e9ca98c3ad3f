"""Describes the network of a generated source as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cnn_convertor.errors import Origin, Problem
from cnn_convertor.files.codes import hint


class Map(NamedTuple):
    """Width, height, channels: the SDK's order."""

    width: int
    height: int
    channels: int

    @property
    def area(self) -> int:
        return self.width * self.height

    @property
    def elements(self) -> int:
        return self.area * self.channels

    def __str__(self) -> str:
        return str(self.channels) if self.area == 1 else f"{self.height}x{self.width}x{self.channels}"


class SourceTensor(NamedTuple):
    """A map as a function on the CPU sees it. element: bytes."""

    offset: int
    map: Map
    element: int

    @property
    def nbytes(self) -> int:
        return self.map.elements * self.element


@dataclass(frozen=True, slots=True)
class SourceRun:
    """The registers of one run. weight_mem is the name of the memory; empty for none."""

    weight_mem: str
    weight_offs: int
    conv_pad: int
    pool_pad: int
    m: int
    conv_enable: int
    p: int
    pz: int
    conv_stride: int
    conv_dilation: int
    weight_fmt: int
    pool_enable: int
    pool_avg_param: int
    pool_size: int
    pool_stride: int
    actfunc: int
    actfunc_param: int
    rectifi_en: int
    lrn: int
    rsvd: int


class SourceHeader(NamedTuple):
    size: int
    device_type: int
    version: int


class SourceBuffer(NamedTuple):
    mem: str
    offs: int


@dataclass(frozen=True, slots=True)
class SourceCommand:
    """outer: the header of version 1 around the command; None for a command of version 0.

    runs: as many as topo has bits. extras: fields for 8-bit input that are not 0. idle: runs after the last bit of topo
    that are described nevertheless.
    """

    outer: SourceHeader | None
    header: SourceHeader
    input: SourceBuffer
    output: SourceBuffer
    operand: SourceBuffer
    topo: int
    w: int
    h: int
    z: int
    c: int
    order: int
    output_mode: int
    runs: tuple[SourceRun, ...]
    extras: tuple[str, ...]
    idle: tuple[int, ...]

    @property
    def map(self) -> Map:
        """One sample of the input."""
        return Map(self.w, self.h, self.c)

    @property
    def is_transposed(self) -> bool:
        return bool(self.order & 0x8000)

    @property
    def batch(self) -> int:
        """The number of samples, one after the other in the input and in the output."""
        return self.order & 0x7FFF or 1


@dataclass(frozen=True, slots=True)
class SourceLayer:
    """name: "#3" of layer 3 where the source sets none. dims: as far as the size says. sources: what input_layers points to, layers by index; None for something else.

    members: the members of the layer's union that the source assigns. inputs: the maps that custom_param lists.
    """

    index: int
    name: str
    type: str
    command: SourceCommand | None
    input_offs: int
    output_offs: int
    output_size: int
    input_dims: tuple[int, ...]
    output_dims: tuple[int, ...]
    input_dim_size: int
    output_dim_size: int
    is_output: bool
    is_f32_output: bool
    is_input_hw_layout: bool
    softmax_axis: int
    has_callback: bool
    sources: tuple[int | None, ...]
    source_count: int
    file: str
    members: tuple[str, ...]
    inputs: tuple[SourceTensor, ...]
    lines: Mapping[str, int] = field(repr=False)

    def at(self, name: str = "") -> Origin:
        """Where the field is assigned; the layer's first line when it is not."""
        line = self.lines.get(name) or self.lines.get("")
        return Origin(self.file, self.name or f"#{self.index}", self.type, line)

    def problem(self, code: str, message: str, name: str = "") -> Problem:
        """A finding about one of its fields. The command's are named without its place: topo, run[0].m."""
        return Problem(code, message, self.at(name), hint(code))

    @property
    def has_name(self) -> bool:
        """Whether the source sets a name, be it an empty one."""
        return "name" in self.lines

    @property
    def input_map(self) -> Map | None:
        return as_map(self.input_dims)

    @property
    def output_map(self) -> Map | None:
        return as_map(self.output_dims)

    @property
    def element(self) -> int:
        """Bytes of an element of the output. A callback may write bytes."""
        if self.is_f32_output:
            return 4
        output = self.output_map
        in_bytes = self.type == "LT_CUSTOM" and output is not None and output.elements == self.output_size
        return 1 if in_bytes else 2

    @property
    def is_on_device(self) -> bool:
        return self.type in {"LT_CONV", "LT_FC"}

    @property
    def batch(self) -> int:
        """How many samples the layer writes."""
        return self.command.batch if self.is_on_device and self.command is not None else 1


def as_map(dims: tuple[int, ...]) -> Map | None:
    """The map with the given dimensions: W, H, C; or C alone. None for dimensions that are not possible."""
    if not 1 <= len(dims) <= 3 or min(dims) < 1:
        return None
    match dims:
        case (channels,):
            return Map(1, 1, channels)
        case (width, channels):
            return Map(width, 1, channels)
    return Map(*dims)


@dataclass(frozen=True, slots=True)
class SourceNetwork:
    """outputs: the indices of the layers in output_layers_; None for an unknown entry."""

    name: str
    file: str
    line: int
    transposed: bool
    weight_bytes: int
    io_bytes: int
    layers: tuple[SourceLayer, ...]
    outputs: tuple[int | None, ...]

    def problem(self, code: str, message: str) -> Problem:
        return Problem(code, message, Origin(self.file, line=self.line), hint(code))
