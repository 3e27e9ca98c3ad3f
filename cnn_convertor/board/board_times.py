"""What a kit measured beside its commands, and how it enters a board.json."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cnn_convertor.devices.dv700.cpu_costs import works_of
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.files import json_files
from cnn_convertor.verification.on_board import BoardVerification


def function_times(program: Program, usec: Sequence[int | None]) -> Mapping[str, float]:
    """Nanoseconds for each unit of a CPU function's work, on one thread: nothing for a program that uses several.

    usec: of each layer. Functions below a microsecond are left out, and those that share a layer.
    """
    if program.cpu_threads != 1:
        return {}
    spent, units = Counter[str](), Counter[str]()
    for layer, time in zip(program.layers, usec, strict=True):
        works = works_of(layer)
        if time is not None and len(works) == 1:
            spent[works[0].function] += time
            units[works[0].function] += works[0].units
    return {name: 1e3 * spent[name] / units[name] for name in sorted(spent) if spent[name]}


def cache_rate(pairs: int, io_bytes: int, usec: int) -> float | None:
    """Bytes per second of the I/O buffer, which each pair of changes hands to the device and back. usec: of all changes."""
    return 1e6 * 2 * pairs * io_bytes / usec if pairs and usec else None


def read_board_file(path: Path) -> dict[str, Any]:
    """The values of a board.json, as a probe writes it. Raises UsageError for other JSON."""
    read_profile(path.name, path.parent)  # refuses any other file
    board: dict[str, Any] = json_files.load(path)
    return board


def with_times(board: dict[str, Any], measured: BoardVerification) -> str:
    """The text of a board.json with the times of a kit in place of the probe's."""
    times = {**board.get("measured", {})}
    times["functions"] = {**times.get("functions", {}), **measured.functions}
    if measured.cache_bytes_per_second is not None:
        times["cache_bytes_per_second"] = measured.cache_bytes_per_second
    return json.dumps({**board, "measured": times}, indent=2) + "\n"
