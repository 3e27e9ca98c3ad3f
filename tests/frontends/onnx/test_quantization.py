"""Quantized feature maps and constants, and other conversions between types."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError, ConvertorWarning
from frontends.onnx.networks import Network, agreeing, helper, load, onnx, results_of, to_map
from frontends.onnx.test_branches import body, choice

RANDOM = np.random.default_rng(17)
make = helper.make_node


def normal(*dims: int) -> Any:
    return RANDOM.standard_normal(dims).astype(np.float32)


X = normal(1, 4, 6, 8)
HALF = np.float32(0.5)


def rounded(path: Path, scale: Any, zero: Any, other: Any = None, **attributes: Any) -> Path:
    """A network that rounds its input to integers and back. zero: None where it is left out. other: the second zero point."""
    names = ["s", *([] if zero is None else ["z"])]
    back = {name: value for name, value in attributes.items() if name == "axis"}
    nodes = [
        make("QuantizeLinear", ["x", *names], ["q"], **attributes),
        make("DequantizeLinear", ["q", "s", *(names[1:] if other is None else ["o"])], ["y"], **back),
    ]
    constants = {"s": np.asarray(scale, np.float32), "z": zero, "o": other}
    return Network(nodes, {"x": X * 4}, {name: x for name, x in constants.items() if x is not None}).write(path)


INT8 = onnx.TensorProto.INT8
QUANTIZED: Mapping[str, tuple[Any, Any, Mapping[str, Any]]] = {
    "relu": (0.05, np.uint8(0), {}),
    "relu of int8": (0.05, np.int8(-128), {}),
    "relu6": (6 / 255, np.uint8(0), {}),
    "hard tanh": (2 / 255, np.uint8(128), {}),
    "symmetric": (0.01, np.int8(0), {}),
    "type by attribute": (0.01, None, {"output_dtype": INT8}),
    "no zero point": (0.01, None, {}),
    "16 bits": (1e-4, np.int16(0), {}),
    "channels": (np.array([0.01, 0.02, 0.005, 0.03]), np.array([0, 50, 100, 255], np.uint8), {"axis": 1}),
    "columns": (np.linspace(0.01, 0.02, 8), np.zeros(8, np.int8), {"axis": -1}),
}


@pytest.mark.parametrize("name", QUANTIZED)
def test_of_quantization_only_the_rounding_is_left_out(name: str, tmp_path: Path) -> None:
    """Numbers outside of the integers' range are limited to it, which may be an activation."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")
    scale, zero, attributes = QUANTIZED[name]
    path = rounded(tmp_path / "net.onnx", scale, zero, **attributes)
    with pytest.warns(ConvertorWarning, match="DV310"):
        graph = load(path)
    (wanted,) = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": X * 4})
    np.testing.assert_allclose(results_of(graph, {"x": X * 4})[0], to_map(wanted), atol=np.max(scale) * 0.51)


def through_integers(of: str, name: str, scale: float, zero: Any) -> tuple[list[Any], dict[str, Any]]:
    """Nodes that round `of` to integers and give `name`, and their constants."""
    names = [f"{name}_scale", f"{name}_zero"]
    nodes = [
        make("QuantizeLinear", [of, *names], [f"{name}_q"]),
        make("DequantizeLinear", [f"{name}_q", *names], [name]),
    ]
    return nodes, {names[0]: np.float32(scale), names[1]: zero}


