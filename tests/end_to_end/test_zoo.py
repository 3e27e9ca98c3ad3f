"""The zoo: the same network gives the same bytes, has the architecture's size, lets numbers through, and suits every board."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import cnn_convertor.audit
from cnn_convertor import Config, load
from cnn_convertor.audit import Audit, audit
from cnn_convertor.audit.command_checks import AuditedDevice
from cnn_convertor.audit.source_network import SourceNetwork
from cnn_convertor.audit.sources import read
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.device_file import NAMES, read_profile
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.sources.rendering import render
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.errors import Problem
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from cnn_convertor.pipeline import build
from examples import zoo

pytestmark = pytest.mark.rotating
# Convolutions, fully connected layers, and four figures a channel for each batch norm; no slopes.
PARAMETERS = {
    "caffe_lenet": 431_080,
    "caffe_squeezenet_1_1": 1_235_496,
    "caffe_mobilenet_v1": 4_253_864,
    "caffe_googlenet_without_lrn": 6_998_552,
    "caffe_googlenet": 6_998_552,
    "caffe_resnet50": 25_610_216,
    "caffe_alexnet": 60_965_224,
    "caffe_mobilenet_v2": 3_540_136,
    "caffe_ssd_mobilenet": 5_821_433,
    "caffe_yolov3_tiny": 8_858_734,
    "caffe_segnet_basic": 1_417_099,
    "caffe_fcn_8s": 2_275_887,
    "caffe_enet": 301_663,
    "caffe_mtcnn_onet": 388_496,
    "caffe_vgg16": 138_357_544,
    "keras_mobilenet": 4_253_864,
    "keras_mobilenet_v2": 3_538_984,
    "keras_resnet50": 25_636_712,
    "keras_inception_v3": 23_851_784,
    "keras_densenet121": 8_062_504,
    "keras_vgg16": 138_357_544,
    "keras_vgg19": 143_667_240,
    "keras_resnet101": 44_707_176,
    "keras_resnet152": 60_419_944,
    "keras_resnet50_v2": 25_613_800,
    "keras_resnet101_v2": 44_675_560,
    "keras_resnet152_v2": 60_380_648,
    "keras_inception_resnet_v2": 55_919_496,
    "keras_xception": 22_910_480,
    "keras_mobilenet_v3_small": 2_561_862,
    "keras_mobilenet_v3_large": 5_519_606,
    "keras_densenet169": 14_307_880,
    "keras_densenet201": 20_242_984,
    "keras_nasnet_mobile": 5_326_716,
    "keras_efficientnet_b0": 5_330_573,
    "keras_efficientnet_b1": 7_856_241,
    "keras_efficientnet_b2": 9_177_571,
    "keras_efficientnet_b3": 12_320_537,
    "keras_efficientnet_v2_b0": 7_200_321,
    "keras_convnext_tiny": 28_589_134,
    "onnx_resnet18": 11_684_712,
    "onnx_yolo_nano": 1_867_405,
    "onnx_mobilenet_v3_small": 2_541_376,
    "onnx_efficientnet_lite0": 4_631_000,
    "onnx_unet": 1_925_601,
    "onnx_deeplab": 730_901,
    "onnx_crnn": 174_442,
    "onnx_ssd_heads": 588_140,
    "onnx_lenet": 431_080,
    "onnx_squeezenet_1_1": 1_235_496,
    "onnx_mobilenet_v1": 4_253_864,
    "onnx_mobilenet_v2": 3_540_136,
    "onnx_googlenet_without_lrn": 6_998_552,
    "onnx_resnet50": 25_610_216,
    "onnx_yolov3_tiny": 8_858_734,
    "onnx_fcn_8s": 2_275_887,
    "onnx_enet": 301_663,
    "onnx_mtcnn_onet": 388_496,
}
QUICK = (
    "caffe_lenet",
    "caffe_squeezenet_1_1",
    "caffe_mobilenet_v1",
    "caffe_googlenet_without_lrn",
    "caffe_enet",
    "caffe_mtcnn_onet",
)
KERAS = [f"keras_{name}" for name in ["mobilenet", "mobilenet_v2", "resnet50", "inception_v3", "densenet121", "vgg16"]]
SMALL_SIZES = {"keras_inception_v3": 75, "caffe_lenet": 28, "caffe_mtcnn_onet": 48}


class Built(NamedTuple):
    """A network at its own size. config: with FP16 weights; palettes change no field that depends on driver or hardware."""

    name: str
    config: Config
    graph: Graph


def built(name: str, folder: Path) -> Built:
    for framework in ("keras", "onnx"):
        if name.startswith(framework):
            pytest.importorskip(framework)
    config = replace(Config.read(zoo.build(name, folder)), quantization=False)
    return Built(name, config, load(config))


@pytest.fixture
def folder() -> Iterator[Path]:
    """Goes when the test ends: the networks are large."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(
    scope="module",
    params=[name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in zoo.NETWORKS],
)
def network(request: pytest.FixtureRequest) -> Iterator[Built]:
    """Built once for all tests that take it; goes before the next one is built."""
    with tempfile.TemporaryDirectory() as name:
        yield built(request.param, Path(name))


@pytest.fixture
def _sources_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two boards that get the same source, the audit reads one's, and checks it for both."""
    known: dict[str, tuple[SourceNetwork, list[Problem]]] = {}

    def read_once(path: Path) -> tuple[SourceNetwork, list[Problem]]:
        text = path.read_text(encoding="utf-8")
        if text not in known:
            known[text] = read(path)
        network, findings = known[text]
        return network, [*findings]

    monkeypatch.setattr(cnn_convertor.audit, "read", read_once)


