"""Layers, one by one: what they compute, and which of their forms are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.errors import ConvertorError, ConvertorWarning, ModelError, UnsupportedError
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph

Array = NDArray[Any]
Values = Callable[[Graph, Array], list[Array]]

RANDOM = np.random.default_rng(5)
MAP = RANDOM.standard_normal((4, 6, 5))
VECTOR = RANDOM.standard_normal((6, 1, 1))
HEADER = 'input: "x" input_shape { dim: 8 dim: 4 dim: 6 dim: 5 }\n'
VECTOR_HEADER = 'input: "x" input_shape { dim: 8 dim: 6 }\n'


def layer(type: str, settings: str = "", *, bottoms: Sequence[str] = ("x",), tops: Sequence[str] = ("y",)) -> str:
    ends = " ".join([f'bottom: "{name}"' for name in bottoms] + [f'top: "{name}"' for name in tops])
    return f'layer {{ name: "l" type: "{type}" {ends} {settings} }}'


def column(*numbers: float) -> Array:
    return np.array(numbers).reshape(-1, 1, 1)


FOUR = np.array([0.5, -2, 3, 0.25])
OTHER = np.array([1.0, 0, -1, 2])
LAYERS: dict[str, tuple[str, list[Array], Array]] = {
    "relu": (layer("ReLU"), [], np.maximum(MAP, 0)),
    "leaky relu": (layer("ReLU", "relu_param { negative_slope: 0.1 }"), [], np.where(MAP > 0, MAP, MAP * 0.1)),
    "relu6": (layer("ReLU6"), [], np.clip(MAP, 0, 6)),
    "prelu": (layer("PReLU"), [FOUR], np.where(MAP > 0, MAP, MAP * FOUR[:, None, None])),
    "shared prelu": (
        layer("PReLU", "prelu_param { channel_shared: true }"),
        [column(3)],
        np.where(MAP > 0, MAP, MAP * 3),
    ),
    "elu": (layer("ELU", "elu_param { alpha: 1 }"), [], np.where(MAP > 0, MAP, np.expm1(MAP))),
    "sigmoid": (layer("Sigmoid"), [], 1 / (1 + np.exp(-MAP))),
    "tanh": (layer("TanH", "tanh_param { engine: CAFFE }"), [], np.tanh(MAP)),
    "softmax": (layer("Softmax", "softmax_param { axis: -3 }"), [], np.exp(MAP) / np.exp(MAP).sum(0)),
    "power": (layer("Power", "power_param { scale: 2 shift: 3 }"), [], 2 * MAP + 3),
    "scale": (layer("Scale"), [FOUR], MAP * FOUR[:, None, None]),
    "scale with bias": (
        layer("Scale", "scale_param { bias_term: true axis: -3 }"),
        [FOUR, OTHER.reshape(1, 1, 1, 4)],
        MAP * FOUR[:, None, None] + OTHER[:, None, None],
    ),
    "scale by one number": (layer("Scale", "scale_param { num_axes: 0 }"), [np.array(2.0)], MAP * 2),
    "batch norm": (
        layer("BatchNorm", "batch_norm_param { eps: 0.5 }"),
        [OTHER * 4, FOUR**2 * 4, np.array([4.0])],
        (MAP - OTHER[:, None, None]) / np.sqrt(FOUR[:, None, None] ** 2 + 0.5),
    ),
    "batch norm without statistics": (
        layer("BatchNorm", "batch_norm_param { eps: 4 }"),
        [OTHER, FOUR, np.zeros(1)],
        MAP / 2,
    ),
    "BN of PSPNet": (
        layer("BN", "bn_param { frozen: true eps: 0.5 momentum: 0.9 slope_filler { type: 'constant' } }"),
        [*(array.reshape(1, 4, 1, 1) for array in (FOUR, OTHER, FOUR + 1, FOUR**2))],
        (MAP - column(*FOUR + 1)) / np.sqrt(column(*FOUR**2) + 0.5) * column(*FOUR) + column(*OTHER),
    ),
    "BN of SegNet": (
        layer("BN", "bn_param { bn_mode: INFERENCE }"),
        [FOUR, OTHER],
        MAP * FOUR[:, None, None] + OTHER[:, None, None],
    ),
    "sum": (layer("Eltwise", bottoms=("x", "x", "x")), [], 3 * MAP),
    "weighted sum": (layer("Eltwise", "eltwise_param { coeff: 1 coeff: -0.5 }", bottoms=("x", "x")), [], MAP / 2),
    "concat": (layer("Concat", "concat_param { axis: -3 }", bottoms=("x", "x")), [], np.concatenate([MAP, MAP])),
    "concat of one": (layer("Concat"), [], MAP),
    "dropout": (layer("Dropout", "dropout_param { dropout_ratio: 0.9 }"), [], MAP),
    "flatten": (layer("Flatten"), [], MAP.reshape(-1, 1, 1)),
    "reshape to a vector": (
        layer("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }"),
        [],
        MAP.reshape(-1, 1, 1),
    ),
    "reshape to a map": (
        layer("Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: 10 dim: 6 } }"),
        [],
        MAP.reshape(2, 10, 6),
    ),
    "reshape with the definition's batch": (
        layer("Reshape", "reshape_param { shape { dim: 8 dim: 2 dim: 10 dim: 6 } }"),
        [],
        MAP.reshape(2, 10, 6),
    ),
    "reshape of some axes": (
        layer("Reshape", "reshape_param { shape { dim: 5 dim: 6 } axis: -3 num_axes: 2 }"),
        [],
        MAP.reshape(4, 5, 6),
    ),
    "upsample": (layer("Upsample", "upsample_param { scale: 3 }"), [], MAP.repeat(3, 1).repeat(3, 2)),
    "max pool": (
        layer("Pooling", "pooling_param { kernel_size: 3 stride: 3 }"),
        [],
        np.stack([MAP[:, i : i + 3, j : j + 3].max((1, 2)) for i in (0, 3) for j in (0, 3)], 1).reshape(4, 2, 2),
    ),
    "average pool that reaches beyond": (
        layer("Pooling", "pooling_param { pool: AVE kernel_h: 6 kernel_w: 4 stride: 4 }"),
        [],
        np.stack([MAP[:, :, :4].mean((1, 2)), MAP[:, :, 4:].mean((1, 2))], 1)[:, None],
    ),
    "global pool": (
        layer("Pooling", "pooling_param { pool: AVE global_pooling: true }"),
        [],
        MAP.mean((1, 2), keepdims=True),
    ),
    "pool wider than the map": (
        layer("Pooling", "pooling_param { pool: AVE kernel_size: 7 stride: 7 }"),
        [],
        MAP.mean((1, 2), keepdims=True),
    ),
    "convolution of 1x1": (
        layer("Convolution", "convolution_param { num_output: 2 kernel_size: 1 }"),
        [np.arange(8.0).reshape(2, 4, 1, 1), np.array([1.0, 2]).reshape(1, 1, 1, 2)],
        np.einsum("oi,ihw->ohw", np.arange(8.0).reshape(2, 4), MAP) + column(1, 2),
    ),
    "depthwise convolution without group": (
        layer("ConvolutionDepthwise", "convolution_param { num_output: 4 kernel_size: 1 bias_term: false }"),
        [FOUR.reshape(4, 1, 1, 1)],
        MAP * FOUR[:, None, None],
    ),
    "deconvolution in two groups": (
        layer("Deconvolution", "convolution_param { num_output: 2 group: 2 kernel_size: 1 bias_term: false }"),
        [FOUR.reshape(4, 1, 1, 1)],
        (MAP * FOUR[:, None, None]).reshape(2, 2, 6, 5).sum(1),
    ),
    "inner product": (
        layer("InnerProduct", "inner_product_param { num_output: 2 bias_term: false }"),
        [np.arange(240.0).reshape(1, 1, 2, 120)],
        (np.arange(240.0).reshape(2, 120) @ MAP.ravel()).reshape(2, 1, 1),
    ),
    "transposed inner product": (
        layer("InnerProduct", "inner_product_param { num_output: 2 transpose: true }"),
        [np.arange(240.0).reshape(120, 2), np.array([5.0, 6])],
        (MAP.ravel() @ np.arange(240.0).reshape(120, 2) + [5, 6]).reshape(2, 1, 1),
    ),
}


@pytest.mark.parametrize("case", LAYERS)
def test_a_layer_computes_what_it_should(case: str, load: Any, values: Values) -> None:
    definition, blobs, expected = LAYERS[case]
    graph = load(HEADER + definition, {"l": blobs})
    (result,) = values(graph, MAP)
    np.testing.assert_allclose(result, expected, atol=1e-4)
    assert graph.outputs == ("l",)
    assert [origin.line for origin in graph["l"].origins] == [2]


VECTOR_LAYERS: dict[str, tuple[str, list[Array], Array]] = {
    "softmax on the last axis": (layer("Softmax", "softmax_param { axis: -1 }"), [], np.exp(VECTOR) / np.exp(VECTOR).sum()),
    "flatten": (layer("Flatten"), [], VECTOR),
    "reshape to a map": (
        layer("Reshape", "reshape_param { shape { dim: -1 dim: 2 dim: 3 dim: 1 } }"),
        [],
        VECTOR.reshape(2, 3, 1),
    ),
    "scale of all axes": (layer("Scale", "scale_param { num_axes: -1 }"), [np.arange(6.0)], VECTOR * column(*range(6))),
}  # fmt: skip


@pytest.mark.parametrize("case", VECTOR_LAYERS)
def test_a_layer_on_a_vector_computes_what_it_should(case: str, load: Any, values: Values) -> None:
    definition, blobs, expected = VECTOR_LAYERS[case]
    (result,) = values(load(VECTOR_HEADER + definition, {"l": blobs}), VECTOR)
    np.testing.assert_allclose(result, expected, atol=1e-6)


UNSUPPORTED = {
    "unknown type": (layer("LRN"), "DV301", "layers of the type LRN cannot be converted"),
    "data": (layer("Data", bottoms=()) + layer("Eltwise", bottoms=("y", "x"), tops=("z",)), "DV301", "put an Input layer"),
    "stochastic pool": (layer("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }"), "DV302", "STOCHASTIC"),
    "product": (layer("Eltwise", "eltwise_param { operation: PROD }", bottoms=("x", "x")), "DV302", "PROD"),
    "maximum": (layer("Eltwise", "eltwise_param { operation: MAX }", bottoms=("x", "x")), "DV302", "MAX"),
    "square": (layer("Power", "power_param { power: 2 }"), "DV302", "the power 2"),
    "other elu": (layer("ELU", "elu_param { alpha: 0.5 }"), "DV302", "alpha 0.5"),
    "leaky relu6": (layer("ReLU6", "relu_param { negative_slope: 0.1 }"), "DV302", "negative slope"),
    "softmax of rows": (layer("Softmax", "softmax_param { axis: 2 }"), "DV302", "another axis than the channels"),
    "concat of rows": (layer("Concat", "concat_param { axis: 2 }", bottoms=("x", "x")), "DV302", "axis 2"),
    "concat of the batch": (layer("Concat", "concat_param { concat_dim: 0 }", bottoms=("x", "x")), "DV302", "axis 0"),
    "inner product of rows": (layer("InnerProduct", "inner_product_param { num_output: 2 axis: 2 }"), "DV302", "other axes"),
    "convolution of rows": (layer("Convolution", "convolution_param { num_output: 2 kernel_size: 1 axis: 2 }"), "DV302", "other axes"),
    "flatten of rows": (layer("Flatten", "flatten_param { axis: 2 }"), "DV302", "the axes 2 to 3"),
    "scale by another blob": (layer("Scale", bottoms=("x", "x")), "DV302", "scaling by another blob"),
    "batch norm of the batch": (layer("BatchNorm", "batch_norm_param { use_global_stats: false }"), "DV302", "use_global_stats: false"),
    "pool with its mask": (layer("Pooling", "pooling_param { kernel_size: 2 }", tops=("y", "m")), "DV302", "2 outputs"),
    "pool with dilation": (layer("Pooling", "pooling_param { kernel_size: 2 dilation: 2 }"), "DV302", "pooling_param.dilation"),
    "pool of nothing": (layer("Pooling", "pooling_param { kernel_size: 1 stride: 7 }"), "DV302", "wholly beyond"),
    "unpooling": (layer("Upsample", "upsample_param { scale: 2 }", bottoms=("x", "x")), "DV302", "2 inputs"),
    "upsample to a size": (layer("Upsample", "upsample_param { upsample_h: 9 }"), "DV302", 'by a given "scale"'),
    "upsample with more": (layer("Upsample", "upsample_param { scale: 2 pad_out_h: true }"), "DV302", "pad_out_h"),
    "batch norm with scale": (layer("BatchNorm", "batch_norm_param { scale_bias: true }"), "DV302", "batch_norm_param.scale_bias"),
    "BN of the batch": (layer("BN", "bn_param { bn_mode: LEARN }"), "DV302", "bn_mode: LEARN"),
    "scale by a map": (layer("Scale", "scale_param { num_axes: -1 }"), "DV302", "one factor a channel"),
    "dropout that scales": (layer("Dropout", "dropout_param { scale_train: false }"), "DV302", "scale_train"),
    "training form": (layer("Dropout", "phase: TRAIN"), "DV302", "phase: TRAIN"),
    "reshape to three axes": (layer("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 2 } }"), "DV302", "1x60x2"),
    "reshape of the batch": (layer("Reshape", "reshape_param { shape { dim: -1 dim: 5 } }"), "DV302", "24x5"),
    "depthwise in groups": (layer("DepthwiseConvolution", "convolution_param { num_output: 4 group: 2 }"), "DV302", "in 2 groups"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_a_form_that_cannot_be_converted_is_refused(case: str, load: Any) -> None:
    definition, code, says = UNSUPPORTED[case]
    with pytest.raises(UnsupportedError) as caught:
        load(HEADER + definition, {"l": [FOUR, FOUR, np.ones(1)]})
    (problem,) = caught.value.problems
    assert problem.code == code
    assert says in str(problem)
    assert problem.where is not None
    assert (problem.where.layer, problem.where.line) == ("l", 2)


CONVOLUTION = "convolution_param { num_output: 2 kernel_size: 1 %s }"
SENSELESS = {
    "no type": (layer(""), "DV212", "the layer has no type"),
    "no kernel": (layer("Convolution", "convolution_param { num_output: 2 }"), "DV206", "no kernel size"),
    "no outputs": (layer("Convolution", "convolution_param { kernel_size: 2 }"), "DV206", '"num_output" is missing'),
    "no outputs, full": (layer("InnerProduct"), "DV206", '"num_output" is missing'),
    "stride 0": (layer("Convolution", CONVOLUTION % "stride: 0"), "DV206", "must be at least 1"),
    "kernel twice": (layer("Convolution", CONVOLUTION % "kernel_h: 3 kernel_w: 3"), "DV206", '"kernel_size" is given, and'),
    "half a stride": (layer("Convolution", CONVOLUTION % "stride_h: 2"), "DV206", "must be given together"),
    "three pads": (layer("Convolution", CONVOLUTION % "pad: [1, 1, 1]"), "DV206", '"pad" is given 3 times'),
    "three dilations": (layer("Convolution", CONVOLUTION % "dilation: [1, 1, 1]"), "DV206", '"dilation" is given 3 times'),
    "a kernel beyond all memory": (
        layer("Convolution", "convolution_param { num_output: 2 kernel_size: 4000000000 pad: 4000000000 bias_term: false }"),
        "DV205", "but the definition needs 2x4x4000000000x4000000000",
    ),
    "groups that do not divide": (layer("Convolution", CONVOLUTION % "group: 3"), "DV206", "do not make 3 groups"),
    "no group": (layer("Deconvolution", CONVOLUTION % "group: 0"), "DV206", "do not make 0 groups"),
    "axis beyond": (layer("Softmax", "softmax_param { axis: 4 }"), "DV206", "axis is 4, but the input has 4 axes"),
    "pool without kernel": (layer("Pooling"), "DV206", "no kernel size"),
    "pool padded too much": (layer("Pooling", "pooling_param { kernel_size: 2 pad: 2 }"), "DV206", "must be smaller than the kernel"),
    "padded global pool": (layer("Pooling", "pooling_param { global_pooling: true pad: 1 }"), "DV206", "no padding"),
    "floor pool wider than the map": (layer("Pooling", "pooling_param { kernel_size: 7 ceil_mode: false }"), "DV206", "does not fit"),
    "sum of one": (layer("Eltwise"), "DV206", "two inputs or more"),
    "coefficients missing": (layer("Eltwise", "eltwise_param { coeff: 2 }", bottoms=("x", "x")), "DV206", "1 coefficients"),
    "concat on two axes": (layer("Concat", "concat_param { axis: 1 concat_dim: 1 }"), "DV206", "both given"),
    "reshape to another size": (layer("Reshape", "reshape_param { shape { dim: 0 dim: 7 } }"), "DV206", "cannot become 1x7"),
    "reshape with two unknowns": (layer("Reshape", "reshape_param { shape { dim: -1 dim: -1 } }"), "DV206", "cannot become"),
    "reshape with a 0 too many": (layer("Reshape", "reshape_param { shape { dim: [0, 0, 0, 0, 0] } }"), "DV206", "does not have"),
    "reshape beyond the axes": (layer("Reshape", "reshape_param { axis: 3 num_axes: 2 }"), "DV206", "do not fit an input"),
    "kernel wider than the map": (layer("Convolution", "convolution_param { num_output: 2 kernel_size: 9 bias_term: false }"), "DV202", "smaller than the kernel"),
}  # fmt: skip


@pytest.mark.parametrize("case", SENSELESS)
def test_a_layer_that_makes_no_sense_is_an_error(case: str, load: Any) -> None:
    definition, code, says = SENSELESS[case]
    with pytest.raises(ModelError) as caught:
        load(HEADER + definition, {"l": [np.ones((2, 4, 9, 9))]})
    (problem,) = caught.value.problems
    assert problem.code == code
    assert says in str(problem)
    assert problem.where is not None
    assert (problem.where.layer, problem.where.line) == ("l", 2)


def test_convolutions_need_maps(load: Any) -> None:
    with pytest.raises(ModelError, match="needs a map"):
        load(VECTOR_HEADER + layer("Convolution", CONVOLUTION % ""), {"l": []})


def test_all_that_is_unsupported_is_listed_in_the_order_of_the_network(load: Any) -> None:
    definition = "".join(
        f'\nlayer {{ name: "{name}" type: "{type}" bottom: "{bottom}" top: "{name}" {settings} }}'
        for name, type, bottom, settings in (
            ("a", "LRN", "x", ""),
            ("b", "ELU", "a", "elu_param { alpha: 2 }"),
            ("c", "ReLU", "b", ""),
            ("d", "Warp", "c", ""),
            ("e", "InnerProduct", "d", "inner_product_param { num_output: 3 }"),
            ("f", "LRN", "x", ""),
        )
    )
    with pytest.raises(UnsupportedError) as caught:
        load(HEADER + definition, {"e": [np.ones((3, 7)), np.ones(3)]})
    assert [(p.code, p.where.layer, p.where.line) for p in caught.value.problems if p.where] == [
        ("DV301", "a", 3),
        ("DV302", "b", 4),
        ("DV301", "d", 6),
        ("DV301", "f", 8),
    ]


def test_settings_of_another_type_are_left_out_with_a_warning(load: Any) -> None:
    with pytest.warns(ConvertorWarning, match='"pooling_param" does not belong to a layer of this type'):
        load(HEADER + layer("ReLU", "pooling_param { kernel_size: 2 }"))


# --- weights


def test_all_missing_weights_are_listed(load: Any) -> None:
    definition = HEADER + layer("PReLU") + layer("Scale", bottoms=("y",), tops=("z",)).replace('"l"', '"m"')
    with pytest.raises(ModelError) as caught:
        load(definition)
    assert [(p.code, p.where.layer) for p in caught.value.problems if p.where] == [("DV204", "l"), ("DV204", "m")]
    assert "net.caffemodel holds no weights for the layer" in str(caught.value)


@pytest.mark.parametrize(
    ("blobs", "code", "says"),
    [
        ([np.ones((2, 4, 1, 1))], "DV204", "only 1 of 2 blobs"),
        ([np.ones((2, 4, 1, 1)), np.ones(2), np.ones(2)], "DV204", "3 blobs for the layer, but its definition has only 2"),
        ([np.ones((2, 4, 3, 3)), np.ones(2)], "DV205", "blob 0 of the layer is 2x4x3x3 in net.caffemodel, but the definition needs 2x4x1x1"),
        ([np.ones((2, 4, 1, 1)), np.ones(3)], "DV205", "blob 1 of the layer is 3 in net.caffemodel, but the definition needs 2"),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_an_error(blobs: list[Array], code: str, says: str, load: Any) -> None:
    with pytest.raises(ConvertorError) as caught:
        load(HEADER + layer("Convolution", CONVOLUTION % ""), {"l": blobs})
    (problem,) = caught.value.problems
    assert problem.code == code
    assert says in problem.message


def test_weights_are_read_in_ranges_of_rows(load: Any) -> None:
    weight = RANDOM.standard_normal((4, 6, 3, 3)).astype(np.float32)
    settings = "convolution_param { num_output: 6 kernel_size: 3 bias_term: false %s }"
    graph = load(HEADER + layer("Deconvolution", settings % ""), {"l": [weight]})
    op = graph["l"].op
    assert isinstance(op, ops.ConvTranspose2d)
    np.testing.assert_array_equal(op.weight.load(slice(2, 5)), weight.swapaxes(0, 1)[2:5])

    grouped = load(HEADER + layer("Deconvolution", settings % "group: 2"), {"l": [weight[:, :3]]})["l"].op
    assert isinstance(grouped, ops.ConvTranspose2d)
    expected = np.concatenate([weight[:2, :3].swapaxes(0, 1), weight[2:, :3].swapaxes(0, 1)])
    np.testing.assert_array_equal(grouped.weight.load(slice(1, 5)), expected[1:5])


def test_blobs_are_shared_by_name(load: Any, values: Values) -> None:
    shared = 'param { name: "w" }'
    definition = (
        HEADER + layer("Scale", shared) + layer("Scale", shared, bottoms=("y",), tops=("z",)).replace('"l"', '"m"')
    )
    (result,) = values(load(definition, {"l": [FOUR]}), MAP)
    np.testing.assert_allclose(result, MAP * FOUR[:, None, None] ** 2, atol=1e-6)


def test_two_layers_of_one_name_with_weights_are_an_error(load: Any) -> None:
    definition = HEADER + layer("Scale") + layer("Scale", bottoms=("y",), tops=("z",))
    with pytest.raises(ModelError, match='several layers are called "l"'):
        load(definition, {"l": [FOUR]})


def test_old_weights_and_old_definitions(load: Any, values: Values) -> None:
    weight, bias = RANDOM.standard_normal((3, 120)), np.array([1.0, 2, 3])
    definition = 'layers { name: "l" type: INNER_PRODUCT bottom: "x" top: "y" inner_product_param { num_output: 3 } }'
    (result,) = values(load(HEADER + definition, {"l": [weight, bias]}, v1=True), MAP)
    np.testing.assert_allclose(result.ravel(), weight @ MAP.ravel() + bias, atol=1e-4)
