"""Networks that end in an arg max give bytes where the device has a maximizer, the same with and without the block."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.audit import audit
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.emulating import Twin
from cnn_convertor.devices.dv700.profiles import device_of
from cnn_convertor.devices.dv700.sources import selftest
from cnn_convertor.devices.dv700.sources.rendering import render_selftest
from cnn_convertor.devices.program import ElementType
from cnn_convertor.emulation.build import INCLUDE, device_library
from cnn_convertor.files.replacing import replace_all
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Padding, Pair, Shape, Window
from cnn_convertor.pipeline import build, render
from cnn_convertor.workers.compiler import find_compiler
from verification.trials import config, network, samples

needs_compiler = pytest.mark.usefixtures("compiler")
ZIA_C3 = read_profile("zia-c3", Path())


def integers(*shape: int, seed: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.float64)


def segmentation(classes: int, *, axis: Axis = Axis.CHANNELS, count: int = 1, values: bool = False) -> Graph:
    """A convolution of small integers, so that many classes are equal, and its arg max."""
    conv = ops.Conv2d(Constant.of(integers(classes, 3, 3, 3)), None, Window(Pair(3, 3), padding=Padding(1, 1, 1, 1)))
    return Graph(
        (
            Node("image", ops.Input(Shape(5, 7, 3))),
            Node("scores", conv, ("image",)),
            Node("classes", ops.ArgMax(axis, count, values=values), ("scores",)),
        ),
        ("classes", "scores"),
    )


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@needs_compiler
@pytest.mark.parametrize("classes", [2, 8, 12, 255])
@pytest.mark.parametrize("transposed", [True, False], ids=["HWC", "WHC"])
@pytest.mark.parametrize("blocks", [{"conv", "maximizer"}, {"conv"}], ids=["with the block", "without"])
def test_classes_are_bytes_and_ties_go_to_the_lowest(
    classes: int, transposed: bool, blocks: set[str], tmp_path: Path
) -> None:
    graph = segmentation(classes)
    made = network(graph, tmp_path, device=ZIA_C3, transpose_weight=transposed)
    made = made._replace(device=Twin(device_of(ZIA_C3)._replace(blocks=frozenset(blocks))))
    inputs = samples({"image": integers(5, 7, 3, seed=1)}, {"image": np.zeros((5, 7, 3))})
    found, scores = made.run(inputs).outputs
    assert made.program.layers[made.program.outputs[0]].output.type is ElementType.BYTE
    np.testing.assert_array_equal(found, scores.argmax(axis=3)[..., None])
    assert audit(tmp_path / "net_gen.cpp", tmp_path / "net_weights.bin").findings == ()


@pytest.mark.slow
@needs_compiler
def test_the_maximizer_does_the_work_where_there_is_one(tmp_path: Path) -> None:
    made = network(segmentation(9), tmp_path, device=ZIA_C3)
    text = (tmp_path / "net_gen.cpp").read_text(encoding="utf-8")
    assert "layer.custom_param = &maximizer_of_layer_1_;" in text
    assert "one byte each at offset" in (tmp_path / "net_gen.h").read_text(encoding="utf-8")
    program = tmp_path / "count"
    source = tmp_path / "count.cpp"
    source.write_text(COUNT, encoding="utf-8")
    compiler = find_compiler()
    files = [str(source), str(tmp_path / "net_gen.cpp"), str(device_library(compiler))]
    command = [*compiler.command, "-std=c++11", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{INCLUDE}", *files]
    subprocess.run([*command, "-o", str(program)], check=True)
    result = subprocess.run([program, made.weights], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["2", "2"]  # commands of the maximizer, and its output bytes: two executions


COUNT = """\
#include <cstdio>

#include "dmp_dv_host.h"
#include "net_gen.h"

int main(int, char **argv) {
  Cnet network;
  if (!network.Initialize() || !network.LoadWeights(argv[1]) || !network.Commit()) return 1;
  for (int i = 0; i < 2; ++i)
    if (!network.RunNetwork()) return 1;
  dmp_dv_host_counters counters;
  dmp_dv_host_get_counters(DMP_DV_DEV_MAXIMIZER, &counters);
  std::printf("%d %d\\n", static_cast<int>(counters.commands), static_cast<int>(counters.output_bytes / 35));
}
"""


@pytest.mark.slow
@needs_compiler
def test_a_selftest_reads_the_bytes(tmp_path: Path) -> None:
    graph = segmentation(9)
    configuration = config(Path("graph.keras"), device=ZIA_C3)
    program = build(graph, configuration)
    test = selftest.record(graph, program, low=0, high=1, device=device_of(ZIA_C3))
    texts = render_selftest(program, model="m", levels=test.levels, outputs=test.outputs)
    replace_all(tmp_path, {**render(graph, program, Request.of(configuration)), **texts})
    compiler = find_compiler()
    sources = ["net_selftest.cpp", "net_gen.cpp", str(device_library(compiler))]
    command = [*compiler.command, "-std=c++11", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{INCLUDE}", *sources]
    subprocess.run([*command, "-o", "selftest"], cwd=tmp_path, check=True)
    result = subprocess.run(["./selftest"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.stdout.splitlines() == ["output 0: pass", "output 1: pass", "pass"]


@pytest.mark.parametrize(
    "graph",
    [
        segmentation(256),
        segmentation(9, axis=Axis.HEIGHT),
        segmentation(9, count=2),
        segmentation(9, values=True),
    ],
    ids=["256 classes", "another axis", "the two largest", "values"],
)
def test_what_the_maximizer_lacks_stays_a_function(graph: Graph) -> None:
    program = build(graph, config(Path("graph.keras"), device=ZIA_C3))
    assert ElementType.BYTE not in {layer.output.type for layer in program.layers}


def test_a_device_without_maximizer_has_the_function() -> None:
    program = build(segmentation(9), config(Path("graph.keras")))
    assert ElementType.BYTE not in {layer.output.type for layer in program.layers}
    assert "maximizer" not in device_of(read_profile("dv740", Path())).blocks
