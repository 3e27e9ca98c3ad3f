"""An operation of the hardware, as the steps of a network are made of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from cnn_convertor.devices.nvdla.firmware.descriptors import Engine, Lut


class HardwareOperation(NamedTuple):
    """op, surfaces: descriptors of the engine. lut: the tables that it reads.

    after: indices of earlier operations whose results it needs, or whose inputs it overwrites.
    fused_with: the operation right before it, whose output flows into it without memory: of a convolution into SDP, of SDP into PDP.
    """

    engine: Engine
    op: Any
    surfaces: Any
    lut: Lut | None = None
    after: tuple[int, ...] = ()
    fused_with: int | None = None
