"""What the CPU does, in the C++ of generated sources, is what a plain reading of the operators says."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.audit import audit
from cnn_convertor.devices.cpu_functions import FUNCTIONS
from cnn_convertor.devices.dv700.commands import COPY
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.emulating import Twin
from cnn_convertor.devices.dv700.operators import OPERATORS, Executor
from cnn_convertor.devices.dv700.profiles import device_of
from cnn_convertor.devices.program import ElementType
from cnn_convertor.emulation.build import INCLUDE
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Axis, Order, Padding, Pair, Shape, Window
from cnn_convertor.verification.compare import sqnr
from reference import ir_reference
from reference.ir_reference import EXAMPLES, Example
from verification.trials import NAME, network, samples

pytestmark = pytest.mark.usefixtures("compiler")

SHAPE = Shape(6, 5, 11)  # a narrow last chunk
CHEAPER = [op for op, operator in OPERATORS.items() if operator.executor is Executor.CHEAPER]
HAS_FORMS = (ops.Concat, *CHEAPER)  # of which the device may take some


def halves(*shape: int) -> Constant:
    """Numbers that FP16 holds."""
    return Constant.of(np.random.default_rng(1).normal(size=shape).astype(np.float16))


EXTRA = {  # of operators that run on the CPU in some forms only
    "upsampling that no deconvolution has": Example(ops.Upsample(Pair(3, 8)), (SHAPE,)),
    "fully connected, on the CPU": Example(ops.OnCpu(ops.Dense(halves(13, 11, 1, 1), halves(13))), (Shape(1, 1, 11),)),
    "fully connected without a bias": Example(ops.OnCpu(ops.Dense(halves(3, 40, 1, 1), None)), (Shape(1, 1, 40),)),
    "average of the whole map": Example(ops.OnCpu(ops.AveragePool2d(Window(Pair(6, 5)))), (SHAPE,)),
    "sum of the whole map, with a factor": Example(
        ops.OnCpu(ops.AveragePool2d(Window(Pair(6, 5)), factor=0.25)), (SHAPE,)
    ),
    "average of every other pixel of the whole map": Example(
        ops.OnCpu(ops.AveragePool2d(Window(Pair(6, 5), dilation=Pair(2, 2), padding=Padding(0, 5, 0, 4)))), (SHAPE,)
    ),
    "scale, on the CPU": Example(ops.OnCpu(ops.Scale(halves(11), halves(11))), (SHAPE,)),
    "scale without a shift": Example(ops.OnCpu(ops.Scale(halves(11))), (SHAPE,)),
    "to another map": EXAMPLES["to another map"],
    "to a vector": EXAMPLES["to a vector"],
}


def examples() -> dict[str, Example]:
    """The examples of each operator that has a function."""
    of_kernels = {name: example for name, example in EXAMPLES.items() if type(example.op) in FUNCTIONS}
    return {**of_kernels, **EXTRA}


AT_A_TIME = 12  # of the examples: a network of all of them takes seconds to schedule
BATCHES = [list(examples())[start : start + AT_A_TIME] for start in range(0, len(examples()), AT_A_TIME)]


class Everything(NamedTuple):
    """A network, and the values of inputs that examples give: others are random."""

    graph: Graph
    values: Mapping[str, NDArray[Any]]


def everything(chosen: Iterable[str] = examples()) -> Everything:
    """Each example's result as an output; and once more, from other inputs, after the device has copied it."""
    inputs: dict[str, Node] = {}
    nodes, outputs, values = [], [], {}
    for again in ("", ", again"):
        for name in chosen:
            op, sources = examples()[name]
            names = []
            for position, source in enumerate(sources):
                shape = source if isinstance(source, Shape) else Shape(*source.shape)
                is_shared = isinstance(source, Shape)
                names.append(f"{shape} {position}{again}" if is_shared else f"{name} {position}{again}")
                inputs[names[-1]] = Node(names[-1], ops.Input(shape))
                if not isinstance(source, Shape):
                    values[names[-1]] = source
            op = ops.OnCpu(op) if isinstance(op, HAS_FORMS) else op
            nodes.append(Node(f"{name}{again}", op, tuple(names)))
            outputs.append(f"{name}{again}")
            if again:
                outputs[-1] = f"{name}, for the device"
                nodes.append(Node(outputs[-1], COPY, (f"{name}{again}",)))
    return Everything(Graph((*inputs.values(), *nodes), tuple(outputs)), values)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("chosen", BATCHES, ids=lambda names: f"from {names[0]}")
