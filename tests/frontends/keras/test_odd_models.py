"""Odd files that are read as they are meant, or refused by name: other people's classes, old versions, settings of settings."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError, ConvertorWarning, Problem
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Axis, Resize, Sampling, Softmax
from frontends.loading import load_keras as load
from reference import ir_reference

FOREIGN = {"module": None, "registered_name": "ReLU"}


def read(path: Path) -> Graph:
    return load(path, path)


def refusal(path: Path) -> Problem:
    with pytest.raises(ConvertorError) as caught:
        load(path, path)
    (problem,) = caught.value.problems
    return problem


def written_by(path: Path, version: str | None) -> Path:
    with h5py.File(path, "a") as file:
        del file.attrs["keras_version"]
        if version is not None:
            file.attrs["keras_version"] = version
    return path


def warned(path: Path) -> list[Problem]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(path, path)
    return [w.message.problems[0] for w in caught if isinstance(w.message, ConvertorWarning)]


# --- classes of the user's own -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "is_kerass"),
    [(None, False), ("mine.layers", False), ("keras_like.layers", False), ("mine.ops", False),
     ("keras.layers", True), ("keras.src.layers.activations.relu", True), ("tf_keras.layers", True)],
)  # fmt: skip
def test_a_class_that_only_has_the_name_of_one_of_kerass_is_refused(
    model: Any, module: str | None, is_kerass: bool
) -> None:
    layer = model.layer("ReLU", "x") | {"module": module, "registered_name": None if is_kerass else "mine>ReLU"}
    network = model.sequential(model.layer("InputLayer", "in", batch_shape=[None, 4, 4, 1]), layer)
    path = model.keras(network)
    if is_kerass:
        assert read(path).outputs == ("x",)
    else:
        problem = refusal(path)
        assert problem.code == "DV301" and "not Keras's own" in problem.message
        assert problem.where is not None and problem.where.layer == "x"


def test_a_model_class_of_the_users_own_is_no_model_and_their_dropout_is_none(model: Any) -> None:
    foreign = {"module": "mine", "registered_name": "Sequential"}
    inner = model.sequential(model.layer("InputLayer", "i", batch_shape=[None, 4]), name="inner") | foreign
    given = model.layer("InputLayer", "in", batch_shape=[None, 4])
    assert refusal(model.keras(model.sequential(given, inner))).code == "DV301"
    assert "class of your own" in refusal(model.keras(inner)).message
    dropout = model.layer("FixedDropout", "x", rate=0.5) | {"module": "efficientnet", "registered_name": "FixedDropout"}
    assert read(model.keras(model.sequential(given, dropout))).outputs == ("x",)


def test_an_activation_of_a_class_of_the_users_own_is_refused(model: Any) -> None:
    own = {"class_name": "ReLU", "config": {"name": "r"}, **FOREIGN}
    problem = refusal(model.single("Activation", activation=own))
    assert problem.code == "DV302" and "not Keras's own" in problem.message


# --- old forms -----------------------------------------------------------------------------------------------------------


def test_the_base_class_of_layers_is_an_identity(model: Any) -> None:
    """Some networks of Keras 2 begin with one, which gives the input's shape."""
    first = model.layer("Layer", "first", batch_input_shape=[None, 6, 5, 4])
    graph = read(model.h5(model.sequential(first, model.layer("Flatten", "x"))))
    assert [(node.name, type(node.op)) for node in graph.nodes] == [
        ("first_input", ops.Input), ("first", ops.Identity), ("x", ops.Reshape),
    ]  # fmt: skip
    assert graph.shape("x").channels == 120


def test_a_base_class_with_settings_is_refused(model: Any) -> None:
    assert "factor = 3" in refusal(model.single("Layer", factor=3)).message


@pytest.mark.parametrize("is_inner", [False, True], ids=["alone", "in a model"])
def test_a_sequential_model_may_be_a_list_of_layers(model: Any, is_inner: bool) -> None:
    """Keras before 2.2.3 wrote the layers without their model's name around them."""
    kernel, bias = np.ones((1, 1, 4, 2), np.float32), np.ones(2, np.float32)
    first = model.layer("Conv2D", "conv", filters=2, kernel_size=1, batch_input_shape=[None, 6, 5, 4])
    listed = {"class_name": "Sequential", "config": [first, model.layer("ReLU", "relu")]}
    if is_inner:
        inner = {**listed, "name": "inner", "inbound_nodes": [[["in", 0, 0, {}]]]}
        source = model.layer("InputLayer", "in", batch_input_shape=[None, 6, 5, 4])
        network, group = model.functional([source, inner], ["in"], ["inner"]), "inner"
    else:
        network, group = listed, "conv"
    graph = read(model.h5(network, {group: [("conv/kernel", kernel), ("conv/bias", bias)]}))
    assert [type(node.op) for node in graph.nodes] == [ops.Input, ops.Conv2d, ops.Activation]
    assert graph.outputs == (("inner/relu" if is_inner else "relu"),)


