"""Small networks whose reports are looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cnn_convertor.config import Config
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Shape, Window
from cnn_convertor.pipeline import build
from cnn_convertor.report.collecting import report_of
from cnn_convertor.report.values import Report
from verification.trials import config

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits_keras" / "net.ini"
HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raise %}",
    "]]><!-- &amp; &lt;",
    "\x00\x01\x1b[31m\n\r\u202e\ufffe\U0001f600",
)


def convolution(random: np.random.Generator, kernel: int = 3) -> ops.Conv2d:
    return ops.Conv2d(
        Constant.of(random.normal(size=(8, 8, kernel, kernel))),
        None,
        Window(Pair(kernel, kernel), padding=ops.Padding(*(kernel // 2,) * 4)),
    )


def joined(names: tuple[str, ...] = ("left", "right", "sum", "both", "last", "further")) -> Graph:
    """Two branches that are added, and a concatenation of a branch and the sum."""
    random = np.random.default_rng(0)
    where = [(Origin("net", name, "Layer"),) for name in names]
    nodes = (
        Node("x", ops.Input(Shape(8, 8, 8))),
        Node("a", convolution(random), ("x",), where[0]),
        Node("b", convolution(random, 1), ("x",), where[1]),
        Node("c", ops.Add(), ("a", "b"), where[2]),
        Node("d", ops.Concat(), ("a", "c"), where[3]),
        Node("e", ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2))), ("d",), where[4]),
        Node("f", ops.Activation(ops.Relu()), ("e",), where[5]),
    )
    return Graph(nodes, ("f",))


def report(graph: Graph | None = None, **fields: Any) -> Report:
    chosen: Config = config(Path("graph.keras"), **fields)
    return report_of(build(joined() if graph is None else graph, chosen), chosen)
