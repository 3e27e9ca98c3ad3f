"""Small networks that together reach every room of the convertor in which bits are decided, each with its ini file.

Every layer that has a fault of its own is an output, or close to one, so that a fault in it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from examples import caffemodel

Arrays = dict[str, NDArray[Any]]


def write(name: str, folder: Path) -> Path:
    """Write a network's files; returns its ini file."""
    definition, settings = NETWORKS[name]
    files = definition(folder)
    lines = [
        "[INPUT]",
        f"name = {name}",
        *(f"{key} = {path}" for key, path in files.items()),
        *settings.get("INPUT", ()),
    ]
    lines += [
        "[OUTPUT]",
        "output_folder = output",
        "generate_source = 1",
        *settings.get("OUTPUT", ("quantization = 0",)),
    ]
    lines += ["[OPTIONAL]", *settings.get("OPTIONAL", ())]
    ini = folder / "net.ini"
    ini.write_text("\n".join(lines) + "\n")
    return ini


class _Onnx:
    """An ONNX model in the making. Each node has the name of its output; x is the input."""

    def __init__(self, *dims: int) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[NodeProto] = []
        self.outputs: list[str] = []
        self.arrays: Arrays = {}
        self.inputs = {"x": (1, *dims)}

    def add(self, name: str, type: str, *reads: str, hidden: bool = False, **settings: Any) -> str:
        """A node. hidden: it is no output of the network."""
        self.nodes.append(helper.make_node(type, list(reads), [name], name=name, **settings))
        if not hidden:
            self.outputs.append(name)
        return name

    def array(self, name: str, values: Any, type: Any = np.float32) -> str:
        self.arrays[name] = np.asarray(values, type)
        return name

    def weights(self, name: str, *shape: int) -> str:
        fan_in = max(1, int(np.prod(shape[1:])))
        return self.array(name, self.random.normal(size=shape) / np.sqrt(fan_in))

    def conv(self, name: str, read: str, *shape: int, type: str = "Conv", hidden: bool = False, **settings: Any) -> str:
        bias = shape[1] * settings.get("group", 1) if type == "ConvTranspose" else shape[0]
        weights = self.weights(f"{name}_w", *shape), self.array(f"{name}_b", self.random.normal(size=bias) / 4)
        return self.add(name, type, read, *weights, hidden=hidden, **settings)

    def write(self, folder: Path) -> dict[str, str]:
        inputs = [helper.make_tensor_value_info(*each) for each in self._typed(self.inputs)]
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.outputs]
        arrays = [numpy_helper.from_array(values, name) for name, values in self.arrays.items()]
        graph = helper.make_graph(self.nodes, "net", inputs, outputs, arrays)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        (folder / "net.onnx").write_bytes(model.SerializeToString())
        return {"definition": "net.onnx"}

    @staticmethod
    def _typed(shapes: Mapping[str, Sequence[int]]) -> list[tuple[str, int, Sequence[int]]]:
        return [(name, TensorProto.FLOAT, dims) for name, dims in shapes.items()]


