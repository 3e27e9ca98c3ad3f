"""The summary names unexpected choices."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.config.request import Request
from cnn_convertor.devices.facts import CalibrationEffect, KeptPrecision
from cnn_convertor.devices.settings import Quantization
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Shape, Window
from cnn_convertor.pipeline import build
from cnn_convertor.report.collecting import report_of
from cnn_convertor.report.summary import summary
from cnn_convertor.report.values import Report
from verification.trials import config


def network(names: str) -> Graph:
    """Convolutions, each with PReLU, and one without."""
    nodes = [Node("x", ops.Input(Shape(4, 4, 8)))]
    random = np.random.default_rng(0)
    for name in (*names, "last"):
        function = None if name == "last" else ops.PRelu(Constant.of(np.full(8, 0.5)))
        op = ops.Conv2d(Constant.of(random.normal(size=(8, 8, 1, 1))), None, Window(Pair(1, 1)), activation=function)
        nodes.append(Node(name, op, (nodes[-1].name,), (Origin("net", name),)))
    return Graph(tuple(nodes), ("last",))


def told(names: str, quantization: Quantization) -> list[str]:
    chosen = config(Path("graph.keras"), quantization=quantization)
    rows = summary(report_of(build(network(names), chosen), Request.of(chosen)))
    return [value for label, value in rows if label == "weights" and "FP16 for" in value]


@pytest.mark.parametrize(("names", "shown"), [("ab", '"a", "b"'), ("abcdefg", '"a", "b", "c", "d", "e", and 2 more')])
def test_layers_that_keep_fp16_weights_are_named(names: str, shown: str) -> None:
    assert told(names, Quantization.PALETTE) == [f"FP16 for {shown}: the device has no palettes for layers with PReLU"]
    assert told(names, Quantization.FP16) == []


def test_slopes_that_are_split_off_are_no_surprise() -> None:
    random = np.random.default_rng(0)
    prelu = ops.PRelu(Constant.of(np.full(32, 0.5)))
    op = ops.Conv2d(Constant.of(random.normal(size=(32, 64, 3, 3))), None, Window(Pair(3, 3)), activation=prelu)
    graph = Graph((Node("x", ops.Input(Shape(4, 4, 64))), Node("y", op, ("x",), (Origin("net", "y"),))), ("y",))
    chosen = config(Path("graph.keras"), quantization=Quantization.PALETTE)
    rows = dict(summary(report_of(build(graph, chosen), Request.of(chosen))))
    assert "palettes in 1 of 1 layers" in rows["weights"]


def test_slices_of_channels_are_one_layer() -> None:
    random, window = np.random.default_rng(0), Window(Pair(1, 1))
    expanded = ops.Conv2d(Constant.of(random.normal(size=(80, 16, 1, 1))), None, window)
    each = ops.Conv2d(Constant.of(random.normal(size=(80, 1, 1, 1))), None, window, 80)
    nodes = (Node("x", ops.Input(Shape(100, 100, 16))), Node("a", expanded, ("x",), (Origin("net", "a"),)))
    graph = Graph((*nodes, Node("b", each, ("a",), (Origin("net", "b"),))), ("b",))
    chosen = config(Path("graph.keras"), quantization=Quantization.PALETTE, fusion="full")
    report = report_of(build(graph, chosen), Request.of(chosen))
    assert len(report.commands) == 1 and len(report.weights) > 2, "several branches, each with weights of its own"
    assert "of 2 layers" in dict(summary(report))["weights"]


def uncalibrated(report: Report) -> bool:
    return any(label == "palettes" and "verify --sensitivity" in value for label, value in summary(report))


def test_palettes_that_lose_something_without_samples_are_pointed_out() -> None:
    chosen = config(Path("graph.keras"), quantization=Quantization.PALETTE)
    report = report_of(build(network(""), chosen), Request.of(chosen))
    (stored,) = report.weights
    assert stored.palette and stored.sqnr == math.inf and not uncalibrated(report), "64 weights: nothing is lost"
    lossy = replace(report, weights=(stored._replace(sqnr=42.0),))
    assert uncalibrated(lossy)
    assert not uncalibrated(replace(lossy, calibration=CalibrationEffect(3, 1, "images", (), ())))
    assert not uncalibrated(replace(lossy, kept=KeptPrecision(40.0, 46.0, 46.0, 24, 8, "images")))
    few = replace(lossy, kept=KeptPrecision(40.0, 46.0, 46.0, 1, 1, "images"))
    assert dict(summary(few))["outputs"].endswith("; 1 sample chooses, 1 other judges: images)")
    assert not uncalibrated(replace(lossy, weights=(stored._replace(palette=False, sqnr=42.0),)))
    custom = Node("z", ops.Custom("Twice", (), Shape(4, 4, 8)), ("last",), (Origin("net", "z"),))
    with_custom = build(Graph((*network("").nodes, custom), ("z",)), chosen)
    assert not uncalibrated(replace(report_of(with_custom, Request.of(chosen)), weights=lossy.weights))
