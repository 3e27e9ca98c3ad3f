"""What nodes compute on constants, compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError
from frontends.onnx.networks import Network, helper, load, results_of, to_map

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")

RANDOM = np.random.default_rng(28)
FLOAT = 1  # TensorProto.FLOAT


def normal(*dims: int) -> Any:
    return RANDOM.standard_normal(dims).astype(np.float32)


def between(low: float, high: float) -> Any:
    return RANDOM.uniform(low, high, (3, 5)).astype(np.float32)


def integers(*numbers: Any) -> Any:
    return np.array(numbers, np.int64)


def node(type: str, *constants: Any, opset: int = 21, outputs: int = 1, used: int = 0, **attributes: Any) -> Network:
    """x plus one of the outputs of a node on constants. None leaves an input out."""
    names = [f"c{at}" if value is not None else "" for at, value in enumerate(constants)]
    given = {name: value for name, value in zip(names, constants, strict=True) if name}
    folded = [f"folded{at}" for at in range(outputs)]
    nodes = [
        helper.make_node(type, names, folded, **attributes),
        helper.make_node("Cast", [folded[used]], ["numbers"], to=FLOAT),
        helper.make_node("Add", ["x", "numbers"], ["y"]),
    ]
    return Network(nodes, {"x": np.ones(1, np.float32)}, given, opset)


X, IMAGE, WEIGHTS = normal(3, 5), normal(1, 8, 4, 6), normal(6, 3, 3, 2)
POSITIVE = [np.abs(normal(8)) + np.float32(0.1) for _ in range(4)]
ROWS = integers([2, -1, 0, 1, 2], [0, 0, 1, -3, 2])
NORM = (np.ones(6, np.float32), np.zeros(6, np.float32), np.zeros(6, np.float32), np.ones(6, np.float32))
TIES = np.array([[1, 5, 3, 5, 1], [2, 2, 2, 0, 9]], np.float32)
CASES: Mapping[str, Network] = {
    **{type.lower(): node(type, X) for type in (
        "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh", "Erf", "Elu", "Selu", "Celu", "LeakyRelu", "HardSigmoid",
        "HardSwish", "Softsign", "Mish", "Gelu", "ThresholdedRelu", "Shrink", "Softmax", "LogSoftmax", "ArgMax", "ArgMin",
        "EyeLike", "Trilu", "NonZero", "IsNaN",
    )},
    **{type.lower(): node(type, between(-0.99, 0.99)) for type in ("Asin", "Acos", "Atanh")},
    "acosh": node("Acosh", between(1, 9)),
    "erf far out": node("Erf", np.linspace(-8, 8, 101, dtype=np.float32)),
    "gelu by tanh": node("Gelu", X, approximate="tanh"),
    "prelu": node("PRelu", X, normal(5)),
    "xor": node("Xor", X > 0, X > 1),
    "bitwise and": node("BitwiseAnd", integers(5, 6), integers(3)),
    "bitwise or": node("BitwiseOr", integers(5, 6), integers(3)),
    "bitwise xor": node("BitwiseXor", integers(5, 6), integers(3)),
    "bitwise not": node("BitwiseNot", integers(5, 6)),
    "gather nd": node("GatherND", IMAGE, integers([0, -1, 2], [0, 3, -1])),
    "gather nd of batches": node("GatherND", normal(2, 3, 4), integers([[1], [-1]], [[0], [2]]), batch_dims=1),
    "gather elements": node("GatherElements", X, ROWS),
    "gather elements of columns": node("GatherElements", X, ROWS, axis=-1),
    "scatter elements": node("ScatterElements", X, integers([2, 0, -2]), normal(1, 3)),
    "scatter elements added": node("ScatterElements", X, integers([2, 2, 2]), normal(1, 3), axis=1, reduction="add"),
    "scatter old": node("Scatter", X, integers([2, 0, 1]), normal(1, 3), opset=10),
    "scatter nd": node("ScatterND", X, integers([2], [-3]), normal(2, 5)),
    "scatter nd largest": node("ScatterND", X, integers([[2, 2], [2, 2]]), normal(1, 2), reduction="max"),
    "one hot": node("OneHot", integers(1, -1, 7), integers(4), np.array([0.5, 2], np.float32)),
    "one hot first": node("OneHot", integers([1, 3], [0, 2]), integers(4), np.array([0, 1], np.float32), axis=0),
    "one hot in the middle": node("OneHot", integers([1, 3, 1]), integers(4), np.array([0, 1], np.float32), axis=1),
    "trilu lower": node("Trilu", X, integers(-1), upper=0),
    "cumsum": node("CumSum", X, np.array(1, np.int64)),
    "cumsum from the end": node("CumSum", X, np.array(-2, np.int64), reverse=1, exclusive=1),
    "cumprod": node("CumProd", X, np.array(1, np.int64), opset=26),
    "argmax of the last": node("ArgMax", TIES, axis=1, keepdims=0, select_last_index=1),
    "top values": node("TopK", TIES, integers(3), outputs=2),
    "top indices": node("TopK", TIES, integers(3), outputs=2, used=1),
    "lowest indices": node("TopK", TIES, integers(2), outputs=2, used=1, largest=0, axis=0),
    "pad": node("Pad", X, integers(1, -1, 0, 2), np.float32(-np.inf)),
    "pad reflect": node("Pad", X, integers(2, 2), None, integers(1), mode="reflect"),
    "bfloat16 between two numbers": node("Cast", 1 + np.arange(-9, 9, dtype=np.float32) / 256, to=16),
    "batch norm": node("BatchNormalization", IMAGE, *POSITIVE, epsilon=1e-3),
    # As exporters write a weight standardization.
    "batch norm of weights": node("BatchNormalization", WEIGHTS.reshape(1, 6, 18), *NORM, outputs=3, training_mode=1),
    "running mean": node("BatchNormalization", IMAGE, *POSITIVE, outputs=3, used=1, training_mode=1),
    "running variance": node("BatchNormalization", IMAGE, *POSITIVE, outputs=3, used=2, training_mode=1),
    "layer norm": node("LayerNormalization", IMAGE, normal(4, 6), normal(4, 6), axis=2),
    "layer norm without a shift": node("LayerNormalization", IMAGE, normal(6)),
    "softmax old": node("Softmax", IMAGE, opset=11),
    "gemm": node("Gemm", X, normal(4, 5), normal(4), transB=1, alpha=0.5, beta=2.0),
    "gemm transposed": node("Gemm", X, normal(3, 2), transA=1),
    "einsum": node("Einsum", X, normal(4, 5), equation="ij, kj -> ik"),
    "einsum of one": node("Einsum", X, equation="ij->j"),
    **{type: node(type, np.abs(X), integers(1), keepdims=0) for type in (
        "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"
    )},
    "log of a sum of large exponentials": node("ReduceLogSumExp", X * 200),
    "norm of each number": node("ReduceL2", X, noop_with_empty_axes=1),
    "conv of positions": node("Conv", IMAGE, normal(6, 8, 1, 1), normal(6), auto_pad="SAME_UPPER"),
    "conv of a sequence": node("Conv", normal(3, 2, 5), normal(4, 2, 1)),
    **{f"resize {mode} {coordinates}": node("Resize", IMAGE, None, None, integers(1, 8, 7, 4), mode=mode,
        coordinate_transformation_mode=coordinates)
        for mode in ("nearest", "linear", "cubic") for coordinates in ("half_pixel", "align_corners", "asymmetric")},
    "resize by scales": node("Resize", IMAGE, None, np.array([1, 1, 1.5, 0.6], np.float32), mode="cubic",
        cubic_coeff_a=-0.5, exclude_outside=1),
    "resize with antialias": node("Resize", IMAGE, None, None, integers(1, 8, 3, 2), mode="linear", antialias=1),
    "resize cubic with antialias": node("Resize", IMAGE, None, None, integers(1, 8, 3, 9), mode="cubic", antialias=1),
    "resize old": node("Resize", IMAGE, np.array([1, 1, 0.6, 2], np.float32), opset=10),
    "upsample": node("Upsample", IMAGE, np.array([1, 1, 2, 3], np.float32), opset=9, mode="linear"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_node_on_constants_computes_what_onnxruntime_does(name: str, tmp_path: Path) -> None:
    network = CASES[name]
    path = network.write(tmp_path / "net.onnx")
    (wanted,) = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, network.inputs)
    (found,) = results_of(load(path), network.inputs)
    np.testing.assert_allclose(found, to_map(wanted), rtol=1e-5, atol=1e-5)


REFUSED: Mapping[str, tuple[Network, str]] = {
    "an index too large": (node("GatherND", X, integers([3])), "does not exist"),
    "indices of too many axes": (node("GatherND", X, integers([0, 0, 0])), "do not fit"),
    "indices for other axes": (node("GatherElements", X, integers(1)), "do not fit"),
    "too few updates": (node("ScatterND", X, integers([2], [1]), normal(1, 5)), "do not fit"),
    "too many of a few": (node("TopK", X, integers(6), outputs=2), "6 of 5"),
    "too few pads": (node("Pad", X, integers(1, 1)), "do not fit"),
    "a padding too large": (node("Pad", X, integers(0, 1 << 40, 0, 0)), "cannot be computed"),
    "too many classes": (node("OneHot", integers(1), integers(1 << 40), np.array([0, 1], np.float32)), "numbers"),
    "an unknown mode": (node("Pad", X, integers(0, 0, 0, 0), mode="turn"), "cannot be computed"),
    "an equation for more inputs": (node("Einsum", X, equation="ij,jk->ik"), "does not fit"),
    "too large a product": (node("Einsum", *[normal(1 << 10)] * 3, equation="i,j,k->ijk"), "numbers"),
    "an ellipsis": (node("Einsum", X, equation="...j->..."), "ellipsis"),
    "larger kernels": (node("Conv", IMAGE, normal(6, 8, 3, 3)), "single elements"),
    "a conv in steps": (node("Conv", IMAGE, normal(6, 8, 1, 1), strides=[2, 2]), "single elements"),
    "a padded conv": (node("Conv", IMAGE, normal(6, 8, 1, 1), pads=[0, 1, 0, 1]), "single elements"),
    "a conv in groups": (node("Conv", IMAGE, normal(8, 1, 1, 1), group=8), "single elements"),
    "a pool": (node("GlobalMaxPool", IMAGE), "not among those that are computed in advance"),
    "a length of nothing": (node("Resize", IMAGE, None, None, integers(1, 8, 0, 2)), "a length of 0"),
    "a resize of a region": (
        node(
            "Resize", IMAGE, normal(8), None, integers(1, 8, 2, 2), coordinate_transformation_mode="tf_crop_and_resize"
        ),
        "tf_crop_and_resize",
    ),
    "an attribute that the type lacks": (node("Neg", X, dilations=[2, 2]), "the attribute dilations"),
    "attributes that the type lacks": (node("Mod", X, X, fmod=1, axis=1, scale=2), "the attributes axis, scale"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_node_that_cannot_be_computed_is_the_only_one_reported(name: str, tmp_path: Path) -> None:
    network, words = REFUSED[name]
    with pytest.raises(ConvertorError, match=words) as refusal:
        load(network.write(tmp_path / "net.onnx"))
    assert [problem.where and problem.where.layer for problem in refusal.value.problems] == ["folded0"]
