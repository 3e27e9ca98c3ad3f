"""Plays convolutions on the twin, each operation followed by an SDP that writes its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.convolution_descriptors import band_of_map, conv_operation
from cnn_convertor.devices.nvdla.convolving import ConvolutionSize, Convolving, weight_bytes
from cnn_convertor.devices.nvdla.cubes import NOWHERE, Place, flying_cube, number_of, packed_cube
from cnn_convertor.devices.nvdla.firmware import descriptors
from cnn_convertor.devices.nvdla.firmware.descriptors import Common, Consumer, Cube, Engine, Event
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareOperation, FirmwareTask, Interrupt, accesses
from cnn_convertor.devices.nvdla.firmware.register_settings import Places
from cnn_convertor.devices.nvdla.playing import Access, AccessKind, Played, play
from cnn_convertor.ir.ops import Shape
from cnn_convertor.layouts.nvdla import features, weights
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.packing import pack, unpack

NONE = Consumer(-1, 0)
PLAIN = descriptors.Converter(1, 0, 1, 0)
UNCHANGED = descriptors.Converters(descriptors.Converter(0, 0, 0, 0), descriptors.Converter(0, 0, 0, 0))
OFF = descriptors.SdpUnit(0, 2, 0, 0, 0, 0, 0, 0, 0, 1, UNCHANGED)
MEMORIES = (0x1000_0000, 0x2000_0000, 0x3000_0000)  # the input, the weights, the output
INPUT, WEIGHTS, OUTPUT = range(3)


class Ran(NamedTuple):
    """played: by the twin. output: (H, W, C)."""

    played: Played
    output: NDArray[Any]

    def bytes_of(self, port: str) -> int:
        return sum(operation.traffic.get(port, 0) for operation in self.played.operations)


class Convolved(NamedTuple):
    """A convolution, and where its maps and its kernels (K, C, R, S) are."""

    size: ConvolutionSize
    convolving: Convolving
    source: Cube
    output: Cube
    weights: Place


def chain(pairs: Sequence[tuple[Any, Any, Any, Any]], addresses: int) -> FirmwareTask:
    """Pairs of a convolution and its SDP: (operation, surfaces) of each. Each pair waits for the one before."""
    operations = []
    for at, (conv, conv_surfaces, sdp, sdp_surfaces) in enumerate(pairs):
        is_last = at + 1 == len(pairs)
        first, second = 2 * at, 2 * at + 1
        following = NONE if is_last else Consumer(first + 2, Event.PROGRAMMED)
        consumers = (NONE, following, Consumer(second, Event.PROGRAMMED), NONE, NONE, NONE)
        count = 1 if at == 0 else 2
        common = Common(first, 0, Engine.CONV, count, consumers, NONE)
        operations.append(FirmwareOperation(first, common, conv, conv_surfaces, None))
        following = NONE if is_last else Consumer(second + 2, Event.PROGRAMMED)
        common = Common(
            second, 0, Engine.SDP, count, (NONE, NONE, following, NONE, NONE, NONE), Consumer(first, Event.ENABLED)
        )
        operations.append(FirmwareOperation(second, common, sdp, sdp_surfaces, None))
    heads = (-1, 0, 1, -1, -1, -1)
    network = descriptors.NetworkDescriptor(1, 2, 3, -1, -1, -1, -1, heads, 1, len(operations), 0, addresses, 0, 0)
    return FirmwareTask(network, tuple(operations))


def run(
    each: Sequence[Convolved],
    memory: Sequence[bytes],
    output: Shape,
    configuration: Configuration,
    precision: Precision,
    x1: tuple[descriptors.SdpUnit, Cube] = (OFF, NOWHERE),
) -> Ran:
    """memory: the input, the weights, and the output before. x1: what the SDP does with all operations, and its operands."""
    number = number_of(precision)
    sdp = descriptors.SdpOperation(number, number, -1, PLAIN, 0, 1, 0, x1[0], OFF, OFF)
    pairs = []
    for one in each:
        for band in one.convolving.bands:
            conv, surfaces = conv_operation(
                one.size,
                band,
                one.convolving,
                source=one.source,
                weights=one.weights,
                configuration=configuration,
                precision=precision,
            )
            written = band_of_map(one.output, band, configuration, precision)
            flying = flying_cube(Shape(written.height, written.width, written.channel))
            pairs.append((conv, surfaces, sdp, descriptors.SdpSurfaces(flying, x1[1], NOWHERE, NOWHERE, written)))
    places = Places(configuration, lambda index, offset: MEMORIES[index] + offset)
    given = []
    for step in accesses(chain(pairs, len(MEMORIES)), places):
        if isinstance(step, Interrupt):
            given.append(Access(AccessKind.WAIT, value=step.status))
        else:
            given.append(Access(AccessKind.WRITE, step.address, step.value))
    played = play(configuration, dict(zip(MEMORIES, memory, strict=True)), given, threads=2)
    assert played.refusal == ""
    layout = features.feature_data(precision, configuration.form)
    values = unpack(played.memory[MEMORIES[OUTPUT]], layout, (output.channels, output.height, output.width))
    return Ran(played, values.transpose(1, 2, 0))


def run_whole(
    size: ConvolutionSize,
    convolving: Convolving,
    values: NDArray[Any],
    kernels: NDArray[Any],
    configuration: Configuration,
    precision: Precision,
) -> Ran:
    """values: (H, W, C). kernels: (K, C, R, S)."""
    form = configuration.form
    source = packed_cube(size.input, Place(INPUT, 0), configuration, precision)
    output = packed_cube(size.output, Place(OUTPUT, 0), configuration, precision)
    memory = (
        pack(values.transpose(2, 0, 1), features.feature_data(precision, form)).tobytes(),
        pack(kernels, weights.direct(precision, form)).tobytes(),
        bytes(output.size),
    )
    assert len(memory[1]) == weight_bytes(size.kernels, size.kernel_bytes(precision), configuration)
    one = Convolved(size, convolving, source, output, Place(WEIGHTS, 0))
    return run([one], memory, size.output, configuration, precision)


def convolved(values: NDArray[Any], kernels: NDArray[Any], size: ConvolutionSize) -> NDArray[np.float64]:
    """By the plain formula, in FP64. values: (H, W, C). kernels: (K, C, R, S)."""
    window = size.window
    padding = window.padding
    around = ((padding.top, padding.bottom), (padding.left, padding.right), (0, 0))
    padded = np.pad(values.astype(np.float64), around)
    output = size.output
    result = np.zeros((output.height, output.width, output.channels))
    for row in range(window.kernel.height):
        for column in range(window.kernel.width):
            top, left = row * window.dilation.height, column * window.dilation.width
            seen = padded[top :: window.stride.height, left :: window.stride.width][: output.height, : output.width]
            result += seen @ kernels[:, :, row, column].astype(np.float64).T
    return result
