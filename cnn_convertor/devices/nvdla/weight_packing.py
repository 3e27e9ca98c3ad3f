"""Packs kernels and the operands of the SDP into the weight buffer, piece by piece."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.half_check import HalfCheck, warn_of_losses
from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.convolving import weight_bytes
from cnn_convertor.devices.nvdla.cubes import lanes
from cnn_convertor.errors import Origin, Problem, UnsupportedError
from cnn_convertor.ir.constant import Constant
from cnn_convertor.layouts.layout import Layout
from cnn_convertor.layouts.nvdla import features, weights
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.packing import Bytes, pack

_HALF: Final = Precision.FP16
PIECE: Final = 1 << 20  # elements of kernels that are packed at a time; more where one group of kernels has more


@dataclass(frozen=True, slots=True)
class StoredKernels:
    """The kernels of a convolution.

    offset: bytes from the start of the weight buffer. weight: (K, C / groups, rows, columns). groups: more than one are
    stored as one dense convolution with zeros. where: the user's layer.
    """

    offset: int
    weight: Constant
    where: Origin | None
    groups: int = 1

    def nbytes(self, configuration: Configuration) -> int:
        kernels, channels, *taps = self.weight.shape
        kernel_bytes = channels * self.groups * math.prod(taps) * _HALF.element.itemsize
        return weight_bytes(kernels, kernel_bytes, configuration)

    def spread(self, values: NDArray[Any], first: int) -> NDArray[Any]:
        """Some kernels from that one on, with zeros for the channels of other groups."""
        if self.groups == 1:
            return values
        kernels, channels, *taps = values.shape
        group = np.arange(first, first + kernels) // (self.weight.shape[0] // self.groups)
        dense = np.zeros((kernels, self.groups, channels, *taps), values.dtype)
        dense[np.arange(kernels), group] = values
        return dense.reshape(kernels, self.groups * channels, *taps)


@dataclass(frozen=True, slots=True)
class StoredOperands:
    """What a unit of the SDP reads beside its input.

    arrays: (word for messages, values) of one operand, or of the addends and the factors. Values are (C,), for all pixels of
    a channel, or (C, H, W).
    """

    offset: int
    arrays: tuple[tuple[str, Constant], ...]
    where: Origin | None

    def nbytes(self, configuration: Configuration) -> int:
        (_, first), *_ = self.arrays
        return operand_bytes(first.shape, len(self.arrays), configuration)


StoredArrays: TypeAlias = StoredKernels | StoredOperands
Observer: TypeAlias = Callable[[StoredKernels, NDArray[np.float32]], None]  # is given all kernels, each piece once


def operand_bytes(shape: Sequence[int], operands: int, configuration: Configuration) -> int:
    """Of one or two operands (C,) or (C, H, W): whole atoms."""
    channels, *pixels = shape
    of_surface = lanes(configuration, _HALF)
    atoms = -(-channels // of_surface) * math.prod(pixels)
    return atoms * of_surface * operands * _HALF.element.itemsize


def aligned(offset: int) -> int:
    """Where the next array may start in the weight buffer."""
    return -(-offset // weights.START_ALIGN) * weights.START_ALIGN


def packed(
    stored: Sequence[StoredArrays],
    configuration: Configuration,
    *,
    unrounded: bool = False,
    observe: Observer | None = None,
) -> Iterator[Bytes]:
    """The weight buffer: the arrays at their offsets, which ascend, and zeros between.

    unrounded: FP32 in place of each FP16 number, so that all offsets and sizes double. observe: is given the kernels as they
    are read. Warns, once, of weights that are too small for FP16.
    Raises UnsupportedError at the end, with every layer that has weights that are too large for it, or NaN.
    """
    packer = _Packer(configuration, unrounded=unrounded)
    written = 0
    for each in stored:
        yield np.zeros(packer.scale * each.offset - written, np.uint8)
        written = packer.scale * (each.offset + each.nbytes(configuration))
        try:
            match each:
                case StoredKernels():
                    yield from packer.kernels(each, observe)
                case StoredOperands():
                    yield packer.operands(each)
        except UnsupportedError as error:
            packer.problems += error.problems
    if packer.problems:
        raise UnsupportedError(packer.problems)
    warn_of_losses(packer.checks)


class _Packer:
    """scale: of offsets and sizes. checks: of the kernels so far. problems: of the arrays that do not fit FP16."""

    def __init__(self, configuration: Configuration, *, unrounded: bool) -> None:
        self._configuration = configuration
        self._element = np.dtype(np.float32) if unrounded else _HALF.element
        self.scale = self._element.itemsize // _HALF.element.itemsize
        self.checks: list[HalfCheck] = []
        self.problems: list[Problem] = []

    def _layout(self, layout: Layout) -> Layout:
        return replace(layout, element=self._element, total_align=1)

    def kernels(self, stored: StoredKernels, observe: Observer | None) -> Iterator[Bytes]:
        """As many groups of kernels at a time as a piece holds."""
        form = self._configuration.form
        layout = self._layout(weights.direct(_HALF, form))
        check = HalfCheck(stored.where, stored.weight.size)
        kernels, channels, *taps = stored.weight.shape
        group = form.group(_HALF)
        at_a_time = max(1, PIECE // (channels * stored.groups * math.prod(taps) * group)) * group
        size = 0
        for first in range(0, kernels, at_a_time):
            values = stored.weight.load(slice(first, first + at_a_time))
            if observe is not None:
                observe(stored, values)
            piece = pack(stored.spread(self._elements(values, "weight", check), first), layout)
            size += piece.size
            yield piece
        yield np.zeros(self.scale * stored.nbytes(self._configuration) - size, np.uint8)
        self.checks.append(check)

    def operands(self, stored: StoredOperands) -> Bytes:
        check = HalfCheck(stored.where, 1)
        arrays = []
        for what, constant in stored.arrays:
            values = self._elements(constant.load(), what, check)
            arrays.append(values.reshape(len(values), *(constant.shape[1:] or (1, 1))))
        layout = features.operand(_HALF, self._configuration.form, data_size=2, operands=len(arrays))
        return pack(arrays[0] if len(arrays) == 1 else np.stack(arrays), self._layout(layout))

    def _elements(self, values: NDArray[np.float32], what: str, check: HalfCheck) -> NDArray[Any]:
        return check.halve(values, what) if self.scale == 1 else values