def test_every_function_on_the_cpu(tmp_path: Path, chosen: Sequence[str], transposed: bool) -> None:
    graph, fixed = everything(chosen)
    random = np.random.default_rng(0)
    trial = network(graph, tmp_path, transpose_weight=transposed)
    inputs = {
        node.name: np.array([fixed.get(node.name, random.normal(size=graph.shape(node.name))) for _ in range(2)])
        .astype(np.float16)
        .astype(np.float32)
        for node in graph.inputs
    }
    results = trial.run(inputs).outputs
    for sample in range(2):
        values = ir_reference.run(graph, {name: array[sample].astype(np.float64) for name, array in inputs.items()})
        for name, index, result in zip(graph.outputs, trial.program.outputs, results, strict=True):
            reached = sqnr(result[sample], values[name])
            layer = trial.program.layers[index]
            in_half = ElementType.HALF in (layer.output.type, *(array.type for array in layer.constants))
            least = 60.0 if in_half else 100.0
            assert reached >= least, f"{name}: {reached:.1f} dB"


def large_maps() -> Graph:
    """Maps that threads share, and classes that the device's maximizer or the CPU finds."""
    nodes = (
        Node("x", ops.Input(Shape(45, 43, 24))),
        Node("swish", ops.Unary(ops.Swish(1.0)), ("x",)),
        Node("swish of x", ops.Unary(ops.Swish(2.0)), ("x",)),
        Node("mish", ops.Unary(ops.Mish()), ("swish",)),
        Node("mean", ops.Reduce(ops.Reduction.MEAN, (Axis.HEIGHT, Axis.WIDTH)), ("mish",)),
        Node("mean of swish", ops.AveragePool2d(Window(Pair(45, 43))), ("swish of x",)),
        Node("scale", ops.Unary(ops.Softsign()), ("mean of swish",)),
        Node("scaled", ops.Binary(ops.BinaryOp.MULTIPLY), ("mish", "scale")),
        Node("product", ops.Binary(ops.BinaryOp.MULTIPLY), ("scaled", "mean")),
        Node("scores", COPY, ("product",)),
        Node("classes", ops.ArgMax(Axis.CHANNELS, 1, values=False), ("scores",)),
    )
    return Graph(nodes, ("product", "classes"))


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("threads", [3, "auto"])
def test_threads_of_a_generated_network_give_the_same_bits(tmp_path: Path, threads: int | str) -> None:
    graph, device = large_maps(), read_profile("zia-c3", Path())
    inputs = {"x": np.random.default_rng(4).normal(size=(2, 45, 43, 24)).astype(np.float16).astype(np.float32)}
    alone = network(graph, tmp_path / "alone", device=device, cpu_threads=1)
    shared = network(graph, tmp_path / "shared", device=device, compiled=True, cpu_threads=threads)
    assert "<thread>" not in (tmp_path / "alone" / f"{NAME}_cpu.h").read_text()
    assert "<thread>" in (tmp_path / "shared" / f"{NAME}_cpu.h").read_text()
    assert audit(tmp_path / "shared" / f"{NAME}_gen.cpp", None).findings == ()
    without_block = shared._replace(device=Twin(device_of(device)._replace(blocks=frozenset({"conv"}))))
    for one, other, third in zip(*(each.run(inputs).outputs for each in (alone, shared, without_block)), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, third)


