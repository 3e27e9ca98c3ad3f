"""Lays out the ONNX networks of the zoo: those of Caffe again, and architectures as PyTorch exports them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper

from examples import zoo_caffe, zoo_keras, zoo_numbers
from examples.caffe_net import CaffeNet, Header, Map, both
from examples.zoo_numbers import CENTERING, DAMPING, INPUT, NORMALIZED, Array, Moments

OPSET: Final = 17
FUNCTIONS: Final = {"hard_silu": "HardSwish", "relu6": "Clip", "sigmoid": "Sigmoid", "hard_sigmoid": "HardSigmoid"}


class OnnxNet(CaffeNet):
    """An ONNX network in the making: CaffeNet knows sizes and weights, and this class writes nodes, each with a new name."""

    def __init__(self, name: str, seed: int, centering: float = CENTERING) -> None:
        super().__init__(name, seed, centering)
        self._name = name
        self._nodes: list[Any] = []
        self._arrays: dict[str, Array | np.ndarray[Any, np.dtype[np.int64]]] = {}
        self._inputs: list[Map] = []

    def node(self, type: str, name: str, *inputs: str | Map, **attributes: Any) -> str:
        """Append a node, called as its output."""
        names = [x if isinstance(x, str) else x.name for x in inputs]
        self._nodes.append(helper.make_node(type, names, [name], name=name, **attributes))
        return name

    def array(self, name: str, values: Array | Sequence[int]) -> str:
        self._arrays[name] = values if isinstance(values, np.ndarray) else np.array(values, np.int64)
        return name

    def model(self) -> Any:
        """The outputs are the values that no node reads."""
        for layer, _, blobs in self.weights():
            for position, values in enumerate(blobs):
                self._arrays.setdefault(f"{layer}.{position}", values)
        read = {name for node in self._nodes for name in node.input}
        made = [name for node in self._nodes for name in node.output]
        arrays = [numpy_helper.from_array(values, name) for name, values in self._arrays.items() if name in read]
        kind = onnx.TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info(x.name, kind, (1, x.channels, x.height, x.width)) for x in self._inputs]
        outputs = [helper.make_tensor_value_info(name, kind, None) for name in made if name not in read]
        graph = helper.make_graph(self._nodes, self._name, inputs, outputs, arrays)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)

    # --- Caffe's layers

    def input(self, size: int, channels: int = 3, *, header: Header = "layer") -> Map:
        made = super().input(size, channels, header=header)
        self._inputs.append(made)
        return made

    def wide_input(self, height: int, width: int, channels: int) -> Map:
        made = Map("data", channels, height, width, INPUT)
        self._inputs.append(made)
        return made

    def conv(
        self,
        x: Map,
        name: str,
        channels: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        pad: int | tuple[int, int] = 0,
        group: int = 1,
        dilation: int = 1,
        bias: bool = True,
    ) -> Map:
        made = super().conv(
            x, name, channels, kernel, stride=stride, pad=pad, group=group, dilation=dilation, bias=bias
        )
        settings = {"kernel_shape": both(kernel), "strides": [stride] * 2, "pads": both(pad) * 2}
        self.node("Conv", name, x, *self._arrays_of(name, bias), group=group, dilations=[dilation] * 2, **settings)
        return made

    def _arrays_of(self, name: str, bias: bool = True) -> list[str]:
        return [f"{name}.0", f"{name}.1"][: 1 + bias]

    def deconv(self, x: Map, name: str, channels: int, kernel: int, *, stride: int, pad: int = 0) -> Map:
        made = super().deconv(x, name, channels, kernel, stride=stride, pad=pad)
        settings = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        self.node("ConvTranspose", name, x, *self._arrays_of(name), **settings)
        return made

    def bilinear(self, x: Map, name: str, factor: int) -> Map:
        made = super().bilinear(x, name, factor)
        side = 2 * factor - factor % 2
        settings = {"kernel_shape": [side] * 2, "strides": [factor] * 2, "group": x.channels}
        self.node("ConvTranspose", name, x, f"{name}.0", **settings)
        return made

    def crop(self, x: Map, like: Map, name: str, offset: int) -> Map:
        starts = self.array(f"{name}/starts", [offset] * 2)
        ends = self.array(f"{name}/ends", [offset + like.height, offset + like.width])
        self.node("Slice", name, x, starts, ends, self.array(f"{name}/axes", [2, 3]))
        return super().crop(x, like, name, offset)

    def upsample(self, x: Map, name: str, scale: int) -> Map:
        settings = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", "mode": "nearest"}
        self.node("Resize", name, x, "", self.array(f"{name}/scales", _floats(1, 1, scale, scale)), **settings)
        return super().upsample(x, name, scale)

    def dense(self, x: Map, name: str, channels: int) -> Map:
        flat = self.node("Flatten", f"{name}/flat", x) if x.height * x.width > 1 or x.name in self._maps else x.name
        self.node("Gemm", name, flat, *self._arrays_of(name), transB=1)
        return super().dense(x, name, channels)

    @property
    def _maps(self) -> frozenset[str]:
        """Values of four axes that may have a single pixel."""
        types = ("Gemm", "Flatten")
        vectors: set[str] = set()
        for node in self._nodes:
            if node.op_type in types or (node.op_type != "Conv" and node.input[0] in vectors):
                vectors.update(node.output)
        return frozenset(name for node in self._nodes for name in node.output) - vectors

    def batch_norm(self, x: Map, norm: str, scale: str, *, damping: float = 1.0) -> Map:
        made = super().batch_norm(x, norm, scale, damping=damping)
        parts = zoo_numbers.batch_norm(self.seed, norm, x.channels, x.moments, damping)
        names = [self.array(f"{norm}/{part}", values) for part, values in parts._asdict().items()]
        return replace(made, name=self.node("BatchNormalization", norm, x, *names))

    def relu(self, x: Map, name: str, *, slope: float = 0.0) -> Map:
        more = {"alpha": slope} if slope else {}
        return replace(
            super().relu(x, name, slope=slope), name=self.node("LeakyRelu" if slope else "Relu", name, x, **more)
        )

    def prelu(self, x: Map, name: str) -> Map:
        made = super().prelu(x, name)
        slopes = zoo_numbers.uniform(self.seed, f"{name}/slopes", [x.channels], zoo_numbers.SLOPES)
        axes = (1, 1) if x.name in self._maps else ()
        return replace(made, name=self.node("PRelu", name, x, self.array(f"{name}/slopes", slopes.reshape(-1, *axes))))

    def max_pool(self, x: Map, name: str, kernel: int, stride: int, *, pad: int = 0, mask: bool = False) -> Map:
        made = super().max_pool(x, name, kernel, stride, pad=pad, mask=mask)
        settings = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        self.node("MaxPool", name, x, ceil_mode=1, **settings)
        return made

    def whole_average(self, x: Map, name: str, *, by_size: bool = False) -> Map:
        if by_size:
            self.node("AveragePool", name, x, kernel_shape=[x.height, x.width])
        else:
            self.node("GlobalAveragePool", name, x)
        return super().whole_average(x, name, by_size=by_size)

    def lrn(self, x: Map, name: str) -> Map:
        self.node("LRN", name, x, size=5, alpha=0.0001, beta=0.75, bias=1.0)
        return super().lrn(x, name)

    def add(self, x: Map, y: Map, name: str) -> Map:
        self.node("Add", name, x, y)
        return super().add(x, y, name)

    def concat(self, maps: Sequence[Map], name: str) -> Map:
        self.node("Concat", name, *maps, axis=1)
        return super().concat(maps, name)

    def dropout(self, x: Map, name: str, ratio: float) -> Map:  # noqa: ARG002  # exporters leave it out
        return x

    def softmax(self, x: Map, name: str = "prob") -> Map:
        self.node("Softmax", name, x, axis=1)
        return super().softmax(x, name)

    # --- layers that Caffe does not have

    def pool(self, x: Map, name: str, kernel: int, stride: int = 1, pad: int = 0) -> Map:
        """A max pooling that rounds down, as PyTorch's do."""
        settings = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        height, width = ((n + 2 * pad - kernel) // stride + 1 for n in (x.height, x.width))
        return Map(self.node("MaxPool", name, x, **settings), x.channels, height, width, x.moments.after_max_pool())

    def function(self, x: Map, name: str, function: str) -> Map:
        match function:
            case "silu":
                self.node("Mul", name, x, self.node("Sigmoid", f"{name}/sigmoid", x))
            case "relu":
                self.node("Relu", name, x)
            case "relu6":
                self.node("Clip", name, x, *(self.array(f"{name}/{n}", np.array(n, np.float32)) for n in (0, 6)))
            case "hard_sigmoid":
                self.node("HardSigmoid", name, x, alpha=1 / 6)
            case _:
                self.node(FUNCTIONS[function], name, x)
        usual = "sigmoid" if function == "hard_sigmoid" else function
        return replace(x, name=name, moments=zoo_keras.after(x.moments, usual))

    def block(
        self,
        x: Map,
        name: str,
        channels: int,
        kernel: int = 1,
        *,
        stride: int = 1,
        group: int = 1,
        dilation: int = 1,
        function: str = "relu",
        damping: float = 1.0,
    ) -> Map:
        """A convolution with batch normalization, folded into it as exporters do, and a function."""
        pad = dilation * (kernel // 2)
        given = replace(x, moments=x.moments.divided(damping))
        x = self.conv(given, name, channels, kernel, stride=stride, pad=pad, group=group, dilation=dilation)
        x = replace(x, moments=Moments(0.0, damping**2))
        return self.function(x, f"{name}/{function}", function) if function else x

    def excite(self, x: Map, name: str, channels: int, functions: tuple[str, str]) -> Map:
        """x times a number for each channel, which follows from the means of all channels."""
        gate = self.whole_average(x, f"{name}/mean")
        gate = self.function(self.conv(gate, f"{name}/reduce", channels, 1), f"{name}/inner", functions[0])
        gate = self.function(self.conv(gate, f"{name}/expand", x.channels, 1), f"{name}/gate", functions[1])
        self.node("Mul", name, x, gate)
        return replace(x, name=name, moments=zoo_keras.of_product(x.moments, gate.moments))

    def resize(self, x: Map, name: str, height: int, width: int) -> Map:
        """Bilinear, as PyTorch's interpolate."""
        sizes = self.array(f"{name}/sizes", [1, x.channels, height, width])
        self.node("Resize", name, x, "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")
        return replace(x, name=name, height=height, width=width)


def _floats(*values: float) -> Array:
    return np.array(values, np.float32)


# --- architectures -------------------------------------------------------------------------------------------------------

Layout: TypeAlias = Callable[[OnnxNet, int], None]


def resnet18(net: OnnxNet, size: int) -> None:
    x = net.pool(net.block(net.input(size), "conv1", 64, 7, stride=2), "pool1", 3, 2, 1)
    for stage, channels in enumerate((64, 128, 256, 512), 1):
        for i in range(2):
            stride, name = 2 if stage > 1 and i == 0 else 1, f"layer{stage}.{i}"
            y = net.block(x, f"{name}.conv1", channels, 3, stride=stride)
            y = net.block(y, f"{name}.conv2", channels, 3, function="", damping=DAMPING)
            if stride > 1:
                x = net.block(x, f"{name}.downsample", channels, 1, stride=stride, function="")
            x = net.relu(net.add(y, x, f"{name}.add"), f"{name}.relu")
    net.dense(net.whole_average(x, "mean"), "fc", 1000)


def mobilenet_v3_small(net: OnnxNet, size: int) -> None:
    """torchvision's: hard swishes, and squeeze and excitation."""
    x = net.block(net.input(size), "features.0", 16, 3, stride=2, function="hard_silu")
    # kernel, expanded and output channels, excitation, function, stride
    rows = (
        (3, 16, 16, True, "relu", 2), (3, 72, 24, False, "relu", 2), (3, 88, 24, False, "relu", 1),
        (5, 96, 40, True, "hard_silu", 2), (5, 240, 40, True, "hard_silu", 1), (5, 240, 40, True, "hard_silu", 1),
        (5, 120, 48, True, "hard_silu", 1), (5, 144, 48, True, "hard_silu", 1), (5, 288, 96, True, "hard_silu", 2),
        (5, 576, 96, True, "hard_silu", 1), (5, 576, 96, True, "hard_silu", 1),
    )  # fmt: skip
    for i, (kernel, wide, channels, excites, function, stride) in enumerate(rows, 1):
        name, y = f"features.{i}", x
        if wide != x.channels:
            y = net.block(y, f"{name}.expand", wide, function=function)
        y = net.block(y, f"{name}.depthwise", wide, kernel, stride=stride, group=wide, function=function)
        if excites:
            y = net.excite(y, f"{name}.excite", 8 * max(1, round(wide / 32)), ("relu", "hard_sigmoid"))
        is_sum = stride == 1 and channels == x.channels
        y = net.block(y, f"{name}.project", channels, function="", damping=DAMPING if is_sum else 1.0)
        x = net.add(x, y, f"{name}.add") if is_sum else y
    x = net.block(x, "features.12", 576, function="hard_silu")
    x = net.function(net.dense(net.whole_average(x, "mean"), "classifier.0", 1024), "classifier.1", "hard_silu")
    net.dense(x, "classifier.3", 1000)


def efficientnet_lite0(net: OnnxNet, size: int) -> None:
    x = net.block(net.input(size), "stem", 32, 3, stride=2, function="relu6")
    rows = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
            (6, 320, 1, 1, 3))  # fmt: skip
    for stage, (expansion, channels, depth, first, kernel) in enumerate(rows):
        for i in range(depth):
            stride, name, y, wide = first if i == 0 else 1, f"blocks.{stage}.{i}", x, expansion * x.channels
            if expansion > 1:
                y = net.block(y, f"{name}.expand", wide, function="relu6")
            y = net.block(y, f"{name}.depthwise", wide, kernel, stride=stride, group=wide, function="relu6")
            is_sum = stride == 1 and channels == x.channels
            y = net.block(y, f"{name}.project", channels, function="", damping=DAMPING if is_sum else 1.0)
            x = net.add(x, y, f"{name}.add") if is_sum else y
    x = net.block(x, "head", 1280, function="relu6")
    net.softmax(net.dense(net.whole_average(x, "mean"), "classifier", 1000))


def yolo_nano(net: OnnxNet, size: int) -> None:
    """As YOLOv5n: Focus slices, CSP blocks with SiLU, SPPF, and heads of three scales."""

    def conv(x: Map, name: str, channels: int, kernel: int = 1, stride: int = 1) -> Map:
        return net.block(x, name, channels, kernel, stride=stride, function="silu")

    def csp(x: Map, name: str, channels: int, depth: int, shortcut: bool = True) -> Map:
        y = conv(x, f"{name}.cv1", channels // 2)
        for i in range(depth):
            z = conv(conv(y, f"{name}.m.{i}.cv1", channels // 2), f"{name}.m.{i}.cv2", channels // 2, 3)
            y = net.add(y, z, f"{name}.m.{i}.add") if shortcut else z
        return conv(net.concat([y, conv(x, f"{name}.cv2", channels // 2)], f"{name}.cat"), f"{name}.cv3", channels)

    x = conv(_focus(net, net.input(size)), "stem", 16, 3)
    stages = {}
    for stage, (channels, depth) in enumerate(((32, 1), (64, 2), (128, 3), (256, 1))):
        x = stages[stage] = csp(conv(x, f"down{stage}", channels, 3, 2), f"csp{stage}", channels, depth)
    x = conv(x, "sppf.cv1", 128)
    pools = [x]
    for i in range(3):
        pools.append(net.pool(pools[-1], f"sppf.pool{i}", 5, 1, 2))
    x = conv(net.concat(pools, "sppf.cat"), "sppf.cv2", 256)
    kept = []
    for level, channels in ((2, 128), (1, 64)):
        kept.append(conv(x, f"lateral{level}", channels))
        x = net.concat([net.upsample(kept[-1], f"up{level}", 2), stages[level]], f"cat{level}")
        x = csp(x, f"top{level}", channels, 1, shortcut=False)
    outputs = [x]
    for level, channels in ((2, 128), (3, 256)):
        x = net.concat([conv(x, f"reduce{level}", channels // 2, 3, 2), kept.pop()], f"join{level}")
        x = csp(x, f"bottom{level}", channels, 1, shortcut=False)
        outputs.append(x)
    for level, x in enumerate(outputs):
        net.function(net.conv(x, f"head{level}", 255, 1), f"output{level}", "sigmoid")


def _focus(net: OnnxNet, x: Map) -> Map:
    steps, axes = net.array("focus/steps", [2]), {2: net.array("focus/rows", [2]), 3: net.array("focus/columns", [3])}
    end = net.array("focus/end", [1 << 62])
    starts = [net.array(f"focus/{n}", [n]) for n in (0, 1)]

    def part(row: int, column: int) -> str:
        rows = net.node("Slice", f"focus/rows{row}{column}", x, starts[row], end, axes[2], steps)
        return net.node("Slice", f"focus/part{row}{column}", rows, starts[column], end, axes[3], steps)

    net.node("Concat", "focus", *(part(row, column) for row, column in ((0, 0), (1, 0), (0, 1), (1, 1))), axis=1)
    return Map("focus", 4 * x.channels, x.height // 2, x.width // 2, x.moments)


def unet(net: OnnxNet, size: int) -> None:
    def double(x: Map, name: str, channels: int) -> Map:
        return net.block(net.block(x, f"{name}.0", channels, 3), f"{name}.1", channels, 3)

    x, skips = double(net.input(size), "inc", 32), []
    for i, channels in enumerate((64, 128, 256)):
        skips.append(x)
        x = double(net.pool(x, f"pool{i}", 2, 2), f"down{i}", channels)
    for i, channels in enumerate((128, 64, 32)):
        x = net.deconv(x, f"up{i}", channels, 2, stride=2)
        x = double(net.concat([skips.pop(), x], f"cat{i}"), f"decode{i}", channels)
    net.function(net.conv(x, "outc", 1, 1), "mask", "sigmoid")


def deeplab(net: OnnxNet, size: int) -> None:
    """A small backbone with dilations, the head of DeepLabV3, and bilinear resizing to the size of the image."""
    x = image = net.input(size)
    for i, (channels, stride, dilation) in enumerate(((32, 2, 1), (64, 2, 1), (96, 2, 1), (128, 1, 2), (160, 1, 2))):
        x = net.block(x, f"backbone.{i}.conv", channels, 3, stride=stride, dilation=dilation)
        x = net.block(x, f"backbone.{i}.depthwise", channels, 3, group=channels, dilation=dilation)
    branches = [net.block(x, "aspp.0", 64)]
    branches += [net.block(x, f"aspp.{i}", 64, 3, dilation=rate) for i, rate in enumerate((3, 6, 9), 1)]
    pooled = net.block(net.whole_average(x, "aspp.mean"), "aspp.pooled", 64)
    branches.append(net.resize(pooled, "aspp.resized", x.height, x.width))
    x = net.block(net.concat(branches, "aspp.cat"), "project", 64)
    x = net.conv(net.block(x, "refine", 64, 3), "scores", 21, 1)
    net.resize(x, "segmentation", image.height, image.width)


def crnn(net: OnnxNet, size: int) -> None:
    """Text in a line: the columns of a map are read one by one. size: the height; the width is four times that."""
    x = net.wide_input(size, 4 * size, 1)
    for i, channels in enumerate((32, 64, 128)):
        x = net.pool(net.block(x, f"cnn.{i}", channels, 3), f"pool{i}", 2, 2)
    x = net.conv(x, "columns", 128, (x.height, 1))
    x = net.relu(x, "columns_relu")
    rows = net.node("Squeeze", "rows", x, net.array("rows/axes", [2]))
    rows = net.node("Transpose", "sequence", rows, perm=[0, 2, 1])
    inputs = x.channels
    for name, outputs in (("hidden", 96), ("characters", 37)):
        weight = zoo_numbers.kernel(net.seed, f"{name}/kernel", (inputs, outputs), (0,), x.moments)
        rows = net.node("MatMul", f"{name}/product", rows, net.array(f"{name}/weight", weight))
        bias = zoo_numbers.normal(net.seed, f"{name}/bias", [outputs], zoo_numbers.BIAS)
        rows = net.node("Add", name, rows, net.array(f"{name}/bias", bias))
        rows = net.node("Relu", f"{name}/relu", rows) if name == "hidden" else rows
        x, inputs = replace(x, moments=NORMALIZED.after_relu()), outputs
    net.node("Softmax", "text", rows, axis=2)


def ssd_heads(net: OnnxNet, size: int) -> None:
    """SSD on a small MobileNet: boxes and classes of all scales as two lists, the classes with their softmax."""
    x = net.block(net.input(size), "conv0", 16, 3, stride=2, function="relu6")
    features = []
    for i, (channels, stride) in enumerate(((32, 2), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2))):
        x = net.block(x, f"dw{i}", x.channels, 3, stride=stride, group=x.channels, function="relu6")
        x = net.block(x, f"pw{i}", channels, function="relu6")
        features += [x] if i >= 4 else []
    lists: dict[str, list[str]] = {"boxes": [], "classes": []}
    for i, x in enumerate(features):
        for kind, width in (("boxes", 4), ("classes", 21)):
            made = net.conv(x, f"{kind}{i}", 6 * width, 3, pad=1)
            pixels = net.node("Transpose", f"{kind}{i}/pixels", made, perm=[0, 2, 3, 1])
            shape = net.array(f"{kind}{i}/shape", [1, -1, width])
            lists[kind].append(net.node("Reshape", f"{kind}{i}/list", pixels, shape))
    net.node("Concat", "boxes", *lists["boxes"], axis=1)
    net.node("Softmax", "scores", net.node("Concat", "classes", *lists["classes"], axis=1), axis=2)


LAYOUTS: Final[Mapping[str, Layout]] = {
    layout.__name__: layout
    for layout in (
        resnet18, mobilenet_v3_small, efficientnet_lite0, yolo_nano, unet, deeplab, crnn, ssd_heads,
        zoo_caffe.lenet, zoo_caffe.squeezenet_1_1, zoo_caffe.mobilenet_v1, zoo_caffe.mobilenet_v2, zoo_caffe.googlenet_without_lrn, zoo_caffe.resnet50,
        zoo_caffe.yolov3_tiny, zoo_caffe.fcn_8s, zoo_caffe.enet, zoo_caffe.mtcnn_onet,
    )
}  # fmt: skip


def write(layout: str, path: Path, seed: int, size: int, centering: float) -> None:
    """Write a network's .onnx file."""
    net = OnnxNet(layout, seed, centering)
    LAYOUTS[layout](net, size)
    onnx.save(net.model(), path)
