"""What nodes compute, compared with onnxruntime."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ModelError, UnsupportedError
from cnn_convertor.frontends.onnx.operators import indexing
from cnn_convertor.frontends.onnx.operators import onnx as registry
from frontends.made import Seen
from frontends.onnx.networks import Network, agreeing, helper, load, results_of, to_map

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")

PAGE = Path(__file__).parents[3] / "docs/networks.md"
RANDOM = np.random.default_rng(15)
INTEGERS = np.int64


def normal(*dims: int) -> Any:
    return RANDOM.standard_normal(dims).astype(np.float32)


def integers(*numbers: Any) -> Any:
    return np.array(numbers, INTEGERS)


X = normal(1, 4, 7, 6)
BATCH, VOLUME = normal(3, 4, 7, 6), normal(1, 4, 6, 5, 7)
SEQUENCE, MATRIX, VECTOR = normal(1, 4, 9), normal(5, 8), normal(1, 8)


def followed_by(network: Network, type: str, **attributes: Any) -> Network:
    """The network with one more node, which depends on the axes of the result."""
    more = helper.make_node(type, ["y"], ["z"], **attributes)
    return replace(network, nodes=[*network.nodes, more])


def node(type: str, *constants: Any, x: Any = X, opset: int = 21, first: bool = True, **attributes: Any) -> Network:
    """One node on x and constants; first: x is its first input. None leaves an input out."""
    names = [f"c{at}" if value is not None else "" for at, value in enumerate(constants)]
    given = {name: value for name, value in zip(names, constants, strict=True) if name}
    inputs = ["x", *names] if first else [*names, "x"]
    return Network([helper.make_node(type, inputs, ["y"], **attributes)], {"x": x}, given, opset)


def of_rows(type: str, *constants: Any, x: Any, **attributes: Any) -> Network:
    """One node on the rows of a matrix, which are no batch: the input has its columns."""
    network = node(type, *constants, x=x.T, **attributes)
    (only,) = network.nodes
    only.input[0] = "rows"
    return replace(network, nodes=[helper.make_node("Transpose", ["x"], ["rows"]), only])


def inside(network: Network) -> Network:
    """The network behind a Reshape: inside, maps may be several images, or volumes."""
    array = network.inputs["x"]
    (only,) = network.nodes
    shape = helper.make_node("Reshape", ["flat", "dims"], ["x"])
    constants = {**network.constants, "dims": integers(*array.shape)}
    return replace(network, nodes=[shape, only], inputs={"flat": array.reshape(1, -1)}, constants=constants)


KERNELS, DEPTHWISE = normal(6, 4, 3, 3), normal(8, 1, 3, 2)
POOL: Mapping[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2]}
CASES = {
    "conv": node("Conv", KERNELS, normal(6), pads=[1, 0, 2, 1], strides=[2, 1]),
    "conv dilated": node("Conv", KERNELS, dilations=[2, 1]),
    "conv same upper": node("Conv", KERNELS, auto_pad="SAME_UPPER", strides=[2, 2]),
    "conv same lower": node("Conv", KERNELS, auto_pad="SAME_LOWER", strides=[2, 2]),
    "conv valid": node("Conv", KERNELS, auto_pad="VALID"),
    "conv groups": node("Conv", DEPTHWISE, group=4),
    "conv 1-D": node("Conv", normal(3, 4, 3), x=SEQUENCE, pads=[2, 1], strides=[2]),
    # As exporters guard an attention whose mask may leave nothing.
    "nan to zero": Network(
        [helper.make_node("IsNaN", ["x"], ["n"]), helper.make_node("Where", ["n", "zero", "x"], ["y"])],
        {"x": np.where(X > 1, np.float32(np.nan), X)}, {"zero": np.float32(0)},
    ),
    "conv of images": inside(node("Conv", KERNELS, normal(6), x=BATCH, pads=[1, 0, 2, 1], strides=[2, 1])),
    "conv of images in groups": inside(node("Conv", normal(6, 2, 3, 3), x=BATCH, group=2)),
    "conv of images by channel": inside(node("Conv", DEPTHWISE, normal(8), x=BATCH, group=4)),
    "conv of sequences": inside(node("Conv", normal(3, 4, 3), normal(3), x=normal(5, 4, 9), pads=[2, 1])),
    "conv of planes": inside(node("Conv", normal(6, 4, 3, 1, 2), normal(6), x=VOLUME, pads=[1, 0, 0, 2, 0, 1], strides=[2, 1, 1])),
    "conv of planes at the end": inside(node("Conv", normal(6, 1, 3, 2, 1), x=normal(1, 1, 6, 5, 7), dilations=[2, 1, 1])),
    "conv of a single plane": inside(node("Conv", normal(6, 4, 1, 3, 2), x=normal(1, 4, 1, 6, 5))),
    "average pool of planes": inside(node("AveragePool", x=normal(1, 1, 8, 5, 7), kernel_shape=[5, 1, 1])),
    "max pool of planes": inside(node("MaxPool", x=VOLUME, kernel_shape=[3, 1, 2], strides=[2, 1, 1], pads=[1, 0, 0, 1, 0, 1])),
    "lp pool of planes": inside(node("LpPool", x=VOLUME, opset=18, p=2, kernel_shape=[1, 2, 2])),
    "conv transpose of images": inside(node("ConvTranspose", normal(4, 3, 3, 3), normal(6), x=BATCH, group=2, strides=[2, 2])),
    "max pool of images": inside(node("MaxPool", x=BATCH, pads=[1, 1, 1, 1], **POOL)),
    "average pool of images": inside(node("AveragePool", x=BATCH, pads=[1, 1, 1, 1], **POOL)),
    "global average pool of images": followed_by(inside(node("GlobalAveragePool", x=BATCH)), "Softmax", axis=0),
    "lp pool of images": inside(node("LpPool", x=BATCH, opset=18, p=2, **POOL)),
    "batch norm of images": inside(node("BatchNormalization", *(np.abs(normal(4)) for _ in range(4)), x=BATCH)),
    "instance norm of images": inside(node("InstanceNormalization", normal(4), normal(4), x=BATCH)),
    "group norm of images": inside(node("GroupNormalization", normal(4), normal(4), x=BATCH, num_groups=2)),
    "resize of images": inside(node("Resize", None, None, integers(3, 4, 14, 12), x=BATCH, mode="linear")),
    "resize cubic of images": inside(node("Resize", None, None, integers(3, 4, 9, 3), x=BATCH, mode="cubic")),
    "conv transpose": node("ConvTranspose", normal(4, 3, 3, 2), normal(3), strides=[2, 3], pads=[1, 0, 0, 1]),
    "conv transpose groups": node("ConvTranspose", normal(4, 3, 3, 3), group=2, strides=[2, 2], output_padding=[1, 0]),
    "conv transpose size": node("ConvTranspose", normal(4, 3, 3, 3), strides=[2, 2], output_shape=[14, 13]),
    "conv transpose beyond the windows": node("ConvTranspose", normal(4, 3, 3, 3), strides=[2, 3], output_shape=[16, 20]),
    "conv transpose same": node("ConvTranspose", normal(4, 3, 3, 3), strides=[2, 2], auto_pad="SAME_LOWER"),
    "max pool": node("MaxPool", pads=[1, 1, 1, 1], **POOL),
    "max pool ceil": node("MaxPool", ceil_mode=1, kernel_shape=[2, 2], strides=[2, 2]),
    "max pool dilated": node("MaxPool", kernel_shape=[2, 2], dilations=[2, 2]),
    "max pool ceil padded": node("MaxPool", ceil_mode=1, pads=[1, 1, 1, 1], **POOL),
    "average pool": node("AveragePool", pads=[1, 1, 1, 1], **POOL),
    "average pool counting": node("AveragePool", pads=[1, 0, 1, 1], count_include_pad=1, **POOL),
    "average pool ceil": node("AveragePool", ceil_mode=1, kernel_shape=[2, 2], strides=[2, 2]),
    "average pool ceil counting": node("AveragePool", ceil_mode=1, count_include_pad=1, pads=[1, 1, 1, 1], **POOL),
    "average pool same": node("AveragePool", auto_pad="SAME_UPPER", **POOL),
    "lp pool": node("LpPool", opset=18, p=2, **POOL),
    "gemm": node("Gemm", normal(8, 3), normal(3), x=VECTOR, alpha=0.5, beta=2.0),
    "gemm transposed": of_rows("Gemm", normal(3, 8), normal(1, 3), x=MATRIX, transB=1),
    "gemm of columns": node("Gemm", normal(5, 3), normal(3), x=MATRIX, transA=1),
    "gemm one bias": of_rows("Gemm", normal(3, 8), normal(1), x=MATRIX, transB=1),
    "gemm column of biases": of_rows("Gemm", normal(5, 3), normal(3, 1), x=normal(3, 5), beta=2.0),
    "gemm one number": of_rows("Gemm", normal(5, 3), np.float32(4), x=normal(4, 5)),
    "gemm matrix of biases": of_rows("Gemm", normal(5, 3), normal(4, 3), x=normal(4, 5)),
    "matmul": node("MatMul", normal(6, 5)),
    "einsum": node("Einsum", normal(6, 5), equation="bchw, wk -> bkhc"),
    "matmul of several matrices": node("MatMul", normal(4, 6, 5)),
    "matmul of a constant": node("MatMul", normal(3, 8), x=normal(1, 8, 5), first=False),
    "matmul of several constants": node("MatMul", normal(4, 3, 7), first=False),
    "matmul of a vector": node("MatMul", normal(6)),
    "matmul of more axes": followed_by(node("MatMul", normal(1, 8, 5), x=MATRIX), "Softmax", axis=1),
    "add channels": node("Add", normal(4, 1, 1)),
    "add pixels": node("Add", normal(7, 6)),
    "subtract from": node("Sub", normal(6), first=False),
    "divide": node("Div", normal(1, 1, 7, 1), first=False),
    "multiply wider": node("Mul", normal(1, 4, 7, 6), x=normal(1, 4, 1, 1)),
    "multiply deeper": node("Mul", normal(2, 3, 1, 1, 5), x=normal(4, 5)),
    "maximum": node("Max", normal(4, 1, 1), np.float32(0.2)),
    "mean": node("Mean", normal(6), normal(4, 1, 1)),
    "power": node("Pow", np.float32(3)),
    "prelu": node("PRelu", normal(4, 1, 1)),
    "prelu of one slope": node("PRelu", normal(1)),
    "prelu of columns": node("PRelu", normal(6)),
    "prelu of pixels": node("PRelu", normal(7, 6)),
    "clip": node("Clip", np.float32(-0.5), np.float32(0.7)),
    "clip old": node("Clip", opset=7, min=-0.5, max=0.7),
    "celu": node("Celu", alpha=2.0),
    "selu": node("Selu"),
    "gelu": node("Gelu", approximate="tanh"),
    "hard sigmoid": node("HardSigmoid", alpha=0.3),
    "thresholded relu": node("ThresholdedRelu", alpha=0.3),
    "batch norm": node("BatchNormalization", *(np.abs(normal(4)) for _ in range(4)), epsilon=1e-3),
    "instance norm": node("InstanceNormalization", normal(4), normal(4)),
    "group norm": node("GroupNormalization", normal(4), normal(4), num_groups=2),
    "layer norm": node("LayerNormalization", normal(6), normal(6)),
    "layer norm of maps": node("LayerNormalization", normal(4, 7, 6), axis=1),
    "rms norm": node("RMSNormalization", normal(6), opset=23),
    "rms norm of maps": node("RMSNormalization", normal(4, 7, 6), opset=23, axis=1, epsilon=0.25),
    "rms norm of small numbers": node("RMSNormalization", normal(1), x=X * np.float32(1e-3), opset=23),
    "mean-variance norm": node("MeanVarianceNormalization", axes=[2, 3]),
    "mean-variance norm of almost equal numbers": node("MeanVarianceNormalization", x=X * np.float32(1e-5)),
    "lrn": node("LRN", size=3, alpha=0.2, beta=0.6, bias=2.0),
    "softmax": node("Softmax", axis=1),
    "softmax old": node("Softmax", opset=9, axis=2),
    "log softmax": node("LogSoftmax", x=MATRIX),
    "log softmax first": node("LogSoftmax", x=MATRIX, axis=0),
    "reduce mean": node("ReduceMean", integers(2, 3)),
    "reduce mean old": node("ReduceMean", opset=11, axes=[-1], keepdims=0),
    "reduce channels": node("ReduceMax", integers(1), keepdims=0),
    "reduce all": node("ReduceSum"),
    "reduce l2": node("ReduceL2", integers(1, 3)),
    "reduce nothing": node("ReduceSum", integers(), noop_with_empty_axes=1),
    "reduce nothing l1": node("ReduceL1", integers(), noop_with_empty_axes=1),
    "reduce nothing l2": node("ReduceL2", noop_with_empty_axes=1),
    "reduce nothing squared": node("ReduceSumSquare", integers(), noop_with_empty_axes=1),
    "flatten": node("Flatten"),
    "flatten at 2": node("Flatten", axis=2),
    "reshape": node("Reshape", integers(0, 2, -1, 3)),
    "transpose": node("Transpose", perm=[0, 2, 3, 1]),
    "transpose all": node("Transpose", x=normal(2, 3, 4)),
    "squeeze": node("Squeeze", x=normal(1, 4, 1, 1)),
    "unsqueeze": node("Unsqueeze", integers(0, -1), x=MATRIX),
    "depth to space": node("DepthToSpace", blocksize=2),
    "depth to space crd": node("DepthToSpace", blocksize=2, mode="CRD"),
    "space to depth": node("SpaceToDepth", x=normal(1, 3, 4, 6), blocksize=2),
    "slice": node("Slice", integers(1, -5), integers(99, -1), integers(2, 3), integers(2, 1)),
    "slice backward": node("Slice", integers(-1), integers(-99), integers(1), integers(-1)),
    "slice old": node("Slice", opset=9, starts=[1], ends=[3], axes=[1]),
    "gather": node("Gather", np.int64(2), axis=1),
    "gather several": node("Gather", integers(2, 3, 0), axis=3),
    "concat with constants": node("Concat", normal(1, 2, 7, 6), normal(1, 1, 7, 6), axis=1),
    "concat of rows, with a constant first": node("Concat", normal(1, 3, 9), x=SEQUENCE, first=False, axis=-2),
    "expand": node("Expand", integers(2, 4, 1, 3), x=normal(4, 1, 1)),
    "tile": node("Tile", integers(1, 2, 1, 3)),
    "pad": node("Pad", integers(0, 0, 1, 2, 0, 0, 3, 0)),
    "pad with a value": node("Pad", integers(0, 1, 1, 2, 0, 0, 3, 0), np.float32(1.5)),
    "pad reflect": node("Pad", integers(0, 0, 2, 1, 0, 0, 1, 2), mode="reflect"),
    "pad edge, with a value": node("Pad", integers(0, 0, 2, 1, 0, 0, 1, 2), np.float32(1.5), mode="edge"),
    "pad reflect old": node("Pad", opset=10, pads=[0, 0, 2, 1, 0, 0, 1, 2], value=1.5, mode="reflect"),
    "pad edge": node("Pad", integers(0, 0, 2, 1, 0, 0, 1, 2), mode="edge"),
    "pad batches": node("Pad", integers(1, 0, 1, 1, 0, 2), np.float32(1.5), x=SEQUENCE),
    "pad and crop": node("Pad", integers(0, 0, -2, 1, 0, 0, 1, -2)),
    "resize nearest": node("Resize", None, None, integers(1, 4, 14, 12), mode="nearest",
                           coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "resize linear": node("Resize", None, np.array([1, 1, 2, 1.5], np.float32), mode="linear"),
    "resize corners": node("Resize", None, None, integers(1, 4, 13, 11), mode="linear",
                           coordinate_transformation_mode="align_corners"),
    "resize smaller": node("Resize", None, None, integers(1, 4, 5, 4), mode="linear",
                           coordinate_transformation_mode="pytorch_half_pixel"),
    "resize cubic": node("Resize", None, None, integers(1, 4, 5, 9), mode="cubic"),
    "resize cubic by scales": node("Resize", None, np.array([1, 1, 1.3, 0.7], np.float32), mode="cubic", cubic_coeff_a=-0.5,
        coordinate_transformation_mode="asymmetric"),
    "resize cubic corners": node("Resize", None, None, integers(1, 4, 5, 6), mode="cubic",
        coordinate_transformation_mode="align_corners"),
    "resize 1-D to pixels of no rule": node("Resize", None, None, integers(1, 4, 13), nearest_mode="ceil", x=SEQUENCE),
    "resize without the outside": node("Resize", None, None, integers(1, 4, 14, 12), mode="cubic", exclude_outside=1),
    "resize with antialias": node("Resize", None, None, integers(1, 4, 3, 2), mode="linear", antialias=1),
    "resize cubic with antialias": node("Resize", None, None, integers(1, 4, 3, 8), mode="cubic", antialias=1),
    "resize linear by any scale": node("Resize", None, np.array([1, 1, 1.3, 0.7], np.float32), mode="linear"),
    "resize to pixels of no rule": node("Resize", None, None, integers(1, 4, 10, 4), mode="nearest", nearest_mode="ceil"),
    "resize by a rounded scale": node("Resize", None, np.array([1, 1, 0.04, 1], np.float32), x=normal(1, 1, 50, 3),
                                      mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "resize to a third": node("Resize", None, np.array([1, 1, 1 / 3, 1], np.float32), x=normal(1, 1, 9, 3),
                              mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "resize old smaller": node("Resize", np.array([1, 1, 0.6, 1], np.float32), x=normal(1, 1, 5, 4), opset=10),
    "resize old larger": node("Resize", np.array([1, 1, 2, 1], np.float32), x=normal(1, 1, 5, 4), opset=10),
    "upsample": node("Upsample", np.array([1, 1, 2, 3], np.float32), opset=9, mode="nearest"),
    "argmax": node("ArgMax", axis=1),
    "argmin": node("ArgMin", axis=2, keepdims=0),
    **{type.lower(): node(type, x=2 * X) for type in (
        "Sin", "Cos", "Erf", "Floor", "Ceil", "Round", "Sign", "Abs", "Atan", "Elu", "Exp", "HardSwish", "Identity", "LeakyRelu",
        "Mish", "Sigmoid", "Softplus", "Softsign", "Tanh", "GlobalMaxPool", "Dropout",
    )},
    **{type.lower(): node(type, x=np.abs(X) + 1) for type in ("Sqrt", "Reciprocal")},
    "swish": node("Swish", opset=24, alpha=0.5),
    "lp norm": node("LpNormalization", axis=1),
    "minimum": node("Min", normal(4, 1, 1)),
    "sum": node("Sum", normal(4, 1, 1), normal(6)),
    "reduce min": node("ReduceMin", integers(2, 3)),
    "cumsum": node("CumSum", np.array(1, INTEGERS)),
    "cumsum from the end": node("CumSum", np.array(-1, INTEGERS), x=MATRIX, reverse=1, exclusive=1),
    "pad with minus infinity": node("Pad", integers(0, 0, 1, 2, 0, 0, 3, 0), np.float32(-np.inf)),
    "pad all with a value": node("Pad", integers(1, 2, 1, 0), np.float32(-2.5), x=MATRIX),
    "gather many": node("Gather", np.arange(0, 1200, 2) % 7, axis=2),
    "gather nd": node("GatherND", integers([0, 1, -1], [0, 3, 2])),
    "gather nd of batches": node("GatherND", integers([[1], [-1]], [[0], [2]]), x=normal(2, 3, 4), batch_dims=1),
    # As exporters write an adaptive pool: the pixels of each cell.
    "gather nd of windows": node("GatherND", np.stack(np.broadcast_arrays(
        np.arange(0, 6)[:, None] // 2, np.array([0, 1, 1, 2, 4, 5])), -1), x=normal(7, 6, 5)),
    "gather elements": node("GatherElements", RANDOM.integers(-4, 4, (1, 9, 7, 6)), axis=1),
    "scatter nd": node("ScatterND", integers([0, 1], [0, -1]), normal(2, 7, 6)),
    "scatter nd of computed updates": node("ScatterND", X, integers([0, 1], [0, 3]), x=normal(2, 7, 6), first=False),
    "scatter the same number": node("ScatterND", integers([0, 1]), np.full((1, 7, 6), -np.inf, np.float32)),
    "scatter old": node("Scatter", integers([[[3, 0, 5]]]), normal(1, 1, 1, 3), opset=10, axis=3),
    "scatter elements": node("ScatterElements", integers([[[3, 0, 5]]]), normal(1, 1, 1, 3), axis=3),
    "where constant": node("Where", RANDOM.random((7, 6)) > 0.5, np.float32(-np.inf), first=False),
    "where broadcast": node("Where", RANDOM.random((4, 1, 1)) > 0.5, normal(2, 1, 7, 6), first=False),
    "trilu": node("Trilu", integers(1), upper=0),
}  # fmt: skip


MORE = normal(1, 4, 7, 6)
make = helper.make_node


def nodes(*made: Any, **constants: Any) -> Network:
    """Nodes on x and more, which make y."""
    return Network(list(made), {"x": X, "more": MORE}, constants)


def masked(*made: Any, **constants: Any) -> Network:
    """x where the truth values of the nodes are true, -x elsewhere."""
    return nodes(*made, make("Neg", ["x"], ["negative"]), make("Where", ["is", "x", "negative"], ["y"]), **constants)


SOME = np.float32(X[0, 0, 0, 0])
NETWORKS = {
    **{type: masked(make(type, ["x", "more"], ["is"])) for type in
       ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal")},
    **{f"{type} than a number": masked(make(type, ["x", "number"], ["is"]), number=SOME) for type in
       ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal")},
    **{f"a number {type}": masked(make(type, ["number", "x"], ["is"]), number=SOME) for type in ("Greater", "Less")},
    **{type: masked(make("Greater", ["x", "zero"], ["a"]), make("Greater", ["more", "zero"], ["b"]),
                    make(type, ["a", "b"], ["is"]), zero=np.float32(0)) for type in ("And", "Or", "Xor")},
    "Not": masked(make("Greater", ["x", "more"], ["a"]), make("Not", ["a"], ["is"])),
    "a cast to truth values": masked(make("Relu", ["x"], ["r"]), make("Cast", ["r"], ["is"], to=9)),
    "a mask as numbers": nodes(make("Less", ["x", "more"], ["a"]), make("Cast", ["a"], ["mask"], to=1),
                               make("Mul", ["mask", "x"], ["y"])),
    "where of constants": nodes(make("Less", ["x", "more"], ["a"]), make("Where", ["a", "one", "two"], ["y"]),
                                one=np.float32(1), two=normal(4, 1, 1)),
    # The logarithm of a negative number is not a number, and is not chosen.
    "where something is defined": nodes(make("Greater", ["x", "zero"], ["a"]), make("Log", ["x"], ["log"]),
                                        make("Where", ["a", "log", "more"], ["y"]), zero=np.float32(0)),
    # Places that the network computes, in a map of the usual order.
    "grid sample": nodes(make("Transpose", ["more"], ["t"], perm=[0, 2, 3, 1]), make("MatMul", ["t", "two"], ["grid"]),
                         make("GridSample", ["x", "grid"], ["y"]), two=normal(4, 2)),
    "grid sample of images": nodes(
        make("Reshape", ["x", "dims"], ["images"]), make("Reshape", ["more", "dims2"], ["grid"]),
        make("GridSample", ["images", "grid"], ["s"], padding_mode="reflection", align_corners=1),
        make("Reshape", ["s", "all"], ["y"]), dims=integers(2, 2, 7, 6), dims2=integers(2, 6, 7, 2), all=integers(1, 4, 6, 7)),
    "split": nodes(make("Split", ["x"], ["a", "b"], axis=1, num_outputs=2), make("Concat", ["b", "a"], ["y"], axis=1)),
    "where of two maps": nodes(make("Where", ["a", "x", "more"], ["y"]), a=RANDOM.random((7, 6)) > 0.5),
    "scatter a map into a map": nodes(make("Slice", ["more", "from", "to", "axis"], ["part"]),
                                      make("ScatterND", ["x", "places", "part"], ["y"]), axis=integers(1),
                                      places=integers([[0, 3], [0, 1]]), **{"from": integers(0), "to": integers(2)}),
    **{f"top {what}": Network(
        [make("TopK", ["x", "count"], ["values", "places"], axis=axis, largest=largest),
         make("Cast", [what], ["y"], to=1)], {"x": X}, {"count": integers(3)})
       for what, axis, largest in (("values", 1, 1), ("places", -1, 0), ("values", 3, 0), ("places", 2, 1))},
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore:invalid value encountered in log")
def test_nodes_compute_what_onnxruntime_does(name: str, tmp_path: Path) -> None:
    network = NETWORKS[name]
    used = {name for node in network.nodes for name in node.input}
    network = replace(network, inputs={name: x for name, x in network.inputs.items() if name in used})
    agreeing(network, tmp_path / "net.onnx")


# The networks of test_networks.py have them: what idioms become, and what has no meaning alone.
IN_NETWORKS = {"Focus", "Standardize", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
# test_random_attention.py has it.
AT_RANDOM = {"Attention"}


def test_every_type_is_compared() -> None:
    here = {node.op_type for network in (*CASES.values(), *NETWORKS.values()) for node in network.nodes}
    assert set(registry) - here == IN_NETWORKS | AT_RANDOM, "add a row to CASES, or to NETWORKS for several inputs"
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE))
    advice = "python -m development.pages docs/networks.md"
    assert set(registry) - rows == {"Cast", "Focus", "Standardize"}, (
        advice
    )  # of which no test of the onnx package is read


def test_what_readers_make_is_declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As docs/layers.md has it. Undeclared settings end in an error."""
    seen = Seen(monkeypatch)
    for name, network in {**CASES, **NETWORKS}.items():
        load(network.write(tmp_path / f"{name}.onnx"))
    assert seen.compare(registry) > 100


