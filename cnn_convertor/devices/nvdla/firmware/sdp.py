"""The registers of the single-point processor (SDP)."""

from __future__ import annotations

from collections.abc import Iterator

from cnn_convertor.devices.nvdla.firmware.descriptors import Cube, Lut, MemoryKind, SdpOperation, SdpSurfaces, SdpUnit
from cnn_convertor.devices.nvdla.firmware.lookup_tables import linear_tables, slopes
from cnn_convertor.devices.nvdla.firmware.register_settings import LOW, Places, Setting, address_pair, ram

ADD = {2, 3}  # types of units: 0 none, 1 multiply, 2 add, 3 both
MULTIPLY = {1, 3}
RELU = 1
TABLES = 2
PRELU = 3
# A unit -> its names in registers, and what of a type its memory operands are for.
_NAMES = {"x1": ("BS", "BRDMA"), "x2": ("BN", "NRDMA"), "y": ("EW", "ERDMA")}
_USES = {1: 0, 2: 1, 3: 2}


def is_flying(surfaces: SdpSurfaces) -> bool:
    """Whether the input comes from a convolution."""
    return surfaces.src_data.type == MemoryKind.HW


def reads_memory(op: SdpOperation, surfaces: SdpSurfaces) -> bool:
    """Whether the operation uses the SDP's read DMA."""
    return not is_flying(surfaces) or any(_has_operands(unit) for unit in (op.x1_op, op.x2_op, op.y_op))


def _has_operands(unit: SdpUnit) -> bool:
    return bool(unit.enable and unit.mode)


def sdp_settings(op: SdpOperation, surfaces: SdpSurfaces, places: Places, lut: Lut | None) -> Iterator[Setting]:
    """In the firmware's order."""
    units = {"x1": (op.x1_op, surfaces.x1_data), "x2": (op.x2_op, surfaces.x2_data), "y": (op.y_op, surfaces.y_data)}
    yield "SDP_RDMA.D_FEATURE_MODE_CFG", 0
    for _, reader in _NAMES.values():
        yield f"SDP_RDMA.D_{reader}_CFG", 0
    flying = int(is_flying(surfaces))
    precisions = {
        "IN_PRECISION": op.src_precision,
        "PROC_PRECISION": op.src_precision,
        "OUT_PRECISION": op.dst_precision,
    }
    modes = {"FLYING_MODE": flying, "WINOGRAD": op.conv_mode, "BATCH_NUMBER": op.batch_num - 1}
    yield "SDP_RDMA.D_FEATURE_MODE_CFG", modes | precisions
    if reads_memory(op, surfaces):
        yield from _reading(surfaces, places)
        for name, (unit, cube) in units.items():
            yield from _operands(name, unit, cube, places)
    if lut is not None:
        yield from _tables(lut, op.src_precision)
    yield from _writing(surfaces, places)
    for name in ("x1", "x2"):
        yield from _unit(_NAMES[name][0], units[name][0])
    yield from _third_unit(op.y_op)
    output = surfaces.dst_data
    modes = {"FLYING_MODE": flying, "OUTPUT_DST": int(output.type == MemoryKind.HW), "WINOGRAD": op.conv_mode}
    yield "SDP.D_FEATURE_MODE_CFG", modes | {"BATCH_NUMBER": op.batch_num - 1}
    yield "SDP.D_DST_DMA_CFG", ram(output.type)
    if op.batch_num > 1:
        yield "SDP.D_DST_BATCH_STRIDE", op.batch_stride
    yield "SDP.D_DATA_FORMAT", {"PROC_PRECISION": op.src_precision, "OUT_PRECISION": op.dst_precision}
    yield "SDP.D_CVT_OFFSET", op.out_cvt.offset
    yield "SDP.D_CVT_SCALE", op.out_cvt.scale
    yield "SDP.D_CVT_SHIFT", op.out_cvt.truncate


def _reading(surfaces: SdpSurfaces, places: Places) -> Iterator[Setting]:
    source = surfaces.src_data
    yield "SDP_RDMA.D_DATA_CUBE_WIDTH", source.width - 1
    yield "SDP_RDMA.D_DATA_CUBE_HEIGHT", source.height - 1
    yield "SDP_RDMA.D_DATA_CUBE_CHANNEL", source.channel - 1
    if not is_flying(surfaces):
        yield from address_pair("SDP_RDMA.D_SRC_BASE_ADDR_LOW", "SDP_RDMA.D_SRC_BASE_ADDR_HIGH", places.of(source))
        yield "SDP_RDMA.D_SRC_LINE_STRIDE", source.line_stride
        yield "SDP_RDMA.D_SRC_SURFACE_STRIDE", source.surf_stride
        yield "SDP_RDMA.D_SRC_DMA_CFG", ram(source.type)


