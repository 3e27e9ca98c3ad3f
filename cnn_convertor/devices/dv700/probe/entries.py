"""The tables of a probe: commands with their runs and images, and their expected outputs."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.encode.registers import TRANSPOSED, encode
from cnn_convertor.devices.dv700.estimate import estimate, run_cycles
from cnn_convertor.devices.dv700.probe.blocks import Argmax, BlockCommand, DeviceBlock, Drawing
from cnn_convertor.devices.dv700.probe.expected import Expected, expect, expect_block, factors_of, table
from cnn_convertor.devices.dv700.probe.probe_commands import ASPECTS, Aspect, Feature, ProbeCommand
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.runs import Run
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.devices.dv700.weights.streams import pack
from cnn_convertor.errors import assert_never

TABLE_OFFSET = 0  # of the table of 8-bit input, in probe.bin
_SAMPLES = 32  # of an exact output; of others all elements are expected
_HALF = 2  # bytes


class Data:
    """What commands read besides their maps: the table of 8-bit input, then packed weights, each once."""

    def __init__(self) -> None:
        self.pieces: list[NDArray[np.uint8]] = []
        self.size = 0
        self._offsets: dict[bytes, int] = {}
        self.add(table().astype("<f2").tobytes())

    def add(self, contents: bytes) -> int:
        """The offset of the bytes, which is a multiple of 16."""
        if contents not in self._offsets:
            self._offsets[contents] = self.size
            padded = contents + bytes(-len(contents) % 16)
            self.pieces.append(np.frombuffer(padded, np.uint8))
            self.size += len(padded)
        return self._offsets[contents]


class ProbeEntry(NamedTuple):
    """One command, but for what it must give: the fields of the program's Command from `subject` to `factor_bytes`."""

    subject: Aspect
    aspects: frozenset[Aspect]
    block: DeviceBlock
    width: int
    height: int
    channels: int
    input_circular_offset: int
    topo: int
    first_part: int
    parts: int
    input_bytes: int
    operand_bytes: int
    factor_bytes: int


class Tables:
    """Fills the tables, command by command. images: registers of drawings. expected: in hexadecimal."""

    def __init__(self, profile: Profile) -> None:
        self.data = Data()
        self.commands: list[dict[str, object]] = []
        self.runs: list[tuple[int, ...]] = []
        self.images: list[tuple[int | str, ...]] = []
        self.expected: list[str] = []
        self._profile = profile

    def add(self, command: ProbeCommand) -> None:
        due = expect(command)
        assert due.is_exact or not command.is_exact, f"{command.name}: a result is not an FP16 number"
        batch = command.batch if command.batch > 1 else 0
        entry = ProbeEntry(
            subject=command.subject,
            aspects=command.aspects(self._profile.limits),
            block=DeviceBlock.CONV,
            width=command.input.width,
            height=command.input.height,
            channels=command.input.channels,
            input_circular_offset=(TRANSPOSED if command.transposed else 0) | batch,
            topo=command.topo,
            first_part=len(self.runs),
            parts=len(command.runs),
            input_bytes=(1 if command.table else _HALF) * command.input.size * command.batch,
            operand_bytes=due.operand_bytes,
            factor_bytes=0 if (factors := command.runs[0].factors) is None else factors.packed.nbytes,
        )
        self.runs += [self._registers(run, command) for run in command.runs]
        name = f"{command.name} ({'HWC' if command.transposed else 'WHC'})"
        due = due._replace(is_exact=command.is_exact)
        work = command.batch * sum(map(run_cycles, command.runs))
        costs = (command.repeats, command.repeats * work, command.repeats * self._traffic(command, due))
        self._append(name, entry, due, is_u8=command.table, costs=costs)

    def add_block(self, command: BlockCommand) -> None:
        due = expect_block(command)
        match command:
            case Argmax(name, height, width, classes):
                feature = Feature.MAXIMIZER
                block = DeviceBlock.MAXIMIZER
                first = 0
                channels = classes
            case Drawing(name, height, width):
                feature = Feature.IPU
                block = DeviceBlock.IPU
                first = len(self.images)
                channels = 0
                self.images.append(command.registers())
            case _:
                assert_never(command)
        entry = ProbeEntry(
            feature, frozenset([feature]), block, width, height, channels, 0, 0, first, 1, command.input_bytes, 0, 0
        )
        nbytes = command.input_bytes + due.elements.nbytes
        self._append(name, entry, due, is_u8=block is DeviceBlock.IPU, costs=(1, 0, nbytes))

    def _append(self, name: str, entry: ProbeEntry, due: Expected, *, is_u8: bool, costs: tuple[int, int, int]) -> None:
        """costs: how often the command is in its list; cycles and bytes of all of them."""
        samples = _samples(due) if due.is_exact else due.elements
        fields = (
            ASPECTS.index(entry.subject),
            f"0x{sum(1 << ASPECTS.index(aspect) for aspect in entry.aspects):X}",
            *map(int, entry[2:]),
            due.elements.nbytes,
            due.elements.itemsize,
            0 if due.is_exact else 1,  # the levels of the input
            "true" if is_u8 else "false",
            "true" if due.is_exact else "false",
            f"0x{zlib.crc32(due.elements.tobytes()):08X}",
            len(self.expected),
            samples.size,
            *costs,
        )
        self.commands.append({"name": name, "fields": fields})
        self.expected += hexadecimal(samples)

    def _traffic(self, command: ProbeCommand, due: Expected) -> int:
        """Bytes of maps and weights, by the model. It takes FP16 inputs for granted, and single commands."""
        costs = estimate(command.runs, operand_bytes=due.operand_bytes, profile=self._profile)
        return command.batch * costs.nbytes - (costs.input_bytes // _HALF if command.table else 0)

    def _registers(self, run: Run, command: ProbeCommand) -> tuple[int, ...]:
        registers = encode(run)
        if run.factors is not None:
            factors = factors_of(command)
            assert factors is not None
            kernels = factors.astype(np.float16).reshape(len(factors), -1, 1, 1)
            bias = np.full(len(kernels), -0.0, np.float16)  # as in packed_factors.h
            packed = pack(run.factors.packed, lambda rows: kernels[rows], bias=bias)
        elif run.convolution is None:
            return tuple(registers)
        else:
            packed = encode_all([run.convolution.weights], transposed=command.transposed)
        contents = b"".join(piece.tobytes() for piece in packed)
        return tuple(registers._replace(weight_offs=self.data.add(contents)))


def _samples(due: Expected) -> NDArray[np.float16] | NDArray[np.uint8]:
    """Elements at equal distances."""
    count = min(_SAMPLES, due.elements.size)
    indices = np.arange(count) * (due.elements.size - 1) // max(1, count - 1)
    return due.elements[indices]


def hexadecimal(values: NDArray[np.float16] | NDArray[np.uint8]) -> Sequence[str]:
    bits = values if values.dtype == np.uint8 else values.view(np.uint16)
    return [f"0x{value:04X}" for value in bits.tolist()]
