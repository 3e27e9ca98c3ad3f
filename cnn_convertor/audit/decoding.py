"""Decodes the registers of a command: windows, and the map after each step of each run."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from cnn_convertor.audit.source_network import Map, SourceCommand, SourceRun

MAX_POOL = 1
AVERAGE_POOL = 2
UPSAMPLE = 4
PRELU = 4
FP16, PALETTE = 1, 3


class Sides(NamedTuple):
    left: int
    right: int
    top: int
    bottom: int


class RegisterPair(NamedTuple):
    """Across and down: the order of the registers' bytes."""

    x: int
    y: int

    def __str__(self) -> str:
        return f"{self.y}x{self.x}"


class RegisterWindow(NamedTuple):
    """How a kernel or pool moves over a map. spread: the distance of the input's elements in a deconvolution."""

    size: RegisterPair
    stride: RegisterPair
    dilation: RegisterPair
    pad: Sides
    spread: RegisterPair = RegisterPair(1, 1)

    @property
    def extent(self) -> RegisterPair:
        return RegisterPair((self.size.x - 1) * self.dilation.x + 1, (self.size.y - 1) * self.dilation.y + 1)

    @property
    def is_dilated(self) -> bool:
        return max(self.dilation) > 1

    def padded(self, width: int, height: int) -> RegisterPair:
        """The size of the input with zeros between and around."""
        left, right, top, bottom = self.pad
        return RegisterPair(
            left + (width - 1) * self.spread.x + 1 + right, top + (height - 1) * self.spread.y + 1 + bottom
        )

    def positions(self, width: int, height: int) -> RegisterPair:
        """The size of the output; 0 or less where the window does not fit."""
        x, y = self.padded(width, height)
        if min(self.stride) < 1:
            return RegisterPair(0, 0)
        return RegisterPair((x - self.extent.x) // self.stride.x + 1, (y - self.extent.y) // self.stride.y + 1)


def pair(register: int) -> RegisterPair:
    return RegisterPair(register & 0xFF, register >> 8)


def sides(register: int) -> Sides:
    return Sides(*((register >> shift) & 0xFF for shift in (0, 8, 16, 24)))


def kernel(p: int) -> RegisterPair:
    """Height 0 means that the kernel is square."""
    width, height = pair(p)
    return RegisterPair(width, height or width)


@dataclass(frozen=True, slots=True)
class Meaning:
    """A run in the context of its command. convolved: the map between convolution and pool."""

    index: int
    run: SourceRun
    is_external: bool
    adds: bool
    input: Map
    convolved: Map
    output: Map

    @property
    def convolution(self) -> RegisterWindow | None:
        """None without a convolution. A deconvolution is one with stride 1 over a spread input."""
        run = self.run
        if run.conv_enable == 0:
            return None
        dilation = pair(run.conv_dilation)
        dilation = RegisterPair(dilation.x or 1, dilation.y or 1)
        window = RegisterWindow(kernel(run.p), pair(run.conv_stride), dilation, sides(run.conv_pad))
        return window._replace(stride=RegisterPair(1, 1), spread=window.stride) if self.is_deconvolution else window

    @property
    def pool(self) -> RegisterWindow | None:
        run = self.run
        if run.pool_enable not in {MAX_POOL, AVERAGE_POOL}:
            return None
        return RegisterWindow(pair(run.pool_size), pair(run.pool_stride), RegisterPair(1, 1), sides(run.pool_pad))

    @property
    def is_depthwise(self) -> bool:
        return self.run.conv_enable in {3, 7}

    @property
    def is_deconvolution(self) -> bool:
        return self.run.conv_enable in {5, 7}

    @property
    def operand(self) -> Map:
        """The map that is added: before a max pool, after any other."""
        return self.convolved if self.run.conv_enable or self.run.pool_enable == MAX_POOL else self.output

    @property
    def kernel_channels(self) -> int:
        return 1 if self.is_depthwise else self.input.channels

    @property
    def has_packed_factors(self) -> bool:
        """Whether the CPU writes the weights: those of a 1x1 convolution in the I/O memory."""
        run = self.run
        is_plain = run.weight_fmt == FP16 and run.actfunc != PRELU
        return run.weight_mem == "io_mem_" and run.conv_enable in {1, 3} and kernel(run.p) == (1, 1) and is_plain

    @property
    def factor_elements(self) -> int:
        """FP16 elements of these weights: for each 8 kernels 8 biases, and a tile of 72 for each 64 channels of a kernel."""
        if not self.has_packed_factors:
            return 0
        return 8 * -(-self.run.m // 8) + 72 * self.run.m * -(-self.kernel_channels // 64)

    @property
    def macs(self) -> int:
        """Multiplications, without those by the zeros that a deconvolution inserts."""
        window = self.convolution
        if window is None:
            return 0
        places = self.input.area if self.is_deconvolution else self.convolved.area
        return places * self.run.m * self.kernel_channels * window.size.x * window.size.y


def meanings(command: SourceCommand) -> Iterator[Meaning]:
    """Every run with its maps. Impossible sizes are 0 or less, and are passed on."""
    read = command.map
    for index, run in enumerate(command.runs):
        is_external = bool(command.topo >> index & 1)
        meaning = Meaning(index, run, is_external, is_external and command.output_mode == 1, read, read, read)
        if meaning.convolution is not None:
            meaning = replace(meaning, convolved=Map(*meaning.convolution.positions(*read[:2]), run.m))
        output = meaning.convolved._replace(channels=run.m)
        if meaning.pool is not None:
            output = Map(*meaning.pool.positions(*output[:2]), run.m)
        elif run.pool_enable == UPSAMPLE:
            output = Map(2 * output.width, 2 * output.height, run.m)
        yield replace(meaning, output=output)
        read = command.map if is_external else output


def command_output(command: SourceCommand) -> Map:
    """The output of the command: those of its external runs, joined along the channels."""
    outputs = [meaning.output for meaning in meanings(command) if meaning.is_external]
    if not outputs:
        return Map(0, 0, 0)
    return outputs[-1]._replace(channels=sum(output.channels for output in outputs))


def operand_of(command: SourceCommand) -> Map | None:
    """The map that the command adds; None when it adds none."""
    return next((meaning.operand for meaning in meanings(command) if meaning.adds), None)
