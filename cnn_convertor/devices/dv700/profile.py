"""A device as data: its figures, each with its source, and the limits that follow."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, NamedTuple

from cnn_convertor.devices.dv700.fusion.levels import Evidence, Form
from cnn_convertor.devices.dv700.limits import KERNEL_SIZES, UB_SIZES, Limits
from cnn_convertor.devices.figures import Figure, FigureKind
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.errors import Problem, UsageError

BLOCKS = ("conv", "fc", "maximizer", "ipu")  # what a device can have
USUAL_MULTIPLIERS = 576  # for which cycles are counted: 72 for each of 8 output channels
PROCESSORS = ("cortex-a53", "cortex-a9")  # with a table of cycles in processors/
UNRESTRICTED = 93  # first revision with deconvolutions and with pools of any width and height
UNKNOWN = "unknown"  # in place of a date of the hardware, which then counts as older than all dates here
# A max pool behind a convolution in several tiles: the first user driver that does not refuse it (the check was removed on
# 2019-09-20), and the first hardware that computes it. Older hardware behind a newer driver computes wrongly, without an error.
TILED_POOL_DRIVER = "7.2.20201106"
TILED_POOL_HARDWARE = date(2019, 7, 29)


class Measurement(NamedTuple):
    """Commands of one list that a board ran. usec: without the cost of the list. cycles, nbytes: of the model, all together."""

    name: str
    usec: float
    cycles: int
    nbytes: int
    commands: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Figures of a device: the fields of FIGURES, which documents them.

    passed: the forms of commands that a probe has seen work on the board; None without a probe. measured: what it measured.
    failed: other features that did not pass. functions: nanoseconds that the board took for a unit of a CPU function's work.
    """

    name: str
    title: str
    ub_size: Figure[int]
    max_kernel_size: Figure[int]
    revision: Figure[int]
    wide_padding: Figure[int]
    driver: Figure[str]
    hardware: Figure[date | str]  # a date or UNKNOWN
    multipliers: Figure[int]
    conv_freq: Figure[Interval]
    bandwidth: Figure[Interval]
    command_usec: Figure[Interval]
    list_usec: Figure[Interval]
    cache_rate: Figure[Interval]
    cache_line: Figure[int]
    cpu: Figure[str]
    cpu_freq: Figure[Interval]
    cpu_cores: Figure[Interval]
    blocks: Figure[tuple[str, ...]]
    expands_palettes: Figure[bool]
    passed: frozenset[Form] | None = None
    failed: frozenset[str] = frozenset()
    measured: tuple[Measurement, ...] = ()
    functions: Mapping[str, float] = field(default_factory=dict)

    @property
    def limits(self) -> Limits:
        """What follows from the figures for commands."""
        return Limits(
            max_kernel_size=self.max_kernel_size.value,
            ub_size=self.ub_size.value,
            deconvolves=self.revision.value >= UNRESTRICTED and "deconvolution" not in self.failed,
            pools_unevenly=self.revision.value >= UNRESTRICTED and "rectangular_pool" not in self.failed,
            pads_beyond_map=self.revision.value >= self.wide_padding.value,
            pools_tiles=self._pools_tiles if self.passed is None else Form.TILED_POOL in self.passed,
        )

    @property
    def of_board(self) -> dict[str, int | bool]:
        """The limits that differ between boards."""
        return self.limits.of_board

    @property
    def kinds(self) -> Mapping[str, FigureKind]:
        """What each figure means."""
        return FIGURES

    @property
    def _pools_tiles(self) -> bool:
        """Whether both driver and hardware are late enough for a max pool behind a convolution in several tiles."""
        image = self.hardware.value
        is_late = isinstance(image, date) and image >= TILED_POOL_HARDWARE
        return is_late and _version(self.driver.value) >= _version(TILED_POOL_DRIVER)

    @property
    def figures(self) -> dict[str, Figure[Any]]:
        """Every figure, by name."""
        return {name: getattr(self, name) for name in FIGURES}

    def to_values(self) -> dict[str, Any]:
        """The profile as plain values, for JSON."""
        figures = {
            name: {
                "value": _plain(figure.value),
                "unit": FIGURES[name].unit,
                "source": figure.source,
                "assumed": figure.is_assumed,
            }
            for name, figure in self.figures.items()
        }
        passed = None if self.passed is None else sorted(form.name.lower() for form in self.passed)
        return {"name": self.name, "title": self.title, "figures": figures, "passed": passed}

    def evidence(self, form: Form) -> Evidence:
        """The evidence for a form of command on this device: a probe proves it."""
        return Evidence.PROVEN if self.passed is not None and form in self.passed else form.evidence

    def with_figures(self, figures: Mapping[str, Figure[Any]]) -> Profile:
        """The profile with other figures, by name. Their values are possible ones."""
        changes: dict[str, Any] = dict(figures)
        return replace(self, **changes)

    def overridden(self, **sizes: int | None) -> Profile:
        """The profile with sizes from the command line, by name; None leaves one as it is. Raises UsageError."""
        overrides = {name: size for name, size in sizes.items() if size is not None}
        wrong = [
            Problem("DV109", f"{_option(name)}: expected {FIGURES[name].expected}, not {size}")
            for name, size in overrides.items()
            if not FIGURES[name].accepts(size)
        ]
        if wrong:
            raise UsageError(wrong)
        return self.with_figures({name: Figure(size, _option(name)) for name, size in overrides.items()})


