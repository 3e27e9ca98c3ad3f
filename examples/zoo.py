"""Builds well-known architectures with seeded random weights, as Caffe, Keras or ONNX files, for tests and benchmarks.

`python examples/zoo.py NAME ... --output DIR` makes DIR/NAME/ with the model's files and a net.ini; `--list` prints the
names.

The weights are random, but the numbers that flow are like a trained network's: mean and variance of every map are
estimated from those of the maps before it, and each layer's weights are drawn such that its outputs have a variance of
about 1, whatever the depth. Inputs should lie in -1..1 or 0..1. The same name, size and seed give the same bytes.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import click
import numpy as np
from numpy.typing import NDArray

from examples import caffemodel

Array: TypeAlias = NDArray[np.float32]

# --- numbers ----------------------------------------------------------------------------------------------------------

BIAS: Final = 0.05  # standard deviation of biases, and of batch norm's shifts and means
GAMMA: Final = (0.5, 1.5)
VARIANCE_SPREAD: Final = (0.8, 1.25)  # of the variances that a batch norm holds, around the estimate
CENTERING: Final = 0.5  # share of a kernel's mean that is taken out
SLOPES: Final = (0.05, 0.35)  # of a PReLU
CONFIDENT: Final = 3.0  # how much larger a detector's scores are, so that some classes stand out
DAMPING: Final = 0.5  # of gamma in front of a residual sum, so that long chains of sums do not grow
LAYER_SCALE: Final = 0.3  # what ConvNeXt multiplies its residuals by, about
CAFFE_STATISTICS_FACTOR: Final = 999.0  # Caffe stores sums over its training, to be divided by this


class Moments(NamedTuple):
    """Of all elements of a map, as estimated."""

    mean: float
    variance: float

    @property
    def mean_square(self) -> float:
        return self.mean**2 + self.variance

    def after_relu(self, slope: float = 0.0) -> Moments:
        """Of a normal distribution, cut at zero, or flatter there."""
        deviation = math.sqrt(self.variance)
        below = self.mean / deviation
        share = (1 + math.erf(below / math.sqrt(2))) / 2
        density = math.exp(-(below**2) / 2) / math.sqrt(2 * math.pi)
        mean = self.mean * share + deviation * density
        mean_square = self.mean_square * share + self.mean * deviation * density
        if slope:
            mean_square += slope**2 * (self.mean_square - mean_square)
            mean = (1 - slope) * mean + slope * self.mean
        return Moments(mean, mean_square - mean**2)

    def divided(self, by: float) -> Moments:
        """Of weights that are drawn for it, outputs are `by` times as large."""
        return Moments(self.mean / by, self.variance / by**2)

    def after_max_pool(self) -> Moments:
        """Of the largest among a few neighbors that resemble each other."""
        return Moments(self.mean + math.sqrt(self.variance), self.variance)

    def after_average_pool(self) -> Moments:
        return Moments(self.mean, self.variance / 2)

    def among_zeros(self, share: float) -> Moments:
        """Of a map that has zeros beside a share of such elements."""
        return Moments(share * self.mean, share * self.mean_square - (share * self.mean) ** 2)


INPUT: Final = Moments(0.0, 1 / 3)  # uniform in -1..1; of a mean square, 0..1 has as much
PIXELS: Final = Moments(127.5, 127.5**2 / 3)  # for networks that prepare pixels of 0..255 themselves
NORMALIZED: Final = Moments(0.0, 1.0)


def behind_batch_norm(damping: float) -> Moments:
    return Moments(0.0, damping**2 * (1 + (GAMMA[1] - GAMMA[0]) ** 2 / 12))


def of_sum(parts: Sequence[Moments]) -> Moments:
    return Moments(sum(x.mean for x in parts), sum(x.variance for x in parts))


def of_concatenation(parts: Sequence[Moments], channels: Sequence[int]) -> Moments:
    mean = float(np.average([x.mean for x in parts], weights=channels))
    return Moments(mean, float(np.average([x.mean_square for x in parts], weights=channels)) - mean**2)


def generator(seed: int, name: str) -> np.random.Generator:
    """A generator for one tensor, so that no tensor depends on another."""
    return np.random.default_rng([seed, *name.encode()])


def normal(seed: int, name: str, shape: Sequence[int], deviation: float) -> Array:
    """Values of a normal distribution around 0, in one array and nothing beside it."""
    values = np.empty(shape, np.float32)
    generator(seed, name).standard_normal(dtype=np.float32, out=values)
    values *= np.float32(deviation)
    return values


def uniform(seed: int, name: str, shape: Sequence[int], limits: tuple[float, float]) -> Array:
    return generator(seed, name).uniform(*limits, size=shape).astype(np.float32)


def kernel(
    seed: int, name: str, shape: Sequence[int], inputs: tuple[int, ...], given: Moments, centering: float = CENTERING
) -> Array:
    """Kernels that give outputs of variance 1. inputs: the axes that one output is summed over.

    Behind a ReLU, most of what the elements of a kernel have in common is taken out (centering): else what all inputs have in
    common, their mean above all, would grow from layer to layer until every image gives the same output. Not all of it: the
    rounding of a large mean would be left over, with nothing of the mean.
    """
    fan_in = math.prod(shape[axis] for axis in inputs)
    kept = 1 - centering if given.mean > 0 else 1.0
    values = normal(seed, name, shape, 1 / math.sqrt(fan_in * (given.variance + (kept * given.mean) ** 2)))
    if kept < 1:
        values -= centering * values.mean(axis=inputs, keepdims=True)
    return values


class BatchNorm(NamedTuple):
    """Each (channels,)."""

    gamma: Array
    beta: Array
    moving_mean: Array
    moving_variance: Array


def batch_norm(seed: int, name: str, channels: int, given: Moments, damping: float) -> BatchNorm:
    return BatchNorm(
        uniform(seed, f"{name}/gamma", [channels], GAMMA) * np.float32(damping),
        normal(seed, f"{name}/beta", [channels], BIAS * damping),
        normal(seed, f"{name}/mean", [channels], BIAS * math.sqrt(given.variance)),
        uniform(seed, f"{name}/variance", [channels], VARIANCE_SPREAD) * np.float32(given.variance),
    )


# --- Caffe ------------------------------------------------------------------------------------------------------------

Message: TypeAlias = Mapping[str, str | int | float | bool | Sequence[float]]
Header: TypeAlias = Literal["layer", "input_shape", "input_dim"]


def text_of(message: Message) -> str:
    """A message in protobuf's text form, on one line; strings are names of enumeration values, or messages."""

    def field(name: str, of: object) -> str:
        match of:
            case bool():
                return f"{name}: {str(of).lower()}"
            case tuple():
                return " ".join(f"{name}: {one}" for one in of)
            case str() if of.startswith("{"):
                return f"{name} {of}"
            case _:
                return f"{name}: {of}"

    return f"{{ {' '.join(field(name, of) for name, of in message.items())} }}"


