"""The firmware's descriptors of what steps do: single-point processor (SDP), pooling (PDP) and local response (CDP), in FP16."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from cnn_convertor.devices.nvdla.cubes import NOWHERE
from cnn_convertor.devices.nvdla.firmware.bdma_rubik import CONTRACT
from cnn_convertor.devices.nvdla.firmware.descriptors import (
    CdpOperation,
    Converter,
    Converters,
    Cube,
    PdpOperation,
    RubikOperation,
    SdpOperation,
    SdpSurfaces,
    SdpUnit,
)
from cnn_convertor.devices.nvdla.point_units import (
    MapOperand,
    Operand,
    PointAction,
    PointFunction,
    PointUnits,
    UnitSetting,
)
from cnn_convertor.devices.nvdla.pooling import PoolPlan
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Pair

FP16: Final = 2
_PLAIN: Final = Converter(scale=1, truncate=0, enable=1, offset=0)
_NO_CONVERTER: Final = Converter(scale=0, truncate=0, enable=0, offset=0)
_NO_CONVERTERS: Final = Converters(_NO_CONVERTER, _NO_CONVERTER)
_ALU_TYPES: Final = {PointAction.MAXIMUM: 0, PointAction.MINIMUM: 1, PointAction.ADD: 2}
_MULTIPLY, _ADD, _BOTH = 1, 2, 3  # types of a unit
NUMBER, CHANNEL, ELEMENT = 0, 1, 2  # modes of its operands
_NO_END, _RELU, _TABLE, _PRELU = 0, 1, 2, 3
_AVERAGE, _MAXIMUM = 0, 1


def sdp_operation(units: PointUnits) -> SdpOperation:
    return SdpOperation(
        src_precision=FP16,
        dst_precision=FP16,
        lut_index=-1,  # the task numbers its tables
        out_cvt=_PLAIN,
        conv_mode=0,
        batch_num=1,
        batch_stride=0,
        x1_op=_unit(units.x1, is_y=False),
        x2_op=_unit(units.x2, is_y=False),
        y_op=_unit(units.y, is_y=True),
    )


def sdp_surfaces(source: Cube, operands: Mapping[str, Cube], output: Cube) -> SdpSurfaces:
    """operands: of the units by name, as far as they read memory."""
    return SdpSurfaces(
        source, operands.get("x1", NOWHERE), operands.get("x2", NOWHERE), operands.get("y", NOWHERE), output
    )


def mode_of(setting: UnitSetting) -> int:
    """Where a unit has its operands from. Numbers are in registers if FP16 has them, and no array is beside them."""
    for operand in setting.operands:
        if isinstance(operand, MapOperand):
            return CHANNEL if operand.is_vector else ELEMENT
    return NUMBER if all(map(_is_short, setting.operands)) else CHANNEL


def _is_short(operand: Operand) -> bool:
    """Whether a register holds a number exactly. An unrounded program has the others in memory, in FP32."""
    return isinstance(operand, float) and float(np.float16(operand)) == operand


def _unit(setting: UnitSetting, *, is_y: bool) -> SdpUnit:
    alu, multiplier, end = setting
    kind = _MULTIPLY * (multiplier is not None) + _ADD * (alu is not None)
    is_prelu = multiplier is not None and multiplier.action is PointAction.SCALE_NEGATIVE
    finish = _PRELU if is_prelu else _NO_END
    if end is not None:
        assert not is_prelu, "the descriptor has one end"
        finish = _TABLE if is_y else _RELU
    mode = mode_of(setting)
    return SdpUnit(
        enable=int(setting.is_used),
        alu_type=_ALU_TYPES[alu.action] if alu is not None else _ALU_TYPES[PointAction.ADD],
        type=kind,
        mode=mode,
        act=finish,
        shift_value=0,
        truncate=0,
        precision=FP16,
        alu_operand=_register(alu, mode, is_y=is_y),
        mul_operand=_register(multiplier, mode, is_y=is_y),
        cvt=_NO_CONVERTERS,
    )


def _register(function: PointFunction | None, mode: int, *, is_y: bool) -> int:
    """A number as the unit's register holds it: Y's as FP32, the others' as FP16."""
    if function is None or mode != NUMBER:
        return 0
    number: Operand | None = function.operand
    assert isinstance(number, float)
    bits = np.float32(number).view(np.int32) if is_y else np.float16(number).view(np.int16)
    return int(bits)


def pool_operation(op: ops.MaxPool2d | ops.AveragePool2d, plan: PoolPlan) -> PdpOperation:
    kernel, stride, _, pad = op.window
    first_in, middle_in, last_in = plan.pieces_in
    first_out, middle_out, last_out = plan.pieces_out
    return PdpOperation(
        partial_in_width_first=first_in,
        partial_in_width_mid=middle_in,
        partial_in_width_last=last_in,
        partial_width_first=first_out,
        partial_width_mid=middle_out,
        partial_width_last=last_out,
        split_num=plan.pieces,
        pool_mode=_MAXIMUM if isinstance(op, ops.MaxPool2d) else _AVERAGE,
        pool_width=kernel.width - 1,
        pool_height=kernel.height - 1,
        stride_x=stride.width,
        stride_y=stride.height,
        pad_left=pad.left,
        pad_right=plan.right,
        pad_top=pad.top,
        pad_bottom=plan.bottom,
        precision=FP16,
        padding_value=(0,) * 7,
    )


def response_operation(op: ops.LocalResponseNorm) -> CdpOperation:
    return CdpOperation(FP16, FP16, -1, _PLAIN, _PLAIN, op.size, 0, 0)


def spreading_operation(stride: Pair) -> RubikOperation:
    return RubikOperation(CONTRACT, FP16, stride.width, stride.height)
