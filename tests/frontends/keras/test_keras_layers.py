"""Layers and their connections as Keras 2 writes them, run with numpy; and what is refused, with the reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ModelError, UnsupportedError, UsageError
from cnn_convertor.frontends.keras.custom import load_custom_layers
from cnn_convertor.frontends.keras.importer import load
from cnn_convertor.frontends.keras.inputs import AUGMENTATIONS, DROPOUTS
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph
from reference import ir_reference


def read(path: Path, **options: Any) -> Graph:
    return load(path, path, **options)


def refused(path: Path, **options: Any) -> list[str]:
    """Each problem on one line: code, message and layer."""
    with pytest.raises((UnsupportedError, ModelError)) as caught:
        load(path, path, **options)
    return [f"{p.code} {p.message} @{p.where.layer if p.where else ''}" for p in caught.value.problems]


# --- what is refused -----------------------------------------------------------------------------------------------------

KERNEL = [np.ones((1, 1, 4, 4)), np.ones(4)]
ONE_BY_ONE = {"filters": 4, "kernel_size": 1}


@pytest.mark.parametrize(
    ("type", "config", "arrays", "message"),
    [
        ("Conv2D", {**ONE_BY_ONE, "padding": "causal"}, KERNEL, "causal"),
        ("Conv2D", {**ONE_BY_ONE, "activation": "sparsemax"}, KERNEL, "activation 'sparsemax'"),
        ("Conv2D", {**ONE_BY_ONE, "activation": {"class_name": "function", "config": "mine>fn"}}, KERNEL, "'mine>fn'"),
        ("Conv2D", {**ONE_BY_ONE, "brand_new": 3}, KERNEL, "brand_new = 3"),
        ("Conv2D", {**ONE_BY_ONE, "dtype": "int8_from_float32"}, KERNEL, "int8_from_float32"),
        ("Conv2D", {**ONE_BY_ONE, "strides": [1, 0]}, KERNEL, "at least 1"),
        ("Conv2D", {**ONE_BY_ONE, "data_format": "channels_first"}, KERNEL, "DV205"),
        ("Conv1D", ONE_BY_ONE, KERNEL, "rows (steps, channels)"),
        ("Conv2DTranspose", {**ONE_BY_ONE, "dilation_rate": 2}, KERNEL, "dilation_rate"),
        ("Conv2DTranspose", {**ONE_BY_ONE, "groups": 2}, KERNEL, "in groups"),
        ("ReLU", {"max_value": 4, "threshold": 5}, [], "max_value=4"),
        ("ReLU", {"threshold": -1.0}, [], "threshold -1"),
        ("Softmax", {"axis": [1, 2]}, [], "together"),
        ("Softmax", {"axis": 4}, [], "axis 4"),
        ("BatchNormalization", {"axis": 4}, [np.ones(4)] * 4, "axis 4"),
        ("BatchNormalization", {"renorm": True}, [np.ones(4)] * 4, "renorm"),
        ("LayerNormalization", {"rms_scaling": True}, [np.ones(4)] * 2, "rms_scaling"),
        ("LayerNormalization", {"axis": [3, 3]}, [np.ones(4)] * 2, "axes [3, 3]"),
        ("RMSNormalization", {"axis": 1}, [np.ones(6)], "last axes"),
        ("GroupNormalization", {"groups": 3}, [np.ones(4)] * 2, "3 groups"),
        ("GroupNormalization", {"groups": 2, "axis": 2}, [np.ones(5)] * 2, "groups along axis 2"),
        ("Normalization", {"mean": [1, 2], "variance": [1, 2]}, [], "2 numbers"),
        ("Rescaling", {"scale": [1, 2]}, [], "does not fit"),
        ("Rescaling", {"scale": "much"}, [], "not numbers"),
        ("UpSampling2D", {"interpolation": "bicubic"}, [], "bicubic"),
        ("Resizing", {"height": 3, "width": 3, "crop_to_aspect_ratio": True}, [], "crop_to_aspect_ratio"),
        ("CenterCrop", {"height": 7, "width": 3}, [], "smaller"),
        ("Cropping2D", {"cropping": 3}, [], "nothing of 6x5"),
        ("AdaptiveAveragePooling2D", {"output_size": 4}, [], "different sizes"),
        ("Concatenate", {"axis": 4}, [], "axis 4"),
        ("Reshape", {"target_shape": [7, -1]}, [], "cannot be reshaped"),
        ("Reshape", {"target_shape": [0]}, [], "open size"),
        ("Permute", {"dims": [1, 2]}, [], "order of the axes"),
        ("RepeatVector", {"n": 2}, [], "repeats a vector"),
        ("ZeroPadding2D", {"padding": [[1, -1], [0, 0]]}, [], "below 0"),
        ("Add", {}, [], "1 inputs"),
        ("Lambda", {"function": "x"}, [], "type Lambda"),
        ("TFOpLambda", {"function": "linalg.inv"}, [], "operation linalg.inv"),
        ("TimeDistributed", {}, [], "type TimeDistributed"),
    ],
)
def test_what_cannot_be_converted_is_refused(model: Any, type: str, config: Any, arrays: Any, message: str) -> None:
    (problem,) = refused(model.single(type, arrays=arrays, **config))
    assert message in problem and problem.endswith("@x")


def test_every_reason_is_given_at_once(model: Any) -> None:
    network = model.sequential(
        model.layer("InputLayer", "in", batch_input_shape=[None, 6, 6, 2]),
        model.layer("Masking", "first", mask_value=2),
        model.layer("Conv2D", "conv", filters=3, kernel_size=9, activation="mine"),  # its size may follow from a guess
        model.layer("Lambda", "second"),
        model.layer("Softmax", "softmax", axis=4),  # which axis is which is not known any more
        model.layer("ReLU", "relu", threshold=-2.0),
    )
    assert refused(model.h5(network)) == [
        "DV301 layers of the type Masking cannot be converted @first",
        "DV302 the activation 'mine' is not supported @conv",
        "DV301 layers of the type Lambda cannot be converted @second",
        "DV302 a ReLU with the threshold -2 is not supported @relu",
    ]


def test_a_layer_that_is_called_twice_is_named_once(model: Any) -> None:
    twice = model.layer("Lambda", "twice", "in")
    twice["inbound_nodes"].append([["twice", 0, 0, {}]])
    layers = [model.layer("InputLayer", "in", batch_input_shape=[None, 4, 4, 1]), twice]
    assert len(refused(model.h5(model.functional(layers, ["in"], ["twice"])))) == 1


@pytest.mark.parametrize(("training", "fine"), [(False, True), (None, True), (True, False)])
def test_layers_called_for_training_are_refused(model: Any, training: bool | None, fine: bool) -> None:
    layers = [
        model.layer("InputLayer", "in", batch_input_shape=[None, 4, 4, 1]),
        model.layer("Dropout", "drop", "in", rate=0.5),
    ]
    layers[1]["inbound_nodes"][0][0][3] = {"training": training}
    path = model.h5(model.functional(layers, ["in"], ["drop"]))
    if fine:
        assert read(path).outputs == ("drop",)
    else:
        assert "training=True" in refused(path)[0]


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


@pytest.mark.parametrize("underscore", ["", "_"])
def test_the_parts_of_attention_have_groups_of_their_own(model: Any, numbers: Any, underscore: str) -> None:
    """Versions of Keras 3 name them differently."""
    shapes = {"query_dense": (4, 2, 3), "key_dense": (4, 2, 3), "value_dense": (4, 2, 3), "output_dense": (2, 3, 4)}
    kernels = {name: numbers(*shape) / 50 - 0.2 for name, shape in shapes.items()}
    made = model.layer("MultiHeadAttention", "x", num_heads=2, key_dim=3, use_bias=False)
    layers = [
        model.layer("InputLayer", "in", batch_input_shape=[None, 6, 4]),
        {**made, "inbound_nodes": [[["in", 0, 0, {"value": ["in", 0, 0]}]]]},
    ]
    arrays = {f"layers/multi_head_attention/{underscore}{name}/vars/0": values for name, values in kernels.items()}
    graph = read(model.keras(model.functional(layers, ["in"], ["x"]), arrays))
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


@pytest.mark.parametrize("type", ["BatchNormalizationV1", "BatchNormalizationV2", "SyncBatchNormalization"])
def test_batch_normalization_has_other_names_in_older_files(model: Any, type: str) -> None:
    arrays = [np.full(4, 2.0), np.full(4, 3.0), np.full(4, 5.0), np.full(4, 4.0)]
    settings = {"epsilon": 0.0, "momentum": 0.9, "fused": True, "renorm_clipping": {}, "renorm_momentum": 0.5}
    graph = read(model.single(type, arrays=arrays, axis=[3], **settings))
    x = np.random.default_rng(0).normal(size=(6, 5, 4))
    np.testing.assert_allclose(ir_reference.run(graph, {"in": x})["x"], (x - 5) / 2 * 2 + 3)


@pytest.mark.parametrize("type", [*DROPOUTS, *AUGMENTATIONS, "Identity"])
def test_what_is_for_training_alone_does_nothing(model: Any, type: str) -> None:
    settings: dict[str, Any] = {"factor": 0.5} if type in AUGMENTATIONS else {"seed": 3}
    shape = (6, 4) if "1D" in type else (6, 5, 4)
    assert read(model.single(type, shape=shape, **settings))["x"].op == ops.Identity()


@pytest.mark.parametrize(
    ("type", "setting"),
    [("DepthwiseConv2D", {"groups": 1}), ("DepthwiseConv2D", {"groups": 4}), ("LeakyReLU", {"alpha": 0.1})],
)
def test_settings_that_keras_2_wrote(model: Any, type: str, setting: dict[str, Any]) -> None:
    kernel = np.arange(1.0, 5).reshape(1, 1, 4, 1)
    more = {"kernel_size": 1, "use_bias": False} if type == "DepthwiseConv2D" else {}
    graph = read(model.single(type, arrays=[kernel] if more else [], **more, **setting))
    x = np.random.default_rng(0).normal(size=(6, 5, 4))
    expected = x * kernel.reshape(4) if more else np.where(x > 0, x, 0.1 * x)
    np.testing.assert_allclose(ir_reference.run(graph, {"in": x})["x"], expected)


def test_a_layer_as_an_activation_has_no_setting_left_out(model: Any) -> None:
    inner = {"class_name": "LeakyReLU", "config": {"name": "l", "negative_slope": 0.5, "brand_new": 3}}
    (problem,) = refused(model.single("Activation", activation=inner))
    assert problem == "DV302 the setting brand_new = 3 of the activation LeakyReLU is not supported @x"
    graph = read(
        model.single("Conv2D", arrays=KERNEL, **ONE_BY_ONE, activation={"class_name": "Softmax", "config": {"axis": 1}})
    )
    assert graph["x"].op == ops.Softmax(ops.Axis.HEIGHT)


def test_a_thresholded_relu_of_keras_2(model: Any) -> None:
    graph = read(model.single("ThresholdedReLU", shape=(3,), theta=1.0))
    result = ir_reference.run(graph, {"in": np.array([[[0.5, 1.0, 1.5]]])})["x"]
    np.testing.assert_array_equal(result.ravel(), [0, 0, 1.5])


@pytest.mark.parametrize(
    ("type", "advice"),
    [
        ("LSTM", "Conv1D"), ("Bidirectional", "Conv1D"), ("ConvLSTM2D", "Conv1D"), ("AdditiveAttention", "MultiHeadAttention"),
        ("Embedding", "in the application"), ("Masking", "give all steps"), ("Lambda", "Rescaling"), ("Conv3D", "2D layers"),
        ("TimeDistributed", "Dense and Conv1D"), ("SpectralNormalization", "without the wrapper"), ("Mine", "custom layer"),
    ],
)  # fmt: skip
def test_layers_that_nothing_can_run_say_what_to_do(model: Any, type: str, advice: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        read(model.single(type))
    (problem,) = caught.value.problems
    assert type in problem.message and advice in problem.hint


def test_a_part_of_a_split_that_is_not_there_is_refused(model: Any) -> None:
    def split(output: int) -> Path:
        layers = [
            model.layer("InputLayer", "in", batch_shape=[None, 4, 4, 4]),
            {
                "class_name": "Split",
                "name": "s",
                "config": {"name": "s", "indices_or_sections": 2, "axis": -1},
                "module": "keras.src.ops.numpy",
                "inbound_nodes": [
                    {
                        "args": [{"class_name": "__keras_tensor__", "config": {"keras_history": ["in", 0, 0]}}],
                        "kwargs": {},
                    }
                ],
            },
        ]
        network = model.functional(layers, ["in"], [])
        network["config"]["output_layers"] = [["s", 0, output]]
        return model.keras(network)  # type: ignore[no-any-return]  # model is Any

    assert read(split(1)).outputs == ("s/part1",)
    with pytest.raises(ModelError, match="the output 2 is used, but the layer has 2"):
        read(split(2))


# --- inputs --------------------------------------------------------------------------------------------------------------


def open_size(model: Any) -> Path:
    return model.single("MaxPooling2D", shape=(None, None, 3))  # type: ignore[no-any-return]  # model is Any


def test_an_open_input_size_asks_for_the_ini_file(model: Any) -> None:
    with pytest.raises(ModelError, match="width_override and height_override"):
        read(open_size(model))
    assert read(open_size(model), size=(8, 6)).shape("x") == (4, 3, 3)


def test_the_size_can_be_overridden(model: Any) -> None:
    assert read(model.single("MaxPooling2D", shape=(6, 4, 3)), size=(20, 10)).shape("x") == (10, 5, 3)


@pytest.mark.parametrize("kind", ["batch_input_shape", "build_input_shape", "list"])
def test_a_sequential_model_may_have_no_input_layer(model: Any, kind: str) -> None:
    first = model.layer(
        "MaxPooling2D", "pool", **({} if kind == "build_input_shape" else {"batch_input_shape": [None, 4, 6, 2]})
    )
    network = model.sequential(first)
    if kind == "build_input_shape":
        network["config"]["build_input_shape"] = [None, 4, 6, 2]
    if kind == "list":  # Keras before 2.2.3
        network["config"] = network["config"]["layers"]
    graph = read(model.h5(network))
    assert [node.name for node in graph.nodes] == ["pool_input", "pool"] and graph.shape("pool") == (2, 3, 2)


def test_a_sequential_model_without_any_size_is_refused(model: Any) -> None:
    assert "DV206" in refused(model.h5(model.sequential(model.layer("MaxPooling2D", "pool"))))[0]


# --- connections ---------------------------------------------------------------------------------------------------------


def test_inputs_and_outputs_keep_their_order(model: Any) -> None:
    layers = [
        model.layer("InputLayer", "b", batch_input_shape=[None, 4, 4, 1]),
        model.layer("InputLayer", "a", batch_input_shape=[None, 4, 4, 2]),
        model.layer("ReLU", "middle", "a"),
        model.layer("Concatenate", "cat", "middle", "b", "a"),
        model.layer("MaxPooling2D", "pool", "cat"),
    ]
    graph = read(model.h5(model.functional(layers, ["a", "b"], ["pool", "middle"])))
    assert [node.name for node in graph.inputs] == ["a", "b"]
    assert graph.outputs == ("pool", "middle") and graph["cat"].inputs == ("middle", "b", "a")


def test_a_shared_layer_gives_a_node_for_each_call(model: Any) -> None:
    conv = model.layer("Conv2D", "conv", "in", filters=2, kernel_size=1, use_bias=False)
    conv["inbound_nodes"].append([["conv", 0, 0, {}]])
    layers = [model.layer("InputLayer", "in", batch_input_shape=[None, 1, 1, 2]), conv]
    config = model.functional(layers, ["in"], ["conv"])
    config["config"]["output_layers"] = [["conv", 1, 0], ["conv", 0, 0]]
    kernel = np.array([[1, 2], [3, 5]], np.float32)
    graph = read(model.h5(config, {"conv": [("kernel", kernel[None, None])]}))
    assert graph.outputs == ("conv#2", "conv")
    x = np.array([1.0, 10.0])
    values = ir_reference.run(graph, {"in": x[None, None]})
    np.testing.assert_array_equal(values["conv#2"].ravel(), x @ kernel @ kernel)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("names", [True, False], ids=["by name", "by order"])
def test_nested_models_of_keras_2(model: Any, names: bool, frozen: bool) -> None:
    """Keras 2 counts an inner model's calls from 1, and lists its trained arrays before the others."""
    inner = model.functional(
        [
            model.layer("InputLayer", "x", batch_input_shape=[None, 1, 1, 1]),
            model.layer("BatchNormalization", "bn", "x", epsilon=0.0, trainable=not frozen),
            model.layer("Conv2D", "conv", "bn", filters=1, kernel_size=1, use_bias=False),
        ],
        ["x"],
        ["conv"],
        name="inner",
    )
    inner |= {"name": "inner", "inbound_nodes": [[["in", 0, 0, {}]], [["inner", 1, 0, {}]]]}
    layers = [model.layer("InputLayer", "in", batch_input_shape=[None, 1, 1, 1]), inner]
    config = model.functional(layers, ["in"], [])
    config["config"]["output_layers"] = [["inner", 2, 0]]
    values = {"gamma": 2.0, "beta": 3.0, "mean": 5.0, "variance": 4.0}
    bn = [("bn/" if names else "a/") + f"{n if n in ('gamma', 'beta') else 'moving_' + n}" for n in values]
    listed = dict(zip(bn, ([v] for v in values.values()), strict=True))
    kernel = {"conv/kernel" if names else "b/kernel": [[[[7.0]]]]}
    if frozen:
        arrays = {**kernel, **listed}
    else:
        arrays = {**dict(list(listed.items())[:2]), **kernel, **dict(list(listed.items())[2:])}
    graph = read(model.h5(config, {"inner": [(n, np.array(v, np.float32)) for n, v in arrays.items()]}))
    assert [n.name for n in graph.nodes] == ["in", "inner/bn", "inner/conv", "inner/bn#2", "inner/conv#2"]

    def once(x: float) -> float:
        return ((x - 5) / 2 * 2 + 3) * 7

    result = ir_reference.run(graph, {"in": np.full((1, 1, 1), 11.0)})[graph.outputs[0]]
    assert result.item() == once(once(11.0))


