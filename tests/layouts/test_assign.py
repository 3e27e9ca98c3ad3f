"""Copies between views move every element, in any memory order of the two sides."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn_convertor.layouts import packing
from cnn_convertor.layouts.packing import assign

KINDS = [np.int8, np.float16, np.int32, np.float64, np.complex128, np.dtype("V2"), np.dtype("V3"), np.dtype("V16")]


@pytest.fixture(scope="module")
def small_limits() -> Iterator[None]:
    """Limits that cut small arrays into panels and lanes."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"SMALL": 0, "PANEL": 600, "FEW": 2, "SOME": 4}.items():
            patch.setattr(packing, name, value)
        yield


@pytest.mark.usefixtures("small_limits")
@settings(max_examples=150)
@given(st.data())
def test_every_element_arrives(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 11), min_size=1, max_size=5)))
    kind = np.dtype(data.draw(st.sampled_from(KINDS)))

    def view() -> np.ndarray:
        """Arrays with any order of axes, gaps, negative strides, aligned or not."""
        order = data.draw(st.permutations(range(len(shape))))
        gaps = [data.draw(st.integers(0, 2)) for _ in shape]
        outer = tuple(shape[axis] + gaps[axis] for axis in order)
        shift = data.draw(st.sampled_from([0, 0, 1]))
        memory = np.zeros(int(np.prod(outer)) * kind.itemsize + shift, np.uint8)[shift:].view(kind).reshape(outer)
        array = memory[tuple(slice(shape[axis]) for axis in order)].transpose(np.argsort(order))
        return array[tuple(slice(None, None, data.draw(st.sampled_from([1, 1, -1]))) for _ in shape)]

    values, to, plain = view(), view(), view()
    numbers = np.random.default_rng(0).integers(1, 256, values.size * kind.itemsize, np.uint8)
    values[...] = numbers.view(kind).reshape(shape)
    gaps = to.base if to.base is not None else to
    assign(to, values)
    plain[...] = values
    assert to.tobytes() == values.tobytes() == plain.tobytes()
    assert np.count_nonzero(gaps.view(np.uint8)) == np.count_nonzero(numbers)  # no other bytes were written


@pytest.mark.parametrize("order", [(1, 2, 0), (2, 1, 0), (0, 2, 1)])
def test_large_arrays_arrive_in_parts(order: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).standard_normal((70, 130, 150)).astype(np.float16)
    for lanes in (2, 10, 35):
        blocked = values.reshape(70 // lanes, lanes, 130, 150).transpose(0, *(1 + axis for axis in order))
        to = np.zeros(blocked.shape, np.float16)
        assign(to, blocked)
        assert (to == blocked).all()
        back = np.zeros_like(values)
        assign(back.reshape(70 // lanes, lanes, 130, 150).transpose(0, *(1 + axis for axis in order)), to)
        assert (back == values).all()
