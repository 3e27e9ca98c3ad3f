"""A Caffe network of the zoo in the making: layers with random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from examples.zoo_numbers import (
    BIAS,
    CAFFE_STATISTICS_FACTOR,
    CENTERING,
    INPUT,
    NORMALIZED,
    SLOPES,
    Array,
    Moments,
    batch_norm,
    behind_batch_norm,
    kernel,
    normal,
    of_concatenation,
    of_sum,
    uniform,
)

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
