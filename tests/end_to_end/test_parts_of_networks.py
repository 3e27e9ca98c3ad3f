"""A part of a network: it begins and ends at inner maps, and a refused network says where it can end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from cnn_convertor import budget
from cnn_convertor.cli.tables import _layer_cells
from cnn_convertor.config import Config
from cnn_convertor.conversion.convert import convert
from cnn_convertor.conversion.inspection import find
from cnn_convertor.errors import ConvertorError, UnsupportedError, UsageError
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification.keras_models import import_keras
from frontends.onnx.networks import Network

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RNG = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("model", "data", "inputs", "outputs"),
    [
        pytest.param("digits_keras/digits.keras", None, ("halve",), (), marks=pytest.mark.slow),
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
    whole = [output.name for output in result.outputs if ", part " not in output.name]
    assert not outputs or whole == [*outputs]


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


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_keras_network_that_ends_before_a_lambda_is_verified(suffix: str, tmp_path: Path) -> None:
    """Keras loads no code, so that it refuses the whole file."""
    keras = import_keras()
    x = keras.Input((6, 5, 4), name="x")
    y = keras.layers.Conv2D(8, 3, name="c")(x)
    path = tmp_path / f"net{suffix}"
    keras.Model(x, keras.layers.Lambda(lambda each: each * 2, name="end")(y)).save(path)
    assert verify(Config.of(path, outputs=("c",), output_folder=tmp_path)).passed


def test_a_network_can_end_before_a_refused_layer_of_constants(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["relu"]),
        helper.make_node("Bernoulli", ["c"], ["random"]),
        helper.make_node("Sqrt", ["random"], ["root"]),
        helper.make_node("Add", ["relu", "root"], ["sum"]),
        helper.make_node("Sigmoid", ["relu"], ["gate"]),
    ]
    network = Network(nodes, {"x": np.zeros((1, 3, 8, 8), np.float32)}, {"c": np.ones(1, np.float32)}, opset=15)
    model = network.write(tmp_path / "net.onnx", outputs=["sum", "gate"])
    (note,) = find(model).notes
    assert note.example == "outputs = relu, gate"
    assert '"random" (Bernoulli)' in note.message
    assert verify(Config(definition=model, outputs=("relu", "gate"), output_folder=tmp_path)).passed


def heads(folder: Path, second: float) -> Path:
    """Three convolutions and a refused layer. second: every weight of the second one."""
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["first"]),
        helper.make_node("Conv", ["first", "b"], ["second"]),
        helper.make_node("Relu", ["second"], ["relu"]),
        helper.make_node("Bernoulli", ["relu"], ["random"]),
        helper.make_node("Conv", ["random", "c"], ["third"]),
    ]
    shape = (4, 4, 1, 1)
    weights = {
        "a": np.full(shape, 0.5, np.float32),
        "b": np.full(shape, second, np.float32),
        "c": np.ones(shape, np.float32),
    }
    network = Network(nodes, {"x": np.zeros((1, 4, 8, 8), np.float32)}, weights, opset=15)
    return network.write(folder / "net.onnx", outputs=["third"])


@pytest.mark.parametrize(("second", "line", "share"), [(0.5, "relu", "66.7%"), (1e6, "first", "33.3%")])
def test_the_line_of_the_note_was_tried_with_the_weights(second: float, line: str, share: str, tmp_path: Path) -> None:
    model = heads(tmp_path, second)
    (note,) = find(model).notes
    assert note.example == f"outputs = {line}"
    assert f"with {share} of the multiplications" in note.message
    assert convert(Config(definition=model, outputs=(line,), output_folder=tmp_path)).report.outputs


def test_a_part_that_computes_nothing_is_no_advice(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["pool"], kernel_shape=[2, 2]),
        helper.make_node("Bernoulli", ["pool"], ["random"]),
        helper.make_node("Conv", ["random", "w"], ["conv"]),
    ]
    weights = {"w": np.ones((4, 4, 1, 1), np.float32)}
    network = Network(nodes, {"x": np.zeros((1, 4, 8, 8), np.float32)}, weights, opset=15)
    (note,) = find(network.write(tmp_path / "net.onnx", outputs=["conv"])).notes
    assert (note.code, note.example) == ("DV163", "")
    assert note.message.startswith('no useful part of the network converts: no multiplication lies before "random"')


def test_a_part_too_large_to_try_is_no_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SHARES", {**budget.SHARES, "ends": 1})
    assert find(heads(tmp_path, 0.5)).notes == ()


@pytest.mark.parametrize(("inputs", "outputs"), [((), ("relu",)), (("x",), ()), (("relu",), ("gate",))])
def test_a_part_keeps_what_is_wrong_with_its_own_inputs(
    inputs: tuple[str, ...], outputs: tuple[str, ...], tmp_path: Path
) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["relu"]), helper.make_node("Sigmoid", ["relu"], ["gate"])]
    model = Network(nodes, {"x": np.zeros((1, 3, 8, 8), np.float32)}, {}).write(tmp_path / "net.onnx")
    config = Config(
        definition=model, inputs=inputs, outputs=outputs, output_folder=tmp_path, width_override=4, height_override=4
    )
    if inputs == ("relu",):  # the network's own input is left out
        assert convert(config).report.outputs
        return
    with pytest.raises(ConvertorError, match="DV206: the file fixes the size of the input: 8x8, not 4x4"):
        convert(config)


def test_what_follows_the_refused_layer_is_a_network_of_its_own(tmp_path: Path) -> None:
    model = refused(tmp_path)
    config = Config(definition=model, inputs=("pool",), outputs=("gate",), output_folder=tmp_path)
    result = verify(config)
    assert result.passed and [output.name for output in result.outputs] == ["gate"]


# --- layers with several outputs -----------------------------------------------------------------------------------------

SLICE = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 12 dim: 6 dim: 6 } } }
layer { name: "squash" type: "Sigmoid" bottom: "data" top: "squash" }
layer { name: "parts" type: "Slice" bottom: "squash" top: "boxes" top: "scores" top: "rest"
  slice_param { slice_point: 4 slice_point: 9 } }
layer { name: "sum" type: "Power" bottom: "rest" top: "sum" power_param { scale: 3 shift: 1 } }
"""


