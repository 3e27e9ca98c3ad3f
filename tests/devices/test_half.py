"""FP32 to FP16: numpy's conversion, bit by bit, and what was lost in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.half import loss, to_half
from cnn_convertor.devices.half_check import encoded
from cnn_convertor.devices.program import ElementType, StoredArray
from cnn_convertor.errors import Origin, UnsupportedError
from cnn_convertor.ir.constant import Constant

Single = NDArray[np.float32]


def assert_like_numpy(values: Single) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(np.float16)
    actual = to_half(values)
    assert actual.dtype == np.float16
    assert actual.shape == values.shape
    np.testing.assert_array_equal(actual.view(np.uint16), expected.view(np.uint16))


def from_bits(bits: NDArray[np.uint32]) -> Single:
    return bits.astype(np.uint32).view(np.float32)


def test_every_sign_and_exponent_with_many_mantissas() -> None:
    random = np.random.default_rng(0)
    tops = np.arange(1 << 9, dtype=np.uint32)[:, None] << np.uint32(23)
    mantissas = np.concatenate(
        [
            random.integers(0, 1 << 23, 2000, np.uint32),
            np.array([0, 1, (1 << 23) - 1], np.uint32),
            # ties of normal numbers, and their neighbors
            (random.integers(0, 1 << 10, 500, np.uint32)[:, None] * 8192 + np.array([4095, 4096, 4097])).reshape(-1),
            # ties of subnormal ones: the lower the exponent, the more bits are cut off
            np.uint32(1) << np.arange(23, dtype=np.uint32),
            (random.integers(0, 1 << 10, 500, np.uint32)[:, None] << np.arange(13, 23, dtype=np.uint32)).reshape(-1)
            % (1 << 23),
        ]
    )
    assert_like_numpy(from_bits(tops | mantissas.astype(np.uint32)))


def test_every_half_and_every_middle_between_two() -> None:
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles: Single = (halves[:-1] + halves[1:]) / np.float32(2)
    below: Single = np.nextafter(middles, np.float32(0))
    above: Single = np.nextafter(middles, np.float32(1e9))
    for values in (halves, middles, below, above):
        assert_like_numpy(values)
        assert_like_numpy(-values)


def test_beyond_the_range_is_infinite() -> None:
    assert_like_numpy(np.array([65504, 65519.99, 65520, 65536, 1e10, np.inf, -65520, -np.inf, np.nan], np.float32))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 7), (3, 50000)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    assert_like_numpy(np.random.default_rng(1).normal(size=shape).astype(np.float32).reshape(shape))


def test_strided_reversed_unaligned_and_read_only_arrays() -> None:
    values = np.random.default_rng(2).normal(size=(40, 30, 3, 3)).astype(np.float32)
    assert_like_numpy(values[:, :, ::-1, ::-1])
    assert_like_numpy(values.transpose(1, 3, 0, 2)[::2])
    unaligned = np.frombuffer(b"-" + values.tobytes(), "<f4", offset=1)
    assert not unaligned.flags.aligned
    assert not unaligned.flags.writeable
    assert_like_numpy(unaligned)


def test_no_warnings(recwarn: pytest.WarningsRecorder) -> None:
    to_half(from_bits(np.arange(0, 1 << 32, 9973, dtype=np.uint64).astype(np.uint32)))
    assert not recwarn.list


def test_loss_names_what_overflowed_and_counts_what_became_zero() -> None:
    values = np.array([[0.0, -0.0, 1e-9, -1e-9, 1.0], [1e-7, 65519.0, 65520.0, -np.inf, np.nan]], np.float32)
    lost = loss(values, to_half(values))
    assert lost.overflowed.tolist() == [7, 8, 9]
    assert (lost.flushed, lost.subnormal) == (2, 1)


def test_loss_counts_what_is_below_the_normal_numbers() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    exact = bits.view(np.float16)[np.isfinite(bits.view(np.float16))].astype(np.float32)
    lost = loss(exact, to_half(exact))
    assert (lost.flushed, lost.subnormal) == (0, 2 * 1023)  # of each sign


def test_loss_looks_at_arrays_of_any_size() -> None:
    values = np.full(200_001, 0.5, np.float32)
    values[[3, 70_000, 200_000]] = 1e6
    values[[4, 150_000]] = 1e-9
    values[[5, 100_000]] = 0
    values[[6, 65_536, 199_999]] = 1e-5
    lost = loss(values, to_half(values))
    assert (lost.overflowed.tolist(), lost.flushed, lost.subnormal) == ([3, 70_000, 200_000], 2, 3)


def test_a_constant_beside_maps_that_fp16_does_not_hold_is_refused() -> None:
    array = StoredArray(0, ElementType.HALF, Constant.of(np.array([1.0, 1e6])), Origin("net", layer="scale"))
    with pytest.raises(UnsupportedError, match="scale"):
        encoded(array)
    wide = encoded(replace(array, type=ElementType.FLOAT))
    assert wide.view(np.float32).tolist() == [1.0, 1e6]
