"""What the reader of a layer works with: the layer's settings, inputs and arrays, and the graph under construction."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np

from cnn_convertor.errors import ModelError, Origin, Problem, UnsupportedError
from cnn_convertor.frontends.arithmetic import range_of
from cnn_convertor.frontends.builder import Builder
from cnn_convertor.frontends.keras.axes import DATA_FORMATS, Axes, Rearranged, Value
from cnn_convertor.frontends.keras.hdf5 import Index, Variable
from cnn_convertor.frontends.keras.model import Arguments, KerasLayer
from cnn_convertor.frontends.keras.parameters import LayerArrays
from cnn_convertor.frontends.keras.variables import slots
from cnn_convertor.frontends.readers import Registry, Settings
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array, Constant
from cnn_convertor.ir.ops import Op, Order, Pair, Shape

# Settings that never change what a trained layer computes. `dtype` is checked for every layer.
HARMLESS = frozenset(
    {"name", "trainable", "dtype", "autocast", "batch_input_shape", "batch_shape", "batch_size", "input_dtype", "input_shape",
     "activity_regularizer", "kernel_initializer", "bias_initializer", "kernel_regularizer", "bias_regularizer",
     "kernel_constraint", "bias_constraint", "depthwise_initializer", "depthwise_regularizer", "depthwise_constraint",
     "pointwise_initializer", "pointwise_regularizer", "pointwise_constraint", "alpha_initializer", "alpha_regularizer",
     "alpha_constraint", "beta_initializer", "gamma_initializer", "moving_mean_initializer", "moving_variance_initializer",
     "beta_regularizer", "gamma_regularizer", "beta_constraint", "gamma_constraint"}
)  # fmt: skip
EPSILON = 1e-7  # keras.backend.epsilon()
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16"})
_INTEGERS = {
    name: range_of(np.dtype(name))
    for name in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
}


@dataclass(frozen=True, slots=True)
class KerasReading:
    """One call of one layer.

    map_axes: rank -> the layout in which later layers read this layer's output. size: of the input, to convert for.
    version: of the Keras that saved the file, its first number; writer: all of it, as the file gives it.
    arguments: of the call, whose tensors are the inputs.
    """

    layer: KerasLayer
    settings: Settings
    inputs: tuple[Value, ...]
    builder: Builder
    weights: LayerArrays
    origin: Origin
    map_axes: Callable[[int], Axes]
    size: tuple[int, int] | None
    version: int
    writer: str
    arguments: Arguments

    # --- inputs ---

    @property
    def input(self) -> Value:
        """The only input."""
        if len(self.inputs) != 1:
            self.misfit(f"the layer takes one input, not {len(self.inputs)}")
        return self.inputs[0]

    @property
    def shape(self) -> Shape:
        """Shape of the only input."""
        return self.builder.shape(self.input.node)

    @property
    def is_1d(self) -> bool:
        """Whether the layer works on rows of channels."""
        return "1D" in self.layer.type

    def map_input(self) -> Value:
        """The only input, a map (or rows of channels) in the layout of the layer's data_format."""
        layout = self.data_format()
        if len(self.sizes(self.input)) != layout.rank - 1:
            what = "rows (steps, channels)" if self.is_1d else "a map (height, width, channels)"
            self.misfit(f"the layer takes {what}, not a tensor of {len(self.sizes(self.input)) + 1} axes")
        return self.as_axes(self.input, layout)

    def data_format(self) -> Axes:
        setting = self.take("data_format")
        if setting not in (None, "channels_last", "channels_first"):
            self.refuse(f"data_format is {setting!r}", "use channels_last or channels_first")
        axes = DATA_FORMATS[setting]
        return {Axes.HWC: Axes.WC, Axes.CHW: Axes.CW}[axes] if self.is_1d else axes

    # --- settings ---

    def take(self, name: str, default: Any = None) -> Any:
        """A setting, or the default when the file does not give it."""
        return self.settings.take(name, default)

    @property
    def is_real(self) -> bool:
        """Whether the layer has floating-point numbers."""
        return _dtype(self.take("dtype")) in FLOATS

    @property
    def integers(self) -> tuple[int, int] | None:
        """The smallest and the largest number, if the layer has integers."""
        return _INTEGERS.get(_dtype(self.take("dtype")))

    def pair(self, name: str, default: Any = 1) -> Pair:
        """A setting that is (height, width), or one number for both; of a layer on rows: (1, steps)."""
        match self.take(name, default):
            case bool():
                pass
            case int(steps) | [int(steps)] if self.is_1d:
                return self._sizes(name, 1, steps)
            case _ if self.is_1d:
                pass
            case int(both):
                return self._sizes(name, both, both)
            case [int(height), int(width)]:
                return self._sizes(name, height, width)
            case [int(both)]:  # written so by some versions
                return self._sizes(name, both, both)
        self.refuse(f"{name} is {self.take(name, default)!r}, not (height, width)")

    def _sizes(self, name: str, height: int, width: int) -> Pair:
        if min(height, width) < 1:
            self.refuse(f"{name} is ({height}, {width}); it must be at least 1")
        return Pair(height, width)

    def number(self, name: str, default: float) -> float:
        """A setting that is a number; some versions wrote NumPy arrays."""
        value = plain(self.take(name, default))
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            self.refuse(f"{name} is {value!r}, not a number")
        try:
            return float(value)
        except OverflowError:
            self.refuse(f"{name} is too large for a number")

    def numbers(self, name: str, value: Any) -> Array:
        """A number, or an array of numbers, that the setting or argument `name` is."""
        try:
            return np.asarray(plain(value), np.float32)
        except (TypeError, ValueError):
            self.refuse(f"{name} is {value!r}, not numbers")
        except OverflowError:
            self.refuse(f"{name} is too large for a number")

    def integer(self, name: str, default: int = 1) -> int:
        value = self.take(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.refuse(f"{name} is {value!r}, not a whole number above 0")
        return value

    def flag(self, name: str, default: bool) -> bool:
        return bool(self.take(name, default))

    def same(self) -> bool:
        """Whether `padding` is "same" rather than "valid"."""
        padding = self.take("padding", "valid")
        if padding not in ("same", "valid"):
            self.refuse(f"padding is {padding!r}", "use 'same', 'valid' or a ZeroPadding2D layer")
        return bool(padding == "same")

    # --- arrays ---

    def variable(self, role: str, shape: Sequence[int]) -> Variable:
        """The layer's array of that role. Raises ModelError when it is not there or has another shape."""
        roles = [slot.role for slot in slots(self.layer.type, self.layer.config)]
        if self.weights.arrays is None:
            self.builder.count(self.origin, role, shape)
            return _absent(role, tuple(shape))
        arrays = self.weights.arrays.get(self.layer.key, ())
        where = Origin(self.weights.file, self.layer.name, self.layer.type)
        hint = "check that `data` names the weights of this network"
        if not arrays:
            if where.file == self.origin.file:
                hint = "save it again; as model.h5 if the layer is in two models: a .keras file keeps one of them"
            raise ModelError.of("DV204", f"the file has no weights for this layer ({', '.join(roles)})", where, hint)
        if len(arrays) != len(roles):
            reason = f"the layer has {len(roles)} arrays ({', '.join(roles)}), but the file has {len(arrays)} for it"
            raise ModelError.of("DV204", reason, where, hint)
        self.builder.count(self.origin, role, shape)
        array = arrays[roles.index(role)]
        if array.shape != tuple(shape):
            reason = f"{role} must have the shape {tuple(shape)}, but has {array.shape} in the file ({array.name})"
            size = "the network's input size (width_override and height_override change it)"
            hint = f"check {size}, and that `data` names the weights of this network"
            raise ModelError.of("DV205", reason, where, hint)
        if array.flaw:
            raise ModelError.of(
                "DV201", f"the array {array.name!r} {array.flaw}", where, "save or copy the model again"
            )
        return array

    def whole(self, role: str, shape: Sequence[int]) -> Array:
        """All numbers of the layer's array of that role."""
        return self.variable(role, shape).read((slice(None),) * len(shape))

    def vector(self, role: str, size: int) -> Constant:
        """One number a channel."""
        return constant((size,), self.variable(role, (size,)), lambda rows: (rows,), lambda values: values)

    # --- layouts ---

    def sizes(self, value: Value) -> tuple[int, ...]:
        """The tensor's sizes as the framework counts them, without the batch."""
        return value.sizes or value.axes.sizes(self.builder.shape(value.node))

    def as_axes(self, value: Value, axes: Axes) -> Value:
        """The same tensor, its axes taken for other ones."""
        if value.axes is axes:
            return value
        sizes = self.sizes(value)
        assert len(sizes) == axes.rank - 1
        return self.lay_out(value, sizes, tuple(range(len(sizes))), sizes, axes, part="turned")

    def lay_out(
        self, source: Value, dims: tuple[int, ...], permutation: tuple[int, ...], sizes: tuple[int, ...], axes: Axes,
        *, part: str = "",
    ) -> Value:  # fmt: skip
        """The source tensor reshaped to dims, its axes permuted, and reshaped to sizes; all without the batch."""
        assert sorted(permutation) == list(range(len(dims)))
        straight = list(permutation) == sorted(permutation)
        origin = source.origin
        if origin and straight:
            source, dims, permutation = origin
        elif origin and list(origin.permutation) == sorted(origin.permutation):
            source = origin.source
        target = Shape(1, 1, math.prod(sizes)) if axes is Axes.MANY else axes.shape(sizes)
        node = self._moved(source, dims, permutation, target, axes, part)
        permuted = tuple(dims[axis] for axis in permutation)
        kept = Rearranged(source, dims, permutation) if permuted == sizes else None
        return Value(node, axes, sizes if axes is Axes.MANY else (), kept)

    def _moved(
        self, source: Value, dims: tuple[int, ...], permutation: tuple[int, ...], target: Shape, axes: Axes, part: str
    ) -> str:
        shape = self.builder.shape(source.node)
        permuted = axes.sizes(target) == tuple(dims[axis] for axis in permutation) and axes is not Axes.MANY
        if permuted and dims == source.axes.sizes(shape) and source.axes is not Axes.MANY:
            return self._turned(source, permutation, target, axes, part)
        node = source.node
        orders = {source.axes.order, axes.order}
        if shape.is_vector:
            orders = {axes.order}
        elif target.is_vector:
            orders = {source.axes.order}
        if len(orders) == 2:
            counted = ops.Reshape(Shape(1, 1, shape.size), source.axes.order)
            node = self.add(counted, node, part=f"{part}/counted" if part else "counted")
            orders = {axes.order}
        (order,) = orders
        if list(permutation) == sorted(permutation):
            return self.add(_reshaped(self.builder.shape(node), target, order), node, part=part)
        return self.add(ops.TransposeReshape(dims, permutation, target, order), node, part=part)

    def _turned(self, source: Value, permutation: tuple[int, ...], target: Shape, axes: Axes, part: str) -> str:
        """A permutation of a tensor's own axes is one of the map's."""
        shape = self.builder.shape(source.node)
        positions = ["HWC".index(letter) for letter in source.axes.value]
        ones = [position for position in range(3) if position not in positions]
        moved = tuple(
            positions[permutation[axes.value.index(letter)]] if letter in axes.value else ones.pop() for letter in "HWC"
        )
        longer = [position for position in moved if shape[position] > 1]
        if longer == sorted(longer):
            return self.add(_reshaped(shape, target, Order.HWC), source.node, part=part)
        return self.add(ops.TransposeReshape(tuple(shape), moved, target, Order.HWC), source.node, part=part)

    def counted(self, value: Value, part: str = "counted") -> str:
        """A vector of all elements, counted as the framework does."""
        shape = self.builder.shape(value.node)
        if shape.is_vector:
            return value.node
        return self.add(ops.Reshape(Shape(1, 1, shape.size), value.axes.order), value.node, part=part)

    def counted_back(self, node: str, like: Value) -> Value:
        """A vector of all elements as a tensor like the one it was counted from; the layer's last node."""
        shape = self.builder.shape(like.node)
        return like.computed_by(self.add(_reshaped(self.builder.shape(node), shape, like.axes.order), node))

    # --- results ---

    def add(self, op: Op, *inputs: str, part: str = "") -> str:
        """Append a node (by default on the only input). part: names one of several nodes of the layer."""
        name = f"{self.layer.name}/{part}" if part else self.layer.name
        return self.builder.add(name, op, inputs or (self.input.node,), self.origin)

    def refuse(self, reason: str, hint: str = "") -> NoReturn:
        """The layer's settings cannot be converted."""
        raise UnsupportedError.of("DV302", reason, self.origin, hint)

    def misfit(self, reason: str, hint: str = "") -> NoReturn:
        """The layer cannot be converted with its inputs; not reported when these are guesses."""
        is_guess = any(self.builder.is_guessed(value.node) for value in self.inputs)
        error = ModelError if is_guess else UnsupportedError  # the builder drops a ModelError that a guess may cause
        raise error.of("DV302", reason, self.origin, hint)


def _reshaped(shape: Shape, target: Shape, order: Order) -> Op:
    return ops.Identity() if shape == target else ops.Reshape(target, order)


Reader: TypeAlias = Callable[[KerasReading], Value | Sequence[Value]]
keras: Registry[Reader] = Registry()  # layers
operations: Registry[Reader] = Registry()  # functions that are called between layers


def plain(value: Any) -> Any:
    """A setting without the wrapper in which Keras writes NumPy arrays and tensors."""
    match value:
        case {"class_name": str(), "config": {"value": inner}} | {"value": inner}:
            return inner
        case _:
            return value


def constant(
    shape: tuple[int, ...], variable: Variable, index: Callable[[slice], Index], turn: Callable[[Array], Array]
) -> Constant:
    """An array of a file as a constant. index: rows -> what to read; turn: what was read -> (rows, *shape[1:])."""
    return Constant(shape, lambda rows: turn(variable.read(index(rows)))).in_pieces()


def _absent(role: str, shape: tuple[int, ...]) -> Variable:
    """An array of a network that is inspected without its weights."""
    absent = Constant.absent(shape or (1,))
    return Variable(role, shape, lambda index: absent.load()[index] if shape else absent.load()[0])


def check_dtype(reading: KerasReading) -> None:
    """Refuse a layer that does not compute with floating-point numbers."""
    if not reading.is_real and reading.layer.type != "InputLayer":
        dtype = _dtype(reading.take("dtype"))
        hint = "use floating-point numbers; save a model before it is quantized"
        reading.refuse(f"the setting dtype = {dtype!r} is not supported", hint)


def check_leftovers(reading: KerasReading) -> None:
    """Refuse settings that the reader does not take; None means that a feature is off."""
    unread = [f"{name} = {value!r}" for name, value in reading.settings.left().items() if value is not None]
    if unread:
        hint = "set it to its default"
        problems = [Problem("DV302", f"the setting {text} is not supported", reading.origin, hint) for text in unread]
        raise UnsupportedError(problems)


def _dtype(value: Any) -> str:
    if isinstance(value, Mapping):
        config = value.get("config")
        value = config.get("name") if isinstance(config, Mapping) else value.get("class_name")
    return "float32" if value is None else str(value)