def functions_that_follow_each_other(*, apart: bool) -> Graph:
    """On maps of 1 to 17 channels. apart: each map between two functions has another reader, and means are outputs."""
    nodes, outputs, between = list[Node](), list[str](), list[str]()
    for channels in range(1, 18):
        height, width = 3 + channels % 3, 1 + 20 * channels // 17
        x, factors, pixels = (f"{name}{channels}" for name in ("x", "factors", "pixels"))
        inner = [
            f"{name}{channels}"
            for name in ("swish", "sum", "product", "square", "gelu", "mean of gelu", "hard", "mean of hard")
        ]
        swish, total, product, square, gelu, mean, hard, other_mean = inner
        scaled, excited, factor = (f"{name}{channels}" for name in ("scaled", "excited", "factor"))
        nodes += [
            Node(x, ops.Input(Shape(height, width, channels))),
            Node(factors, ops.Input(Shape(1, 1, channels))),
            Node(pixels, ops.Input(Shape(height, width, 1))),
            Node(swish, ops.Unary(ops.Swish(1.0)), (x,)),
            Node(total, ops.Binary(ops.BinaryOp.MAXIMUM), (x, swish)),
            Node(product, ops.Binary(ops.BinaryOp.MULTIPLY), (factors, total)),
            Node(square, ops.Binary(ops.BinaryOp.MULTIPLY), (total, product)),
            Node(scaled, ops.Binary(ops.BinaryOp.DIVIDE), (square, pixels)),
            Node(f"{scaled}, copied", COPY, (scaled,)),
            Node(gelu, ops.Unary(ops.Gelu(False)), (x,)),
            Node(mean, ops.AveragePool2d(Window(Pair(height, width))), (gelu,)),
            Node(factor, ops.Unary(ops.Sigmoid()), (mean,)),
            Node(excited, ops.Binary(ops.BinaryOp.MULTIPLY), (gelu, factor)),
            Node(f"{excited}, copied", COPY, (excited,)),
            Node(hard, ops.Unary(ops.HardSwish()), (x,)),
            Node(other_mean, ops.AveragePool2d(Window(Pair(height, width))), (hard,)),
            Node(f"{other_mean}, too", ops.Unary(ops.Absolute()), (other_mean,)),
        ]
        outputs += [f"{scaled}, copied", f"{excited}, copied", f"{other_mean}, too"]
        between += inner
    readers = [Node(f"{name} once more", ops.Unary(ops.Absolute()), (name,)) for name in between] if apart else []
    means = [name for name in between if name.startswith("mean")] if apart else []
    return Graph((*nodes, *readers), (*outputs, *means, *(node.name for node in readers)))


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("transposed", [False, True])
def test_functions_in_pieces_give_the_bits_of_functions_one_after_the_other(tmp_path: Path, transposed: bool) -> None:
    graphs, random = (
        [functions_that_follow_each_other(apart=apart) for apart in (False, True)],
        np.random.default_rng(5),
    )
    inputs = {
        node.name: random.normal(size=(2, *graphs[0].shape(node.name))).astype(np.float16).astype(np.float32)
        for node in graphs[0].inputs
    }
    for name, values in inputs.items():
        values[1].flat[0] = 0.0 if name.startswith("pixels") else 60000.0  # then there are NaN and infinity
    one, other = (
        network(graph, tmp_path / str(number), transpose_weight=transposed) for number, graph in enumerate(graphs)
    )
    assert sum(isinstance(layer.cpu, ops.InPieces) for layer in one.program.layers) == 2 * 17 + 2
    assert not any(isinstance(layer.cpu, ops.InPieces) for layer in other.program.layers)
    assert audit(tmp_path / "0" / f"{NAME}_gen.cpp", None).findings == ()
    for mine, theirs in zip(one.run(inputs).outputs, other.run(inputs).outputs, strict=False):
        np.testing.assert_array_equal(mine, theirs)


UNPOOLED = {
    "of 2x2": Window(Pair(2, 2), Pair(2, 2)),
    "that reaches beyond the map": Window(Pair(2, 3), Pair(2, 3), padding=Padding(1, 1, 0, 1)),
    "that overlaps": Window(Pair(3, 3), Pair(2, 2), padding=Padding(1, 1, 1, 1)),
    "that runs as a chain": Window(Pair(5, 5), padding=Padding(2, 2, 2, 2)),
    "that runs on the CPU": Window(Pair(4, 1), Pair(3, 2), padding=Padding(1, 1, 0, 0)),
}


