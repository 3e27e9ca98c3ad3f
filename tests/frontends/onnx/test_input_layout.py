"""A transposition behind an input is the layout of this input: its map has the model's own channels, and no layer moves them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.errors import ConvertorError
from cnn_convertor.ir import ops
from cnn_convertor.pipeline import build
from cnn_convertor.pipeline import load as load_configured
from cnn_convertor.trials.verify import verify
from frontends.onnx.networks import Network, agreeing, helper, load, results_of, with_open_sizes

make = helper.make_node
RANDOM = np.random.default_rng(29)
SIZE = (9, 8, 3)


def normal(*dims: int) -> Any:
    return RANDOM.standard_normal(dims).astype(np.float32)


X = normal(1, *SIZE)
CONSTANTS = {"w": normal(4, 3, 3, 3), "v": normal(4, 3, 1, 1)}
TURN = make("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2])
CONV = make("Conv", ["t", "w"], ["y"])


def network(*nodes: Any) -> Network:
    return Network(nodes or (TURN, CONV), {"x": X}, CONSTANTS)


def results(net: Network, path: Path, outputs: Sequence[str] = ()) -> Any:
    """What onnxruntime computes, as maps."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")
    session = onnxruntime.InferenceSession(net.write(path, outputs), providers=["CPUExecutionProvider"])
    return [values[0].transpose(1, 2, 0) for values in session.run(None, net.inputs)]


TURNED_TWICE = network(
    TURN,
    make("Transpose", ["x"], ["u"], perm=[0, 3, 1, 2]),
    make("Conv", ["t", "v"], ["a"]),
    make("Conv", ["u", "v"], ["b"]),
    make("Add", ["a", "b"], ["y"]),
)


@pytest.mark.parametrize("net", [network(), TURNED_TWICE], ids=["once", "twice"])
def test_the_input_has_the_channels_of_the_model(net: Network, tmp_path: Path) -> None:
    (expected,) = results(net, tmp_path / "net.onnx")
    graph = load(tmp_path / "net.onnx")
    assert graph.shape("x") == SIZE
    assert not any(isinstance(node.op, ops.TransposeReshape) for node in graph.nodes)
    (found,) = results_of(graph, {"x": X})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


OTHERS = {
    "another order": network(make("Transpose", ["x"], ["t"], perm=[0, 3, 2, 1]), make("Conv", ["t", "w"], ["y"])),
    "another reader": network(
        TURN,
        make("Transpose", ["x"], ["u"], perm=[0, 3, 2, 1]),
        make("Conv", ["t", "v"], ["a"]),
        make("Conv", ["u", "v"], ["b"]),
        make("Flatten", ["a"], ["c"]),
        make("Flatten", ["b"], ["d"]),
        make("Add", ["c", "d"], ["y"]),
    ),
    "an output": network(TURN),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_transpositions_are_layers(name: str, tmp_path: Path) -> None:
    graph = agreeing(OTHERS[name], tmp_path / "net.onnx")
    assert graph.shape("x") == (8, 3, 9)


def test_open_sizes_are_height_and_width(tmp_path: Path) -> None:
    path = with_open_sizes(network().write(tmp_path / "net.onnx"), "N", "height", "width", 3)
    assert load(path, size=(10, 12)).shape("x") == (10, 12, 3)
    with pytest.raises(ConvertorError, match="width_override"):
        load(path)


def test_a_batch_is_refused_with_the_sizes_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = with_open_sizes(network().write(tmp_path / "net.onnx"), 4, 9, 8, 3)
    with pytest.raises(ConvertorError) as refusal:
        load(path)
    (problem,) = refusal.value.problems
    assert problem.message == "the input is a batch of 4" and "zeros(1, 9, 8, 3)" in problem.example


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("kind", "open_sizes"), [("fp16", True), ("u8", False), ("u8_bgr", True)])
def test_images_are_prepared_and_verified(kind: str, open_sizes: bool, tmp_path: Path) -> None:
    """Mean and std have a number for each channel, and the first command of the device reads the pixels."""
    path = network().write(tmp_path / "net.onnx")
    lines = ["[INPUT]", "name = net", "definition = net.onnx", "mean = 123.7, 116.3, 103.5", "std = 58.4, 57.1, 57.4"]
    if open_sizes:
        with_open_sizes(path, "N", "height", "width", 3)
        lines += ["height_override = 9", "width_override = 8"]
    lines += ["[OUTPUT]", f"input = {kind}", "output_folder = out"]
    (tmp_path / "net.ini").write_text("\n".join(lines))
    config = Config.read(tmp_path / "net.ini")
    program = build(load_configured(config), config)
    assert [layer for layer in program.layers if layer.cpu is not None] == []
    assert (program.byte_input is None) == (kind == "fp16")
    result = verify(config, samples=2, layers=True, min_sqnr=45.0)
    assert result.passed and result.layers
