"""States the SDK's structures and constants, as the specification gives them: fields, types, sizes in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from cnn_convertor.audit.tokens import Cursor, tokenize


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

_HEADER = """
struct dmp_dv_cmdraw { uint32_t size; uint8_t device_type, version, rsvd[2]; };
struct dmp_dv_buf { dmp_dv_mem mem; uint64_t offs; };
struct dmp_dv_cmdraw_conv_v0_run {
  dmp_dv_buf weight_buf;
  uint32_t conv_pad, pool_pad;
  uint16_t m, conv_enable, p, pz, conv_stride, conv_dilation, weight_fmt, pool_enable, pool_avg_param, pool_size, pool_stride,
           actfunc, actfunc_param, rectifi_en, lrn, rsvd;
};
struct dmp_dv_cmdraw_conv_v0 {
  dmp_dv_cmdraw header;
  dmp_dv_buf input_buf, output_buf, eltwise_buf;
  uint32_t topo;
  uint16_t w, h, z, c, input_circular_offset, output_mode;
  dmp_dv_cmdraw_conv_v0_run run[32];
};
struct dmp_dv_cmdraw_conv_v1 {
  dmp_dv_cmdraw header;
  dmp_dv_buf u8tofp16_table;
  uint16_t to_bgr, rsvd[3];
  dmp_dv_cmdraw_conv_v0 conv_cmd;
};
struct fpga_layer {
  layer_type type;
  string name;
  union {
    dmp_dv_cmdraw_conv_v0 conv_conf;
    dmp_dv_cmdraw_conv_v1 conv_conf_v1;
    int softmax_axis;
    struct { int input_layer_num; pointer input_layers; };
    struct { pointer custom_proc_ptr, custom_param; };
  };
  size_t input_offs, output_offs, output_size;
  int input_dim[3], input_dim_size, output_dim[3], output_dim_size;
  vector output;
  bool is_output, is_f32_output, is_input_hw_layout;
  pointer cmdlist;
  int cmdlist_pos, cmdlist_size;
};
"""


def _declared(cursor: Cursor, name: str, types: Mapping[str, Type]) -> Struct:
    """The structure whose members follow, with natural alignment on a 64-bit machine."""
    members: dict[str, Type] = {}
    size, alignment = 0, 1
    while not cursor.take("}"):
        found: dict[str, Type] = {}
        word = cursor.next().text
        if word in {"union", "struct"}:
            cursor.expect("{")
            unnamed = _declared(cursor, word, types)
            members |= unnamed.members
            found[""] = unnamed
            cursor.expect(";")
        while not found.get("") and not cursor.take(";"):
            member = cursor.next().text
            members[member] = found[member] = types[word]
            if cursor.take("["):
                members[member] = found[member] = Array(types[word], int(cursor.next().text))
                cursor.expect("]")
            cursor.take(",")
        for type in found.values():
            step = _alignment(type)
            alignment = max(alignment, step)
            size = max(size, type.size) if name == "union" else _up(size, step) + type.size
    return Struct(name, members, _up(size, alignment), alignment)


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


def _structures() -> dict[str, Struct]:
    """The structures of the header, each made of those before it."""
    types: dict[str, Type] = {
        "string": TEXT,
        "vector": Opaque("std::vector", 24),
        "dmp_dv_mem": HANDLE,
        "pointer": POINTER,
    }
    types |= SCALARS
    cursor, found = Cursor(list(tokenize(_HEADER))), dict[str, Struct]()
    while cursor.take("struct"):
        name = cursor.next().text
        cursor.expect("{")
        types[name] = found[name] = _declared(cursor, name, types)
        cursor.expect(";")
    return found


STRUCTS = _structures()
LAYER = STRUCTS["fpga_layer"]
COMMANDS = {version: STRUCTS[f"dmp_dv_cmdraw_conv_v{version}"] for version in (0, 1)}
FIELD_NAMES = {name for struct in STRUCTS.values() for name in struct.members}
MAX_RUNS = 32

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
