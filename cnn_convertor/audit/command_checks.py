"""Checks each command as the driver does, written from sections 2, 3 and 5 of the device's specification."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from cnn_convertor.audit.decoding import (
    AVERAGE_POOL,
    FP16,
    MAX_POOL,
    PALETTE,
    PRELU,
    UPSAMPLE,
    Meaning,
    RegisterWindow,
    Sides,
    meanings,
    pair,
    sides,
)
from cnn_convertor.audit.source_network import SourceCommand, SourceLayer
from cnn_convertor.audit.unified_buffer import need, strips
from cnn_convertor.errors import Problem

CONV_DEVICE = 1
_SIZES = (1864, 1896)  # bytes of a command, by its version


@dataclass(frozen=True, slots=True)
class AuditedDevice:
    """The limits of a device, from the specification. ub_size: bytes of the unified buffer."""

    ub_size: int = 655_360
    max_kernel_size: int = 7
    max_width: int = 2047
    max_height: int = 1024
    max_channels: int = 32_768  # of a convolution
    max_field: int = 65_535  # other channels
    max_padding_left_top: int = 127
    max_pool_widths: tuple[int, ...] = (2, 3)
    max_pool_heights: tuple[int, ...] = (1, 2, 3)
    max_average_pool: int = 7
    deconvolves: bool = True
    pools_unevenly: bool = True
    pads_beyond_map: bool = True
    pools_tiles: bool = False


DEFAULT = AuditedDevice()


class Broken(NamedTuple):
    """A rule that is broken: the field, and what is wrong."""

    code: str
    field: str
    message: str


def check_command(layer: SourceLayer, command: SourceCommand, device: AuditedDevice) -> Iterator[Problem]:
    runs = list(meanings(command))
    broken = list(chain(_command(command, device), *(_run(meaning, command, device) for meaning in runs)))
    for code, field, message in broken or _buffer(command, runs, device):
        yield layer.problem(code, f"{field}: {message}" if field else message, field)


def _command(command: SourceCommand, device: AuditedDevice) -> Iterator[Broken]:
    yield from _headers(command)
    limits = {"w": (command.w, device.max_width), "h": (command.h, device.max_height), "z": (command.z, 1)}
    convolves = any(run.conv_enable for run in command.runs)
    limits["c"] = (command.c, device.max_channels if convolves else device.max_field)
    for name, (value, most) in limits.items():
        if not 1 <= value <= most:
            yield Broken("DV611", name, f"{value}; 1 to {most} is possible")
    if command.topo == 0:
        yield Broken("DV613", "topo", "no run writes to external memory")
    for index in command.idle:
        yield Broken("DV613", f"run[{index}].m", f"topo = 0x{command.topo:X} ends before this run")
    if command.output_mode > 1:
        yield Broken("DV614", "output_mode", f"{command.output_mode}; 0 or 1 is known")
    elif command.output_mode == 1 and command.topo.bit_count() > 1:
        message = f"an addition, while several runs write to external memory (topo = 0x{command.topo:X})"
        yield Broken("DV614", "output_mode", message)
    outputs = [meaning.output for meaning in meanings(command) if meaning.is_external]
    if any(output[:2] != outputs[0][:2] for output in outputs):
        yield Broken("DV614", "topo", f"runs write maps of different sizes: {', '.join(map(str, outputs))}")
    elif any(output.channels % 8 for output in outputs[:-1]) and outputs[0].area > 1:
        text = ", ".join(str(output.channels) for output in outputs)
        yield Broken("DV614", "topo", f"joined runs of {text} channels: all but the last need a multiple of 8")


def _headers(command: SourceCommand) -> Iterator[Broken]:
    rows = [("header", command.header, 0)]
    if command.outer is not None:
        rows.append(("conv_conf_v1.header", command.outer, 1))
    for name, header, version in rows:
        expected = {"size": _SIZES[version], "device_type": CONV_DEVICE, "version": version}
        for part, value in header._asdict().items():
            if value != expected[part]:
                yield Broken("DV610", f"{name}.{part}", f"{value}; the driver expects {expected[part]}")
    for name in command.extras:
        yield Broken("DV610", f"conv_conf_v1.{name}", "the input is FP16: it must be 0")


def _run(meaning: Meaning, command: SourceCommand, device: AuditedDevice) -> Iterator[Broken]:
    """All rules of one run. Those that need its sizes follow when the registers have a meaning."""
    registers = chain(_modes(meaning), _numbers(meaning), _convolution(meaning, device), _pool(meaning, device))
    broken = list(registers) or list(_windows(meaning))
    if not broken:
        sizes = chain(_channels(meaning, device), _alone(meaning, command), _dilation(meaning))
        broken = list(chain(sizes, _revision(meaning, device)))
    for code, field, message in broken:
        yield Broken(code, f"run[{meaning.index}].{field}", message)


def _modes(meaning: Meaning) -> Iterator[Broken]:
    run = meaning.run
    codes = {
        "conv_enable": {0, 1, 3, 5, 7}, "pool_enable": {0, MAX_POOL, AVERAGE_POOL, UPSAMPLE}, "actfunc": set(range(7)),
        "rectifi_en": {0, 1}, "lrn": {0}, "rsvd": {0},
    }  # fmt: skip
    if run.conv_enable:
        codes["weight_fmt"] = {FP16, PALETTE}
    for name, values in codes.items():
        if getattr(run, name) not in values:
            yield Broken("DV615", name, f"{getattr(run, name)}; known: {', '.join(map(str, sorted(values)))}")
    if not (run.conv_enable or run.pool_enable or run.actfunc or run.rectifi_en):
        yield Broken("DV625", "conv_enable", "the run has no operation")


def _numbers(meaning: Meaning) -> Iterator[Broken]:
    """FP16 registers hold meaningful numbers."""
    run = meaning.run
    slope, factor = half(run.actfunc_param), half(run.pool_avg_param)
    if not np.isfinite(slope):
        yield Broken("DV629", "actfunc_param", f"0x{run.actfunc_param:04X} is not a finite number")
    if run.pool_enable == AVERAGE_POOL and (not np.isfinite(factor) or factor == 0):
        yield Broken("DV629", "pool_avg_param", f"0x{run.pool_avg_param:04X} is a factor of {factor:g}")


def factor_notes(layer: SourceLayer) -> Iterator[Problem]:
    """Average pools whose factor is not the reciprocal of the window. A window of 1x1 scales: any factor is right."""
    for meaning in meanings(layer.command) if layer.command is not None and layer.is_on_device else ():
        run = meaning.run
        size = pair(meaning.run.pool_size)
        if run.pool_enable != AVERAGE_POOL or size.x * size.y < 2:
            continue
        expected = int(np.float16(1 / (size.x * size.y)).view(np.uint16))
        if abs(run.pool_avg_param - expected) > 1:
            field = f"run[{meaning.index}].pool_avg_param"
            message = f"{field}: {half(run.pool_avg_param):.4g} is not the reciprocal of a window of {size}"
            yield layer.problem("DV630", message, field)


def half(bits: int) -> float:
    """The number that an FP16 register holds."""
    return float(np.array(bits, np.uint16).view(np.float16))


def _convolution(meaning: Meaning, device: AuditedDevice) -> Iterator[Broken]:
    run = meaning.run
    window = meaning.convolution
    most = device.max_kernel_size
    if window is None:
        return
    if not (1 <= window.size.x <= most and 1 <= window.size.y <= most):
        yield Broken("DV616", "p", f"a kernel of {window.size}; 1 to {most} is possible")
    if run.pz != 1:
        yield Broken("DV616", "pz", f"a kernel depth of {run.pz}")
    yield from _stride("conv_stride", run.conv_stride)
    yield from _pad("conv_pad", run.conv_pad, device)
    if run.pool_enable in {AVERAGE_POOL, UPSAMPLE}:
        yield Broken("DV619", "pool_enable", "only a max pool may follow a convolution in its run")
    if run.actfunc == PRELU and run.weight_fmt == PALETTE:
        yield Broken("DV624", "actfunc", "PReLU does not go with palette weights")


def _pool(meaning: Meaning, device: AuditedDevice) -> Iterator[Broken]:
    run = meaning.run
    size = pair(meaning.run.pool_size)
    widths, heights = device.max_pool_widths, device.max_pool_heights
    if run.actfunc == PRELU and not run.conv_enable:
        yield Broken("DV624", "actfunc", "PReLU needs a convolution, whose weights hold the slopes")
    match run.pool_enable:
        case 1 if size.x not in widths or size.y not in heights:
            yield Broken("DV621", "pool_size", f"{size}; a max pool is {_span(widths)} wide, {_span(heights)} high")
        case 2 if not (min(size) >= 1 and max(size) <= device.max_average_pool):
            yield Broken(
                "DV621", "pool_size", f"{size}; an average pool is 1 to {device.max_average_pool} wide and high"
            )
        case 4 if run.pool_size not in {0, 0x0202} or run.pool_pad:
            yield Broken("DV621", "pool_size", f"{size}; upsampling is 2x2 without padding")
    if run.pool_enable in {MAX_POOL, AVERAGE_POOL}:
        yield from _stride("pool_stride", run.pool_stride)
        yield from _pad("pool_pad", run.pool_pad, device)


def _span(values: tuple[int, ...]) -> str:
    return f"{values[0]} {'or' if len(values) == 2 else 'to'} {values[-1]}"


def _stride(field: str, register: int) -> Iterator[Broken]:
    if min(pair(register)) < 1:
        yield Broken("DV617", field, f"0x{register:04X}; strides start at 1")


def _pad(field: str, register: int, device: AuditedDevice) -> Iterator[Broken]:
    pads = sides(register)
    for name in ("left", "top"):
        value = getattr(pads, name)
        if value > device.max_padding_left_top:
            yield Broken("DV618", field, f"{value} at the {name}, at most {device.max_padding_left_top} is possible")


def _windows(meaning: Meaning) -> Iterator[Broken]:
    """The padded input is at least as large as the window."""
    rows: list[tuple[str, RegisterWindow | None, int, int]] = [
        ("p", meaning.convolution, meaning.input.width, meaning.input.height),
        ("pool_size", meaning.pool, meaning.convolved.width, meaning.convolved.height),
    ]
    for field, window, width, height in rows:
        if window is None:
            continue
        padded = window.padded(width, height)
        if padded.x < window.extent.x or padded.y < window.extent.y or min(width, height) < 1:
            yield Broken("DV622", field, f"a window of {window.extent}, but the padded input is only {padded}")
            return


def _channels(meaning: Meaning, device: AuditedDevice) -> Iterator[Broken]:
    run = meaning.run
    most = device.max_channels if run.conv_enable else device.max_field
    if not 1 <= run.m <= most:
        yield Broken("DV620", "m", f"{run.m} output channels; 1 to {most} is possible")
    elif (meaning.is_depthwise or not run.conv_enable) and run.m != meaning.input.channels:
        what = "a depthwise convolution" if meaning.is_depthwise else "a run without a convolution"
        yield Broken("DV620", "m", f"{run.m}, but {what} keeps its {meaning.input.channels} channels")


def _alone(meaning: Meaning, command: SourceCommand) -> Iterator[Broken]:
    """Dilated convolutions and deconvolutions are the only run of their command."""
    if len(command.runs) < 2 or meaning.convolution is None:
        return
    if meaning.convolution.is_dilated:
        yield Broken("DV623", "conv_dilation", f"a dilated convolution among {len(command.runs)} runs")
    elif meaning.is_deconvolution:
        yield Broken("DV628", "conv_enable", f"a deconvolution among {len(command.runs)} runs")


def _dilation(meaning: Meaning) -> Iterator[Broken]:
    window, run = meaning.convolution, meaning.run
    if window is None or not window.is_dilated:
        return
    steps = window.spread if meaning.is_deconvolution else window.stride
    output, read = meaning.convolved, meaning.input
    wrong = {
        "no pool goes with a dilated convolution": run.pool_enable != 0,
        f"the kernel is {window.size}, dilation needs odd sizes": window.size.x % 2 == 0 or window.size.y % 2 == 0,
        "PReLU does not go with dilation": run.actfunc == PRELU,
        "a dilated deconvolution has stride 1": meaning.is_deconvolution and max(steps) > 1,
        f"the output, {output}, times the stride, {steps}, is not the input, {read}": (
            output.width * steps.x != read.width or output.height * steps.y != read.height
        ),
        f"with stride 1 the output is not the input, {read}, which user drivers before 2019-12-23 require": (
            not meaning.is_deconvolution and not _keeps_size(window, read.width, read.height)
        ),
    }
    yield from (Broken("DV623", "conv_dilation", message) for message, is_broken in wrong.items() if is_broken)


def _keeps_size(window: RegisterWindow, width: int, height: int) -> bool:
    """Whether the window, moved by one pixel at a time, gives a map of the size that it reads."""
    padded = window.padded(width, height)
    return (padded.x - window.extent.x + 1, padded.y - window.extent.y + 1) == (width, height)


_TILED_POOL = "which needs a user driver from 7.2.20201106 on and hardware from 2019-07-29 on"


def _revision(meaning: Meaning, device: AuditedDevice) -> Iterator[Broken]:
    """What devices of old revisions and old drivers refuse."""
    run = meaning.run
    size = pair(meaning.run.pool_size)
    if meaning.is_deconvolution and not device.deconvolves:
        yield Broken("DV631", "conv_enable", f"{run.conv_enable}, a deconvolution, which this device lacks")
    if run.pool_enable in {MAX_POOL, AVERAGE_POOL} and size.x != size.y and not device.pools_unevenly:
        yield Broken("DV631", "pool_size", f"{size}; on this device a pool is as wide as it is high")
    rows = [("conv_pad", meaning.convolution, meaning.input), ("pool_pad", meaning.pool, meaning.convolved)]
    for field, window, map in rows if not device.pads_beyond_map else ():
        pads = Sides(0, 0, 0, 0) if window is None else window.pad
        if max(pads.left, pads.right) > map.width or max(pads.top, pads.bottom) > map.height:
            yield Broken("DV631", field, f"0x{getattr(run, field):X}, more padding than the map of {map} has pixels")
    if meaning.convolution is not None and run.pool_enable == MAX_POOL and not device.pools_tiles:
        count = strips(meaning, device.ub_size)
        if count > 1:
            yield Broken("DV631", "pool_enable", f"a max pool behind a convolution of {count} strips, {_TILED_POOL}")


def _buffer(command: SourceCommand, runs: list[Meaning], device: AuditedDevice) -> Iterator[Broken]:
    """Section 5: strips, and several runs together."""
    several = len(runs) > 1
    counts = {meaning.index: strips(meaning, device.ub_size) for meaning in runs}
    for index, count in counts.items():
        if count == 0:
            message = f"the input does not fit the unified buffer of {device.ub_size} bytes in any number of strips"
            yield Broken("DV626", f"run[{index}].m", message)
        elif several and count > 1:
            yield Broken("DV627", f"run[{index}].m", f"needs {count} strips; in a command of several runs each has one")
    if several and set(counts.values()) == {1} and need(command) > device.ub_size:
        message = f"the runs need {need(command)} bytes of unified buffer, there are {device.ub_size}"
        yield Broken("DV627", "topo", message)
