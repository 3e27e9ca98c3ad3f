"""What the driver refuses, command by command, written from the specification's sections 2, 3 and 5."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cnn_convertor.audit.network import Command, Layer
from cnn_convertor.audit.registers import (
    AVERAGE_POOL,
    FP16,
    MAX_POOL,
    PALETTE,
    PRELU,
    UPSAMPLE,
    Meaning,
    Window,
    meanings,
    pair,
    sides,
)
from cnn_convertor.audit.sdk import COMMANDS
from cnn_convertor.audit.unified_buffer import need, strips
from cnn_convertor.errors import Problem

MAX_WIDTH, MAX_HEIGHT, MAX_CHANNELS = 2047, 1024, 32768
CONV_DEVICE = 1


@dataclass(frozen=True, slots=True)
class Device:
    """ub_size: bytes of the unified buffer."""

    ub_size: int
    max_kernel_size: int


class Broken(NamedTuple):
    """A rule that is broken: the field, what is wrong, what to do."""

    code: str
    field: str
    message: str
    hint: str


def check_command(layer: Layer, command: Command, device: Device) -> Iterator[Problem]:
    """Every rule that the layer's command breaks."""
    runs = list(meanings(command))
    broken = [*_command(command), *(b for made in runs for b in _run(made, command, device))]
    if not broken:
        broken = [*_buffer(command, runs, device)]
    for code, field, message, hint in broken:
        yield layer.problem(code, f"{field}: {message}" if field else message, hint, field)


def _command(command: Command) -> Iterator[Broken]:
    yield from _headers(command)
    limits = {"w": (command.w, MAX_WIDTH), "h": (command.h, MAX_HEIGHT), "z": (command.z, 1)}
    limits["c"] = (command.c, MAX_CHANNELS if any(run.conv_enable for run in command.runs) else 0xFFFF)
    for name, (value, most) in limits.items():
        if not 1 <= value <= most:
            yield Broken("DV611", name, f"{value}; 1 to {most} is possible", "give the size of the input map")
    if command.topo == 0:
        yield Broken("DV613", "topo", "no run writes to external memory", "set the bit of the last run")
    for index in command.idle:
        hint = "set a bit of topo for the last run, or leave the run out"
        yield Broken("DV613", f"run[{index}].m", f"topo = 0x{command.topo:X} ends before this run", hint)
    if command.output_mode > 1:
        yield Broken("DV614", "output_mode", f"{command.output_mode}; 0 or 1 is known", "0: concatenation, 1: addition")
    elif command.output_mode == 1 and command.topo.bit_count() > 1:
        message = f"an addition, while several runs write to external memory (topo = 0x{command.topo:X})"
        yield Broken("DV614", "output_mode", message, "add in a command of its own")
    outputs = [made.output for made in meanings(command) if made.is_external]
    if any(output[:2] != outputs[0][:2] for output in outputs):
        text = ", ".join(map(str, outputs))
        yield Broken(
            "DV614", "topo", f"runs write maps of different sizes one behind the other: {text}", "check their windows"
        )
    elif any(output.channels % 8 for output in outputs[:-1]) and outputs[0].area > 1:
        text = ", ".join(str(output.channels) for output in outputs)
        yield Broken(
            "DV614", "topo", f"joined runs of {text} channels: all but the last need a multiple of 8", "join otherwise"
        )


def _headers(command: Command) -> Iterator[Broken]:
    rows = [("conv_cmd.header", command.header, 0)]
    if command.outer is None:
        rows = [("header", command.header, 0)]
    else:
        rows = [("conv_conf_v1.header", command.outer, 1), ("header", command.header, 0)]
    for name, header, version in rows:
        struct = COMMANDS[version]
        expected = {"size": struct.size, "device_type": CONV_DEVICE, "version": version}
        for part, value in header._asdict().items():
            if value != expected[part]:
                hint = f"it is {expected[part]} for {struct.name}"
                yield Broken("DV610", f"{name}.{part}", f"{value} is not what the driver expects", hint)
    for name in command.extras:
        yield Broken("DV610", f"conv_conf_v1.{name}", "the input is FP16: it must be 0", "leave it out")


def _run(made: Meaning, command: Command, device: Device) -> Iterator[Broken]:
    """All rules of one run; those that need its sizes when the registers have a meaning."""
    found = [*_modes(made), *_numbers(made), *_convolution(made, device.max_kernel_size), *_pool(made)]
    if not found:
        found = [*_windows(made)]
    if not found:
        found = [*_channels(made), *_dilation(made, command)]
    for code, field, message, hint in found:
        yield Broken(code, f"run[{made.index}].{field}" if field else "", message, hint)