def unpooling() -> Graph:
    """Unpoolings of a layer, and of an input; of small whole numbers, so that the device makes no error."""
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
    return Graph(tuple(nodes), tuple(outputs))


@pytest.mark.parametrize("transposed", [False, True])
def test_unpooling(tmp_path: Path, transposed: bool) -> None:
    """Many maxima are equal."""
    graph, random = unpooling(), np.random.default_rng(3)
    trial = network(graph, tmp_path, transpose_weight=transposed)
    images = random.integers(-2, 3, (2, *SHAPE)).astype(np.float32)
    results = trial.run({"x": images}).outputs
    for sample, image in enumerate(images):
        values = ir_reference.run(graph, {"x": image.astype(np.float64)})
        for name, result in zip(graph.outputs, results, strict=True):
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


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize("transposed", [False, True])
def test_the_sources_pass_the_audit_and_every_warning(tmp_path: Path, transposed: bool) -> None:
    """Under an older standard. tests/emulation/test_data.py runs them."""
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only", f"-I{INCLUDE}"]
    graphs = (everything(chosen).graph for chosen in BATCHES)
    for number, graph in enumerate((*graphs, unpooling(), *DETECTING)):
        folder = tmp_path / str(number)
        network(graph, folder, transpose_weight=transposed)
        assert audit(folder / f"{NAME}_gen.cpp", None).findings == ()
        subprocess.run(["g++", *flags, str(folder / f"{NAME}_gen.cpp")], check=True)


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


def _conv(channels: int, out: int) -> ops.Conv2d:
    return ops.Conv2d(halves(out, channels, 1, 1), halves(out), Window(Pair(1, 1)))


EXCITED = Graph(
    (
        Node("x", ops.Input(Shape(9, 7, 16))),
        Node("a", _conv(16, 44), ("x",)),
        Node("b", ops.Unary(ops.Swish()), ("a",)),
        Node("c", _conv(44, 20), ("b",)),
        Node("d", ops.Unary(ops.HardSwish()), ("c",)),
        Node("m", ops.AveragePool2d(Window(Pair(9, 7))), ("d",)),
        Node("s", ops.Unary(ops.HardSigmoid(0.2, 0.5)), ("m",)),
        Node("p", ops.Binary(ops.BinaryOp.MULTIPLY), ("d", "s")),
        Node("out", _conv(20, 9), ("p",)),
    ),
    ("out",),
)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("fusion", ["none", "documented"])
@pytest.mark.parametrize("transposed", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["transposed", "plain"])
def test_functions_over_their_input_give_the_same_bits(
    fusion: str, transposed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = samples({"x": np.random.default_rng(0).normal(size=EXCITED.shape("x"))})
    sizes, outputs, layers = list[int](), list[Any](), list[Any]()
    for place in ("over an input", "apart"):
        if place == "apart":
            monkeypatch.setattr("cnn_convertor.devices.dv700.memory.placement.taken_inputs", lambda _: {})
        trial = network(EXCITED, tmp_path / place, compiled=True, transpose_weight=transposed, fusion=fusion)
        audited = audit(tmp_path / place / f"{NAME}_gen.cpp", tmp_path / place / f"{NAME}_weights.bin")
        assert not audited.findings
        (used,) = re.findall(r"at most ([\d,]+) in use at a time", audited.listing)
        assert int(used.replace(",", "")) <= trial.program.io_bytes
        result = trial.run(inputs, layers=True)
        sizes.append(trial.program.io_bytes)
        outputs.append(result.outputs)
        layers.append(result.layers)
    assert sizes[0] < sizes[1]
    assert np.array_equal(outputs[0][0], outputs[1][0])
    assert all(np.array_equal(one, other) for one, other in zip(*layers, strict=True))