# --- layers as activations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "expected"), [(1, Axis.HEIGHT), (2, Axis.WIDTH), ([3], Axis.CHANNELS), (-1, Axis.CHANNELS)]
)
@pytest.mark.parametrize("type", ["Activation", "Conv2D"])
def test_a_softmax_that_is_an_activation_keeps_its_axis(model: Any, type: str, axis: Any, expected: Axis) -> None:
    softmax = {"class_name": "Softmax", "config": {"name": "s", "trainable": True, "axis": axis}}
    settings = {"filters": 2, "kernel_size": 1} if type == "Conv2D" else {}
    arrays = [np.ones((1, 1, 4, 2)), np.zeros(2)] if settings else []
    assert read(model.single(type, arrays=arrays, activation=softmax, **settings))["x"].op == Softmax(expected)


def test_a_setting_of_an_activation_that_nobody_knows_is_refused(model: Any) -> None:
    leaky = {"class_name": "LeakyReLU", "config": {"alpha": 0.1, "sharpness": 3}}
    assert "sharpness = 3" in refusal(model.single("Activation", activation=leaky)).message


@pytest.mark.parametrize("given", [2, [2], [2, 2]])
@pytest.mark.parametrize(
    ("type", "setting", "others", "arrays"),
    [
        ("Conv2D", "kernel_size", {"filters": 1}, [np.ones((2, 2, 4, 1)), np.ones(1)]),
        ("Conv2D", "strides", {"filters": 1, "kernel_size": [1, 1]}, [np.ones((1, 1, 4, 1)), np.ones(1)]),
        ("Conv2D", "dilation_rate", {"filters": 1, "kernel_size": [1, 1]}, [np.ones((1, 1, 4, 1)), np.ones(1)]),
        ("MaxPooling2D", "pool_size", {"strides": None}, []),
        ("UpSampling2D", "size", {}, []),
    ],
)
def test_sizes_may_be_one_number_or_height_and_width(
    model: Any, type: str, setting: str, others: dict[str, Any], arrays: list[Any], given: Any
) -> None:
    x, results = np.random.default_rng(0).normal(size=(6, 5, 4)), []
    for value in (given, [2, 2]):
        graph = read(model.single(type, arrays=arrays, **others, **{setting: value}))
        results.append(ir_reference.run(graph, {"in": x})["x"])  # before the next model takes the file's place
    np.testing.assert_array_equal(results[0], results[1])
    with pytest.raises(ConvertorError):
        read(model.single(type, arrays=arrays, **others, **{setting: [2, 2, 2]}))


