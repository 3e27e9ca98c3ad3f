"""What a reader of one layer type works with: the layer's settings, inputs and arrays, and the graph that grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from cnn_convertor.errors import ModelError, Origin, Problem, UnsupportedError
from cnn_convertor.frontends.builder import Builder
from cnn_convertor.frontends.keras.model import Layer
from cnn_convertor.frontends.keras.storage import Index, Variable
from cnn_convertor.frontends.keras.tensors import DATA_FORMATS, Axes, Value
from cnn_convertor.frontends.keras.variables import slots
from cnn_convertor.frontends.keras.weights import Weights
from cnn_convertor.frontends.registry import Registry, Settings
from cnn_convertor.ir.constant import Array, Constant
from cnn_convertor.ir.ops import Op, Pair, Shape

# Settings that never change what a trained layer computes. `dtype` is looked at for every layer.
HARMLESS = frozenset(
    {"name", "trainable", "dtype", "autocast", "batch_input_shape", "batch_shape", "batch_size", "input_dtype", "input_shape",
     "activity_regularizer", "kernel_initializer", "bias_initializer", "kernel_regularizer", "bias_regularizer",
     "kernel_constraint", "bias_constraint", "depthwise_initializer", "depthwise_regularizer", "depthwise_constraint",
     "pointwise_initializer", "pointwise_regularizer", "pointwise_constraint", "alpha_initializer", "alpha_regularizer",
     "alpha_constraint", "beta_initializer", "gamma_initializer", "moving_mean_initializer", "moving_variance_initializer",
     "beta_regularizer", "gamma_regularizer", "beta_constraint", "gamma_constraint"}
)  # fmt: skip
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16"})


@dataclass(frozen=True, slots=True)
class Reading:
    """One call of one layer. inputs: what it reads."""

    layer: Layer
    settings: Settings
    inputs: tuple[Value, ...]
    builder: Builder
    weights: Weights
    origin: Origin
    map_axes: Callable[[], Axes]  # the layout in which later layers take this layer's output, should it be a map
    size: tuple[int, int] | None  # the input size to convert for

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

    def map_input(self) -> Value:
        """The only input, a map laid out as the layer's data_format says."""
        wanted = self.data_format()
        if self.input.axes not in (Axes.HWC, Axes.CHW):
            self.misfit(f"the layer takes a map (height, width, channels), not a tensor of {self.input.axes.rank} axes")
        if self.input.axes is not wanted:
            self.misfit(
                f"the layer takes its input as {wanted.value}, but it comes as {self.input.axes.value}",
                "give all layers the same data_format",
            )
        return self.input

    def data_format(self) -> Axes:
        given = self.settings.take("data_format")
        if given not in (None, "channels_last", "channels_first"):
            self.refuse(f"data_format is {given!r}", "use channels_last or channels_first")
        return DATA_FORMATS[given]

    # --- settings ---

    def pair(self, name: str, default: Any = 1) -> Pair:
        """A setting that is (height, width), or one number for both."""
        match self.settings.take(name, default):
            case bool():
                pass
            case int(both):
                return self._sizes(name, both, both)
            case [int(height), int(width)]:
                return self._sizes(name, height, width)
            case [int(both)]:  # written so by some versions
                return self._sizes(name, both, both)
        self.refuse(f"{name} is {self.settings.take(name, default)!r}, not (height, width)")

    def _sizes(self, name: str, height: int, width: int) -> Pair:
        if min(height, width) < 1:
            self.refuse(f"{name} is ({height}, {width}); it must be at least 1")
        return Pair(height, width)

    def number(self, name: str, default: float) -> float:
        """A setting that is a number; some versions wrote NumPy arrays."""
        found = self.settings.take(name, default)
        if isinstance(found, dict):
            found = found.get("value", found.get("config"))
            found = found.get("value") if isinstance(found, dict) else found
        if not isinstance(found, (int, float)) or isinstance(found, bool):
            self.refuse(f"{name} is {found!r}, not a number")
        return float(found)

    def integer(self, name: str, default: int = 1) -> int:
        found = self.settings.take(name, default)
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            self.refuse(f"{name} is {found!r}, not a whole number above 0")
        return found

    def flag(self, name: str, default: bool) -> bool:
        return bool(self.settings.take(name, default))

    def same(self) -> bool:
        """Whether `padding` is "same" rather than "valid"."""
        padding = self.settings.take("padding", "valid")
        if padding not in ("same", "valid"):
            self.refuse(f"padding is {padding!r}", "use 'same', 'valid' or a ZeroPadding2D layer")
        return bool(padding == "same")

    # --- arrays ---

    def variable(self, role: str, shape: Sequence[int]) -> Variable:
        """The layer's array of that role. Raises ModelError when it is not there or has another shape."""
        roles = [slot.role for slot in slots(self.layer.type, self.layer.config)]
        arrays = self.weights.arrays.get(self.layer.key, ())
        where = Origin(self.weights.file, self.layer.name, self.layer.type)
        if not arrays:
            hint = "check that `data` names the weights of this network"
            raise ModelError(
                Problem("DV204", f"the file has no weights for this layer ({', '.join(roles)})", where, hint)
            )
        if len(arrays) != len(roles):
            reason = f"the layer has {len(roles)} arrays ({', '.join(roles)}), but the file has {len(arrays)} for it"
            raise ModelError(Problem("DV204", reason, where, "check that `data` names the weights of this network"))
        array = arrays[roles.index(role)]
        if array.shape != tuple(shape):
            reason = f"{role} must have the shape {tuple(shape)}, but has {array.shape} in the file ({array.name})"
            hint = "check the layer's input size, and that `data` names the weights of this network"
            raise ModelError(Problem("DV205", reason, where, hint))
        if array.flaw:
            raise ModelError(
                Problem("DV201", f"the array {array.name!r} {array.flaw}", where, "save or copy the model again")
            )
        return array

    def vector(self, role: str, size: int) -> Constant:
        """One number a channel."""
        return constant((size,), self.variable(role, (size,)), lambda rows: (rows,), lambda values: values)

    # --- results ---

    def add(self, op: Op, *inputs: str, part: str = "") -> str:
        """Append a node (by default on the only input). part: what it does of a layer that becomes several nodes."""
        name = f"{self.layer.name}/{part}" if part else self.layer.name
        return self.builder.add(name, op, inputs or (self.input.node,), self.origin)

    def refuse(self, reason: str, hint: str = "") -> NoReturn:
        """The layer's settings cannot be converted."""
        raise UnsupportedError(Problem("DV302", reason, self.origin, hint))

    def misfit(self, reason: str, hint: str = "") -> NoReturn:
        """The layer cannot be converted with the inputs that it has; says nothing when these were guessed."""
        problem = Problem("DV302", reason, self.origin, hint)
        if any(self.builder.is_guessed(value.node) for value in self.inputs):
            raise ModelError(problem)  # which the builder drops: it may follow from the guess
        raise UnsupportedError(problem)


Reader: TypeAlias = Callable[[Reading], Value]
keras: Registry[Reader] = Registry()


def constant(
    shape: tuple[int, ...], variable: Variable, index: Callable[[slice], Index], turn: Callable[[Array], Array]
) -> Constant:
    """An array of a file as a constant. index: rows -> what to read; turn: what was read -> (rows, *shape[1:])."""
    return Constant(shape, lambda rows: turn(variable.read(index(rows))))


def check_leftovers(reading: Reading) -> None:
    """Refuse settings that no reader knows; None means that a feature is off."""
    dtype = _dtype(reading.settings.take("dtype"))
    unknown = [f"{name} = {value!r}" for name, value in reading.settings.left().items() if value is not None]
    if dtype not in FLOATS and reading.layer.type != "InputLayer":
        unknown.append(f"dtype = {dtype!r}")
    if unknown:
        raise UnsupportedError(
            [
                Problem("DV302", f"the setting {text} is not supported", reading.origin, "set it to its default")
                for text in unknown
            ]
        )


def _dtype(value: Any) -> str:
    if isinstance(value, Mapping):
        config = value.get("config")
        value = config.get("name") if isinstance(config, Mapping) else value.get("class_name")
    return "float32" if value is None else str(value)
