"""Encodes the weights of a program as the bytes of its weight buffer, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.runs import Program, Weights
from cnn_convertor.devices.dv700.weights.palettes import FINITE, count
from cnn_convertor.devices.dv700.weights.streams import CodeReader, half_codes, pack, palette_codes
from cnn_convertor.devices.half import to_half
from cnn_convertor.devices.half_check import Half, HalfCheck, encoded, warn_of_losses
from cnn_convertor.devices.program import SMALLEST_BUFFER
from cnn_convertor.errors import Problem, UnsupportedError
from cnn_convertor.quantize import Palette, fit

Observer: TypeAlias = Callable[[Weights, NDArray[np.float32]], None]  # is given all kernels, each piece once


def encode_buffer(program: Program, *, observe: Observer | None = None) -> Iterator[NDArray[np.uint8]]:
    """The weight buffer of a program: as `encode_all`, and the arrays of the CPU's functions."""
    if program.weights or not program.arrays:
        yield from encode_all(program.weights, transposed=program.transposed, observe=observe)
    written = 0
    for array in program.arrays:
        yield np.zeros(array.offset - written, np.uint8)
        yield encoded(array)
        written = array.offset + array.nbytes
    yield np.zeros(program.weight_bytes - program.arrays_offset - written if program.arrays else 0, np.uint8)


def encode_all(
    streams: Sequence[Weights], *, transposed: bool, observe: Observer | None = None
) -> Iterator[NDArray[np.uint8]]:
    """The weight buffer: the streams one after the other, or zeros if there are none.

    observe: is given the kernels as they are read. Warns, once, of weights that are too small for FP16.
    Raises UnsupportedError at the end, with every layer that has weights that are too large for it, or NaN.
    """
    if not streams:
        yield np.zeros(SMALLEST_BUFFER, np.uint8)
    written = 0
    checks = []
    problems: list[Problem] = []
    for weights in streams:
        assert problems or written == weights.offset
        checks.append(HalfCheck(weights.where, weights.kernels.size))
        try:
            for piece in _encode(weights, checks[-1], observe, transposed=transposed):
                written += piece.size
                yield piece
        except UnsupportedError as error:
            problems += error.problems
    if problems:
        raise UnsupportedError(problems)
    warn_of_losses(checks)


def _encode(
    weights: Weights, check: HalfCheck, observe: Observer | None, *, transposed: bool
) -> Iterator[NDArray[np.uint8]]:
    """The stream of one convolution; `check` sees every number of it once, `observe` those of the kernels."""
    bias = np.zeros(weights.packed.kernels, np.float16)
    if weights.stored_bias is not None:
        bias = check.halve(weights.stored_bias.load(), "bias")
    slopes = check.halve(weights.slopes.load(), "PReLU slope") if weights.slopes else None

    # Packing brings the channels in order: it moves less than half the bytes, and only once.
    own, order = weights.kernels.before_take_columns
    rounded = None if weights.stored_kernels is weights.kernels else weights.stored_kernels
    if rounded is not None:
        own, order = weights.kernels, None

    def checked(rows: slice) -> Half:
        kernels = own.load(rows)
        if observe is not None:
            observe(weights, kernels)
        half = check.halve(kernels, "weight")
        return half if rounded is None else to_half(rounded.load(rows))

    read: CodeReader = checked
    if weights.packed.dilated:  # these are read once for each tap, and checked before
        for rows in own.ranges():
            checked(rows)
        read = half_codes((rounded or own).load)
    palette = _palette(weights) if weights.packed.palette else None
    yield from pack(
        weights.packed,
        read if palette is None else palette_codes(read, palette),
        bias=bias,
        prelu=slopes,
        palette=None if palette is None else palette.centers,
        order=order,
        transposed=transposed,
    )


def _palette(weights: Weights) -> Palette:
    """The chosen palette, or else the best one. For weights that will be refused, any palette will do."""
    if weights.choice is not None and weights.choice.palette is not None:
        return weights.choice.palette
    counts, means = count(weights.kernels)
    return fit(counts * FINITE, means)
