"""Writes a program for the board that finds out which forms of commands work there."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor import files
from cnn_convertor.board.arithmetic import Map, compute, from_memory, operand_of, rounded, to_memory
from cnn_convertor.board.aspects import ASPECTS, words
from cnn_convertor.board.commands import ProbeCommand
from cnn_convertor.board.drawing import FRACTIONS, INTEGERS, draw, draw_bytes
from cnn_convertor.board.model import cycles
from cnn_convertor.board.suite import COMPUTE_BOUND, MEMORY_BOUND, commands
from cnn_convertor.codegen import render_text
from cnn_convertor.devices.dv700.encode.registers import TRANSPOSED, encode
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.program import Run
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.files import Contents

DEVICE = Path(__file__).parent / "device"  # C++ that is copied
_INPUT_SEED, _OPERAND_SEED = 5, 9
_TOLERANCE = 2.0**-8  # four units in the last place
_SAMPLES = 32  # of an exact output; of others all elements are expected
_LEVELS = (INTEGERS, FRACTIONS)
_TABLE_OFFSET, _VALUES, _TABLE_CHANNELS = 0, 256, 3


class WrittenProbe(NamedTuple):
    """commands: their number."""

    files: tuple[Path, ...]
    commands: int


def write_probe(folder: Path, limits: Limits) -> WrittenProbe:
    """Write the program, for a device with these limits, to a folder. Raises UsageError when it cannot be written."""
    chosen = commands(limits)
    return WrittenProbe(files.replace_all(folder, probe_files(chosen, limits)), len(chosen))


def probe_files(chosen: Sequence[ProbeCommand], limits: Limits) -> dict[str, Contents]:
    """File name -> contents of a program that runs the chosen commands. The same commands give the same files."""
    data = _Data()
    values = {
        **_list(chosen, data, limits),
        "ub_size": limits.ub_size,
        "max_kernel_size": limits.max_kernel_size,
        "input_seed": _INPUT_SEED,
        "operand_seed": _OPERAND_SEED,
        "tolerance": f"{_TOLERANCE!r}f",
        "data_bytes": data.size,
        "table_offset": _TABLE_OFFSET,
        "levels": [_hexadecimal(np.array(levels, np.float16)) for levels in _LEVELS],
        "form_count": len(Form),
        "aspects": [(aspect.name.lower(), words(aspect)) for aspect in ASPECTS],
        "compute_bound": _index(chosen, COMPUTE_BOUND),
        "memory_bound": _index(chosen, MEMORY_BOUND),
    }
    return {
        "probe.cpp": _copied("probe.cpp"),
        "board.h": _copied("board.h"),
        "Makefile": _copied("probe.mk"),
        "commands.h": render_text("probe_commands.h.j2", "a table of commands", values),
        "probe.bin": data.pieces,
    }


def _copied(name: str) -> str:
    return (DEVICE / name).read_text(encoding="utf-8")


def _index(chosen: Sequence[ProbeCommand], name: str) -> int:
    return next(index for index, command in enumerate(chosen) if command.name == name)


class _Data:
    """What commands read besides their maps: the table of 8-bit input, then packed weights, each once."""

    def __init__(self) -> None:
        self.pieces: list[NDArray[np.uint8]] = []
        self.size = 0
        self._offsets: dict[bytes, int] = {}
        self.add(_table().astype("<f2").tobytes())

    def add(self, contents: bytes) -> int:
        """The offset of the bytes, which is a multiple of 16."""
        if contents not in self._offsets:
            self._offsets[contents] = self.size
            padded = contents + bytes(-len(contents) % 16)
            self.pieces.append(np.frombuffer(padded, np.uint8))
            self.size += len(padded)
        return self._offsets[contents]


def _table() -> Map:
    """Value x channel: small integers, other ones in each channel."""
    value, channel = np.indices((_VALUES, _TABLE_CHANNELS))
    return np.asarray((5 * value + 3 * channel) % 7 - 3.0, np.float64)


class Expected(NamedTuple):
    """What a command must give. elements: FP16, in memory order, without minus zeros. is_exact: no result was rounded."""

    elements: NDArray[np.float16]
    operand_bytes: int
    is_exact: bool


def expect(command: ProbeCommand) -> Expected:
    """Compute a command on the input that the program draws."""
    levels = INTEGERS if command.is_exact else FRACTIONS
    values = _input(command, levels)
    operand = None
    if command.adds:
        shape = operand_of(values, command.runs[0]).shape
        drawn = draw(int(np.prod(shape)), _OPERAND_SEED, levels)
        operand = from_memory(drawn, shape, transposed=command.transposed)
    results = compute(values, command.runs, operand)
    stored = [result for run, result in zip(command.runs, results, strict=True) if run.external]
    elements = np.concatenate([to_memory(result, transposed=command.transposed) for result in stored])
    return Expected(
        elements.astype(np.float16) + np.float16(0),  # minus zero plus zero is zero
        0 if operand is None else 2 * operand.size,
        all(np.array_equal(rounded(result), result) for result in results),
    )


def _input(command: ProbeCommand, levels: tuple[float, ...]) -> Map:
    size, shape = command.input.size, command.input
    if command.table:
        drawn = draw_bytes(size, _INPUT_SEED)
        values = _table()[drawn, np.arange(size) % shape.channels]
    else:
        values = draw(size, _INPUT_SEED, levels)
    return from_memory(values, shape, transposed=command.transposed)


def _list(chosen: Sequence[ProbeCommand], data: _Data, limits: Limits) -> dict[str, object]:
    """Tables of commands, runs and expected elements, for the template."""
    runs: list[tuple[int, ...]] = []
    expected: list[str] = []
    rows: list[dict[str, object]] = []
    for command in chosen:
        due = expect(command)
        assert due.is_exact or not command.is_exact, f"{command.name}: some result is no FP16 number"
        samples = _samples(due) if command.is_exact else due.elements
        element = 1 if command.table else 2
        aspects = command.aspects(limits)
        fields = (
            ASPECTS.index(command.subject),
            f"0x{sum(1 << ASPECTS.index(aspect) for aspect in aspects):X}",
            command.input.width,
            command.input.height,
            command.input.channels,
            f"0x{TRANSPOSED if command.transposed else 0:X}",
            f"0x{command.topo:X}",
            len(runs),
            len(command.runs),
            element * command.input.size,
            due.operand_bytes,
            2 * due.elements.size,
            0 if command.is_exact else 1,
            "true" if command.table else "false",
            "true" if command.is_exact else "false",
            f"0x{zlib.crc32(due.elements.astype('<f2').tobytes()):08X}",
            len(expected),
            samples.size,
            sum(cycles(run) for run in command.runs),
            _traffic(command, due),
        )
        order = "HWC" if command.transposed else "WHC"
        rows.append({"name": f"{command.name} ({order})", "fields": fields})
        runs += [_registers(run, data, transposed=command.transposed) for run in command.runs]
        expected += _hexadecimal(samples)
    return {"commands": rows, "runs": runs, "expected": expected}


def _samples(due: Expected) -> NDArray[np.float16]:
    """Elements at equal distances."""
    count = min(_SAMPLES, due.elements.size)
    places = np.arange(count) * (due.elements.size - 1) // max(1, count - 1)
    return due.elements[places]


def _registers(run: Run, data: _Data, *, transposed: bool) -> tuple[int, ...]:
    registers = encode(run)
    if run.convolution is None:
        return tuple(registers)
    packed = encode_all([run.convolution.weights], transposed=transposed)
    return tuple(registers._replace(weight_offs=data.add(b"".join(piece.tobytes() for piece in packed))))


def _hexadecimal(values: NDArray[np.float16]) -> list[str]:
    return [f"0x{bits:04X}" for bits in values.view(np.uint16).tolist()]


def _traffic(command: ProbeCommand, due: Expected) -> int:
    """Bytes of maps, an input for each branch, and of weights."""
    element = 1 if command.table else 2
    convolutions = (run.convolution for run in command.runs)
    weights = sum(convolution.weights.nbytes for convolution in convolutions if convolution is not None)
    inputs = element * command.input.size * len(command.branches)
    return inputs + due.operand_bytes + 2 * due.elements.size + weights