@pytest.mark.parametrize("name", CASES)
def test_a_node_computes_what_onnxruntime_does(name: str, tmp_path: Path) -> None:
    network = CASES[name]
    path = network.write(tmp_path / "net.onnx")
    if name in ("argmax", "argmin"):
        retyped(path)
    (wanted,) = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, network.inputs)
    graph = load(path)
    (found,) = results_of(graph, network.inputs)
    np.testing.assert_allclose(found, to_map(wanted), rtol=1e-4, atol=1e-4)
    assert graph.outputs == (network.nodes[-1].output[0],), "what comes last has the output's name"


def retyped(path: Path) -> None:
    """Give the output the type of an index."""
    onnx = pytest.importorskip("onnx")
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    onnx.save(model, path)


HUGE = np.zeros((64, 1 << 16), np.float32)
FAR = [2**63 - 1, -(2**63), 1 - 2**63]


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("upper", [0, 1])
def test_a_diagonal_far_outside_leaves_all_or_nothing(far: int, upper: int, tmp_path: Path) -> None:
    graph = load(node("Trilu", integers(far), x=X, upper=upper).write(tmp_path / "net.onnx"))
    (values,) = results_of(graph, {"x": X})
    np.testing.assert_array_equal(values, to_map(X if (far < 0) == bool(upper) else 0 * X))


