"""Products of maps on the emulated device give what the graph means, in both memory orders."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.audit import audit
from cnn_convertor.config import Config
from cnn_convertor.devices import cpu_functions
from cnn_convertor.devices.cpu_functions import FUNCTIONS
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Matrices, Shape
from cnn_convertor.pipeline import plan
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification.compare import sqnr
from reference import ir_reference
from verification.attentions import attention, conv, slow_products
from verification.trials import NAME, config, network, samples, target_for

pytestmark = pytest.mark.usefixtures("compiler")

RANDOM = np.random.default_rng(0)


def product(
    left: tuple[Matrices, Shape], right: tuple[Matrices, Shape], result: Matrices, *, before: bool = True
) -> Graph:
    """The product of two maps, which the device writes before it or the application does."""
    nodes = [Node("x", ops.Input(left[1])), Node("y", ops.Input(right[1]))]
    names = ["x", "y"]
    if before:
        names = ["x2", "y2"]
        nodes.append(Node("x2", conv(left[1].channels, left[1].channels), ("x",)))
        nodes.append(Node("y2", conv(right[1].channels, right[1].channels), ("y",)))
    nodes.append(Node("p", ops.MatMul(left[0], right[0], result, 0.5), tuple(names)))
    return Graph(tuple(nodes), ("p",))


def one(rows: Axis, columns: Axis) -> Matrices:
    (batch,) = {*Axis} - {rows, columns}
    return Matrices(1, batch, rows, columns)


H, W, C = Axis
RUNS = Matrices(3, C, W, C)
NETWORKS: dict[str, tuple[Graph, int]] = {  # with the number of matrices on the device
    "attention with one head": (attention(13, 1, 24), 2),
    "attention with heads of whole chunks": (attention(21, 3, 16, factor=0.25), 6),
    "attention with other heads": (attention(19, 2, 20), 4),
    "attention over more than a tile of channels": (attention(70, 2, 72), 4),
    "attention with a mask": (attention(11, 2, 8, masked=True), 4),
    "rows times columns": (product((one(W, C), Shape(1, 9, 12)), (one(C, W), Shape(1, 10, 12)), one(W, C)), 1),
    "more rows than a map is wide": (
        product((one(W, C), Shape(1, 2100, 12)), (one(C, W), Shape(1, 5, 12)), one(W, C)), 1,
    ),
    "columns times rows": (product((one(C, W), Shape(1, 9, 12)), (one(W, C), Shape(1, 9, 5)), one(H, W)), 1),
    "columns of pixels": (product((one(H, C), Shape(9, 1, 12)), (one(C, H), Shape(7, 1, 12)), one(H, C)), 1),
    "planes": (product((one(H, W), Shape(5, 6, 1)), (one(H, W), Shape(6, 7, 1)), one(H, W), before=False), 1),
    "one matrix times runs": (
        product((one(W, C), Shape(1, 6, 8)), (Matrices(3, C, W, C), Shape(1, 8, 48)), Matrices(3, C, W, C)), 3,
    ),
    "runs times one matrix": (
        product((RUNS, Shape(1, 7, 24)), (one(W, C), Shape(1, 8, 10)), Matrices(3, W, H, C)), 3,
    ),
    "runs of rows": (
        product((Matrices(2, H, H, C), Shape(6, 1, 9)), (Matrices(2, W, C, W), Shape(1, 8, 9)), Matrices(2, H, H, W)), 2,
    ),
}  # fmt: skip


@pytest.mark.rotating
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])
def test_products_with_what_the_cpu_packs(name: str, transposed: bool, tmp_path: Path) -> None:
    graph, count = NETWORKS[name]
    trial = network(graph, tmp_path, device=slow_products(), transpose_weight=transposed, fusion="full")
    packed = [run for layer in trial.program.layers for run in layer.runs if run.factors is not None]
    assert len(packed) == count
    assert not audit(tmp_path / f"{NAME}_gen.cpp", tmp_path / f"{NAME}_weights.bin").findings
    inputs = samples({node.name: RANDOM.normal(size=graph.shape(node.name)) for node in graph.inputs})
    expected = ir_reference.run(graph, {name: values[0] for name, values in inputs.items()})
    (output,) = graph.outputs
    assert sqnr(trial.run(inputs).outputs[0][0], expected[output]) > 55


@pytest.mark.parametrize("heads", [2, 12])
def test_the_commands_of_a_product_follow_each_other(heads: int) -> None:
    """To the CPU, which packs, back for all scores, then for each softmax, and back for all sums; at last, for the output."""
    made = config(Path("net.keras"), device=slow_products(), fusion=Fusion.FULL)
    program = plan(attention(24, heads, 8), "net", target_for(made))
    sides = [layer.type.executor for layer in program.layers if layer.type.executor != "none"]
    changes = [(before, after) for before, after in pairwise(sides) if before != after]
    assert len(changes) == 5 and sides.count("device") == 2 * heads + 4


def exported(folder: Path) -> Config:
    """Attention of three heads as PyTorch exports it, for a device whose CPU takes long for products."""
    onnx = pytest.importorskip("onnx", reason="the network is made by the onnx package")
    pytest.importorskip("onnxruntime", reason="onnxruntime computes the reference")
    make, stored = onnx.helper.make_node, onnx.numpy_helper.from_array
    constants = [stored(np.array([1, 14, 3, 8]), "split"), stored(np.array([1, 14, 24]), "whole")]
    nodes = []
    for name in "qkv":
        constants.append(stored(RANDOM.normal(size=(24, 24)).astype(np.float32) / 5, f"w{name}"))
        nodes.append(make("MatMul", ["x", f"w{name}"], [f"{name}1"], f"{name}1"))
        nodes.append(make("Reshape", [f"{name}1", "split"], [f"{name}2"]))
        axes = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes.append(make("Transpose", [f"{name}2"], [name], perm=axes))
    nodes += [
        make("MatMul", ["q", "k"], ["scores"], "scores"),
        make("Softmax", ["scores"], ["softmax"], "softmax", axis=-1),
        make("MatMul", ["softmax", "v"], ["heads"], "heads"),
        make("Transpose", ["heads"], ["turned"], perm=[0, 2, 1, 3]),
        make("Reshape", ["turned", "whole"], ["y"], "y"),
    ]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 14, 24]) for name in "xy"]
    made = onnx.helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(made, opset_imports=[opset], ir_version=8), folder / "net.onnx")
    return Config.of(folder / "net.onnx", device=slow_products(), fusion=Fusion.FULL, quantization=False)


MATRICES = [f"{layer}, matrix {number}" for layer in ("scores", "softmax") for number in range(3)]


def test_each_matrix_is_compared_and_judged(tmp_path: Path) -> None:
    result = verify(exported(tmp_path), samples=1, layers=True)
    assert result.passed and not result.unjudged
    assert [row.comparison.name for row in result.layers if "matrix" in row.comparison.name] == MATRICES
    assert result.judged_maps == len(result.layers)


def test_what_is_packed_wrongly_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a part in a thousand: the emulated device itself refuses weights that are packed in another form."""
    row = FUNCTIONS[ops.PackedMatrices]
    faulty = row._replace(arguments=lambda op: row.arguments(replace(op, factor=1.001 * op.factor)))
    monkeypatch.setattr(cpu_functions, "FUNCTIONS", {**FUNCTIONS, ops.PackedMatrices: faulty})
    result = verify(exported(tmp_path), samples=1)
    assert not result.passed
    assert {*MATRICES[:3], "y"} <= {each.layer for each in result.wrong_maps}
