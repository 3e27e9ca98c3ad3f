"""Every command and every page has the same figures of a network: one traffic, and one count of CPU layers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnn_convertor import cli
from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.estimate import estimates
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.program import LayerType
from cnn_convertor.pipeline import load, plan
from development.benchmarks import devices, fusion, nvdla
from development.benchmarks.networks_page import Table, rows_of
from examples import zoo

SSD = "caffe_ssd_mobilenet"  # it has functions of its own on the CPU, and flattens maps there


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def counts(program: Program) -> tuple[int, int]:
    """Commands, and layers on the CPU: all others but inputs and concatenations in place."""
    types = [layer.type for layer in program.layers]
    commands, idle = types.count(LayerType.CONV), types.count(LayerType.INPUT) + types.count(LayerType.CONCAT)
    return commands, len(types) - commands - idle


def numbers(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text, re.DOTALL)
    assert match is not None, pattern
    return match.groups()


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_all_commands_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = zoo.build(SSD, tmp_path, size=96)
    config = Config.read(ini)
    program = plan(load(config), config.name, Dv700.of(config.hardware, config.settings))
    commands, on_cpu = counts(program)
    profile = config.hardware
    assert isinstance(profile, Profile)
    moved = sum(command.nbytes for command in estimates(program, profile))
    assert commands and on_cpu > sum(layer.cpu is not None for layer in program.layers) > 0

    def printed(*arguments: str) -> str:
        assert cli.main([*arguments]) == 0
        return capsys.readouterr().out

    def written(command: str, *options: str) -> Any:
        printed(command, str(ini), *options, "--json", str(tmp_path / "values.json"))
        return json.loads((tmp_path / "values.json").read_text())

    words = str(commands), str(on_cpu), f"{moved / 1e6:,.2f}"
    summary = printed(str(ini))
    inspection = printed("inspect", str(ini), "--cost")
    assert numbers(r"device commands +(\d+).*CPU layers +(\d+).* move ([\d.,]+) MB", summary) == words
    assert numbers(r"  commands +(\d+)\s+CPU layers +(\d+).* move ([\d.,]+) MB", inspection) == words
    compared = printed("inspect", str(ini), "--fusion", "all").splitlines()
    assert [line.split()[2:4] for line in compared if f" {config.fusion} " in line] == [[*words[:2]]]
    work = json.loads(printed("inspect", str(ini), "--json"))["work"]
    assert (work["commands"], work["cpu_layers"], work["traffic_bytes"]) == (commands, on_cpu, moved)
    report = written("report")
    steps = [step["place"] for step in report["steps"]]
    assert report["work"] == work and (steps.count("device"), steps.count("cpu")) == (commands, on_cpu)
    (row,) = written("sweep", "--vary", f"fusion={config.fusion}")["rows"]
    assert (row["commands"], row["cpu_layers"], row["traffic_bytes"]) == (commands, on_cpu, moved)


@pytest.mark.parametrize("name", ["caffe_lenet", SSD])
def test_the_page_of_networks_counts_as_commands_do(name: str, tmp_path: Path) -> None:
    config = replace(Config.read(zoo.build(name, tmp_path)), fusion="documented", transpose_weight=False)
    program = plan(load(config), name, Dv700.of(config.hardware, config.settings))
    row = cells(rows_of(Table.ZOO)[name])
    assert [int(row[3]), int(row[5])] == [*counts(program)]


def test_pages_have_the_same_traffic_of_a_network() -> None:
    """What docs/devices.md says of the default device is what docs/fusion.md says."""
    pages = [module.PAGE.read_text(encoding="utf-8") for module in (fusion, devices)]
    shown = 0
    for name in fusion.NETWORKS:
        of_fusion, of_devices = ([cells(line) for line in fusion.written(page, name)] for page in pages)
        by_level = {row[1]: (row[2], row[5], row[7]) for row in of_fusion}  # commands, traffic, the I/O buffer
        for _, device, level, commands, moved, _, _, buffer in of_devices:
            if device == "dv700":
                assert by_level[level] == (commands, moved, buffer), (name, level)
                shown += 1
    assert shown >= len(devices.LEVELS) * 10


def test_pages_have_the_same_count_of_cpu_layers() -> None:
    """Caffe's networks have their own sizes in docs/networks.md, as in docs/fusion.md."""
    page = fusion.PAGE.read_text(encoding="utf-8")
    names = [name for name in fusion.NETWORKS if name.startswith("caffe_")]
    for name in names:
        (row,) = (row for row in map(cells, fusion.written(page, name)) if row[1] == "documented")
        assert row[4] == cells(rows_of(Table.ZOO)[name])[5], name
    assert len(names) >= 5


@pytest.mark.parametrize("name", ["onnx_lenet", "onnx_mobilenet_v2"])
def test_networks_on_nvdla_have_the_figures_of_their_table(name: str) -> None:
    assert nvdla.row(name) == rows_of(Table.NVDLA)[name]
