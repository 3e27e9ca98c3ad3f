"""Tiles and unified-buffer needs: the expected results of the vendor, and what must hold for any size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn_convertor.devices.dv700.fusion.tiling import (
    ConvGeometry,
    PoolGeometry,
    PoolKind,
    RunGeometry,
    tile_bytes,
    tiles,
    unified_buffer_need,
)
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window

UB_SIZE = 655360


def xy(values: list[int]) -> Pair:
    x, y = values
    return Pair(height=y, width=x)


def lrtb(values: list[int]) -> Padding:
    left, right, top, bottom = values
    return Padding(top=top, bottom=bottom, left=left, right=right)


def unpacked(field: int, count: int) -> list[int]:
    """The bytes of one of a command's fields, lowest first."""
    return [field >> 8 * index & 0xFF for index in range(count)]


def run_of(run: dict[str, Any], *, external: bool) -> RunGeometry:
    """A run as its command's fields say it."""
    convolution, pool = None, None
    if run["conv_enable"]:
        convolution = Window(
            xy(unpacked(run["p"], 2)), xy(unpacked(run["conv_stride"], 2)), padding=lrtb(unpacked(run["conv_pad"], 4))
        )
    if run["pool_enable"]:
        kind = {1: PoolKind.MAX, 2: PoolKind.AVERAGE, 4: PoolKind.UPSAMPLE}[run["pool_enable"]]
        pool = PoolGeometry(
            kind,
            Window(
                xy(unpacked(run["pool_size"], 2)),
                xy(unpacked(run["pool_stride"], 2)),
                padding=lrtb(unpacked(run["pool_pad"], 4)),
            ),
        )
    return RunGeometry(run["m"], external, convolution, pool)


def test_every_expected_number_of_tiles_is_met(shared: Path) -> None:
    cases = json.loads((shared / "vectors" / "dv700" / "tiles.json").read_text())
    wrong = []
    for case in cases:
        window = Window(
            Pair(case["ky"], case["kx"]), xy(case["stride_xy"]), xy(case["dilation_xy"]), lrtb(case["pad_lrtb"])
        )
        conv = ConvGeometry(Shape(case["h"], case["w"], case["c"]), case["m"], window, case["deconv"])
        if tiles(conv, ub_size=case["ub_size"]) != (case["tiles"] or None):
            wrong.append(case)
    assert len(cases) == 600
    assert wrong == []


@pytest.mark.parametrize("name", ["unified_buffer", "unified_buffer_average_pools"])
def test_every_expected_need_of_the_unified_buffer_is_met(shared: Path, name: str) -> None:
    cases = json.loads((shared / "vectors" / "dv700" / f"{name}.json").read_text())
    wrong = []
    for case in cases:
        runs = [run_of(run, external=bool(case["topo"] >> index & 1)) for index, run in enumerate(case["runs"])]
        if unified_buffer_need(Shape(case["h"], case["w"], case["c"]), runs) != case["need_bytes"]:
            wrong.append(case)
    assert len(cases) == 400
    assert wrong == []


# A few of the vendor's expected results, for when the folder is missing.
SAME_3X3 = Window(Pair(3, 3), padding=Padding(1, 1, 1, 1))
TILES = [
    (ConvGeometry(Shape(93, 688, 3), 1, Window(Pair(6, 5), Pair(2, 1), padding=Padding(1, 3, 3, 0))), UB_SIZE, 1),
    (ConvGeometry(Shape(549, 418, 3), 20, Window(Pair(1, 1), Pair(2, 2), padding=Padding(1, 0, 0, 3))), 1048576, 2),
    (
        ConvGeometry(Shape(128, 569, 16), 64, Window(Pair(7, 1), Pair(1, 2), Pair(1, 2), Padding(1, 3, 3, 1))),
        524288,
        6,
    ),
    (
        ConvGeometry(Shape(120, 481, 20), 20, Window(Pair(7, 1), padding=Padding(2, 1, 1, 1)), deconvolution=True),
        524288,
        8,
    ),
    (
        ConvGeometry(Shape(264, 188, 64), 20, Window(Pair(1, 3), Pair(1, 2), padding=Padding(1, 3, 2, 3))),
        UB_SIZE,
        12,
    ),
    (ConvGeometry(Shape(642, 532, 256), 20, Window(Pair(6, 1), padding=Padding(2, 3, 2, 0))), UB_SIZE, None),
]


@pytest.mark.parametrize(("conv", "ub_size", "count"), TILES)
def test_tiles_of_some_convolutions(conv: ConvGeometry, ub_size: int, count: int | None) -> None:
    assert tiles(conv, ub_size=ub_size) == count