# Before: a range from -2 to 2. A node behind it -> the scale and the zero point of its result, and whether the range says more.
RANGES: Mapping[str, tuple[Any, float, Any, bool]] = {
    "hard sigmoid": (make("HardSigmoid", ["a"], ["b"], alpha=1 / 6), 1 / 255, np.uint8(0), False),
    "hard sigmoid of the range": (make("HardSigmoid", ["a"], ["b"], alpha=1 / 6), 0.835 / 255, np.uint8(0), False),
    "hard sigmoid that falls": (make("HardSigmoid", ["a"], ["b"], alpha=-0.2), 0.9 / 255, np.uint8(0), False),
    "hard sigmoid of less": (make("HardSigmoid", ["a"], ["b"], alpha=1 / 6), 0.8 / 255, np.uint8(0), True),
    "sigmoid of the range": (make("Sigmoid", ["a"], ["b"]), 0.882 / 255, np.uint8(0), False),
    "sigmoid of less": (make("Sigmoid", ["a"], ["b"]), 0.85 / 255, np.uint8(0), True),
    "max pool": (make("MaxPool", ["a"], ["b"], kernel_shape=[2, 2]), 4 / 255, np.uint8(127), False),
    "flattened": (make("Flatten", ["a"], ["b"]), 4 / 255, np.uint8(127), False),
    "flattened, above 0": (make("Flatten", ["a"], ["b"]), 2 / 255, np.uint8(0), True),
    "average": (make("GlobalAveragePool", ["a"], ["b"]), 4 / 255, np.uint8(127), True),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
@pytest.mark.parametrize("name", RANGES)
def test_a_range_that_follows_from_the_one_before_it_limits_nothing(name: str, tmp_path: Path) -> None:
    node, scale, zero, limits = RANGES[name]
    before, first = through_integers("x", "a", 4 / 255, np.uint8(127))
    behind, second = through_integers("b", "y", scale, zero)
    path = Network([*before, node, *behind], {"x": X * 4}, first | second).write(tmp_path / "net.onnx")
    check_clips(path, ["a_q/clipped", "y_q/clipped"] if limits else ["a_q/clipped"], (scale + 4 / 255) * 0.51)


# The gate, from x of -4 to 4 -> scale and zero of the product, and whether its range says more.
PRODUCTS: Mapping[str, tuple[Any, float, Any, bool]] = {
    "hard swish": (make("HardSigmoid", ["a"], ["b"], alpha=1 / 6), 4.375 / 255, np.uint8(22), False),
    "hard swish of less": (make("HardSigmoid", ["a"], ["b"], alpha=1 / 6), 4.2 / 255, np.uint8(22), True),
    "hard swish that cannot fall": (make("HardSigmoid", ["a"], ["b"], alpha=1 / 6), 4 / 255, np.uint8(0), True),
    "another hard sigmoid": (make("HardSigmoid", ["a"], ["b"], alpha=0.2), 4.313 / 255, np.uint8(18), False),
    "hard sigmoid that falls": (make("HardSigmoid", ["a"], ["b"], alpha=-0.2), 4.313 / 255, np.uint8(18), True),
    "swish": (make("Sigmoid", ["a"], ["b"]), 4.206 / 255, np.uint8(17), False),
    "swish of less": (make("Sigmoid", ["a"], ["b"]), 4.1 / 255, np.uint8(17), True),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
@pytest.mark.parametrize("name", PRODUCTS)
def test_the_range_of_a_swish_follows_from_that_of_its_input(name: str, tmp_path: Path) -> None:
    node, scale, zero, limits = PRODUCTS[name]
    before, first = through_integers("x", "a", 8 / 255, np.uint8(128))
    gate, second = through_integers("b", "c", 1 / 255, np.uint8(0))
    behind, third = through_integers("p", "y", scale, zero)
    nodes = [*before, node, *gate, make("Mul", ["a", "c"], ["p"]), *behind]
    path = Network(nodes, {"x": X * 4}, first | second | third).write(tmp_path / "net.onnx")
    wanted = ["a_q/clipped", "y_q/clipped"] if limits else ["a_q/clipped"]
    check_clips(path, wanted, (8 / 255 + 4 / 255 + scale) * 0.51)


def check_clips(path: Path, wanted_clips: list[str], most: float) -> None:
    """Compare the clips of the graph, and its results with onnxruntime's. most: the error of the rounding that is left out."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")
    graph = load(path)
    assert [each.name for each in graph.nodes if each.name.endswith("q/clipped")] == wanted_clips
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": X * 4})
    np.testing.assert_allclose(results_of(graph, {"x": X * 4})[0], to_map(wanted), atol=most)


FOUR = np.full(4, 0.1)
MISMATCHES: Mapping[str, tuple[Any, Any, Any, Mapping[str, Any]]] = {
    "another zero point": (0.1, np.uint8(0), np.uint8(1), {}),
    "zero points of another number": (0.1, np.zeros(3, np.uint8), None, {}),
    "zero points of different numbers": (FOUR, np.zeros(4, np.int8), np.zeros(3, np.int8), {"axis": 1}),
    "a zero point of floating point": (0.1, np.float32(0), None, {}),
    "scales for another axis": (FOUR, np.zeros(4, np.int8), None, {"axis": 2}),
    "no scale": (np.zeros(0), None, None, {}),
    "a scale of 0": (0, np.int8(0), None, {}),
    "blocks": (np.ones((1, 2, 6, 8)), np.zeros((1, 2, 6, 8), np.int8), None, {"axis": 1, "block_size": 2}),
}


@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
@pytest.mark.parametrize("name", MISMATCHES)
def test_quantization_that_does_not_fit_is_refused(name: str, tmp_path: Path) -> None:
    scale, zero, other, attributes = MISMATCHES[name]
    with pytest.raises(ConvertorError, match=r"DV302|DV206"):
        load(rounded(tmp_path / "net.onnx", scale, zero, other, **attributes))


@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
def test_scales_along_different_axes_differ(tmp_path: Path) -> None:
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1), make("DequantizeLinear", ["q", "s", "z"], ["y"], axis=2),
    ]  # fmt: skip
    constants: Mapping[str, Any] = {"s": np.array([0.1, 0.2, 0.3], np.float32), "z": np.zeros(3, np.int8)}
    with pytest.raises(ConvertorError, match="differ"):
        load(Network(nodes, {"x": normal(1, 3, 3)}, constants).write(tmp_path / "net.onnx"))


# --- constants -----------------------------------------------------------------------------------------------------------

FOLDED: Mapping[str, tuple[list[Any], Mapping[str, Any]]] = {
    "quantized by attribute": (
        [make("QuantizeLinear", ["c", "s"], ["q"], output_dtype=INT8), make("DequantizeLinear", ["q", "s"], ["d"])],
        {"s": np.float32(0.02)},
    ),
    "quantized by columns": (
        [make("QuantizeLinear", ["c", "s", "z"], ["q"], axis=-1),
         make("DequantizeLinear", ["q", "s", "z"], ["d"], axis=-1)],
        {"s": np.linspace(0.01, 0.1, 8, dtype=np.float32), "z": np.arange(8, dtype=np.uint8)},
    ),
    "bfloat16": ([make("Cast", ["c"], ["b"], to=16), make("Cast", ["b"], ["d"], to=1)], {}),
    "dropout": ([make("Dropout", ["c", "r"], ["d", "mask"])], {"r": HALF}),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDED)
def test_constants_are_computed_as_by_onnxruntime(name: str, tmp_path: Path) -> None:
    nodes, constants = FOLDED[name]
    network = Network([*nodes, make("Add", ["x", "d"], ["y"])], {"x": X}, {"c": normal(6, 8), **constants})
    agreeing(network, tmp_path / "net.onnx", tolerance=1e-5)


CASTS: Mapping[str, tuple[type, int, bool]] = {
    "wider": (np.uint8, onnx.TensorProto.INT64, True),
    "an index": (np.int64, onnx.TensorProto.INT32, True),
    "narrower": (np.int32, onnx.TensorProto.UINT8, False),
    "without a sign": (np.int8, onnx.TensorProto.UINT64, False),
}


@pytest.mark.parametrize("name", CASTS)
def test_casts_that_cut_integers_are_refused(name: str, tmp_path: Path) -> None:
    given, to, is_allowed = CASTS[name]
    nodes = [make("Cast", ["x"], ["i"], to=to), make("Cast", ["i"], ["y"], to=1)]
    network = Network(nodes, {"x": np.array([[1, 2, 100]], given)}, {})
    if is_allowed:
        agreeing(network, tmp_path / "net.onnx")
        return
    with pytest.raises(ConvertorError, match="a cast of integers"):
        load(network.write(tmp_path / "net.onnx"))


@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
@pytest.mark.parametrize("types", [[np.int8], [np.int32, np.int8]], ids=["the same", "wider and back"])
def test_a_cast_that_holds_all_quantized_numbers_changes_nothing(types: list[Any], tmp_path: Path) -> None:
    nodes = [make("QuantizeLinear", ["x", "s", "z"], ["c0"])]
    for at, type in enumerate(types):
        nodes.append(make("Cast", [f"c{at}"], [f"c{at + 1}"], to=helper.np_dtype_to_tensor_dtype(np.dtype(type))))
    nodes.append(make("DequantizeLinear", [f"c{len(types)}", "s", "z"], ["y"]))
    constants: Mapping[str, Any] = {"s": np.float32(0.02), "z": np.int8(0)}
    agreeing(Network(nodes, {"x": X / 4}, constants), tmp_path / "net.onnx", tolerance=0.011)


@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
@pytest.mark.parametrize("to", [1, onnx.TensorProto.BOOL, onnx.TensorProto.UINT8], ids=["float32", "bool", "uint8"])
def test_other_casts_of_quantized_numbers_are_refused(to: int, tmp_path: Path) -> None:
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["q"]),
        make("Cast", ["q"], ["c"], to=to),
        make("Cast", ["c"], ["y"], to=1),
    ]
    constants: Mapping[str, Any] = {"s": np.float32(0.02), "z": np.int8(0)}
    with pytest.raises(ConvertorError, match=r"DV302.*(quantized numbers|a cast of integers)"):
        load(Network(nodes, {"x": X}, constants).write(tmp_path / "net.onnx"))


@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
def test_integers_that_are_joined_to_quantized_numbers_stand_for_numbers(tmp_path: Path) -> None:
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["q"]), make("Slice", ["q", "one", "one", "one"], ["nothing"]),
        make("Concat", ["c", "q", "nothing", "c"], ["j"], axis=1), make("DequantizeLinear", ["j", "s", "z"], ["y"]),
    ]  # fmt: skip
    joined = RANDOM.integers(-128, 128, (1, 2, 6, 8)).astype(np.int8)
    constants: Mapping[str, Any] = {"s": np.float32(0.02), "z": np.int8(5), "c": joined, "one": np.array([1])}
    agreeing(Network(nodes, {"x": X / 4}, constants), tmp_path / "net.onnx", tolerance=0.011)


SUMS = [make("ConvInteger", ["q", "w", "z"], ["i"]), make("Cast", ["i"], ["f"], to=1)]
# Behind integers whose scale follows from the numbers: a network whose results depend on the scale, and the layer that reads it.
OF_THE_SCALE: Mapping[str, tuple[list[Any], str]] = {
    "joined constants": (
        [make("Concat", ["q", "c"], ["j"], axis=1), make("DequantizeLinear", ["j", "s", "z"], ["y"])], "j",
    ),
    "a cast": ([make("Cast", ["q"], ["y"], to=1)], "y"),
    "a comparison": ([make("Greater", ["q", "c"], ["b"]), make("Cast", ["b"], ["y"], to=1)], "b"),
    "an output": ([make("Identity", ["q"], ["y"])], "y"),
    "the scale as an output": ([make("Reshape", ["s", "one"], ["y"])], "y"),
    "the scale as a factor": ([make("Mul", ["x", "s"], ["y"])], "y"),
    "the zero point as data": ([make("Cast", ["z"], ["f"], to=1), make("Add", ["x", "f"], ["y"])], "y"),
    "a scale of constants": ([make("DequantizeLinear", ["q", "one", "zero"], ["y"])], "y"),
    "no zero point": ([make("DequantizeLinear", ["q", "s"], ["y"])], "y"),
    "a constant of the scale": ([make("DequantizeLinear", ["c", "s", "z"], ["k"]), make("Add", ["x", "k"], ["y"])], "k"),
    "sums without a scale": ([*SUMS, make("Identity", ["f"], ["y"])], "y"),
    "sums by the scale twice": ([*SUMS, make("Mul", ["f", "s"], ["m"]), make("Mul", ["m", "s"], ["y"])], "y"),
    "sums by its inverse": ([*SUMS, make("Div", ["f", "s"], ["y"])], "y"),
    "sums and a constant": ([*SUMS, make("Add", ["f", "half"], ["a"]), make("Mul", ["a", "s"], ["y"])], "a"),
    "sums of another scale": (
        [*SUMS, make("Relu", ["x"], ["r"]), make("DynamicQuantizeLinear", ["r"], ["p", "t", "u"]), make("Mul", ["f", "t"], ["y"])],
        "y",
    ),
    "in a branch": (
        [choice("yes", body([make("Mul", ["x", "s"], ["t"])]), body([make("Relu", ["x"], ["t"])]))], "y",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
@pytest.mark.parametrize("name", OF_THE_SCALE)
def test_integers_without_a_constant_scale_stand_for_no_numbers(name: str, tmp_path: Path) -> None:
    after, layer = OF_THE_SCALE[name]
    constants: Mapping[str, Any] = {
        "c": np.ones(X.shape, np.uint8), "w": np.ones((3, X.shape[1], 1, 1), np.uint8), "half": np.float32(0.5),
        "one": np.float32(1) if name == "a scale of constants" else np.array([1]), "zero": np.uint8(0), "yes": np.array(True),
    }  # fmt: skip
    nodes = [make("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), *after]
    path = Network(nodes, {"x": X}, constants).write(tmp_path / "net.onnx")
    with pytest.raises(ConvertorError, match=r'DV302: this use of .* of "[qp]" \(DynamicQuantizeLinear\)') as caught:
        load(path)
    assert [problem.where and problem.where.layer for problem in caught.value.problems] == [layer]


@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
def test_uses_of_a_scale_that_change_no_result_are_read(tmp_path: Path) -> None:
    nodes = [
        make("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), *SUMS, make("Reshape", ["s", "one"], ["t"]),
        make("Mul", ["x", "s"], ["unused"]), make("Mul", ["t", "half"], ["u"]), make("Mul", ["u", "f"], ["y"]),
    ]  # fmt: skip
    constants: Mapping[str, Any] = {
        "w": np.ones((3, X.shape[1], 1, 1), np.uint8), "half": np.float32(0.5), "one": np.array([1]),
    }  # fmt: skip
    agreeing(Network(nodes, {"x": X}, constants), tmp_path / "net.onnx", tolerance=0.05)


def test_quantized_numbers_without_a_constant_scale_come_back(tmp_path: Path) -> None:
    nodes = [
        make("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), make("Transpose", ["q"], ["t"], perm=[0, 1, 3, 2]),
        make("DequantizeLinear", ["t", "s", "z"], ["y"]),
    ]  # fmt: skip
    with pytest.warns(ConvertorWarning, match="DV310"):
        agreeing(Network(nodes, {"x": X}, {}), tmp_path / "net.onnx", tolerance=0.02)


def test_an_output_of_integers_is_the_numbers_that_they_stand_for(tmp_path: Path) -> None:
    """The warning tells what gives the integers."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")
    nodes = [make("Relu", ["x"], ["r"]), make("QuantizeLinear", ["r", "s", "z"], ["y"])]
    path = Network(nodes, {"x": X}, {"s": np.float32(0.02), "z": np.int8(-128)}).write(tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.elem_type = INT8
    onnx.save(model, path)
    with pytest.warns(ConvertorWarning, match=r"DV310.*the output holds numbers(.|\n)*round\(number / 0\.02\) \+ -128"):
        graph = load(path)
    (integers,) = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": X})
    (numbers,) = results_of(graph, {"x": X})
    assert np.abs(np.round(numbers / 0.02) - 128 - to_map(integers)).max() <= 1


SCALES: Mapping[str, tuple[Any, Any, int]] = {
    "one": (0.05, np.uint8(7), 1),
    "no zero point": (0.05, None, 1),
    "of each channel": (np.array([0.05, 0.1, 0.2]), np.array([0, 7, 255], np.uint8), 1),
    "of each column": (np.linspace(0.01, 0.1, 5), None, 3),
}


@pytest.mark.parametrize("name", SCALES)
def test_an_input_of_quantized_numbers_is_scaled(name: str, tmp_path: Path) -> None:
    scale, zero, axis = SCALES[name]
    names = ["s"] if zero is None else ["s", "z"]
    nodes = [make("DequantizeLinear", ["x", *names], ["d"], axis=axis), make("Relu", ["d"], ["y"])]
    constants = {"s": np.asarray(scale, np.float32), "z": zero}
    pixels = RANDOM.integers(0, 256, (1, 3, 4, 5), np.uint8)
    network = Network(nodes, {"x": pixels}, {key: constants[key] for key in names})
    agreeing(network, tmp_path / "net.onnx")


REWRITTEN = ["QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"]
CONTRIBUTED = ["QGemm", "QLinearAdd", "QLinearSigmoid", "QLinearConcat", "QLinearGlobalAveragePool"]


@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
@pytest.mark.parametrize("type", [*REWRITTEN, *CONTRIBUTED])
def test_operators_on_quantized_numbers_without_inputs_or_outputs_are_no_crash(type: str, tmp_path: Path) -> None:
    domain = "com.microsoft" if type in CONTRIBUTED else ""
    constants: Mapping[str, Any] = {"s": np.float32(0.1), "z": np.uint8(0), "w": np.ones((3, 3, 1, 1), np.uint8)}
    for count in range(10):
        inputs = ["x", "s", "z", "w", "s", "z", "s", "z", "s"][:count]
        for outputs in ([], [""], ["q"]):
            nodes = [make(type, inputs, outputs, domain=domain), make("Relu", ["q" if "q" in outputs else "x"], ["y"])]
            path = Network(nodes, {"x": X}, constants).write(tmp_path / "net.onnx")
            if "q" in outputs:
                with pytest.raises(ConvertorError, match=r"DV30[12]|DV206"):
                    load(path)
            else:
                assert [node.name for node in load(path).nodes] == ["x", "y"]
