"""Networks that onnxruntime quantizes, in both of its forms and with scales that follow from the numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.errors import ConvertorError, ConvertorWarning
from cnn_convertor.trials.verify import verify
from frontends.onnx.networks import Network, helper, load, onnx, results_of, to_map

quantization = pytest.importorskip("onnxruntime.quantization", reason="onnxruntime quantizes the networks")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
RANDOM = np.random.default_rng(17)
X = RANDOM.standard_normal((1, 4, 8, 8)).astype(np.float32)
make = helper.make_node


def normal(*dims: int) -> Any:
    return (RANDOM.standard_normal(dims) / 3).astype(np.float32)


def network() -> Network:
    """Types that have forms for quantized numbers, and some that move these."""
    nodes = [
        make("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), make("Relu", ["c"], ["r"]),
        make("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        make("Conv", ["m", "v"], ["d"]), make("Sigmoid", ["d"], ["g"]), make("Mul", ["d", "g"], ["swish"]),
        make("LeakyRelu", ["d"], ["leaky"], alpha=0.2), make("Add", ["swish", "leaky"], ["a"]),
        make("Concat", ["a", "m"], ["j"], axis=1), make("AveragePool", ["j"], ["p"], kernel_shape=[2, 2]),
        make("GlobalAveragePool", ["p"], ["gap"]), make("Flatten", ["gap"], ["f"]), make("Gemm", ["f", "k", "l"], ["e"]),
        make("MatMul", ["e", "n"], ["mm"]), make("Softmax", ["mm"], ["y"]),
    ]  # fmt: skip
    constants = {
        "w": normal(6, 4, 3, 3), "b": normal(6), "v": normal(5, 6, 1, 1), "k": normal(11, 7), "l": normal(7), "n": normal(7, 5),
    }  # fmt: skip
    return Network(nodes, {"x": X}, constants, 17)


class Samples(quantization.CalibrationDataReader):  # type: ignore[name-defined, misc]  # imported by importorskip
    def __init__(self) -> None:
        self._rest = [{"x": X}, {"x": -X}]

    def get_next(self) -> dict[str, Any] | None:
        return self._rest.pop() if self._rest else None


def quantized(folder: Path, form: Any, **options: Any) -> Path:
    """The network in one of onnxruntime's forms: QuantFormat, or None for scales that follow from the numbers."""
    plain, path = network().write(folder / "plain.onnx"), folder / "net.onnx"
    if form is None:
        quantization.quantize_dynamic(plain, path, **options)
    else:
        quantization.quantize_static(plain, path, Samples(), quant_format=form, **options)
    return path


QOPERATOR, QDQ = quantization.QuantFormat.QOperator, quantization.QuantFormat.QDQ
FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "QOperator": (QOPERATOR, {}),
    "QOperator, a scale for each output": (QOPERATOR, {"per_channel": True}),
    "QOperator, int8": (QOPERATOR, {"activation_type": quantization.QuantType.QInt8}),
    "QDQ": (QDQ, {}),
    "dynamic": (None, {}),
}


@pytest.mark.parametrize("name", FORMS)
def test_of_a_quantized_network_only_the_rounding_is_left_out(name: str, tmp_path: Path) -> None:
    form, options = FORMS[name]
    path = quantized(tmp_path, form, **options)
    types = {node.op_type for node in onnx.load(path).graph.node}
    wanted_types = {
        "QOperator": {"QLinearConv", "QLinearAdd", "QGemm"},
        "QDQ": {"QuantizeLinear"},
        "dynamic": {"ConvInteger"},
    }
    assert wanted_types[name.partition(",")[0]] <= types
    with pytest.warns(ConvertorWarning, match="DV310"):
        graph = load(path)
    (wanted,) = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": X})
    np.testing.assert_allclose(results_of(graph, {"x": X})[0], to_map(wanted), atol=0.02)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("name", ["QOperator", "QDQ", "dynamic"])
def test_a_quantized_network_on_the_device(name: str, tmp_path: Path) -> None:
    """The device has no such rounding, so results agree to about the steps of 8 bits."""
    form, options = FORMS[name]
    config = Config(definition=quantized(tmp_path, form, **options), output_folder=tmp_path, quantization=False)
    result = verify(config, samples=2, layers=True, min_sqnr=25.0)
    assert result.passed, result


def test_numbers_of_two_scales_are_not_joined(tmp_path: Path) -> None:
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["a"]), make("QuantizeLinear", ["x", "t", "z"], ["b"]),
        make("Concat", ["a", "b"], ["c"], axis=1), make("DequantizeLinear", ["c", "s", "z"], ["y"]),
    ]  # fmt: skip
    constants: dict[str, Any] = {"s": np.float32(0.1), "t": np.float32(0.2), "z": np.uint8(128)}
    with pytest.raises(ConvertorError, match="arithmetic of quantized numbers"):
        load(Network(nodes, {"x": X}, constants).write(tmp_path / "net.onnx"))


@pytest.mark.parametrize("attribute", ["opset", "channels_last", "strange"])
def test_an_attribute_that_another_type_has_is_refused(attribute: str, tmp_path: Path) -> None:
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["q"]),
        make("QLinearConv", ["q", "s", "z", "w", "s", "z", "s", "z"], ["c"], **{attribute: 1}),
        make("DequantizeLinear", ["c", "s", "z"], ["y"]),
    ]
    constants: dict[str, Any] = {"s": np.float32(0.1), "z": np.uint8(128), "w": np.ones((3, 4, 1, 1), np.uint8)}
    with pytest.raises(ConvertorError, match=f"the attribute {attribute} cannot be converted"):
        load(Network(nodes, {"x": X}, constants).write(tmp_path / "net.onnx"))


@pytest.mark.parametrize("opset", [12, 1.0])
def test_a_softmax_of_older_operators_is_refused(opset: float, tmp_path: Path) -> None:
    """It would be over other axes."""
    inputs = ["q", "s", "z", "s", "z"]
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["q"]),
        make("QLinearSoftmax", inputs, ["r"], domain="com.microsoft", axis=1, opset=opset),
        make("DequantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    constants: dict[str, Any] = {"s": np.float32(0.1), "z": np.uint8(128)}
    with pytest.raises(ConvertorError, match=r"DV301.*QLinearSoftmax"):
        load(Network(nodes, {"x": X}, constants, 17).write(tmp_path / "net.onnx"))


def test_a_product_of_integers_that_stand_for_no_numbers_is_refused(tmp_path: Path) -> None:
    x = RANDOM.integers(0, 9, (1, 4, 6, 6)).astype(np.uint8)
    nodes = [make("ConvInteger", ["x", "w"], ["c"]), make("Cast", ["c"], ["y"], to=onnx.TensorProto.FLOAT)]
    with pytest.raises(ConvertorError, match=r"DV301.*ConvInteger"):
        load(Network(nodes, {"x": x}, {"w": np.ones((3, 4, 3, 3), np.uint8)}).write(tmp_path / "net.onnx"))
