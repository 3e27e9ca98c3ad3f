"""The registers of a convolution."""

from __future__ import annotations

from collections.abc import Iterator

from cnn_convertor.devices.nvdla.firmware.descriptors import ConvOperation, ConvSurfaces
from cnn_convertor.devices.nvdla.firmware.register_settings import LOW, Places, Setting, ram, require

FEATURE = 36  # data_format of feature data; those below are pixels
WINOGRAD = 1
COMPRESSED = 1
_HALF = 0xFFFF


def conv_settings(op: ConvOperation, surfaces: ConvSurfaces, places: Places) -> Iterator[Setting]:
    """In the firmware's order."""
    converter = op.out_cvt
    require((converter.scale, converter.offset) == (1, 0), "the output of a convolution has no scale and no offset")
    yield from _accumulator(op, surfaces)
    mode = {"CONV_MODE": op.conv_mode, "PROC_PRECISION": op.out_precision}
    yield "CMAC_A.D_MISC_CFG", mode
    yield "CMAC_B.D_MISC_CFG", mode
    yield from _sequencer(op, surfaces)
    yield from _fetching(op, surfaces, places)


def _accumulator(op: ConvOperation, surfaces: ConvSurfaces) -> Iterator[Setting]:
    output = surfaces.dst_data
    is_pixel = int(output.width == output.height == 1)
    yield "CACC.D_MISC_CFG", {"CONV_MODE": op.conv_mode, "PROC_PRECISION": op.out_precision}
    yield "CACC.D_DATAOUT_SIZE_0", {"DATAOUT_WIDTH": output.width - 1, "DATAOUT_HEIGHT": output.height - 1}
    yield "CACC.D_DATAOUT_SIZE_1", output.channel - 1
    yield "CACC.D_DATAOUT_ADDR", 0  # the result goes to the SDP
    yield "CACC.D_BATCH_NUMBER", op.batch - 1
    yield "CACC.D_LINE_STRIDE", output.line_stride
    yield "CACC.D_SURF_STRIDE", output.surf_stride
    yield "CACC.D_DATAOUT_MAP", {"LINE_PACKED": is_pixel, "SURF_PACKED": is_pixel}
    yield "CACC.D_CLIP_CFG", op.out_cvt.truncate


def _reuse(op: ConvOperation) -> dict[str, int]:
    return {
        "CONV_MODE": op.conv_mode,
        "PROC_PRECISION": op.out_precision,
        "DATA_REUSE": op.data_reuse,
        "WEIGHT_REUSE": op.weight_reuse,
        "SKIP_DATA_RLS": op.skip_data_rls,
        "SKIP_WEIGHT_RLS": op.skip_weight_rls,
    }


def _sequencer(op: ConvOperation, surfaces: ConvSurfaces) -> Iterator[Setting]:
    kernels = surfaces.dst_data.channel
    is_direct = int(op.conv_mode != WINOGRAD)  # else the CDMA extends its input by strides and padding
    yield "CSC.D_MISC_CFG", _reuse(op) | {"IN_PRECISION": op.out_precision}
    yield "CSC.D_DATAIN_FORMAT", int(op.data_format < FEATURE)
    size = {"DATAIN_WIDTH_EXT": op.input_width_csc - 1, "DATAIN_HEIGHT_EXT": op.input_height_csc - 1}
    yield "CSC.D_DATAIN_SIZE_EXT_0", size
    yield "CSC.D_DATAIN_SIZE_EXT_1", op.input_channel_csc - 1
    yield "CSC.D_BATCH_NUMBER", op.batch - 1
    yield "CSC.D_POST_Y_EXTENSION", op.post_extension
    yield "CSC.D_ENTRY_PER_SLICE", op.entry_per_slice - 1
    yield "CSC.D_WEIGHT_FORMAT", op.weight_format
    kernel = {"WEIGHT_WIDTH_EXT": op.kernel_width_csc - 1, "WEIGHT_HEIGHT_EXT": op.kernel_height_csc - 1}
    yield "CSC.D_WEIGHT_SIZE_EXT_0", kernel
    yield "CSC.D_WEIGHT_SIZE_EXT_1", {"WEIGHT_CHANNEL_EXT": op.kernel_channel_csc - 1, "WEIGHT_KERNEL": kernels - 1}
    yield "CSC.D_WEIGHT_BYTES", surfaces.weight_data.size
    yield "CSC.D_WMB_BYTES", surfaces.wmb_data.size
    output = {"DATAOUT_WIDTH": op.input_width_cmac - 1, "DATAOUT_HEIGHT": op.input_height_cmac - 1}
    yield "CSC.D_DATAOUT_SIZE_0", output
    yield "CSC.D_DATAOUT_SIZE_1", kernels - 1
    yield "CSC.D_ATOMICS", surfaces.dst_data.width * surfaces.dst_data.height - 1
    yield "CSC.D_RELEASE", op.release - 1
    strides = {"CONV_X_STRIDE_EXT": op.conv_stride_x - 1, "CONV_Y_STRIDE_EXT": op.conv_stride_y - 1}
    yield "CSC.D_CONV_STRIDE_EXT", {name: is_direct * stride for name, stride in strides.items()}
    yield "CSC.D_DILATION_EXT", {"X_DILATION_EXT": op.dilation_x - 1, "Y_DILATION_EXT": op.dilation_y - 1}
    yield "CSC.D_ZERO_PADDING", {"PAD_LEFT": is_direct * op.pad_x_left, "PAD_TOP": is_direct * op.pad_y_top}
    yield "CSC.D_ZERO_PADDING_VALUE", op.pad_val & _HALF
    yield "CSC.D_BANK", _banks(op)
    yield "CSC.D_PRA_CFG", op.pra_truncate