def both(side: int | tuple[int, int]) -> tuple[int, int]:
    """Height and width of what may be square."""
    return (side, side) if isinstance(side, int) else side


def sides(short: str, name: str, side: int | tuple[int, int]) -> dict[str, int]:
    """A square's side by one name, or height and width by two."""
    return {name: side} if isinstance(side, int) else {f"{short}_h": side[0], f"{short}_w": side[1]}


@dataclass(frozen=True, slots=True)
class Map:
    """A feature map of a Caffe network."""

    name: str
    channels: int
    height: int
    width: int
    moments: Moments


class CaffeNet:
    """A Caffe network in the making: each method appends a layer and returns its output."""

    def __init__(self, name: str, seed: int, centering: float = CENTERING) -> None:
        self._seed = seed
        self._centering = centering
        self._text = [f'name: "{name}"']
        self._weights: list[tuple[str, str, Callable[[], Iterator[Array]]]] = []

    @property
    def seed(self) -> int:
        return self._seed

    def input(self, size: int, channels: int = 3, *, header: Header = "layer") -> Map:
        """header: whether a layer declares the input, or one of two forms of lines at the top."""
        dims = (1, channels, size, size)
        shape = " ".join(f"dim: {n}" for n in dims)
        match header:
            case "layer":
                lines = ["layer {", '  name: "data"', '  type: "Input"', '  top: "data"']
                lines += [f"  input_param {{ shape {{ {shape} }} }}", "}"]
            case "input_shape":
                lines = ['input: "data"', f"input_shape {{ {shape} }}"]
            case "input_dim":
                lines = ['input: "data"', *(f"input_dim: {n}" for n in dims)]
        self._text += lines
        return Map("data", channels, size, size, INPUT)

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
        param: dict[str, int | bool] = {"num_output": channels, **sides("kernel", "kernel_size", kernel)}
        param |= sides("pad", "pad", pad) if pad else {}
        param |= {"stride": stride} if stride != 1 else {}
        param |= {"group": group} if group != 1 else {}
        param |= {"dilation": dilation} if dilation != 1 else {}
        param |= {} if bias else {"bias_term": False}
        self._append("Convolution", name, [x], name, convolution_param=param)
        self._add_kernel("Convolution", name, (channels, x.channels // group, *both(kernel)), x.moments, bias)
        height, width = (
            (n + 2 * p - ((k - 1) * dilation + 1)) // stride + 1
            for n, k, p in zip((x.height, x.width), both(kernel), both(pad), strict=True)
        )
        return Map(name, channels, height, width, NORMALIZED)

    def bilinear(self, x: Map, name: str, factor: int) -> Map:
        """A larger map: a Deconvolution of a channel each, with the weights of Caffe's bilinear filler."""
        side = 2 * factor - factor % 2
        param: dict[str, int | bool | str] = {"num_output": x.channels, "group": x.channels, "kernel_size": side}
        param |= {"stride": factor, "bias_term": False}
        self._append("Deconvolution", name, [x], name, convolution_param=param)
        slope = 1 - np.abs(np.arange(side) / factor - (side - 1) / (2 * factor))
        weight = np.tile(np.outer(slope, slope).astype(np.float32), (x.channels, 1, 1, 1))
        self._weights.append((name, "Deconvolution", lambda: iter((weight,))))
        height, width = ((n - 1) * factor + side for n in (x.height, x.width))
        return replace(x, name=name, height=height, width=width)

    def deconv(self, x: Map, name: str, channels: int, kernel: int, *, stride: int, pad: int = 0) -> Map:
        param: dict[str, int | bool] = {"num_output": channels, "kernel_size": kernel, "stride": stride}
        param |= {"pad": pad} if pad else {}
        self._append("Deconvolution", name, [x], name, convolution_param=param)
        # each output is the sum of a part of the kernel
        shape = (x.channels, channels, kernel, kernel)
        self._add_kernel("Deconvolution", name, shape, x.moments.divided(stride), True, outputs=1)
        height, width = ((n - 1) * stride + kernel - 2 * pad for n in (x.height, x.width))
        return Map(name, channels, height, width, NORMALIZED)

    def crop(self, x: Map, like: Map, name: str, offset: int) -> Map:
        self._append("Crop", name, [x, like], name, crop_param={"axis": 2, "offset": offset})
        return replace(x, name=name, height=like.height, width=like.width)

    def upsample(self, x: Map, name: str, scale: int) -> Map:
        self._append("Upsample", name, [x], name, upsample_param={"scale": scale})
        return replace(x, name=name, height=scale * x.height, width=scale * x.width)

    def dense(self, x: Map, name: str, channels: int) -> Map:
        self._append("InnerProduct", name, [x], name, inner_product_param={"num_output": channels})
        self._add_kernel("InnerProduct", name, (channels, x.channels * x.height * x.width), x.moments, True)
        return Map(name, channels, 1, 1, NORMALIZED)

    def batch_norm(self, x: Map, norm: str, scale: str, *, damping: float = 1.0) -> Map:
        """BatchNorm and Scale, both in place."""
        gamma, beta, mean, variance = batch_norm(self._seed, norm, x.channels, x.moments, damping)
        factor = np.float32(CAFFE_STATISTICS_FACTOR)
        statistics = (mean * factor, variance * factor, np.array([factor]))
        self._append("BatchNorm", norm, [x], x.name, batch_norm_param={"use_global_stats": True})
        self._weights.append((norm, "BatchNorm", lambda: iter(statistics)))
        self._append("Scale", scale, [x], x.name, scale_param={"bias_term": True})
        self._weights.append((scale, "Scale", lambda: iter((gamma, beta))))
        return replace(x, moments=behind_batch_norm(damping))

    def relu(self, x: Map, name: str, *, slope: float = 0.0) -> Map:
        """In place."""
        parameters: dict[str, Message] = {"relu_param": {"negative_slope": slope}} if slope else {}
        self._append("ReLU", name, [x], x.name, **parameters)
        return replace(x, moments=x.moments.after_relu(slope))

    def prelu(self, x: Map, name: str) -> Map:
        """In place."""
        self._append("PReLU", name, [x], x.name)
        slopes = uniform(self._seed, f"{name}/slopes", [x.channels], SLOPES)
        self._weights.append((name, "PReLU", lambda: iter((slopes,))))
        return replace(x, moments=x.moments.after_relu(sum(SLOPES) / 2))

    def unpool(self, x: Map, pool: str, like: Map, name: str) -> Map:
        """The map as large as the one that was pooled, each value at the place of its maximum. pool: one with a mask."""
        param = {"scale": 2, "upsample_h": like.height, "upsample_w": like.width}
        self._append("Upsample", name, [x, replace(x, name=f"{pool}_mask")], name, upsample_param=param)
        share = x.height * x.width / (like.height * like.width)
        return Map(name, x.channels, like.height, like.width, x.moments.among_zeros(share))

    def max_pool(self, x: Map, name: str, kernel: int, stride: int, *, pad: int = 0, mask: bool = False) -> Map:
        """Rounds up, as Caffe does: the last windows may reach beyond the map. mask: for an unpooling."""
        param: dict[str, str | int] = {"pool": "MAX", "kernel_size": kernel, "stride": stride}
        param |= {"pad": pad} if pad else {}
        self._append("Pooling", name, [x], name, *[f"{name}_mask"] * mask, pooling_param=param)

        def size(n: int) -> int:
            count = -(-(n + 2 * pad - kernel) // stride) + 1
            return count - (pad > 0 and (count - 1) * stride >= n + pad)

        return Map(name, x.channels, size(x.height), size(x.width), x.moments.after_max_pool())

    def whole_average(self, x: Map, name: str, *, by_size: bool = False) -> Map:
        """The average of the whole map. by_size: with the size given, not as global_pooling."""
        param: dict[str, str | int | bool] = {"pool": "AVE"}
        param |= {"kernel_size": x.height, "stride": 1} if by_size else {"global_pooling": True}
        self._append("Pooling", name, [x], name, pooling_param=param)
        return Map(name, x.channels, 1, 1, x.moments.after_average_pool())

    def lrn(self, x: Map, name: str) -> Map:
        self._append("LRN", name, [x], name, lrn_param={"local_size": 5, "alpha": 0.0001, "beta": 0.75})
        return replace(x, name=name)

    def add(self, x: Map, y: Map, name: str) -> Map:
        self._append("Eltwise", name, [x, y], name, eltwise_param={"operation": "SUM"})
        return replace(x, name=name, moments=of_sum([x.moments, y.moments]))

    def concat(self, maps: Sequence[Map], name: str) -> Map:
        self._append("Concat", name, maps, name)
        channels = [x.channels for x in maps]
        moments = of_concatenation([x.moments for x in maps], channels)
        return replace(maps[0], name=name, channels=sum(channels), moments=moments)

    def softmax_of_rows(self, x: Map, name: str, classes: int) -> Map:
        """A vector as rows of classes, a softmax of each, and a vector again."""
        shape = text_of({"dim": (0, -1, classes)})
        self._append("Reshape", f"{name}_reshape", [x], f"{name}_reshape", reshape_param={"shape": shape})
        rows = replace(x, name=f"{name}_reshape")
        self._append("Softmax", f"{name}_softmax", [rows], f"{name}_softmax", softmax_param={"axis": 2})
        self._append("Flatten", f"{name}_flatten", [replace(x, name=f"{name}_softmax")], f"{name}_flatten")
        return replace(x, name=f"{name}_flatten")

    def pixels(self, x: Map, name: str) -> Map:
        """A map as a vector, pixel by pixel."""
        self._append("Permute", f"{name}_perm", [x], f"{name}_perm", permute_param={"order": (0, 2, 3, 1)})
        self._append("Flatten", f"{name}_flat", [replace(x, name=f"{name}_perm")], f"{name}_flat")
        return Map(f"{name}_flat", x.channels * x.height * x.width, 1, 1, x.moments)

    def prior_box(self, x: Map, image: Map, name: str, sizes: Message) -> Map:
        param = {**sizes, "flip": True, "clip": False, "variance": (0.1, 0.1, 0.2, 0.2), "offset": 0.5}
        self._append("PriorBox", name, [x, image], name, prior_box_param=param)
        return replace(x, name=name)

    def detect(self, locations: Map, confidences: Map, priors: Sequence[Map], classes: int) -> None:
        """SSD's end: boxes from locations and prior boxes, of which the surest stay."""
        self._append("Concat", "mbox_priorbox", priors, "mbox_priorbox", concat_param={"axis": 2})
        suppression = text_of({"nms_threshold": 0.45, "top_k": 100})
        param: dict[str, int | float | str | bool] = {"num_classes": classes, "share_location": True}
        param |= {"background_label_id": 0, "nms_param": suppression, "code_type": "CENTER_SIZE"}
        param |= {"keep_top_k": 100, "confidence_threshold": 0.25}
        bottoms = [locations, confidences, replace(priors[0], name="mbox_priorbox")]
        self._append("DetectionOutput", "detection_out", bottoms, "detection_out", detection_output_param=param)

    def dropout(self, x: Map, name: str, ratio: float) -> Map:
        """In place."""
        self._append("Dropout", name, [x], x.name, dropout_param={"dropout_ratio": ratio})
        return x

    def softmax(self, x: Map, name: str = "prob") -> Map:
        self._append("Softmax", name, [x], name)
        return replace(x, name=name)

    def definition(self) -> str:
        """The .prototxt."""
        return "\n".join(self._text) + "\n"

    def weights(self) -> Iterator[tuple[str, str, Iterator[Array]]]:
        """Name, type and blobs of each layer that has weights; a kernel is drawn when it is asked for."""
        for name, kind, blobs in self._weights:
            yield name, kind, blobs()

    def _append(self, kind: str, name: str, bottoms: Sequence[Map], *tops: str, **parameters: Message) -> None:
        lines = [f'name: "{name}"', f'type: "{kind}"', *(f'bottom: "{x.name}"' for x in bottoms)]
        lines += [f'top: "{top}"' for top in tops]
        lines += [f"{key} {text_of(message)}" for key, message in parameters.items()]
        self._text.append("layer {\n" + "".join(f"  {line}\n" for line in lines) + "}")

    def _add_kernel(
        self, kind: str, name: str, shape: tuple[int, ...], given: Moments, bias: bool, *, outputs: int = 0
    ) -> None:
        """outputs: the axis of `shape` that counts them; one output is summed over the others."""
        inputs = tuple(axis for axis in range(len(shape)) if axis != outputs)

        def blobs() -> Iterator[Array]:
            yield kernel(self._seed, f"{name}/kernel", shape, inputs, given, self._centering)
            if bias:
                yield normal(self._seed, f"{name}/bias", [shape[outputs]], BIAS)

        self._weights.append((name, kind, blobs))


def lenet(net: CaffeNet, size: int) -> None:
    x = net.input(size, 1)
    x = net.max_pool(net.conv(x, "conv1", 20, 5), "pool1", 2, 2)
    x = net.max_pool(net.conv(x, "conv2", 50, 5), "pool2", 2, 2)
    x = net.relu(net.dense(x, "ip1", 500), "relu1")
    net.softmax(net.dense(x, "ip2", 10))


def squeezenet_1_1(net: CaffeNet, size: int) -> None:
    def fire(x: Map, name: str, squeeze: int, expand: int) -> Map:
        def conv(x: Map, part: str, channels: int, kernel: int, pad: int = 0) -> Map:
            return net.relu(net.conv(x, f"{name}/{part}", channels, kernel, pad=pad), f"{name}/relu_{part}")

        x = conv(x, "squeeze1x1", squeeze, 1)
        return net.concat([conv(x, "expand1x1", expand, 1), conv(x, "expand3x3", expand, 3, pad=1)], f"{name}/concat")

    x = net.input(size, header="input_shape")
    x = net.relu(net.conv(x, "conv1", 64, 3, stride=2), "relu_conv1")
    x = net.max_pool(x, "pool1", 3, 2)
    x = fire(fire(x, "fire2", 16, 64), "fire3", 16, 64)
    x = net.max_pool(x, "pool3", 3, 2)
    x = fire(fire(x, "fire4", 32, 128), "fire5", 32, 128)
    x = net.max_pool(x, "pool5", 3, 2)
    x = fire(fire(x, "fire6", 48, 192), "fire7", 48, 192)
    x = fire(fire(x, "fire8", 64, 256), "fire9", 64, 256)
    x = net.relu(net.conv(net.dropout(x, "drop9", 0.5), "conv10", 1000, 1), "relu_conv10")
    net.softmax(net.whole_average(x, "pool10"))


def mobilenet_v1(net: CaffeNet, size: int) -> None:
    def block(x: Map, name: str, channels: int, kernel: int, *, stride: int = 1, pad: int = 0, group: int = 1) -> Map:
        x = net.conv(x, name, channels, kernel, stride=stride, pad=pad, group=group, bias=False)
        return net.relu(net.batch_norm(x, f"{name}/bn", f"{name}/scale"), f"relu_{name}")

    x = block(net.input(size, header="input_dim"), "conv1", 32, 3, stride=2, pad=1)
    blocks = {"conv2_1": (64, 1), "conv2_2": (128, 2), "conv3_1": (128, 1), "conv3_2": (256, 2)}
    blocks |= {"conv4_1": (256, 1), "conv4_2": (512, 2)} | {f"conv5_{i}": (512, 1) for i in range(1, 6)}
    blocks |= {"conv5_6": (1024, 2), "conv6": (1024, 1)}
    for name, (channels, stride) in blocks.items():
        x = block(x, f"{name}/dw", x.channels, 3, stride=stride, pad=1, group=x.channels)
        x = block(x, f"{name}/sep", channels, 1)
    net.softmax(net.conv(net.whole_average(x, "pool6"), "fc7", 1000, 1))


def googlenet(net: CaffeNet, size: int, *, lrn: bool) -> None:
    def conv(x: Map, name: str, part: str, channels: int, kernel: int, *, stride: int = 1, pad: int = 0) -> Map:
        return net.relu(net.conv(x, f"{name}/{part}", channels, kernel, stride=stride, pad=pad), f"{name}/relu_{part}")

    def inception(x: Map, name: str, one: int, three: tuple[int, int], five: tuple[int, int], pool: int) -> Map:
        name = f"inception_{name}"
        branches = [
            conv(x, name, "1x1", one, 1),
            conv(conv(x, name, "3x3_reduce", three[0], 1), name, "3x3", three[1], 3, pad=1),
            conv(conv(x, name, "5x5_reduce", five[0], 1), name, "5x5", five[1], 5, pad=2),
            conv(net.max_pool(x, f"{name}/pool", 3, 1, pad=1), name, "pool_proj", pool, 1),
        ]
        return net.concat(branches, f"{name}/output")

    x = conv(net.input(size), "conv1", "7x7_s2", 64, 7, stride=2, pad=3)
    x = net.max_pool(x, "pool1/3x3_s2", 3, 2)
    x = net.lrn(x, "pool1/norm1") if lrn else x
    x = conv(conv(x, "conv2", "3x3_reduce", 64, 1), "conv2", "3x3", 192, 3, pad=1)
    x = net.lrn(x, "conv2/norm2") if lrn else x
    x = net.max_pool(x, "pool2/3x3_s2", 3, 2)
    x = inception(x, "3a", 64, (96, 128), (16, 32), 32)
    x = inception(x, "3b", 128, (128, 192), (32, 96), 64)
    x = net.max_pool(x, "pool3/3x3_s2", 3, 2)
    x = inception(x, "4a", 192, (96, 208), (16, 48), 64)
    x = inception(x, "4b", 160, (112, 224), (24, 64), 64)
    x = inception(x, "4c", 128, (128, 256), (24, 64), 64)
    x = inception(x, "4d", 112, (144, 288), (32, 64), 64)
    x = inception(x, "4e", 256, (160, 320), (32, 128), 128)
    x = net.max_pool(x, "pool4/3x3_s2", 3, 2)
    x = inception(x, "5a", 256, (160, 320), (32, 128), 128)
    x = inception(x, "5b", 384, (192, 384), (48, 128), 128)
    x = net.dropout(net.whole_average(x, "pool5/7x7_s1", by_size=True), "pool5/drop_7x7_s1", 0.4)
    net.softmax(net.dense(x, "loss3/classifier", 1000))


def googlenet_with_lrn(net: CaffeNet, size: int) -> None:
    googlenet(net, size, lrn=True)


def googlenet_without_lrn(net: CaffeNet, size: int) -> None:
    googlenet(net, size, lrn=False)


def caffenet(net: CaffeNet, size: int) -> None:
    """AlexNet in one piece; in CaffeNet the normalization comes after the pooling."""
    x = net.relu(net.conv(net.input(size), "conv1", 96, 11, stride=4), "relu1")
    x = net.lrn(net.max_pool(x, "pool1", 3, 2), "norm1")
    x = net.relu(net.conv(x, "conv2", 256, 5, pad=2, group=2), "relu2")
    x = net.lrn(net.max_pool(x, "pool2", 3, 2), "norm2")
    x = net.relu(net.conv(x, "conv3", 384, 3, pad=1), "relu3")
    x = net.relu(net.conv(x, "conv4", 384, 3, pad=1, group=2), "relu4")
    x = net.relu(net.conv(x, "conv5", 256, 3, pad=1, group=2), "relu5")
    x = net.max_pool(x, "pool5", 3, 2)
    for number in (6, 7):
        x = net.relu(net.dense(x, f"fc{number}", 4096), f"relu{number}")
        x = net.dropout(x, f"drop{number}", 0.5)
    net.softmax(net.dense(x, "fc8", 1000))


def mobilenet_v2(net: CaffeNet, size: int) -> None:
    def block(
        x: Map, name: str, channels: int, kernel: int, *, stride: int = 1, group: int = 1, damping: float = 1.0
    ) -> Map:
        x = net.conv(x, name, channels, kernel, stride=stride, pad=kernel // 2, group=group, bias=False)
        return net.batch_norm(x, f"{name}/bn", f"{name}/scale", damping=damping)

    def bottleneck(x: Map, name: str, expansion: int, channels: int, stride: int) -> Map:
        y, wide = x, x.channels * expansion
        y = net.relu(block(y, f"{name}/expand", wide, 1), f"relu{name}/expand")
        y = net.relu(block(y, f"{name}/dwise", wide, 3, stride=stride, group=wide), f"relu{name}/dwise")
        is_sum = stride == 1 and channels == x.channels
        y = block(y, f"{name}/linear", channels, 1, damping=DAMPING if is_sum else 1.0)
        return net.add(x, y, f"block_{name}") if is_sum else y

    x = net.relu(block(net.input(size), "conv1", 32, 3, stride=2), "relu1")
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for stage, (expansion, channels, depth, stride) in enumerate(stages, 2):
        for i in range(1, depth + 1):
            x = bottleneck(x, f"conv{stage}_{i}", expansion, channels, stride if i == 1 else 1)
    x = net.relu(block(x, "conv9", 1280, 1), "relu9")
    net.softmax(net.conv(net.whole_average(x, "pool9"), "fc10", 1000, 1))


def ssd_mobilenet(net: CaffeNet, size: int) -> None:
    """MobileNet-SSD with its prior boxes and the detection at the end."""

    def conv(x: Map, name: str, channels: int, kernel: int, *, stride: int = 1, group: int = 1) -> Map:
        x = net.conv(x, name, channels, kernel, stride=stride, pad=kernel // 2, group=group, bias=False)
        return net.relu(net.batch_norm(x, f"{name}/bn", f"{name}/scale"), f"{name}/relu")

    classes = 21
    image = net.input(size)
    x = conv(image, "conv0", 32, 3, stride=2)
    features = []
    strides = dict(zip(range(1, 14), (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1), strict=True))
    widths = dict(zip(range(1, 14), (64, 128, 128, 256, 256, *[512] * 6, 1024, 1024), strict=True))
    for i, stride in strides.items():
        x = conv(x, f"conv{i}/dw", x.channels, 3, stride=stride, group=x.channels)
        x = conv(x, f"conv{i}", widths[i], 1)
        features += [x] if i in (11, 13) else []
    for i, channels in ((14, 512), (15, 256), (16, 256), (17, 128)):
        x = conv(conv(x, f"conv{i}_1", channels // 2, 1), f"conv{i}_2", channels, 3, stride=2)
        features.append(x)
    scales = (60.0, 105.0, 150.0, 195.0, 240.0, 285.0, 300.0)
    heads: dict[str, list[Map]] = {"loc": [], "conf": []}
    priors = []
    for index, x in enumerate(features):
        sizes: dict[str, float | tuple[float, ...]] = {"min_size": scales[index]}
        sizes |= {"max_size": scales[index + 1], "aspect_ratio": (2.0, 3.0)} if index else {"aspect_ratio": (2.0,)}
        boxes = 6 if index else 3
        for head, width, gain in (("loc", 4, 1.0), ("conf", classes, CONFIDENT)):
            name, given = f"{x.name}_mbox_{head}", replace(x, moments=x.moments.divided(gain))
            heads[head].append(net.pixels(net.conv(given, name, boxes * width, 1), name))
        priors.append(net.prior_box(x, image, f"{x.name}_mbox_priorbox", sizes))
    locations, confidences = (net.concat(maps, f"mbox_{head}") for head, maps in heads.items())
    net.detect(locations, net.softmax_of_rows(confidences, "mbox_conf", classes), priors, classes)


def yolov3_tiny(net: CaffeNet, size: int) -> None:
    """Two outputs of 3 boxes of 85 numbers each, undecoded; leaky ReLU, and Upsample of a fork."""

    def block(x: Map, name: str, channels: int, kernel: int) -> Map:
        x = net.conv(x, name, channels, kernel, pad=kernel // 2, bias=False)
        return net.relu(net.batch_norm(x, f"{name}_bn", f"{name}_scale"), f"{name}_act", slope=0.1)

    x = net.input(size)
    for i, channels in enumerate((16, 32, 64, 128), 1):
        x = net.max_pool(block(x, f"conv{i}", channels, 3), f"pool{i}", 2, 2)
    route = block(x, "conv5", 256, 3)
    x = block(net.max_pool(route, "pool5", 2, 2), "conv6", 512, 3)
    x = net.max_pool(x, "pool6", 3, 1, pad=1)
    x = block(block(x, "conv7", 1024, 3), "conv8", 256, 1)
    net.conv(block(x, "conv9", 512, 3), "conv10", 255, 1)
    x = net.upsample(block(x, "conv11", 128, 1), "upsample", 2)
    x = net.concat([x, route], "route")
    net.conv(block(x, "conv12", 256, 3), "conv13", 255, 1)


def segnet_basic(net: CaffeNet, size: int) -> None:
    """SegNet-basic: pools with masks, and their counterparts, which put values back where the maxima were."""

    def block(x: Map, name: str) -> Map:
        x = net.conv(x, f"conv{name}", 64, 7, pad=3, bias=False)
        return net.batch_norm(x, f"conv{name}_bn", f"conv{name}_scale")

    x = net.lrn(net.input(size), "norm")
    pooled = []
    for i in range(1, 5):
        pooled.append(net.relu(block(x, str(i)), f"relu{i}"))
        x = net.max_pool(pooled[-1], f"pool{i}", 2, 2, mask=True)
    for i in reversed(range(1, 5)):
        x = block(net.unpool(x, f"pool{i}", pooled[i - 1], f"upsample{i}"), f"_decode{i}")
    net.softmax(net.conv(x, "conv_classifier", 11, 1))


def fcn_8s(net: CaffeNet, size: int) -> None:
    """FCN-8s on a small VGG: a frame around the image, bilinear deconvolutions, crops, sums of three scales."""
    x = image = net.input(size)
    pools = []
    for stage, channels in enumerate((16, 32, 64, 128, 128), 1):
        for i in (1, 2):
            pad = 100 if (stage, i) == (1, 1) else 1
            x = net.relu(net.conv(x, f"conv{stage}_{i}", channels, 3, pad=pad), f"relu{stage}_{i}")
        x = net.max_pool(x, f"pool{stage}", 2, 2)
        pools.append(x)
    x = net.relu(net.conv(x, "fc6", 256, 7), "relu6")
    x = net.relu(net.conv(net.dropout(x, "drop6", 0.5), "fc7", 256, 1), "relu7")
    x = net.bilinear(net.conv(net.dropout(x, "drop7", 0.5), "score_fr", 21, 1), "upscore2", 2)
    x = net.add(x, net.crop(net.conv(pools[3], "score_pool4", 21, 1), x, "score_pool4c", 5), "fuse_pool4")
    x = net.bilinear(x, "upscore_pool4", 2)
    x = net.add(x, net.crop(net.conv(pools[2], "score_pool3", 21, 1), x, "score_pool3c", 9), "fuse_pool3")
    net.crop(net.bilinear(x, "upscore8", 8), image, "score", 31)


def enet(net: CaffeNet, size: int) -> None:
    """ENet's kinds of bottlenecks, each once or twice: smaller, regular, dilated, of 5x1 and 1x5, larger."""

    def norm(x: Map, name: str, *, damping: float = 1.0) -> Map:
        return net.batch_norm(x, f"{name}_bn", f"{name}_scale", damping=damping)

    def part(x: Map, name: str) -> Map:
        return net.prelu(norm(x, name), f"{name}_prelu")

    def bottleneck(x: Map, name: str, middle: Callable[[Map, str], Map]) -> Map:
        y = part(net.conv(x, f"{name}_reduce", x.channels // 4, 1, bias=False), f"{name}_reduce")
        y = part(middle(y, f"{name}_conv"), f"{name}_conv")
        y = net.conv(y, f"{name}_expand", x.channels, 1, bias=False)
        return net.prelu(net.add(x, norm(y, f"{name}_expand", damping=DAMPING), f"{name}_sum"), f"{name}_prelu")

    def dilated(dilation: int) -> Callable[[Map, str], Map]:
        return lambda x, name: net.conv(x, name, x.channels, 3, pad=dilation, dilation=dilation)

    def asymmetric(x: Map, name: str) -> Map:
        x = net.conv(x, f"{name}_a", x.channels, (5, 1), pad=(2, 0), bias=False)
        return net.conv(x, name, x.channels, (1, 5), pad=(0, 2))

    def smaller(x: Map, name: str, channels: int) -> Map:
        """A convolution with a stride beside a pool."""
        maps = [
            net.conv(x, f"{name}_conv", channels - x.channels, 3, stride=2, pad=1),
            net.max_pool(x, f"{name}_pool", 2, 2),
        ]
        return part(net.concat(maps, f"{name}_concat"), name)

    x = smaller(net.input(size), "initial", 16)
    x = smaller(x, "down1", 64)
    x = bottleneck(x, "regular1", dilated(1))
    x = smaller(x, "down2", 128)
    for name, middle in (
        ("regular2", dilated(1)), ("dilated2", dilated(2)), ("asymmetric", asymmetric),
        ("dilated4", dilated(4)), ("dilated8", dilated(8)), ("dilated16", dilated(16)),
    ):  # fmt: skip
        x = bottleneck(x, name, middle)
    x = part(net.deconv(x, "up2", 64, 4, stride=2, pad=1), "up2")
    x = bottleneck(x, "regular4", dilated(1))
    x = part(net.deconv(x, "up1", 16, 2, stride=2), "up1")
    net.deconv(x, "fullconv", 19, 2, stride=2)


def mtcnn_onet(net: CaffeNet, size: int) -> None:
    """MTCNN's last net: PReLU, pools that reach beyond the map, three outputs."""
    x = net.input(size)
    for i, (channels, kernel) in enumerate(((32, 3), (64, 3), (64, 3), (128, 2)), 1):
        x = net.prelu(net.conv(x, f"conv{i}", channels, kernel), f"prelu{i}")
        x = net.max_pool(x, f"pool{i}", *((3, 2) if i < 3 else (2, 2))) if i < 4 else x
    x = net.prelu(net.dropout(net.dense(x, "conv5", 256), "drop5", 0.25), "prelu5")
    net.softmax(net.dense(x, "conv6-1", 2), "prob1")
    net.dense(x, "conv6-2", 4)
    net.dense(x, "conv6-3", 10)


def vgg16(net: CaffeNet, size: int) -> None:
    x = net.input(size, header="input_dim")
    for stage, (channels, depth) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 1):
        for i in range(1, depth + 1):
            x = net.relu(net.conv(x, f"conv{stage}_{i}", channels, 3, pad=1), f"relu{stage}_{i}")
        x = net.max_pool(x, f"pool{stage}", 2, 2)
    for number in (6, 7):
        x = net.relu(net.dense(x, f"fc{number}", 4096), f"relu{number}")
        x = net.dropout(x, f"drop{number}", 0.5)
    net.softmax(net.dense(x, "fc8", 1000))


def resnet50(net: CaffeNet, size: int) -> None:
    def conv(x: Map, name: str, channels: int, kernel: int, *, stride: int = 1, damping: float = 1.0) -> Map:
        x = net.conv(x, f"res{name}", channels, kernel, stride=stride, pad=kernel // 2, bias=False)
        return net.batch_norm(x, f"bn{name}", f"scale{name}", damping=damping)

    def block(x: Map, name: str, channels: int, stride: int) -> Map:
        shortcut = conv(x, f"{name}_branch1", 4 * channels, 1, stride=stride) if name.endswith("a") else x
        x = net.relu(conv(x, f"{name}_branch2a", channels, 1, stride=stride), f"res{name}_branch2a_relu")
        x = net.relu(conv(x, f"{name}_branch2b", channels, 3), f"res{name}_branch2b_relu")
        x = conv(x, f"{name}_branch2c", 4 * channels, 1, damping=DAMPING)
        return net.relu(net.add(shortcut, x, f"res{name}"), f"res{name}_relu")

    x = net.conv(net.input(size, header="input_dim"), "conv1", 64, 7, stride=2, pad=3)
    x = net.relu(net.batch_norm(x, "bn_conv1", "scale_conv1"), "conv1_relu")
    x = net.max_pool(x, "pool1", 3, 2)
    for stage, (channels, depth) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 2):
        for letter in "abcdef"[:depth]:
            x = block(x, f"{stage}{letter}", channels, 2 if letter == "a" and stage > 2 else 1)
    net.softmax(net.dense(net.whole_average(x, "pool5", by_size=True), "fc1000", 1000))


@dataclass(frozen=True, slots=True)
class Caffe:
    """A Caffe network. lay_out: fills a CaffeNet, for an input size in pixels. centering: of its kernels."""

    lay_out: Callable[[CaffeNet, int], None]
    size: int
    centering: float = CENTERING

    def write(self, name: str, folder: Path, seed: int, size: int) -> None:
        net = CaffeNet(name, seed, self.centering)
        self.lay_out(net, size)
        (folder / f"{name}.prototxt").write_text(net.definition())
        caffemodel.write(folder / f"{name}.caffemodel", net.weights())
        write_ini(folder / "net.ini", name, f"definition = {name}.prototxt", f"data = {name}.caffemodel")


# --- Keras ------------------------------------------------------------------------------------------------------------
# Layers are known by the names of their classes, since importing keras takes seconds.


FUNCTIONS: Final[Mapping[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "gelu": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}
POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(64)


def after(given: Moments, function: str) -> Moments:
    """Of a function of a normal distribution, summed at a few points of it. A softmax ends a network: nobody asks."""
    if function in ("linear", "softmax"):
        return given
    values = FUNCTIONS[function](given.mean + math.sqrt(given.variance) * POINTS)
    mean = float(np.average(values, weights=WEIGHTS))
    return Moments(mean, max(float(np.average(values**2, weights=WEIGHTS)) - mean**2, 0.0))


def scaled(given: Moments, factor: float, shift: float = 0.0) -> Moments:
    return Moments(given.mean * factor + shift, given.variance * factor**2)


def of_product(x: Moments, y: Moments) -> Moments:
    """Of two that know nothing of each other."""
    mean = x.mean * y.mean
    return Moments(mean, x.mean_square * y.mean_square - mean**2)


def function_of(layer: Any) -> str:
    """The name of a layer's activation."""
    if type(layer).__name__ == "ReLU":
        return "relu6" if layer.max_value else "relu"
    return getattr(getattr(layer, "activation", None), "__name__", "linear")


def keras_moments(layer: Any, given: Sequence[Moments], damping: float) -> Moments:
    """The moments of a layer's output, from those of its inputs."""
    kind = type(layer).__name__
    constants = [x for node in layer._inbound_nodes for x in node.arguments.args if isinstance(x, (int, float))]  # noqa: SLF001  # Keras tells it nowhere else
    match kind:
        case "Conv2D" | "DepthwiseConv2D" | "SeparableConv2D" | "Dense":
            return after(scaled(NORMALIZED, damping), function_of(layer))
        case "BatchNormalization" | "LayerNormalization":
            return behind_batch_norm(damping)
        case "Activation" | "ReLU":
            return after(given[0], function_of(layer))
        case "MaxPooling2D":
            return given[0].after_max_pool()
        case "AveragePooling2D" | "GlobalAveragePooling2D":
            return given[0].after_average_pool()
        case "Add" if constants:
            return scaled(given[0], 1.0, constants[0])
        case "Multiply" if constants:
            return scaled(given[0], constants[0])
        case "Add":
            return of_sum(given)
        case "Multiply":
            return of_product(*given)
        case "CustomScaleLayer":
            return of_sum([given[0], scaled(given[1], layer.scale)])
        case "LayerScale":
            return of_product(given[0], Moments(LAYER_SCALE, 0.0))
        case "Rescaling":
            return scaled(given[0], layer.scale, layer.offset)
        case "Normalization":
            mean, variance = (np.asarray(x, np.float64) for x in (layer.mean, layer.variance))
            return scaled(given[0], float(np.mean(variance**-0.5)), -float(np.mean(mean * variance**-0.5)))
        case "Concatenate":
            return of_concatenation(given, [x.shape[-1] for x in layer.input])
        case "ZeroPadding2D" | "Cropping2D" | "Flatten" | "Reshape" | "Dropout" | "StochasticDepth":
            return given[0]
        case other:
            raise NotImplementedError(f"no rule for the numbers behind a {other}")


def keras_values(variable: Any, kind: str, given: Moments, damping: float, seed: int) -> Array:
    """A variable's values. given: the moments of the layer's input."""
    path, shape = variable.path, tuple(variable.shape)
    match kind, variable.name:
        case _, "depthwise_kernel":
            return kernel(seed, path, shape, (0, 1), given)
        case "DepthwiseConv2D", "kernel":
            return kernel(seed, path, shape, (0, 1), given)
        case _, "kernel":
            return kernel(seed, path, shape, tuple(range(len(shape) - 1)), given) * np.float32(damping)
        case _, "pointwise_kernel":
            return kernel(seed, path, shape, (0, 1, 2), NORMALIZED)
        case _, "bias":
            return normal(seed, path, shape, BIAS)
        case "LayerScale", _:
            return uniform(seed, path, shape, (LAYER_SCALE / 2, LAYER_SCALE * 3 / 2))
        case "BatchNormalization" | "LayerNormalization", "gamma" | "beta" | "moving_mean" | "moving_variance":
            values: Array = getattr(batch_norm(seed, path.rpartition("/")[0], shape[0], given, damping), variable.name)
            return values
        case "Normalization", _:
            return np.asarray(variable)  # nothing is learned here from what the network is trained with
        case _, other:
            raise NotImplementedError(f"no rule for a variable called {other}")


def fill_keras(model: Any, seed: int, given: Moments) -> Moments:
    """Give every weight of a Keras model its random value; returns the moments of its output."""
    joins = ("Add", "CustomScaleLayer")
    calls = [x for x in getattr(model, "_functional", model).operations if type(x).__name__ != "InputLayer"]
    summed = {
        id(x) for layer in calls if type(layer).__name__ in joins and isinstance(layer.input, list) for x in layer.input
    }
    moments = {id(x): given for x in model.inputs}
    for layer in calls:
        read = layer._inbound_nodes[-1].input_tensors  # noqa: SLF001  # an inner model's first node is its own
        written = layer._inbound_nodes[-1].output_tensors[0]  # noqa: SLF001
        sources = [moments[id(x)] for x in read]
        if hasattr(layer, "layers"):
            moments[id(written)] = fill_keras(layer, seed, sources[0])
            continue
        damping = DAMPING if id(written) in summed else 1.0
        for variable in getattr(layer, "weights", ()):
            variable.assign(keras_values(variable, type(layer).__name__, sources[0], damping, seed))
        moments[id(written)] = keras_moments(layer, sources, damping)
    return moments[id(model.outputs[0])]


def save_keras(model: Any, path: Path) -> None:
    """Write a .keras file as Keras 3 does, but for the dates: the same model gives the same bytes."""
    from keras import __version__

    with tempfile.TemporaryDirectory(dir=path.parent) as folder, zipfile.ZipFile(path, "w") as archive:
        weights = Path(folder, "model.weights.h5")
        model.save_weights(weights)
        archive.writestr(zipfile.ZipInfo("metadata.json"), json.dumps({"keras_version": __version__}))
        archive.writestr(zipfile.ZipInfo("config.json"), model.to_json())
        with weights.open("rb") as source, archive.open(zipfile.ZipInfo(weights.name), "w", force_zip64=True) as member:
            shutil.copyfileobj(source, member, 1 << 20)


@dataclass(frozen=True, slots=True)
class Keras:
    """A network of keras.applications, by the name of its function.

    smallest: the smallest input that it allows. takes_pixels: whether its input is 0..255.
    """

    function: str
    size: int
    smallest: int = 32
    takes_pixels: bool = False

    def write(self, name: str, folder: Path, seed: int, size: int) -> None:
        import keras

        keras.backend.clear_session()  # layers without a name of their own are counted from 1 again
        model = getattr(keras.applications, self.function)(weights=None, input_shape=(size, size, 3))
        fill_keras(model, seed, PIXELS if self.takes_pixels else INPUT)
        save_keras(model, folder / f"{name}.keras")
        model.save(folder / f"{name}.h5")
        pixels = ("scale = 1",) if self.takes_pixels else ()
        write_ini(folder / "net.ini", name, f"definition = {name}.keras", *pixels)
        write_ini(folder / "net_h5.ini", f"{name}_h5", f"definition = {name}.h5", *pixels)


# --- ONNX -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Onnx:
    """A network of examples/zoo_onnx.py, by the name of its function. size, smallest: as of the others."""

    layout: str
    size: int
    smallest: int = 64
    centering: float = CENTERING

    def write(self, name: str, folder: Path, seed: int, size: int) -> None:
        from examples import zoo_onnx

        zoo_onnx.write(self.layout, folder / f"{name}.onnx", seed, size, self.centering)
        write_ini(folder / "net.ini", name, f"definition = {name}.onnx")


# --- the zoo ----------------------------------------------------------------------------------------------------------

NETWORKS: Final[dict[str, Caffe | Keras | Onnx]] = {
    "caffe_lenet": Caffe(lenet, 28),
    "caffe_squeezenet_1_1": Caffe(squeezenet_1_1, 227),
    "caffe_mobilenet_v1": Caffe(mobilenet_v1, 224, centering=0.3),
    "caffe_googlenet": Caffe(googlenet_with_lrn, 224),
    "caffe_googlenet_without_lrn": Caffe(googlenet_without_lrn, 224),
    "caffe_vgg16": Caffe(vgg16, 224),
    "caffe_resnet50": Caffe(resnet50, 224),
    "caffe_alexnet": Caffe(caffenet, 227),
    "caffe_mobilenet_v2": Caffe(mobilenet_v2, 224),
    "caffe_ssd_mobilenet": Caffe(ssd_mobilenet, 300, centering=0.2),
    "caffe_yolov3_tiny": Caffe(yolov3_tiny, 416),
    "caffe_segnet_basic": Caffe(segnet_basic, 224),
    "caffe_fcn_8s": Caffe(fcn_8s, 224),
    "caffe_enet": Caffe(enet, 512),
    "caffe_mtcnn_onet": Caffe(mtcnn_onet, 48),
    "keras_mobilenet": Keras("MobileNet", 224),
    "keras_mobilenet_v2": Keras("MobileNetV2", 224),
    "keras_resnet50": Keras("ResNet50", 224),
    "keras_vgg16": Keras("VGG16", 224),
    "keras_inception_v3": Keras("InceptionV3", 299, 75),
    "keras_densenet121": Keras("DenseNet121", 224),
    "keras_vgg19": Keras("VGG19", 224),
    "keras_resnet101": Keras("ResNet101", 224),
    "keras_resnet152": Keras("ResNet152", 224),
    "keras_resnet50_v2": Keras("ResNet50V2", 224),
    "keras_resnet101_v2": Keras("ResNet101V2", 224),
    "keras_resnet152_v2": Keras("ResNet152V2", 224),
    "keras_inception_resnet_v2": Keras("InceptionResNetV2", 299, 75),
    "keras_xception": Keras("Xception", 299, 71),
    "keras_mobilenet_v3_small": Keras("MobileNetV3Small", 224, takes_pixels=True),
    "keras_mobilenet_v3_large": Keras("MobileNetV3Large", 224, takes_pixels=True),
    "keras_densenet169": Keras("DenseNet169", 224),
    "keras_densenet201": Keras("DenseNet201", 224),
    "keras_nasnet_mobile": Keras("NASNetMobile", 224),
    "keras_efficientnet_b0": Keras("EfficientNetB0", 224, takes_pixels=True),
    "keras_efficientnet_b1": Keras("EfficientNetB1", 240, takes_pixels=True),
    "keras_efficientnet_b2": Keras("EfficientNetB2", 260, takes_pixels=True),
    "keras_efficientnet_b3": Keras("EfficientNetB3", 300, takes_pixels=True),
    "keras_efficientnet_v2_b0": Keras("EfficientNetV2B0", 224, takes_pixels=True),
    "keras_convnext_tiny": Keras("ConvNeXtTiny", 224, takes_pixels=True),
    "onnx_resnet18": Onnx("resnet18", 224),
    "onnx_mobilenet_v3_small": Onnx("mobilenet_v3_small", 224),
    "onnx_efficientnet_lite0": Onnx("efficientnet_lite0", 224),
    "onnx_yolo_nano": Onnx("yolo_nano", 320),
    "onnx_unet": Onnx("unet", 128),
    "onnx_deeplab": Onnx("deeplab", 224),
    "onnx_crnn": Onnx("crnn", 32, smallest=32),
    "onnx_ssd_heads": Onnx("ssd_heads", 224),
    # Networks of Caffe's, with the same names and weights.
    "onnx_lenet": Onnx("lenet", 28, smallest=28),
    "onnx_squeezenet_1_1": Onnx("squeezenet_1_1", 227),
    "onnx_mobilenet_v1": Onnx("mobilenet_v1", 224, centering=0.3),
    "onnx_mobilenet_v2": Onnx("mobilenet_v2", 224),
    "onnx_googlenet_without_lrn": Onnx("googlenet_without_lrn", 224),
    "onnx_resnet50": Onnx("resnet50", 224),
    "onnx_yolov3_tiny": Onnx("yolov3_tiny", 416),
    "onnx_fcn_8s": Onnx("fcn_8s", 224),
    "onnx_enet": Onnx("enet", 512),
    "onnx_mtcnn_onet": Onnx("mtcnn_onet", 48, smallest=48),
}


def write_ini(path: Path, name: str, *model: str) -> None:
    """Write a net.ini for the FP16 form of a network."""
    output = ["output_folder = output", "quantization = 0", "transpose_weight = 1"]
    output += ["generate_source = 1", "generate_dot = 1"]
    path.write_text("\n".join(["[INPUT]", f"name = {name}", *model, "", "[OUTPUT]", *output]) + "\n")


def build(name: str, folder: Path, seed: int = 0, size: int | None = None) -> Path:
    """Write a network's files to folder/name/; returns its net.ini, which is written last.

    size: height and width of the input in pixels, the usual one by default.
    """
    network = NETWORKS[name]
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    network.write(name, home, seed, network.size if size is None else size)
    return home / "net.ini"


def print_names(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the names of all networks and end."""
    if wanted:
        click.echo("\n".join(NETWORKS))
        context.exit()


@click.command(help="Build NAMES, networks with random weights, each in a folder of its own.")
@click.argument("names", nargs=-1, required=True, type=click.Choice(list(NETWORKS)), metavar="NAMES...")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Where the folders go.")
@click.option("--seed", default=0, show_default=True, help="Another seed gives other weights.")
@click.option("--size", type=click.IntRange(min=1), help="Height and width of the input, instead of the usual.")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=print_names, help="Print the names.")
def main(names: tuple[str, ...], output: Path, seed: int, size: int | None) -> None:
    for name in names:
        click.echo(build(name, output, seed, size))


if __name__ == "__main__":
    main()