def _operands(name: str, unit: SdpUnit, cube: Cube, places: Places) -> Iterator[Setting]:
    register, reader = _NAMES[name]
    has_operands = _has_operands(unit)
    config = {
        f"{reader}_DISABLE": int(not has_operands),
        f"{reader}_DATA_USE": _USES.get(unit.type, 0),
        f"{reader}_DATA_SIZE": int(unit.precision != 0),
        f"{reader}_DATA_MODE": int(unit.mode != 1),
        f"{reader}_RAM_TYPE": ram(cube.type),
    }
    yield f"SDP_RDMA.D_{reader}_CFG", config
    if has_operands:
        low, high = f"SDP_RDMA.D_{register}_BASE_ADDR_LOW", f"SDP_RDMA.D_{register}_BASE_ADDR_HIGH"
        yield from address_pair(low, high, places.of(cube))
        yield f"SDP_RDMA.D_{register}_LINE_STRIDE", cube.line_stride
        yield f"SDP_RDMA.D_{register}_SURFACE_STRIDE", cube.surf_stride


def _writing(surfaces: SdpSurfaces, places: Places) -> Iterator[Setting]:
    source, output = surfaces.src_data, surfaces.dst_data
    yield "SDP.D_DATA_CUBE_WIDTH", source.width - 1
    yield "SDP.D_DATA_CUBE_HEIGHT", source.height - 1
    yield "SDP.D_DATA_CUBE_CHANNEL", source.channel - 1
    if output.type != MemoryKind.HW:
        address = places.of(output)
        yield "SDP.D_DST_BASE_ADDR_HIGH", address >> 32
        yield "SDP.D_DST_BASE_ADDR_LOW", address & LOW
        yield "SDP.D_DST_LINE_STRIDE", output.line_stride
        yield "SDP.D_DST_SURFACE_STRIDE", output.surf_stride


def _bypasses(register: str, unit: SdpUnit) -> dict[str, int]:
    return {
        f"{register}_BYPASS": int(not unit.enable),
        f"{register}_ALU_BYPASS": int(unit.type not in ADD),
        f"{register}_ALU_ALGO": unit.alu_type,
        f"{register}_MUL_BYPASS": int(unit.type not in MULTIPLY),
        f"{register}_MUL_PRELU": int(unit.act == PRELU),
    }


def _unit(register: str, unit: SdpUnit) -> Iterator[Setting]:
    prefix = f"SDP.D_DP_{register}"
    yield f"{prefix}_CFG", _bypasses(register, unit) | {f"{register}_RELU_BYPASS": int(unit.act != RELU)}
    if not unit.enable:
        return
    source = int(unit.mode != 0)
    if unit.type in ADD:
        yield f"{prefix}_ALU_CFG", {f"{register}_ALU_SRC": source, f"{register}_ALU_SHIFT_VALUE": unit.shift_value}
    if not source:
        yield f"{prefix}_ALU_SRC_VALUE", unit.alu_operand
        yield f"{prefix}_MUL_SRC_VALUE", unit.mul_operand
    yield f"{prefix}_MUL_CFG", {f"{register}_MUL_SRC": source, f"{register}_MUL_SHIFT_VALUE": unit.truncate}


def _third_unit(unit: SdpUnit) -> Iterator[Setting]:
    prefix = "SDP.D_DP_EW"
    yield f"{prefix}_CFG", _bypasses("EW", unit) | {"EW_LUT_BYPASS": int(unit.act != TABLES)}
    if not unit.enable:
        return
    source = int(unit.mode != 0)
    for name, used, operand, converter in (
        ("ALU", ADD, unit.alu_operand, unit.cvt.alu_cvt),
        ("MUL", MULTIPLY, unit.mul_operand, unit.cvt.mul_cvt),
    ):
        if unit.type in used:
            yield f"{prefix}_{name}_CFG", {f"EW_{name}_SRC": source, f"EW_{name}_CVT_BYPASS": int(not converter.enable)}
            if not source:
                yield f"{prefix}_{name}_SRC_VALUE", operand
            else:
                yield f"{prefix}_{name}_CVT_OFFSET_VALUE", converter.offset
                yield f"{prefix}_{name}_CVT_SCALE_VALUE", converter.scale
                yield f"{prefix}_{name}_CVT_TRUNCATE_VALUE", converter.truncate
    yield f"{prefix}_TRUNCATE_VALUE", unit.truncate


def _tables(lut: Lut, precision: int) -> Iterator[Setting]:
    yield from linear_tables("SDP", lut)
    yield "SDP.S_LUT_LE_START", lut.linear_exp_start & LOW
    yield "SDP.S_LUT_LE_END", lut.linear_exp_end & LOW
    yield "SDP.S_LUT_LO_START", lut.linear_only_start & LOW
    yield "SDP.S_LUT_LO_END", lut.linear_only_end & LOW
    yield from slopes("SDP", lut, precision)
