"""Pictures show every step once, without overlaps, and memory as it is planned."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations

import pytest

from cnn_convertor.report.pictures import BOX_HEIGHT, BOX_WIDTH, memory_picture, network_picture
from cnn_convertor.report.values import LiveMap, ModelLayer, Report
from report.networks import joined, report

REPORTS = pytest.mark.parametrize("fusion", ["none", "documented", "full"])


def live_together(one: LiveMap, other: LiveMap) -> bool:
    return one.first <= other.last and other.first <= one.last


def share_bytes(one: LiveMap, other: LiveMap) -> bool:
    return one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes


def is_inside(part: LiveMap, whole: LiveMap) -> bool:
    starts, ends = whole.offset <= part.offset, part.offset + part.bytes <= whole.offset + whole.bytes
    return whole.kind in {"concatenation", "output"} and starts and ends


@REPORTS
def test_live_maps_share_bytes_only_with_their_concatenation(fusion: str) -> None:
    memory = report(fusion=fusion).memory
    assert memory is not None and len(memory.buffers) > 2
    for one, other in combinations(memory.buffers, 2):
        if live_together(one, other) and share_bytes(one, other):
            assert is_inside(one, other) or is_inside(other, one), (one, other)


@REPORTS
def test_every_map_lies_in_the_buffer(fusion: str) -> None:
    made = report(fusion=fusion)
    assert made.memory is not None
    assert all(b.offset >= 0 and b.offset + b.bytes <= made.memory.bytes for b in made.memory.buffers)
    assert all(0 <= b.first <= b.last < len(made.steps) for b in made.memory.buffers)


def test_the_picture_of_the_memory_has_a_bar_for_every_map() -> None:
    made = report()
    assert made.memory is not None
    picture = memory_picture(made)
    assert len(picture.bars) == len(made.memory.buffers)
    assert all(picture.left <= bar.x and bar.x + bar.width <= picture.right + 1 for bar in picture.bars)
    assert all(picture.top <= bar.y and bar.y + bar.height <= picture.bottom for bar in picture.bars)


# --- the network ---------------------------------------------------------------------------------------------------------


def numbers(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"-?[\d.]+(?:e[+-]?\d+)?", text)]


@pytest.fixture(params=["none", "full"])
def drawn(request: pytest.FixtureRequest) -> Report:
    pytest.importorskip("fast_sugiyama")
    return report(fusion=request.param)


def test_every_step_has_a_box_and_no_boxes_overlap(drawn: Report) -> None:
    picture = network_picture(drawn)
    keys = [node.key for node in picture.nodes]
    assert [key for key in keys if key.startswith("step-")] == [f"step-{i}" for i in range(len(drawn.steps))]
    for one, other in combinations(picture.nodes, 2):
        assert abs(one.x - other.x) >= BOX_WIDTH or abs(one.y - other.y) >= BOX_HEIGHT, (one.key, other.key)


def test_arrows_lead_down_from_what_is_read_to_what_reads_it(drawn: Report) -> None:
    picture = network_picture(drawn)
    boxes = {node.key: node for node in picture.nodes}
    for edge in picture.edges:
        x, y, *_, end_x, end_y = numbers(edge.path)
        one, other = boxes[edge.source], boxes[edge.target]
        assert (x, y) == pytest.approx((one.x + BOX_WIDTH / 2, one.y + BOX_HEIGHT), abs=0.01)
        assert end_x == pytest.approx(other.x + BOX_WIDTH / 2, abs=0.01) and y < end_y < other.y
    read = {(r.step, i) for i, step in enumerate(drawn.steps) for r in step.reads if r.step is not None}
    arrows = {(e.source, e.target) for e in picture.edges if e.source.startswith("step-")}
    assert arrows == {(f"step-{a}", f"step-{b}") for a, b in read}


def test_the_same_report_gives_the_same_picture(drawn: Report) -> None:
    assert network_picture(drawn) == network_picture(drawn)


def test_long_names_are_shortened_in_boxes_and_whole_in_titles() -> None:
    pytest.importorskip("fast_sugiyama")
    name = "a" * 200
    picture = network_picture(report(joined((name, "b", "c", "d", "e", "f"))))
    (node,) = (node for node in picture.nodes if name in node.title)
    assert all(len(line) < 40 for line in (*node.name, node.does, node.size)) and len(node.name) == 3
    assert "…" in "".join(node.name)


def test_a_label_is_the_main_layer_as_a_whole() -> None:
    """The layer with the most multiplications, not the first one."""
    pytest.importorskip("fast_sugiyama")
    made = report()
    first = made.steps[0]
    main, other = "backbone/stage_1/block_12/expand_conv/Conv2D", "pad"
    layers = tuple(
        ModelLayer(name, "Conv2D", ((8, 8, 8),), None, macs, "device", "", (0,))
        for name, macs in ((other, None), (main, 9))
    )
    step = first._replace(layers=(other, main))
    picture = network_picture(replace(made, steps=(step, *made.steps[1:]), layers=layers))
    (box,) = (node for node in picture.nodes if node.key == "step-0")
    assert box.name == ("0  backbone/stage_1/", "block_12/expand_conv/", "Conv2D +1")
    assert picture.lines == 3


def test_a_damaged_report_with_a_cycle_of_steps_has_a_picture() -> None:
    """The library that places nodes aborts the process at a cycle."""
    pytest.importorskip("fast_sugiyama")
    made = report()
    first, *others = made.steps
    cycle = first._replace(reads=tuple(read._replace(step=at, input=None) for read in first.reads for at in (0, 1, -1)))
    picture = network_picture(replace(made, steps=(cycle, *others)))
    assert len(picture.nodes) == len(made.steps) + len(made.inputs)