def test_softmax_as_an_activation_is_a_node_of_its_own(model: Any) -> None:
    path = model.single("Dense", shape=(3,), arrays=[np.eye(3), np.zeros(3)], units=3, activation="softmax")
    graph = read(path)
    assert [n.name for n in graph.nodes] == ["in", "x/linear", "x"] and graph["x"].op == ops.Softmax()


def test_dense_on_a_map_acts_on_the_channels(model: Any) -> None:
    weights = np.arange(12.0).reshape(4, 3)
    graph = read(model.single("Dense", arrays=[weights, np.ones(3)], units=3, activation="relu"))
    x = np.random.default_rng(0).normal(size=(6, 5, 4))
    np.testing.assert_allclose(ir_reference.run(graph, {"in": x})["x"], np.maximum(x @ weights + 1, 0))


# --- axes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flatten", "order"), [("channels_first", "HWC"), ("channels_last", "CHW")])
def test_flatten_after_channels_first(model: Any, flatten: str, order: str) -> None:
    """With data_format="channels_first", Keras moves the channels to the end; without, it takes the tensor as it is."""
    network = model.sequential(
        model.layer("InputLayer", "in", batch_input_shape=[None, 2, 3, 4]),
        model.layer("ZeroPadding2D", "pad", padding=0, data_format="channels_first"),
        model.layer("Flatten", "flat", data_format=flatten),
    )
    graph = read(model.h5(network))
    assert graph.shape("in") == (3, 4, 2)
    chw = np.arange(24.0).reshape(2, 3, 4)
    expected = chw.transpose(1, 2, 0) if order == "HWC" else chw
    result = ir_reference.run(graph, {"in": chw.transpose(1, 2, 0)})["flat"]
    np.testing.assert_array_equal(result.ravel(), expected.ravel())


