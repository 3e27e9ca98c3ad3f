"""What a probe finds out about a board: the forms of commands, and features that not every device has."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from cnn_convertor.devices.dv700.fusion.levels import Form


class Feature(Enum):
    """The value says in words what the device can do."""

    DECONVOLUTION = "a deconvolution"
    DILATION = "a dilated convolution"
    PALETTE = "weights with a palette"
    PRELU = "PReLU"
    UPSAMPLING = "upsampling"
    RECTANGULAR_POOL = "a pool whose width and height differ"
    U8_INPUT = "8-bit input through a table"
    BATCH = "several samples in one command"
    MAXIMIZER = "an argmax over channels"
    IPU = "an image drawn as a map"


Aspect: TypeAlias = Form | Feature
ASPECTS: tuple[Aspect, ...] = (*Form, *Feature)


def words(aspect: Aspect) -> str:
    return aspect.words if isinstance(aspect, Form) else aspect.value
