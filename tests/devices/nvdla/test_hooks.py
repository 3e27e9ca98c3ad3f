"""A network tells its board of all memory that changes sides: without any of these calls its results are others."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.devices.nvdla.accelerator import NvdlaAccelerator
from cnn_convertor.devices.nvdla.hardware import NvdlaHardware
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.errors import ConvertorError, Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import ONE, Axis, Shape, Window
from cnn_convertor.pipeline import plan
from reference.registry import some

TARGET = NvdlaAccelerator(NvdlaHardware("nvdla-full"))
CALL = re.compile(
    r"^ +(?:if \(hooks_\.to_device\) hooks_\.to_device\(hooks_.context, weights_|To(?:Device|Cpu)\().*$", re.MULTILINE
)


def network() -> Graph:
    """Both sides in turn, the device last."""
    x = Node("x", ops.Input(Shape(4, 5, 20)))
    first = Node("a", ops.Conv2d(some(12, 20, 1, 1), some(12), Window(ONE)), ("x",), (Origin("net", "a"),))
    softmax = Node("b", ops.Softmax(Axis.HEIGHT), ("a",), (Origin("net", "b"),))
    last = Node("c", ops.Conv2d(some(7, 12, 1, 1), None, Window(ONE)), ("b",), (Origin("net", "c"),))
    return Graph((x, first, softmax, last), ("c",))


def result(folder: Path, graph: Graph, images: Maps, removed: int | None = None) -> Maps:
    """removed: the number of the call that the source lacks."""
    program = plan(graph, "net", TARGET)
    files = TARGET.emit(program, RenderOptions("net"))
    source = files["net_gen.cpp"]
    assert isinstance(source, str)
    calls = list(CALL.finditer(source))
    assert len(calls) == 5  # the weights, the input, what the CPU reads and writes, the output
    if removed is not None:
        files["net_gen.cpp"] = source.replace(calls[removed][0], "", 1)
    network = TARGET.install(graph, program, files, folder)
    (output,) = network.run({"x": images}).outputs
    return output


@pytest.mark.slow
def test_every_call_is_needed(tmp_path: Path, compiler: None) -> None:
    graph = network()
    images = np.random.default_rng(0).normal(size=(2, 4, 5, 20)).astype(np.float32)
    expected = result(tmp_path / "all", graph, images)
    assert np.isfinite(expected).all()
    for removed in range(5):
        try:
            output = result(tmp_path / str(removed), graph, images, removed)
        except ConvertorError as error:
            if any(problem.code == "DV702" for problem in error.problems):
                raise  # it does not compile
            continue
        assert not np.array_equal(output, expected), removed