def test_a_scatter_of_nothing_changes_nothing(tmp_path: Path) -> None:
    empty = node("ScatterElements", np.zeros(0, np.int64), np.zeros(0, np.float32), x=normal(5))
    agreeing(empty, tmp_path / "net.onnx")


@pytest.mark.parametrize("network", [
    node("GatherND", np.zeros((200_000, 1), np.int64), x=HUGE),
    Network([make("Where", ["c", "x", "zero"], ["y"])], {"x": HUGE[:1]},
            {"c": np.ones((1 << 16, 1), np.bool_), "zero": np.float32(0)}),
])  # fmt: skip
def test_results_too_large_to_be_counted_are_refused(network: Network, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="elements cannot be converted"):
        load(network.write(tmp_path / "net.onnx"))


def halved(*made: Any, **constants: Any) -> Network:
    """Integers, which nodes choose, divided by two as integers are."""
    used = [
        make("ArgMax", ["x"], ["a"], axis=1),
        *made,
        make("Div", ["y", "two"], ["d"]),
        make("Cast", ["d"], ["z"], to=1),
    ]
    return Network(used, {"x": X}, {"two": integers(2), **constants})


MIXED = RANDOM.random((7, 6)) > 0.5
SCORES = [make("Greater", ["a", "two"], ["is"])]


