"""Reads board.json, the results of a probe."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.profile import FIGURES, USUAL_MULTIPLIERS, Measurement, Profile, is_version
from cnn_convertor.devices.figures import Figure
from cnn_convertor.errors import Problem, warn

FORMAT, VERSION = "cnn-convertor board", 1
PASSED = "passed"
RANGE_LINE = 64  # bytes, in a cache for whose ranges a board's driver was seen to do maintenance
RESULTS = (PASSED, "failed", "untested")
BLOCKS = ("maximizer", "ipu")  # beside the convolution; features
# Features without a limit in limits.py: nothing but the warning keeps a network from them.
_WARNED = ("dilation", "palette", "prelu", "upsampling")


class BoardFileError(Exception):
    """reasons: everything that is wrong with a board file."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = reasons


def with_board(base: Profile, source: str, board: Mapping[str, Any]) -> Profile:
    """The profile of a board. base: gives what the board does not say. source: the name of the file.

    Warns of features that did not pass and that no rule keeps networks from. Raises BoardFileError.
    """
    if (board.get("format"), board.get("version")) != (FORMAT, VERSION):
        raise BoardFileError(
            f'expected "format": "{FORMAT}" and "version": {VERSION}, as a probe writes them (`cnn-convertor board probe`)'
        )
    parts = {name: board.get(name, {}) for name in ("device", "probed", "forms", "features", "measured")}
    if wrong := [f"{name}: expected an object" for name, part in parts.items() if not isinstance(part, dict)]:
        raise BoardFileError(*wrong)
    forms = _results(parts["forms"], "forms")
    features = _results(parts["features"], "features")
    figures = _figures(parts["device"], parts["probed"], parts["measured"])
    figures["blocks"] = ["conv", *(block for block in BLOCKS if features.get(block) == PASSED)]
    passed = frozenset(form for form in Form if forms.get(form.name.lower()) == PASSED)
    wrong = [
        f"{name}: expected {FIGURES[name].expected}, not {value!r}"
        for name, value in figures.items()
        if not FIGURES[name].accepts(value)
    ]
    if Form.RUN not in passed:
        wrong.append("forms: run did not pass: the board fails plain commands")
    if wrong:
        raise BoardFileError(*wrong)
    failed = frozenset(name for name, result in features.items() if result != PASSED)
    _warn_of(failed, source)
    values = {name: Figure(FIGURES[name].read(value), source) for name, value in figures.items()}
    return replace(
        base.with_figures(values),
        name=source.rpartition(".")[0],
        title=str(parts["device"].get("description") or "a probed board"),
        passed=passed,
        failed=failed,
        measured=tuple(_measurements(board.get("commands", []), parts["measured"])),
        functions=_functions(parts["measured"].get("functions", {})),
    )


def _results(entry: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    wrong = [f"{place}: {name}: expected {', '.join(RESULTS)}" for name, v in entry.items() if v not in RESULTS]
    if wrong:
        raise BoardFileError(*wrong)
    return entry


def _figures(device: Mapping[str, Any], probed: Mapping[str, Any], measured: Mapping[str, Any]) -> dict[str, Any]:
    """Figure -> value, for what the board says."""
    figures: dict[str, Any] = {}
    for name in ("ub_size", "max_kernel_size"):
        sizes = [size for size in (device.get(name), probed.get(name)) if size not in (None, 0)]
        if sizes:
            figures[name] = min(sizes, key=lambda size: size if type(size) is int else -math.inf)
    for name, key in (("revision", "svn_version"), ("multipliers", "mac_num")):
        if device.get(key) is not None:
            figures[name] = device[key]
    if is_version(driver := device.get("driver")):  # as the driver names itself; other texts say nothing of its age
        figures["driver"] = driver
    if (hardware := device.get("hardware")) is not None:  # no driver knows it: the user writes it
        figures["hardware"] = _date(hardware)
    clock = device.get("conv_freq") or _clock(device, measured)
    speed = measured.get("bytes_per_second")
    if clock is not None:
        figures["conv_freq"] = clock
    if speed is not None:
        figures["bandwidth"] = speed / 1e6 if type(speed) in (int, float) else speed
    for name in ("command_usec", "list_usec"):
        if measured.get(name) is not None:
            figures[name] = measured[name]
    match measured.get("cache_ranges"):
        case "passed":
            figures["cache_line"] = RANGE_LINE
        case "failed":
            figures["cache_line"] = 0
        case _:
            pass
    if (rate := measured.get("cache_bytes_per_second")) is not None:
        figures["cache_rate"] = rate / 1e6 if type(rate) in (int, float) else rate
    return figures


def _date(text: object) -> object:
    """The date that a text gives; otherwise the text."""
    try:
        return date.fromisoformat(text) if isinstance(text, str) else text
    except ValueError:
        return text


def _clock(device: Mapping[str, Any], measured: Mapping[str, Any]) -> Any:
    """The clock in MHz that explains the measured cycles, which are counted for the usual multipliers."""
    multipliers = device.get("mac_num") or USUAL_MULTIPLIERS
    cycles: Any = measured.get("conv_mhz")
    if type(cycles) in (int, float) and type(multipliers) is int:
        return cycles * USUAL_MULTIPLIERS / multipliers
    return cycles


def _functions(rows: Any) -> dict[str, float]:
    """Nanoseconds for each unit of a function's work."""
    if not isinstance(rows, dict) or not all(type(n) in (int, float) and 0 < n < math.inf for n in rows.values()):
        raise BoardFileError("measured: functions: expected an object with numbers above 0")
    return rows


def _measurements(rows: Any, measured: Mapping[str, Any]) -> list[Measurement]:
    """Commands whose results are right and whose time and traffic are known. Each row is a list, whose cost the model leaves out."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BoardFileError("commands: expected a list of objects")
    right = [row for row in rows if row.get("result") == PASSED and row.get("usec")]
    of_list = measured.get("list_usec")
    _check_measurements(right, of_list)
    figures = [
        Measurement(
            str(row.get("name", "")), row["usec"] - (of_list or 0), row["cycles"], row["bytes"], row.get("repeats", 1)
        )
        for row in right
    ]
    return [row for row in figures if row.usec > 0]


def _check_measurements(rows: list[dict[str, Any]], of_list: Any) -> None:
    if of_list is not None and not (type(of_list) in (int, float) and 0 <= of_list < math.inf):
        raise BoardFileError(f"measured: list_usec: expected a number of 0 or more, not {of_list!r}")
    keys = ("usec", "cycles", "bytes")
    if any(type(row.get(key)) not in (int, float) for row in rows for key in keys):
        raise BoardFileError(f"commands: expected numbers in {', '.join(keys)}")
    if any(type(row.get("repeats", 1)) is not int for row in rows):
        raise BoardFileError("commands: expected whole numbers in repeats")


def _warn_of(failed: frozenset[str], source: str) -> None:
    features = [name for name in _WARNED if name in failed]
    if features:
        problem = f"the probe did not see these work on the board: {', '.join(features)}"
        hint = f"look at the commands of {source} that failed; networks without these features are not concerned"
        warn(Problem("DV151", problem, hint=hint))
