"""Constants read ranges of rows, and never more than requested."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from cnn_convertor.devices.half import to_half
from cnn_convertor.ir import constant as module
from cnn_convertor.ir.constant import Array, Constant, LastResult, Wide

VALUES = np.arange(60, dtype=np.float32).reshape(10, 3, 2)


class File:
    """A constant that records which rows are read."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []
        self.constant = Constant(VALUES.shape, self.read)

    def read(self, rows: slice) -> Array:
        self.rows.append((rows.start, rows.stop))
        return VALUES[rows]


DERIVATIONS: dict[str, tuple[Callable[[Constant], Constant], Callable[[Array], Array]]] = {
    "as it is": (lambda c: c, lambda v: v),
    "scaled": (lambda c: c.scale_rows(np.arange(10.0)), lambda v: v * np.arange(10)[:, None, None]),
    "reshaped": (lambda c: c.map_rows(lambda v: v.reshape(-1, 6), (6,)), lambda v: v.reshape(10, 6)),
    "transposed": (lambda c: c.map_rows(lambda v: v.swapaxes(1, 2), (2, 3)), lambda v: v.swapaxes(1, 2)),
    "numbered": (lambda c: c.map_rows_with(lambda v, r: v + np.arange(r.start, r.stop, dtype=np.float32)[:, None, None]),
                 lambda v: v + np.arange(10)[:, None, None]),
    "reversed": (lambda c: c.take_rows(np.arange(10)[::-1]), lambda v: v[::-1]),
    "axes swapped": (lambda c: c.swap_axes(), lambda v: v.swapaxes(0, 1)),
    "axes swapped in groups": (lambda c: c.swap_axes(5), lambda v: v.reshape(5, 2, 3, 2).swapaxes(1, 2).reshape(15, 2, 2)),
    "read in pieces": (lambda c: c.in_pieces(), lambda v: v),
    "columns taken": (lambda c: c.take_columns(lambda: np.array([2, 0, 1])), lambda v: v[:, [2, 0, 1]]),
    "columns taken, scaled": (
        lambda c: c.take_columns(lambda: np.array([2, 0, 1])).scale_rows(np.arange(10.0)),
        lambda v: v[:, [2, 0, 1]] * np.arange(10)[:, None, None],
    ),
    "scaled, reversed, scaled": (
        lambda c: c.scale_rows(np.arange(10.0)).take_rows(np.arange(10)[::-1]).scale_rows(np.arange(10.0)),
        lambda v: (v * np.arange(10)[:, None, None])[::-1] * np.arange(10)[:, None, None],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DERIVATIONS)
def test_derived_constants_have_the_computed_values(name: str) -> None:
    derive, expected = DERIVATIONS[name]
    constant = derive(Constant.of(VALUES))
    np.testing.assert_array_equal(constant.load(), expected(VALUES))
    assert constant.load().dtype == np.float32
    assert constant.shape == expected(VALUES).shape
    assert constant.size == 60


@pytest.mark.parametrize("name", DERIVATIONS)
@pytest.mark.parametrize("piece", [1, 64, 1 << 24])
@pytest.mark.parametrize("rows", [slice(0, 3), slice(3, 8), slice(9, 10), slice(8, 99), slice(4, 4)])
def test_a_range_of_rows_is_that_part_of_the_whole(
    name: str, rows: slice, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE", piece)
    derive, expected = DERIVATIONS[name]
    np.testing.assert_array_equal(derive(Constant.of(VALUES)).load(rows), expected(VALUES)[rows])


@pytest.mark.parametrize("name", [name for name in DERIVATIONS if not re.search("reversed|swapped|pieces", name)])
def test_reading_rows_never_loads_others(name: str) -> None:
    file = File()
    derived = DERIVATIONS[name][0](file.constant)
    assert file.rows == [], "deriving reads nothing"
    derived.load(slice(2, 5))
    assert file.rows == [(2, 5)]


def test_reading_rows_in_another_order_loads_no_more_than_their_span() -> None:
    file = File()
    derived = file.constant.take_rows(np.array([7, 2, 2, 9, 3]))
    assert derived.shape == (5, 3, 2)
    np.testing.assert_array_equal(derived.load(slice(1, 3)), VALUES[[2, 2]])
    assert file.rows == [(2, 3)]
    np.testing.assert_array_equal(derived.load(), VALUES[[7, 2, 2, 9, 3]])
    assert file.rows[1:] == [(2, 10)]


def test_rows_that_lie_far_apart_are_read_one_by_one() -> None:
    file = File()
    np.testing.assert_array_equal(file.constant.take_rows(np.array([9, 0])).load(), VALUES[[9, 0]])
    assert file.rows == [(9, 10), (0, 1)]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many numbers each reading of MATRIX takes, with limits as small as the matrix."""
    monkeypatch.setattr(module, "PIECE", 4 * 64 * 1024)
    monkeypatch.setattr(module, "_GAP", 256)
    monkeypatch.setattr(module, "_BLOCK", 4 * 4096)
    return []


MATRIX = np.arange(1024 * 256, dtype=np.float32).reshape(1024, 256)


def test_a_transposed_matrix_is_read_once_a_piece_at_a_time(reads: list[int]) -> None:
    def numbers(start: int, stop: int) -> Array:
        reads.append(stop - start)
        return MATRIX.reshape(-1)[start:stop]

    transposed = Constant.in_order(MATRIX.shape, numbers).swap_axes()
    rows = [transposed.load(slice(at, at + 16)) for at in range(0, 256, 16)]
    np.testing.assert_array_equal(np.concatenate(rows), MATRIX.T)
    assert sum(reads) == MATRIX.size
    assert max(reads) <= 4096


def test_what_is_kept_goes_with_its_owner_or_for_another() -> None:
    kept: LastResult[Array] = LastResult()
    calls = []

    def owner(key: int) -> Array:
        calls.append(key)
        return np.zeros(key, np.float32)

    def other() -> Array:
        return np.zeros(4, np.float32)

    for key in (1, 1, 2, 1):
        assert len(kept.get(owner, key, partial(owner, key))) == key
    assert calls == [1, 2, 1]
    first = weakref.ref(kept.get(owner, 1, lambda: owner(1)))
    second = weakref.ref(kept.get(other, 1, other))
    assert first() is None, "one result at most is in memory"
    assert second() is not None
    del other
    assert second() is None


def test_columns_can_be_taken_later() -> None:
    constant = Constant.of(VALUES)
    stored, order = constant.take_columns(lambda: np.array([2, 0, 1])).before_take_columns
    assert order is not None
    np.testing.assert_array_equal(stored.load()[:, order], VALUES[:, [2, 0, 1]])
    assert constant.before_take_columns == (constant, None)


def test_every_access_reads_again() -> None:
    file = File()
    file.constant.load()
    file.constant.load()
    assert len(file.rows) == 2, "memory holds nothing between readings"


def test_a_wrong_shape_is_an_assertion_error() -> None:
    liar = Constant((4, 2), lambda rows: np.zeros((4, 3), np.float32))
    with pytest.raises(AssertionError, match="promised"):
        liar.load()


def test_factors_are_applied_in_fp64() -> None:
    """However many there are; FP16 then has the nearest number to the exact product."""
    random = np.random.default_rng(0)
    values = random.normal(size=100_000).astype(np.float32)
    first, second = random.normal(size=(2, values.size))
    constant = Constant.of(values).scale_rows(first).take_rows(np.arange(values.size)[::-1]).scale_rows(second)
    exact = (values.astype(np.float64) * first)[::-1] * second
    np.testing.assert_array_equal(constant.load_wide(), exact)
    np.testing.assert_array_equal(to_half(constant.load()), exact.astype(np.float16))


def test_fp16_numbers_are_the_nearest_to_values_between_two_of_them() -> None:
    """Rounding to FP32 first would move a value just above the middle to the middle, and then to the even number."""
    half = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    middle = (half[:-1] + half[1:]) / 2
    near = np.concatenate(
        [half[:-1], *(middle * (1 + sign * 2.0**-40) for sign in (-1, 0, 1)), [1e-300, 1e300, np.nan]]
    )
    values: Wide = np.concatenate([near, -near])
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    np.testing.assert_array_equal(to_half(Constant.wide(values).load()), expected)


def test_a_constant_prints_its_shape() -> None:
    assert str(Constant.of(VALUES)) == "Constant(10x3x2)"
