"""The zoo: the same network gives the same bytes, has the architecture's size, and lets numbers through."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor import Config, load
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from examples import zoo

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
    "onnx_resnet18": 11_684_712,
    "onnx_yolo_nano": 1_867_405,
}
QUICK = (
    "caffe_lenet",
    "caffe_squeezenet_1_1",
    "caffe_mobilenet_v1",
    "caffe_googlenet_without_lrn",
    "caffe_enet",
    "caffe_mtcnn_onet",
)
SMALL_SIZES = {"keras_inception_v3": 75, "caffe_lenet": 28, "caffe_mtcnn_onet": 48}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Goes when the test ends: the networks are large."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


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


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PARAMETERS]
)
def test_a_network_has_the_parameters_of_its_architecture(name: str, folder: Path) -> None:
    if name.startswith("keras"):
        pytest.importorskip("keras")
    graph = load(Config.read(zoo.build(name, folder)))
    assert parameters(graph) == PARAMETERS[name]


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
@pytest.mark.parametrize("name", [name for name in PARAMETERS if name.startswith("keras")])
def test_numbers_flow_through_a_keras_network(name: str, folder: Path) -> None:
    keras = pytest.importorskip("keras")
    size = SMALL_SIZES.get(name, 32)
    home = zoo.build(name, folder, size=size).parent
    model = keras.models.load_model(home / f"{name}.keras")
    inputs = np.random.default_rng(0).uniform(0, 1, (2, size, size, 3)).astype(np.float32)
    *maps, output = keras.Model(model.inputs, [layer.output for layer in model.layers]).predict(inputs, verbose=0)
    assert all(np.isfinite(values).all() for values in (*maps, output))
    assert all(0.01 < np.sqrt(np.mean(np.square(values))) < 30 for values in maps)
    assert np.abs(output[0] - output[1]).max() > 0.02 * output.max()

    older = keras.models.load_model(home / f"{name}.h5", compile=False)
    assert np.array_equal(older.predict(inputs, verbose=0), model.predict(inputs, verbose=0))


def test_sizes_that_are_given_are_kept(folder: Path) -> None:
    graph = load(Config.read(zoo.build("caffe_squeezenet_1_1", folder, size=64)))
    assert [graph.shape(node.name) for node in graph.inputs] == [(64, 64, 3)]
