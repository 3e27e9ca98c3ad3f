"""Intervals read like numbers, whatever their size."""

import pytest

from cnn_convertor.devices.intervals import Interval, milliseconds


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (12.34, 12.34, "0.0123"),
        (500_000, 999_400, "500 to 999"),
        (617_000, 1_234_000, "617 to 1,230"),
        (999_600, 999_600, "1,000"),
        (12_500_000, 25_000_000, "12,500 to 25,000"),
    ],
)
def test_milliseconds_have_three_digits_and_no_exponent(low: float, high: float, text: str) -> None:
    assert milliseconds(Interval(low, high)) == text


def test_ends_that_read_the_same_are_written_once() -> None:
    assert Interval(1.01, 1.04).text(".1f") == "1.0"
    assert Interval(1.0, 1.2).text(".1f") == "1.0 to 1.2"
