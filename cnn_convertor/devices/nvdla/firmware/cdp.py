"""The registers of normalization across channels (CDP)."""

from __future__ import annotations

from collections.abc import Iterator

from cnn_convertor.devices.nvdla.firmware.descriptors import CdpOperation, CdpSurfaces, Lut
from cnn_convertor.devices.nvdla.firmware.lookup_tables import linear_tables, slopes
from cnn_convertor.devices.nvdla.firmware.register_settings import LOW, Places, Setting, address_pair, ram, require

SIZES = (3, 5, 7, 9)  # of windows of channels


def cdp_settings(op: CdpOperation, surfaces: CdpSurfaces, places: Places, lut: Lut | None) -> Iterator[Setting]:
    """In the firmware's order."""
    require(op.local_size in SIZES, f"a window of channels has 3, 5, 7 or 9, not {op.local_size}")
    source, output = surfaces.src_data, surfaces.dst_data
    yield "CDP_RDMA.D_DATA_CUBE_WIDTH", source.width - 1
    yield "CDP_RDMA.D_DATA_CUBE_HEIGHT", source.height - 1
    yield "CDP_RDMA.D_DATA_CUBE_CHANNEL", source.channel - 1
    yield from address_pair("CDP_RDMA.D_SRC_BASE_ADDR_LOW", "CDP_RDMA.D_SRC_BASE_ADDR_HIGH", places.of(source))
    yield "CDP_RDMA.D_SRC_LINE_STRIDE", source.line_stride
    yield "CDP_RDMA.D_SRC_SURFACE_STRIDE", source.surf_stride
    yield "CDP_RDMA.D_SRC_DMA_CFG", ram(source.type)
    yield "CDP_RDMA.D_DATA_FORMAT", op.in_precision
    if lut is not None:
        yield from _tables(lut, op.in_precision)
    yield from address_pair("CDP.D_DST_BASE_ADDR_LOW", "CDP.D_DST_BASE_ADDR_HIGH", places.of(output))
    yield "CDP.D_DST_LINE_STRIDE", output.line_stride
    yield "CDP.D_DST_SURFACE_STRIDE", output.surf_stride
    yield "CDP.D_DST_DMA_CFG", ram(output.type)
    yield "CDP.D_DATA_FORMAT", op.in_precision
    yield "CDP.D_LRN_CFG", SIZES.index(op.local_size)
    yield "CDP.D_DATIN_OFFSET", op.in_cvt.offset
    yield "CDP.D_DATIN_SCALE", op.in_cvt.scale
    yield "CDP.D_DATIN_SHIFTER", op.in_cvt.truncate
    yield "CDP.D_DATOUT_OFFSET", op.out_cvt.offset
    yield "CDP.D_DATOUT_SCALE", op.out_cvt.scale
    yield "CDP.D_DATOUT_SHIFTER", op.out_cvt.truncate
    yield "CDP.D_FUNC_BYPASS", {"SQSUM_BYPASS": op.bypass_sqsum, "MUL_BYPASS": op.bypass_out_mul}


def _tables(lut: Lut, precision: int) -> Iterator[Setting]:
    yield from linear_tables("CDP", lut)
    ends = {
        "LE_START": lut.linear_exp_start,
        "LE_END": lut.linear_exp_end,
        "LO_START": lut.linear_only_start,
        "LO_END": lut.linear_only_end,
    }
    for name, value in ends.items():
        yield f"CDP.S_LUT_{name}_LOW", value & LOW
        yield f"CDP.S_LUT_{name}_HIGH", value >> 32
    yield from slopes("CDP", lut, precision)
