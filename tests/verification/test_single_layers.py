"""Every layer, in every form that converts, gives on the emulated device what Keras and OpenCV give.

Compiling takes longer than running, so each network holds many layers side by side on one input.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from cnn_convertor.pipeline import load
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification.keras_models import import_keras
from examples import caffemodel
from verification.trials import config

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]

CHANNELS = [1, 3, 8, 9, 20, 64, 65]
FEW_CHANNELS = [1, 9, 64]
AT_LEAST_DB = 50.0
KERNELS = [
    (1, 1),
    (2, 2),
    (3, 3),
    (4, 4),
    (5, 5),
    (6, 6),
    (7, 7),
    (1, 3),
    (3, 1),
    (2, 5),
    (5, 2),
    (7, 1),
    (1, 7),
    (7, 4),
    (3, 6),
]


# --- Keras ---------------------------------------------------------------------------------------------------------------

KerasLayer: TypeAlias = Any
ACTIVATIONS = ("relu", "relu6", "sigmoid", "tanh", "elu", "leaky_relu", "linear", "softmax")


def keras_layers(channels: int) -> Iterator[KerasLayer]:
    """The layers that are tried on a map of 12 x 11 of so many channels."""
    from keras import layers as k

    some = 12
    for kernel in KERNELS:
        yield k.Conv2D(some, kernel, padding="same")
    for kernel, stride in itertools.product([(3, 3), (4, 2), (5, 7)], [(2, 2), (1, 3), (3, 1)]):
        yield k.Conv2D(9, kernel, strides=stride, padding="valid", use_bias=False)
        yield k.Conv2D(8, kernel, strides=stride, padding="same")
    yield k.Conv2D(some, 3, padding="same", dilation_rate=2)
    yield k.Conv2D(some, 3, padding="same", dilation_rate=(1, 3))
    yield k.Conv2D(some, (5, 3), padding="same", dilation_rate=2)
    yield k.Conv2D(some, 3, dilation_rate=(3, 2))  # "valid": with the zeros filled in
    for side, step in [(3, 1), (2, 2), (5, 2), (7, 1)]:
        yield k.DepthwiseConv2D(side, strides=step, padding="same")
    yield k.DepthwiseConv2D(3, depth_multiplier=2)
    yield k.SeparableConv2D(some, 3, padding="same")
    if channels % 4 == 0:
        yield k.Conv2D(16, 3, groups=4, padding="same")
    for kernel, stride, padding in [
        ((2, 2), (2, 2), "valid"),
        ((3, 3), (2, 2), "same"),
        ((4, 3), (2, 1), "same"),
        ((3, 3), (1, 1), "same"),
        ((5, 5), (3, 3), "valid"),
    ]:
        yield k.Conv2DTranspose(10, kernel, strides=stride, padding=padding)
    for size, stride in [
        ((2, 2), (2, 2)),
        ((3, 3), (2, 2)),
        ((3, 3), (1, 1)),
        ((3, 2), (1, 2)),
        ((2, 3), (3, 2)),
        ((5, 5), (1, 1)),
    ]:
        yield k.MaxPooling2D(size, strides=stride)
        yield k.MaxPooling2D(size, strides=stride, padding="same")
    for size, stride in [((2, 2), (2, 2)), ((3, 3), (1, 2)), ((7, 7), (1, 1)), ((5, 2), (5, 2))]:
        yield k.AveragePooling2D(size, strides=stride)
    yield k.GlobalAveragePooling2D()
    yield k.GlobalMaxPooling2D()
    yield k.UpSampling2D(2)
    yield k.UpSampling2D((3, 2))
    yield k.BatchNormalization(beta_initializer="random_normal", gamma_initializer="random_normal")
    yield k.PReLU(shared_axes=[1, 2], alpha_initializer="random_normal")
    yield k.LeakyReLU(negative_slope=0.3)
    for name in ACTIVATIONS:
        yield k.Conv2D(some, 1, activation=name)
        yield k.Activation(name)
    yield k.ZeroPadding2D(((1, 2), (0, 3)))
    yield k.Dense(11)


def keras_model(channels: int) -> Any:
    """All of keras_layers side by side, then short chains of what the convertor fuses."""
    keras = import_keras()
    from keras import layers as k

    keras.utils.set_random_seed(channels)
    x = keras.Input((12, 11, channels))
    outputs = [layer(x) for layer in keras_layers(channels)]
    padded = k.ZeroPadding2D(((2, 1), (0, 3)))(x)
    outputs.append(k.Conv2D(8, (4, 3))(padded))  # padding of its own on each side
    outputs.append(k.MaxPooling2D(3, strides=2)(k.ReLU()(k.Conv2D(20, 3, padding="same")(x))))
    falling = k.PReLU(
        shared_axes=[1, 2], alpha_initializer="random_normal"
    )  # slopes below zero: must not follow the pool
    outputs.append(k.MaxPooling2D(2)(falling(k.Conv2D(20, 3)(x))))
    outputs.append(k.Dense(10)(k.Flatten()(x)))
    outputs.append(k.Dense(9, activation="relu")(k.Flatten()(k.Conv2D(20, 3)(x))))
    left, right = k.Conv2D(16, 3, padding="same")(x), k.Conv2D(16, 1)(x)
    outputs.append(k.ReLU()(k.Add()([left, right])))
    outputs.append(k.Conv2D(5, 1)(k.Concatenate()([left, right, k.Conv2D(7, 1)(x)])))
    outputs.append(k.Conv2D(6, 3)(k.Reshape((4, 3, 8))(k.Dense(96)(k.Flatten()(x)))))
    return keras.Model(x, outputs)


@pytest.mark.rotating
@pytest.mark.usefixtures("keras_reads_once")
@pytest.mark.parametrize("channels", CHANNELS)
def test_keras_layers(channels: int, tmp_path: Path) -> None:
    model = keras_model(channels)
    path = tmp_path / "model.keras"
    model.save(path)
    graph = load(config(path))
    for transposed in (True, False):
        result = verify(config(path, transpose_weight=transposed), graph=graph, samples=2)
        assert len(result.outputs) >= len(model.outputs)
        bad = [(o.name, o.sqnr) for o in result.outputs if o.sqnr < AT_LEAST_DB or o.cosine < 0.9999]
        assert not bad, transposed


# --- Caffe ---------------------------------------------------------------------------------------------------------------

Blobs: TypeAlias = list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]


class Net:
    """A definition and its weights in the making: layers that all read the same blob."""

    def __init__(self, channels: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.channels = channels
        self.text = f'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: 1 dim: {channels} dim: 12 dim: 11 }} }} }}\n'
        self.weights: list[tuple[str, str, Blobs]] = [("data", "Input", [])]

    def blob(self, *shape: int, fan_in: int = 1) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return np.float32(1 / math.sqrt(fan_in)) * self._random.standard_normal(shape, np.float32)

    def add(
        self, type: str, settings: str = "", *blobs: Any, bottoms: tuple[str, ...] = ("data",), top: str = ""
    ) -> str:
        name = f"{type.lower()}{self.text.count('layer {')}"
        reads = " ".join(f'bottom: "{bottom}"' for bottom in bottoms)
        self.text += f'layer {{ name: "{name}" type: "{type}" {reads} top: "{top or name}" {settings} }}\n'
        if blobs:
            self.weights.append((name, type, list(blobs)))
        return name

    def convolution(
        self, out: int, kernel: tuple[int, int], settings: str = "", *, group: int = 1, type: str = "Convolution"
    ) -> str:
        height, width = kernel
        per_group = self.channels // group if type == "Convolution" else out // group
        rows = out if type == "Convolution" else self.channels
        weight = self.blob(rows, per_group, height, width, fan_in=self.channels // group * height * width)
        sizes = f"num_output: {out} kernel_h: {height} kernel_w: {width} group: {group} {settings}"
        return self.add(type, f"convolution_param {{ {sizes} }}", weight, self.blob(out))


def caffe_convolutions(net: Net) -> None:
    for kernel in KERNELS:
        net.convolution(12, kernel, f"pad_h: {kernel[0] // 2} pad_w: {kernel[1] // 2}")
    for kernel, stride in itertools.product([(3, 3), (4, 2), (5, 7)], [(2, 2), (1, 3), (3, 1)]):
        net.convolution(9, kernel, f"stride_h: {stride[0]} stride_w: {stride[1]} pad_h: 1 pad_w: 2")
    net.convolution(12, (3, 3), "pad: 2 dilation: 2")
    net.convolution(12, (3, 3), "dilation: 3")
    if net.channels > 1:
        net.convolution(net.channels, (3, 3), "pad: 1", group=net.channels)
        net.convolution(2 * net.channels, (3, 3), "pad: 1 stride: 2", group=net.channels)
    if net.channels % 4 == 0:
        net.convolution(16, (3, 3), group=4)
    for kernel, settings in [
        ((2, 2), "stride: 2"),
        ((4, 4), "stride: 2 pad: 1"),
        ((3, 3), "pad: 1"),
        ((5, 3), "stride: 3 pad: 1"),
    ]:
        net.convolution(10, kernel, settings, type="Deconvolution")
    if net.channels > 1:
        net.convolution(net.channels, (4, 4), "stride: 2 pad: 1", type="Deconvolution", group=net.channels)


def caffe_pools(net: Net) -> None:
    for settings in (
        "kernel_size: 2 stride: 2",
        "kernel_size: 3 stride: 2",
        "kernel_size: 3 pad: 1",
        "kernel_h: 3 kernel_w: 2 stride: 2",
    ):
        net.add("Pooling", f"pooling_param {{ pool: MAX {settings} }}")
    for settings in (
        "kernel_h: 2 kernel_w: 1 stride_h: 2 stride_w: 1",
        "kernel_size: 3 pad: 1",
        "kernel_h: 4 kernel_w: 5",
    ):
        net.add("Pooling", f"pooling_param {{ pool: AVE {settings} }}")
    net.add("Pooling", "pooling_param { pool: AVE global_pooling: true }")
    net.add("Pooling", "pooling_param { pool: MAX global_pooling: true }")


def caffe_others(net: Net) -> None:
    channels = net.channels
    for type, settings in {
        "ReLU": "", "ReLU6": "", "ELU": "", "Sigmoid": "", "TanH": "", "Softmax": "", "Dropout": "",
        "Power": "power_param { scale: 0.5 shift: 0.25 }",
    }.items():  # fmt: skip
        net.add(type, settings)
    net.add("ReLU", "relu_param { negative_slope: 0.2 }")
    net.add("PReLU", "", net.blob(channels))
    net.add("PReLU", "prelu_param { channel_shared: true }", net.blob(1))
    net.add("Scale", "scale_param { bias_term: true }", net.blob(channels), net.blob(channels))
    variance = np.abs(net.blob(channels)) + np.float32(0.5)
    net.add("BatchNorm", "", net.blob(channels) * 2, variance * 2, np.array([2], np.float32))
    net.add(
        "InnerProduct",
        "inner_product_param { num_output: 13 }",
        net.blob(13, channels * 132, fan_in=channels * 132),
        net.blob(13),
    )
    one = net.convolution(16, (1, 1))
    other = net.convolution(16, (3, 3), "pad: 1")
    net.add("ReLU", bottoms=(other,), top=other)  # in place
    net.add("Eltwise", "eltwise_param { coeff: 0.5 coeff: -1 }", bottoms=(one, other))
    net.add("Concat", bottoms=(one, other))


def caffe_large(net: Net) -> None:
    """Windows beyond what a command can do."""
    net.convolution(8, (9, 9), "pad: 4")
    net.convolution(8, (9, 9))
    net.convolution(8, (8, 2), "dilation: 2 pad_h: 9 pad_w: 0")
    net.convolution(8, (11, 11), "stride: 4 pad: 2")
    net.convolution(8, (17, 1), "stride: 2 pad_h: 8 pad_w: 0")
    net.convolution(8, (3, 3), "pad: 5 dilation: 5")
    net.convolution(8, (2, 2), "pad: 3 dilation: 7 stride: 2")
    net.convolution(6, (8, 9), "stride_h: 4 stride_w: 5 pad_h: 2 pad_w: 1", type="Deconvolution")
    net.convolution(6, (8, 9), "pad: 1", type="Deconvolution")
    if net.channels > 1:
        net.convolution(net.channels, (16, 16), "stride: 8 pad: 4", type="Deconvolution", group=net.channels)
    for settings in (
        "kernel_size: 5 pad: 2",
        "kernel_size: 9 pad: 4",
        "kernel_size: 7 stride: 3 pad: 3",
        "kernel_size: 8 stride: 2",
    ):
        net.add("Pooling", f"pooling_param {{ pool: MAX {settings} }}")
    for settings in (
        "kernel_size: 9",
        "kernel_size: 8 stride: 3 pad: 2",
        "kernel_size: 3 stride: 2",
        "kernel_size: 3 stride: 2 pad: 1",
    ):
        net.add("Pooling", f"pooling_param {{ pool: AVE {settings} }}")


def caffe_on_the_cpu(net: Net) -> None:
    channels, two = net.channels, ("data", "data")
    settings = [
        *(f"LRN lrn_param {{ local_size: {size} alpha: 2 norm_region: {region} }}"
          for size in (1, 3, 5, 9) for region in ("ACROSS_CHANNELS", "WITHIN_CHANNEL")),
        *(f"Softmax softmax_param {{ axis: {axis} }}" for axis in (2, 3)),
        *(f"Permute permute_param {{ order: [0, {order}] }}" for order in ("1, 3, 2", "2, 1, 3", "2, 3, 1", "3, 1, 2", "3, 2, 1")),
        *(f"Flatten flatten_param {{ {axes} }}" for axes in ("axis: 1", "axis: 2", "axis: 1 end_axis: 2")),
        *(f"Interp interp_param {{ {size} }}" for size in ("height: 1 width: 1", "height: 25 width: 7", "zoom_factor: 2")),
        *(f"MVN mvn_param {{ across_channels: {a} normalize_variance: {v} }}" for a in ("true", "false") for v in ("true", "false")),
        "Reshape reshape_param { shape { dim: [0, 11, -1, 4] } }", "Power power_param { power: 2 }",
        "Power power_param { power: 0.5 shift: 2 }", "Power power_param { power: -3 scale: 0.25 shift: 1 }",
        "Exp exp_param { base: 2 scale: 0.5 shift: 1 }", "Exp", "AbsVal", "BNLL", "Swish",
        "ELU elu_param { alpha: 0.3 }",
    ]  # fmt: skip
    for line in settings:
        type, _, rest = line.partition(" ")
        net.add(type, rest)
    net.add("Normalize", "norm_param { across_spatial: false channel_shared: false }", net.blob(channels))
    net.add("Normalize", "", net.blob(1))
    other = net.add("Power", "power_param { scale: -2 shift: 0.25 }")
    for operation in ("PROD", "MAX"):
        net.add("Eltwise", f"eltwise_param {{ operation: {operation} }}", bottoms=("data", other, "data"))
    for axis in (1, 2, 3):
        net.add("Concat", f"concat_param {{ axis: {axis} }}", bottoms=("data", other, "data"))
    small = net.add("Pooling", "pooling_param { kernel_size: 4 stride: 1 }")
    net.add("Crop", "crop_param { axis: 2 offset: [1, 3] }", bottoms=("data", small))
    net.add("Scale", "scale_param { axis: 0 }", bottoms=two)


FILLS = {
    caffe_convolutions: CHANNELS,
    caffe_pools: CHANNELS,
    caffe_others: CHANNELS,
    caffe_large: FEW_CHANNELS,
    caffe_on_the_cpu: FEW_CHANNELS,
}


@pytest.mark.rotating
@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])
@pytest.mark.parametrize(
    ("fill", "channels"), [(fill, channels) for fill, counts in FILLS.items() for channels in counts],
    ids=lambda of: of if isinstance(of, int) else of.__name__.removeprefix("caffe_"),
)  # fmt: skip
def test_caffe_layers(fill: Callable[[Net], None], channels: int, transposed: bool, tmp_path: Path) -> None:
    net = Net(channels, seed=channels)
    fill(net)
    definition, data = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    definition.write_text(net.text)
    caffemodel.write(data, net.weights)
    result = verify(config(definition, data, transpose_weight=transposed), samples=2)
    bad = [(o.name, o.sqnr) for o in result.outputs if o.sqnr < AT_LEAST_DB or o.cosine < 0.9999]
    assert not bad
