"""How a convolution fits the convolution buffer: in bands of rows, in parts of its kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.cubes import Lines, lanes
from cnn_convertor.devices.nvdla.firmware.descriptors import Engine
from cnn_convertor.devices.nvdla.firmware.ranges import LARGEST, RANGES
from cnn_convertor.ir.ops import Shape, Window
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.nvdla.weights import START_ALIGN

# Read in the public C model, and followed by the twin; no recorded layer does it.
ASSUMPTIONS: Final = ("weights stay in the buffer between operations with WEIGHT_REUSE and SKIP_WEIGHT_RLS",)
_MOST_POSITIONS: Final = 1 << 21  # of the output of an operation: the field of CSC.D_ATOMICS
_MOST_LINES: Final = 1 << 12  # of the input of an operation: the field of CSC.D_RELEASE


class MisfitError(ValueError):
    """The device cannot compute a convolution. clauses: why."""

    def __init__(self, *clauses: str) -> None:
        super().__init__("; ".join(clauses))
        self.clauses = clauses


class ConvolutionSize(NamedTuple):
    """A convolution of one group."""

    input: Shape
    kernels: int
    window: Window

    @property
    def output(self) -> Shape:
        return self.window.slide(self.input, channels=self.kernels)

    @property
    def seen_lines(self) -> int:
        """How many lines of the input some output sees."""
        window = self.window
        tops = np.arange(self.output.height) * window.stride.height - window.padding.top
        places = np.add.outer(tops, np.arange(window.kernel.height) * window.dilation.height)
        return len(np.unique(places[(places >= 0) & (places < self.input.height)]))

    @property
    def pad_right(self) -> int:
        """The columns of padding that its last outputs see."""
        window = self.window
        reach = (self.output.width - 1) * window.stride.width + window.extent.width
        return max(reach - window.padding.left - self.input.width, 0)

    def kernel_bytes(self, precision: Precision) -> int:
        return math.prod(self.window.kernel) * self.input.channels * precision.element.itemsize

    def mac_cycles(self, configuration: Configuration, precision: Precision) -> int:
        """Of the multipliers, by the published cost formula: assumed, as in the twin."""
        steps = math.prod(self.window.kernel) * _ratio(self.input.channels, configuration.atomic_c)
        output = self.output
        return output.height * output.width * steps * _ratio(self.kernels, configuration.form.group(precision))


class Band(NamedTuple):
    """What one operation computes.

    rows: of the output. lines: of the input, which the device fetches
    stride, dilation: vertical, in these lines. pad_top, pad_bottom: lines of padding around them
    kernel, kernels: the first one, and how many
    reuses_weights: those of the operation before stay in the buffer. keeps_weights: for the next operation
    """

    rows: Lines
    lines: Lines
    stride: int
    dilation: int
    pad_top: int
    pad_bottom: int
    kernel: int = 0
    kernels: int = 0
    reuses_weights: bool = False
    keeps_weights: bool = False


@dataclass(frozen=True, slots=True)
class Convolving:
    """The operations of a convolution, one right after the other.

    weights_stay: whether the weights of an operation are in the buffer as a whole, and not a few groups of kernels at a time
    entries: of the buffer, for a line of the input
    input_bytes, weight_bytes: that all operations read. least_bytes: of reading the input and the weights once
    reason: a clause
    """

    bands: tuple[Band, ...]
    data_banks: int
    weight_banks: int
    weights_stay: bool
    entries: int
    input_bytes: int
    weight_bytes: int
    least_bytes: int
    reason: str

    @property
    def moved_bytes(self) -> int:
        return self.input_bytes + self.weight_bytes


def entries_of_line(width: int, channel_bytes: int, configuration: Configuration) -> int:
    """Entries of the convolution buffer for a line of a feature map. channel_bytes: of all channels of a pixel."""
    entry = configuration.cbuf_entry_bytes
    atom = configuration.atom_bytes
    whole, rest = divmod(_ratio(channel_bytes, atom), entry // atom)
    share = width if rest == 3 else _ratio(rest * width * atom, entry)
    return whole * width + share


def weight_bytes(kernels: int, kernel_bytes: int, configuration: Configuration) -> int:
    """Of so many kernels, as the device reads them: whole entries."""
    entry = configuration.cbuf_entry_bytes
    return _ratio(kernels * kernel_bytes, entry) * entry


class _Rows(NamedTuple):
    """Rows of the output, and the lines of the input that they see, as if there were no others.

    top: where the window of the first row begins, in these lines; negative in the padding. stride, dilation: in these lines
    """

    rows: Lines
    lines: Lines
    top: int
    stride: int
    dilation: int

    def end(self, row: int, rows: int, taps: int) -> int:
        """Where the windows of so many rows end, for kernels with so many rows."""
        return self.top + (row + rows - 1) * self.stride + (taps - 1) * self.dilation + 1

    def fields(self, taps: int) -> dict[str, int]:
        """The largest values of the fields that depend on it, whatever the bands."""
        return {
            "conv_stride_y": self.stride,
            "dilation_y": self.dilation,
            "pad_y_top": max(-self.top, 0),
            "pad_y_bottom": max(self.end(0, self.rows.number, taps) - self.lines.number, 0),
        }

    def is_within_fields(self, taps: int) -> bool:
        return all(value <= RANGES[Engine.CONV][field][1] for field, value in self.fields(taps).items())


def _ways(size: ConvolutionSize) -> list[tuple[_Rows, ...]]:
    """All rows together; and, where a kernel skips lines, one after the other the rows that see the same lines."""
    window = size.window
    height = size.input.height
    taps = window.kernel.height
    stride = window.stride.height
    dilation = window.dilation.height
    whole = _Rows(Lines(0, size.output.height), Lines(0, height), -window.padding.top, stride, dilation)
    lines_read = min(height, whole.end(0, size.output.height, taps))  # without those that no output sees
    together = (whole._replace(lines=Lines(0, lines_read)),)
    spacing = stride if taps == 1 else dilation
    common = math.gcd(spacing, stride)
    parts = []
    for first in range(min(spacing // common, size.output.height)):
        top, line = divmod(first * stride - window.padding.top, spacing)
        rows = Lines(first, _ratio(size.output.height - first, spacing // common), spacing // common)
        part = _Rows(rows, Lines(line, _ratio(height - line, spacing), spacing), top, stride // common, 1)
        lines_read = min(part.lines.number, part.end(0, rows.number, taps))
        last = part.end(rows.number - 1, 1, taps) - taps  # where the last window begins
        if lines_read < 1 or part.end(0, 1, taps) < 1 or last >= lines_read:
            return [together]  # some window sees only padding
        parts.append(part._replace(lines=part.lines._replace(number=lines_read)))
    return [together, tuple(parts)] if spacing > 1 else [together]


@lru_cache(1024)
def bands_of(size: ConvolutionSize, configuration: Configuration, precision: Precision) -> Convolving:
    """The operations that move the least bytes; of these the fewest. Raises MisfitError, also for what no field holds."""
    beyond = tuple(_beyond_fields(size, precision))
    if beyond:
        raise MisfitError(*beyond)
    taps = size.window.kernel.height
    ways = [way for way in _ways(size) if all(part.is_within_fields(taps) for part in way)]
    best: _Plan | None = None
    for way in ways:
        buffer = _Buffer(size, way, configuration, precision)
        for weight_banks in range(1, configuration.cbuf_banks):
            for plan in buffer.plans(weight_banks):
                if best is None or plan.cost < best.cost:
                    best = plan
                    chosen = buffer
    if best is None:
        raise MisfitError(_Buffer(size, ways[-1], configuration, precision).why_not())
    return chosen.convolving(best)


def channels_that_fit(size: ConvolutionSize, configuration: Configuration, precision: Precision) -> int:
    """Of how many channels of its input the device computes a convolution: whole surfaces, 0 where not even one fits.

    Larger ones are sums of several such convolutions.
    """
    of_surface = lanes(configuration, precision)
    fitting = 0
    beyond = _ratio(size.input.channels, of_surface) + 1
    while beyond - fitting > 1:
        surfaces = (fitting + beyond) // 2
        part = size._replace(input=size.input._replace(channels=surfaces * of_surface))
        if misfits(part, configuration, precision):
            beyond = surfaces
        else:
            fitting = surfaces
    return fitting * of_surface


class _Plan(NamedTuple):
    """How a convolution can use the buffer. cost: bytes moved, operations, whether weights pass through; less is better.

    bands: of all kernels. part: kernels of an operation at most. weights_stay: all of an operation's are in the buffer
    """

    cost: tuple[int, int, bool]
    bands: tuple[Band, ...]
    part: int
    weights_stay: bool


class _Buffer:
    """The ways in which a convolution can use the convolution buffer."""

    def __init__(
        self, size: ConvolutionSize, way: tuple[_Rows, ...], configuration: Configuration, precision: Precision
    ) -> None:
        self._size = size
        self._way = way
        self._configuration = configuration
        channel_bytes = size.input.channels * precision.element.itemsize
        self._entries = entries_of_line(size.input.width, channel_bytes, configuration)
        self._kernel_bytes = size.kernel_bytes(precision)
        self._group = configuration.form.group(precision)
        self._lanes = lanes(configuration, precision)
        self._lines = sum(part.lines.number for part in way)
        atoms = _ratio(channel_bytes, configuration.atom_bytes)
        self._line_bytes = size.input.width * atoms * configuration.atom_bytes

    @property
    def _bank_bytes(self) -> int:
        return self._configuration.cbuf_entries * self._configuration.cbuf_entry_bytes

    def _weights(self, kernels: int) -> int:
        return weight_bytes(kernels, self._kernel_bytes, self._configuration)

    def plans(self, weight_banks: int) -> Iterator[_Plan]:
        """With so many banks for weights: one or more groups of kernels at a time, or all of the kernels of each operation."""
        configuration = self._configuration
        kernels = self._size.kernels
        data_entries = (configuration.cbuf_banks - weight_banks) * configuration.cbuf_entries
        bands = self._bands(data_entries // self._entries)
        if not bands:
            return
        room = weight_banks * self._bank_bytes
        if self._weights(kernels) <= room:
            yield self._plan(bands, kernels, weights_stay=True)
            return
        if self._weights(min(self._group, kernels)) <= room:
            yield self._plan(bands, kernels, weights_stay=False)
        part = room // self._kernel_bytes // self._part_unit * self._part_unit
        if part and len(bands) > 1:
            yield self._plan(bands, part, weights_stay=True)

    def _plan(self, bands: list[Band], part: int, *, weights_stay: bool) -> _Plan:
        parts = _ratio(self._size.kernels, part)
        fetches = 1 if weights_stay else len(bands)
        moved = parts * self._input_bytes(bands) + fetches * self._weights(self._size.kernels)
        return _Plan((moved, parts * len(bands), not weights_stay), tuple(bands), part, weights_stay)

    def _input_bytes(self, bands: Sequence[Band]) -> int:
        return sum(band.lines.number for band in bands) * self._line_bytes

    @property
    def _part_unit(self) -> int:
        """The kernels of a part are a multiple of it: whole surfaces of the output, and weights that begin where they may."""
        weights = START_ALIGN // math.gcd(START_ALIGN, self._kernel_bytes)
        return math.lcm(self._group, self._lanes, weights)

    def _bands(self, lines_held: int) -> list[Band]:
        """As few as possible, each with that many lines of the input at most; empty where not even one row fits."""
        taps = self._size.window.kernel.height
        held = min(lines_held, _MOST_LINES)
        most_rows = _MOST_POSITIONS // self._size.output.width
        bands: list[Band] = []
        for part in self._way:
            row = 0
            while row < part.rows.number:
                top = part.top + row * part.stride
                first = max(top, 0)
                rows = part.rows.number - row
                if first + held < part.lines.number:
                    rows = min(rows, (first + held - part.end(row, 1, taps)) // part.stride + 1)
                rows = min(rows, most_rows)
                if rows < 1:
                    return []
                end = part.end(row, rows, taps)
                last = min(end, part.lines.number)
                bands.append(
                    Band(
                        rows=part.rows.some(row, rows),
                        lines=part.lines.some(first, last - first),
                        stride=part.stride,
                        dilation=part.dilation,
                        pad_top=first - top,
                        pad_bottom=end - last,
                    )
                )
                row += rows
        return bands

    def convolving(self, plan: _Plan) -> Convolving:
        kernels = self._size.kernels
        operations = []
        fetched_weights = 0
        for kernel in range(0, kernels, plan.part):
            count = min(plan.part, kernels - kernel)
            for number, band in enumerate(plan.bands):
                reuses = plan.weights_stay and number > 0
                keeps = plan.weights_stay and number + 1 < len(plan.bands)
                fetched_weights += 0 if reuses else self._weights(count)
                operations.append(
                    band._replace(kernel=kernel, kernels=count, reuses_weights=reuses, keeps_weights=keeps)
                )
        entries = max(band.lines.number for band in plan.bands) * self._entries
        data_banks = _ratio(entries, self._configuration.cbuf_entries)
        needed = _ratio(self._weights(min(plan.part, kernels)), self._bank_bytes)
        weight_banks = min(self._configuration.cbuf_banks - data_banks, needed)
        return Convolving(
            bands=tuple(operations),
            data_banks=data_banks,
            weight_banks=weight_banks,
            weights_stay=plan.weights_stay,
            entries=self._entries,
            input_bytes=self._input_bytes(operations),
            weight_bytes=fetched_weights,
            least_bytes=self._size.seen_lines * self._line_bytes + self._weights(kernels),
            reason=self._reason(plan, weight_banks),
        )

    def _reason(self, plan: _Plan, weight_banks: int) -> str:
        parts = _ratio(self._size.kernels, plan.part)
        streamed = f"weights pass through {weight_banks} banks"
        if len(plan.bands) == 1:
            return "all input and all weights fit" if plan.weights_stay else f"all input fits, {streamed}"
        if parts > 1:
            weights = f"kernels in {parts} parts, whose weights stay"
        else:
            weights = "all weights stay" if plan.weights_stay else f"{streamed} for each band"
        return f"input in {len(plan.bands)} bands of {self._why_bands()}; {weights}"

    def _why_bands(self) -> str:
        if len(self._way) > 1:
            return f"rows, each with one of {self._way[0].lines.step} lines as the kernel is dilated"
        entries = self._lines * self._entries
        why = f"rows, since its {self._lines} lines take {entries:,} entries of the buffer"
        if entries <= (self._configuration.cbuf_banks - 1) * self._configuration.cbuf_entries:
            why += ", too many beside the weights"
        return why

    def why_not(self) -> str:
        group = min(self._group, self._size.kernels)
        part = self._way[0]
        lines = min(part.lines.number, (self._size.window.kernel.height - 1) * part.dilation + 1)
        data_banks = _ratio(lines * self._entries, self._configuration.cbuf_entries)
        weight_banks = _ratio(self._weights(group), self._bank_bytes)
        return (
            f"a group of {group} kernels takes {weight_banks} banks of the convolution buffer and {lines} lines of its input "
            f"{data_banks}; there are {self._configuration.cbuf_banks}"
        )


def _ratio(value: int, unit: int) -> int:
    """Rounded up."""
    return -(-value // unit)


def misfits(size: ConvolutionSize, configuration: Configuration, precision: Precision) -> tuple[str, ...]:
    """Why the device cannot compute a convolution, as clauses; empty where it can."""
    try:
        bands_of(size, configuration, precision)
    except MisfitError as error:
        return error.clauses
    return ()


def _beyond_fields(size: ConvolutionSize, precision: Precision) -> Iterator[str]:
    window = size.window
    padding = window.padding
    extent = window.extent
    vertical: dict[str, int] = {}
    for part in _ways(size)[-1]:  # which skips the most lines
        for field, value in part.fields(window.kernel.height).items():
            vertical[field] = max(value, vertical.get(field, 0))
    for what, shape in (("input", size.input), ("output", size.output)):
        for side, length in zip(("height", "width", "channels"), shape, strict=True):
            if length > LARGEST:
                yield f"the {side} of its {what} is {length}; the device takes {LARGEST} at most"
    values = {
        "kernel_height_csc": ("the height of its kernel", window.kernel.height),
        "kernel_width_csc": ("the width of its kernel", window.kernel.width),
        "conv_stride_y": ("its vertical stride", vertical["conv_stride_y"]),
        "conv_stride_x": ("its horizontal stride", window.stride.width),
        "dilation_y": ("its vertical dilation", vertical["dilation_y"]),
        "dilation_x": ("its horizontal dilation", window.dilation.width),
        "pad_y_top": ("its padding above", vertical["pad_y_top"]),
        "pad_y_bottom": ("its padding below", vertical["pad_y_bottom"]),
        "pad_x_left": ("its padding on the left", padding.left),
        "pad_x_right": ("its padding on the right", size.pad_right),
        "bytes_per_kernel": ("the size of a kernel in bytes", size.kernel_bytes(precision)),
    }
    for field, (what, value) in values.items():
        least, most = RANGES[Engine.CONV][field]
        if not least <= value <= most:
            yield f"{what} is {value:,}; the device takes {least} to {most:,}"
    for side, most, reach in (
        ("above or below", max(padding.top, padding.bottom), extent.height),
        ("on a side", max(padding.left, padding.right), extent.width),
    ):
        if most >= reach:
            yield f"its padding {side} is {most}, not smaller than its kernel of {reach}"