def _banks(op: ConvOperation) -> dict[str, int]:
    return {"DATA_BANK": op.data_bank - 1, "WEIGHT_BANK": op.weight_bank - 1}


def _fetching(op: ConvOperation, surfaces: ConvSurfaces, places: Places) -> Iterator[Setting]:
    source = surfaces.src_data
    is_image = op.data_format < FEATURE
    yield "CDMA.D_MISC_CFG", _reuse(op) | {"IN_PRECISION": op.in_precision}
    pixels = {"PIXEL_FORMAT": op.data_format, "PIXEL_MAPPING": op.pixel_mapping}
    pixels["PIXEL_SIGN_OVERRIDE"] = op.pixel_override
    yield "CDMA.D_DATAIN_FORMAT", {"DATAIN_FORMAT": 1, **pixels} if is_image else 0
    yield "CDMA.D_DATAIN_SIZE_0", {"DATAIN_WIDTH": source.width - 1, "DATAIN_HEIGHT": source.height - 1}
    yield "CDMA.D_DATAIN_SIZE_1", source.channel - 1
    size = {"DATAIN_WIDTH_EXT": op.input_width_csc - 1, "DATAIN_HEIGHT_EXT": op.input_height_csc - 1}
    yield "CDMA.D_DATAIN_SIZE_EXT_0", size
    yield "CDMA.D_DAIN_RAM_TYPE", ram(source.type)
    for plane, address in enumerate((places.of(source), places.of(source) + surfaces.offset_u)):
        yield f"CDMA.D_DAIN_ADDR_HIGH_{plane}", address >> 32
        yield f"CDMA.D_DAIN_ADDR_LOW_{plane}", address & LOW
    yield "CDMA.D_LINE_STRIDE", source.line_stride
    yield "CDMA.D_SURF_STRIDE", source.surf_stride
    yield "CDMA.D_LINE_UV_STRIDE", surfaces.in_line_uv_stride
    line = source.width * places.configuration.atom_bytes
    packed = {"LINE_PACKED": source.line_stride == line, "SURF_PACKED": source.surf_stride == line * source.height}
    yield "CDMA.D_DAIN_MAP", {name: int(each and not is_image) for name, each in packed.items()}
    yield "CDMA.D_BATCH_NUMBER", op.batch - 1
    yield "CDMA.D_BATCH_STRIDE", op.batch_stride
    yield "CDMA.D_ENTRY_PER_SLICE", op.entry_per_slice - 1
    yield "CDMA.D_FETCH_GRAIN", op.fetch_grain - 1
    yield from _weights(op, surfaces, places)
    yield "CDMA.D_MEAN_FORMAT", op.mean_format
    if op.mean_format:
        yield "CDMA.D_MEAN_GLOBAL_0", {"MEAN_RY": op.mean_ry, "MEAN_GU": op.mean_gu}
        yield "CDMA.D_MEAN_GLOBAL_1", {"MEAN_BV": op.mean_bv, "MEAN_AX": op.mean_ax}
    yield "CDMA.D_CVT_CFG", {"CVT_EN": op.in_cvt.enable, "CVT_TRUNCATE": op.in_cvt.truncate}
    if op.in_cvt.enable:
        yield "CDMA.D_CVT_OFFSET", op.in_cvt.offset
        yield "CDMA.D_CVT_SCALE", op.in_cvt.scale
    yield "CDMA.D_CONV_STRIDE", {"CONV_X_STRIDE": op.conv_stride_x - 1, "CONV_Y_STRIDE": op.conv_stride_y - 1}
    sides = {"PAD_LEFT": op.pad_x_left, "PAD_RIGHT": op.pad_x_right}
    yield "CDMA.D_ZERO_PADDING", sides | {"PAD_TOP": op.pad_y_top, "PAD_BOTTOM": op.pad_y_bottom}
    yield "CDMA.D_ZERO_PADDING_VALUE", op.pad_val & _HALF
    yield "CDMA.D_BANK", _banks(op)


def _weights(op: ConvOperation, surfaces: ConvSurfaces, places: Places) -> Iterator[Setting]:
    address = places.of(surfaces.weight_data)
    yield "CDMA.D_WEIGHT_FORMAT", op.weight_format
    yield "CDMA.D_WEIGHT_SIZE_0", op.bytes_per_kernel - 1
    yield "CDMA.D_WEIGHT_SIZE_1", surfaces.dst_data.channel - 1
    yield "CDMA.D_WEIGHT_RAM_TYPE", ram(surfaces.weight_data.type)
    yield "CDMA.D_WEIGHT_ADDR_HIGH", address >> 32
    yield "CDMA.D_WEIGHT_ADDR_LOW", address & LOW
    yield "CDMA.D_WEIGHT_BYTES", surfaces.weight_data.size
    if op.weight_format == COMPRESSED:  # assumed: no recorded layer has compressed weights
        for name, cube in (("WGS", surfaces.wgs_data), ("WMB", surfaces.wmb_data)):
            yield f"CDMA.D_{name}_ADDR_HIGH", places.of(cube) >> 32
            yield f"CDMA.D_{name}_ADDR_LOW", places.of(cube) & LOW
        yield "CDMA.D_WMB_BYTES", surfaces.wmb_data.size