def digest(folder: Path) -> str:
    """Of all files and their names."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def parameters(graph: Graph) -> int:
    held = (getattr(node.op, field.name) for node in graph.nodes for field in fields(node.op))
    return sum(value.size for value in held if isinstance(value, Constant))


@pytest.mark.parametrize("name", QUICK)
def test_a_network_built_twice_has_the_same_bytes(name: str, folder: Path) -> None:
    first, second = (zoo.build(name, folder / part).parent for part in ("first", "second"))
    assert digest(first) == digest(second)


def test_another_seed_gives_other_weights_of_the_same_architecture(folder: Path) -> None:
    first, second = (zoo.build("caffe_lenet", folder / str(seed), seed).parent for seed in (0, 1))
    assert (first / "caffe_lenet.prototxt").read_bytes() == (second / "caffe_lenet.prototxt").read_bytes()
    assert (first / "caffe_lenet.caffemodel").read_bytes() != (second / "caffe_lenet.caffemodel").read_bytes()


def test_a_network_has_the_parameters_of_its_architecture(network: Built) -> None:
    assert parameters(network.graph) == PARAMETERS[network.name]


@pytest.mark.parametrize("name", QUICK)
def test_numbers_flow_through_a_caffe_network(name: str, folder: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    size = SMALL_SIZES.get(name, 128)
    home = zoo.build(name, folder, size=size).parent
    net = cv2.dnn.readNetFromCaffe(str(home / f"{name}.prototxt"), str(home / f"{name}.caffemodel"))
    channels = 1 if name == "caffe_lenet" else 3
    outputs = []
    for seed in range(2):
        net.setInput(np.random.default_rng(seed).uniform(0, 1, (1, channels, size, size)).astype(np.float32))
        maps = net.forward(net.getLayerNames())
        assert all(np.isfinite(values).all() for values in maps)
        assert all(0.01 < np.sqrt(np.mean(np.square(values))) < 30 for values in maps[:-1])  # the last is the softmax
        outputs.append(maps[-1])
    assert np.abs(outputs[0] - outputs[1]).max() > 0.02 * outputs[0].max()


@pytest.mark.slow
@pytest.mark.parametrize("name", KERAS)
def test_numbers_flow_through_a_keras_network(name: str, folder: Path) -> None:
    keras = pytest.importorskip("keras")
    size = SMALL_SIZES.get(name, 32)
    home = zoo.build(name, folder, size=size).parent
    model = keras.models.load_model(home / f"{name}.keras")
    inputs = np.random.default_rng(0).uniform(0, 1, (2, size, size, 3)).astype(np.float32)
    every = keras.Model(model.inputs, [layer.output for layer in model.layers])
    *maps, output = map(np.asarray, every(inputs, training=False))  # `predict` compiles, which takes longer
    assert all(np.isfinite(values).all() for values in (*maps, output))
    assert all(0.01 < np.sqrt(np.mean(np.square(values))) < 30 for values in maps)
    assert np.abs(output[0] - output[1]).max() > 0.02 * output.max()


def test_sizes_that_are_given_are_kept(folder: Path) -> None:
    graph = load(Config.read(zoo.build("caffe_squeezenet_1_1", folder, size=64)))
    assert [graph.shape(node.name) for node in graph.inputs] == [(64, 64, 3)]


# --- boards: each accepts what a default conversion writes ---------------------------------------------------------------


def board(base: str, folder: Path, **figures: str) -> Profile:
    """The device of a file that says these figures, as TOML values."""
    lines = [f'base = "{base}"', "[device]", *(f"{name} = {value}" for name, value in figures.items())]
    (folder / f"{base}.toml").write_text("\n".join(lines))
    return read_profile(f"{base}.toml", folder)


def audited(config: Config, graph: Graph, folder: Path, on: Profile | None = None) -> Audit:
    """What the audit says of the source, without its weights. on: the board; None for the one that it is written for."""
    program = build(graph, config)
    for file, text in render(program, Request.of(config).rendering).items():
        (folder / file).write_text(text, encoding="utf-8")
    limits = Dv700.of(on or config.hardware, config.settings).device.limits.of_board
    return audit(folder / f"{config.name}_gen.cpp", None, AuditedDevice(**limits))  # type: ignore[arg-type]  # each is of its field's type


@pytest.mark.slow
@pytest.mark.usefixtures("_sources_are_read_once")
def test_the_driver_of_the_sdk_accepts_every_network_of_the_zoo(network: Built, folder: Path) -> None:
    for base in NAMES:
        pinned = board(base, folder, driver='"7.2.20190716"')
        here = replace(network.config, device=read_profile(base, Path()))
        result = audited(here, network.graph, folder, pinned)
        assert result.commands and not result.findings, base


@pytest.mark.slow
@pytest.mark.parametrize("fusion", Fusion)
def test_with_driver_and_hardware_of_2020_max_pools_in_several_tiles_come_back(fusion: Fusion, folder: Path) -> None:
    _, config, graph = built("caffe_yolov3_tiny", folder)
    config = replace(config, fusion=fusion.value)
    before = audited(config, graph, folder)
    late = replace(config, device=board("dv700", folder, driver='"7.2.20201106"', hardware="2020-01-01"))
    after = audited(late, graph, folder)
    assert not before.findings and not after.findings
    refused = audited(late, graph, folder, read_profile("dv700", Path())).findings
    assert [problem.code for problem in refused] == ["DV631"] * (before.commands - after.commands)
    assert before.commands - after.commands == 3