def test_small_channel_counts_need_no_buffer() -> None:
    assert tiles(ConvGeometry(Shape(1024, 2047, 8), 8, SAME_3X3), ub_size=0) == 1


def test_the_search_for_tiles_ends() -> None:
    assert tiles(ConvGeometry(Shape(1024, 2047, 32768), 32768, SAME_3X3), ub_size=UB_SIZE) is None


SMALL_SHAPES = st.builds(Shape, *[st.integers(1, 40)] * 3)
SQUARE_WINDOWS = st.integers(1, 7).map(lambda size: Window(Pair(size, size)))
SMALL_CONVS = st.builds(ConvGeometry, SMALL_SHAPES, st.integers(1, 40), SQUARE_WINDOWS)


@given(SMALL_CONVS, st.integers(0, 4000))
def test_a_larger_buffer_never_needs_more_tiles(conv: ConvGeometry, ub_size: int) -> None:
    small, large = tiles(conv, ub_size=ub_size), tiles(conv, ub_size=2 * ub_size)
    assert small is None or (large is not None and 1 <= large <= small <= conv.input.width)


@given(SMALL_CONVS, st.integers(0, 4000))
def test_tiles_are_the_first_that_fit(conv: ConvGeometry, ub_size: int) -> None:
    fitting = (count for count in range(1, conv.input.width + 1) if tile_bytes(conv, count) <= ub_size)
    assert tiles(conv, ub_size=ub_size) == next(fitting, None)


def test_a_width_that_no_map_has_takes_no_time() -> None:
    conv = ConvGeometry(Shape(2, 1 << 62, 64), 64, SAME_3X3)
    found = tiles(conv, ub_size=UB_SIZE)
    assert found is not None and tile_bytes(conv, found) <= UB_SIZE < tile_bytes(conv, found - 1)


CONV_3X3_64 = RunGeometry(64, external=True, convolution=SAME_3X3)
CONV_3X1_64 = RunGeometry(64, external=True, convolution=Window(Pair(3, 1)))
AVERAGE_3X3 = PoolGeometry(PoolKind.AVERAGE, SAME_3X3)
AVERAGE_1X4 = RunGeometry(8, external=False, pool=PoolGeometry(PoolKind.AVERAGE, Window(Pair(1, 4))))
UPSAMPLE = PoolGeometry(PoolKind.UPSAMPLE)
NEEDS = [
    # input 8 x 8 x 8 = 64 units -> 66 -> 80; output block 66, all 8 blocks 528
    (Shape(8, 8, 8), [CONV_3X3_64], 16 * (80 + 66)),
    (Shape(8, 8, 8), [CONV_3X3_64._replace(external=False), CONV_3X3_64], 16 * max(80 + 528, 528 + 66)),
    # an average pool in the last branch does not work in place
    (Shape(8, 8, 8), [CONV_3X3_64, RunGeometry(8, external=True, pool=AVERAGE_3X3)], 16 * (80 + 66)),
    # an upsampling there does: its output takes its input's place, 16 x 16 x 8 = 256 units -> 258
    (Shape(8, 8, 8), [CONV_3X3_64, RunGeometry(8, external=True, pool=UPSAMPLE)], 16 * max(80 + 66, 258)),
    # what reads an upsampled map reads 8 x 4 of it: 4 x 2 x 8 = 8 units -> 18 -> 32; 8 x 4 x 8 = 32 -> 34 -> 48; output 34
    (Shape(4, 2, 8), [RunGeometry(8, external=False, pool=UPSAMPLE), CONV_3X1_64], 16 * (48 + 34)),
    # input 8 x 4 x 8 = 32 units -> 34 -> 48; output 6 x 4 = 24 units -> 34 in each branch that has it
    (Shape(8, 4, 8), [CONV_3X1_64], 16 * (48 + 34)),
    (Shape(8, 4, 8), [CONV_3X1_64._replace(convolution=Window(Pair(7, 4))), CONV_3X1_64], 16 * (48 + 34)),
    # an average pool of 1 x 4 counts as 4 x 4: of 2 x 6 it leaves -1 x 3, and the next run reads 65535 x 3
    (Shape(2, 6, 8), [AVERAGE_1X4, RunGeometry(8, external=True, convolution=Window(Pair(1, 1)))], 16 * (16 + 196610)),
]


@pytest.mark.parametrize(("shape", "runs", "need"), NEEDS)
def test_need_of_some_commands(shape: Shape, runs: list[RunGeometry], need: int) -> None:
    assert unified_buffer_need(shape, runs) == need
