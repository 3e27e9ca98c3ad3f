"""ONNX networks on the emulated device, compared with onnxruntime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.pipeline import build, load
from cnn_convertor.report.collecting import report_of
from cnn_convertor.trials.verify import verify
from examples import zoo

onnx = pytest.importorskip("onnx", reason="the networks come with the onnx package")
pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")

from development.benchmarks import onnx_light  # noqa: E402  # it needs the onnx package
from frontends.onnx import random_attention  # noqa: E402  # it needs the onnx package

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]

AT_LEAST_DB = 45.0
# Networks that exist in Caffe's form, too, and the size of their input.
TWINS = {
    "lenet": 28,
    "squeezenet_1_1": 96,
    "mobilenet_v2": 64,
    "googlenet_without_lrn": 64,
    "enet": 64,
    "mtcnn_onet": 48,
}
# Architectures as PyTorch exports them.
ZOO = {"yolo_nano": 64, "ssd_heads": 64, "crnn": 32, "mobilenet_v3_small": 32}


@pytest.mark.parametrize(("name", "transposed"), [("light_squeezenet", False), ("light_shufflenet", True)])
def test_networks_of_the_onnx_package(name: str, transposed: bool, tmp_path: Path) -> None:
    config = replace(Config.read(onnx_light.write(name, tmp_path)), transpose_weight=transposed)
    result = verify(config, samples=1, layers=True, min_sqnr=AT_LEAST_DB)
    assert result.passed and result.first_jump is None
    assert len(result.layers) >= 30


@pytest.mark.parametrize("name", ZOO)
def test_architectures_as_pytorch_exports_them(name: str, tmp_path: Path) -> None:
    config = Config.read(zoo.build(f"onnx_{name}", tmp_path, size=ZOO[name]))
    result = verify(config, samples=1, layers=True, min_sqnr=AT_LEAST_DB)
    assert result.passed and result.first_jump is None


@pytest.mark.parametrize("seed", range(6))
def test_attention_in_both_memory_orders(seed: int, tmp_path: Path) -> None:
    """One block of each kind, or nearly so; tests/frontends/onnx compares more of them."""
    path = tmp_path / "net.onnx"
    onnx.save(random_attention.network(seed), path)
    for transposed in (False, True):
        config = Config.of(path, transpose_weight=transposed)
        assert verify(config, samples=1, layers=True, min_sqnr=AT_LEAST_DB).passed


class Cost(NamedTuple):
    commands: int
    cpu_layers: int
    traffic: int


def cost(name: str, size: int, folder: Path) -> Cost:
    config = Config.read(zoo.build(name, folder, size=size))
    report = report_of(build(load(config), config), Request.of(config))
    return Cost(len(report.commands), len(report.on_cpu), report.traffic)


@pytest.mark.parametrize("name", TWINS)
def test_a_network_costs_what_it_does_in_the_form_of_caffe(name: str, tmp_path: Path) -> None:
    size = TWINS[name]
    assert cost(f"onnx_{name}", size, tmp_path) == cost(f"caffe_{name}", size, tmp_path)
