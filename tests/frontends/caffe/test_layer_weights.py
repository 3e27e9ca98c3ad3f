"""Weights of layers: their shapes, names and order in the file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError, ConvertorWarning, ModelError
from cnn_convertor.ir import ops
from frontends.caffe.layer_texts import CONVOLUTION, FOUR, HEADER, MAP, RANDOM, Array, Values, layer


@pytest.mark.parametrize(("kernel", "row"), [(4, [0.25, 0.75, 0.75, 0.25]), (5, [1 / 3, 2 / 3, 1, 2 / 3, 1 / 3])])
def test_a_bilinear_deconvolution_that_was_never_trained(kernel: int, row: list[float], load: Any) -> None:
    settings = f"num_output: 4 group: 4 kernel_size: {kernel} stride: 2 weight_filler {{ type: 'bilinear' }}"
    definition = HEADER + layer("Deconvolution", f"convolution_param {{ {settings} bias_filler {{ value: 0.5 }} }}")
    with pytest.warns(ConvertorWarning, match="DV214: the weights file holds nothing for the layer"):
        op = load(definition)["l"].op
    assert isinstance(op, ops.ConvTranspose2d) and op.bias is not None
    np.testing.assert_allclose(op.weight.load(), np.broadcast_to(np.outer(row, row), (4, 1, kernel, kernel)), rtol=1e-6)
    np.testing.assert_array_equal(op.bias.load(), [0.5] * 4)

    trained = load(definition, {"l": [np.full((4, 1, kernel, kernel), 7.0), FOUR]})["l"].op
    assert isinstance(trained, ops.ConvTranspose2d)
    assert (trained.weight.load() == 7).all()


def test_other_weights_that_are_missing_are_never_made_up(load: Any) -> None:
    for filler in (
        "kernel_size: 4 weight_filler { type: 'constant' value: 1 }",
        "kernel_size: 3 weight_filler { type: 'bilinear' }",
    ):
        with pytest.raises(ModelError, match="DV204"):
            load(HEADER + layer("Deconvolution", f"convolution_param {{ num_output: 4 {filler} }}"))


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


@pytest.mark.parametrize("shape", [(2, 36), (72,), (2, 4, 9), (1, 1, 2, 36), (8, 9)], ids=str)
def test_blobs_whose_axes_are_joined_are_accepted(shape: tuple[int, ...], load: Any) -> None:
    """Old files hold 2x36 for 2x4x3x3: the same numbers in the same order."""
    weight = RANDOM.standard_normal((2, 4, 3, 3)).astype(np.float32)
    settings = "convolution_param { num_output: 2 kernel_size: 3 bias_term: false }"
    op = load(HEADER + layer("Convolution", settings), {"l": [weight.reshape(shape)]})["l"].op
    assert isinstance(op, ops.Conv2d)
    np.testing.assert_array_equal(op.weight.load(slice(1, 2)), weight[1:])


@pytest.mark.parametrize("shape", [(36, 2), (3, 24), (4, 2, 3, 3), (2, 6, 6)], ids=str)
def test_blobs_of_the_same_size_with_other_axes_are_an_error(shape: tuple[int, ...], load: Any) -> None:
    settings = "convolution_param { num_output: 2 kernel_size: 3 bias_term: false }"
    with pytest.raises(ModelError, match="but the definition needs 2x4x3x3"):
        load(HEADER + layer("Convolution", settings), {"l": [np.ones(shape)]})


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
    with pytest.raises(ModelError, match='several layers have the name "l"'):
        load(definition, {"l": [FOUR]})


def test_old_weights_and_old_definitions(load: Any, values: Values) -> None:
    weight, bias = RANDOM.standard_normal((3, 120)), np.array([1.0, 2, 3])
    definition = 'layers { name: "l" type: INNER_PRODUCT bottom: "x" top: "y" inner_product_param { num_output: 3 } }'
    (result,) = values(load(HEADER + definition, {"l": [weight, bias]}, v1=True), MAP)
    np.testing.assert_allclose(result.ravel(), weight @ MAP.ravel() + bias, atol=1e-4)
