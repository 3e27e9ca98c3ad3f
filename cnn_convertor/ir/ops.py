"""The operators that a network is made of, each with the rule for its output's shape.

Maps are (height, width, channels); the batch is always one. A vector of n values is the map 1 x 1 x n.
An operator's `output_shape` raises `ShapeError` when its inputs do not fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple, TypeAlias

import numpy as np

from cnn_convertor.ir.constant import Constant


class ShapeError(ValueError):
    """The inputs of an operator do not fit it; says how, in the user's terms."""


class Shape(NamedTuple):
    """A feature map."""

    height: int
    width: int
    channels: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self)

    @property
    def is_vector(self) -> bool:
        return self.height == self.width == 1

    def __str__(self) -> str:
        return "x".join(map(str, self))


class Axis(IntEnum):
    """The axes of a map. The values are their places in a Shape."""

    HEIGHT = 0
    WIDTH = 1
    CHANNELS = 2


def _with(shape: Shape, axis: Axis, length: int) -> Shape:
    """The shape with another length along one axis."""
    return Shape(*(length if place == axis else old for place, old in enumerate(shape)))


class Pair(NamedTuple):
    height: int
    width: int


class Padding(NamedTuple):
    top: int
    bottom: int
    left: int
    right: int

    def __add__(self, other: object) -> Padding:
        assert isinstance(other, Padding)
        return Padding(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


NO_PADDING = Padding(0, 0, 0, 0)
NO_MORE = Pair(0, 0)
ONE = Pair(1, 1)


class Window(NamedTuple):
    """How a kernel moves over a map."""

    kernel: Pair
    stride: Pair = ONE
    dilation: Pair = ONE
    padding: Padding = NO_PADDING

    @property
    def extent(self) -> Pair:
        """What the dilated kernel spans."""
        return Pair(*((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)))

    def slide(self, shape: Shape, *, channels: int, extra: Padding = NO_PADDING) -> Shape:
        """Output shape of sliding over `shape`, padded by the window's padding and `extra`."""
        pad = self.padding + extra
        padded = Pair(shape.height + pad.top + pad.bottom, shape.width + pad.left + pad.right)
        if min(self.kernel) < 1 or min(self.stride) < 1 or min(self.dilation) < 1:
            raise ShapeError("kernel, stride and dilation must be at least 1")
        if padded.height < self.extent.height or padded.width < self.extent.width:
            raise ShapeError(
                f"the padded input {padded.height}x{padded.width} is smaller than the kernel {self.extent.height}x{self.extent.width}"
            )
        height, width = ((p - e) // s + 1 for p, e, s in zip(padded, self.extent, self.stride, strict=True))
        return Shape(height, width, channels)


# --- activation functions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Relu:
    """max(x, 0) + slope * min(x, 0)"""

    slope: float = 0.0


@dataclass(frozen=True, slots=True)
class Relu6:
    """min(max(x, 0), 6)"""


@dataclass(frozen=True, slots=True)
class PRelu:
    """max(x, 0) + slopes[channel] * min(x, 0); slopes: (C,)"""

    slopes: Constant


@dataclass(frozen=True, slots=True)
class Elu:
    """x for x > 0, exp(x) - 1 otherwise"""


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """1 / (1 + exp(-x))"""


@dataclass(frozen=True, slots=True)
class Tanh:
    """tanh(x)"""


Function: TypeAlias = Relu | Relu6 | PRelu | Elu | Sigmoid | Tanh


# --- functions of one number that no operator applies on its way out ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Swish:
    """x / (1 + exp(-beta * x)), also called SiLU"""

    beta: float = 1.0


@dataclass(frozen=True, slots=True)
class HardSigmoid:
    """slope * x + shift, held between 0 and 1"""

    slope: float
    shift: float


@dataclass(frozen=True, slots=True)
class HardSwish:
    """x * min(max(x + 3, 0), 6) / 6"""


@dataclass(frozen=True, slots=True)
class Gelu:
    """x * P(X <= x) for a standard normal X. by_tanh: the usual approximation of it."""

    by_tanh: bool = False


@dataclass(frozen=True, slots=True)
class Mish:
    """x * tanh(log(1 + exp(x)))"""


@dataclass(frozen=True, slots=True)
class Softplus:
    """log(1 + exp(x)); Caffe's BNLL, too"""


@dataclass(frozen=True, slots=True)
class Softsign:
    """x / (1 + |x|)"""


@dataclass(frozen=True, slots=True)
class ScaledElu:
    """scale * x for x > 0, scale * alpha * (exp(x) - 1) otherwise; an ELU with another alpha, and SELU"""

    alpha: float
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Exponential:
    """exp(scale * x + shift)"""

    scale: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class Logarithm:
    """factor * log(scale * x + shift)"""

    factor: float = 1.0
    scale: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class Power:
    """(scale * x + shift) ** power"""

    power: float
    scale: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class Absolute:
    """|x|"""


@dataclass(frozen=True, slots=True)
class Threshold:
    """1 for x > threshold, 0 otherwise"""

    threshold: float = 0.0


@dataclass(frozen=True, slots=True)
class Clip:
    """x held between low and high, either of which may be infinite"""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class BoundedRelu:
    """min(x, high) for x > threshold, slope * (x - threshold) otherwise: every other ReLU of Keras"""

    slope: float
    threshold: float
    high: float


ScalarFunction: TypeAlias = (
    Swish
    | HardSigmoid
    | HardSwish
    | Gelu
    | Mish
    | Softplus
    | Softsign
    | ScaledElu
    | Exponential
    | Logarithm
    | Power
    | Absolute
    | Threshold
    | Clip
    | BoundedRelu
)


def never_decreases(function: Function | None) -> bool:
    """Whether taking a maximum before the function gives the same as taking it after."""
    match function:
        case Relu(slope=slope):
            return slope >= 0
        case PRelu(slopes=slopes):
            return bool(np.all(slopes.load() >= 0))
        case _:
            return True


def never_negative(function: Function | None) -> bool:
    """Whether the function's results are all >= 0."""
    match function:
        case Relu(slope=slope):
            return slope == 0
        case Relu6() | Sigmoid():
            return True
        case _:
            return False


# --- operators -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Input:
    shape: Shape

    def output_shape(self) -> Shape:
        if min(self.shape) < 1:
            raise ShapeError(f"the input size {self.shape} is not a size")
        return self.shape


@dataclass(frozen=True, slots=True)
class Identity:
    """Passes its input on: dropout at inference, Split, a linear activation."""

    def output_shape(self, x: Shape) -> Shape:
        return x


@dataclass(frozen=True, slots=True)
class Conv2d:
    """Convolution (cross-correlation, as every framework has it).

    weight: (O, I / groups, kernel height, kernel width), padding is zeros. bias: (O,) or None.
    """

    weight: Constant
    bias: Constant | None
    window: Window
    groups: int = 1
    activation: Function | None = None

    @property
    def is_depthwise(self) -> bool:
        """One kernel a channel."""
        return self.weight.shape[1] == 1 and self.groups == self.weight.shape[0] > 1

    def output_shape(self, x: Shape) -> Shape:
        out, per_group, *kernel = self.weight.shape
        assert tuple(kernel) == tuple(self.window.kernel)
        if x.channels != per_group * self.groups or out % self.groups:
            raise ShapeError(
                f"kernels for {per_group * self.groups} channels in {self.groups} groups meet an input of {x.channels}"
            )
        return self.window.slide(x, channels=out)


@dataclass(frozen=True, slots=True)
class ConvTranspose2d:
    """Transposed convolution: input pixel (y, x) adds input * kernel at output (y, x) * stride - padding.

    weight: (O, I / groups, kernel height, kernel width), not rotated. bias: (O,) or None.
    output_padding: rows and columns that the output has beyond what the kernel reaches (bottom and right).
    """

    weight: Constant
    bias: Constant | None
    window: Window
    output_padding: Pair = NO_MORE
    groups: int = 1
    activation: Function | None = None

    @property
    def is_depthwise(self) -> bool:
        """One kernel a channel."""
        return self.weight.shape[1] == 1 and self.groups == self.weight.shape[0] > 1

    def output_shape(self, x: Shape) -> Shape:
        out, per_group, *kernel = self.weight.shape
        assert tuple(kernel) == tuple(self.window.kernel)
        if x.channels != per_group * self.groups or out % self.groups:
            raise ShapeError(
                f"kernels for {per_group * self.groups} channels in {self.groups} groups meet an input of {x.channels}"
            )
        pad, extent, stride = self.window.padding, self.window.extent, self.window.stride
        height = (x.height - 1) * stride.height + extent.height - pad.top - pad.bottom + self.output_padding.height
        width = (x.width - 1) * stride.width + extent.width - pad.left - pad.right + self.output_padding.width
        if height < 1 or width < 1:
            raise ShapeError(f"the padding leaves an output of {height}x{width}")
        return Shape(height, width, out)


@dataclass(frozen=True, slots=True)
class Dense:
    """Fully connected over the whole map: weight (O, C, H, W) of the input map C, H, W; bias (O,) or None."""

    weight: Constant
    bias: Constant | None
    activation: Function | None = None

    def output_shape(self, x: Shape) -> Shape:
        out, channels, height, width = self.weight.shape
        if x != (height, width, channels):
            raise ShapeError(
                f"weights for {height * width * channels} inputs ({height}x{width}x{channels}) meet {x.size} ({x})"
            )
        return Shape(1, 1, out)


@dataclass(frozen=True, slots=True)
class MaxPool2d:
    """Maximum over windows; padding never wins."""

    window: Window
    activation: Function | None = None

    def output_shape(self, x: Shape) -> Shape:
        return self.window.slide(x, channels=x.channels)


@dataclass(frozen=True, slots=True)
class AveragePool2d:
    """Sum over windows, times a factor.

    window.padding counts as zeros. uncounted: more padding, whose elements are left out of the divisor.
    factor: what sums are multiplied by; None is 1 / (number of the window's elements that count).
    """

    window: Window
    uncounted: Padding = NO_PADDING
    factor: float | None = None
    activation: Function | None = None

    @property
    def fixed_factor(self) -> float:
        """The factor where every element of a window counts."""
        return 1.0 / math.prod(self.window.kernel) if self.factor is None else self.factor

    def output_shape(self, x: Shape) -> Shape:
        return self.window.slide(x, channels=x.channels, extra=self.uncounted)


@dataclass(frozen=True, slots=True)
class Upsample:
    """Repeat every pixel (nearest neighbour)."""

    factor: Pair

    def output_shape(self, x: Shape) -> Shape:
        if min(self.factor) < 1:
            raise ShapeError("an upsampling factor must be at least 1")
        return Shape(x.height * self.factor.height, x.width * self.factor.width, x.channels)


@dataclass(frozen=True, slots=True)
class BatchNorm:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, each (C,); no gamma is 1, no beta is 0."""

    mean: Constant
    variance: Constant
    gamma: Constant | None
    beta: Constant | None
    epsilon: float

    def output_shape(self, x: Shape) -> Shape:
        if self.mean.shape != (x.channels,):
            raise ShapeError(f"statistics of {self.mean.shape[0]} channels meet an input of {x.channels}")
        return x


@dataclass(frozen=True, slots=True)
class Scale:
    """x * factor + shift, each (C,); no shift is 0."""

    factor: Constant
    shift: Constant | None = None
    activation: Function | None = None

    def output_shape(self, x: Shape) -> Shape:
        if self.factor.shape != (x.channels,):
            raise ShapeError(f"{self.factor.shape[0]} factors meet an input of {x.channels} channels")
        return x


@dataclass(frozen=True, slots=True)
class Activation:
    function: Function

    def output_shape(self, x: Shape) -> Shape:
        if isinstance(self.function, PRelu) and self.function.slopes.shape != (x.channels,):
            raise ShapeError(f"{self.function.slopes.shape[0]} slopes meet an input of {x.channels} channels")
        return x


@dataclass(frozen=True, slots=True)
class Add:
    """Element by element; two inputs (frontends make chains of longer sums)."""

    activation: Function | None = None

    def output_shape(self, x: Shape, y: Shape) -> Shape:
        if x != y:
            raise ShapeError(f"cannot add maps of {x} and {y}")
        return x


@dataclass(frozen=True, slots=True)
class Concat:
    """One input after the other, along an axis."""

    axis: Axis = Axis.CHANNELS

    def output_shape(self, *xs: Shape) -> Shape:
        if len({_with(x, self.axis, 0) for x in xs}) != 1:
            raise ShapeError(f"cannot join maps of {', '.join(map(str, xs))} on {self.axis.name.lower()}")
        return _with(xs[0], self.axis, sum(x[self.axis] for x in xs))


@dataclass(frozen=True, slots=True)
class Pad:
    """Zeros around the map."""

    padding: Padding

    def output_shape(self, x: Shape) -> Shape:
        pad = self.padding
        if min(pad) < 0:
            raise ShapeError("a padding below zero")
        return Shape(x.height + pad.top + pad.bottom, x.width + pad.left + pad.right, x.channels)


class Order(Enum):
    """The order in which the elements of a map are counted when it is reshaped."""

    HWC = "HWC"  # Keras, channels_last
    CHW = "CHW"  # Caffe; Keras, channels_first
    MEMORY = "memory"  # as they lie in the device's memory: nothing moves. Made when a graph is fitted to a device


@dataclass(frozen=True, slots=True)
class Reshape:
    """The same elements, counted in the given order, as another shape. To a vector: Flatten."""

    shape: Shape
    order: Order

    def output_shape(self, x: Shape) -> Shape:
        if x.size != self.shape.size:
            raise ShapeError(f"cannot reshape {x} ({x.size} elements) to {self.shape} ({self.shape.size})")
        return self.shape


@dataclass(frozen=True, slots=True)
class Softmax:
    """exp(x) / sum(exp(x)) along an axis."""

    axis: Axis = Axis.CHANNELS

    def output_shape(self, x: Shape) -> Shape:
        return x


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of one number, on every element."""

    function: ScalarFunction

    def output_shape(self, x: Shape) -> Shape:
        return x


class Combination(Enum):
    """How two numbers make one. The value is how it is written."""

    ADD = "x + y"
    SUBTRACT = "x - y"
    MULTIPLY = "x * y"
    DIVIDE = "x / y"
    MAXIMUM = "max(x, y)"
    MINIMUM = "min(x, y)"


@dataclass(frozen=True, slots=True)
class Combine:
    """Two maps, element by element; an axis of length 1 is repeated to the other map's length."""

    combination: Combination

    def output_shape(self, x: Shape, y: Shape) -> Shape:
        if any(mine != theirs and 1 not in (mine, theirs) for mine, theirs in zip(x, y, strict=True)):
            raise ShapeError(f"cannot combine maps of {x} and {y}")
        return Shape(*map(max, x, y))


@dataclass(frozen=True, slots=True)
class LocalResponseNorm:
    """x / (bias + alpha / n * sum of squares) ** beta, the sum over a neighbourhood of x, zero outside of the map.

    across_channels: the neighbourhood is `size` channels, n = size; else size x size pixels, n = size * size. size is odd.
    """

    size: int
    alpha: float
    beta: float
    bias: float = 1.0
    across_channels: bool = True

    def output_shape(self, x: Shape) -> Shape:
        if self.size < 1 or self.size % 2 == 0:
            raise ShapeError(f"a neighbourhood of {self.size} has no middle")
        return x


@dataclass(frozen=True, slots=True)
class Standardise:
    """(x - mean) / deviation, both of the input itself, over some axes and in groups of channels.

    The deviation is sqrt(variance + epsilon), or sqrt(variance) + epsilon with epsilon_outside, or 1 without divides.
    groups: 1 unless the channels are among the axes.
    """

    axes: tuple[Axis, ...]
    epsilon: float
    groups: int = 1
    divides: bool = True
    epsilon_outside: bool = False

    def output_shape(self, x: Shape) -> Shape:
        if self.groups < 1 or x.channels % self.groups:
            raise ShapeError(f"{x.channels} channels are not {self.groups} groups")
        assert self.groups == 1 or Axis.CHANNELS in self.axes
        return x


@dataclass(frozen=True, slots=True)
class Normalise:
    """x / length, the length being sqrt(sum of squares + epsilon) over some axes; with at_least: sqrt(max(sum, epsilon))."""

    axes: tuple[Axis, ...]
    epsilon: float
    at_least: bool = False

    def output_shape(self, x: Shape) -> Shape:
        return x


class Reduction(Enum):
    """What is left of many numbers."""

    SUM = "sum"
    MEAN = "mean"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    SUM_OF_MAGNITUDES = "sum of magnitudes"
    SUM_OF_SQUARES = "sum of squares"


@dataclass(frozen=True, slots=True)
class Reduce:
    """One number for all that lie along some axes, times a factor; these axes have the length 1 then."""

    reduction: Reduction
    axes: tuple[Axis, ...]
    factor: float = 1.0

    def output_shape(self, x: Shape) -> Shape:
        return Shape(*(1 if axis in self.axes else x[axis] for axis in Axis))


@dataclass(frozen=True, slots=True)
class ArgMax:
    """The places of the `count` largest numbers along an axis, the largest first; of equal ones the first comes first,
    or the last with last_of_equals.

    axis None: of the whole map, counted in CHW order; the result is count x 1 x 1, or count x 1 x 2 with values: places,
    then values. Along an axis the result has `count` there: places, or values.
    """

    axis: Axis | None
    count: int = 1
    values: bool = False
    last_of_equals: bool = False

    def output_shape(self, x: Shape) -> Shape:
        available = x.size if self.axis is None else x[self.axis]
        if not 1 <= self.count <= available:
            raise ShapeError(f"{self.count} of {available} numbers are asked for")
        if self.axis is None:
            return Shape(self.count, 1, 2 if self.values else 1)
        return _with(x, self.axis, self.count)


class Interpolation(Enum):
    NEAREST = "nearest"
    BILINEAR = "bilinear"


class Sampling(Enum):
    """Where output pixel i lies in the input, with ratio = input size / output size."""

    HALF_PIXEL = "(i + 0.5) * ratio - 0.5"
    CORNERS = "i * (input size - 1) / (output size - 1)"  # 0 where the output size is 1
    ASYMMETRIC = "i * ratio"


@dataclass(frozen=True, slots=True)
class Resize:
    """Samples the map at other places; outside of it the border goes on.

    The nearest pixel of a place p is floor(p), or floor(p + 0.5) with HALF_PIXEL and CORNERS.
    """

    size: Pair
    interpolation: Interpolation
    sampling: Sampling

    def output_shape(self, x: Shape) -> Shape:
        if min(self.size) < 1:
            raise ShapeError(f"{self.size.height}x{self.size.width} is not a size")
        return Shape(*self.size, x.channels)


@dataclass(frozen=True, slots=True)
class Crop:
    """The elements from start to before stop, every stride-th, along each axis."""

    start: Shape
    stop: Shape
    stride: Shape = Shape(1, 1, 1)

    def output_shape(self, x: Shape) -> Shape:
        if not all(0 <= a < b <= n and s > 0 for a, b, n, s in zip(self.start, self.stop, x, self.stride, strict=True)):
            raise ShapeError(f"{self.start} to {self.stop} is not a part of {x}")
        return Shape(*((b - a - 1) // s + 1 for a, b, s in zip(self.start, self.stop, self.stride, strict=True)))


@dataclass(frozen=True, slots=True)
class Rearrange:
    """The elements, counted in an order, as an array of dims, its axes permuted, and counted again as a map.

    Numpy's axis i of the permuted array is axis axes[i] of the array. Permute, pixel shuffles and channel shuffles are this.
    """

    dims: tuple[int, ...]
    axes: tuple[int, ...]
    shape: Shape
    order: Order

    def output_shape(self, x: Shape) -> Shape:
        assert sorted(self.axes) == list(range(len(self.dims)))
        if not x.size == math.prod(self.dims) == self.shape.size:
            raise ShapeError(f"cannot rearrange {x} ({x.size} elements) to {self.shape} ({self.shape.size})")
        return self.shape


@dataclass(frozen=True, slots=True)
class SpaceToDepth:
    """Zeros around the map (below zero: less of it), then blocks of block.height x block.width pixels become pixels, channels the last to change.

    Output channel (y * block.width + x) * C + c is channel c of the block's pixel (y, x).
    """

    block: Pair
    padding: Padding = NO_PADDING

    def output_shape(self, x: Shape) -> Shape:
        pad = self.padding
        padded = Pair(x.height + pad.top + pad.bottom, x.width + pad.left + pad.right)
        if padded.height % self.block.height or padded.width % self.block.width:
            raise ShapeError(
                f"{padded.height}x{padded.width} pixels are not blocks of {self.block.height}x{self.block.width}"
            )
        return Shape(
            padded.height // self.block.height, padded.width // self.block.width, x.channels * math.prod(self.block)
        )


@dataclass(frozen=True, slots=True)
class PriorBox:
    """SSD's boxes, which depend on sizes alone. The result is (boxes * 4) x 1 x 2: coordinates, then variances.

    For each pixel of a map of `map_size`, row by row: for each min_size a square of it, then with a max_size the square of
    sqrt(min_size * max_size), then for each of `aspect_ratios` (none is 1; flips are listed) one of min_size. Coordinates are
    left, top, right, bottom, in parts of `image_size`. step: pixels of the image from box to box. offset: of the centre, in steps.
    """

    map_size: Pair
    image_size: Pair
    min_sizes: tuple[float, ...]
    max_sizes: tuple[float, ...]
    aspect_ratios: tuple[float, ...]
    clip: bool
    variance: tuple[float, float, float, float]
    step_height: float
    step_width: float
    offset: float

    @property
    def boxes_per_pixel(self) -> int:
        return len(self.min_sizes) * (1 + len(self.aspect_ratios)) + len(self.max_sizes)

    def output_shape(self) -> Shape:
        if not self.min_sizes or len(self.max_sizes) not in (0, len(self.min_sizes)):
            raise ShapeError(f"{len(self.min_sizes)} smallest and {len(self.max_sizes)} largest sizes of boxes")
        return Shape(math.prod(self.map_size) * self.boxes_per_pixel * 4, 1, 2)


class BoxCode(Enum):
    """How locations tell boxes from prior boxes."""

    CORNER = "corner"
    CENTER_SIZE = "center size"
    CORNER_SIZE = "corner size"


@dataclass(frozen=True, slots=True)
class DetectionOutput:
    """SSD's detections: decodes boxes, suppresses what overlaps, keeps the best.

    Inputs: locations and confidences (vectors, box by box) and a PriorBox. The result is keep_top_k x 7 x 1: image (0), label,
    confidence, left, top, right, bottom; by label, then the surest first; rows without a detection begin with -1 and are 0
    then. background: -1 is none. top_k (of each class, before suppression), keep_top_k: -1 is all.
    """

    classes: int
    background: int
    share_location: bool
    code: BoxCode
    variance_encoded: bool
    nms_threshold: float
    top_k: int
    eta: float
    confidence_threshold: float
    keep_top_k: int

    def output_shape(self, locations: Shape, confidences: Shape, priors: Shape) -> Shape:
        boxes = priors.height // 4
        if priors != (boxes * 4, 1, 2):
            raise ShapeError(f"{priors} are no prior boxes")
        expected = (boxes * 4 * (1 if self.share_location else self.classes), boxes * self.classes)
        if (locations, confidences) != tuple(Shape(1, 1, size) for size in expected):
            raise ShapeError(
                f"{locations} locations and {confidences} confidences meet {boxes} prior boxes of "
                f"{self.classes} classes, which need {expected[0]} and {expected[1]}"
            )
        rows = boxes * self.classes if self.keep_top_k < 0 else self.keep_top_k
        return Shape(rows, 7, 1)


Parameter: TypeAlias = bool | int | float | tuple[bool, ...] | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Custom:
    """A layer that the firmware's author implements. parameters: (name, value) in the order of the C++ struct."""

    type: str
    parameters: tuple[tuple[str, Parameter], ...]
    shape: Shape

    def output_shape(self, *_: Shape) -> Shape:
        return self.shape


@dataclass(frozen=True, slots=True)
class ChannelSlice:
    """Some channels of a map, as they lie in the device's memory. Made when a graph is fitted to a device."""

    first: int
    count: int

    def output_shape(self, x: Shape) -> Shape:
        assert 0 <= self.first < self.first + self.count <= x.channels
        return Shape(x.height, x.width, self.count)


@dataclass(frozen=True, slots=True)
class OnCpu:
    """What the device's processor does, since the device cannot. Made when a graph is fitted to a device."""

    op: Op

    def output_shape(self, *xs: Shape) -> Shape:
        return self.op.output_shape(*xs)


Op: TypeAlias = (
    Input
    | Identity
    | Conv2d
    | ConvTranspose2d
    | Dense
    | MaxPool2d
    | AveragePool2d
    | Upsample
    | BatchNorm
    | Scale
    | Activation
    | Add
    | Concat
    | Pad
    | Reshape
    | Softmax
    | Apply
    | Combine
    | LocalResponseNorm
    | Standardise
    | Normalise
    | Reduce
    | ArgMax
    | Resize
    | Crop
    | Rearrange
    | SpaceToDepth
    | PriorBox
    | DetectionOutput
    | ChannelSlice
    | OnCpu
    | Custom
)
