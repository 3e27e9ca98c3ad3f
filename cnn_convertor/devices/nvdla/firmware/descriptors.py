"""The firmware's descriptors as values, and how they lie in memory.

Names and packing are those of the firmware's public interface, version 0.12; versions before have no `offset` in a cube.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")


class Engine(IntEnum):
    """Types of operations, with the firmware's numbers."""

    BDMA = 0
    CONV = 1
    SDP = 2
    PDP = 3
    CDP = 4
    RUBIK = 5


class Event(IntEnum):
    """What an operation can wait for in another one."""

    COMPLETED = 1
    PROGRAMMED = 2
    ENABLED = 3
    WEIGHTS_FETCHED = 4
    DATA_FETCHED = 5


class MemoryKind(IntEnum):
    """Where a cube is. HW: in another engine."""

    DRAM = 0
    SRAM = 1
    HW = 2


@dataclass(frozen=True, slots=True)
class NetworkDescriptor:
    operation_desc_index: int
    surface_desc_index: int
    dependency_graph_index: int
    lut_data_index: int
    roi_array_index: int
    surface_index: int
    stat_list_index: int
    op_head: tuple[int, ...]
    num_rois: int
    num_operations: int
    num_luts: int
    num_addresses: int
    input_layer: int
    dynamic_roi: int


@dataclass(frozen=True, slots=True)
class Consumer:
    index: int
    event: int


@dataclass(frozen=True, slots=True)
class Common:
    index: int
    roi_index: int
    op_type: int
    dependency_count: int
    consumers: tuple[Consumer, ...]
    fused_parent: Consumer


@dataclass(frozen=True, slots=True)
class Converter:
    scale: int
    truncate: int
    enable: int
    offset: int


@dataclass(frozen=True, slots=True)
class Cube:
    """Sizes and strides in bytes; width, height and channel in elements. address: an index of the task's list."""

    type: int
    address: int
    offset: int
    size: int
    width: int
    height: int
    channel: int
    line_stride: int
    surf_stride: int
    plane_stride: int


@dataclass(frozen=True, slots=True)
class ConvOperation:
    conv_mode: int
    data_reuse: int
    weight_reuse: int
    skip_data_rls: int
    skip_weight_rls: int
    entry_per_slice: int
    data_format: int
    pixel_mapping: int
    fetch_grain: int
    batch: int
    weight_format: int
    data_bank: int
    weight_bank: int
    batch_stride: int
    post_extension: int
    pixel_override: int
    release: int
    input_width_csc: int
    input_height_csc: int
    input_channel_csc: int
    kernel_width_csc: int
    kernel_height_csc: int
    kernel_channel_csc: int
    input_width_cmac: int
    input_height_cmac: int
    bytes_per_kernel: int
    mean_ry: int
    mean_gu: int
    mean_bv: int
    mean_ax: int
    mean_format: int
    conv_stride_x: int
    conv_stride_y: int
    pad_x_left: int
    pad_x_right: int
    pad_y_top: int
    pad_y_bottom: int
    dilation_x: int
    dilation_y: int
    pra_truncate: int
    in_precision: int
    out_precision: int
    pad_val: int
    in_cvt: Converter
    out_cvt: Converter


@dataclass(frozen=True, slots=True)
class ConvSurfaces:
    weight_data: Cube
    wmb_data: Cube
    wgs_data: Cube
    src_data: Cube
    dst_data: Cube
    offset_u: int
    in_line_uv_stride: int


@dataclass(frozen=True, slots=True)
class Converters:
    alu_cvt: Converter
    mul_cvt: Converter


@dataclass(frozen=True, slots=True)
class SdpUnit:
    enable: int
    alu_type: int
    type: int
    mode: int
    act: int
    shift_value: int
    truncate: int
    precision: int
    alu_operand: int
    mul_operand: int
    cvt: Converters


@dataclass(frozen=True, slots=True)
class SdpOperation:
    src_precision: int
    dst_precision: int
    lut_index: int
    out_cvt: Converter
    conv_mode: int
    batch_num: int
    batch_stride: int
    x1_op: SdpUnit
    x2_op: SdpUnit
    y_op: SdpUnit