def _plain(value: Any) -> Any:
    """A figure's value for JSON: an interval is a number, or a list of both ends."""
    match value:
        case Interval(low, high):
            return low if value.is_known else [low, high]
        case date():
            return value.isoformat()
        case _:
            return value


def _option(name: str) -> str:
    """A figure's option on the command line."""
    return f"--{name.replace('_', '-')}"


def _whole(possible: range) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and value in possible


def is_version(value: object) -> bool:
    """Whether a value is a version of the user driver as it names itself: two numbers and the day of the release."""
    return isinstance(value, str) and re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}\.20[0-9]{6}", value) is not None


def _version(text: str) -> tuple[int, ...]:
    """A version that compares by age."""
    return tuple(map(int, text.split(".")))


def _has_ends(least: float) -> Callable[[Any], bool]:
    """Whether a value is a number, or a list of two in order, each at least so large."""

    def accepts(value: Any) -> bool:
        ends = value if isinstance(value, list) else [value, value]
        return (
            len(ends) == 2
            and all(type(end) in (int, float) and least <= end < math.inf for end in ends)
            and ends[0] <= ends[1]
        )

    return accepts


def _interval(value: Any) -> Interval:
    return Interval(*map(float, value)) if isinstance(value, list) else Interval.of(float(value))


def _are_cores(value: Any) -> bool:
    return _has_ends(1)(value) and all(end == int(end) for end in (value if isinstance(value, list) else [value]))


def _are_blocks(value: object) -> bool:
    return isinstance(value, list) and "conv" in value and set(BLOCKS).issuperset(map(str, value))


_SIZES = f"{UB_SIZES[0]} to {UB_SIZES[-1]}"
_REVISION = _whole(range(1 << 31))
_TINY = math.ulp(0.0)  # the smallest number above 0
_POSITIVE = "a number above 0, or both ends of an interval: [low, high]"
_NOT_NEGATIVE = _POSITIVE.replace("above 0", "of 0 or more")
FIGURES: Mapping[str, FigureKind] = {
    "ub_size": FigureKind("unified buffer", "bytes", _SIZES, _whole(UB_SIZES)),
    "max_kernel_size": FigureKind(
        "largest kernel", "pixels", f"{KERNEL_SIZES[0]} to {KERNEL_SIZES[-1]}", _whole(KERNEL_SIZES)
    ),
    "revision": FigureKind("hardware revision (svn_version)", "", "a whole number", _REVISION),
    "wide_padding": FigureKind("first revision with padding larger than the map", "", "a whole number", _REVISION),
    "driver": FigureKind("version of the user driver", "", 'a version in quotes, like "7.2.20190716"', is_version),
    "hardware": FigureKind(
        "date of the hardware (FPGA image)",
        "",
        f'a date like 2019-07-29, or "{UNKNOWN}"',
        lambda value: type(value) is date or value == UNKNOWN,
    ),
    "multipliers": FigureKind("multipliers (mac_num)", "", "a whole number above 0", _whole(range(1, 1 << 31))),
    "conv_freq": FigureKind("convolution clock", "MHz", _POSITIVE, _has_ends(_TINY), _interval),
    "bandwidth": FigureKind("memory bandwidth", "MB/s", _POSITIVE, _has_ends(_TINY), _interval),
    "command_usec": FigureKind("time to start and end a command", "us", _NOT_NEGATIVE, _has_ends(0), _interval),
    "list_usec": FigureKind(
        "time to start a command list and wait for its end", "us", _NOT_NEGATIVE, _has_ends(0), _interval
    ),
    "cache_rate": FigureKind("cache maintenance of the I/O buffer", "MB/s", _POSITIVE, _has_ends(_TINY), _interval),
    "cache_line": FigureKind(
        "cache line, for maintenance of a range; 0: of the whole buffer alone",
        "bytes",
        "0, 32 or 64",
        lambda value: type(value) is int and value in (0, 32, 64),
    ),
    "cpu": FigureKind("processor", "", " or ".join(PROCESSORS), lambda value: value in PROCESSORS),
    "cpu_freq": FigureKind("processor clock", "MHz", _POSITIVE, _has_ends(_TINY), _interval),
    "cpu_cores": FigureKind(
        "processor cores", "", "a whole number above 0, or both ends of an interval: [low, high]", _are_cores, _interval
    ),
    "blocks": FigureKind("blocks", "", f"a list of conv and {', '.join(BLOCKS[1:])}", _are_blocks, tuple),
    "expands_palettes": FigureKind(
        "the driver expands palettes in its command buffer", "", "true or false", lambda value: type(value) is bool
    ),
}
