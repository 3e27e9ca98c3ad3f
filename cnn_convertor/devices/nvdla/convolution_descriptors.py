"""The descriptors of one operation of a convolution of features."""

from __future__ import annotations

from dataclasses import replace

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.convolving import Band, ConvolutionSize, Convolving, weight_bytes
from cnn_convertor.devices.nvdla.cubes import NOWHERE, Place, channels_of, flying_cube, number_of, rows_of
from cnn_convertor.devices.nvdla.firmware.conv import FEATURE
from cnn_convertor.devices.nvdla.firmware.descriptors import Converter, ConvOperation, ConvSurfaces, Cube, MemoryKind
from cnn_convertor.ir.ops import Shape
from cnn_convertor.layouts.nvdla.precision import Precision

_UNCHANGED = Converter(scale=1, truncate=0, enable=0, offset=0)


def conv_operation(
    size: ConvolutionSize,
    band: Band,
    convolving: Convolving,
    *,
    source: Cube,
    weights: Place,
    configuration: Configuration,
    precision: Precision,
) -> tuple[ConvOperation, ConvSurfaces]:
    """One of `convolving.bands`. source: the whole input, which may be channels of a larger map. weights: all kernels, packed."""
    window = size.window
    kernel_bytes = size.kernel_bytes(precision)
    input_of_band = rows_of(source, band.lines, configuration, precision)
    output = Shape(band.rows.number, size.output.width, band.kernels)
    number = number_of(precision)
    op = ConvOperation(
        conv_mode=0,
        data_reuse=0,
        weight_reuse=int(band.reuses_weights),
        skip_data_rls=0,
        skip_weight_rls=int(band.keeps_weights),
        entry_per_slice=convolving.entries,
        data_format=FEATURE,
        pixel_mapping=0,
        fetch_grain=1,
        batch=1,
        weight_format=0,
        data_bank=convolving.data_banks,
        weight_bank=convolving.weight_banks,
        batch_stride=0,
        post_extension=0,
        pixel_override=0,
        release=band.lines.number,
        input_width_csc=size.input.width,
        input_height_csc=band.lines.number,
        input_channel_csc=size.input.channels,
        kernel_width_csc=window.kernel.width,
        kernel_height_csc=window.kernel.height,
        kernel_channel_csc=size.input.channels,
        input_width_cmac=output.width,
        input_height_cmac=output.height,
        bytes_per_kernel=kernel_bytes,
        mean_ry=0,
        mean_gu=0,
        mean_bv=0,
        mean_ax=0,
        mean_format=0,
        conv_stride_x=window.stride.width,
        conv_stride_y=band.stride,
        pad_x_left=window.padding.left,
        pad_x_right=size.pad_right,
        pad_y_top=band.pad_top,
        pad_y_bottom=band.pad_bottom,
        dilation_x=window.dilation.width,
        dilation_y=band.dilation,
        pra_truncate=0,
        in_precision=number,
        out_precision=number,
        pad_val=0,
        in_cvt=_UNCHANGED,
        out_cvt=replace(_UNCHANGED, enable=1),
    )
    kernels = Cube(
        type=MemoryKind.DRAM,
        address=weights.memory,
        offset=weights.offset + band.kernel * kernel_bytes,
        size=weight_bytes(band.kernels, kernel_bytes, configuration),
        width=window.kernel.width,
        height=window.kernel.height,
        channel=size.input.channels,
        line_stride=0,
        surf_stride=0,
        plane_stride=0,
    )
    flying = flying_cube(output)
    if output.is_vector:  # as recorded; the firmware calls its lines and surfaces packed
        flying = replace(flying, line_stride=configuration.atom_bytes)
    return op, ConvSurfaces(
        weight_data=kernels,
        wmb_data=NOWHERE,
        wgs_data=NOWHERE,
        src_data=input_of_band,
        dst_data=flying,
        offset_u=0,
        in_line_uv_stride=0,
    )


def band_of_map(cube: Cube, band: Band, configuration: Configuration, precision: Precision) -> Cube:
    """What a band computes of a map of the convolution's output: where the SDP writes it, or reads operands for it."""
    part = channels_of(cube, band.kernel, band.kernels, configuration, precision)
    return rows_of(part, band.rows, configuration, precision)
