"""A part of a network: it begins and ends at inner maps, and a refused network says where it can end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from cnn_convertor.config import Config
from cnn_convertor.conversion.convert import convert
from cnn_convertor.conversion.inspection import find
from cnn_convertor.errors import UnsupportedError
from cnn_convertor.trials.verify import verify
from frontends.onnx.networks import Network

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RNG = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("model", "data", "inputs", "outputs"),
    [
        ("digits_keras/digits.keras", None, ("halve",), ()),
        pytest.param(
            *("digits_keras/digits.keras", None, ("shortcut_relu",), ("branches", "narrow")), marks=pytest.mark.slow
        ),
        pytest.param(
            *("digits_caffe/digits.prototxt", "digits_caffe/digits.caffemodel", ("relu1",), ()), marks=pytest.mark.slow
        ),
        ("digits_caffe/digits.prototxt", "digits_caffe/digits.caffemodel", ("relu4a", "relu4b"), ("pool4",)),
    ],
)
def test_the_part_between_inner_maps_is_verified(
    model: str, data: str | None, inputs: tuple[str, ...], outputs: tuple[str, ...], tmp_path: Path
) -> None:
    definition, weights = EXAMPLES / model, EXAMPLES / (data or model)
    config = Config(
        definition=definition, data=weights, inputs=inputs, outputs=outputs, quantization=False, output_folder=tmp_path
    )
    result = verify(config)
    assert result.passed
    assert not outputs or [output.name for output in result.outputs] == [*outputs]


def refused(folder: Path) -> Path:
    """An ONNX network with a layer of random results, and two results beside it."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("MaxPool", ["relu"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Bernoulli", ["pool"], ["random"]),
        helper.make_node("Add", ["random", "pool"], ["sum"]),
        helper.make_node("Sigmoid", ["pool"], ["gate"]),
        helper.make_node("Sigmoid", ["relu"], ["early"]),
    ]
    weights = {"w": RNG.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32)}
    network = Network(nodes, {"x": np.zeros((1, 3, 8, 8), np.float32)}, weights, opset=15)
    return network.write(folder / "net.onnx", outputs=["sum", "gate", "early"])


def test_a_refused_network_converts_with_the_line_of_its_note(tmp_path: Path) -> None:
    model = refused(tmp_path)
    with pytest.raises(UnsupportedError) as caught:
        convert(Config(definition=model, output_folder=tmp_path))
    (note,) = caught.value.notes
    assert note.code == "DV163"
    assert note.message.endswith('left to the application: "random" (Bernoulli), "sum" (Add)')
    assert note.example == "outputs = pool, gate, early"
    ini = tmp_path / "net.ini"
    ini.write_text(f"[INPUT]\nname = net\ndefinition = net.onnx\n[OUTPUT]\noutput_folder = out\n{note.example}\n")
    assert [output.name for output in convert(Config.read(ini)).report.outputs] == ["pool", "gate", "early"]
    assert verify(Config.read(ini)).passed
    assert [message.example for message in find(model).notes] == [note.example]


def test_what_follows_the_refused_layer_is_a_network_of_its_own(tmp_path: Path) -> None:
    model = refused(tmp_path)
    config = Config(definition=model, inputs=("pool",), outputs=("gate",), output_folder=tmp_path)
    result = verify(config)
    assert result.passed and [output.name for output in result.outputs] == ["gate"]
