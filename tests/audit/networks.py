"""Networks that the convertor writes, for the audit to read."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cnn_convertor.audit import Audit, audit
from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.estimate import timetable_for
from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.rules import check
from cnn_convertor.devices.dv700.sources.rendering import render
from cnn_convertor.devices.dv700.weights.encoding import encode_buffer
from cnn_convertor.devices.dv700.weights.palettes import choose
from cnn_convertor.devices.settings import Fusion, Quantization, QuantizationOptions, Runtime
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.passes import optimize
from devices.dv700.legal import legalize
from emulation.small_networks import dense_blocks


class Written(NamedTuple):
    """A source, its weights, its functions on the CPU, and the declaration of its class."""

    text: str
    weights: bytes
    header: str = ""
    declaration: str = ""

    def audit(self, folder: Path) -> Audit:
        source, weights = folder / "Net_gen.cpp", folder / "Net_weights.bin"
        source.write_text(self.text, encoding="utf-8")
        weights.write_bytes(self.weights)
        (folder / "Net_cpu.h").write_text(self.header, encoding="utf-8")
        (folder / "Net_gen.h").write_text(self.declaration, encoding="utf-8")
        return audit(source, weights)

    def replaced(self, old: str, new: str, nth: int = 0) -> Written:
        """With another text in the place of the one; nth: which one, counted from 0."""
        pieces = self.text.split(old)
        assert len(pieces) > nth + 1, f"{old} occurs {len(pieces) - 1} times"
        return self._replace(text=old.join(pieces[: nth + 1]) + new + old.join(pieces[nth + 1 :]))

    def with_field(self, layer: int, field: str, value: object) -> Written:
        """With another value assigned to a field: of a layer, of its command, or of a run."""
        start = self.text.index(f"::Layer_{layer}() {{")
        at = self.text.index(f".{field} = ", start) + len(field) + 4
        end = self.text.index(";", at)
        assert end < self.text.index("\n}\n", start), f"layer {layer} has no {field}"
        assert self.text[at:end] != str(value), f"{field} is {value} already"
        return self._replace(text=f"{self.text[:at]}{value}{self.text[end:]}")

    def with_byte(self, at: int, value: int) -> Written:
        assert self.weights[at] != value
        return self._replace(weights=self.weights[:at] + bytes([value]) + self.weights[at + 1 :])


def generate(
    graph: Graph,
    *,
    palette: bool = False,
    transposed: bool = False,
    name: str = "Net",
    fusion: Fusion = Fusion.NONE,
    ub_size: int = DV700.limits.ub_size,
    device: Device = DV700,
    uses_sdk_softmax: bool = False,
    runtime: Runtime = Runtime.SDK,
) -> Written:
    """What the convertor writes for the graph: without fusion, so that every layer has a command to look at."""
    device = device._replace(limits=device.limits._replace(ub_size=ub_size))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        legal = legalize(
            optimize(graph), device, transposed=transposed, fusion=fusion, uses_sdk_softmax=uses_sdk_softmax
        )
        graph, steps = partition(legal, device, transposed=transposed, fusion=fusion)
        check(graph, steps, device, legal=legal)
        program = lower(graph, steps, name=name, transposed=transposed, runtime=runtime, cache_line=64)
        program = choose(program, EVERYWHERE) if palette else program
        weights = b"".join(piece.tobytes() for piece in encode_buffer(program))
        timetable = timetable_for(program.generated(), device.profile)
        texts = render(program, RenderOptions("m.h5"), timetable=timetable)
        return Written(texts[f"{name}_gen.cpp"], weights, texts.get(f"{name}_cpu.h", ""), texts[f"{name}_gen.h"])


EVERYWHERE = QuantizationOptions(Quantization.PALETTE, threshold=0.0)
RANDOM = np.random.default_rng(0)


def values(*shape: int) -> Constant:
    return Constant.of(RANDOM.normal(size=shape))


def graph(outputs: tuple[str, ...], *rows: tuple[str, ops.Op, tuple[str, ...]]) -> Graph:
    return Graph(tuple(Node(n, op, ins, (Origin("m.h5", n, type(op).__name__),)) for n, op, ins in rows), outputs)


def same(kernel: int, stride: int = 1, dilation: int = 1) -> Window:
    p = dilation * (kernel // 2)
    return Window(Pair(kernel, kernel), Pair(stride, stride), Pair(dilation, dilation), Padding(p, p, p, p))


PAIRS = Pair(3, 3), Pair(2, 2), Pair(2, 2)  # kernel, stride, dilation
RELU, PAIR = ops.Activation(ops.Relu()), Window(Pair(2, 2), Pair(2, 2))


@cache
def networks() -> dict[str, Graph]:
    """Every kind of layer and of weights."""
    random_state = RANDOM.bit_generator.state
    try:
        return _networks()
    finally:
        RANDOM.bit_generator.state = random_state


def _networks() -> dict[str, Graph]:
    return {
        "residual": graph(
            ("prob",),
            ("data", ops.Input(Shape(16, 16, 3)), ()),
            ("conv1", ops.Conv2d(values(16, 3, 3, 3), None, same(3)), ("data",)),
            ("bn", ops.BatchNorm(values(16), Constant.of(np.ones(16)), None, values(16), 1e-3), ("conv1",)),
            ("relu", RELU, ("bn",)),
            ("pool", ops.MaxPool2d(PAIR), ("relu",)),
            ("dw", ops.Conv2d(values(16, 1, 3, 3), values(16), same(3), 16), ("pool",)),
            ("add", ops.Add(), ("pool", "dw")),
            ("prelu", ops.Activation(ops.PRelu(values(16))), ("add",)),
            ("cat", ops.Concat(), ("prelu", "pool")),
            ("flat", ops.Reshape(Shape(1, 1, 2048), ops.Order.CHW), ("cat",)),
            ("fc", ops.Dense(values(10, 2048, 1, 1), values(10)), ("flat",)),
            ("prob", ops.Softmax(), ("fc",)),
        ),
        "kernels": graph(
            ("k1",),
            ("data", ops.Input(Shape(12, 20, 9)), ()),
            ("k7", ops.Conv2d(values(9, 9, 7, 7), values(9), same(7)), ("data",)),
            ("k5", ops.Conv2d(values(12, 9, 5, 5), None, same(5, 2)), ("k7",)),
            ("k24", ops.Conv2d(values(20, 12, 2, 4), values(20), Window(Pair(2, 4))), ("k5",)),
            ("k1", ops.Conv2d(values(5, 20, 1, 1), values(5), same(1)), ("k24",)),
        ),
        "dilated": graph(
            ("out",),
            ("data", ops.Input(Shape(9, 8, 10)), ()),
            ("d2", ops.Conv2d(values(12, 10, 3, 3), values(12), same(3, 1, 2)), ("data",)),
            ("leaky", ops.Activation(ops.Relu(0.125)), ("d2",)),
            ("out", ops.Conv2d(values(3, 12, 3, 3), values(3), same(3, 1, 3)), ("leaky",)),
        ),
        "dilated with a stride": graph(
            ("out",),
            ("data", ops.Input(Shape(16, 16, 10)), ()),
            ("out", ops.Conv2d(values(12, 10, 3, 3), None, Window(*PAIRS, padding=Padding(1, 2, 1, 2))), ("data",)),
        ),
        "upwards": graph(
            ("small", "out"),
            ("data", ops.Input(Shape(5, 7, 6)), ()),
            ("deconv", ops.ConvTranspose2d(values(12, 6, 4, 4), values(12), Window(Pair(4, 4), Pair(2, 2))), ("data",)),
            ("tanh", ops.Activation(ops.Tanh()), ("deconv",)),
            ("up", ops.Upsample(Pair(2, 2)), ("tanh",)),
            ("small", ops.AveragePool2d(Window(Pair(3, 3), Pair(3, 3))), ("up",)),
            ("out", ops.Conv2d(values(4, 12, 3, 3), values(4), same(3)), ("up",)),
        ),
        "prelu": graph(
            ("out",),
            ("data", ops.Input(Shape(6, 6, 8)), ()),
            ("conv", ops.Conv2d(values(11, 8, 3, 3), values(11), same(3)), ("data",)),
            ("prelu", ops.Activation(ops.PRelu(values(11))), ("conv",)),
            ("out", ops.Conv2d(values(2, 11, 1, 1), values(2), same(1)), ("prelu",)),
        ),
        "two inputs": graph(
            ("out",),
            ("a", ops.Input(Shape(4, 6, 8)), ()),
            ("b", ops.Input(Shape(4, 6, 8)), ()),
            ("conv", ops.Conv2d(values(8, 8, 3, 3), None, same(3)), ("a",)),
            ("sum", ops.Add(ops.Relu6()), ("conv", "b")),
            ("cat", ops.Concat(), ("sum", "a")),
            ("out", ops.Softmax(), ("cat",)),
        ),
        "slices": graph(
            ("out",),
            ("data", ops.Input(Shape(4, 6, 16)), ()),
            ("half", ops.Crop(Shape(0, 0, 8), Shape(4, 6, 16)), ("data",)),
            ("fc", ops.Dense(values(16, 8, 4, 6), None), ("half",)),
            ("few", ops.Crop(Shape(0, 0, 0), Shape(1, 1, 3)), ("fc",)),
            ("rest", ops.Crop(Shape(0, 0, 8), Shape(1, 1, 13)), ("fc",)),
            ("a", ops.Dense(values(4, 3, 1, 1), None), ("few",)),
            ("b", ops.Dense(values(4, 5, 1, 1), None), ("rest",)),
            ("out", ops.Add(), ("a", "b")),
        ),
        "slices of what several have written": graph(  # the application, the CPU and the device
            ("out",),
            ("data", ops.Input(Shape(4, 6, 8)), ()),
            ("soft", ops.Softmax(ops.Axis.CHANNELS), ("data",)),
            ("a", ops.Conv2d(values(8, 8, 1, 1), None, same(1)), ("data",)),
            ("few", ops.Conv2d(values(5, 8, 1, 1), None, same(1)), ("data",)),
            ("cat", ops.Concat(), ("soft", "a")),
            ("half", ops.Crop(Shape(0, 0, 8), Shape(4, 6, 16)), ("cat",)),
            ("b", ops.Conv2d(values(8, 8, 1, 1), None, same(1)), ("half",)),
            ("c", ops.Conv2d(values(8, 16, 1, 1), None, same(1)), ("cat",)),
            ("flat", ops.Reshape(Shape(1, 1, 120), ops.Order.HWC), ("few",)),
            ("rest", ops.Crop(Shape(0, 0, 48), Shape(1, 1, 120)), ("flat",)),
            ("d", ops.Dense(values(8, 72, 1, 1), None), ("rest",)),
            ("sum", ops.Add(), ("b", "c")),
            ("out", ops.Binary(ops.BinaryOp.MULTIPLY), ("sum", "d")),
        ),
        "a part that is read for longer": graph(  # than the other part of its command, which another map takes the place of
            ("out",),
            ("data", ops.Input(Shape(4, 6, 8)), ()),
            ("a", ops.Conv2d(values(8, 8, 1, 1), None, same(1)), ("data",)),
            ("b", ops.Conv2d(values(8, 8, 1, 1), None, same(1)), ("data",)),
            ("cat", ops.Concat(), ("a", "b")),
            ("c", ops.Conv2d(values(8, 16, 1, 1), None, same(1)), ("cat",)),
            ("d", ops.Conv2d(values(8, 8, 3, 3), None, same(3, 1, 2)), ("c",)),
            ("e", ops.Conv2d(values(8, 8, 3, 3), None, same(3, 1, 2)), ("d",)),
            ("out", ops.Binary(ops.BinaryOp.MULTIPLY), ("e", "a")),
        ),
        "dense blocks": dense_blocks(),
        "CPU": graph(
            ("mine", "joined"),
            ("data", ops.Input(Shape(4, 6, 12)), ()),
            ("pool", ops.MaxPool2d(Window(Pair(3, 3), Pair(1, 1))), ("data",)),
            ("mine", ops.Custom("Mine", (("scale", 2.0),), Shape(2, 4, 12)), ("pool",)),
            ("a", ops.Dense(values(10, 12, 4, 6), None), ("data",)),
            ("b", ops.Dense(values(7, 10, 1, 1), None, ops.PRelu(values(7))), ("a",)),
            ("joined", ops.Concat(), ("a", "b", "a")),
        ),
    }
