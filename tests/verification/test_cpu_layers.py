"""What the CPU does, in generated C++, is what a plain reading of the operators says: one network with all of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.audit import audit
from cnn_convertor.devices.dv700.commands import COPY
from cnn_convertor.emulation.build import INCLUDE
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Op, Order, Padding, Pair, Shape, Window
from cnn_convertor.verification.compare import sqnr
from reference import ir_reference
from verification.trials import NAME, network

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]

SHAPE = Shape(6, 5, 11)  # a narrow last chunk
ALL = (Axis.HEIGHT, Axis.WIDTH, Axis.CHANNELS)

FUNCTIONS: dict[str, ops.ScalarFunction] = {
    "swish": ops.Swish(),
    "swish with a beta": ops.Swish(1.5),
    "hard sigmoid": ops.HardSigmoid(0.2, 0.5),
    "hard swish": ops.HardSwish(),
    "gelu": ops.Gelu(),
    "gelu by tanh": ops.Gelu(by_tanh=True),
    "mish": ops.Mish(),
    "softplus": ops.Softplus(),
    "softsign": ops.Softsign(),
    "elu with an alpha": ops.ScaledElu(0.7),
    "selu": ops.ScaledElu(1.6732632, 1.0507010),
    "exp": ops.Exponential(),
    "exp, scaled": ops.Exponential(0.5, -1.0),
    "log": ops.Logarithm(0.4342945, 0.25, 3.0),
    "square": ops.Power(2.0),
    "root": ops.Power(0.5, 0.25, 3.0),
    "inverse cube": ops.Power(-3.0, 0.25, 3.0),
    "abs": ops.Absolute(),
    "threshold": ops.Threshold(0.3),
    "clip": ops.Clip(-0.5, 0.75),
    "clip below": ops.Clip(-0.5, float("inf")),
    "bounded relu": ops.BoundedRelu(0.1, 0.5, 1.5),
}
SINGLES: dict[str, Op] = {
    **{name: ops.Unary(function) for name, function in FUNCTIONS.items()},
    "lrn across": ops.LocalResponseNorm(5, 0.8, 0.75, 1.0),
    "lrn within": ops.LocalResponseNorm(3, 0.8, 0.75, 2.0, across_channels=False),
    "average, cut at the border": ops.AveragePool2d(
        Window(Pair(3, 3), Pair(2, 2), padding=Padding(1, 0, 0, 0)), uncounted=Padding(0, 1, 1, 1)
    ),
    "large average": ops.AveragePool2d(Window(Pair(6, 5)), activation=ops.Relu()),
    "large, strided average that no chain has": ops.AveragePool2d(
        Window(Pair(1, 11), Pair(2, 2), padding=Padding(0, 1, 3, 4))
    ),
    "max that no chain has": ops.MaxPool2d(Window(Pair(2, 1), Pair(2, 2))),
    "upsampling that no deconvolution has": ops.Upsample(Pair(3, 8)),
    "softmax of channels": ops.Softmax(),
    "softmax of rows": ops.Softmax(Axis.HEIGHT),
    "softmax of columns": ops.Softmax(Axis.WIDTH),
    "layer normalization": ops.MeanVarianceNorm((Axis.CHANNELS,), 1e-3),
    "instance normalization": ops.MeanVarianceNorm((Axis.HEIGHT, Axis.WIDTH), 1e-3, epsilon_outside=True),
    "mean alone": ops.MeanVarianceNorm(ALL, 1e-3, divides=False),
    "group normalization": ops.MeanVarianceNorm(ALL, 1e-3, groups=11),
    "length": ops.L2Normalize((Axis.CHANNELS,), 1e-3),
    "length, at least": ops.L2Normalize(ALL, 1e3, at_least=True),
    **{f"{kind.value}": ops.Reduce(kind, (Axis.HEIGHT, Axis.WIDTH), 0.5) for kind in ops.Reduction},
    "sum of channels": ops.Reduce(ops.Reduction.SUM, (Axis.CHANNELS,)),
    "maximum of all": ops.Reduce(ops.Reduction.MAXIMUM, ALL),
    "largest channel": ops.ArgMax(Axis.CHANNELS),
    "three largest rows' values": ops.ArgMax(Axis.HEIGHT, 3, values=True),
    "largest of all": ops.ArgMax(None, 4),
    "largest of all, with values": ops.ArgMax(None, 4, values=True, last_of_equals=True),
    **{
        f"{how.value} to {size.height}x{size.width}, {where.name}": ops.Resize(size, how, where)
        for how in ops.Interpolation
        for where in ops.Sampling
        for size in (Pair(9, 13), Pair(4, 1))
    },
    "a part": ops.Crop(Shape(1, 2, 3), Shape(6, 4, 10), Shape(2, 1, 3)),
    "a slice on chunks": ops.Crop(Shape(0, 0, 8), Shape(6, 5, 11)),
    "a slice off chunks": ops.Crop(Shape(0, 0, 3), Shape(6, 5, 9)),
    "a permutation": ops.TransposeReshape((11, 6, 5), (1, 2, 0), Shape(5, 11, 6), Order.CHW),
    "a channel shuffle": ops.TransposeReshape((3, 2, 5, 11), (1, 3, 0, 2), Shape(2, 11, 15), Order.HWC),
    "to another map": ops.Reshape(Shape(10, 3, 11), Order.CHW),
    "to a vector": ops.Reshape(Shape(1, 1, 330), Order.CHW),
    "blocks": ops.SpaceToDepth(Pair(2, 3), Padding(1, 1, 0, 1)),
    "fewer blocks": ops.SpaceToDepth(Pair(2, 2), Padding(1, -1, 0, -1)),
}
PAIRS: dict[str, tuple[Op, tuple[str, ...]]] = {
    **{f"{c.name.lower()} of both": (ops.Binary(c), ("x", "y")) for c in ops.BinaryOp},
    "channels times a map": (ops.Binary(ops.BinaryOp.MULTIPLY), ("factors", "x")),
    "a map less channels": (ops.Binary(ops.BinaryOp.SUBTRACT), ("x", "factors")),
    "channels joined off chunks": (ops.Concat(), ("x", "y", "x")),
    "rows joined": (ops.Concat(Axis.HEIGHT), ("x", "y")),
    "columns joined": (ops.Concat(Axis.WIDTH), ("y", "x", "x")),
}


def everything() -> Graph:
    """Each operator's result as an output; and once more, from other inputs, after the device has copied it."""
    nodes = []
    outputs = []
    operators = {**{name: (op, ("x",)) for name, op in SINGLES.items()}, **PAIRS}
    for again in ("", ", again"):
        nodes += [Node(f"x{again}", ops.Input(SHAPE)), Node(f"y{again}", ops.Input(SHAPE))]
        nodes += [Node(f"factors{again}", ops.Input(Shape(1, 1, 11)))]
        for name, (op, inputs) in operators.items():
            nodes.append(Node(f"{name}{again}", op, tuple(f"{i}{again}" for i in inputs)))
            outputs.append(f"{name}{again}")
            if again:
                outputs[-1] = f"{name}, for the device"
                nodes.append(Node(outputs[-1], COPY, (f"{name}{again}",)))
    return Graph(tuple(nodes), tuple(outputs))


