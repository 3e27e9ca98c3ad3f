"""Functions between layers: those of TensorFlow in files of Keras 2, and operations of Keras 3."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.conversion.inspection import inspect
from cnn_convertor.errors import UnsupportedError
from frontends.keras.reading import read, refused
from reference import ir_reference


def test_operations_of_keras_3_are_no_layers(model: Any) -> None:
    def tensor(name: str) -> dict[str, Any]:
        return {"class_name": "__keras_tensor__", "config": {"keras_history": [name, 0, 0]}}

    def add(config: dict[str, Any], **extra: Any) -> Any:
        node = {"args": [[tensor("in"), tensor("in")]], "kwargs": {}}
        layer = {
            "class_name": "Add",
            "name": "sum",
            "config": {"name": "sum", **config},
            "inbound_nodes": [node],
            **extra,
        }
        return model.functional([model.layer("InputLayer", "in", batch_shape=[None, 4, 4, 1]), layer], ["in"], ["sum"])

    assert read(model.keras(add({"trainable": True, "dtype": "float32"}, module="keras.layers"))).outputs == ("sum",)
    for operation in (add({}), add({"dtype": "float32"}, module="keras.src.ops.numpy")):
        assert refused(model.h5(operation)) == ["DV302 the argument 'x2' is missing @sum"]  # it takes no list
    told = [refused(model.h5(add({"dtype": "float32"}, class_name=name))) for name in ("Cumsum", "Mystery")]
    assert told == [
        ["DV301 the operation Cumsum between layers cannot be converted @sum"],
        ["DV301 layers of the type Mystery cannot be converted @sum"],
    ]


def between(model: Any, function: str, *first: Any, type: str = "TFOpLambda", **keywords: Any) -> Path:
    """A function of TensorFlow on the input x (6, 5, 4), as Keras 2 writes it; first: its first argument."""
    call = {
        "class_name": type,
        "name": "f",
        "config": {"name": "f", "trainable": True, "dtype": "float32", "function": function},
        "inbound_nodes": [[*(first or ("x", 0, 0)), {**keywords, "name": None}]],
    }
    layers = [
        model.layer("InputLayer", "x", batch_input_shape=[None, 6, 5, 4]),
        model.layer("InputLayer", "y", batch_input_shape=[None, 1, 1, 4]),
        model.layer("ReLU", "kept", "y"),
        call,
    ]
    return model.h5(model.functional(layers, ["x", "y"], ["f", "kept"]))  # type: ignore[no-any-return]  # model is Any


EVERYTHING = {"start": None, "stop": None, "step": None}


DOTS = {"class_name": "__ellipsis__"}


@pytest.mark.parametrize(
    ("function", "keywords", "expected"),
    [
        ("__operators__.add", {"y": 3.0}, lambda x, y: x + 3),
        ("math.add", {"y": ["y", 0, 0]}, lambda x, y: x + y),
        ("math.multiply", {"y": 1 / 6}, lambda x, y: x / 6),
        ("math.multiply", {"y": [[[[1, 2, 3, 4]]]]}, lambda x, y: x * [1, 2, 3, 4]),
        ("math.subtract", {"y": ["y", 0, 0]}, lambda x, y: x - y),
        ("math.truediv", {"y": 127.5}, lambda x, y: x / 127.5),
        ("math.pow", {"y": 2}, lambda x, y: x**2),
        ("math.negative", {}, lambda x, y: -x),
        ("compat.v1.nn.relu", {}, lambda x, y: np.maximum(x, 0)),
        ("nn.relu6", {}, lambda x, y: np.clip(x, 0, 6)),
        ("nn.leaky_relu", {"alpha": 0.1}, lambda x, y: np.maximum(x, 0.1 * x)),
        ("nn.silu", {}, lambda x, y: x / (1 + np.exp(-x))),
        ("nn.softmax", {"axis": 1}, lambda x, y: np.exp(x) / np.exp(x).sum(0)),
        ("clip_by_value", {"clip_value_min": -1, "clip_value_max": 0.5}, lambda x, y: np.clip(x, -1, 0.5)),
        ("cast", {"dtype": "float32"}, lambda x, y: x),
        ("math.reduce_mean", {"axis": [1, 2], "keepdims": True}, lambda x, y: x.mean((0, 1), keepdims=True)),
        ("math.reduce_max", {"axis": 3}, lambda x, y: x.max(2)),
        ("math.argmax", {"axis": -1}, lambda x, y: x.argmax(2)),
        ("math.l2_normalize", {"axis": 3}, lambda x, y: x / np.sqrt((x * x).sum(2, keepdims=True))),
        ("reshape", {"shape": [-1, 15, 8]}, lambda x, y: x.reshape(15, 8)),
        ("transpose", {"perm": [0, 3, 1, 2]}, lambda x, y: x.transpose(2, 0, 1)),
        ("expand_dims", {"axis": 1}, lambda x, y: x),
        ("pad", {"paddings": [[0, 0], [1, 0], [0, 2], [0, 0]]}, lambda x, y: np.pad(x, ((1, 0), (0, 2), (0, 0)))),
        ("image.resize", {"size": [3, 5], "method": "nearest"}, lambda x, y: x[1::2]),
        ("nn.space_to_depth", {"block_size": 1}, lambda x, y: x),
        (
            "nn.depth_to_space",
            {"block_size": 2, "data_format": "NHWC"},
            lambda x, y: x.reshape(6, 5, 2, 2, 1).transpose(0, 2, 1, 3, 4).reshape(12, 10, 1),
        ),
        (
            "nn.local_response_normalization",
            {"depth_radius": 1, "bias": 2.0, "alpha": 0.5, "beta": 0.75},
            lambda x, y: (
                x / (2 + 0.5 * np.apply_along_axis(lambda v: np.convolve(v * v, [1, 1, 1], "same"), 2, x)) ** 0.75
            ),
        ),
    ],
)
def test_functions_of_tensorflow_in_files_of_keras_2(model: Any, function: str, keywords: Any, expected: Any) -> None:
    graph = read(between(model, function, **keywords))
    random = np.random.default_rng(0)
    x, y = random.normal(size=(6, 5, 4)) * 3, random.normal(size=(1, 1, 4))
    result = ir_reference.run(graph, {"x": x, "y": y})["f"]
    np.testing.assert_allclose(result.ravel(), expected(x, y).ravel(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ([EVERYTHING, {"start": 1, "stop": -1, "step": 2}], lambda x: x[1:-1:2]),
        ([DOTS, 2], lambda x: x[..., 2]),
        ([EVERYTHING, 1, EVERYTHING, {"start": None, "stop": 3, "step": None}], lambda x: x[1, :, :3]),
    ],
)
def test_parts_of_tensors_in_files_of_keras_2(model: Any, spec: Any, expected: Any) -> None:
    graph = read(between(model, "__operators__.getitem", type="SlicingOpLambda", slice_spec=spec))
    x = np.random.default_rng(0).normal(size=(6, 5, 4))
    result = ir_reference.run(graph, {"x": x, "y": np.ones((1, 1, 4))})["f"]
    np.testing.assert_array_equal(result.ravel(), expected(x).ravel())


def test_a_constant_may_come_first(model: Any) -> None:
    graph = read(between(model, "math.subtract", "_CONSTANT_VALUE", -1, 1.0, y=["x", 0, 0]))
    x = np.random.default_rng(0).normal(size=(6, 5, 4))
    np.testing.assert_allclose(ir_reference.run(graph, {"x": x, "y": np.ones((1, 1, 4))})["f"], 1 - x)


@pytest.mark.parametrize("turned", ["a", "b"])
def test_matrices_are_multiplied(model: Any, turned: str) -> None:
    graph = read(between(model, "linalg.matmul", b=["x", 0, 0], transpose_a=turned == "a", transpose_b=turned == "b"))
    x = np.random.default_rng(0).normal(size=(6, 5, 4))
    columns = x.transpose(0, 2, 1)
    expected = columns @ x if turned == "a" else x @ columns
    np.testing.assert_allclose(ir_reference.run(graph, {"x": x, "y": np.ones((1, 1, 4))})["f"], expected)


def test_a_dot_product_keeps_the_axes_of_each_side(model: Any) -> None:
    layers = [
        model.layer("InputLayer", "x", batch_input_shape=[None, 6, 5, 4]),
        model.layer("InputLayer", "y", batch_input_shape=[None, 4]),
        model.layer("Dot", "f", "x", "y", axes=[3, 1]),
    ]
    graph = read(model.h5(model.functional(layers, ["x", "y"], ["f"])))
    x, y = np.random.default_rng(0).normal(size=(6, 5, 4)), np.arange(4.0)
    result = ir_reference.run(graph, {"x": x, "y": y.reshape(1, 1, 4)})["f"]
    np.testing.assert_allclose(result.ravel(), (x @ y).ravel())


_KERNELS = {"query_dense": (4, 2, 3), "key_dense": (4, 2, 3), "value_dense": (4, 2, 3), "output_dense": (2, 3, 4)}


def attention(model: Any, kernels: Mapping[str, Any], underscore: str = "") -> Path:
    """Of six tokens to each other."""
    made = model.layer("MultiHeadAttention", "x", num_heads=2, key_dim=3, use_bias=False)
    layers = [
        model.layer("InputLayer", "in", batch_input_shape=[None, 6, 4]),
        {**made, "inbound_nodes": [[["in", 0, 0, {"value": ["in", 0, 0]}]]]},
    ]
    arrays = {f"layers/multi_head_attention/{underscore}{name}/vars/0": values for name, values in kernels.items()}
    path: Path = model.keras(model.functional(layers, ["in"], ["x"]), arrays)
    return path


def test_macs_of_attention_are_those_of_its_products_too(model: Any, numbers: Any) -> None:
    report = inspect(attention(model, {name: numbers(*shape) / 50 for name, shape in _KERNELS.items()}))
    with_weights, of_maps = 6 * 4 * 4 * 6, 2 * 6 * 6 * 6
    assert [(layer.runs, layer.macs) for layer in report.layers] == [
        ("none", 0),
        ("device+cpu", with_weights + of_maps),
    ]
    assert report.work is not None
    assert (report.work.macs, report.work.macs_on_device) == (with_weights + of_maps, with_weights)


@pytest.mark.parametrize("underscore", ["", "_"])
def test_the_parts_of_attention_have_groups_of_their_own(model: Any, numbers: Any, underscore: str) -> None:
    """Versions of Keras 3 name them differently."""
    kernels = {name: numbers(*shape) / 50 - 0.2 for name, shape in _KERNELS.items()}
    graph = read(attention(model, kernels, underscore))
    x = np.random.default_rng(0).normal(size=(6, 4))
    q, k, v = (np.einsum("tc,chd->htd", x, kernels[f"{name}_dense"]) for name in ("query", "key", "value"))
    weights = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(3))
    mixed = weights / weights.sum(-1, keepdims=True) @ v
    expected = np.einsum("htd,hdc->tc", mixed, kernels["output_dense"])
    result = ir_reference.run(graph, {"in": x[None]})["x"][0]
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_lists_of_tensors_are_joined(model: Any) -> None:
    path = between(model, "concat")
    network = model.functional(
        [
            model.layer("InputLayer", "x", batch_input_shape=[None, 6, 5, 4]),
            {
                "class_name": "TFOpLambda",
                "name": "f",
                "config": {"name": "f", "trainable": True, "dtype": "float32", "function": "concat"},
                "inbound_nodes": [[["x", 0, 0, {"axis": 2, "name": None}], ["x", 0, 0, {"axis": 2, "name": None}]]],
            },
        ],
        ["x"],
        ["f"],
    )
    path = model.h5(network)
    assert read(path).shape("f") == (6, 10, 4)


@pytest.mark.parametrize(
    ("function", "keywords", "message"),
    [
        ("math.add", {}, "'x2' is missing"),
        ("math.add", {"y": [1.0, 2.0]}, "does not go with"),
        ("math.add", {"y": "much"}, "not numbers"),
        ("math.add", {"y": 10**400}, "the constant is too large for a number"),
        ("math.maximum", {"y": [1.0, 2.0, 3.0, 4.0]}, "one number"),
        ("math.pow", {"y": ["y", 0, 0]}, "exponent that is a tensor"),
        ("cast", {"dtype": "int32"}, "a cast to int32"),
        ("reshape", {"shape": [30, 4]}, "keras.layers.Reshape"),
        ("transpose", {"perm": [1, 0, 2, 3]}, "keras.layers.Permute"),
        ("expand_dims", {"axis": 0}, "before the batch"),
        ("squeeze", {"axis": 1}, "longer than 1"),
        ("math.reduce_mean", {"axis": 0}, "batch"),
        ("math.reduce_mean", {"axis": 7}, "does not have the axes"),
        ("pad", {"paddings": [[0, 0], [1, 0], [0, 2], [0, 1]]}, "only height and width"),
        ("pad", {"paddings": [[0, 0], [1, 0], [0, 2], [0, 0]], "mode": "REFLECT"}, "reflect"),
        ("image.resize", {"size": [3, 5], "method": "area"}, "'area'"),
        ("image.resize", {"size": [3, 5], "antialias": True}, "antialias"),
        ("nn.depth_to_space", {"block_size": 3}, "blocks of 3x3"),
        ("split", {"num_or_size_splits": 3, "axis": 3}, "split of 4"),
        ("split", {"num_or_size_splits": [], "axis": 3}, "split of 4"),
        ("split", {"num_or_size_splits": [1, 2], "axis": 3}, "split of 4"),
        ("nn.relu", {"unheard_of": 3}, "unheard_of = 3"),
        ("linalg.inv", {}, "operation linalg.inv"),
        ("__operators__.getitem", {"slice_spec": [0]}, "part of the batch"),
        (
            "__operators__.getitem",
            {"slice_spec": [EVERYTHING, {"start": 9, "stop": None, "step": None}]},
            "an output of the network has no elements",
        ),
        ("__operators__.getitem", {"slice_spec": [DOTS, {"start": None, "stop": None, "step": -1}]}, "positive step"),
        ("__operators__.getitem", {"slice_spec": [EVERYTHING] * 5}, "5 indices"),
    ],
)
def test_what_functions_cannot_do_is_refused(model: Any, function: str, keywords: Any, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        read(between(model, function, **keywords))
    (problem,) = caught.value.problems
    assert message in f"{problem.message}; {problem.hint}" and problem.where is not None and problem.where.layer == "f"


def test_hard_sigmoid_is_that_of_the_version_that_saved_the_file(model: Any) -> None:
    network = model.sequential(
        model.layer("InputLayer", "in", batch_input_shape=[None, 1, 1, 3]),
        model.layer("Activation", "x", activation="hard_sigmoid"),
    )
    x = np.array([[[-1.0, 0.5, 2.0]]])
    for path, slope in ((model.h5(network), 0.2), (model.keras(network), 1 / 6)):
        np.testing.assert_allclose(ir_reference.run(read(path), {"in": x})["x"], x * slope + 0.5)
