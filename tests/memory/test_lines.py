"""Plans for caches: buffers take whole lines, and parts of one share a line only with each other."""

from __future__ import annotations

import numpy as np
import pytest

from cnn_convertor.memory import Buffer, plan

LINE = 64


def lines_of(offset: int, size: int) -> range:
    return range(offset // LINE, -(-(offset + size) // LINE))


@pytest.mark.parametrize("seed", range(40))
def test_no_two_live_buffers_share_a_line(seed: int) -> None:
    random = np.random.default_rng(seed)
    buffers = list[Buffer]()
    for number in range(int(random.integers(2, 12))):
        first = int(random.integers(0, 8))
        buffers.append(Buffer(f"b{number}", int(random.integers(1, 300)), first, first + int(random.integers(0, 4))))
        if random.random() < 0.5:  # a concatenation of two parts
            sizes = [16 * int(size) for size in random.integers(1, 9, 2)]
            name = f"whole{number}"
            buffers.append(Buffer(name, sum(sizes), first + 2, first + 3))
            buffers.append(Buffer(f"{name}a", sizes[0], first, first + 2, name, 0))
            buffers.append(Buffer(f"{name}b", sizes[1], first + 1, first + 2, name, sizes[0]))
    planned = plan(buffers, alignment=16, line=LINE)
    roots = {buffer.name: buffer.inside or buffer.name for buffer in buffers}
    for one in buffers:
        if not one.inside:
            assert planned.offsets[one.name] % LINE == 0
        for other in buffers:
            if roots[one.name] != roots[other.name] and one.meets(other):
                mine = lines_of(planned.offsets[one.name], one.size)
                theirs = lines_of(planned.offsets[other.name], other.size)
                assert mine.stop <= theirs.start or theirs.stop <= mine.start
    assert planned.of_lines >= 0


def test_the_price_of_lines_is_known() -> None:
    buffers = [Buffer("a", 16, 0, 1), Buffer("b", 80, 0, 1), Buffer("c", 64, 2, 2)]
    planned = plan(buffers, alignment=16, line=LINE)
    assert (planned.size, planned.of_lines) == (192, 96)
    assert str(planned) == "192 bytes, proven smallest; 96 of them for whole cache lines"
    assert plan(buffers, alignment=16).of_lines == 0