def check_sources(folder: Path) -> None:
    """The audit finds nothing, and the sources are clean under an older standard and every warning."""
    assert audit(folder / f"{NAME}_gen.cpp", None).findings == ()
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"]
    subprocess.run(["g++", *flags, f"-I{INCLUDE}", str(folder / f"{NAME}_gen.cpp")], check=True)


@pytest.mark.parametrize("transposed", [False, True])
def test_every_function_on_the_cpu(tmp_path: Path, transposed: bool) -> None:
    graph = everything()
    random = np.random.default_rng(0)
    trial = network(graph, tmp_path, transpose_weight=transposed)
    check_sources(tmp_path)
    inputs = {
        node.name: random.normal(size=(2, *graph.shape(node.name))).astype(np.float16).astype(np.float32)
        for node in graph.inputs
    }
    results = trial.run(inputs).outputs
    for sample in range(2):
        values = ir_reference.run(graph, {name: array[sample].astype(np.float64) for name, array in inputs.items()})
        for name, index, result in zip(graph.outputs, trial.program.outputs, results, strict=True):
            reached = sqnr(result[sample], values[name])
            least = 100.0 if trial.program.layers[index].cpu is not None else 60.0  # FP32, or the device's FP16
            assert reached >= least, f"{name}: {reached:.1f} dB"


UNPOOLED = {
    "of 2x2": Window(Pair(2, 2), Pair(2, 2)),
    "that reaches beyond the map": Window(Pair(2, 3), Pair(2, 3), padding=Padding(1, 1, 0, 1)),
    "that overlaps": Window(Pair(3, 3), Pair(2, 2), padding=Padding(1, 1, 1, 1)),
    "that runs as a chain": Window(Pair(5, 5), padding=Padding(2, 2, 2, 2)),
    "that runs on the CPU": Window(Pair(4, 1), Pair(3, 2), padding=Padding(1, 1, 0, 0)),
}


