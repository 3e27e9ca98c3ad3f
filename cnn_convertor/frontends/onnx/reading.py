"""What the reader of a node works with: its attributes, inputs and constants, and the graph under construction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from cnn_convertor.errors import ModelError, Origin, SettingsError, UnsupportedError
from cnn_convertor.frontends import chw_nodes, nchw
from cnn_convertor.frontends.builder import Builder, prefix_of
from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.onnx.folding import check_attributes
from cnn_convertor.frontends.onnx.model import OnnxModel, OnnxNode
from cnn_convertor.frontends.onnx.quant_params import QuantParams
from cnn_convertor.frontends.onnx.stored import Numbers, Stored
from cnn_convertor.frontends.onnx.versions import is_known
from cnn_convertor.frontends.readers import Registry, Settings
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Axis, Op, Shape

_AGAIN: Final = "the model contradicts itself: correct the script that makes it, and export it again"
# Attributes that never change what a trained network computes.
HARMLESS = frozenset({"consumed_inputs"})
# Types that move or compare numbers and do not change them; a map can hold whole numbers up to 2048 in FP16.
TAKES_INTEGERS = frozenset(
    ["And", "Cast", "Concat", "DepthToSpace", "DequantizeLinear", "Dropout", "Equal", "Flatten", "Gather",
     "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Not", "Or",
     "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Transpose", "Unsqueeze", "Where", "Xor"]
)  # fmt: skip


Range: TypeAlias = tuple[int, int]  # the least and the largest
Bounds: TypeAlias = tuple[float, float]


class Gated(NamedTuple):
    """A node whose numbers are multiplied by a function of them, and the bounds of that product."""

    node: str
    bounds: Bounds


class OnnxTensor(NamedTuple):
    """Numbers that depend on the network's input: the node that computes them, and their length along each axis.

    integers: the range of whole numbers, of an integer type. quantized: their scale and zero point, where the file has
    integers that stand for the numbers of the graph. bounds: that no number is beyond, where they are known. gated: the
    node that these numbers are a function of, and the bounds of their product.
    """

    node: str
    dims: Dims
    integers: Range | None = None
    quantized: QuantParams | None = None
    bounds: Bounds | None = None
    gated: Gated | None = None

    @property
    def rank(self) -> int:
        return len(self.dims)


Value: TypeAlias = OnnxTensor | Stored


def _bounds_of(op: Op, inputs: Sequence[OnnxTensor]) -> Bounds | None:
    """Those of a result: of numbers that the operator moves or chooses among, and of functions that have bounds."""
    match op:
        case ops.Identity() | ops.Reshape() | ops.TransposeReshape() | ops.Crop() | ops.MaxPool2d(activation=None):
            return inputs[0].bounds
        case ops.Activation(function=ops.Sigmoid()):
            low, high = np.clip(inputs[0].bounds or (-np.inf, np.inf), -500, 500)
            return float(1 / (1 + np.exp(-low))), float(1 / (1 + np.exp(-high)))
        case _:
            return None


def whole_numbers(*values: Value) -> Range | None:
    """The range of the whole numbers in values of one type; None for floating point."""
    ranges: list[Range] = []
    for value in values:
        if isinstance(value, OnnxTensor):
            ranges += [value.integers] if value.integers else []
        elif value.dtype.kind in "iub" and value.size:
            numbers = value.load()
            ranges.append((int(numbers.min()), int(numbers.max())))
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None


@dataclass(frozen=True, slots=True)
class OnnxReading:
    """One node that is being read. inputs: None for one that is left out. needed: which of its outputs are used.

    names: what the file calls the results of its nodes. softmax_axes: those of the Softmax nodes that read the node's result,
    as the file has them; empty where anything else reads it. taken: positions of the inputs that have been asked for. images:
    how many the first input holds as groups of its channels. inside: names the part of the node that is being read.
    """

    node: OnnxNode
    attributes: Settings
    inputs: tuple[Value | None, ...]
    needed: tuple[bool, ...]
    opset: int
    builder: Builder
    names: frozenset[str]
    softmax_axes: tuple[int, ...] = ()
    taken: set[int] = field(default_factory=set)
    images: int = 1
    inside: str = ""

    # --- attributes

    def take(self, name: str, default: Any = None) -> Any:
        """An attribute, or else the default."""
        value = self.attributes.take(name, default)
        if isinstance(value, OnnxModel):
            raise self.unsupported(f"the attribute {name} cannot be converted")
        return value

    def text(self, name: str, default: str) -> str:
        value = self.take(name, default)
        return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)

    def integer(self, name: str, default: int) -> int:
        value = self.take(name, default)
        if not isinstance(value, int):
            raise self.wrong(f"the attribute {name} is not an integer")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.take(name, default)
        if not isinstance(value, int | float):
            raise self.wrong(f"the attribute {name} is not a number")
        return float(value)

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int] | None:
        """An attribute that is a list of integers."""
        value = self.take(name)
        if value is None:
            return None if default is None else list(default)
        if not isinstance(value, tuple) or not all(isinstance(n, int) for n in value):
            raise self.wrong(f"the attribute {name} is not a list of integers")
        return [int(n) for n in value]

    def floats(self, name: str) -> list[float] | None:
        """An attribute that is a list of numbers."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, tuple) or not all(isinstance(n, int | float) for n in value):
            raise self.wrong(f"the attribute {name} is not a list of numbers")
        return [float(n) for n in value]

    def integers_of(self, name: str, position: int) -> list[int] | None:
        """Integers that old opsets give as an attribute, and new ones as a constant input."""
        if is_known(f"{self.node.type}.{name}", self.opset):
            return self.integers(name)
        return self.integers_at(position, name)

    def integers_at(self, position: int, what: str) -> list[int] | None:
        """The numbers of a constant input of integers; None when it is left out."""
        numbers = self.numbers(position, what)
        if numbers is not None and numbers.dtype.kind not in "iu":
            raise self.wrong(f"{what} (input {position}) are not integers")
        return None if numbers is None else [int(n) for n in numbers.reshape(-1)]

    def check_all_is_used(self) -> None:
        """Refuse the node when it has attributes or inputs that the reader does not take."""
        check_attributes(self.node, {*self.node.attributes}.difference(self.attributes.left()))
        if unread := [at for at, value in enumerate(self.inputs) if value is not None and at not in self.taken]:
            raise self.wrong(f"a node of this type has no input {unread[0]}", "remove it if the results stay the same")

    # --- inputs

    def at(self, position: int) -> Value | None:
        self.taken.add(position)
        return self.inputs[position] if position < len(self.inputs) else None

    def all_inputs(self) -> tuple[Value | None, ...]:
        self.taken.update(range(len(self.inputs)))
        return self.inputs

    @property
    def input(self) -> OnnxTensor:
        """The first input, which depends on the network's input."""
        return self.tensor(0)

    def tensor(self, position: int) -> OnnxTensor:
        value = self.at(position)
        if not isinstance(value, OnnxTensor):
            kind = "missing" if value is None else "a constant"
            raise self.unsupported(f"a node of this type whose input {position} is {kind} cannot be converted")
        return value

    @property
    def map(self) -> OnnxTensor:
        """The first input: batch (of one), channels, height and width, or the first three of these."""
        x = self.input
        if x.rank not in (3, 4) or x.dims[0] != 1:
            dims = nchw.text_of(x.dims)
            raise self.unsupported(
                f"a node of this type on {dims} cannot be converted; it takes a batch of one, channels, height and width",
                "three-dimensional networks cannot run on the device"
                if x.rank == 5
                else "export it for a batch of one",
            )
        return x

    def stored(self, position: int, what: str) -> Stored | None:
        """An input that must be a constant; None when it is left out."""
        value = self.at(position)
        if isinstance(value, OnnxTensor):
            raise self.unsupported(
                f"{what} (input {position}) depends on the network's input",
                "export the model with fixed sizes and weights",
            )
        return value

    def needed_stored(self, position: int, what: str) -> Stored:
        value = self.stored(position, what)
        if value is None:
            raise self.wrong(f"{what} (input {position}) is missing")
        return value

    def numbers(self, position: int, what: str) -> Numbers | None:
        value = self.stored(position, what)
        return None if value is None else value.load()

    def shape(self, value: OnnxTensor) -> Shape:
        return self.builder.shape(value.node)

    def axis_in(self, dims: Dims, axis: int) -> int:
        """An axis counted from the front."""
        if not -len(dims) <= axis < len(dims):
            raise self.wrong(f"axis {axis} does not exist: the input has {len(dims)} axes")
        return axis % len(dims)

    # --- weights

    def constant(self, stored: Stored, shape: Dims, what: str = "weights") -> Constant:
        """Weights of this shape, counted as parameters. A file that cannot be read is reported at the end."""
        self.builder.count(self.node.where, what, shape)
        if math.prod(shape) != stored.size:
            raise self.wrong(f"{what} of {nchw.text_of(stored.dims)} do not fit; {nchw.text_of(shape)} would")
        try:
            stored.read(0, 1)
        except ModelError as error:
            self.builder.report(error)
            return Constant.absent(shape)
        return stored.as_constant(shape)

    def vector(self, position: int, size: int, what: str) -> Constant | None:
        """A number for each channel."""
        stored = self.stored(position, what)
        return None if stored is None else self.constant(stored, (size,), what)

    # --- results

    def add(
        self,
        op: Op,
        *inputs: OnnxTensor,
        name: str = "",
        part: str = "",
        dims: Dims | None = None,
        integers: Range | None = None,
    ) -> OnnxTensor:
        """Append a node, named as the first output unless `name` says otherwise. part: names one of several nodes.

        dims: of the result; None for those of the first input, with the lengths that the operator gives them. A map that
        holds the result's elements in another form is reshaped.
        """
        name = name or self.node.where.layer
        part = self.inside_of(part)
        name = f"{name}/{part}" if part else name
        while part and name in self.names:
            name += "_"
        appended = chw_nodes.append(self.builder, op, inputs, name, self.node.where, dims)
        return OnnxTensor(*appended, integers, bounds=_bounds_of(op, inputs))

    def reshape(self, x: OnnxTensor, dims: Dims, *, part: str = "") -> OnnxTensor:
        """The same elements with other axes."""
        return self.add(chw_nodes.reshape(self.shape(x), dims), x, part=part, dims=dims, integers=x.integers)

    def empty(self, dims: Dims) -> Stored:
        """A part of length 0, which depends on no input."""
        return Stored.of(np.zeros(dims, np.int64 if self.input.integers else np.float32))

    def permute(self, x: OnnxTensor, split: Dims, axes: Sequence[int], dims: Dims, *, part: str = "") -> OnnxTensor:
        """x seen as an array of the lengths `split`, its axes permuted as in numpy, and seen again as dims."""
        op = chw_nodes.permute(self.shape(x), split, axes, dims)
        return self.add(op, x, part=part, dims=dims, integers=x.integers)

    def transpose(self, x: OnnxTensor, axes: Sequence[int], *, part: str = "") -> OnnxTensor:
        """x with its axes in another order, as in numpy."""
        return self.permute(x, x.dims, axes, tuple(x.dims[axis] for axis in axes), part=part)

    def on_map_axes(
        self, x: OnnxTensor, axes: Sequence[int], part: str, *, plain: bool = False
    ) -> tuple[OnnxTensor, tuple[Axis, ...]]:
        """x, and the axes of its map that are axes of the array.

        Where the map has no such axes, x is reshaped to (1, before, axes, after), so that they are the height. The axes must
        then be neighbors. plain: also where an axis of length 1 at the front would become the batch.
        """
        map_axes = [nchw.axis_of(x.dims, axis) for axis in axes]
        of_map = tuple(sorted(axis for axis in map_axes if axis is not None))
        if len(of_map) == len(map_axes) and (nchw.is_plain(x.dims) or not plain):
            return x, of_map
        first, last = min(axes), max(axes)
        if any(x.dims[axis] != 1 and axis not in axes for axis in range(first, last + 1)):
            dims = nchw.text_of(x.dims)
            raise self.unsupported(f"a node of this type along the axes {list(axes)} of {dims} cannot be converted")
        lengths = (x.dims[:first], x.dims[first : last + 1], x.dims[last + 1 :])
        inside = prefix_of(part)
        return self.reshape(x, (1, *map(math.prod, lengths)), part=f"{inside}counted_axes"), (Axis.HEIGHT,)

    def inside_of(self, part: str) -> str:
        """The name of a part of what is being read."""
        return "/".join(filter(None, (self.inside, part)))

    # --- errors

    def unsupported(self, message: str, hint: str = "") -> UnsupportedError:
        """This form of the node cannot be converted."""
        return UnsupportedError.of("DV302", message, self.node.where, hint)

    def in_training(self) -> UnsupportedError:
        """The node computes as in training. That is one problem of the whole file, which reads the same for each such node."""
        problem = "the model is in training mode, in which dropouts are random and batch normalizations compute their statistics"
        return UnsupportedError.of(
            "DV302",
            problem,
            Origin(self.node.where.file),
            "export it for inference (PyTorch: model.eval() before the export)",
        )

    def contradiction(self, message: str, hint: str = _AGAIN) -> SettingsError:
        """The node's attributes make no sense with any inputs."""
        return SettingsError.of("DV206", message, self.node.where, hint)

    def wrong(self, message: str, hint: str = _AGAIN) -> ModelError:
        """The node is invalid in ONNX itself."""
        return ModelError.of("DV206", message, self.node.where, hint)


Reader: TypeAlias = Callable[[OnnxReading], Value | Sequence[Value]]

onnx: Registry[Reader] = Registry()


def as_float(values: Numbers) -> Numbers:
    return np.asarray(values, np.float32)