@pytest.mark.parametrize(
    ("type", "config", "arrays"),
    [
        ("BatchNormalization", {"axis": 1}, [np.ones(2)] * 4),
        ("BatchNormalization", {"axis": [1]}, [np.ones(2)] * 4),
        ("PReLU", {"shared_axes": [2, 3]}, [np.ones((2, 1, 1))]),
        ("MaxPooling2D", {"data_format": "channels_first", "pool_size": 1}, []),
    ],
)
def test_the_first_layer_that_tells_decides_on_the_inputs_axes(model: Any, type: str, config: Any, arrays: Any) -> None:
    network = model.sequential(
        model.layer("InputLayer", "in", batch_input_shape=[None, 2, 3, 4]),
        model.layer("Activation", "act", activation="relu"),
        model.layer(type, "x", **config),
    )
    assert read(model.h5(network, {"x": [(f"v{i}", a) for i, a in enumerate(arrays)]})).shape("in") == (3, 4, 2)


def test_mixed_data_formats_turn_the_map(model: Any) -> None:
    """The second layer takes the first one's channels for its rows."""
    network = model.sequential(
        model.layer("InputLayer", "in", batch_input_shape=[None, 2, 6, 4]),
        model.layer("MaxPooling2D", "first", data_format="channels_first"),
        model.layer("MaxPooling2D", "last", data_format="channels_last"),
    )
    graph = read(model.h5(network))
    assert graph.shape("in") == (6, 4, 2)
    tensor = np.random.default_rng(0).normal(size=(2, 6, 4))
    pooled = tensor.reshape(2, 3, 2, 2, 2).max(axis=(2, 4))  # (2, 3, 2), of which Keras takes 2 for the height
    expected = pooled[:, :2].reshape(1, 2, 1, 2, 2).max(axis=(1, 3))
    result = ir_reference.run(graph, {"in": tensor.transpose(1, 2, 0)})["last"]
    np.testing.assert_array_equal(result, expected)