def sliced_by_caffe(folder: Path) -> Path:
    (folder / "net.prototxt").write_text(SLICE)
    return folder / "net.prototxt"


def split_by_onnx(folder: Path) -> Path:
    nodes = [
        helper.make_node("Sigmoid", ["data"], ["squash"]),
        helper.make_node("Split", ["squash", "sizes"], ["boxes", "scores", "rest"], axis=1),
        helper.make_node("Add", ["rest", "rest"], ["sum"]),
    ]
    network = Network(nodes, {"data": np.zeros((1, 12, 6, 6), np.float32)}, {"sizes": np.array([4, 5, 3])}, opset=15)
    return network.write(folder / "net.onnx", outputs=["boxes", "scores", "sum"])


def split_by_keras(folder: Path) -> Path:
    keras = pytest.importorskip("keras")
    keras.utils.clear_session()  # so that the function is called "split"
    x = keras.Input((6, 6, 12), name="data")
    squashed = keras.layers.Activation("sigmoid", name="squash")(x)
    boxes, scores, rest = keras.ops.split(squashed, [4, 9], axis=3)
    keras.Model(x, [boxes, scores, keras.layers.Add(name="sum")([rest, rest])]).save(folder / "net.keras")
    return folder / "net.keras"


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize(
    ("build", "own"),
    [
        (sliced_by_caffe, ("boxes", "scores", "rest")),
        (split_by_onnx, ("boxes", "scores", "rest")),
        pytest.param(split_by_keras, ("split:0", "split:1", "split:2"), marks=pytest.mark.slow),
    ],
)
def test_each_output_of_a_layer_has_the_frameworks_own_name(
    build: Callable[[Path], Path], own: tuple[str, ...], tmp_path: Path
) -> None:
    model, (boxes, scores, rest) = build(tmp_path), own
    config = Config(definition=model, data=model, quantization=False, output_folder=tmp_path, generate_source=True)
    (layer,) = (layer for layer in find(model).report.layers if layer.output_names)
    assert layer.output_names == own
    assert ", ".join(f"{name} 6x6x{n}" for name, n in zip(own, (4, 5, 3), strict=True)) in "".join(_layer_cells(layer))
    for inputs, outputs, names in [
        ((), (), [boxes, scores, "sum"]),
        ((), (scores, "sum"), [scores, "sum"]),
        ((rest,), ("sum",), ["sum"]),
        ((rest,), (scores, "sum"), [scores, "sum"]),
    ]:
        part = replace(config, inputs=inputs, outputs=outputs)
        converted = convert(part)
        assert [output.name for output in converted.report.outputs] == names
        if build is split_by_keras and inputs and scores in outputs:
            with pytest.raises(UsageError, match="Keras cannot compute this part"):
                verify(part)
            continue
        result = verify(part)
        assert result.passed and [output.name for output in result.outputs] == names, (inputs, outputs)
        assert all(output.elements == {scores: 180, boxes: 144, "sum": 108}[output.name] for output in result.outputs)


def test_an_output_of_onnx_behind_a_node_that_does_nothing_has_its_own_name(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["y"]),
        helper.make_node("Cast", ["y"], ["copy"], to=1),
        helper.make_node("Identity", ["y"], ["same"]),
        helper.make_node("Dropout", ["y"], ["kept"]),
    ]
    network = Network(nodes, {"x": np.zeros((1, 4, 6, 6), np.float32)}, {}, opset=15)
    names = ["copy", "same", "kept", "y"]
    model = network.write(tmp_path / "net.onnx", outputs=names)
    config = Config(definition=model, data=model, quantization=False, output_folder=tmp_path, generate_source=True)
    assert [output.name for output in convert(config).report.outputs] == names
    result = verify(config)
    assert result.passed and [output.name for output in result.outputs] == names


def test_known_results_have_the_names_of_outputs(tmp_path: Path) -> None:
    model = sliced_by_caffe(tmp_path)
    config = Config(
        definition=model, data=model, quantization=False, output_folder=tmp_path, outputs=("scores", "boxes")
    )
    data = np.linspace(-2, 2, 432, dtype=np.float32).reshape(1, 6, 6, 12)
    squashed = 1 / (1 + np.exp(-data.transpose(0, 3, 1, 2)))
    known = {"expected_boxes": squashed[:, :4], "expected_scores": squashed[:, 4:9]}
    np.savez(tmp_path / "known.npz", data=data, allow_pickle=False, **known)
    assert verify(config, inputs=tmp_path / "known.npz").passed
    np.savez(tmp_path / "vague.npz", data=data, allow_pickle=False, expected_parts=squashed[:, :4])
    with pytest.raises(UsageError, match='there is no layer "parts"'):
        verify(config, inputs=tmp_path / "vague.npz")
