"""Layers and their connections as Keras 2 writes them, run with numpy; and what is refused, with the reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorWarning, ModelError, UnsupportedError
from cnn_convertor.frontends.keras.inputs import AUGMENTATIONS, DROPOUTS
from cnn_convertor.ir import ops
from frontends.keras.reading import read, refused
from reference import ir_reference

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


@pytest.mark.parametrize("axis", [-1, 3, None])
def test_keras_contribs_instance_normalization_adds_epsilon_to_the_deviation(
    model: Any, numbers: Any, axis: int | None
) -> None:
    size = 1 if axis is None else 4
    gamma, beta = numbers(size) + 2, numbers(size) - 1
    path = model.single("InstanceNormalization", arrays=[gamma, beta], axis=axis, epsilon=0.5, scale=True, center=True)
    with pytest.warns(ConvertorWarning, match="DV215: the package of this layer is not in the file"):
        graph = read(path)
    x, along = numbers(6, 5, 4) ** 2, (0, 1, 2) if axis is None else (0, 1)
    expected = (x - x.mean(along, keepdims=True)) / (x.std(along, keepdims=True) + 0.5) * gamma + beta
    np.testing.assert_allclose(ir_reference.run(graph, {"in": x})[graph.outputs[0]], expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["GroupNormalization", "InstanceNormalization"])
def test_addons_add_epsilon_to_the_variance(model: Any, numbers: Any, name: str) -> None:
    groups = {"groups": 2} if name == "GroupNormalization" else {}
    gamma, beta = numbers(4) + 2, numbers(4) - 1
    path = model.single(f"Addons>{name}", arrays=[gamma, beta], axis=-1, epsilon=0.5, scale=True, center=True, **groups)
    graph = read(path)
    x = numbers(6, 5, 4) ** 2
    parts = x.reshape(6, 5, 2, 2) if groups else x[..., np.newaxis]
    deviation = np.sqrt(parts.var((0, 1, 3), keepdims=True) + 0.5)
    expected = ((parts - parts.mean((0, 1, 3), keepdims=True)) / deviation).reshape(6, 5, 4) * gamma + beta
    np.testing.assert_allclose(ir_reference.run(graph, {"in": x})[graph.outputs[0]], expected, rtol=1e-4)


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
