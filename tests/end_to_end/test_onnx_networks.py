"""ONNX networks on the emulated device, compared with onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.ir.constant import Array
from cnn_convertor.pipeline import build, load
from cnn_convertor.report.collecting import report_of
from cnn_convertor.trials.verify import verify
from examples import zoo

onnx = pytest.importorskip("onnx", reason="the networks come with the onnx package")
pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")

from development.benchmarks import onnx_light  # noqa: E402  # it needs the onnx package
from frontends.onnx import random_attention  # noqa: E402  # it needs the onnx package
from frontends.onnx.networks import Network  # noqa: E402  # it needs the onnx package

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


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize(("name", "transposed"), [("light_squeezenet", False), ("light_shufflenet", True)])
def test_networks_of_the_onnx_package(name: str, transposed: bool, tmp_path: Path) -> None:
    config = replace(Config.read(onnx_light.write(name, tmp_path)), transpose_weight=transposed)
    result = verify(config, samples=1, layers=True, min_sqnr=AT_LEAST_DB)
    assert result.passed and result.first_jump is None
    assert len(result.layers) >= 30


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("name", ZOO)
def test_architectures_as_pytorch_exports_them(name: str, tmp_path: Path) -> None:
    config = Config.read(zoo.build(f"onnx_{name}", tmp_path, size=ZOO[name]))
    result = verify(config, samples=1, layers=True, min_sqnr=AT_LEAST_DB)
    assert result.passed and result.first_jump is None


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("seed", range(6))
def test_attention_in_both_memory_orders(seed: int, tmp_path: Path) -> None:
    """One block of each kind, or nearly so; tests/frontends/onnx compares more of them."""
    path = tmp_path / "net.onnx"
    onnx.save(random_attention.network(seed), path)
    for transposed in (False, True):
        config = Config.of(path, transpose_weight=transposed)
        assert verify(config, samples=1, layers=True, min_sqnr=AT_LEAST_DB).passed


def windows() -> Network:
    """Convolutions, a pool and a normalization on four windows of a map, and on the planes of a volume."""
    make, random = onnx.helper.make_node, np.random.default_rng(28)

    def weights(*dims: int) -> Array:
        return (random.standard_normal(dims) / math.sqrt(math.prod(dims[1:]))).astype(np.float32)

    nodes = [
        make("Reshape", ["x", "split"], ["parts"]),
        make("Transpose", ["parts"], ["rows"], perm=[0, 2, 4, 1, 3, 5]),
        make("Reshape", ["rows", "images"], ["windows"]),
        make("Conv", ["windows", "dense", "bias"], ["mixed"], pads=[1, 1, 1, 1]),
        make("Conv", ["mixed", "depthwise"], ["filtered"], pads=[1, 1, 1, 1], group=16),
        make("MaxPool", ["filtered"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        make("InstanceNormalization", ["pooled", "gamma", "beta"], ["normal"]),
        make("Reshape", ["normal", "volume_dims"], ["volume"]),
        make("Conv", ["volume", "planes"], ["y"], pads=[1, 1, 0, 1, 1, 0]),
    ]
    constants = {
        "split": np.array([1, 8, 2, 8, 2, 8]),
        "images": np.array([4, 8, 8, 8]),
        "volume_dims": np.array([1, 16, 8, 8, 1]),
        "dense": weights(16, 8, 3, 3),
        "bias": weights(16),
        "depthwise": weights(16, 1, 3, 3),
        "gamma": np.ones(16, np.float32),
        "beta": np.zeros(16, np.float32),
        "planes": weights(4, 16, 3, 3, 1),
    }
    return Network(nodes, {"x": np.zeros((1, 8, 16, 16), np.float32)}, constants)


def cubic() -> Network:
    """A resize by a cubic curve with antialias, as a product for each axis."""
    make = onnx.helper.make_node
    nodes = [
        make("Relu", ["x"], ["r"]),
        make("Resize", ["r", "", "", "larger"], ["l"], mode="cubic"),
        make("Resize", ["l", "", "", "smaller"], ["y"], mode="linear", antialias=1),
    ]
    sizes = {"larger": np.array([1, 8, 22, 27]), "smaller": np.array([1, 8, 9, 13])}
    return Network(nodes, {"x": np.zeros((1, 8, 16, 16), np.float32)}, sizes)


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("network", [windows, cubic])
def test_forms_that_become_others(network: Callable[[], Network], transposed: bool, tmp_path: Path) -> None:
    config = Config.of(network().write(tmp_path / "net.onnx"), transpose_weight=transposed)
    assert verify(config, samples=1, layers=True, min_sqnr=AT_LEAST_DB).passed


class Cost(NamedTuple):
    commands: int
    cpu_layers: int
    traffic: int


def cost(name: str, size: int, folder: Path) -> Cost:
    config = Config.read(zoo.build(name, folder, size=size))
    report = report_of(build(load(config), config), Request.of(config))
    return Cost(len(report.commands), len(report.on_cpu), report.traffic)


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("name", TWINS)
def test_a_network_costs_what_it_does_in_the_form_of_caffe(name: str, tmp_path: Path) -> None:
    size = TWINS[name]
    assert cost(f"onnx_{name}", size, tmp_path) == cost(f"caffe_{name}", size, tmp_path)
