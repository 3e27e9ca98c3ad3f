"""Commands of the blocks beside the convolution: an argmax over channels, and images drawn as maps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.fp64 import from_memory
from cnn_convertor.devices.dv700.probe.random_numbers import INTEGERS, draw
from cnn_convertor.emulation.generator import draw_bytes


class DeviceBlock(IntEnum):
    """The values are the SDK's device types."""

    CONV = 1
    IPU = 3
    MAXIMIZER = 4


@dataclass(frozen=True, slots=True)
class Argmax:
    """The lowest index among the largest of `classes` channels, as a byte for each pixel."""

    name: str
    height: int
    width: int
    classes: int

    @property
    def input_bytes(self) -> int:
        return 2 * self.height * self.width * self.classes

    @property
    def is_exact(self) -> bool:
        return True

    def expect(self, seed: int) -> NDArray[np.uint8]:
        shape = (self.height, self.width, self.classes)
        maps = from_memory(draw(self.height * self.width * self.classes, seed, INTEGERS), shape, transposed=False)
        best: NDArray[np.uint8] = maps.argmax(axis=2).T.reshape(-1).astype(np.uint8)  # in order x * height + y
        return best


class Pixels(IntEnum):
    """Formats of images. The values are the registers'."""

    RGBA = 0
    RGB = 1
    FP16 = 2


_BYTES = {Pixels.RGBA: 4, Pixels.RGB: 3, Pixels.FP16: 6}
_BY_255 = 1  # cnv_type; 0 subtracts the parameters


@dataclass(frozen=True, slots=True)
class Drawing:
    """An image drawn without scaling, since the positions of samples are not documented.

    order: where a pixel of the image has red, green and blue. by_255: divide by it, else subtract `less`, both to FP16.
    """

    name: str
    height: int
    width: int
    source: Pixels
    target: Pixels
    order: tuple[int, int, int] = (0, 1, 2)
    transposed: bool = False
    by_255: bool = False
    less: tuple[int, int, int] = (0, 0, 0)

    @property
    def input_bytes(self) -> int:
        return self.height * self.width * _BYTES[self.source]

    @property
    def is_exact(self) -> bool:
        """Whether the result is known to the last digit: how a quotient is rounded is not documented."""
        return not self.by_255

    def registers(self) -> tuple[int | str, ...]:
        """The fields of an Image of the program."""
        stride = (self.height if self.transposed else self.width) * _BYTES[self.target]
        parameters = "{" + ", ".join(map(str, self.less)) + "}"
        fields = (self.source, self.target, stride, self.transposed, *self.order, _BY_255 * self.by_255)
        return (*map(int, fields), parameters)

    def expect(self, seed: int) -> NDArray[np.uint8] | NDArray[np.float16]:
        drawn = draw_bytes(self.input_bytes, seed).reshape(self.height, self.width, -1)
        pixels = drawn[:, :, list(self.order)]
        lines = (pixels.transpose(1, 0, 2) if self.transposed else pixels).reshape(-1)
        if self.target is Pixels.RGB:
            return lines
        if self.by_255:
            return (lines.astype(np.float64) / 255).astype(np.float16)
        return (lines - np.tile(self.less, lines.size // 3).astype(np.float64)).astype(np.float16)


BlockCommand: TypeAlias = Argmax | Drawing


def block_commands() -> tuple[BlockCommand, ...]:
    sizes = ((1, 1, 2), (1, 1, 255), (7, 9, 8), (128, 3, 9), (13, 491, 16), (5, 6, 21), (1, 65534, 2), (65535, 1, 3))
    argmaxes = (Argmax(f"argmax of {n} over {height}x{width}", height, width, n) for height, width, n in sizes)
    frame, bgr = (21, 34), (2, 1, 0)
    return (
        *argmaxes,
        Drawing("RGB to FP16", *frame, Pixels.RGB, Pixels.FP16),
        Drawing("RGB to FP16, by columns", *frame, Pixels.RGB, Pixels.FP16, transposed=True),
        Drawing("BGR to FP16, minus means", *frame, Pixels.RGB, Pixels.FP16, bgr, less=(104, 117, 123)),
        Drawing("RGB to FP16, by 255", *frame, Pixels.RGB, Pixels.FP16, by_255=True),
        Drawing("BGR to FP16, by 255, by columns", *frame, Pixels.RGB, Pixels.FP16, bgr, transposed=True, by_255=True),
        Drawing("RGBA to FP16", *frame, Pixels.RGBA, Pixels.FP16, less=(128, 128, 128)),
        Drawing("BGRA to RGB", *frame, Pixels.RGBA, Pixels.RGB, bgr),
        Drawing("a frame of 640x480 to FP16", 480, 640, Pixels.RGB, Pixels.FP16),
    )