@pytest.mark.parametrize("network", [
    halved(make("Where", ["c", "a", "others"], ["y"]), c=MIXED, others=np.arange(42).reshape(7, 6)),
    halved(make("Where", ["c", "a", "two"], ["y"]), c=MIXED),
    halved(make("Where", ["c", "a", "a"], ["y"]), c=MIXED),
    halved(*SCORES, make("Where", ["is", "a", "two"], ["y"])),
    halved(*SCORES, make("Where", ["is", "two", "five"], ["y"]), five=integers(5)),
    halved(make("Concat", ["a", "five"], ["y"], axis=1), five=np.full((1, 1, 7, 6), 5)),
])  # fmt: skip
def test_chosen_integers_are_integers(network: Network, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="arithmetic of integers"):
        load(network.write(tmp_path / "net.onnx"))


def test_chosen_integers_have_the_range_of_all(tmp_path: Path) -> None:
    nodes_ = [
        make("ArgMax", ["x"], ["a"], axis=1),
        make("Where", ["c", "a", "more"], ["w"]),
        make("Cast", ["w"], ["y"], to=2),
    ]
    network = Network(nodes_, {"x": X}, {"c": MIXED, "more": integers(300)})  # to 8 bits
    with pytest.raises(UnsupportedError, match="a cast of integers of 0 to 300"):
        load(network.write(tmp_path / "net.onnx"))