# --- custom layers -------------------------------------------------------------------------------------------------------

CUSTOM = """
custom_layer = {'Twice': (('factor', 'sizes', 'exact'), lambda config, shape: (shape[0] * 2, shape[1], config['depth']))}
"""


def custom_file(folder: Path, text: str) -> Path:
    (folder / "layers.py").write_text(text)
    return folder / "layers.py"


def test_a_custom_layer_has_its_parameters_and_shape(model: Any, tmp_path: Path) -> None:
    custom = custom_file(tmp_path, CUSTOM)
    settings = {"factor": 2.5, "sizes": [1, 2], "exact": True, "depth": 7, "unused": "text"}
    graph = read(model.single("Twice", **settings), custom_layers=custom)
    parameters = (("factor", 2.5), ("sizes", (1, 2)), ("exact", True))
    assert graph["x"].op == ops.Custom("Twice", parameters, ops.Shape(6, 10, 7))


@pytest.mark.parametrize("value", ["text", None, {}, [], [1, 2.5], [[1]]], ids=repr)
def test_other_parameters_are_refused(model: Any, tmp_path: Path, value: Any) -> None:
    custom = custom_file(tmp_path, CUSTOM)
    path = model.single("Twice", factor=value, sizes=[1], exact=False, depth=1)
    (problem,) = refused(path, custom_layers=custom)
    assert problem.startswith("DV303") and "'factor'" in problem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "no dictionary"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit", "SystemExit"),
        ("custom_layer = {'A': 3}", "'A'"),
        ("custom_layer = {'A': ('name', len)}", "'A'"),
        ("custom_layer = (", "SyntaxError"),
        ("custom_layer = {'A b': ((), len), 'A-b': ((), len)}", "types of custom layers 'A b' and 'A-b' .* 'A_b'"),
        ("custom_layer = {'A': (('int', 'int_'), len)}", "parameters of the custom layer 'A' 'int' and 'int_'"),
    ],
)
def test_a_broken_file_of_custom_layers_says_why(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_custom_layers(custom_file(tmp_path, text))
    assert str(caught.value).startswith("DV115: ") and "layers.py" in str(caught.value)


def test_a_missing_file_of_custom_layers_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="DV115: there is no such file"):
        load_custom_layers(tmp_path / "nothing.py")


