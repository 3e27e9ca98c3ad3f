"""The figures of an accelerator, each with its source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figure(Generic[T]):
    """A figure of a device. source: where it comes from. is_assumed: no public material has it for this device."""

    value: T
    source: str
    is_assumed: bool = False


class FigureKind(NamedTuple):
    """What a figure means, and its values. expected: in messages. accepts: whether a file's value is possible. read: what it is."""

    words: str
    unit: str
    expected: str
    accepts: Callable[[Any], bool]
    read: Callable[[Any], Any] = lambda value: value
