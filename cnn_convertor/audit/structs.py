"""The SDK's structures: which fields they have, of which type, how large they are in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Scalar:
    """An integer. A negative least value means that it has a sign."""

    name: str
    size: int  # bytes
    least: int
    most: int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that is no number: a pointer, a text, a handle."""

    name: str
    size: int = 8

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Array:
    """length: None when it is not known."""

    element: Type
    length: int | None

    def __str__(self) -> str:
        return f"array of {self.element}"


@dataclass(frozen=True, slots=True)
class Struct:
    name: str
    fields: tuple[tuple[str, Type], ...]

    def field(self, name: str) -> Type | None:
        return dict(self.fields).get(name)

    def __str__(self) -> str:
        return self.name


Type: TypeAlias = Scalar | Opaque | Array | Struct


def _unsigned(bits: int) -> Scalar:
    return Scalar(f"uint{bits}_t", bits // 8, 0, (1 << bits) - 1)


def _signed(bits: int) -> Scalar:
    return Scalar(f"int{bits}_t", bits // 8, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


U8, U16, U32, U64 = map(_unsigned, (8, 16, 32, 64))
I32 = _signed(32)
BOOL = Scalar("bool", 1, 0, 1)
TEXT = Opaque("std::string", 32)
MEMORY = Opaque("dmp_dv_mem")
POINTER = Opaque("pointer")
FUNCTION = Opaque("function")
UNKNOWN = Opaque("unknown type", 0)

_HEADER = Struct("dmp_dv_cmdraw", (("size", U32), ("device_type", U8), ("version", U8), ("rsvd", Array(U8, 2))))
_BUFFER = Struct("dmp_dv_buf", (("mem", MEMORY), ("offs", U64)))

_RUN_NUMBERS: tuple[str, ...] = (
    "m",
    "conv_enable",
    "p",
    "pz",
    "conv_stride",
    "conv_dilation",
    "weight_fmt",
    "pool_enable",
    "pool_avg_param",
)
_RUN_NUMBERS += ("pool_size", "pool_stride", "actfunc", "actfunc_param", "rectifi_en", "lrn", "rsvd")
_RUN = Struct(
    "dmp_dv_cmdraw_conv_v0_run",
    (("weight_buf", _BUFFER), ("conv_pad", U32), ("pool_pad", U32), *((name, U16) for name in _RUN_NUMBERS)),
)
MAX_RUNS = 32
CONV_V0 = Struct(
    "dmp_dv_cmdraw_conv_v0",
    (
        ("header", _HEADER),
        ("input_buf", _BUFFER),
        ("output_buf", _BUFFER),
        ("eltwise_buf", _BUFFER),
        ("topo", U32),
        *((name, U16) for name in ("w", "h", "z", "c", "input_circular_offset", "output_mode")),
        ("run", Array(_RUN, MAX_RUNS)),
    ),
)
CONV_V1 = Struct(
    "dmp_dv_cmdraw_conv_v1",
    (("header", _HEADER), ("u8tofp16_table", _BUFFER), ("to_bgr", U16), ("rsvd", Array(U16, 3)), ("conv_cmd", CONV_V0)),
)
LAYER = Struct(
    "fpga_layer",
    (
        ("name", TEXT),
        ("type", I32),
        ("conv_conf_v1", CONV_V1),
        ("conv_conf", CONV_V0),
        *((name, U64) for name in ("input_offs", "output_offs", "output_size")),
        ("input_dim", Array(I32, 3)),
        ("input_dim_size", I32),
        ("output_dim", Array(I32, 3)),
        ("output_dim_size", I32),
        *((name, BOOL) for name in ("is_output", "is_f32_output", "is_input_hw_layout")),
        ("softmax_axis", I32),
        ("custom_proc_ptr", FUNCTION),
        ("custom_param", POINTER),
        ("input_layer_num", I32),
        ("input_layers", POINTER),
    ),
)

FIELD_NAMES = {name for struct in (_HEADER, _BUFFER, _RUN, CONV_V0, CONV_V1, LAYER) for name, _ in struct.fields}
STRUCTS = {struct.name: struct for struct in (_HEADER, _BUFFER, _RUN, CONV_V0, CONV_V1, LAYER)}
SCALARS: dict[str, Scalar] = {
    **{f"uint{bits}_t": _unsigned(bits) for bits in (8, 16, 32, 64)},
    **{f"int{bits}_t": _signed(bits) for bits in (8, 16, 32, 64)},
    "size_t": U64, "uintptr_t": U64, "ptrdiff_t": _signed(64), "bool": BOOL, "char": _signed(8), "short": _signed(16),
    "int": I32, "long": _signed(64), "signed": I32, "unsigned": U32, "layer_type": I32,
}  # fmt: skip

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


def size_of(type: Type) -> int | None:
    """Bytes with natural alignment on a 64-bit machine; None when nobody knows them."""
    match type:
        case Scalar():
            return type.size
        case Opaque():
            return type.size or None
        case Array(element=element, length=length):
            each = size_of(element)
            return None if length is None or each is None else each * length
        case Struct():
            if type is LAYER:
                return None  # the runtime's own affair
            total = 0
            for _, member in type.fields:
                total = _up(total, _alignment(member)) + (size_of(member) or 0)
            return _up(total, _alignment(type))


def _alignment(type: Type) -> int:
    match type:
        case Scalar() | Opaque():
            return min(type.size, 8) or 1
        case Array(element=element):
            return _alignment(element)
        case Struct(fields=fields):
            return max(_alignment(member) for _, member in fields)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


assert size_of(CONV_V0) == 1864 and size_of(CONV_V1) == 1896, "the layouts that the specification gives"
