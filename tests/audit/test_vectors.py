"""The audit's own arithmetic gives the numbers of the specification's vectors."""

from __future__ import annotations

import json
from bisect import bisect_left
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.audit.decoding import Meaning, meanings
from cnn_convertor.audit.source_network import SourceBuffer, SourceCommand, SourceHeader, SourceRun
from cnn_convertor.audit.unified_buffer import need, strips
from cnn_convertor.audit.weight_checks import Stream, faults, index_in_tile

ZERO: dict[str, Any] = dict.fromkeys(SourceRun.__slots__, 0) | {
    "weight_mem": "",
    "pz": 1,
    "weight_fmt": 1,
    "conv_stride": 257,
    "pool_stride": 257,
}
NOWHERE = SourceBuffer("", 0)


def command(case: dict[str, Any], topo: int, runs: list[dict[str, int]]) -> SourceCommand:
    made = tuple(SourceRun(**{**ZERO, **run}) for run in runs)
    sizes = {key: case[key] for key in ("w", "h", "c")}
    header = SourceHeader(1864, 1, 0)
    return SourceCommand(
        None,
        header,
        NOWHERE,
        NOWHERE,
        NOWHERE,
        topo,
        z=1,
        order=0,
        output_mode=0,
        runs=made,
        extras=(),
        idle=(),
        **sizes,
    )


def meaning_of(case: dict[str, Any]) -> Meaning:
    """The convolution of a case of tiles.json."""
    left, right, top, bottom = case["pad_lrtb"]
    run = {
        "m": case["m"],
        "conv_enable": 5 if case["deconv"] else 1,
        "p": case["kx"] | case["ky"] << 8,
        "conv_pad": left | right << 8 | top << 16 | bottom << 24,
        "conv_stride": case["stride_xy"][0] | case["stride_xy"][1] << 8,
        "conv_dilation": case["dilation_xy"][0] | case["dilation_xy"][1] << 8,
    }
    (made,) = meanings(command(case, 1, [run]))
    return made


def test_numbers_of_strips(shared: Path) -> None:
    for case in json.loads((shared / "vectors/dv700/tiles.json").read_text(encoding="utf-8")):
        assert strips(meaning_of(case), case["ub_size"]) == case["tiles"], case


def test_a_strip_may_fill_the_buffer_to_its_last_byte() -> None:
    """A map of 8x8 and 16 channels, with a kernel of 1x1 to 8 channels."""
    case = {"w": 8, "h": 8, "c": 16, "m": 8, "kx": 1, "ky": 1, "pad_lrtb": (0, 0, 0, 0), "deconv": 0}
    made = meaning_of(case | {"stride_xy": (1, 1), "dilation_xy": (1, 1)})
    sizes = range(1 << 16)
    least = bisect_left(sizes, True, key=lambda size: strips(made, size) == 1)
    assert least % 16 == 0 and strips(made, least) == 1 and strips(made, least - 1) == 2


@pytest.mark.parametrize("name", ["unified_buffer", "unified_buffer_average_pools"])
def test_need_of_several_runs(shared: Path, name: str) -> None:
    for case in json.loads((shared / f"vectors/dv700/{name}.json").read_text(encoding="utf-8")):
        assert need(command(case, case["topo"], case["runs"])) == case["need_bytes"], case


def test_the_vendors_weights_have_the_right_size_and_no_faults(shared: Path) -> None:
    folder = shared / "vectors/dv700"
    cases = json.loads((folder / "index.json").read_text(encoding="utf-8"))["cases"]
    for case in (case for case in cases if case["kind"] != "fc"):
        stream = Stream(case["n_kernels"], case["n_channels"], case["ky"], case["kx"], 1, case["quant"], case["prelu"])
        if case["kind"] == "dil":
            stream = stream._replace(taps=case["kx"] * case["ky"], rows=1, columns=1)
        with np.load(folder / case["file"]) as data:
            packed = data["packed"]
        assert (stream.nbytes, [*faults(stream, packed)]) == (packed.size, []), case["name"]


def test_places_in_a_tile_are_different() -> None:
    for plane, channels in ((7, 1), (5, 2), (3, 8), (1, 64)):
        indices = {index_in_tile(plane, c, y, x) for c in range(channels) for y in range(plane) for x in range(plane)}
        assert len(indices) == channels * plane * plane
        assert indices <= set(range(72))
