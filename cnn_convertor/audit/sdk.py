"""States the SDK's structures and constants, as the specification gives them: fields, types, sizes in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Scalar:
    """An integer. size: bytes."""

    name: str
    size: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that is not a number: a pointer, a text, a handle."""

    name: str
    size: int = 8


@dataclass(frozen=True, slots=True)
class Array:
    """length: None where it is not known."""

    element: Type
    length: int | None

    @property
    def name(self) -> str:
        return f"array of {self.element.name}"

    @property
    def size(self) -> int:
        return self.element.size * (self.length or 0)


@dataclass(frozen=True, slots=True)
class Struct:
    """A structure or union, whose unnamed members lend it theirs."""

    name: str
    members: Mapping[str, Type] = field(repr=False)
    size: int
    alignment: int


Type: TypeAlias = Scalar | Opaque | Array | Struct


def _integer(name: str, bits: int, *, signed: bool) -> Scalar:
    least = -(1 << (bits - 1)) if signed else 0
    return Scalar(name, bits // 8, least, least + (1 << bits) - 1)


MAX_RUNS = 32
BOOL = Scalar("bool", 1, 0, 1)
TEXT = Opaque("std::string", 32)
HANDLE = Opaque("dmp_dv_mem")
POINTER = Opaque("pointer")
UNKNOWN = Opaque("unknown type", 0)
SCALARS = {
    **{f"uint{bits}_t": _integer(f"uint{bits}_t", bits, signed=False) for bits in (8, 16, 32, 64)},
    **{f"int{bits}_t": _integer(f"int{bits}_t", bits, signed=True) for bits in (8, 16, 32, 64)},
    "bool": BOOL,
}
_ALIASES = {
    "size_t": "uint64_t", "uintptr_t": "uint64_t", "ptrdiff_t": "int64_t", "char": "int8_t", "short": "int16_t",
    "int": "int32_t", "long": "int64_t", "signed": "int32_t", "unsigned": "uint32_t", "layer_type": "int32_t",
}  # fmt: skip
SCALARS |= {alias: SCALARS[name] for alias, name in _ALIASES.items()}


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _alignment(type: Type) -> int:
    match type:
        case Scalar() | Opaque():
            return min(type.size, 8)
        case Array(element=element):
            return _alignment(element)
        case Struct(alignment=alignment):
            return alignment


def _struct(name: str, *members: tuple[Type, str], is_union: bool = False) -> Struct:
    """A structure with natural alignment on a 64-bit machine. Each type has its names, or none if it lends its own members."""
    fields: dict[str, Type] = {}
    size, alignment = 0, 1
    for type, names in members:
        step = _alignment(type)
        alignment = max(alignment, step)
        for name_of_member in names.split() or [""]:
            size = max(size, type.size) if is_union else _up(size, step) + type.size
            fields |= {name_of_member: type} if names else type.members if isinstance(type, Struct) else {}
    return Struct(name, fields, _up(size, alignment), alignment)


_U8, _U16, _U32, _U64, _INT = (SCALARS[name] for name in ("uint8_t", "uint16_t", "uint32_t", "uint64_t", "int"))
_RAW = _struct("dmp_dv_cmdraw", (_U32, "size"), (_U8, "device_type version"), (Array(_U8, 2), "rsvd"))
_BUF = _struct("dmp_dv_buf", (HANDLE, "mem"), (_U64, "offs"))
_RUN = _struct(
    "dmp_dv_cmdraw_conv_v0_run",
    (_BUF, "weight_buf"),
    (_U32, "conv_pad pool_pad"),
    (_U16, "m conv_enable p pz conv_stride conv_dilation weight_fmt pool_enable pool_avg_param pool_size pool_stride"),
    (_U16, "actfunc actfunc_param rectifi_en lrn rsvd"),
)
_V0 = _struct(
    "dmp_dv_cmdraw_conv_v0",
    (_RAW, "header"),
    (_BUF, "input_buf output_buf eltwise_buf"),
    (_U32, "topo"),
    (_U16, "w h z c input_circular_offset output_mode"),
    (Array(_RUN, MAX_RUNS), "run"),
)
_V1 = _struct(
    "dmp_dv_cmdraw_conv_v1",
    (_RAW, "header"),
    (_BUF, "u8tofp16_table"),
    (_U16, "to_bgr"),
    (Array(_U16, 3), "rsvd"),
    (_V0, "conv_cmd"),
)
_UNION = _struct(
    "",
    (_V0, "conv_conf"),
    (_V1, "conv_conf_v1"),
    (_INT, "softmax_axis"),
    (_struct("", (_INT, "input_layer_num"), (POINTER, "input_layers")), ""),
    (_struct("", (POINTER, "custom_proc_ptr custom_param")), ""),
    is_union=True,
)
LAYER = _struct(
    "fpga_layer",
    (_INT, "type"),
    (TEXT, "name"),
    (_UNION, ""),
    (_U64, "input_offs output_offs output_size"),
    (Array(_INT, 3), "input_dim"),
    (_INT, "input_dim_size"),
    (Array(_INT, 3), "output_dim"),
    (_INT, "output_dim_size"),
    (Opaque("std::vector", 24), "output"),
    (BOOL, "is_output is_f32_output is_input_hw_layout"),
    (POINTER, "cmdlist"),
    (_INT, "cmdlist_pos cmdlist_size"),
)
STRUCTS = {struct.name: struct for struct in (_RAW, _BUF, _RUN, _V0, _V1, LAYER)}
COMMANDS = {version: STRUCTS[f"dmp_dv_cmdraw_conv_v{version}"] for version in (0, 1)}
FIELD_NAMES = {name for struct in STRUCTS.values() for name in struct.members}

LAYER_TYPES = ("LT_INPUT", "LT_CONV", "LT_FC", "LT_FLATTEN", "LT_CONCAT", "LT_COPY_CONCAT", "LT_SOFTMAX", "LT_CUSTOM")
CONSTANTS = {
    **{name: number for number, name in enumerate(LAYER_TYPES)},
    "true": 1, "false": 0, "NULL": 0, "nullptr": 0,
    "DMP_DV_DEV_CONV": 1, "DMP_DV_DEV_FC": 2, "DMP_DV_DEV_IPU": 3, "DMP_DV_DEV_MAXIMIZER": 4, "DMP_DV_MAX_RUNS": MAX_RUNS,
    "DMP_DV_ORDER_WHC8": 0, "DMP_DV_ORDER_TRANSPOSED": 0x8000, "DMP_DV_OUTPUT_CONCAT": 0, "DMP_DV_OUTPUT_ADD": 1,
    "DMP_DV_CONV_OFF": 0, "DMP_DV_CONV_NORMAL": 1, "DMP_DV_CONV_DEPTHWISE": 3, "DMP_DV_CONV_DECONV": 5,
    "DMP_DV_CONV_DEPTHWISE_DECONV": 7, "DMP_DV_WEIGHT_NONE": 0, "DMP_DV_WEIGHT_FP16": 1, "DMP_DV_WEIGHT_PALETTE8": 3,
    "DMP_DV_POOL_NONE": 0, "DMP_DV_POOL_MAX": 1, "DMP_DV_POOL_AVERAGE": 2, "DMP_DV_POOL_UPSAMPLE": 4,
    "DMP_DV_ACT_NONE": 0, "DMP_DV_ACT_TANH": 1, "DMP_DV_ACT_RELU": 2, "DMP_DV_ACT_SIGMOID": 3, "DMP_DV_ACT_PRELU": 4,
    "DMP_DV_ACT_ELU": 5, "DMP_DV_ACT_RELU6": 6,
}  # fmt: skip