def _modes(made: Meaning) -> Iterator[Broken]:
    run = made.run
    known = {
        "conv_enable": {0, 1, 3, 5, 7}, "pool_enable": {0, MAX_POOL, AVERAGE_POOL, UPSAMPLE}, "actfunc": set(range(7)),
        "rectifi_en": {0, 1}, "lrn": {0}, "rsvd": {0},
    }  # fmt: skip
    if run.conv_enable:
        known["weight_fmt"] = {FP16, PALETTE}
    for name, values in known.items():
        if getattr(run, name) not in values:
            choice = ", ".join(map(str, sorted(values)))
            yield Broken("DV615", name, f"{getattr(run, name)} means nothing; {choice} is known", "use a known value")
    if not (run.conv_enable or run.pool_enable or run.actfunc or run.rectifi_en):
        yield Broken("DV625", "conv_enable", "the run has no operation", "leave it out, or pool 1x1 with factor 1")


def _numbers(made: Meaning) -> Iterator[Broken]:
    """FP16 registers hold numbers that make sense."""
    run = made.run
    slope, factor = half(run.actfunc_param), half(run.pool_avg_param)
    if not np.isfinite(slope):
        yield Broken(
            "DV629", "actfunc_param", f"0x{run.actfunc_param:04X} is no finite number", "give the slope as FP16"
        )
    if run.pool_enable == AVERAGE_POOL and (not np.isfinite(factor) or factor == 0):
        hint = "give 1/(width*height) as FP16"
        yield Broken("DV629", "pool_avg_param", f"0x{run.pool_avg_param:04X} is a factor of {factor:g}", hint)


def factor_notes(layer: Layer) -> Iterator[Problem]:
    """Average pools whose factor is not the reciprocal of the window. A window of 1x1 scales: any factor is right."""
    for made in meanings(layer.command) if layer.command is not None and layer.is_on_device else ():
        run, size = made.run, pair(made.run.pool_size)
        if run.pool_enable != AVERAGE_POOL or size.x * size.y < 2:
            continue
        expected = int(np.float16(1 / (size.x * size.y)).view(np.uint16))
        if abs(run.pool_avg_param - expected) > 1:
            field = f"run[{made.index}].pool_avg_param"
            message = f"{field}: {half(run.pool_avg_param):.4g} is not the reciprocal of a window of {size}"
            yield layer.problem("DV630", message, "check the factor, unless a scale is folded into it", field)


def half(bits: int) -> float:
    """The number that FP16 bits stand for."""
    return float(np.array(bits, np.uint16).view(np.float16))


def _convolution(made: Meaning, most: int) -> Iterator[Broken]:
    run, window = made.run, made.convolution
    if window is None:
        return
    if not (1 <= window.size.x <= most and 1 <= window.size.y <= most):
        yield Broken("DV616", "p", f"a kernel of {window.size}; 1 to {most} is possible", "split the kernel")
    if run.pz != 1:
        yield Broken("DV616", "pz", f"a kernel depth of {run.pz}", "it is 1 for two dimensions")
    yield from _stride("conv_stride", run.conv_stride)
    yield from _pad("conv_pad", run.conv_pad)
    if run.pool_enable in {AVERAGE_POOL, UPSAMPLE}:
        hint = "pool in a run of its own"
        yield Broken("DV619", "pool_enable", "only a maximal pool may follow a convolution in its run", hint)
    if run.actfunc == PRELU and run.weight_fmt == PALETTE:
        yield Broken("DV624", "actfunc", "PReLU does not go with palette weights", "use FP16 weights for this layer")