@pytest.mark.parametrize("transposed", [False, True])
def test_unpooling(tmp_path: Path, transposed: bool) -> None:
    """Small whole numbers, so that the device makes no error, and many maxima are equal; of a layer, and of an input."""
    random = np.random.default_rng(2)

    def whole(*shape: int) -> Constant:
        return Constant.of(random.integers(-1, 2, shape).astype(np.float32))

    nodes = [Node("x", ops.Input(SHAPE))]
    conv = ops.Conv2d(whole(11, 11, 3, 3), whole(11), Window(Pair(3, 3), padding=Padding(1, 1, 1, 1)))
    after = ops.Conv2d(whole(11, 11, 1, 1), None, Window(Pair(1, 1)))
    outputs = []
    for name, window in UNPOOLED.items():
        activation = ops.Relu() if window.stride == Pair(2, 2) else None
        nodes += [
            Node(f"{name}/conv", replace(conv, activation=activation), ("x",)),
            Node(f"{name}/pool", ops.MaxPool2d(window), (f"{name}/conv",)),
            Node(f"{name}/after", after, (f"{name}/pool",)),
            Node(f"{name}/output", ops.MaxUnpool(window), (f"{name}/after", f"{name}/conv")),
            Node(f"{name}/of the input", ops.MaxUnpool(window), (f"{name}/pool", "x")),
            Node(f"{name}/for the device", COPY, (f"{name}/of the input",)),
        ]
        outputs += [f"{name}/output", f"{name}/for the device"]
    graph = Graph(tuple(nodes), tuple(outputs))
    trial = network(graph, tmp_path, transpose_weight=transposed)
    check_sources(tmp_path)
    images = random.integers(-2, 3, (2, *SHAPE)).astype(np.float32)
    results = trial.run({"x": images}).outputs
    for sample, image in enumerate(images):
        values = ir_reference.run(graph, {"x": image.astype(np.float64)})
        for name, result in zip(outputs, results, strict=True):
            np.testing.assert_array_equal(result[sample], values[name], err_msg=name)


def detecting(code: ops.BoxCode, *, share: bool, keep: int, eta: float, threshold: float = 0.2) -> Graph:
    """SSD's end: 2 x 3 pixels of 6 boxes, 3 classes."""
    boxes, classes = 36, 3
    prior = ops.PriorBox(
        map_size=Pair(2, 3), image_size=Pair(40, 60), min_sizes=(12.0, 20.0), max_sizes=(18.0, 30.0),
        aspect_ratios=(2.0,), clip=True, variance=(0.1, 0.1, 0.2, 0.2), step_height=20, step_width=20, offset=0.5,
    )  # fmt: skip
    output = ops.DetectionOutput(
        classes=classes, background=0, share_location=share, code=code, variance_encoded=False, nms_threshold=0.6, top_k=20,
        eta=eta, confidence_threshold=threshold, keep_top_k=keep,
    )  # fmt: skip
    locations = Node("locations", ops.Input(Shape(1, 1, boxes * 4 * (1 if share else classes))))
    scores = Node("scores", ops.Input(Shape(classes, 1, boxes)))
    flat = Shape(1, 1, boxes * classes)
    return Graph(
        (
            locations,
            scores,
            Node("priors", prior),
            Node("softmax", ops.Softmax(Axis.HEIGHT), ("scores",)),
            Node("confidences", ops.Reshape(flat, Order.CHW), ("softmax",)),
            Node("found", output, ("locations", "confidences", "priors")),
        ),
        ("found", "priors"),
    )


DETECTING = [
    detecting(ops.BoxCode.CENTER_SIZE, share=True, keep=12, eta=1.0),
    detecting(ops.BoxCode.CORNER, share=False, keep=40, eta=0.9),
    detecting(ops.BoxCode.CORNER_SIZE, share=True, keep=-1, eta=1.0),
]


def operators() -> Iterator[Op]:
    """All that the networks of this file compute."""
    yield from SINGLES.values()
    yield from (op for op, _ in PAIRS.values())
    yield from (ops.MaxUnpool(window) for window in UNPOOLED.values())
    yield from (node.op for graph in DETECTING for node in graph.nodes)


@pytest.mark.parametrize(
    "graph",
    DETECTING,
    ids=[code.name for code in (ops.BoxCode.CENTER_SIZE, ops.BoxCode.CORNER, ops.BoxCode.CORNER_SIZE)],
)
def test_detections(tmp_path: Path, graph: Graph) -> None:
    random = np.random.default_rng(1)
    inputs = {
        n.name: (2 * random.normal(size=(2, *graph.shape(n.name)))).astype(np.float16).astype(np.float32)
        for n in graph.inputs
    }
    trial = network(graph, tmp_path)
    check_sources(tmp_path)
    results = trial.run(inputs).outputs
    for sample in range(2):
        values = ir_reference.run(graph, {name: array[sample].astype(np.float64) for name, array in inputs.items()})
        assert (values["found"][:, 0, 0] == 0).sum() > 4
        for name, result in zip(graph.outputs, results, strict=True):
            np.testing.assert_allclose(result[sample], values[name], rtol=1e-4, atol=1e-5)


def test_no_detection_is_the_row_that_caffe_gives(tmp_path: Path) -> None:
    graph = detecting(ops.BoxCode.CORNER, share=True, keep=3, eta=1.0, threshold=1.0)
    inputs = {n.name: np.zeros((1, *graph.shape(n.name)), np.float32) for n in graph.inputs}
    (found,) = network(graph, tmp_path).run(inputs).outputs[0]
    np.testing.assert_array_equal(found[:, :, 0], [[0, *[-1] * 6], *[[-1, *[0] * 6]] * 2])
