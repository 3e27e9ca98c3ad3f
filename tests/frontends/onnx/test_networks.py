"""Networks as exporters write them: idioms, computed shapes, and the forms in which a file holds its numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError, Origin
from cnn_convertor.frontends.onnx.operators import onnx as registry
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes import optimize
from frontends.onnx.networks import Network, agreeing, helper, load, numpy_helper, with_open_sizes

RANDOM = np.random.default_rng(16)
make = helper.make_node


def normal(*dims: int) -> Any:
    return RANDOM.standard_normal(dims).astype(np.float32)


def integers(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


X = normal(1, 4, 6, 8)
HALF, ONE, ROOT = np.float32(0.5), np.float32(1), np.float32(math.sqrt(2))


def operators(graph: Graph) -> list[type]:
    return [type(node.op) for node in optimize(graph).nodes if not isinstance(node.op, ops.Input)]


# --- idioms --------------------------------------------------------------------------------------------------------------

GELU = [make("Div", ["x", "root"], ["d"]), make("Erf", ["d"], ["e"]), make("Add", ["e", "one"], ["a"])]
TANH = {"three": np.float32(3), "cubic": np.float32(0.044715), "slope": np.float32(math.sqrt(2 / math.pi)),
        "one": ONE, "half": HALF}  # fmt: skip
CLIP = {"three": np.float32(3), "low": np.float32(0), "six": np.float32(6), "sixth": np.float32(1 / 6)}
IDIOMS: Mapping[str, tuple[list[Any], Mapping[str, Any], type]] = {
    "gelu, half last": (
        [*GELU, make("Mul", ["x", "a"], ["m"]), make("Mul", ["m", "half"], ["y"])],
        {"root": ROOT, "one": ONE, "half": HALF}, ops.Unary,
    ),
    "gelu, half first": (
        [*GELU, make("Mul", ["x", "half"], ["h"]), make("Mul", ["h", "a"], ["y"])],
        {"root": ROOT, "one": ONE, "half": HALF}, ops.Unary,
    ),
    "gelu by tanh": (
        [make("Pow", ["x", "three"], ["p"]), make("Mul", ["p", "cubic"], ["c"]), make("Add", ["x", "c"], ["s"]),
         make("Mul", ["s", "slope"], ["m"]), make("Tanh", ["m"], ["t"]), make("Add", ["t", "one"], ["a"]),
         make("Mul", ["x", "half"], ["h"]), make("Mul", ["h", "a"], ["y"])],
        TANH, ops.Unary,
    ),
    "gelu by tanh, as products": (
        [make("Mul", ["x", "x"], ["p"]), make("Mul", ["p", "x"], ["q"]), make("Mul", ["cubic", "q"], ["c"]),
         make("Add", ["x", "c"], ["s"]), make("Mul", ["s", "slope"], ["m"]), make("Tanh", ["m"], ["t"]),
         make("Add", ["one", "t"], ["a"]), make("Mul", ["half", "x"], ["h"]), make("Mul", ["h", "a"], ["y"])],
        TANH, ops.Unary,
    ),
    "gelu by tanh, x outside": (
        [make("Mul", ["x", "cubic"], ["p"]), make("Mul", ["p", "x"], ["q"]), make("Add", ["q", "one"], ["o"]),
         make("Mul", ["x", "slope"], ["m"]), make("Mul", ["m", "o"], ["n"]), make("Tanh", ["n"], ["t"]),
         make("Add", ["t", "one"], ["a"]), make("Mul", ["x", "half"], ["h"]), make("Mul", ["h", "a"], ["y"])],
        TANH, ops.Unary,
    ),
    "hard swish of a clip": (
        [make("Add", ["x", "three"], ["a"]), make("Clip", ["a", "low", "six"], ["c"]), make("Mul", ["c", "sixth"], ["g"]),
         make("Mul", ["g", "x"], ["y"])],
        CLIP, ops.Unary,
    ),
    "swish": ([make("Sigmoid", ["x"], ["s"]), make("Mul", ["x", "s"], ["y"])], {}, ops.Unary),
    "mish": (
        [make("Softplus", ["x"], ["p"]), make("Tanh", ["p"], ["t"]), make("Mul", ["t", "x"], ["y"])], {}, ops.Unary,
    ),
    "hard swish of a hard sigmoid": (
        [make("HardSigmoid", ["x"], ["h"], alpha=1 / 6), make("Mul", ["x", "h"], ["y"])], {}, ops.Unary,
    ),
    "hard swish": (
        [make("Add", ["x", "three"], ["a"]), make("Clip", ["a", "low", "high"], ["c"]), make("Mul", ["x", "c"], ["m"]),
         make("Div", ["m", "high"], ["y"])],
        {"three": np.float32(3), "low": np.float32(0), "high": np.float32(6)}, ops.Unary,
    ),
    "layer norm": (
        [make("ReduceMean", ["x", "axes"], ["mean"]), make("Sub", ["x", "mean"], ["c"]),
         make("Pow", ["c", "two"], ["p"]), make("ReduceMean", ["p", "axes"], ["v"]), make("Add", ["v", "eps"], ["e"]),
         make("Sqrt", ["e"], ["s"]), make("Div", ["c", "s"], ["y"])],
        {"axes": integers(1), "two": np.float32(2), "eps": np.float32(1e-5)}, ops.MeanVarianceNorm,
    ),
    "channel shuffle": (
        [make("Reshape", ["x", "groups"], ["g"]), make("Transpose", ["g"], ["t"], perm=[0, 2, 1, 3, 4]),
         make("Reshape", ["t", "back"], ["y"])],
        {"groups": integers(1, 2, 2, 6, 8), "back": integers(1, -1, 6, 8)}, ops.TransposeReshape,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom_is_one_operator(name: str, tmp_path: Path) -> None:
    nodes, constants, operator = IDIOMS[name]
    graph = agreeing(Network(nodes, {"x": X}, constants, 18), tmp_path / "net.onnx")
    assert operators(graph) == [operator]


def test_a_gate_of_another_value_is_not_a_swish(tmp_path: Path) -> None:
    nodes = [make("Abs", ["x"], ["a"]), make("Sigmoid", ["a"], ["s"]), make("Mul", ["x", "s"], ["y"])]
    assert len(operators(agreeing(Network(nodes, {"x": X}, {}, 18), tmp_path / "net.onnx"))) == 3


def layer_norm(axes: Any, epsilon: Any, **attributes: Any) -> Network:
    nodes = [
        make("ReduceMean", ["x", "axes"], ["mean"], **attributes), make("Sub", ["x", "mean"], ["c"]),
        make("Mul", ["c", "c"], ["p"]), make("ReduceMean", ["p", "axes"], ["v"], **attributes),
        make("Add", ["v", "eps"], ["e"]), make("Sqrt", ["e"], ["s"]), make("Div", ["c", "s"], ["d"]),
        make("Softmax", ["d"], ["y"], axis=1),
    ]  # fmt: skip
    constants: Mapping[str, Any] = {"axes": axes, "eps": np.asarray(epsilon, np.float32)}
    return Network(nodes, {"x": normal(3, 6)}, constants, 18)


@pytest.mark.parametrize(
    "network",
    [
        layer_norm(integers(), 1e-2),  # over all axes
        layer_norm(integers(), 1e-2, noop_with_empty_axes=1),  # over none
        layer_norm(integers(1), [[[1e-2]]]),  # the quotient has three axes
    ],
)
def test_what_resembles_a_layer_norm_stays_right(network: Network, tmp_path: Path) -> None:
    agreeing(network, tmp_path / "net.onnx")


def test_numbers_of_many_axes_make_no_gelu(tmp_path: Path) -> None:
    """The product has the axes of its longest factor."""
    nodes = [*GELU, make("Mul", ["x", "a"], ["m"]), make("Mul", ["m", "half"], ["y"])]
    constants: Mapping[str, Any] = {"root": ROOT, "one": ONE, "half": np.full((1, 1, 1), HALF)}
    agreeing(Network(nodes, {"x": normal(3, 4)}, constants, 18), tmp_path / "net.onnx")


def test_a_hard_sigmoid_is_a_relu6_between_scales(tmp_path: Path) -> None:
    graph = agreeing(Network([make("HardSigmoid", ["x"], ["y"], alpha=0.3)], {"x": X}, {}, 18), tmp_path / "net.onnx")
    assert [type(node.op) for node in graph.nodes] == [ops.Input, ops.Scale, ops.Activation, ops.Scale]


def test_a_clip_to_the_largest_number_is_a_relu(tmp_path: Path) -> None:
    network = Network([make("Clip", ["x"], ["y"], min=0.0, max=3.4028234663852886e38)], {"x": X}, {}, 7)
    assert operators(agreeing(network, tmp_path / "net.onnx")) == [ops.Activation]


@pytest.mark.parametrize(
    ("corners", "operator"),
    [
        ([(0, 0), (1, 0), (0, 1), (1, 1)], ops.TransposeReshape),  # as in YOLO
        ([(0, 0), (0, 1), (1, 0), (1, 1)], ops.SpaceToDepth),
        ([(0, 0), (1, 1), (0, 1), (1, 0)], ops.Concat),
    ],
)
def test_focus_slices_become_channels(corners: list[tuple[int, int]], operator: type, tmp_path: Path) -> None:
    nodes = []
    for at, (row, column) in enumerate(corners):
        rows, columns = (
            make("Constant", [], [f"{name}{at}"], value_ints=[n]) for name, n in (("r", row), ("c", column))
        )
        first = make("Slice", ["x", f"r{at}", "end", "rows", "step"], [f"h{at}"])
        nodes += [rows, columns, first, make("Slice", [f"h{at}", f"c{at}", "end", "columns", "step"], [f"p{at}"])]
    nodes.append(make("Concat", [f"p{at}" for at in range(4)], ["y"], axis=1))
    constants = {"end": integers(2**63 - 1), "rows": integers(2), "columns": integers(3), "step": integers(2)}
    made = operators(agreeing(Network(nodes, {"x": X}, constants, 18), tmp_path / "net.onnx"))
    assert made[-1] is operator and (operator is ops.Concat or len(made) == 1)


def test_a_reduction_of_joined_axes(tmp_path: Path) -> None:
    nodes = [make("Reshape", ["x", "dims"], ["r"]), make("ReduceMin", ["r", "axes"], ["y"], keepdims=0)]
    constants = {"dims": integers(1, 2, 2, 6, 8), "axes": integers(1, 2)}
    agreeing(Network(nodes, {"x": X}, constants, 18), tmp_path / "net.onnx")


# --- shapes --------------------------------------------------------------------------------------------------------------


def test_view_with_a_computed_size(tmp_path: Path) -> None:
    """x.view(x.size(0), -1), as PyTorch exports it."""
    nodes = [
        make("Shape", ["x"], ["shape"]), make("Gather", ["shape", "zero"], ["batch"]),
        make("Unsqueeze", ["batch", "front"], ["b"]), make("Concat", ["b", "rest"], ["dims"], axis=0),
        make("Reshape", ["x", "dims"], ["flat"]), make("Gemm", ["flat", "w"], ["y"]),
    ]  # fmt: skip
    constants = {"zero": np.int64(0), "front": integers(0), "rest": integers(-1), "w": normal(192, 5)}
    graph = agreeing(Network(nodes, {"x": X}, constants, 18), tmp_path / "net.onnx")
    assert operators(graph) == [ops.Dense]


def test_resize_to_a_computed_size(tmp_path: Path) -> None:
    nodes = [
        make("Shape", ["x"], ["shape"]), make("Slice", ["shape", "two", "four"], ["size"]),
        make("Cast", ["size"], ["f"], to=1), make("Mul", ["f", "scale"], ["m"]), make("Floor", ["m"], ["l"]),
        make("Cast", ["l"], ["i"], to=7), make("Slice", ["shape", "nil", "two"], ["front"]),
        make("Concat", ["front", "i"], ["sizes"], axis=0),
        make("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", coordinate_transformation_mode="half_pixel"),
    ]  # fmt: skip
    constants = {"two": integers(2), "four": integers(4), "nil": integers(0), "scale": np.array([1.5, 2.0], np.float32)}
    agreeing(Network(nodes, {"x": X}, constants, 18), tmp_path / "net.onnx")


def dynamic(path: Path, *dims: int | str) -> Path:
    """A network whose input has open sizes."""
    return with_open_sizes(Network([make("Relu", ["x"], ["y"])], {"x": X}, {}).write(path), *dims)


def test_an_open_batch_is_one(tmp_path: Path) -> None:
    graph = load(dynamic(tmp_path / "net.onnx", "N", 3, 6, 8))
    assert graph.shape("y") == (6, 8, 3)


def test_open_sizes_are_given(tmp_path: Path) -> None:
    path = dynamic(tmp_path / "net.onnx", "N", 3, "height", "width")
    assert load(path, size=(10, 12)).shape("y") == (10, 12, 3)
    with pytest.raises(ConvertorError, match="width_override"):
        load(path)


def test_an_open_length_is_the_height(tmp_path: Path) -> None:
    path = dynamic(tmp_path / "net.onnx", "N", 3, "length")
    assert load(path, size=(10, 1)).shape("y") == (10, 1, 3)
    with pytest.raises(ConvertorError, match="width_override"):
        load(path)


def test_sizes_that_the_file_fixes_stay(tmp_path: Path) -> None:
    network = Network([make("Mul", ["x", "s"], ["y"])], {"x": X, "s": normal(1, 4, 1, 1)}, {})
    path = with_open_sizes(network.write(tmp_path / "net.onnx"), 1, 4, "height", "width")
    assert load(path, size=(5, 7)).shape("y") == (5, 7, 4)
    with pytest.raises(ConvertorError, match="fixes the size of the input: 6x8, not 5x8"):
        load(network.write(path), size=(5, 8))


def test_parts_of_a_node_leave_other_names_alone(tmp_path: Path) -> None:
    """A node is named as its first output, and its parts below it."""
    nodes = [
        make("InstanceNormalization", ["x", "s", "s"], ["a"]), make("Relu", ["a"], ["a/normal"]),
        make("Neg", ["a/normal"], ["y"]),
    ]  # fmt: skip
    network = Network(nodes, {"x": X}, {"s": normal(4)})
    assert load(network.write(tmp_path / "net.onnx", ["y", "a/normal"])).outputs == ("y", "a/normal")


@pytest.mark.parametrize(
    ("node", "dims", "weight", "zeros"),
    [
        (make("Relu", ["n"], ["y"]), (4, 3, 6, 8), (1,), "1, 3, 6, 8"),
        (make("Gemm", ["n", "w"], ["y"]), (4, 6), (6, 5), "1, 6"),
        (make("MatMul", ["n", "w"], ["y"]), (4, 6), (6, 5), "1, 6"),
        (make("MatMul", ["n", "w"], ["y"]), (4, 3, 6), (6, 5), "1, 3, 6"),
        (make("Conv", ["n", "w"], ["y"]), (4, 3, 6), (5, 3, 3), "1, 3, 6"),
        (make("MaxPool", ["n"], ["y"], kernel_shape=[2]), (4, 3, 6), (1,), "1, 3, 6"),
    ],
    ids=lambda value: value.op_type if hasattr(value, "op_type") else None,
)
def test_a_batch_of_several_is_refused(
    node: Any, dims: tuple[int, ...], weight: tuple[int, ...], zeros: str, tmp_path: Path
) -> None:
    network = Network([make("Neg", ["x"], ["n"]), node], {"x": normal(*dims)}, {"w": normal(*weight)})
    with pytest.raises(ConvertorError) as refusal:
        load(network.write(tmp_path / "net.onnx"))
    (problem,) = refusal.value.problems
    assert problem.message == "the input is a batch of 4"
    assert problem.example == f"torch.onnx.export(model, torch.zeros({zeros}), 'net.onnx')"
    one = Network(network.nodes, {"x": normal(1, *dims[1:])}, network.constants)
    assert agreeing(one, tmp_path / "one.onnx")


@pytest.mark.parametrize("axes", [0, None])
def test_an_image_without_a_batch_is_none(axes: int | None, tmp_path: Path) -> None:
    """The first axis of three is the channels, if the network inserts the batch, or only works on elements."""
    nodes = [make("Unsqueeze", ["x", "axes"], ["b"]), make("Conv", ["b", "w"], ["y"])]
    network = Network(nodes, {"x": normal(3, 6, 8)}, {"w": normal(3, 3, 1, 1), "axes": integers(0)})
    if axes is None:
        network = Network([make("Relu", ["x"], ["y"])], {"x": normal(3, 6, 8)}, {})
    assert agreeing(network, tmp_path / "net.onnx")


def test_one_number_for_all_rows_makes_them_no_batch(tmp_path: Path) -> None:
    nodes = [make("MatMul", ["x", "w"], ["m"]), make("ReduceMean", ["m"], ["y"], keepdims=0)]
    network = Network(nodes, {"x": normal(4, 6)}, {"w": normal(6, 5)})
    assert load(network.write(tmp_path / "net.onnx")).shape("y") == (1, 1, 1)


# --- refusals ------------------------------------------------------------------------------------------------------------

INTEGERS = {"Slice": 4, "Gather": 1, "Tile": 1, "ReduceSum": 1, "Expand": 1, "Reshape": 1, "Pad": 1}
# Inputs after the first that must be constant.
CONSTANTS = {
    "Clip": 1, "CumSum": 1, "GatherElements": 1, "GatherND": 1, "PRelu": 1, "Pow": 1, "ReduceMax": 1, "ScatterElements": 2,
    "ScatterND": 2, "TopK": 1, "Trilu": 1,
}  # fmt: skip
REFUSED: Mapping[str, tuple[list[Any], str]] = {
    **{f"computed constants of {type}": ([make(type, ["x"] * (1 + count), ["y"])], "DV302") for type, count in CONSTANTS.items()},
    **{
        f"{value} for integers of {type}": (
            [make("Constant", [], ["c"], value_floats=[value] * 4), make(type, ["x", *["c"] * count], ["y"])], "DV206",
        )
        for type, count in INTEGERS.items() for value in (1.0, math.nan)
    },
    **{
        f"a scale of {scale}": (
            [make("Constant", [], ["c"], value_floats=[1.0, 1.0, scale, 1.0]), make("Resize", ["x", "", "c"], ["y"])],
            "DV206",
        )
        for scale in (math.nan, math.inf, -1.0, 1e9)
    },
    "constants of one index too many": (
        [make("Constant", [], ["c"], value_floats=[math.nan]), make("Gather", ["one", "c"], ["d"]),
         make("Add", ["x", "d"], ["y"])], "DV206",
    ),
    "windows of padding alone": ([make("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], pads=[2, 0, 0, 0])], "DV206"),
    "axes that repeat": ([make("MeanVarianceNormalization", ["x"], ["y"], axes=[1, 2, -2])], "DV206"),
    "an output beyond all windows": (
        [make("ConvTranspose", ["x", "k"], ["y"], strides=[2, 2], output_shape=[20, 20])], "DV302",
    ),
    "windows that do not meet": (
        [make("ConvTranspose", ["x", "k"], ["y"], strides=[3, 3], auto_pad="SAME_UPPER")], "DV302",
    ),
    "a size of all axes": ([make("ConvTranspose", ["x", "k"], ["y"], output_shape=[1, 2, 6, 8])], "DV206"),
    "bounds of slices that are no integers": (
        [make("Constant", [], ["c"], value_floats=[math.nan]), make("Slice", ["x", "c", "c", "c", "c"], ["s"]),
         make("Concat", ["s"] * 4, ["y"], axis=1)], "DV206",
    ),
    "axes of a layer norm that are no integers": (
        [make("Constant", [], ["c"], value_floats=[math.nan]), make("ReduceMean", ["x", "c"], ["m"]),
         make("Sub", ["x", "m"], ["d"]), make("Mul", ["d", "d"], ["p"]), make("ReduceMean", ["p", "c"], ["v"]),
         make("Add", ["v", "one"], ["e"]), make("Sqrt", ["e"], ["s"]), make("Div", ["d", "s"], ["y"])], "DV206",
    ),
    "a start that is a text": ([make("Shape", ["x"], ["s"], start="1"), make("Add", ["x", "s"], ["y"])], "DV206"),
    "constants beyond all memory": (
        [make("Constant", [], ["c"], value_ints=[2**20, 1]), make("ConstantOfShape", ["c"], ["a"]),
         make("Constant", [], ["d"], value_ints=[1, 2**20]), make("ConstantOfShape", ["d"], ["b"]),
         make("Mul", ["a", "b"], ["m"]), make("Add", ["x", "m"], ["y"])], "DV206",
    ),
    "constant dropout in training": (
        [make("Constant", [], ["t"], value=numpy_helper.from_array(np.array(True))),
         make("Dropout", ["one", "one", "t"], ["d"]), make("Add", ["x", "d"], ["y"])], "DV302",
    ),
    "pool with auto_pad that skips the end": (
        [make("LpPool", ["x"], ["y"], kernel_shape=[1, 1], strides=[2, 2], auto_pad="SAME_UPPER")], "DV302",
    ),
    "convolution with auto_pad that skips the end": (
        [make("Conv", ["x", "pixel"], ["y"], strides=[4, 4], auto_pad="SAME_UPPER")], "DV302",
    ),
    "pool with auto_pad and dilations": (
        [make("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], dilations=[2, 2], auto_pad="SAME_LOWER")], "DV302",
    ),
    "cubic at computed places": ([make("GridSample", ["x", "x"], ["y"], mode="cubic")], "DV302"),
    "an unknown outside": ([make("GridSample", ["x", "x"], ["y"], padding_mode="more")], "DV206"),
    "places of too many numbers": ([make("GridSample", ["x", "x"], ["y"])], "DV206"),
    "unknown type": ([make("NonMaxSuppression", ["x"], ["y"])], "DV301"),
    "another domain": ([make("Relu", ["x"], ["y"], domain="com.example")], "DV301"),
    "unknown attribute": ([make("Relu", ["x"], ["y"], strange=1)], "DV302"),
    "undefined input": ([make("Relu", ["nothing"], ["y"])], "DV212"),
    "output twice": ([make("Relu", ["x"], ["y"]), make("Abs", ["x"], ["y"])], "DV212"),
    "rounding": ([make("Cast", ["x"], ["y"], to=7)], "DV302"),
    "padding beyond all memory": (
        [make("Constant", [], ["p"], value_ints=[0, 0, 2**40, 0, 0, 0, 0, 0]), make("Pad", ["x", "p"], ["y"], mode="edge")],
        "DV206",
    ),
    "second output": ([make("MaxPool", ["x"], ["m", "i"], kernel_shape=[2, 2]), make("Cast", ["i"], ["y"], to=1)], "DV302"),
    "second output of a shape": ([make("Shape", ["x"], ["s", "t"]), make("Reshape", ["x", "t"], ["y"])], "DV302"),
    "an output without a constant scale": ([make("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])], "DV302"),
    "an attribute that Shape lacks": ([make("Shape", ["x"], ["s"], axis=1), make("Reshape", ["x", "s"], ["y"])], "DV302"),
    "a zero point that is no integer": ([make("QuantizeLinear", ["x", "one", "one"], ["y"])], "DV302"),
    "a type of ours": ([make("Focus", ["x"], ["y"], blocksize=1)], "DV301"),
    "one number as scales": ([make("Upsample", ["x"], ["y"], scales=1)], "DV206"),
    "keys and values of earlier runs": ([make("Attention", ["x", "x", "x", "", "x", "x"], ["y"])], "DV302"),
    "a pool of three axes": (
        [make("Unsqueeze", ["x", "front"], ["v"]), make("AveragePool", ["v"], ["y"], kernel_shape=[2, 2, 2])], "DV302",
    ),
    "quantized in blocks": (
        [make("QuantizeLinear", ["x", "one"], ["q"]), make("DequantizeLinear", ["q", "one"], ["y"], block_size=2)], "DV302",
    ),
    "an axis of one input that the output lacks": ([make("Einsum", ["x"], ["y"], equation="abcd->abc")], "DV302"),
    "neighbors of an even number": ([make("LRN", ["x"], ["y"], size=4)], "DV302"),
    "a norm of absolute values": ([make("LpNormalization", ["x"], ["y"], p=1)], "DV302"),
    "a computed choice of infinity": (
        [make("Constant", [], ["c"], value_float=math.inf), make("Less", ["x", "one"], ["l"]), make("Where", ["l", "c", "x"], ["y"])],
        "DV302",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_converted_is_refused(name: str, tmp_path: Path) -> None:
    nodes, code = REFUSED[name]
    constants = {"one": ONE, "front": integers(0), "pixel": normal(3, 4, 1, 1), "k": normal(4, 2, 1, 1)}
    with pytest.raises(ConvertorError) as raised:
        load(Network(nodes, {"x": X}, constants).write(tmp_path / "net.onnx"))
    assert code in {problem.code for problem in raised.value.problems}


def test_every_type_with_limits_is_refused() -> None:
    refused = {registry.get(node.op_type) for nodes, _code in REFUSED.values() for node in nodes}
    missing = [type for type in registry if registry[type].limits and registry[type] not in refused]
    assert not missing, "add a row to REFUSED for each"


def test_a_model_in_training_mode_is_one_problem(tmp_path: Path) -> None:
    nodes = [
        make("BatchNormalization", ["x", "c", "c", "c", "c"], ["a", "m1", "v1"], training_mode=1),
        make("BatchNormalization", ["a", "c", "c", "c", "c"], ["b", "m2", "v2"], training_mode=1),
        make("Dropout", ["b", "", "yes"], ["y"]),
    ]
    network = Network(nodes, {"x": X}, {"c": np.abs(normal(4)), "yes": np.array(True)})
    with pytest.raises(ConvertorError) as refusal:
        load(network.write(tmp_path / "net.onnx"))
    (problem,) = refusal.value.problems
    assert problem.where == Origin(str(tmp_path / "net.onnx"))
    assert "training mode" in problem.message and "export it for inference" in problem.hint
    for norm in nodes[:2]:
        del norm.attribute[:], norm.output[1:]
    assert load(Network(nodes[:2], network.inputs, network.constants).write(tmp_path / "net.onnx"))


@pytest.mark.parametrize("level", ["ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
def test_a_file_of_an_optimizer_is_one_problem_and_its_advice_helps(level: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    nodes = [
        make("Conv", ["x", "w"], ["a"]), make("Relu", ["a"], ["b"]), make("Conv", ["b", "k"], ["c"]), make("Relu", ["c"], ["d"]),
        make("Sigmoid", ["d"], ["s"]), make("Mul", ["d", "s"], ["y"]),
    ]  # fmt: skip
    constants = {"w": normal(16, 4, 3, 3), "k": normal(16, 16, 3, 3)}
    original = Network(nodes, {"x": X}, constants).write(tmp_path / "net.onnx")

    def optimized(level: str) -> Path:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.optimized_model_filepath = str(tmp_path / f"{level}.onnx")
        options.log_severity_level = 3
        onnxruntime.InferenceSession(str(original), options, providers=["CPUExecutionProvider"])
        return tmp_path / f"{level}.onnx"

    with pytest.raises(ConvertorError) as refusal:
        load(optimized(level))
    (problem,) = refusal.value.problems
    assert (problem.code, problem.where) == ("DV301", Origin(str(tmp_path / f"{level}.onnx")))
    assert "onnxruntime's optimizer wrote nodes that cannot be converted, such as com.microsoft." in problem.message
    (basic,) = re.findall("ORT_ENABLE_[A-Z]+", problem.hint)
    assert load(original) and load(optimized(basic))


def test_a_batch_that_is_time_is_one_problem(tmp_path: Path) -> None:
    """Its layers mix the images of the batch, which says nothing about a network for one."""
    nodes = [
        make("Reshape", ["x", "five"], ["t"]), make("Gather", ["t", "second"], ["g"], axis=1), make("Bernoulli", ["g"], ["y"]),
    ]  # fmt: skip
    constants = {"five": integers(1, 8, 3, 6, 8), "second": integers(1)}
    with pytest.raises(ConvertorError) as refusal:
        load(Network(nodes, {"x": normal(8, 3, 6, 8)}, constants).write(tmp_path / "net.onnx"))
    (problem,) = refusal.value.problems
    assert problem.message == "the input is a batch of 8" and "combine several" in problem.hint


@pytest.mark.parametrize("opset", [8, 9])
def test_a_batch_norm_with_statistics_as_outputs_is_in_training(opset: int, tmp_path: Path) -> None:
    """Until operator set 13, the number of outputs chooses the mode."""
    norm = make("BatchNormalization", ["x", "c", "c", "c", "c"], ["y", "m", "v", "sm", "sv"])
    path = Network([norm], {"x": X}, {"c": np.abs(normal(4))}, opset).write(tmp_path / "net.onnx", ["y"])
    with pytest.raises(ConvertorError, match="training"):
        load(path)


def test_a_damaged_file_is_read_or_refused(tmp_path: Path) -> None:
    refused = 0
    nodes = [make("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), make("Relu", ["c"], ["y"])]
    content = Network(nodes, {"x": X}, {"w": normal(3, 4, 3, 3)}).write(tmp_path / "net.onnx").read_bytes()
    for at in range(300):
        damaged = bytearray(content)
        for _ in range(at % 3 + 1):
            damaged[RANDOM.integers(len(damaged))] = RANDOM.integers(256)
        (tmp_path / "net.onnx").write_bytes(damaged[: None if at % 4 else RANDOM.integers(len(damaged))])
        try:
            load(tmp_path / "net.onnx")
        except ConvertorError:
            refused += 1
    assert 100 < refused < 300


NOTHING = np.zeros((1, 4, 0, 5), np.float32)
# Parts of length 0 on the axis 2 of x, named "none".
EMPTY: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "a constant": ([], {"none": NOTHING}),
    "ConstantOfShape": ([make("ConstantOfShape", ["shape"], ["none"])], {"shape": np.array([1, 4, 0, 5])}),
    "Slice": ([make("Slice", ["x", "a", "a", "two"], ["none"])], {"a": np.array([3]), "two": np.array([2])}),
    "a Slice backward": (
        [make("Slice", ["x", "a", "b", "two", "step"], ["none"])],
        {"a": np.array([1]), "b": np.array([3]), "two": np.array([2]), "step": np.array([-1])},
    ),
    "Split": ([make("Split", ["x", "sizes"], ["none", "whole"], axis=2)], {"sizes": np.array([0, 6])}),
    "Gather": ([make("Gather", ["x", "indices"], ["none"], axis=2)], {"indices": np.zeros(0, np.int64)}),
    "Pad": ([make("Pad", ["x", "pads"], ["none"])], {"pads": np.array([0, 0, -2, 0, 0, 0, -4, 0])}),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_part_of_length_0_joins_nothing(name: str, tmp_path: Path) -> None:
    nodes, constants = EMPTY[name]
    joined = [
        *nodes,
        make("Concat", ["none", "x", "none", "x"], ["two_maps"], axis=2),
        make("Relu", ["two_maps"], ["y"]),
    ]
    agreeing(Network(joined, {"x": normal(1, 4, 6, 5)}, constants), tmp_path / "net.onnx")


def test_a_part_of_length_0_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    network = Network([make("Concat", ["x", "none"], ["y"], axis=2)], {"x": normal(1, 3, 6, 5)}, {"none": NOTHING})
    with pytest.raises(ConvertorError, match="cannot be joined on axis 2"):
        load(network.write(tmp_path / "net.onnx"))


def test_nodes_may_come_in_any_order(tmp_path: Path) -> None:
    nodes = [
        make("Relu", ["x"], ["a"]),
        make("Neg", ["a"], ["b"]),
        make("Add", ["a", "b"], ["c"]),
        make("Abs", ["c"], ["y"]),
    ]
    inputs = {"x": normal(1, 4, 6, 5)}
    for order in (nodes, nodes[::-1], [nodes[2], nodes[0], nodes[3], nodes[1]]):
        graph = load(Network(order, inputs, {}).write(tmp_path / "net.onnx", ["y"]))
        assert [node.name for node in graph.nodes] == ["x", "a", "b", "c", "y"]


def test_nodes_in_a_circle_are_refused(tmp_path: Path) -> None:
    nodes = [make("Add", ["x", "b"], ["a"]), make("Relu", ["a"], ["b"])]
    with pytest.raises(ConvertorError, match="DV212"):
        load(Network(nodes, {"x": normal(1, 4, 6, 5)}, {}).write(tmp_path / "net.onnx"))