@pytest.mark.parametrize(
    "function", ["lambda c, s: 1 / 0", "lambda c, s: (1, 2)", "lambda c, s: None", "lambda c, s: (0, 1, 1)"]
)
def test_a_broken_shape_function_is_named(model: Any, tmp_path: Path, function: str) -> None:
    custom = custom_file(tmp_path, f"custom_layer = {{'A': ((), {function})}}")
    with pytest.raises(UsageError, match=r'DV116: the custom layer\'s shape function(.|\n)*"x" \(A\)'):
        read(model.single("A"), custom_layers=custom)


@pytest.mark.parametrize("function", ["lambda c, shape: (shape[0] * 0.5, 1, 1)", "lambda c, shape: shape"])
def test_a_shape_function_of_one_input_learns_that_it_gets_a_list(model: Any, tmp_path: Path, function: str) -> None:
    custom = custom_file(tmp_path, f"custom_layer = {{'A': ((), {function})}}")
    layers = [model.layer("InputLayer", "in", batch_input_shape=[None, 6, 5, 4]), model.layer("A", "x", "in", "in")]
    with pytest.raises(UsageError, match=r"DV116(.|\n)*list of shapes: \[\(5, 6, 4\), \(5, 6, 4\)\]"):
        read(model.h5(model.functional(layers, ["in"], ["x"])), custom_layers=custom)


# --- real networks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "nodes", "output"),
    [
        ("mini_xception_keras2/fer2013_mini_XCEPTION.102-0.66.hdf5", 54, "predictions"),
        ("mini_xception_keras2/gender_mini_XCEPTION.21-0.95.hdf5", 54, "predictions"),
        ("vww_mobilenet_keras2/vww_96.h5", 86, "dense"),
        ("fashion_mnist_keras3/fashion_mnist_cnn.keras", 11, "dense_3"),
    ],
)
def test_trained_networks_are_read(shared: Path, name: str, nodes: int, output: str) -> None:
    graph = read(shared / "models" / name)
    assert (len(graph.nodes), graph.outputs) == (nodes, (output,))
