"""The audit finds a CPU function that works on other maps than its layer names."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.audit import audit
from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.sources.rendering import render
from cnn_convertor.files.replacing import replace_all
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import ONE, Shape, Window
from cnn_convertor.pipeline import build
from verification.trials import config

CONV = ops.Conv2d(Constant.of(np.ones((8, 8, 1, 1))), None, Window(ONE))
NETWORK = Graph(
    (
        Node("x", ops.Input(Shape(4, 5, 8))),
        Node("conv", CONV, ("x",)),
        Node("swish", ops.Unary(ops.Swish()), ("conv",)),
        Node("product", ops.Binary(ops.BinaryOp.MULTIPLY), ("swish", "conv")),
        Node("behind", CONV, ("product",)),
        Node("sum", ops.Binary(ops.BinaryOp.ADD), ("swish", "conv")),
        Node("other", CONV, ("sum",)),
    ),
    ("behind", "other"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    settings: Config = config(Path("graph.keras"))
    replace_all(tmp_path, render(build(NETWORK, settings), RenderOptions("a graph")))
    return tmp_path


def codes(folder: Path) -> list[str]:
    return [problem.code for problem in audit(folder / "net_gen.cpp", None).findings]


def test_nothing_is_found_in_what_is_generated(folder: Path) -> None:
    assert codes(folder) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("const Tensor x(io, ", "const Tensor x(io, 2"),  # another place, behind the memory
        ("4, 5, 8, kHalf", "5, 4, 8, kHalf"),  # rows for columns
        ("kFloat)", "kHalf)"),  # another width
        ("const Tensor x1(io, ", "const Tensor x1(io, 99"),
        ("inline void Layer_1(", "inline void Layer_0("),  # another layer
        ("const Tensor ", "const  Tensor "),  # no map that the audit reads
    ],
)
def test_a_wrong_map_is_found(folder: Path, old: str, new: str) -> None:
    header = folder / "net_cpu.h"
    text = header.read_text(encoding="utf-8")
    assert old in text
    header.write_text(text.replace(old, new, 1 if "  " not in new else -1), encoding="utf-8")
    assert "DV666" in codes(folder)


def test_only_functions_of_elements_write_over_their_input(tmp_path: Path) -> None:
    swish = Node("swish", ops.Unary(ops.Swish()), ("conv",))
    graph = Graph((*NETWORK.nodes[:2], swish, Node("behind", CONV, ("swish",))), ("behind",))
    replace_all(tmp_path, render(build(graph, config(Path("graph.keras"))), RenderOptions("a graph")))
    header = tmp_path / "net_cpu.h"
    text = header.read_text(encoding="utf-8")
    x, y = re.findall(r"const Tensor [xy]\(io, (\d+), 4, 5, 8, kHalf\)", text)
    assert x == y and codes(tmp_path) == []
    header.write_text(text.replace("  Unary(x, y", "  Softmax(x, y"), encoding="utf-8")
    assert codes(tmp_path) == ["DV643"]


@pytest.mark.parametrize("damage", ["\xff Tensor x(", "const Tensor x(io, " + "9" * 5000])
def test_a_damaged_header_does_not_end_the_audit(damage: str, folder: Path) -> None:
    header = folder / "net_cpu.h"
    text = header.read_text(encoding="utf-8").replace("const Tensor x(io, ", damage)
    header.write_bytes(text.encode("latin-1", "replace"))
    assert "DV666" in codes(folder)


def test_long_headers_take_time_in_proportion(folder: Path) -> None:
    header = folder / "net_cpu.h"
    header.write_text(header.read_text(encoding="utf-8") + "inline void Layer_0(\n" * 50_000, encoding="utf-8")
    begin = time.process_time()
    codes(folder)
    assert time.process_time() - begin < 5


def test_a_header_that_the_source_does_not_include_is_left_alone(folder: Path) -> None:
    source, header = folder / "net_gen.cpp", folder / "net_cpu.h"
    header.write_text(header.read_text(encoding="utf-8").replace("4, 5, 8, kHalf", "5, 4, 8, kHalf"), encoding="utf-8")
    assert "DV666" in codes(folder)
    source.write_text(source.read_text(encoding="utf-8").replace('#include "net_cpu.h"', ""), encoding="utf-8")
    assert "DV666" not in codes(folder)