@dataclass(frozen=True, slots=True)
class SdpSurfaces:
    src_data: Cube
    x1_data: Cube
    x2_data: Cube
    y_data: Cube
    dst_data: Cube


@dataclass(frozen=True, slots=True)
class PdpOperation:
    partial_in_width_first: int
    partial_in_width_mid: int
    partial_in_width_last: int
    partial_width_first: int
    partial_width_mid: int
    partial_width_last: int
    split_num: int
    pool_mode: int
    pool_width: int
    pool_height: int
    stride_x: int
    stride_y: int
    pad_left: int
    pad_right: int
    pad_top: int
    pad_bottom: int
    precision: int
    padding_value: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PdpSurfaces:
    src_data: Cube
    dst_data: Cube


@dataclass(frozen=True, slots=True)
class CdpOperation:
    in_precision: int
    out_precision: int
    lut_index: int
    in_cvt: Converter
    out_cvt: Converter
    local_size: int
    bypass_sqsum: int
    bypass_out_mul: int


@dataclass(frozen=True, slots=True)
class CdpSurfaces:
    src_data: Cube
    dst_data: Cube


@dataclass(frozen=True, slots=True)
class RubikOperation:
    mode: int
    precision: int
    stride_x: int
    stride_y: int


@dataclass(frozen=True, slots=True)
class RubikSurfaces:
    src_data: Cube
    dst_data: Cube


@dataclass(frozen=True, slots=True)
class Transfer:
    source_address: int
    destination_address: int
    line_size: int
    line_repeat: int
    source_line: int
    destination_line: int
    surface_repeat: int
    source_surface: int
    destination_surface: int


@dataclass(frozen=True, slots=True)
class BdmaOperation:
    num_transfers: int


@dataclass(frozen=True, slots=True)
class BdmaSurfaces:
    source_type: int
    destination_type: int
    num_transfers: int
    transfers: tuple[Transfer, ...]


@dataclass(frozen=True, slots=True)
class Slope:
    scale: int
    shifter: int


@dataclass(frozen=True, slots=True)
class Lut:
    """linear_exp_offset: exponent or bits of the fraction, as `method` says."""

    linear_exp_table: tuple[int, ...]
    linear_only_table: tuple[int, ...]
    linear_exp_offset: int
    linear_only_offset: int
    linear_exp_start: int
    linear_exp_end: int
    linear_only_start: int
    linear_only_end: int
    linear_exp_underflow_slope: Slope
    linear_exp_overflow_slope: Slope
    linear_only_underflow_slope: Slope
    linear_only_overflow_slope: Slope
    hybrid_priority: int
    underflow_priority: int
    overflow_priority: int
    method: int


# Fields in their order: codes of the struct module, "3x" for reserved bytes, or a descriptor; "7*i" is a tuple of seven.
_PACKED: Final[dict[Any, str]] = {
    NetworkDescriptor: "h h h h h h h 2x 6*h H H H H h B x",
    Consumer: "h B x",
    Common: "h B B B 3x 6*Consumer Consumer",
    Converter: "h B B i",
    Cube: "H h I I H H H 2x I I I",
    ConvOperation: "B B B B B x H B B H 8x B B B B I B B H H H H H H H H H I h h h h B B B B B B B B B 2x B B B h Converter Converter",
    ConvSurfaces: "Cube Cube Cube Cube Cube q I",
    Converters: "Converter Converter",
    SdpUnit: "B B B B B B B B i i Converters",
    SdpOperation: "B B h Converter B B 2x I SdpUnit SdpUnit SdpUnit",
    SdpSurfaces: "Cube Cube Cube Cube Cube",
    PdpOperation: "H H H H H H B B B B B B B B B B B x 7*i",
    PdpSurfaces: "Cube Cube",
    CdpOperation: "B B h Converter Converter B B B x",
    CdpSurfaces: "Cube Cube",
    RubikOperation: "B B B B",
    RubikSurfaces: "Cube Cube",
    Transfer: "h h I I I I I I I",
    BdmaOperation: "H",
    BdmaSurfaces: "B B H 20*Transfer",
    Slope: "h b x",
    Lut: "65*h 257*h b x b x q q q q Slope Slope Slope Slope B B B B",
}
_OLDER_CUBE: Final = "H h 0 I H H H 2x I I I"  # "0": no bytes, and the value is 0
OPERATIONS: Final[dict[Engine, Any]] = {
    Engine.BDMA: BdmaOperation,
    Engine.CONV: ConvOperation,
    Engine.SDP: SdpOperation,
    Engine.PDP: PdpOperation,
    Engine.CDP: CdpOperation,
    Engine.RUBIK: RubikOperation,
}
SURFACES: Final[dict[Engine, Any]] = {
    Engine.BDMA: BdmaSurfaces,
    Engine.CONV: ConvSurfaces,
    Engine.SDP: SdpSurfaces,
    Engine.PDP: PdpSurfaces,
    Engine.CDP: CdpSurfaces,
    Engine.RUBIK: RubikSurfaces,
}


