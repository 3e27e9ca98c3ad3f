"""Palettes keep what networks are for: their accuracy on labeled data is that of FP16 weights."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.ir.ops import Shape
from cnn_convertor.pipeline import load
from cnn_convertor.samples import Preparation, read_image
from cnn_convertor.trials.run import prepare
from examples import digits
from verification.trials import config

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("compiler"),
    pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning"),
]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ALLOWED_LOSS = 0.003  # of accuracy
ALIKE = 19  # of 20 images, at least
Classes = NDArray[np.intp]


def classes(chosen: Config, inputs: Maps, folder: Path) -> tuple[Classes, Classes]:
    """The class that the network finds most likely, with FP16 weights and with palettes everywhere."""
    found: list[Classes] = []
    for made in (chosen.in_fp16, chosen):
        network = prepare(load(made), Request.of(made), folder / str(len(found)))
        (name,) = (node.name for node in network.graph.inputs)
        found.append(network.run({name: inputs}).outputs[0].reshape(len(inputs), -1).argmax(axis=1))
        palettes = [weights.packed.palette for weights in network.program.weights if not weights.packed.prelu]
        assert set(palettes) == {made is chosen}
    return found[0], found[1]


def assert_as_accurate(found: tuple[Classes, Classes], labels: NDArray[np.integer], least: float) -> None:
    fp16, palette = (float(np.mean(each == labels)) for each in found)
    assert fp16 >= least
    assert palette >= fp16 - ALLOWED_LOSS


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("ini", ["digits_caffe/net.ini", "digits_keras/net.ini", "digits_keras/net_keras2.ini"])
def test_digits(ini: str, tmp_path: Path) -> None:
    test = digits.load_test()
    chosen = config_of(EXAMPLES / ini)
    assert_as_accurate(classes(chosen, test.inputs().astype(np.float32)[..., np.newaxis], tmp_path), test.labels, 0.95)


def config_of(ini: Path) -> Config:
    read = Config.read(ini)
    return config(read.definition, read.data, quantization=True, name=read.name)


def model(shared: Path, folder: str) -> Config:
    (definition,) = (shared / "models" / folder).glob("*.prototxt")
    (data,) = (shared / "models" / folder).glob("*.caffemodel")
    return config(definition, data, quantization=True)


def images(shared: Path, pattern: str, size: int, preparation: Preparation) -> tuple[Maps, NDArray[np.intp]]:
    """Images whose name matches, and their labels: the last number in the name."""
    files = sorted((shared / "data" / "foolbox").glob(pattern))
    labels = [int(re.findall(r"\d+", file.stem)[-1]) for file in files]
    return np.stack([read_image(f, Shape(size, size, 3), preparation) for f in files]), np.array(labels)


@pytest.mark.rotating(turns=4)
def test_lenet_on_5000_digits(shared: Path, tmp_path: Path) -> None:
    with gzip.open(shared / "data" / "mnist_5k.csv.gz") as stream:
        rows = np.loadtxt(stream, delimiter=",").astype(np.float32)
    inputs = (rows[:, :-1] / np.float32(256)).reshape(-1, 28, 28, 1)
    assert len(inputs) == 5000
    found = classes(model(shared, "lenet_mnist_caffe"), inputs, tmp_path)
    assert_as_accurate(found, rows[:, -1].astype(np.intp), 0.99)
    assert np.mean(found[0] == found[1]) >= 1 - ALLOWED_LOSS


BGR_IMAGES = Preparation(mean=(104.0, 117.0, 123.0), channel_order="BGR", is_given=True)
RGB_IMAGES = Preparation(mean=(125.3, 123.0, 113.9), channel_order="RGB", is_given=True)


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize(
    ("folder", "pattern", "size", "preparation", "least"),
    [
        ("squeezenet_v1.0_caffe", "imagenet_*.jpg", 227, BGR_IMAGES, 12),
        ("cifar10_quick_caffe", "cifar10_*.png", 32, RGB_IMAGES, ALIKE),
    ],
)
def test_networks_on_their_20_images(
    folder: str, pattern: str, size: int, preparation: Preparation, least: int, shared: Path, tmp_path: Path
) -> None:
    pytest.importorskip("cv2")
    inputs, labels = images(shared, pattern, size, preparation)
    assert len(inputs) == 20
    fp16, palette = classes(model(shared, folder), inputs, tmp_path)
    assert np.sum(fp16 == palette) >= ALIKE
    assert min(np.sum(fp16 == labels), np.sum(palette == labels)) >= least