# --- old versions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "sampling", "is_told"),
    [
        ("2.2.3", Sampling.ASYMMETRIC, True), ("2.3.1", Sampling.ASYMMETRIC, True), ("2.3.0-tf", Sampling.HALF_PIXEL, True),
        ("2.4.0", Sampling.HALF_PIXEL, True), ("2.15.0", Sampling.HALF_PIXEL, True), ("3.0.0", Sampling.HALF_PIXEL, True),
        ("2.2.4-tf", Sampling.HALF_PIXEL, False), (None, Sampling.HALF_PIXEL, False), ("x", Sampling.HALF_PIXEL, False),
    ],
)  # fmt: skip
def test_bilinear_upsampling_is_that_of_the_version_that_saved_the_file(
    model: Any, version: str | None, sampling: Sampling, is_told: bool
) -> None:
    path = written_by(model.single("UpSampling2D", size=[2, 2], interpolation="bilinear"), version)
    codes = [problem.code for problem in warned(path)]
    assert codes == ([] if is_told else ["DV215"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        op = read(path)["x"].op
    assert isinstance(op, Resize) and op.sampling is sampling


@pytest.mark.parametrize("version", ["2.2.4-tf", None, "2.3.1"])
def test_nearest_upsampling_is_the_same_in_all_versions(model: Any, version: str | None) -> None:
    path = written_by(model.single("UpSampling2D", size=[2, 3], interpolation="nearest"), version)
    assert warned(path) == []


@pytest.mark.parametrize(
    ("type", "settings", "shape", "differs"),
    [
        ("Conv2D", {"filters": 2, "kernel_size": 3, "padding": "same"}, (3, 3, 4, 2), False),
        ("Conv2D", {"filters": 2, "kernel_size": 3, "strides": 2, "padding": "valid"}, (3, 3, 4, 2), False),
        ("Conv2D", {"filters": 2, "kernel_size": 3, "strides": 2, "padding": "same"}, (3, 3, 4, 2), True),
        ("Conv2D", {"filters": 2, "kernel_size": [2, 3], "padding": "same"}, (2, 3, 4, 2), True),
        ("Conv2DTranspose", {"filters": 2, "kernel_size": 3, "strides": 2, "padding": "same"}, (3, 3, 2, 4), True),
        ("MaxPooling2D", {"pool_size": 2, "padding": "same"}, None, True),
        ("AveragePooling2D", {"pool_size": 2}, None, False),
    ],
)  # fmt: skip
def test_theanos_padding_is_warned_of_where_it_is_another(
    model: Any, type: str, settings: dict[str, Any], shape: tuple[int, ...] | None, differs: bool
) -> None:
    network = model.sequential(
        model.layer("InputLayer", "in", batch_input_shape=[None, 6, 5, 4]), model.layer(type, "x", **settings)
    )
    arrays = {} if shape is None else {"x": [("kernel", np.ones(shape)), ("bias", np.ones(2))]}
    for backend, codes in (("tensorflow", []), ("theano", ["DV215"] * differs)):
        path = model.h5(network, arrays, backend=backend)
        assert [problem.code for problem in warned(path)] == codes


def test_theanos_bilinear_upsampling_is_refused(model: Any) -> None:
    layer = model.layer("UpSampling2D", "x", interpolation="bilinear")
    network = model.sequential(model.layer("InputLayer", "in", batch_input_shape=[None, 6, 5, 4]), layer)
    assert refusal(model.h5(network, backend="theano")).code == "DV302"


@pytest.mark.parametrize("type", ["Convolution2D", "Merge", "AtrousConvolution2D"])
def test_layers_of_keras_1_say_how_to_get_on(model: Any, type: str) -> None:
    assert "Keras 1" in refusal(model.single(type)).hint


# --- arguments, arrays, junk ---------------------------------------------------------------------------------------------


def test_masks_that_are_none_are_none_however_they_are_packed(model: Any) -> None:
    def network(mask: Any) -> Path:
        tensor = {"class_name": "__keras_tensor__", "config": {"keras_history": ["in", 0, 0]}}
        call = [{"args": [tensor], "kwargs": {"mask": mask}}]
        layer = model.layer("ReLU", "x", trainable=True) | {"inbound_nodes": call}
        given = model.layer("InputLayer", "in", batch_shape=[None, 4, 4, 1])
        path: Path = model.keras(model.functional([given, layer], ["in"], ["x"]))
        return path

    for mask in (None, [None, None], {"a": None, "b": [None]}):
        assert read(network(mask)).outputs == ("x",)
    for given in ([1], {"a": 0}, 0):
        assert "mask=" in refusal(network(given)).message


def test_named_arguments_that_look_like_a_tensor_are_named_arguments(model: Any) -> None:
    tensor = {"class_name": "__keras_tensor__", "config": {"keras_history": ["in", 0, 0]}}
    inner = model.sequential(model.layer("ReLU", "x"), name="inner")
    inner |= {"name": "inner", "inbound_nodes": [{"args": [tensor], "kwargs": tensor}]}
    given = model.layer("InputLayer", "in", batch_shape=[None, 4, 4, 1])
    assert "class_name=" in refusal(model.keras(model.functional([given, inner], ["in"], ["inner"]))).message


def test_a_layer_that_is_stored_once_for_two_models_says_what_to_do(model: Any) -> None:
    layers = [
        model.layer("InputLayer", "in", batch_shape=[None, 4, 4, 1]),
        model.layer("Conv2D", "x", filters=1, kernel_size=1),
    ]
    other = {"layers/dense/vars/0": np.ones(1)}
    problem = refusal(model.keras(model.sequential(*layers), other))
    assert problem.code == "DV204" and "model.h5" in problem.hint


@pytest.mark.parametrize(
    ("type", "settings"),
    [
        ("Permute", {"dims": ["a", 1, 2]}), ("Permute", {"dims": [[1], 2, 3]}), ("Permute", {"dims": [1.5, 2, 3]}),
        ("Normalization", {"axis": "x"}), ("Normalization", {"axis": [None]}), ("Normalization", {"axis": [0.5]}),
        ("Normalization", {"axis": [3, 3], "mean": 1.0, "variance": 1.0}), ("Normalization", {"axis": 0}),
        ("Normalization", {"axis": 9}), ("PReLU", {"shared_axes": [[1], {}]}),
    ],
)  # fmt: skip
def test_settings_of_another_kind_are_refused(model: Any, type: str, settings: dict[str, Any]) -> None:
    problem = refusal(model.single(type, arrays=[np.ones(4)], **settings))
    assert problem.where is not None and problem.where.layer == "x" and problem.code in {"DV302", "DV204", "DV205"}


def test_the_softmax_of_a_layer_is_what_keras_computes(model: Any) -> None:
    softmax = {"class_name": "Softmax", "config": {"axis": 1}}
    graph = read(model.single("Activation", shape=(3, 2, 2), activation=softmax))
    x = np.random.default_rng(0).normal(size=(3, 2, 2))
    powers = np.exp(x)
    np.testing.assert_allclose(ir_reference.run(graph, {"in": x})["x"], powers / powers.sum(axis=0), rtol=1e-6)
