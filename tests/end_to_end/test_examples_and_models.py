"""Trained networks on the emulated device: both examples, the models in ../shared, and the zoo's architectures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.pipeline import load
from cnn_convertor.trials.run import prepare
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification.results import Verification
from examples import digits, zoo
from verification.trials import config

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler", "keras_reads_once")]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
INIS = ["digits_caffe/net.ini", "digits_keras/net.ini", "digits_keras/net_keras2.ini", "digits_pytorch/net.ini"]
AT_LEAST_DB, AT_LEAST_COSINE = 45.0, 0.9999
ALLOWED_LOSS = 0.003  # of accuracy


def assert_good(result: Verification) -> None:
    """Whole outputs; parts of them have thresholds of their own."""
    whole = [o for o in result.outputs if ", part " not in o.name]
    bad = [o for o in whole if o.sqnr < AT_LEAST_DB or o.cosine < AT_LEAST_COSINE]
    assert whole and not bad, f"{bad}, jump at {result.first_jump}"


# --- examples ------------------------------------------------------------------------------------------------------------


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("ini", INIS)
def test_examples(ini: str, tmp_path: Path) -> None:
    """Without a folder of outputs, which hold other weights."""
    for transposed in (True, False):
        chosen = replace(
            Config.read(EXAMPLES / ini), output_folder=tmp_path, quantization=False, transpose_weight=transposed
        )
        result = verify(replace(chosen, fusion="none"), layers=True)
        assert_good(result)
        assert result.first_jump is None
        assert len(result.layers) >= 10
        assert_good(verify(chosen))
        assert verify(replace(chosen, quantization=True)).passed


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("ini", INIS)
def test_examples_are_as_accurate_on_the_device_as_in_their_framework(ini: str, tmp_path: Path) -> None:
    chosen = replace(Config.read(EXAMPLES / ini), quantization=False)
    network = prepare(load(chosen), Request.of(chosen), tmp_path)
    test = digits.load_test()
    (name,) = (node.name for node in network.graph.inputs)
    scores = network.run({name: test.inputs()[..., np.newaxis]}).outputs[0].reshape(-1, 10)
    figures = json.loads((EXAMPLES / ini).with_name("accuracy.json").read_text())
    assert abs(digits.accuracy(scores, test)["accuracy"] - figures["accuracy"]) <= ALLOWED_LOSS


# --- trained models ------------------------------------------------------------------------------------------------------


def models(folder: Path) -> Iterator[tuple[Path, Path]]:
    """(definition, data) of every model."""
    for path in sorted(folder.glob("*/*")):
        if path.suffix in {".h5", ".hdf5", ".keras"}:
            yield path, path
        elif path.suffix == ".prototxt":
            weights = sorted(path.parent.glob("*.caffemodel"))
            yield path, next((w for w in weights if w.stem == path.stem), weights[0])


@pytest.mark.rotating
def test_trained_models(shared: Path) -> None:
    converted = []
    for definition, data in models(shared / "models"):
        for transposed in (True, False):
            assert_good(verify(config(definition, data, transpose_weight=transposed), samples=2))
        converted.append(definition.name)
    assert len(converted) >= 11


# --- the zoo's architectures, with random weights ------------------------------------------------------------------------

# name -> input size; None: the network's own
ZOO = {
    "caffe_lenet": None,
    "caffe_squeezenet_1_1": 128,
    "caffe_mobilenet_v1": 96,
    "caffe_alexnet": 67,
    "caffe_googlenet": 96,
    "caffe_mobilenet_v2": 96,
    "caffe_ssd_mobilenet": 128,
    "caffe_yolov3_tiny": 96,
    "caffe_segnet_basic": 64,
    "caffe_fcn_8s": 64,
    "caffe_enet": 64,
    "caffe_mtcnn_onet": None,
    "caffe_resnet50": 64,
    "keras_mobilenet": 64,
    "keras_mobilenet_v2": 64,
    "keras_resnet50": 64,
    "keras_densenet121": 64,
    "keras_mobilenet_v3_small": 32,
    "keras_convnext_tiny": 32,
}


@pytest.mark.rotating
@pytest.mark.parametrize("name", ZOO)
def test_the_zoo(name: str, tmp_path: Path) -> None:
    chosen = replace(Config.read(zoo.build(name, tmp_path, size=ZOO[name])), quantization=False)
    graph = load(chosen)
    for transposed, fusion in ((True, "proven"), (False, "full")):
        layers = fusion == "full"  # at one level: the judge looks at the maps of both
        result = verify(
            replace(chosen, transpose_weight=transposed, fusion=fusion), graph=graph, samples=1, layers=layers
        )
        assert_good(result)
        assert result.first_jump is None
