"""What the elements of a kernel meet as it moves over maps, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.runs import Convolution, Pooling, Run
from cnn_convertor.emulation.feature_maps import Values
from cnn_convertor.ir.ops import ONE, Padding, Pair

Single: TypeAlias = NDArray[np.float32]
Tap: TypeAlias = tuple[int, int]  # (y, x) of an element of a kernel


class Windows(NamedTuple):
    """The windows of a convolution or a pooling. height, width: of its output. spread: pixels from one of the input to the next,
    with zeros between them.
    """

    kernel: Pair
    stride: Pair
    dilation: Pair
    padding: Padding
    height: int
    width: int
    spread: Pair = ONE

    @classmethod
    def of_convolution(cls, convolution: Convolution) -> Windows:
        kernel = convolution.kernel
        stride = convolution.stride
        dilation = convolution.dilation
        padding = convolution.padding
        output = convolution.output
        if convolution.kind.is_transposed:
            return cls(kernel, ONE, dilation, padding, output.height, output.width, stride)
        return cls(kernel, stride, dilation, padding, output.height, output.width)

    @classmethod
    def of_pooling(cls, pooling: Pooling, run: Run) -> Windows:
        return cls(pooling.kernel, pooling.stride, ONE, pooling.padding, run.output.height, run.output.width)

    def taps(self, maps: Values, around: float = 0.0) -> Iterator[tuple[Tap, Values]]:
        """For each element of the kernel, the inputs it meets: (N, H, W, C) of the output's size. around: the padding."""
        padded = np.full(self._padded_shape(maps.shape), around, maps.dtype)
        self._inside(padded, maps.shape)[...] = maps
        for y, x in np.ndindex(*self.kernel):
            yield (y, x), padded[self._seen((y, x))]

    def back(self, shape: tuple[int, ...], values: Callable[[Tap], Single]) -> Single:
        """The sums, (N, H, W, C), of what the elements of the kernel put where they meet an input. shape: of the inputs."""
        padded = np.zeros(self._padded_shape(shape), np.float32)
        for y, x in np.ndindex(*self.kernel):
            padded[self._seen((y, x))] += values((y, x))
        return self._inside(padded, shape)

    def _padded_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """With room for every window."""
        samples, height, width, channels = shape
        tall = (height - 1) * self.spread.height + 1
        wide = (width - 1) * self.spread.width + 1
        bottom = (self.height - 1) * self.stride.height + (self.kernel.height - 1) * self.dilation.height + 1
        right = (self.width - 1) * self.stride.width + (self.kernel.width - 1) * self.dilation.width + 1
        return samples, max(bottom, self.padding.top + tall), max(right, self.padding.left + wide), channels

    def _inside(self, padded: Values, shape: tuple[int, ...]) -> Values:
        """The positions of the inputs among the padding."""
        top = self.padding.top
        left = self.padding.left
        down = self.spread.height
        right = self.spread.width
        rows = slice(top, top + (shape[1] - 1) * down + 1, down)
        columns = slice(left, left + (shape[2] - 1) * right + 1, right)
        return padded[:, rows, columns]

    def _seen(self, tap: Tap) -> tuple[slice, ...]:
        top, left = tap[0] * self.dilation.height, tap[1] * self.dilation.width
        down, right = self.stride.height, self.stride.width
        rows = slice(top, top + (self.height - 1) * down + 1, down)
        return slice(None), rows, slice(left, left + (self.width - 1) * right + 1, right)
