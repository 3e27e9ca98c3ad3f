"""Heads of detectors and other networks with maps that no command has, as PyTorch exports them; random ones, too.

Weights are random, and scaled so that activations keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the networks are written with the onnx package")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

Dims = tuple[int, ...]


class Model:
    """A model under construction: each method adds a node, and returns the name of its output."""

    def __init__(self, seed: int, *dims: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.dims: dict[str, Dims] = {"x": dims}

    def constant(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def normal(self, *dims: int, by: float = 1.0) -> str:
        return self.constant((self.random.standard_normal(dims) / by).astype(np.float32))

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def add(self, type: str, *inputs: str, dims: Dims, **settings: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(type, inputs, [name], name=f"{type}_{len(self.nodes)}", **settings))
        self.dims[name] = dims
        return name

    def same(self, type: str, x: str, *others: str, **settings: Any) -> str:
        return self.add(type, x, *others, dims=self.dims[x], **settings)

    def conv(self, x: str, out: int, kernel: int = 1, *, stride: int = 1, dilation: int = 1, groups: int = 1) -> str:
        _, channels, *size = self.dims[x]
        around, axes = dilation * (kernel // 2), len(size)
        per_group = channels // groups
        weight = self.normal(out, per_group, *[kernel] * axes, by=math.sqrt(per_group * kernel**axes))
        settings = {"strides": [stride] * axes, "dilations": [dilation] * axes, "pads": [around] * 2 * axes}
        dims = (1, out, *(-(-n // stride) for n in size))
        return self.add("Conv", x, weight, self.normal(out, by=4), dims=dims, group=groups, **settings)

    def silu(self, x: str) -> str:
        return self.same("Mul", x, self.same("Sigmoid", x))

    def reshape(self, x: str, *dims: int) -> str:
        return self.add("Reshape", x, self.integers(*dims), dims=dims)

    def transpose(self, x: str, *perm: int) -> str:
        return self.add("Transpose", x, dims=tuple(self.dims[x][axis] for axis in perm), perm=perm)

    def concat(self, axis: int, *xs: str) -> str:
        length = sum(self.dims[x][axis] for x in xs)
        dims = tuple(length if index == axis else n for index, n in enumerate(self.dims[xs[0]]))
        return self.add("Concat", *xs, dims=dims, axis=axis)

    def slice(self, x: str, axis: int, start: int, stop: int) -> str:
        dims = tuple(stop - start if index == axis else n for index, n in enumerate(self.dims[x]))
        return self.add("Slice", x, *(self.integers(n) for n in (start, stop, axis)), dims=dims)

    def write(self, path: Path, *outputs: str) -> Path:
        kind = onnx.TensorProto.FLOAT
        values = [helper.make_tensor_value_info(name, kind, self.dims[name]) for name in ("x", *outputs)]
        graph = helper.make_graph(self.nodes, "net", values[:1], values[1:], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path


# --- architectures -------------------------------------------------------------------------------------------------------


def face_detector(path: Path) -> Path:
    """Heads of a face detector whose boxes are flattened before they are joined: 35,280 channels."""
    model = Model(0, 1, 3, 224, 224)
    x, boxes, scores = model.same("Relu", model.conv("x", 16, 3, stride=4)), list[str](), list[str]()
    for anchors in (2, 2, 5):
        x = model.same("Relu", model.conv(x, 16, 3, stride=2 if boxes else 1))
        _, _, height, width = model.dims[x]
        for each, values in ((boxes, 4), (scores, 2)):
            head = model.transpose(model.conv(x, anchors * values, 3), 0, 2, 3, 1)
            each.append(model.reshape(head, 1, height * width * anchors * values))
    joined = model.concat(1, *boxes)
    assert model.dims[joined] == (1, 35_280)
    locations = model.reshape(model.same("Sigmoid", joined), 1, 8820, 4)
    classes = model.same("Softmax", model.reshape(model.concat(1, *scores), 1, 8820, 2), axis=-1)
    return model.write(path, locations, classes)


def yolov8_head(path: Path, size: int, classes: int = 20, bins: int = 16) -> Path:
    """The head of YOLOv8: distances as expectations over bins, boxes around anchors, classes; size: of the image."""
    model = Model(1, 1, 3, size, size)
    x, maps, points, strides = model.silu(model.conv("x", 8, 3, stride=4)), [], [], []
    for stride in (8, 16, 32):
        x = model.silu(model.conv(x, 16, 3, stride=2))
        boxes = model.conv(model.silu(model.conv(x, 16, 3)), 4 * bins)
        scores = model.conv(model.silu(model.conv(x, 16, 3)), classes)
        side = size // stride
        maps.append(model.reshape(model.concat(1, boxes, scores), 1, 4 * bins + classes, side * side))
        rows, columns = np.mgrid[:side, :side] + 0.5
        points.append(np.stack([columns.ravel(), rows.ravel()]))
        strides.append(np.full(side * side, stride))
    joined, anchors = model.concat(2, *maps), np.concatenate(points, axis=1)[None].astype(np.float32)
    count = anchors.shape[2]
    box, score = model.slice(joined, 1, 0, 4 * bins), model.slice(joined, 1, 4 * bins, 4 * bins + classes)
    box = model.transpose(model.reshape(box, 1, 4, bins, count), 0, 2, 1, 3)
    weight = model.constant(np.arange(bins, dtype=np.float32).reshape(1, bins, 1, 1))
    box = model.add("Conv", model.same("Softmax", box, axis=1), weight, dims=(1, 1, 4, count))
    box, places = model.reshape(box, 1, 4, count), model.constant(anchors)
    first = model.add("Sub", places, model.slice(box, 1, 0, 2), dims=(1, 2, count))
    last = model.add("Add", places, model.slice(box, 1, 2, 4), dims=(1, 2, count))
    center = model.same("Div", model.same("Add", first, last), model.constant(np.float32(2)))
    extent = model.same("Sub", last, first)
    scale = model.constant(np.concatenate(strides)[None, None].astype(np.float32))
    box = model.same("Mul", model.concat(1, center, extent), scale)
    return model.write(path, model.concat(1, box, model.same("Sigmoid", score)))


def aspp(path: Path) -> Path:
    """The pyramid of DeepLabV3 on the last map of a ResNet-50 at 128 pixels and output stride 16."""
    model = Model(2, 1, 2048, 8, 8)
    parts = [model.same("Relu", model.conv("x", 32))]
    parts += [model.same("Relu", model.conv("x", 32, 3, dilation=rate)) for rate in (6, 12, 24, 36)]
    return model.write(path, model.conv(model.concat(1, *parts), 16))


def convnext(path: Path) -> Path:
    """A block of ConvNeXt behind its stem, at 224 pixels."""
    model, channels = Model(3, 1, 3, 224, 224), 48
    weight = model.normal(channels, 3, 4, 4, by=math.sqrt(48))
    x = model.add("Conv", "x", weight, model.normal(channels), dims=(1, channels, 56, 56), strides=[4, 4])
    y = model.transpose(model.conv(x, channels, 7, groups=channels), 0, 2, 3, 1)
    y = model.same("LayerNormalization", y, model.normal(channels), model.normal(channels), axis=-1)
    for width in (4 * channels, channels):
        before = model.dims[y][-1]
        matrix = model.normal(before, width, by=math.sqrt(before))
        y = model.add("MatMul", y, matrix, dims=(1, 56, 56, width))
        y = model.same("Add", y, model.normal(width))
        if width > channels:
            half = model.same("Erf", model.same("Div", y, model.constant(np.float32(math.sqrt(2)))))
            gate = model.same("Add", half, model.constant(np.float32(1)))
            y = model.same("Mul", model.same("Mul", y, gate), model.constant(np.float32(0.5)))
    y = model.transpose(model.same("Mul", y, model.normal(channels)), 0, 3, 1, 2)
    return model.write(path, model.same("Add", x, y))


def eca(path: Path, channels: int = 2048) -> Path:
    """Efficient channel attention: a 1-D convolution over the channels of a global average."""
    model = Model(4, 1, 16, 6, 6)
    x = model.same("Relu", model.conv("x", channels))
    y = model.add("GlobalAveragePool", x, dims=(1, channels, 1, 1))
    y = model.transpose(model.reshape(y, 1, channels, 1), 0, 2, 1)
    y = model.add("Conv", y, model.normal(1, 1, 5, by=2), dims=(1, 1, channels), pads=[2, 2])
    y = model.reshape(model.transpose(model.same("Sigmoid", y), 0, 2, 1), 1, channels, 1, 1)
    return model.write(path, model.conv(model.same("Mul", x, y), 8))


def large_dense(path: Path) -> Path:
    """A fully connected layer of 40,000 inputs."""
    model = Model(5, 1, 3, 100, 100)
    x = model.same("Relu", model.conv("x", 16, 3, stride=2))
    x = model.reshape(x, 1, 40_000)
    matrix, bias = model.normal(24, 40_000, by=200), model.normal(24)
    x = model.same("Relu", model.add("Gemm", x, matrix, bias, dims=(1, 24), transB=1))
    return model.write(path, model.add("Gemm", x, model.normal(10, 24, by=5), model.normal(10), dims=(1, 10), transB=1))


def audio(path: Path) -> Path:
    """1-D convolutions over 16,000 samples of sound."""
    model = Model(6, 1, 1, 16_000)
    weight = model.normal(16, 1, 80, by=9)
    x = model.add("Conv", "x", weight, model.normal(16), dims=(1, 16, 3981), strides=[4])
    x = model.add("MaxPool", model.same("Relu", x), dims=(1, 16, 995), kernel_shape=[4], strides=[4])
    x = model.same("Relu", model.conv(x, 32, 3))
    x = model.add("GlobalAveragePool", x, dims=(1, 32, 1))
    return model.write(path, model.conv(x, 10))


ARCHITECTURES: dict[str, Callable[[Path], Path]] = {
    "face detector": face_detector,
    "YOLOv8 at 320": lambda path: yolov8_head(path, 320),
    "YOLOv8 at 640": lambda path: yolov8_head(path, 640),
    "ASPP": aspp,
    "ConvNeXt": convnext,
    "ECA": eca,
    "fully connected": large_dense,
    "audio": audio,
}


# --- random networks -----------------------------------------------------------------------------------------------------

LENGTHS = (8400, 8401, 33_600, 2100, 2053, 2048, 3136, 16_001, 4099, 1025)


def random_network(seed: int, path: Path) -> Path:
    """Element-wise functions, softmax, 1x1 convolutions, reshapes and concatenations of long maps."""
    random = np.random.default_rng(seed)
    length = int(random.choice(LENGTHS))
    channels = int(random.choice((1, 3, 4, 8, 16, 21, 64) if length < 10_000 else (1, 2, 4)))
    dims = (1, channels, length) if random.random() < 0.7 else (1, channels, *_folded(random, length))
    model = Model(seed, *dims)
    x = "x"
    for _ in range(int(random.integers(2, 7))):
        x = STEPS[int(random.integers(len(STEPS)))](model, x)
    return model.write(path, x)


def _folded(random: np.random.Generator, length: int) -> Sequence[int]:
    sides = [side for side in (1, 2, 3, 4, 5, 7) if length % side == 0]
    side = int(random.choice(sides))
    return (side, length // side) if random.random() < 0.5 else (length // side, side)


def _function(model: Model, x: str) -> str:
    return model.same(
        str(model.random.choice(("Relu", "Sigmoid", "Tanh", "Elu", "HardSwish", "Softplus", "LeakyRelu"))), x
    )


def _pointwise(model: Model, x: str) -> str:
    return model.conv(x, int(model.random.choice((1, 4, 8, 13))))


def _softmax(model: Model, x: str) -> str:
    count = model.dims[x][1]
    y = model.same("Softmax", x, axis=1 if count > 1 else len(model.dims[x]) - 1)
    return model.same("Mul", y, model.constant(np.float32(count if count > 1 else model.dims[x][-1])))


def _scaled(model: Model, x: str) -> str:
    ones = [1] * (len(model.dims[x]) - 2)
    y = model.same("Mul", x, model.normal(1, model.dims[x][1], *ones))
    return model.same("Add", y, model.normal(1, model.dims[x][1], *ones))


def _slopes(model: Model, x: str) -> str:
    return model.same("PRelu", x, model.normal(model.dims[x][1], *[1] * (len(model.dims[x]) - 2), by=4))


def _gated(model: Model, x: str) -> str:
    return model.same(str(model.random.choice(("Add", "Mul"))), x, _function(model, x))


def _reshaped(model: Model, x: str) -> str:
    _, channels, *size = model.dims[x]
    pixels = math.prod(size)
    if len(size) == 2:
        return model.reshape(x, 1, channels, pixels)
    return model.reshape(x, 1, channels, *_folded(model.random, pixels))


def _flat(model: Model, x: str) -> str:
    dims = model.dims[x]
    if math.prod(dims) > 300_000:
        return x
    flat = model.reshape(x, 1, math.prod(dims))
    return model.reshape(_function(model, flat), *dims)


def _joined(model: Model, x: str) -> str:
    axis = int(model.random.integers(1, len(model.dims[x])))
    if math.prod(model.dims[x]) > 400_000:
        return x
    return model.concat(axis, x, _function(model, x))


def _windows(model: Model, x: str) -> str:
    return model.conv(x, int(model.random.choice((2, 4, 9))), 3)


STEPS: tuple[Callable[[Model, str], str], ...] = (
    _function, _pointwise, _softmax, _scaled, _slopes, _gated, _reshaped, _flat, _joined, _windows
)  # fmt: skip
