"""What a kit measured beside its commands, and how it enters a board.json."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cnn_convertor.devices.facts import CpuCost
from cnn_convertor.devices.program import Program
from cnn_convertor.devices.registry import read_hardware
from cnn_convertor.files import json_files
from cnn_convertor.verification.on_board import BoardVerification


def function_times(
    program: Program, costs: Sequence[CpuCost | None], usec: Sequence[int | None]
) -> Mapping[str, float]:
    """Nanoseconds for each unit of a CPU function's work, on one thread: nothing for a program that uses several.

    costs: of each layer by the model. usec: of each layer. Functions below a microsecond are left out, and those that share a layer.
    """
    if program.cpu_threads != 1:
        return {}
    spent, units = Counter[str](), Counter[str]()
    for cost, time in zip(costs, usec, strict=True):
        if time is not None and cost is not None and len(cost.functions) == 1:
            spent[cost.function] += time
            units[cost.function] += cost.units
    return {name: 1e3 * spent[name] / units[name] for name in sorted(spent) if spent[name]}


def cache_rate(pairs: int, io_bytes: int, usec: int) -> float | None:
    """Bytes per second of the I/O buffer, which each pair of changes hands to the device and back. usec: of all changes."""
    return 1e6 * 2 * pairs * io_bytes / usec if pairs and usec else None


def read_board_file(path: Path) -> dict[str, Any]:
    """The values of a board.json, as a probe writes it. Raises UsageError for other JSON."""
    read_hardware(path.name, path.parent)  # refuses any other file
    board: dict[str, Any] = json_files.load(path)
    return board


def with_times(board: dict[str, Any], measured: BoardVerification) -> str:
    """The text of a board.json with the times of a kit in place of the probe's."""
    times = {**board.get("measured", {})}
    times["functions"] = {**times.get("functions", {}), **measured.functions}
    if measured.cache_bytes_per_second is not None:
        times["cache_bytes_per_second"] = measured.cache_bytes_per_second
    return json.dumps({**board, "measured": times}, indent=2) + "\n"
