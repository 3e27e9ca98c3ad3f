"""Writes a program for the board that finds out which forms of commands work there."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cnn_convertor.codegen.text_templates import render_text
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.probe.blocks import BlockCommand, block_commands
from cnn_convertor.devices.dv700.probe.entries import TABLE_OFFSET, Tables, hexadecimal
from cnn_convertor.devices.dv700.probe.expected import INPUT_SEED, OPERAND_SEED
from cnn_convertor.devices.dv700.probe.function_calls import functions_header
from cnn_convertor.devices.dv700.probe.probe_commands import ASPECTS, ProbeCommand, words
from cnn_convertor.devices.dv700.probe.random_numbers import FRACTIONS, INTEGERS
from cnn_convertor.devices.dv700.probe.suite import COMPUTE_BOUND, IDLE, MEMORY_BOUND, REPEATED, commands
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.target import Hardware
from cnn_convertor.files import replacing
from cnn_convertor.files.replacing import Contents

SOURCES = Path(__file__).parent / "device"  # C++ that is copied
_TOLERANCE = 2.0**-8  # four units in the last place


class WrittenProbe(NamedTuple):
    """commands: their number."""

    files: tuple[Path, ...]
    commands: int


def write_probe(folder: Path, profile: Hardware) -> WrittenProbe:
    """Write the program, for such a device, to a folder. Raises UsageError when it cannot be written."""
    assert isinstance(profile, Profile)
    chosen, others = commands(profile.limits), block_commands()
    return WrittenProbe(replacing.replace_all(folder, probe_files(chosen, others, profile)), len(chosen) + len(others))


def probe_files(
    chosen: Sequence[ProbeCommand], others: Sequence[BlockCommand], profile: Profile
) -> dict[str, Contents]:
    """File name -> contents of a program that runs these commands. The same commands give the same files."""
    tables = Tables(profile)
    for command in chosen:
        tables.add(command)
    for other in others:
        tables.add_block(other)
    values = {
        "commands": tables.commands,
        "runs": tables.runs,
        "images": tables.images,
        "expected": tables.expected,
        "suite": zlib.crc32(repr((tables.commands, tables.runs, tables.images, tables.expected)).encode()),
        "ub_size": profile.ub_size.value,
        "max_kernel_size": profile.max_kernel_size.value,
        "input_seed": INPUT_SEED,
        "operand_seed": OPERAND_SEED,
        "tolerance": f"{_TOLERANCE!r}f",
        "data_bytes": tables.data.size,
        "table_offset": TABLE_OFFSET,
        "levels": [hexadecimal(np.array(levels, np.float16)) for levels in (INTEGERS, FRACTIONS)],
        "form_count": len(Form),
        "aspects": [(aspect.name.lower(), words(aspect)) for aspect in ASPECTS],
        "compute_bound": _index(chosen, COMPUTE_BOUND),
        "memory_bound": _index(chosen, MEMORY_BOUND),
        "idle": _index(chosen, IDLE),
        "repeated": _index(chosen, REPEATED),
    }
    return {
        "probe.cpp": _copied("probe.cpp"),
        "board.h": _copied("board.h"),
        "Makefile": _copied("probe.mk"),
        "functions.h": functions_header(),
        "commands.h": render_text("probe_commands.h.j2", "a table of commands", values),
        "probe.bin": tables.data.pieces,
    }


def _copied(name: str) -> str:
    return (SOURCES / name).read_text(encoding="utf-8")


def _index(chosen: Sequence[ProbeCommand], name: str) -> int:
    return next(index for index, command in enumerate(chosen) if command.name == name)
