"""Commands of one convolution or pool on the emulated device, with inputs and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from host.device import Device
from host.reference import (
    TRANSPOSED,
    Command,
    Run,
    Weights,
    Window,
    from_memory,
    pack,
    pair,
    to_memory,
)

if TYPE_CHECKING:
    from host.reference import Map


def integers(seed: int, *shape: int, most: int = 3) -> Map:
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(np.float64)


def integer_weights(seed: int, m: int, c: int, size: tuple[int, int], *, palette: bool, prelu: bool = False) -> Weights:
    bias, slopes = integers(seed + 1, m, most=5), integers(seed + 2, m, most=2) if prelu else None
    if not palette:
        return Weights(integers(seed, m, c, *size), bias, None, slopes)
    centers = np.concatenate([[0.0], integers(seed + 3, 255)])
    indices = np.random.default_rng(seed).integers(0, 256, (m, c, *size)).astype(np.uint8)
    return Weights(indices, bias, centers, slopes)


class Bench:
    """One memory for maps, one a run for weights, and one command after the other."""

    def __init__(self, device: Device, *, transposed: bool, size: int = 1 << 20) -> None:
        self.device, self.transposed = device, transposed
        self.io = device.alloc(size)

    def put(self, offset: int, values: Map) -> int:
        data = to_memory(values, transposed=self.transposed)
        self.device.write(self.io, offset, data)
        return offset + -(-len(data) // 16) * 16

    def get(self, offset: int, shape: tuple[int, int, int]) -> Map:
        return from_memory(self.device.read(self.io, offset, int(np.prod(shape))), shape, transposed=self.transposed)

    def pack(self, weights: Weights, *, dilated: bool = False) -> tuple[int, int]:
        return self.device.store(pack(weights, transposed=self.transposed, dilated=dilated)), 0

    def conv_run(self, weights: Weights, window: Window, enable: int) -> Run:
        dilated = max(window.dilation) > 1
        return Run(
            len(weights.bias), self.pack(weights, dilated=dilated), conv_pad=window.pad.register(), conv_enable=enable,
            p=pair(window.size), conv_stride=pair(window.stride), conv_dilation=pair(window.dilation) if dilated else 0,
            weight_fmt=1 if weights.palette is None else 3,
        )  # fmt: skip

    def command(self, values: Map, *runs: Run, topo: int | None = None, operand: Map | None = None) -> Command:
        height, width, channels = values.shape
        end = self.put(0, values)
        eltwise = (0, 0)
        if operand is not None:
            eltwise, end = (self.io, end), self.put(end, operand)
        return Command(
            width, height, channels, list(runs), (self.io, 0), (self.io, end), eltwise, topo or 1 << (len(runs) - 1),
            input_circular_offset=TRANSPOSED if self.transposed else 0, output_mode=int(operand is not None),
        )  # fmt: skip

    def result(self, command: Command, shape: tuple[int, int, int]) -> Map:
        self.device.run(command)
        return self.get(command.output_buf[1], shape)
