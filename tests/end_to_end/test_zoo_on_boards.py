"""The networks of the zoo at their own sizes: every board of the SDK's driver accepts what a default conversion writes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cnn_convertor import Config, codegen, load
from cnn_convertor.audit import Audit, audit
from cnn_convertor.audit.command_checks import AuditedDevice
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.device_file import NAMES, read_profile
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.ir.graph import Graph
from cnn_convertor.pipeline import build, render_options
from examples import zoo

QUICK = ("caffe_lenet", "caffe_squeezenet_1_1", "caffe_yolov3_tiny", "caffe_mtcnn_onet", "caffe_enet")
# A ZIA C2 has no deconvolution, and refuses them.


@pytest.fixture
def folder() -> Iterator[Path]:
    """Goes when the test ends: the networks are large."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def of_zoo(name: str, folder: Path) -> tuple[Config, Graph]:
    """A network, with FP16 weights: palettes change no field that depends on driver or hardware."""
    if name.startswith("keras"):
        pytest.importorskip("keras")
    if name.startswith("onnx"):
        pytest.importorskip("onnx")
    config = replace(Config.read(zoo.build(name, folder)), quantization=False)
    return config, load(config)


def board(base: str, folder: Path, **figures: str) -> Profile:
    """The device of a file that says these figures, as TOML values."""
    lines = [f'base = "{base}"', "[device]", *(f"{name} = {value}" for name, value in figures.items())]
    (folder / f"{base}.toml").write_text("\n".join(lines))
    return read_profile(f"{base}.toml", folder)


def audited(config: Config, graph: Graph, folder: Path, on: Profile | None = None) -> Audit:
    """What the audit says of the source, without its weights. on: the board; None for the one that it is written for."""
    program = build(graph, config)
    for file, text in codegen.render(program, render_options(program, Request.of(config))).items():
        (folder / file).write_text(text, encoding="utf-8")
    limits = (on or config.profile).limits.of_board
    return audit(folder / f"{config.name}_gen.cpp", None, AuditedDevice(**limits._asdict()))


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in zoo.NETWORKS]
)
def test_the_driver_of_the_sdk_accepts_every_network_of_the_zoo(name: str, folder: Path) -> None:
    config, graph = of_zoo(name, folder)
    for base in NAMES:
        pinned = board(base, folder, driver='"7.2.20190716"')
        here = replace(config, device=read_profile(base, Path()))
        result = audited(here, graph, folder, pinned)
        assert result.commands and not result.findings, base


@pytest.mark.parametrize("fusion", Fusion)
def test_with_driver_and_hardware_of_2020_max_pools_in_several_tiles_come_back(fusion: Fusion, folder: Path) -> None:
    config, graph = of_zoo("caffe_yolov3_tiny", folder)
    config = replace(config, fusion=fusion.value)
    before = audited(config, graph, folder)
    late = replace(config, device=board("dv700", folder, driver='"7.2.20201106"', hardware="2020-01-01"))
    after = audited(late, graph, folder)
    assert not before.findings and not after.findings
    refused = audited(late, graph, folder, read_profile("dv700", Path())).findings
    assert [problem.code for problem in refused] == ["DV631"] * (before.commands - after.commands)
    assert before.commands - after.commands == 3
