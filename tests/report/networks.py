"""Small networks whose reports are looked at."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Shape, Window
from cnn_convertor.pipeline import build
from cnn_convertor.report.collecting import report_of
from cnn_convertor.report.values import Report
from cnn_convertor.verification.on_board import BoardLayer, BoardVerification, Measured, Modelled
from cnn_convertor.verification.results import (
    Accuracy,
    Attribution,
    Beside,
    Cause,
    Comparison,
    IfCalibrated,
    LayerResult,
    Sensitivity,
    StaleFile,
    Unjudged,
    Verification,
)
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
    return report_of(build(joined() if graph is None else graph, chosen), Request.of(chosen))


def comparison(name: str, sqnr: float) -> Comparison:
    return Comparison(name, 4, 0.5, 0.25, sqnr, 0.99, agreement=None, largest=2.0)


def verification(name: str = "last") -> Verification:
    """A verification with every part that there is."""
    layer = LayerResult(comparison(name, 35.5), "ReLU", causes=(Attribution(Cause.PALETTE, 40.25),), alone=math.inf)
    return Verification(
        network="net",
        framework="Keras",
        inputs="made up",
        samples=2,
        palette=True,
        transposed=False,
        min_sqnr=20.0,
        outputs=(comparison(name, 30.25), comparison("other", -math.inf)),
        layers=(layer,),
        first_jump=name,
        beside=(Beside(comparison(name, 61.0), comparison(name, 30.25), None),),
        sensitivity=(Sensitivity(name, 1024, 33.0, {name: 33.0, "other": math.inf}),),
        if_calibrated=IfCalibrated(8, {name: 36.5, "other": -math.inf}),
        accuracies=(Accuracy(name, 0.5, 1.0),),
        unjudged=(Unjudged("else", "no map", is_verified=True),),
        stale_files=(StaleFile("net_gen.cpp", ("it is missing",)),),
    )


def board_verification(made: Report) -> BoardVerification:
    """Of a board whose first step takes half of the expected time, and whose other steps compute something else."""
    fast, unknown = Measured(30, 2048, 1024, 1024), Measured(None, None, None, None)
    first = BoardLayer(
        "a", "Layer", comparison("a", 70.0), True, 61.25, 61.5, fast, Modelled(Interval.of(60.0), 9000, 4096)
    )
    others = [
        BoardLayer(
            step.name,
            "Layer",
            comparison(step.name, 3.0),
            False,
            None,
            None,
            unknown,
            Modelled(Interval.of(0.0), 0, 128),
        )
        for step in made.steps[1:]
    ]
    return BoardVerification(
        network="net",
        framework="Keras",
        inputs="random",
        samples=2,
        device="a board",
        min_sqnr=20.0,
        outputs=(comparison("f", 61.25),),
        emulated=(comparison("f", 61.5),),
        layers=(first, *others),
        whole=fast,
        cpu_usec=5,
        between_usec=7,
        functions={"Relu": 1.5},
        cache_bytes_per_second=1e9,
        modelled=Modelled(Interval.of(60.0), 9000, 4096),
    )