def windows(folder: Path) -> dict[str, str]:
    """Convolutions of every size of a tile, pools, and a classifier."""
    net = _Onnx(3, 20, 22)
    net.conv("three", "x", 20, 3, 3, 3, pads=[1, 0, 2, 1], strides=[1, 2], hidden=True)
    net.add("relu", "Relu", "three")
    net.conv("channelwise", "relu", 20, 1, 3, 3, group=20, pads=[1, 1, 1, 1], hidden=True)
    net.add("relu6", "Clip", "channelwise", net.array("low", 0.0), net.array("high", 6.0))
    net.conv("five", "relu6", 12, 20, 5, 5, pads=[2, 2, 2, 2], strides=[2, 2], hidden=True)
    net.add("leaky", "LeakyRelu", "five", alpha=0.25)
    net.conv("seven", "leaky", 9, 12, 7, 7, pads=[3, 3, 3, 3])
    net.conv("dilated", "leaky", 16, 12, 3, 3, dilations=[2, 2], pads=[2, 2, 2, 2], hidden=True)
    net.conv("one", "dilated", 72, 16, 1, 1, hidden=True)
    net.add("slopes", "PRelu", "one", net.array("slopes_s", net.random.uniform(0.1, 0.9, (72, 1, 1))))
    net.conv("wide", "slopes", 16, 72, 1, 1)
    net.add("sum", "Add", "wide", "dilated", hidden=True)
    net.add("tanh", "Tanh", "sum")
    net.conv("atrous", "leaky", 8, 12, 3, 3, dilations=[12, 12], pads=[12, 12, 12, 12])
    net.conv("groups", "leaky", 8, 6, 3, 3, group=2, pads=[1, 1, 1, 1])
    net.conv("up", "tanh", 16, 10, 4, 3, type="ConvTranspose", strides=[2, 1], pads=[1, 1, 1, 1])
    net.conv("same", "relu6", 8, 20, 2, 2, auto_pad="SAME_LOWER", hidden=True)
    net.add("sigmoid", "Sigmoid", "same")
    net.add("largest", "MaxPool", "relu", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1], ceil_mode=1)
    net.add("far", "MaxPool", "relu6", kernel_shape=[5, 5], strides=[1, 1], pads=[1, 3, 3, 1])
    net.add(
        "counted", "AveragePool", "relu6", kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1
    )
    net.add("averages", "AveragePool", "relu6", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    net.add("normal", "BatchNormalization", "counted", *_statistics(net, 20), epsilon=1e-2)
    net.conv("next", "counted", 12, 20, 3, 3, hidden=True)
    net.add("scaled", "BatchNormalization", "next", *_statistics(net, 12, "next"), epsilon=1e-2, hidden=True)
    net.add("elu", "Elu", "scaled")
    net.add("twice", "Resize", "elu", "", net.array("by_two", [1, 1, 2, 2]), mode="nearest", nearest_mode="floor",
            coordinate_transformation_mode="asymmetric")  # fmt: skip
    net.conv("left", "counted", 12, 20, 1, 1, hidden=True)
    net.conv("right", "counted", 12, 20, 1, 1, hidden=True)
    net.add("both", "Add", "left", "right", hidden=True)
    net.add("hoisted", "BatchNormalization", "both", "next_scale", "next_shift", "next_mean", "next_variance")
    net.conv("first", "counted", 16, 20, 1, 1, hidden=True)
    net.conv("second", "counted", 16, 20, 1, 1, hidden=True)
    net.add("pair", "Concat", "first", "second", axis=1, hidden=True)
    net.conv("joined", "pair", 8, 32, 1, 1)
    net.conv("fewer", "relu6", 12, 20, 1, 1, hidden=True)
    net.add("smaller", "AveragePool", "fewer", kernel_shape=[2, 2], strides=[2, 2], hidden=True)
    net.add("swapped", "Relu", "smaller")
    net.add("mean", "GlobalAveragePool", "relu", hidden=True)
    net.add("flat", "Flatten", "averages", hidden=True)
    net.add("dense", "Gemm", "flat", net.weights("dense_w", 11, 20 * 11 * 6), net.array("dense_b", np.arange(11) / 11),
            transB=1, hidden=True)  # fmt: skip
    net.add("classes", "Softmax", "dense", axis=1)
    net.add("gates", "Sigmoid", "mean", hidden=True)
    net.add("gated", "Mul", "relu", "gates")
    return net.write(folder)


def _statistics(net: _Onnx, channels: int, name: str = "") -> list[str]:
    draw = net.random.uniform
    arrays = {"scale": draw(0.5, 1.5, channels), "shift": draw(-1, 1, channels), "mean": draw(-1, 1, channels)}
    arrays["variance"] = draw(0.05, 1, channels)
    return [net.array(f"{name}_{kind}", values) for kind, values in arrays.items()]


def functions(folder: Path) -> dict[str, str]:
    """Functions of the CPU, all of the same map."""
    net = _Onnx(12, 9, 10)
    net.conv("c", "x", 12, 12, 1, 1, hidden=True)
    plain = (
        "HardSwish",
        "Mish",
        "Softplus",
        "Softsign",
        "Exp",
        "Sin",
        "Cos",
        "Atan",
        "Erf",
        "Gelu",
        "Sigmoid",
        "Tanh",
        "Abs",
        "Floor",
    )
    for type in plain:
        net.add(type.lower(), type, "c")
    net.add("by_tanh", "Gelu", "c", approximate="tanh")
    net.add("hard", "HardSigmoid", "c", alpha=0.3, beta=0.4)
    net.add("swish_gate", "Sigmoid", "c", hidden=True)
    net.add("swish", "Mul", "c", "swish_gate")
    net.add("shifted", "Add", "c", net.array("shift", 2.5), hidden=True)
    net.add("held", "Clip", "shifted", net.array("zero", 0.0), net.array("six", 6.0), hidden=True)
    net.add("raised", "Mul", "c", "held", hidden=True)
    net.add("nearly_hard", "Mul", "raised", net.array("sixth", 1 / 6))
    net.add("selu", "Selu", "c")
    net.add("celu", "Celu", "c", alpha=0.7)
    net.add("thresholded", "ThresholdedRelu", "c", alpha=0.5)
    net.add("clip", "Clip", "c", net.array("low", -0.4), net.array("high", 0.7))
    net.add("above", "Add", "abs", net.array("one", 1.0), hidden=True)
    net.add("log", "Log", "above")
    net.add("root", "Sqrt", "above")
    net.add("power", "Pow", "above", net.array("exponent", 1.5))
    net.add("softmax", "Softmax", "c", axis=1)
    net.add("softmax_rows", "Softmax", "c", axis=2)
    net.add("log_softmax", "LogSoftmax", "c", axis=1)
    net.add("lrn", "LRN", "c", size=5, alpha=0.3, beta=0.75, bias=2.0)
    scale = net.array("i_scale", net.random.uniform(0.5, 2, 12)), net.array("i_shift", net.random.normal(size=12))
    net.add("instance", "InstanceNormalization", "c", *scale, epsilon=1e-2)
    row = net.array("l_scale", net.random.uniform(0.5, 2, 10)), net.array("l_shift", net.random.normal(size=10))
    net.add("layer", "LayerNormalization", "c", *row, axis=-1, epsilon=1e-2)
    group = net.array("g_scale", net.random.uniform(0.5, 2, 4)), net.array("g_shift", net.random.normal(size=4))
    net.add("group", "GroupNormalization", "c", *group, num_groups=4, epsilon=1e-2)
    net.add("unit", "LpNormalization", "c", axis=1, p=2)
    net.add("mvn", "MeanVarianceNormalization", "c")
    net.add("mean", "ReduceMean", "c", net.array("axes", [2], np.int64), keepdims=1)
    net.add("norm", "ReduceL2", "c", net.array("channels", [1], np.int64), keepdims=1)
    net.add("most", "ReduceMax", "c", "axes", keepdims=1)
    return net.write(folder)


def moves(folder: Path) -> dict[str, str]:
    """What moves numbers, resizes maps, joins, cuts and multiplies them."""
    net = _Onnx(12, 8, 10)
    net.conv("c", "x", 12, 12, 1, 1, hidden=True)
    net.conv("d", "x", 12, 12, 3, 3, pads=[1, 1, 1, 1], hidden=True)
    net.add("turned", "Transpose", "c", perm=[0, 3, 1, 2])
    net.add("depth", "DepthToSpace", "c", blocksize=2)
    net.add("depth_crd", "DepthToSpace", "c", blocksize=2, mode="CRD")
    net.add("space", "SpaceToDepth", "c", blocksize=2)
    net.add("shaped", "Reshape", "c", net.array("shape", [1, 6, 4, 40], np.int64))
    bounds = (net.array("starts", [1, 2], np.int64), net.array("ends", [8, 9], np.int64))
    net.add("cut", "Slice", "c", *bounds, net.array("axes", [2, 3], np.int64), net.array("steps", [2, 3], np.int64))
    net.add("padded", "Pad", "c", net.array("pads", [0, 0, 1, 0, 0, 0, 0, 2], np.int64))
    net.add("padded_again", "Pad", "padded", "pads")
    net.add("joined", "Concat", "c", "d", axis=1, hidden=True)
    net.conv("after", "joined", 8, 24, 1, 1)
    net.add("tanh", "Tanh", "joined")
    net.add("rows", "Concat", "c", "d", axis=2)
    net.add("difference", "Sub", "c", "d")
    net.add("product", "Mul", "c", "d")
    net.add("maximum", "Max", "c", "d")
    net.add("minimum", "Min", "c", "d")
    net.add("positive", "Add", "square", net.array("one", 1.0), hidden=True)
    net.nodes.insert(-1, helper.make_node("Mul", ["d", "d"], ["square"], name="square"))
    net.add("quotient", "Div", "c", "positive")
    net.add("third", "Div", "c", net.array("three", 3.0))
    sizes = ("", "", net.array("sizes", [1, 12, 13, 17], np.int64))
    net.add("bilinear", "Resize", "c", *sizes, mode="linear", coordinate_transformation_mode="half_pixel")
    net.add("corners", "Resize", "c", *sizes, mode="linear", coordinate_transformation_mode="align_corners")
    net.add(
        "nearest",
        "Resize",
        "c",
        *sizes,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    net.add("cubic", "Resize", "c", *sizes, mode="cubic", coordinate_transformation_mode="half_pixel")
    net.add("thrice", "Resize", "c", "", net.array("by_three", [1, 1, 3, 3]), mode="nearest",
            coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    net.add("keys", "Transpose", "d", perm=[0, 1, 3, 2], hidden=True)
    net.add("attention", "MatMul", "c", "keys", hidden=True)
    net.add("smaller", "Mul", "attention", net.array("tenth", 0.1))
    net.add("picked", "Gather", "c", net.array("indices", [5, 0, 7, 7], np.int64), axis=1)
    net.add("every", "ReduceMean", "c", net.array("all", [1, 2, 3], np.int64), keepdims=1)
    grid = net.add("places", "Tanh", "two", hidden=True)
    net.nodes.insert(-1, helper.make_node("Slice", ["d", "zero", "two_", "one_"], ["two_c"], name="two_c"))
    net.nodes.insert(-1, helper.make_node("Transpose", ["two_c"], ["two"], name="two", perm=[0, 2, 3, 1]))
    net.array("zero", [0], np.int64), net.array("two_", [2], np.int64), net.array("one_", [1], np.int64)
    net.add("sampled", "GridSample", "c", grid, mode="linear", padding_mode="border")
    return net.write(folder)


def classifier(folder: Path) -> dict[str, str]:
    """A chain that reads images."""
    net = _Onnx(3, 16, 18)
    net.conv("first", "x", 16, 3, 3, 3, pads=[1, 1, 1, 1], hidden=True)
    net.add("relu", "Relu", "first", hidden=True)
    net.conv("second", "relu", 24, 16, 3, 3, pads=[1, 1, 1, 1], hidden=True)
    net.add("relu2", "Relu", "second", hidden=True)
    net.add("pool", "MaxPool", "relu2", kernel_shape=[2, 2], strides=[2, 2], hidden=True)
    net.add("flat", "Flatten", "pool", hidden=True)
    net.add(
        "dense",
        "Gemm",
        "flat",
        net.weights("dense_w", 10, 24 * 8 * 9),
        net.array("dense_b", np.arange(10) / 10),
        transB=1,
    )
    return net.write(folder)


def quantized(folder: Path) -> dict[str, str]:
    """Integers as a quantizer of ONNX writes them."""
    net = _Onnx(4, 8, 8)
    net.array("s", 0.02), net.array("z", 3, np.int8), net.array("ws", net.random.uniform(0.004, 0.01, 6))
    net.array("w", net.random.integers(-127, 128, (6, 4, 3, 3)), np.int8)
    net.array("wz", np.arange(6), np.int8), net.array("ys", 0.06)
    net.add("q", "QuantizeLinear", "x", "s", "z", hidden=True)
    net.add("dq", "DequantizeLinear", "q", "s", "z", hidden=True)
    net.add("kernels", "DequantizeLinear", "w", "ws", "wz", axis=0, hidden=True)
    net.add("conv", "Conv", "dq", "kernels", pads=[1, 1, 1, 1], hidden=True)
    net.add("yq", "QuantizeLinear", "conv", "ys", "z", hidden=True)
    net.add("y", "DequantizeLinear", "yq", "ys", "z")
    return net.write(folder)


def pairs(folder: Path) -> dict[str, str]:
    """Two inputs of the same size and two outputs of the same size."""
    net = _Onnx(8, 6, 6)
    net.inputs["other"] = (1, 8, 6, 6)
    net.conv("one", "x", 8, 8, 1, 1)
    net.conv("two", "other", 8, 8, 1, 1)
    return net.write(folder)


CAFFE = """name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 8 dim: 14 dim: 12 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 12 kernel_h: 3 kernel_w: 5 pad_h: 1 pad_w: 2 stride_h: 2 stride_w: 1 } }
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "bn" batch_norm_param { use_global_stats: true } }
layer { name: "scale" type: "Scale" bottom: "bn" top: "scale" scale_param { bias_term: true } }
layer { name: "prelu" type: "PReLU" bottom: "scale" top: "prelu" }
layer { name: "lrn" type: "LRN" bottom: "prelu" top: "lrn" lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 } }
layer { name: "within" type: "LRN" bottom: "prelu" top: "within"
  lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL } }
layer { name: "pool" type: "Pooling" bottom: "lrn" top: "pool" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "ave" type: "Pooling" bottom: "lrn" top: "ave" pooling_param { pool: AVE kernel_size: 3 stride: 2 pad_h: 1 pad_w: 2 } }
layer { name: "sum" type: "Eltwise" bottom: "lrn" bottom: "prelu" top: "sum"
  eltwise_param { operation: SUM coeff: 1 coeff: -0.5 } }
layer { name: "deconv" type: "Deconvolution" bottom: "pool" top: "deconv"
  convolution_param { num_output: 12 group: 3 kernel_size: 3 stride: 2 bias_term: false } }
layer { name: "power" type: "Power" bottom: "ave" top: "power" power_param { scale: 0.5 shift: 1.5 } }
layer { name: "elu" type: "ELU" bottom: "bn" top: "elu" elu_param { alpha: 0.8 } }
layer { name: "mvn" type: "MVN" bottom: "sum" top: "mvn" mvn_param { eps: 0.02 } }
layer { name: "normalize" type: "Normalize" bottom: "sum" top: "normalize" norm_param { across_spatial: false channel_shared: false } }
layer { name: "slice" type: "Slice" bottom: "prelu" top: "first" top: "second" slice_param { slice_point: 5 } }
layer { name: "concat" type: "Concat" bottom: "second" bottom: "first" top: "concat" }
layer { name: "reduction" type: "Reduction" bottom: "lrn" top: "reduction" reduction_param { operation: MEAN axis: 2 } }
layer { name: "interp" type: "Interp" bottom: "pool" top: "interp" interp_param { height: 9 width: 11 } }
layer { name: "permute" type: "Permute" bottom: "pool" top: "permute" permute_param { order: 0 order: 3 order: 1 order: 2 } }
layer { name: "crop" type: "Crop" bottom: "lrn" bottom: "pool" top: "crop" crop_param { axis: 2 offset: 1 offset: 3 } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip" inner_product_param { num_output: 7 } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""


def caffe(folder: Path) -> dict[str, str]:
    """Layers of Caffe with their defaults, and settings in height and width that differ."""
    random = np.random.default_rng(0)

    def draw(*shape: int) -> NDArray[np.float64]:
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 4
        return random.normal(0, 1 / np.sqrt(fan_in), shape)

    (folder / "net.prototxt").write_text(CAFFE)
    statistics = [draw(12) * 2, np.geomspace(0.002, 2, 12), np.array([2.0])]
    layers = [
        ("conv", "Convolution", [draw(12, 8, 3, 5), draw(12)]),
        ("bn", "BatchNorm", statistics),
        ("scale", "Scale", [random.uniform(0.5, 2, 12), draw(12)]),
        ("prelu", "PReLU", [random.uniform(0.1, 0.9, 12)]),
        ("deconv", "Deconvolution", [draw(12, 4, 3, 3)]),
        ("normalize", "Normalize", [random.uniform(1, 3, 12)]),
        ("ip", "InnerProduct", [draw(7, 12 * 3 * 6), draw(7)]),
    ]
    caffemodel.write(folder / "net.caffemodel", layers)
    return {"definition": "net.prototxt", "data": "net.caffemodel"}


def keras(folder: Path) -> dict[str, str]:
    """Layers of Keras with their defaults."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(0)
    x = keras.Input((13, 12, 6), name="x")
    conv = layers.Conv2D(12, 3, strides=2, padding="same", name="conv")(x)
    norm = layers.BatchNormalization(name="norm")(conv)
    outputs = [
        norm,
        layers.LeakyReLU(name="leaky")(conv),
        layers.ELU(name="elu")(conv),
        layers.PReLU(shared_axes=[1, 2], alpha_initializer="glorot_uniform", name="prelu")(conv),
        layers.Activation("hard_sigmoid", name="hard")(conv),
        layers.Activation("silu", name="silu")(conv),
        layers.Activation("gelu", name="gelu")(conv),
        layers.Activation("relu6", name="relu6")(conv),
        layers.DepthwiseConv2D(3, padding="same", strides=2, name="depthwise")(norm),
        layers.SeparableConv2D(10, 3, padding="same", name="separable")(norm),
        layers.Conv2DTranspose(8, 3, strides=2, padding="same", name="deconv")(norm),
        layers.LayerNormalization(name="layer")(norm),
        layers.GroupNormalization(groups=3, name="group")(norm),
        layers.UnitNormalization(name="unit")(norm),
        layers.Average(name="average")([conv, norm]),
        layers.Subtract(name="subtract")([conv, norm]),
        layers.Concatenate(axis=2, name="concat")([conv, norm]),
        layers.UpSampling2D(2, interpolation="bilinear", name="bilinear")(norm),
        layers.UpSampling2D((3, 2), name="nearest")(norm),
        layers.ZeroPadding2D(((1, 0), (2, 1)), name="padding")(norm),
        layers.Cropping2D(((1, 0), (2, 1)), name="cropping")(norm),
        layers.MaxPooling2D(3, 2, padding="same", name="largest")(norm),
        layers.AveragePooling2D(3, 2, padding="same", name="averages")(norm),
        layers.Reshape((6, 7, 12), name="reshape")(norm),
        layers.Permute((3, 1, 2), name="permute")(norm),
        layers.Rescaling(0.5, offset=-1.0, name="rescaling")(norm),
    ]
    flat = layers.Flatten(name="flat")(outputs[-5])
    outputs.append(layers.Dense(9, activation="softmax", name="dense")(flat))
    outputs.append(layers.GlobalAveragePooling2D(name="mean")(norm))
    model = keras.Model(x, outputs)
    random = np.random.default_rng(0)
    for layer in model.layers:
        values = [value + 0.2 * np.abs(random.normal(size=value.shape)) for value in layer.get_weights()]
        layer.set_weights(values)
    model.save(folder / "net.keras")
    return {"definition": "net.keras"}


Definition = Callable[[Path], dict[str, str]]
_PIXELS: Final = ("mean = 110, 120, 130", "scale = 1/60")
NETWORKS: Final[Mapping[str, tuple[Definition, Mapping[str, Sequence[str]]]]] = {
    "windows": (windows, {}),
    "palettes": (windows, {"OUTPUT": ("quantization = 1",)}),
    "fused": (windows, {"OPTIONAL": ("fusion = full",)}),
    "turned": (windows, {"OUTPUT": ("quantization = 0", "transpose_weight = 0")}),
    "bytes": (
        classifier,
        {"INPUT": _PIXELS, "OUTPUT": ("quantization = 0", "input = u8_bgr"), "OPTIONAL": ("fusion = full",)},
    ),
    "functions": (functions, {}),
    "moves": (moves, {}),
    "quantized": (quantized, {}),
    "pairs": (pairs, {}),
    "caffe": (caffe, {}),
    "keras": (keras, {}),
}
