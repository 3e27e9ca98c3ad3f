"""Where elements lie in memory, against the formula of the specification, element by element."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from cnn_convertor.devices.dv700.memory import memory_layout
from cnn_convertor.devices.dv700.memory.memory_layout import is_chunked, memory_order, same_memory
from cnn_convertor.ir.ops import Order, Shape

SHAPES = [Shape(*shape) for shape in
          [(1, 1, 1), (1, 1, 20), (2, 3, 1), (3, 2, 8), (2, 3, 9), (4, 3, 16), (3, 5, 23), (1, 6, 12), (6, 1, 12), (5, 5, 7)]]  # fmt: skip


def offset(shape: Shape, y: int, x: int, c: int, *, transposed: bool) -> int:
    """Section 1 of the specification."""
    height, width, channels = shape
    chunk, k = c // 8, c % 8
    width_of_chunk = min(8, channels - 8 * chunk)
    place = y * width + x if transposed else x * height + y
    return chunk * 8 * width * height + place * width_of_chunk + k


def index(shape: Shape, y: int, x: int, c: int, order: Order) -> int:
    height, width, channels = shape
    return (y * width + x) * channels + c if order is Order.HWC else (c * height + y) * width + x


@pytest.mark.parametrize("order", [Order.HWC, Order.CHW])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_element_lies_where_the_formula_says(shape: Shape, transposed: bool, order: Order) -> None:
    found = memory_order(shape, transposed=transposed, order=order)
    assert found.shape == (shape.size,)
    for y, x, c in np.ndindex(*shape):
        assert found[offset(shape, y, x, c, transposed=transposed)] == index(shape, y, x, c, order)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_memory_order_counted_in_memory_order_is_the_order(shape: Shape) -> None:
    np.testing.assert_array_equal(memory_order(shape, transposed=True, order=Order.MEMORY), np.arange(shape.size))


@pytest.mark.parametrize(
    ("shape", "chunked"),
    [(Shape(1, 1, 100), False), (Shape(4, 4, 8), False), (Shape(4, 4, 9), True), (Shape(1, 2, 9), True)],
)
def test_vectors_and_up_to_8_channels_are_not_chunked(shape: Shape, chunked: bool) -> None:
    assert is_chunked(shape) is chunked


@pytest.mark.parametrize(
    ("before", "after", "order", "plain", "transposed"),
    [
        (Shape(4, 4, 3), Shape(1, 1, 48), Order.HWC, False, True),
        (Shape(4, 4, 16), Shape(1, 1, 256), Order.HWC, False, False),
        (Shape(4, 4, 1), Shape(1, 1, 16), Order.CHW, False, True),
        (Shape(4, 1, 1), Shape(1, 1, 4), Order.CHW, True, True),
        (Shape(4, 6, 16), Shape(1, 24, 16), Order.HWC, False, True),  # rows joined: every chunk stays what it is
        (Shape(4, 6, 16), Shape(8, 3, 16), Order.HWC, False, True),
        (Shape(1, 1, 10), Shape(1, 1, 10), Order.CHW, True, True),
        (Shape(1, 6, 16), Shape(6, 1, 16), Order.CHW, True, True),
    ],
)
def test_reshapes_that_move_nothing(before: Shape, after: Shape, order: Order, plain: bool, transposed: bool) -> None:
    assert same_memory(before, after, order, transposed=False) is plain
    assert same_memory(before, after, order, transposed=True) is transposed


@pytest.mark.parametrize(
    ("before", "after"),
    [(Shape(1, 2, 4), Shape(1, 3, 4)), (Shape(1, 1, 4), Shape(1, 1, 5)), (Shape(2, 2, 1), Shape(1, 2, 1))],
)
def test_a_reshape_keeps_the_number_of_elements(before: Shape, after: Shape) -> None:
    with pytest.raises(AssertionError, match="a reshape from"):
        same_memory(before, after, Order.HWC, transposed=False)


@pytest.mark.parametrize("after", [Shape(1, 1, 10**12), Shape(10**4, 10**4, 10**4)])
def test_of_a_map_beyond_all_memory_nothing_is_counted(after: Shape) -> None:
    """It comes from a wrong number in a definition, and a rule says so."""
    assert not same_memory(Shape(10**6, 10**5, 10), after, Order.CHW, transposed=False)


@pytest.mark.slow
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("order", Order)
def test_maps_lie_alike_where_their_whole_orders_agree(
    order: Order, transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every shape of 48 elements, and of 60, against every other, in pieces of 7."""
    monkeypatch.setattr(memory_layout, "_PIECE", 7)
    for size in (48, 60):
        pairs = [(height, size // height) for height in range(1, size + 1) if size % height == 0]
        shapes = [Shape(h, w, rest // w) for h, rest in pairs for w in range(1, rest + 1) if rest % w == 0]
        orders = {shape: memory_order(shape, transposed=transposed, order=order) for shape in shapes}
        for before, after in itertools.product(shapes, shapes):
            both_vectors = before.is_vector and after.is_vector
            expected = both_vectors or np.array_equal(orders[before], orders[after])
            assert same_memory(before, after, order, transposed=transposed) == expected


def test_large_maps_are_compared_in_little_memory() -> None:
    tracemalloc.start()
    assert not same_memory(Shape(7000, 8000, 1), Shape(1, 7000, 8000), Order.CHW, transposed=False)
    assert same_memory(Shape(2000, 1, 1000), Shape(1, 2000, 1000), Order.CHW, transposed=True)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 50 << 20
