"""The registers of what only moves data: copies (BDMA) and changes of layout (rubik)."""

from __future__ import annotations

from collections.abc import Iterator

from cnn_convertor.devices.nvdla.firmware.descriptors import BdmaSurfaces, RubikOperation, RubikSurfaces
from cnn_convertor.devices.nvdla.firmware.register_settings import Places, Setting, address_pair, ram, require

CONTRACT = 0
SPLIT = 1
MERGE = 2
MOST_REPEATS = 8192  # of the firmware; the register holds more
UNIT = 32  # bytes, of lines of a copy, and of the channels that rubik moves together


def bdma_settings(surfaces: BdmaSurfaces, places: Places) -> Iterator[Setting]:
    """In the firmware's order."""
    for transfer in surfaces.transfers[: surfaces.num_transfers]:
        size = transfer.line_size
        require(size > 0 and size % UNIT == 0, f"a copy has lines of {size} bytes, not a multiple of {UNIT}")
        repeats = (transfer.line_repeat, transfer.surface_repeat)
        wrong = f"a copy repeats its lines {repeats[0]} times and its surfaces {repeats[1]} times, not 1 to {MOST_REPEATS:,}"
        require(min(repeats) >= 1 and max(repeats) <= MOST_REPEATS, wrong)
        source, target = places.address(transfer.source_address, 0), places.address(transfer.destination_address, 0)
        yield from address_pair("BDMA.CFG_SRC_ADDR_LOW", "BDMA.CFG_SRC_ADDR_HIGH", source)
        yield from address_pair("BDMA.CFG_DST_ADDR_LOW", "BDMA.CFG_DST_ADDR_HIGH", target)
        yield "BDMA.CFG_LINE", transfer.line_size // UNIT - 1
        memories = {"SRC_RAM_TYPE": ram(surfaces.source_type), "DST_RAM_TYPE": ram(surfaces.destination_type)}
        yield "BDMA.CFG_CMD", memories
        yield "BDMA.CFG_LINE_REPEAT", transfer.line_repeat - 1
        yield "BDMA.CFG_SRC_LINE", transfer.source_line
        yield "BDMA.CFG_DST_LINE", transfer.destination_line
        yield "BDMA.CFG_SURF_REPEAT", transfer.surface_repeat - 1
        yield "BDMA.CFG_SRC_SURF", transfer.source_surface
        yield "BDMA.CFG_DST_SURF", transfer.destination_surface
        yield "BDMA.CFG_OP", 1


def rubik_settings(op: RubikOperation, surfaces: RubikSurfaces, places: Places) -> Iterator[Setting]:
    """In the firmware's order."""
    source, output = surfaces.src_data, surfaces.dst_data
    planes = {SPLIT: output.plane_stride, MERGE: source.plane_stride}.get(op.mode, UNIT)
    require(planes > 0 and planes % UNIT == 0, f"planes lie {planes} bytes apart, not a multiple of {UNIT}")
    yield "RBK.D_MISC_CFG", {"RUBIK_MODE": op.mode, "IN_PRECISION": op.precision}
    yield "RBK.D_DAIN_RAM_TYPE", ram(source.type)
    yield "RBK.D_DATAIN_SIZE_0", {"DATAIN_WIDTH": source.width - 1, "DATAIN_HEIGHT": source.height - 1}
    yield "RBK.D_DATAIN_SIZE_1", source.channel - 1
    yield from address_pair("RBK.D_DAIN_ADDR_LOW", "RBK.D_DAIN_ADDR_HIGH", places.of(source))
    if op.mode == MERGE:
        yield "RBK.D_DAIN_PLANAR_STRIDE", source.plane_stride
    else:
        yield "RBK.D_DAIN_SURF_STRIDE", source.surf_stride
    yield "RBK.D_DAIN_LINE_STRIDE", source.line_stride
    yield "RBK.D_DAOUT_RAM_TYPE", ram(output.type)
    yield "RBK.D_DATAOUT_SIZE_1", output.channel - 1
    yield from address_pair("RBK.D_DAOUT_ADDR_LOW", "RBK.D_DAOUT_ADDR_HIGH", places.of(output))
    yield "RBK.D_DAOUT_LINE_STRIDE", output.line_stride
    if op.mode == SPLIT:
        yield "RBK.D_DAOUT_PLANAR_STRIDE", output.plane_stride
    else:
        yield "RBK.D_DAOUT_SURF_STRIDE", output.surf_stride
    if op.mode == CONTRACT:
        element = 1 if op.precision == 0 else 2
        surfaces_of_set = -(-output.channel * element // UNIT)
        yield "RBK.D_CONTRACT_STRIDE_0", surfaces_of_set * source.surf_stride
        yield "RBK.D_CONTRACT_STRIDE_1", op.stride_y * output.line_stride
        yield "RBK.D_DECONV_STRIDE", {"DECONV_X_STRIDE": op.stride_x - 1, "DECONV_Y_STRIDE": op.stride_y - 1}
