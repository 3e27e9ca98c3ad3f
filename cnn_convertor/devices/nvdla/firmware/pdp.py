"""The registers of pooling (PDP)."""

from __future__ import annotations

from collections.abc import Iterator

from cnn_convertor.devices.nvdla.firmware.descriptors import MemoryKind, PdpOperation, PdpSurfaces
from cnn_convertor.devices.nvdla.firmware.register_settings import LOW, Places, Setting, address_pair, ram, require

FP16 = 2
LARGEST_STRIDE = 8  # of the firmware; the register holds 16
# 1 / size of the kernel, from 1 to 8: a fraction of 65536, and in FP16 a float of 17 bits.
RECIPROCALS = (0x10000, 0x8000, 0x5555, 0x4000, 0x3333, 0x2AAA, 0x2492, 0x2000)
RECIPROCALS_FP16 = (0x7C00, 0x7800, 0x7555, 0x7400, 0x7266, 0x7155, 0x7092, 0x7000)


def is_flying(surfaces: PdpSurfaces) -> bool:
    """Whether the input comes from the SDP."""
    return surfaces.src_data.type == MemoryKind.HW


def pdp_settings(op: PdpOperation, surfaces: PdpSurfaces, places: Places) -> Iterator[Setting]:
    """In the firmware's order. The descriptor has sizes of kernels less 1."""
    strides = (op.stride_x, op.stride_y)
    require(
        max(strides) <= LARGEST_STRIDE,
        f"a pool has strides of {op.stride_x} and {op.stride_y}, more than {LARGEST_STRIDE}",
    )
    require(op.precision != FP16 or not any(op.padding_value), "padding has a value, which FP16 has not")
    source, output = surfaces.src_data, surfaces.dst_data
    inputs = _partial("IN", op.partial_in_width_first, op.partial_in_width_mid, op.partial_in_width_last)
    if not is_flying(surfaces):
        yield from _reading(op, surfaces, places)
        yield "PDP_RDMA.D_PARTIAL_WIDTH_IN", inputs
    yield "PDP.D_DATA_CUBE_IN_WIDTH", source.width - 1
    yield "PDP.D_DATA_CUBE_IN_HEIGHT", source.height - 1
    yield "PDP.D_DATA_CUBE_IN_CHANNEL", source.channel - 1
    yield "PDP.D_DATA_CUBE_OUT_WIDTH", output.width - 1
    yield "PDP.D_DATA_CUBE_OUT_HEIGHT", output.height - 1
    yield "PDP.D_DATA_CUBE_OUT_CHANNEL", output.channel - 1
    mode = {"POOLING_METHOD": op.pool_mode, "FLYING_MODE": int(not is_flying(surfaces)), "SPLIT_NUM": op.split_num - 1}
    yield "PDP.D_OPERATION_MODE_CFG", mode
    yield "PDP.D_PARTIAL_WIDTH_IN", inputs
    outputs = _partial("OUT", op.partial_width_first, op.partial_width_mid, op.partial_width_last)
    yield "PDP.D_PARTIAL_WIDTH_OUT", outputs
    kernel = {"KERNEL_WIDTH": op.pool_width, "KERNEL_HEIGHT": op.pool_height}
    steps = {"KERNEL_STRIDE_WIDTH": op.stride_x - 1, "KERNEL_STRIDE_HEIGHT": op.stride_y - 1}
    yield "PDP.D_POOLING_KERNEL_CFG", kernel | steps
    yield "PDP.D_RECIP_KERNEL_WIDTH", _reciprocal(op, op.pool_width)
    yield "PDP.D_RECIP_KERNEL_HEIGHT", _reciprocal(op, op.pool_height)
    sides = {"PAD_LEFT": op.pad_left, "PAD_RIGHT": op.pad_right, "PAD_TOP": op.pad_top, "PAD_BOTTOM": op.pad_bottom}
    yield "PDP.D_POOLING_PADDING_CFG", sides
    for count, value in enumerate(op.padding_value, 1):
        yield f"PDP.D_POOLING_PADDING_VALUE_{count}_CFG", value
    if not is_flying(surfaces):
        yield "PDP.D_SRC_LINE_STRIDE", source.line_stride
        yield "PDP.D_SRC_SURFACE_STRIDE", source.surf_stride
    yield from address_pair("PDP.D_DST_BASE_ADDR_LOW", "PDP.D_DST_BASE_ADDR_HIGH", places.of(output))
    yield "PDP.D_DST_LINE_STRIDE", output.line_stride
    yield "PDP.D_DST_SURFACE_STRIDE", output.surf_stride
    yield "PDP.D_DST_RAM_CFG", ram(output.type)
    yield "PDP.D_DATA_FORMAT", op.precision


def _reciprocal(op: PdpOperation, size: int) -> int:
    """Of a kernel's size less 1."""
    require(size < len(RECIPROCALS), f"the kernel of a pool has a side of {size + 1}, more than {len(RECIPROCALS)}")
    return (RECIPROCALS_FP16 if op.precision == FP16 else RECIPROCALS)[size]


def _reading(op: PdpOperation, surfaces: PdpSurfaces, places: Places) -> Iterator[Setting]:
    source = surfaces.src_data
    yield "PDP_RDMA.D_DATA_CUBE_IN_WIDTH", source.width - 1
    yield "PDP_RDMA.D_DATA_CUBE_IN_HEIGHT", source.height - 1
    yield "PDP_RDMA.D_DATA_CUBE_IN_CHANNEL", source.channel - 1
    address = places.of(source)
    yield "PDP_RDMA.D_SRC_BASE_ADDR_HIGH", address >> 32
    yield "PDP_RDMA.D_SRC_BASE_ADDR_LOW", address & LOW
    yield "PDP_RDMA.D_SRC_LINE_STRIDE", source.line_stride
    yield "PDP_RDMA.D_SRC_SURFACE_STRIDE", source.surf_stride
    yield "PDP_RDMA.D_DATA_FORMAT", op.precision
    yield "PDP_RDMA.D_SRC_RAM_CFG", ram(source.type)
    yield "PDP_RDMA.D_OPERATION_MODE_CFG", op.split_num - 1
    yield "PDP_RDMA.D_POOLING_KERNEL_CFG", {"KERNEL_WIDTH": op.pool_width, "KERNEL_STRIDE_WIDTH": op.stride_x - 1}
    yield "PDP_RDMA.D_POOLING_PADDING_CFG", op.pad_left


def _partial(side: str, first: int, middle: int, last: int) -> dict[str, int]:
    """Widths of the pieces of a map that is split: 0 where there is none, else less 1."""
    widths = {"FIRST": first, "MID": middle, "LAST": last}
    return {f"PARTIAL_WIDTH_{side}_{name}": max(width - 1, 0) for name, width in widths.items()}
