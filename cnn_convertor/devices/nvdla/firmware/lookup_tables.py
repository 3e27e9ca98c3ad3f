"""The registers of tables of functions, which SDP and CDP have alike."""

from __future__ import annotations

from collections.abc import Iterator

from cnn_convertor.devices.nvdla.firmware.descriptors import Lut
from cnn_convertor.devices.nvdla.firmware.register_settings import Setting

FP16 = 2
LINEAR = 1  # method of the first table; else it is exponential


def linear_tables(block: str, lut: Lut) -> Iterator[Setting]:
    """Both tables, and which entry a value takes."""
    for number, table in enumerate((lut.linear_exp_table, lut.linear_only_table)):
        yield f"{block}.S_LUT_ACCESS_CFG", {"LUT_TABLE_ID": number, "LUT_ACCESS_TYPE": 1}
        for entry in table:
            yield f"{block}.S_LUT_ACCESS_DATA", entry
    priorities = {"LUT_UFLOW_PRIORITY": lut.underflow_priority, "LUT_OFLOW_PRIORITY": lut.overflow_priority}
    function = {"LUT_LE_FUNCTION": lut.method, "LUT_HYBRID_PRIORITY": lut.hybrid_priority}
    yield f"{block}.S_LUT_CFG", function | priorities
    offset = "LUT_LE_INDEX_SELECT" if lut.method == LINEAR else "LUT_LE_INDEX_OFFSET"
    yield f"{block}.S_LUT_INFO", {offset: lut.linear_exp_offset, "LUT_LO_INDEX_SELECT": lut.linear_only_offset}


def slopes(block: str, lut: Lut, precision: int) -> Iterator[Setting]:
    """What continues the tables on both sides. In FP16 a slope is one number, without a shift."""
    sides = (
        ("LE", lut.linear_exp_underflow_slope, lut.linear_exp_overflow_slope),
        ("LO", lut.linear_only_underflow_slope, lut.linear_only_overflow_slope),
    )
    for table, under, over in sides:
        prefix = f"LUT_{table}_SLOPE"
        yield f"{block}.S_{prefix}_SCALE", {f"{prefix}_UFLOW_SCALE": under.scale, f"{prefix}_OFLOW_SCALE": over.scale}
        if precision != FP16:
            shifts = {f"{prefix}_UFLOW_SHIFT": under.shifter, f"{prefix}_OFLOW_SHIFT": over.shifter}
            yield f"{block}.S_{prefix}_SHIFT", shifts
