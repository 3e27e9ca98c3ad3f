"""Finds the command of the image unit that turns a camera's frame into the network's input."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.byte_input import CHANNELS
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.half import to_half

BLOCK = "ipu"
LARGEST_FRAME = 4095  # pixels in a direction
_PIXELS = np.arange(256.0)[:, None]


class PixelConversion(Enum):
    """The values are the SDK's names, of the registers fmt_wr and cnv_type."""

    TO_BYTES = ("DMP_DV_RGB888", "DMP_DV_CNV_FP16_SUB")
    SUBTRACTION = ("DMP_DV_RGBFP16", "DMP_DV_CNV_FP16_SUB")
    BY_255 = ("DMP_DV_RGBFP16", "DMP_DV_CNV_FP16_DIV_255")


class FrameInput(NamedTuple):
    """How the image unit writes the input. less: what it subtracts from each channel. line_bytes: of a row, or of a column."""

    conversion: PixelConversion
    less: tuple[int, int, int]
    line_bytes: int


def frame_input(program: Program, device: Device, every_byte: Callable[[], NDArray[np.float32]]) -> FrameInput | None:
    """How the image unit makes the same input as the application would; None where it cannot.

    every_byte: what each byte of a pixel becomes in each channel, (256, channels).
    """
    if BLOCK not in device.blocks or len(program.inputs) != 1:
        return None
    ((_, tensor),) = program.inputs
    if tensor.shape.channels != CHANNELS:
        return None
    conversion = (PixelConversion.TO_BYTES, (0, 0, 0)) if program.byte_input else _conversion(to_half(every_byte()))
    if conversion is None:
        return None
    line = tensor.shape.width if program.transposed else tensor.shape.height
    return FrameInput(*conversion, line * CHANNELS * tensor.type.value)


def _conversion(halves: NDArray[np.float16]) -> tuple[PixelConversion, tuple[int, int, int]] | None:
    """The conversion that gives these numbers for each byte and channel."""
    if np.array_equal(halves, np.broadcast_to(to_half((_PIXELS / 255).astype(np.float32)), halves.shape)):
        return PixelConversion.BY_255, (0, 0, 0)
    less = -halves[0].astype(np.float64)
    if np.isin(less, _PIXELS).all() and np.array_equal(halves, _PIXELS - less):
        red, green, blue = map(int, less)
        return PixelConversion.SUBTRACTION, (red, green, blue)
    return None
