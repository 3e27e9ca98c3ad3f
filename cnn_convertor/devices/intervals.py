"""Intervals: numbers of which only a lower and an upper bound are known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A number between two ends, both of 0 or more; a known number has equal ends."""

    low: float
    high: float

    @staticmethod
    def of(number: float) -> Interval:
        """A known number."""
        return Interval(number, number)

    @property
    def is_known(self) -> bool:
        return self.low == self.high

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def less(self, part: Interval) -> Interval:
        """The number without a part of it: each end without the same end of the part."""
        return Interval(self.low - part.low, self.high - part.high)

    def __mul__(self, factor: float) -> Interval:
        return Interval(self.low * factor, self.high * factor)

    def __truediv__(self, divisor: float) -> Interval:
        return Interval(self.low / divisor, self.high / divisor)

    def __rtruediv__(self, dividend: float) -> Interval:
        return Interval(dividend / self.high, dividend / self.low)

    def text(self, form: str) -> str:
        """Both ends in a number's form, such as ",.1f", never with an exponent for a large number; once where they read the same."""
        low, high = _written(self.low, form), _written(self.high, form)
        return low if low == high else f"{low} to {high}"


def larger(first: Interval, second: Interval) -> Interval:
    """The larger of two numbers."""
    return Interval(max(first.low, second.low), max(first.high, second.high))


def smaller(first: Interval, second: Interval) -> Interval:
    """The smaller of two numbers."""
    return Interval(min(first.low, second.low), min(first.high, second.high))


def total(numbers: Iterable[Interval]) -> Interval:
    return sum(numbers, start=Interval.of(0.0))


def milliseconds(usec: Interval) -> str:
    """Microseconds in words: in milliseconds."""
    return (usec / 1e3).text(".3g")


def _written(number: float, form: str) -> str:
    text = format(number, form)
    return f"{float(text):,.0f}" if "e+" in text else text