def _pool(made: Meaning) -> Iterator[Broken]:
    run, size = made.run, pair(made.run.pool_size)
    if run.actfunc == PRELU and not run.conv_enable:
        yield Broken(
            "DV624", "actfunc", "PReLU needs a convolution, whose weights hold the slopes", "add a 1x1 depthwise one"
        )
    match run.pool_enable:
        case 1 if not (2 <= size.x <= 3 and 1 <= size.y <= 3):
            hint = "split the pool"
            yield Broken("DV621", "pool_size", f"{size}; a maximal pool is 2 or 3 wide, 1 to 3 high", hint)
        case 2 if not (1 <= size.x <= 7 and 1 <= size.y <= 7):
            yield Broken("DV621", "pool_size", f"{size}; an average pool is 1 to 7 wide and high", "split the pool")
        case 4 if run.pool_size not in {0, 0x0202} or run.pool_pad:
            yield Broken(
                "DV621", "pool_size", f"{size}; upsampling is 2x2 without padding", "upsample by 2 several times"
            )
    if run.pool_enable in {MAX_POOL, AVERAGE_POOL}:
        yield from _stride("pool_stride", run.pool_stride)
        yield from _pad("pool_pad", run.pool_pad)


def _stride(field: str, register: int) -> Iterator[Broken]:
    if min(pair(register)) < 1:
        yield Broken("DV617", field, f"0x{register:04X}; strides start at 1", "use 0x0101 for none")


def _pad(field: str, register: int) -> Iterator[Broken]:
    pads = sides(register)
    for name in ("left", "top"):
        value = getattr(pads, name)
        if value > 127:
            yield Broken("DV618", field, f"{value} at the {name}, at most 127 is possible", "use less padding")


def _windows(made: Meaning) -> Iterator[Broken]:
    """The padded input is at least as large as the window, so that something comes out."""
    rows: list[tuple[str, Window | None, int, int]] = [
        ("p", made.convolution, made.input.width, made.input.height),
        ("pool_size", made.pool, made.convolved.width, made.convolved.height),
    ]
    for field, window, width, height in rows:
        if window is None:
            continue
        padded = window.padded(width, height)
        if padded.x < window.extent.x or padded.y < window.extent.y or min(width, height) < 1:
            message = f"a window of {window.extent}, but the padded input is only {padded}"
            yield Broken("DV622", field, message, "check w, h and the padding")
            return


def _channels(made: Meaning) -> Iterator[Broken]:
    run = made.run
    most = MAX_CHANNELS if run.conv_enable else 0xFFFF
    if not 1 <= run.m <= most:
        yield Broken(
            "DV620", "m", f"{run.m} output channels; 1 to {most} is possible", "give the number of output channels"
        )
    elif (made.is_depthwise or not run.conv_enable) and run.m != made.input.channels:
        what = "a depthwise convolution" if made.is_depthwise else "a run without convolution"
        yield Broken("DV620", "m", f"{run.m}, but {what} keeps its {made.input.channels} channels", "make them equal")


def _dilation(made: Meaning, command: Command) -> Iterator[Broken]:
    window, run = made.convolution, made.run
    if window is None or not window.is_dilated:
        return
    steps = window.spread if made.is_deconvolution else window.stride
    output, given = made.convolved, made.input
    wrong = {
        f"a dilated convolution is the only run of its command, not one of {len(command.runs)}": len(command.runs) > 1,
        "no pool goes with a dilated convolution": run.pool_enable != 0,
        f"the kernel is {window.size}, dilation needs odd sizes": window.size.x % 2 == 0 or window.size.y % 2 == 0,
        "PReLU does not go with dilation": run.actfunc == PRELU,
        "a dilated deconvolution has stride 1": made.is_deconvolution and max(steps) > 1,
        f"the output, {output}, times the stride, {steps}, is not the input, {given}": (
            output.width * steps.x != given.width or output.height * steps.y != given.height
        ),
    }
    for message, is_broken in wrong.items():
        if is_broken:
            yield Broken("DV623", "conv_dilation", message, "use 'same' padding and an odd kernel, or no dilation")


def _buffer(command: Command, runs: list[Meaning], device: Device) -> Iterator[Broken]:
    """Section 5: strips, and several runs together."""
    several = len(runs) > 1
    counts = {made.index: strips(made, device.ub_size) for made in runs}
    for index, count in counts.items():
        if count == 0:
            message = f"the input does not fit the unified buffer of {device.ub_size} bytes in any number of strips"
            yield Broken("DV626", f"run[{index}].m", message, "convert for a smaller input, or give the true ub_size")
        elif several and count > 1:
            message = f"needs {count} strips; in a command of several runs each has one"
            yield Broken("DV627", f"run[{index}].m", message, "give the run a command of its own")
    if several and set(counts.values()) == {1} and need(command) > device.ub_size:
        message = f"the runs need {need(command)} bytes of unified buffer, there are {device.ub_size}"
        yield Broken("DV627", "topo", message, "split the command")
