"""What the fields of operations may hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cnn_convertor.devices.nvdla.firmware.bdma_rubik import UNIT
from cnn_convertor.devices.nvdla.firmware.conv import FEATURE
from cnn_convertor.devices.nvdla.firmware.descriptors import Engine

PRECISIONS: Final = ("int8", "int16", "fp16")  # by the firmware's numbers
LARGEST: Final = 8192  # width, height and channels of a cube
# Field of an operation -> its least and its largest value. Sources: the fields of the registers, and what the firmware checks.
RANGES: Final[Mapping[Engine, Mapping[str, tuple[int, int]]]] = {
    Engine.BDMA: {},
    Engine.CONV: {
        "data_format": (0, FEATURE),
        "kernel_width_csc": (1, 32),
        "kernel_height_csc": (1, 32),
        "conv_stride_x": (1, 8),
        "conv_stride_y": (1, 8),
        "dilation_x": (1, 32),
        "dilation_y": (1, 32),
        "pad_x_left": (0, 31),
        "pad_y_top": (0, 31),
        "pad_x_right": (0, 63),
        "pad_y_bottom": (0, 63),
        "bytes_per_kernel": (1, 1 << 18),
        "release": (1, 4096),
        "fetch_grain": (1, 4096),
        "batch": (1, 32),
        "post_extension": (0, 2),
        "pra_truncate": (0, 2),
        "in_cvt.truncate": (0, 63),
        "out_cvt.truncate": (0, 31),
        "out_cvt.scale": (1, 1),
        "out_cvt.offset": (0, 0),
    },
    Engine.SDP: {"out_cvt.truncate": (0, 63), "batch_num": (1, 32)}
    | {f"{unit}_op.{field}": (0, 63) for unit in ("x1", "x2", "y") for field in ("shift_value", "truncate")},
    Engine.PDP: {
        "pool_width": (0, 7),
        "pool_height": (0, 7),
        "stride_x": (1, 8),
        "stride_y": (1, 8),
        "pad_left": (0, 7),
        "pad_right": (0, 7),
        "pad_top": (0, 7),
        "pad_bottom": (0, 7),
        "split_num": (1, 64),
        "partial_in_width_first": (0, 1024),
        "partial_in_width_mid": (0, 1024),
        "partial_in_width_last": (0, 1024),
        "partial_width_first": (0, 1024),
        "partial_width_mid": (0, 1024),
        "partial_width_last": (0, 1024),
    },
    Engine.CDP: {"local_size": (3, 9), "in_cvt.truncate": (0, 31), "out_cvt.truncate": (0, 63)},
    Engine.RUBIK: {"stride_x": (1, 32), "stride_y": (1, 32)},
}
TRANSFER_RANGES: Final = {
    "line_repeat": (1, LARGEST),
    "surface_repeat": (1, LARGEST),
    "line_size": (UNIT, LARGEST * UNIT),
}
