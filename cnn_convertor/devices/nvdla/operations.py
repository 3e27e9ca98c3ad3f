"""An operation of the hardware, as the steps of a network are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cnn_convertor.devices.nvdla.firmware.descriptors import Engine, Lut, MemoryKind


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


def in_sequence(operations: Sequence[HardwareOperation]) -> tuple[HardwareOperation, ...]:
    """The same, each after the one before it, or fused with it where that hands its output on."""
    linked = []
    for number, operation in enumerate(operations):
        if operation.surfaces.src_data.type == MemoryKind.HW:
            linked.append(operation._replace(fused_with=number - 1))
            continue
        linked.append(operation._replace(after=(number - 1,) if number else ()))
    return tuple(linked)