@dataclass(frozen=True, slots=True)
class _Flat:
    """A descriptor without nested ones. codes: of all its numbers, for the struct module. zeros: places of numbers without bytes."""

    codes: str
    zeros: frozenset[int]
    count: int


@cache
def _flat(kind: Any, older: bool) -> _Flat:
    by_name = {each.__name__: each for each in _PACKED}
    codes = ""
    zeros = set[int]()
    count = 0
    for word in (_OLDER_CUBE if older and kind is Cube else _PACKED[kind]).split():
        repeats, _, code = word.rpartition("*")
        for _ in range(int(repeats or 1)):
            if code in by_name:
                inner = _flat(by_name[code], older)
                codes += inner.codes
                zeros |= {count + each for each in inner.zeros}
                count += inner.count
            elif code == "0":
                zeros.add(count)
                count += 1
            else:
                codes += code
                count += not code.endswith("x")
    return _Flat(codes, frozenset(zeros), count)


@cache
def size_of(kind: Any, *, older: bool = False) -> int:
    """The bytes of a descriptor. older: as before version 0.12."""
    return struct.calcsize("<" + _flat(kind, older).codes)


def unpack_descriptor(kind: type[T], data: bytes, offset: int = 0, *, older: bool = False) -> T:
    """A descriptor in memory. Raises struct.error where the memory ends before it."""
    flat = _flat(cast("Any", kind), older)  # a type; mypy takes a variable one for unhashable
    numbers = iter(struct.unpack_from("<" + flat.codes, data, offset))
    values = iter([0 if place in flat.zeros else next(numbers) for place in range(flat.count)])
    return cast("T", _of(kind, values))


def _of(kind: Any, values: Iterator[int]) -> Any:
    """The descriptor of numbers in their order."""
    by_name = {each.__name__: each for each in _PACKED}
    arguments: list[Any] = []
    for word in _PACKED[kind].split():
        repeats, _, code = word.rpartition("*")
        if code.endswith("x"):
            continue
        items = [_of(by_name[code], values) if code in by_name else next(values) for _ in range(int(repeats or 1))]
        arguments.append(tuple(items) if repeats else items[0])
    assert len(arguments) == len(dataclasses.fields(kind))
    return kind(*arguments)


def pack_descriptor(value: Any, *, older: bool = False) -> bytes:
    """The reverse of `unpack_descriptor`. Raises struct.error for a number that its field does not hold."""
    flat = _flat(cast("Any", type(value)), older)
    numbers = []
    for place, number in enumerate(_numbers(value)):
        if place not in flat.zeros:
            numbers.append(number)
        else:
            assert number == 0, "cubes before version 0.12 have no offset"
    return struct.pack("<" + flat.codes, *numbers)


def _numbers(value: Any) -> Iterator[int]:
    """The numbers of a descriptor in their order."""
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        for each in item if isinstance(item, tuple) else (item,):
            if dataclasses.is_dataclass(each):
                yield from _numbers(each)
            else:
                yield each