def test_a_product_of_constants_with_an_input_too_many_is_refused(tmp_path: Path) -> None:
    path = node("MatMul", normal(3, 4), normal(4, 2), first=False).write(tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="both factors are constants"):
        load(path)


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_attention_needs_a_scale_above_zero(scale: float, tmp_path: Path) -> None:
    """As in onnxruntime; by ONNX's formula, queries and keys are each multiplied by its root."""
    network = Network([make("Attention", ["x", "x", "x"], ["y"], scale=scale)], {"x": X}, {}, opset=23)
    with pytest.raises(ModelError, match="must be above 0"):
        load(network.write(tmp_path / "net.onnx"))


def test_places_are_found_to_be_regular_in_little_time() -> None:
    size = 720_720 * 8  # has many divisors
    places = np.arange(size)
    places[size // 2 - 1 : size // 2 + 1] = places[size // 2 - 1 : size // 2 + 1][::-1]
    start = time.process_time()
    assert (indexing.equal_parts(places, size), indexing.block_length(places, size)) == (1, 1)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("seed", range(200))
def test_regular_places_are_found_as_by_trying_all(seed: int) -> None:
    random = np.random.default_rng(seed)
    inner, block = random.integers(-1, 4, int(random.integers(1, 5))), int(random.integers(1, 4))
    one = np.where(inner[:, None] < 0, -1, inner[:, None] * block + np.arange(block)).reshape(-1)
    count, step = int(random.integers(1, 7)), 4 * block
    places = np.where(one < 0, -1, one + np.arange(count)[:, None] * step).reshape(-1)
    size = count * step
    divisors = [n for n in range(1, size + 1) if size % n == 0 and places.size % n == 0]

    def repeats(n: int) -> bool:
        first, starts = places.reshape(n, -1)[0], np.arange(n)[:, None] * (size // n)
        return np.array_equal(places, np.where(first < 0, -1, first + starts).reshape(-1))

    def stays(n: int) -> bool:
        first = places.reshape(-1, n)[:, :1]
        return bool(np.all((first < 0) | (first % n == 0))) and np.array_equal(
            places.reshape(-1, n), np.where(first < 0, -1, first + np.arange(n))
        )

    assert indexing.equal_parts(places, size) == max(filter(repeats, divisors))
    assert indexing.block_length(places, size) == max(filter(stays, divisors))
