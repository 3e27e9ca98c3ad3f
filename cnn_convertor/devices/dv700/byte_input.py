"""Lets the application write its input as bytes, which the device converts through a table."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.runs import Program, Run
from cnn_convertor.devices.half import to_half
from cnn_convertor.devices.program import ByteInput, ElementType, LayerType
from cnn_convertor.errors import Origin, Problem, UnsupportedError
from cnn_convertor.ir.constant import Constant

CHANNELS = 3  # of the device's table
_VALUES = np.arange(256.0)
POLICIES = {
    "CP_DIV_255": _VALUES / 255.0,
    "CP_MINUS_128": _VALUES - 128.0,
    "CP_MINUS_128_DIV_128": (_VALUES - 128.0) / 128.0,
    "CP_MINUS_127_5_DIV_128": (_VALUES - 127.5) / 128.0,
    "CP_DIRECT_CVT": _VALUES,
}
OWN_TABLE = "CP_USER_SPECIFY"


def with_byte_input(program: Program, values: NDArray[np.float32]) -> Program:
    """The program for an input of bytes. values: what each byte means in each channel, (256, channels).

    Raises UnsupportedError with every reason against it.
    """
    reasons = list(_reasons(program, values))
    if reasons:
        raise _refusal(program, reasons, "remove input = u8 from the ini file")
    halves = to_half(values)
    ((name, tensor),) = program.inputs
    return replace(
        program,
        inputs=((name, tensor._replace(type=ElementType.BYTE)),),
        byte_input=ByteInput(_policy(halves), tuple(map(tuple, halves.view(np.uint16).tolist()))),
    )


def with_swapped_bytes(program: Program) -> Program:
    """A program whose application writes the channels in the opposite order: the first kernels read them in that order, too.

    Not the device's own swap (to_bgr): before or after it, where the table's channels count, no public document says.
    Raises UnsupportedError where something else than a convolution reads the input.
    """
    byte_input = program.byte_input
    assert byte_input is not None
    first, *others = program.layers
    reading = [True, *(run.external for run in first.runs[:-1])]  # the command's input
    runs = tuple(_swapped(run) if reads else run for run, reads in zip(first.runs, reading, strict=True))
    if None in runs:
        reason = f'the first layer, "{first.name}", has no kernels whose channels can be swapped'
        hint = "let the application write the channels in the network's own order: input = u8"
        raise _refusal(program, [reason], hint)
    return replace(
        program,
        layers=(replace(first, runs=tuple(run for run in runs if run is not None)), *others),
        byte_input=byte_input._replace(table=tuple(entry[::-1] for entry in byte_input.table), swapped=True),
    )


def without_byte_input(program: Program) -> Program:
    """The same program for an input of FP16, in the network's own order of channels."""
    if program.byte_input is None:
        return program
    if program.byte_input.swapped:
        program = with_swapped_bytes(program)  # once more
    ((name, tensor),) = program.inputs
    return replace(program, inputs=((name, tensor._replace(type=ElementType.HALF)),), byte_input=None)


def _refusal(program: Program, reasons: Iterable[str], hint: str) -> UnsupportedError:
    where = next((layer.origins[-1] for layer in program.layers if layer.origins), Origin(program.name))
    return UnsupportedError([Problem("DV431", reason, where, hint) for reason in reasons])


def _swapped(run: Run) -> Run | None:
    """The run with its kernels' input channels in the opposite order; None if it has none."""
    convolution = run.convolution
    if convolution is None or convolution.kind.is_depthwise:
        return None
    weights = convolution.weights
    choice = weights.choice
    if choice is not None and choice.kernels is not None:
        choice = choice._replace(kernels=_reversed(choice.kernels))
    weights = replace(weights, kernels=_reversed(weights.kernels), choice=choice)
    return replace(run, convolution=replace(convolution, weights=weights))


def _reversed(kernels: Constant) -> Constant:
    return Constant(kernels.shape, lambda rows: kernels.read(rows)[:, ::-1])


def _reasons(program: Program, values: NDArray[np.float32]) -> Iterator[str]:
    """Why the device cannot convert the input. The runtime gives the table to the first layer alone."""
    if len(program.inputs) != 1:
        yield f"an input of bytes is the only one of its network, this one has {len(program.inputs)}"
        return
    ((name, tensor),) = program.inputs
    if tensor.shape.channels != CHANNELS:
        yield f'the table of bytes has {CHANNELS} channels, the input "{name}" has {tensor.shape.channels}'
    first, *others = program.layers
    if first.type is not LayerType.CONV or len(first.inputs) != 1:
        yield f'the first command converts the bytes, but the first layer, "{first.name}", is not a command that reads only them'
    reader = next((layer for layer in others if None in layer.sources), None)
    if reader is not None:
        yield f'only the first command can convert the bytes, but "{reader.name}" reads the input, too'
    if not np.isfinite(to_half(values)).all():
        yield "mean and scale give values beyond FP16"


def _policy(halves: NDArray[np.float16]) -> str:
    """The runtime's policy with the same table, if there is one."""
    for policy, values in POLICIES.items():
        if np.array_equal(halves, np.repeat(to_half(values.astype(np.float32))[:, None], CHANNELS, axis=1)):
            return policy
    return OWN_TABLE
