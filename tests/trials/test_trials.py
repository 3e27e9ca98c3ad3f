"""Networks are run and verified under the names in the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.sources.rendering import render
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Shape, Window
from cnn_convertor.pipeline import build
from cnn_convertor.report.collecting import report_of
from cnn_convertor.report.summary import summary
from cnn_convertor.trials import run as running
from cnn_convertor.trials import verify as verifying
from reference import ir_reference
from verification.trials import config

pytestmark = pytest.mark.usefixtures("compiler")


def origin(layer: str) -> tuple[Origin, ...]:
    return (Origin("net", layer, "Type"),)


def detector() -> Graph:
    """Two outputs of a layer "boxes", one of them flattened by it, and one of "scores"."""
    kernels = Constant.of(np.random.default_rng(0).normal(size=(5, 3, 1, 1)))
    nodes = (
        Node("x", ops.Input(Shape(3, 4, 3))),
        Node("boxes/conv", ops.Conv2d(kernels, None, Window(Pair(1, 1))), ("x",), origin("boxes")),
        Node("boxes/flatten", ops.Reshape(Shape(1, 1, 60), ops.Order.HWC), ("boxes/conv",), origin("boxes")),
        Node("scores", ops.Activation(ops.Relu()), ("boxes/conv",), origin("scores")),
    )
    return Graph(nodes, ("boxes/flatten", "boxes/conv", "scores"))


NAMES = ["boxes", "boxes#2", "scores"]


def test_an_output_has_one_name_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, chosen = detector(), config(Path("graph.keras"))
    monkeypatch.setattr(running, "read_whole", lambda _: graph)
    monkeypatch.setattr(verifying, "read_whole", lambda _: graph)
    image = np.random.default_rng(1).normal(size=(1, 3, 4, 3)).astype(np.float16).astype(np.float32)
    np.save(tmp_path / "x.npy", image)
    assert list(running.run(chosen, tmp_path / "x.npy")) == NAMES

    results = ir_reference.run(graph, {"x": image[0]})
    expected = {f"expected_{n}": results[o][np.newaxis] for n, o in zip(NAMES, graph.outputs, strict=True)}
    np.savez(tmp_path / "given.npz", x=image, **expected)  # type: ignore[arg-type]  # names are no keywords of numpy's
    result = verifying.verify(chosen, inputs=tmp_path / "given.npz")
    assert result.passed and [output.name for output in result.outputs] == NAMES

    program = build(graph, chosen)
    header = render(program, RenderOptions("a graph"))["net_gen.h"]
    told = "\n".join(value for _, value in summary(report_of(program, Request.of(chosen))))
    for text in (header, told):
        assert [f'"{name}"' for name in NAMES if f'"{name}"' in text] == [f'"{name}"' for name in NAMES]
        assert "boxes/" not in text
