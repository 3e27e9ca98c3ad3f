"""The table of docs/fusion.md says what conversions give, and holds what fusion promises."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.report.values import Report
from development.benchmarks import fusion as benchmark

QUICK = (
    "caffe_lenet",
    "caffe_squeezenet_1_1",
    "caffe_mobilenet_v1",
    "caffe_googlenet_without_lrn",
    "caffe_googlenet",
    "caffe_resnet50",
)
PAGE = benchmark.PAGE.read_text(encoding="utf-8")


def test_the_page_has_every_network_in_every_way() -> None:
    assert {name: len(benchmark.written(PAGE, name)) for name in benchmark.NETWORKS} == dict.fromkeys(
        benchmark.NETWORKS, len(Fusion)
    )


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in benchmark.NETWORKS]
)
def test_the_table_is_fresh_and_each_way_is_better_than_the_one_before(name: str) -> None:
    if name.startswith("keras"):
        pytest.importorskip("keras")
    reports = benchmark.reports(name)
    rows = [benchmark.row(name, fusion, report) for fusion, report in reports.items()]
    assert rows == benchmark.written(PAGE, name)
    costs = [(report.traffic, len(report.commands)) for report in reports.values() if not _has_packed_factors(report)]
    for less, more in pairwise(costs):
        assert more[0] <= less[0] and more[1] <= less[1]


def _has_packed_factors(report: Report) -> bool:
    """Then commands multiply maps that the CPU would multiply: the device moves more, in less time of both."""
    return any("packed factors" in step.does for step in report.commands)


TARGETS = {  # network, level -> at most so many commands, and MB of traffic
    ("caffe_resnet50", "full"): (48, 106.6),
    ("keras_resnet50", "full"): (48, 106.6),
    ("caffe_mobilenet_v1", "full"): (22, None),
    ("keras_mobilenet_v2", "full"): (44, None),
    ("caffe_squeezenet_1_1", "full"): (20, None),
    ("keras_densenet121", "full"): (125, None),
    ("caffe_googlenet_without_lrn", "full"): (20, None),
    ("caffe_googlenet_without_lrn", "documented"): (20, 27.9),
    ("caffe_squeezenet_1_1", "documented"): (20, None),
    ("caffe_resnet50", "documented"): (62, None),
    ("caffe_mobilenet_v1", "documented"): (29, None),
}


@pytest.mark.parametrize(("name", "level"), TARGETS)
def test_fusion_reaches_what_it_is_for(name: str, level: str) -> None:
    (line,) = [line for line in benchmark.written(PAGE, name) if f"| {level} |" in line]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    commands, traffic = TARGETS[name, level]
    assert int(cells[2]) <= commands
    assert traffic is None or float(cells[5]) <= traffic


def test_the_page_has_the_evidence_of_every_form() -> None:
    rows = [f"| {form.words} | {form.evidence.name.lower()} | {form.source} |" for form in Form]
    start = PAGE.splitlines().index(rows[0])
    assert PAGE.splitlines()[start : start + len(rows) + 1] == [*rows, ""]


def test_rows_are_written_where_they_belong() -> None:
    page = "| network | x |\n|---|---|\n| a | 1 |\n| b | 1 |\n\nend\n"
    assert benchmark.with_rows(page, [("a", ["| a | 2 |", "| a | 3 |"]), ("c", ["| c | 0 |"])]) == (
        "| network | x |\n|---|---|\n| a | 2 |\n| a | 3 |\n| b | 1 |\n| c | 0 |\n\nend\n"
    )
