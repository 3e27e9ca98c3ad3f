"""The command `passes`: what each pass changes, as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnn_convertor import cli

NET = str(Path(__file__).resolve().parents[2] / "examples/digits_keras/net.ini")


def shown(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert cli.main(["passes", NET, *options]) == 0
    return capsys.readouterr().out.splitlines()


def test_changes_are_lines_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys)
    assert lines[:4] == [
        "remove-identities",
        "  - dropout = Identity(flatten) -> 1x1x64",
        "  - digit/linear = Dense[weight=Constant(10x64x1x1) bias=Constant(10)](dropout) -> 1x1x10",
        "  + digit/linear = Dense[weight=Constant(10x64x1x1) bias=Constant(10)](flatten) -> 1x1x10",
    ]
    assert lines[-3:] == [
        "on-cpu",
        "  - digit = Softmax(digit/linear) -> 1x1x10",
        "  + digit = OnCpu[op=Softmax](digit/linear) -> 1x1x10",
    ]


def test_a_named_pass_is_the_last_and_the_graph_follows(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "--until", "batch-norms-to-scales")
    assert [line for line in lines if not line.startswith(" ")] == [
        "remove-identities",
        "batch-norms-to-scales",
        "graph",
    ]
    graph = lines[lines.index("graph") + 1 :]
    assert graph[0] == "  image = Input[shape=8x8x1]() -> 8x8x1" and graph[-1] == "  outputs: digit"
    assert not any("BatchNorm" in line for line in graph)


def test_verbose_shows_every_pass_and_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "-v", "--until", "fuse-hard-swish")
    assert lines[:3] == [
        "remove-dead-nodes",
        "  runs here: first: no pass needs to understand dead nodes",
        "  ensures: an output needs every node but inputs",
    ]
    assert "  requires: no node is an identity" in lines[lines.index("fuse-hard-swish") :]


def test_a_network_that_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "--until", "remove-dead-nodes")[0] == "no pass changes the graph"


def test_an_unknown_pass_is_told_with_near_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["passes", NET, "--until", "fold_scales"]) == 2
    assert 'there is no pass "fold_scales"; did you mean "fold-scales"?' in capsys.readouterr().err
