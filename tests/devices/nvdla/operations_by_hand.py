"""Operations of nv_full in FP16, written by hand: each has the descriptors of a layer."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Final

from cnn_convertor.devices.nvdla.configurations import NV_FULL
from cnn_convertor.devices.nvdla.firmware.descriptors import (
    BdmaOperation,
    BdmaSurfaces,
    CdpOperation,
    CdpSurfaces,
    Converter,
    Converters,
    ConvOperation,
    ConvSurfaces,
    Cube,
    Engine,
    Lut,
    MemoryKind,
    PdpOperation,
    PdpSurfaces,
    RubikOperation,
    RubikSurfaces,
    SdpOperation,
    SdpSurfaces,
    SdpUnit,
    Slope,
    Transfer,
)
from cnn_convertor.devices.nvdla.operations import HardwareOperation
from devices.nvdla.programs import Convolution, Features

WEIGHTS, IO = 1, 2  # indices of the list of addresses
FP16: Final = 2
ATOM: Final = 32
NOTHING = Cube(MemoryKind.HW, -1, 0, 0, 0, 0, 0, 0, 0, 0)
PLAIN = Converter(1, 0, 1, 0)
UNUSED = SdpUnit(0, 2, 0, 0, 0, 0, 0, 0, 0, 1, Converters(Converter(0, 0, 0, 0), Converter(0, 0, 0, 0)))


def cube(offset: int, height: int, width: int, channels: int, address: int = IO) -> Cube:
    """A packed map."""
    line = ATOM * width
    size = -(-channels // 16) * line * height
    return Cube(0, address, offset, size, width, height, channels, line, line * height, 0)


def flying(of: Cube) -> Cube:
    """A map of this size that does not come into memory."""
    return replace(NOTHING, width=of.width, height=of.height, channel=of.channel)


def convolution(source: Cube, kernels: int, size: int, pads: int, weights: int, **graph: Any) -> HardwareOperation:
    """Square kernels with a stride of 1. weights: their offset."""
    features = Features(0, source.height, source.width, source.channel, "fp16", source.line_stride, source.surf_stride)
    c = Convolution(features, 0, kernels, size, size, pads=(pads, pads, pads, pads))
    op = ConvOperation(
        conv_mode=0,
        data_reuse=0,
        weight_reuse=0,
        skip_data_rls=0,
        skip_weight_rls=0,
        entry_per_slice=c.entries(NV_FULL),
        data_format=36,
        pixel_mapping=0,
        fetch_grain=1,
        batch=1,
        weight_format=0,
        data_bank=-(-c.entries(NV_FULL) * source.height // 256),
        weight_bank=-(-c.weight_bytes(NV_FULL) // (256 * 128)),
        batch_stride=0,
        post_extension=0,
        pixel_override=0,
        release=source.height,
        input_width_csc=source.width,
        input_height_csc=source.height,
        input_channel_csc=source.channel,
        kernel_width_csc=size,
        kernel_height_csc=size,
        kernel_channel_csc=source.channel,
        input_width_cmac=c.width,
        input_height_cmac=c.height,
        bytes_per_kernel=c.kernel_bytes,
        mean_ry=0,
        mean_gu=0,
        mean_bv=0,
        mean_ax=0,
        mean_format=0,
        conv_stride_x=1,
        conv_stride_y=1,
        pad_x_left=pads,
        pad_x_right=pads,
        pad_y_top=pads,
        pad_y_bottom=pads,
        dilation_x=1,
        dilation_y=1,
        pra_truncate=0,
        in_precision=FP16,
        out_precision=FP16,
        pad_val=0,
        in_cvt=replace(PLAIN, enable=0),
        out_cvt=PLAIN,
    )
    held = Cube(0, WEIGHTS, weights, c.weight_bytes(NV_FULL), size, size, source.channel, 0, 0, 0)
    output = flying(cube(0, c.height, c.width, kernels))
    return HardwareOperation(Engine.CONV, op, ConvSurfaces(held, NOTHING, NOTHING, source, output, 0, 0), **graph)


def point(
    source: Cube, output: Cube, *, bias: int | None = None, add: Cube | None = None, relu: bool = False, **graph: Any
) -> HardwareOperation:
    """SDP. bias: offset of one value for each channel. add: another map."""
    x1, x2, y = UNUSED, UNUSED, UNUSED
    x1_data = x2_data = NOTHING
    if bias is not None:
        x1 = replace(UNUSED, enable=1, type=2, mode=1, precision=FP16)
        line = ATOM * -(-source.channel // 16)
        x1_data = Cube(0, WEIGHTS, bias, line, 1, 1, source.channel, ATOM, ATOM, 0)
    if add is not None:
        x2 = replace(UNUSED, enable=1, type=2, mode=2, precision=FP16)
        x2_data = add
    if relu:
        x2 = replace(x2, enable=1, act=1)
    if graph.get("lut") is not None:
        y = replace(UNUSED, enable=1, act=2)
    op = SdpOperation(FP16, FP16, -1, PLAIN, 0, 1, 0, x1, x2, y)
    return HardwareOperation(Engine.SDP, op, SdpSurfaces(source, x1_data, x2_data, NOTHING, output), **graph)


def pool(source: Cube, output: Cube, size: int = 1, **graph: Any) -> HardwareOperation:
    """The largest of squares that lie side by side."""
    op = PdpOperation(0, 0, 0, 0, 0, 0, 1, 1, size - 1, size - 1, size, size, 0, 0, 0, 0, FP16, (0,) * 7)
    return HardwareOperation(Engine.PDP, op, PdpSurfaces(source, output), **graph)


def response(source: Cube, output: Cube, **graph: Any) -> HardwareOperation:
    """CDP over 3 channels."""
    return HardwareOperation(
        Engine.CDP, CdpOperation(FP16, FP16, -1, PLAIN, PLAIN, 3, 0, 0), CdpSurfaces(source, output), **graph
    )


def reshape(source: Cube, output: Cube, **graph: Any) -> HardwareOperation:
    """RUBIK, which contracts nothing."""
    return HardwareOperation(Engine.RUBIK, RubikOperation(0, FP16, 1, 1), RubikSurfaces(source, output), **graph)


def copy(source: Cube, output: Cube, **graph: Any) -> HardwareOperation:
    """BDMA; it has no offsets, so each map has an address of its own."""
    moved = Transfer(
        source.address, output.address, source.size, 1, source.size, source.size, 1, source.size, source.size
    )
    return HardwareOperation(Engine.BDMA, BdmaOperation(1), BdmaSurfaces(0, 0, 1, (moved,)), **graph)


def table(seed: int) -> Lut:
    """Some function, from -8 to 8."""
    random = Random(seed)
    raw, dense = (tuple(random.randrange(0x3000, 0x4000) for _ in range(count)) for count in (65, 257))
    none = Slope(0, 0)
    ends = (0xBF800000, 0x3F800000, 0xC1000000, 0x41000000)
    return Lut(raw, dense, -5, -4, *ends, none, none, none, none, 0, 1, 1, 1)
