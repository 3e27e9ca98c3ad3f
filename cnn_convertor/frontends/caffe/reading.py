"""What a reader of a layer works with: the layer's settings, inputs and weights, and the graph in the making."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cnn_convertor.errors import ModelError, Problem, SettingsError, UnsupportedError, warn
from cnn_convertor.frontends.builder import Builder
from cnn_convertor.frontends.caffe import blobs
from cnn_convertor.frontends.caffe.blobs import Dims
from cnn_convertor.frontends.caffe.definition import Layer, setting
from cnn_convertor.frontends.caffe.schema import values
from cnn_convertor.frontends.caffe.sharing import SharedWeights
from cnn_convertor.frontends.caffe.weights import Blob
from cnn_convertor.frontends.readers import Registry, Settings
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Axis, Identity, Op, Order, Pair, Reshape, Shape, ShapeError, TransposeReshape, Window

# Settings that never change what a trained layer computes.
HARMLESS = frozenset(
    {
        "bias_filler",
        "dropout_ratio",
        "filler",
        "force_nd_im2col",
        "momentum",
        "moving_average_fraction",
        "scale_filler",
        "shift_filler",
        "slope_filler",
        "stable_prod_grad",
        "weight_filler",
    }
)


class Mask(NamedTuple):
    """Where the maxima of a pooling are. pooled: the node that gives the map which is pooled."""

    pooled: str
    window: Window


class Value(NamedTuple):
    """A blob: the node that gives it, and the length of each axis that Caffe counts in it, for a batch of one.

    mask: of the second blob of a pooling, which no node gives: `node` is the pooling itself.
    """

    node: str
    dims: Dims
    mask: Mask | None = None

    @property
    def rank(self) -> int:
        return len(self.dims)


class Parameters(Settings):
    """One of a layer's parameter messages; a field that the file does not give has the format's default."""

    def __init__(self, message: Any) -> None:
        super().__init__(values(message), HARMLESS)
        self.message = message

    def take(self, name: str, default: Any = None) -> Any:
        return super().take(name, setting(self.message, name) if default is None else default)

    def take_pair(self, name: str, short: str, *, default: int | None = None) -> Pair | None:
        """Height and width from `name`, given once or as (h, w), or from `short_h` and `short_w`. None: not given."""
        both, height, width = self.take(name), f"{short}_h", f"{short}_w"
        given = [part in self for part in (height, width)]
        sides = [self.take(part) for part in (height, width)]
        if any(given):
            if both:
                raise ValueError(f'"{name}" is given, and "{height}" or "{width}" too')
            if not all(given) and default != 0:
                raise ValueError(f'"{height}" and "{width}" must be given together')
            return Pair(*sides)
        if len(both) > 2:
            raise ValueError(f'"{name}" is given {len(both)} times: once, or (height, width), is possible')
        if both:
            return Pair(both[0], both[-1])
        return None if default is None else Pair(default, default)


@dataclass(frozen=True, slots=True)
class Reading:
    """One layer that is being read."""

    layer: Layer
    inputs: tuple[Value, ...]
    needed: tuple[bool, ...]
    size: Pair | None
    batch: int
    builder: Builder
    weights: SharedWeights | None  # None: they are not there, and nobody asks for their values
    asked: dict[str, Parameters] = field(default_factory=dict)

    # --- settings

    def parameters(self, name: str) -> Parameters:
        """One of the layer's parameter messages, empty when the file does not give it."""
        if name not in self.asked:
            self.asked[name] = Parameters(getattr(self.layer.message, name))
        return self.asked[name]

    def check_all_is_used(self) -> None:
        """Refuse the layer when it has settings that no reader looked at."""
        left = [f"{message}.{name}" for message, parameters in self.asked.items() for name in parameters.left()]
        if values(self.layer.message).get("phase") == "TRAIN":
            left.append("phase: TRAIN")
        if left:
            plural = "s" * (len(left) > 1)
            raise self.unsupported(
                f"the setting{plural} {', '.join(left)} cannot be converted", "take it out if the results are the same"
            )
        for descriptor, _ in self.layer.message.ListFields():
            if (
                descriptor.name.endswith("_param")
                and descriptor.name not in self.asked
                and descriptor.message_type.name != "Skipped"
            ):
                problem = f'"{descriptor.name}" does not belong to a layer of this type, and is left out'
                warn(Problem("DV210", problem, self.layer.origin))

    # --- inputs

    @property
    def input(self) -> Value:
        """The layer's only input."""
        if len(self.inputs) != 1:
            raise self.unsupported(f"a layer of this type with {len(self.inputs)} inputs cannot be converted")
        return self.inputs[0]

    @property
    def map(self) -> Value:
        """The layer's only input, a map."""
        return self.as_map(self.input)

    def as_map(self, value: Value) -> Value:
        """The value, which must be a map."""
        if value.rank != 4:
            raise self.wrong(f"the layer needs a map (batch, channels, height, width), not {value.rank} axes")
        return self.as_plain(value)

    def as_plain(self, value: Value) -> Value:
        """The value, whose axes must be batch (of one), channels, height and width, or the first of these."""
        if not blobs.is_plain(value.dims):
            dims = blobs.text_of(value.dims)
            raise self.unsupported(
                f"a layer of this type on {dims} cannot be converted; on batch (of one), channels, height and width can",
                "bring the blob to that form by a Reshape before the layer",
            )
        return value

    def shape(self, value: Value) -> Shape:
        return self.builder.shape(value.node)

    def axis(self, parameters: Parameters, name: str = "axis") -> int:
        """An axis of the first input, counted from the front."""
        return self.counted_axis(int(parameters.take(name)), name)

    def counted_axis(self, axis: int, name: str = "axis") -> int:
        rank = self.inputs[0].rank
        if not -rank <= axis < rank:
            raise self.wrong(f"{name} is {axis}, but the input has {rank} axes")
        return axis % rank

    def axis_of_map(self, value: Value, axis: int) -> Axis:
        """Which axis of the map is the blob's."""
        found = blobs.axis_of(value.dims, axis)
        if found is None:
            dims = blobs.text_of(value.dims)
            raise self.unsupported(f"a layer of this type on axis {axis} of {dims} cannot be converted")
        return found

    # --- weights

    def constants(self, *shapes: tuple[int, ...]) -> list[Constant]:
        """The layer's blobs as constants of these shapes.

        Where the file has others, or none, the problem is kept for the end, and the reading goes on with stand-ins, so
        that all such layers are found at once.
        """
        for index, shape in enumerate(shapes):
            self.builder.count(self.layer.origin, index, shape)
        if self.weights is None:
            return [Constant.absent(shape) for shape in shapes]
        file = self.weights.weights.path.name
        try:
            found = self.weights.blobs(self.layer, len(shapes))
        except ModelError as error:
            self.builder.report(error)
            return [Constant.absent(shape) for shape in shapes]
        return [
            self._constant(file, index, blob, shape)
            for index, (blob, shape) in enumerate(zip(found, shapes, strict=True))
        ]

    def _constant(self, file: str, index: int, blob: Blob, shape: tuple[int, ...]) -> Constant:
        # Axes of 1 do not move a number: old files have four axes for everything.
        held_dims, needed_dims = ([dim for dim in dims if dim != 1] for dims in (blob.shape, shape))
        if held_dims != needed_dims:
            held, expected = ("x".join(map(str, dims)) or "one number" for dims in (blob.shape, shape))
            problem = f"blob {index} of the layer is {held} in {file}, but the definition needs {expected}"
            if not any(self.builder.is_guessed(value.node) for value in self.inputs):
                hint = "are the definition and the weights of the same network?"
                if self.layer.type == "InnerProduct" and held_dims[:1] == needed_dims[:1]:
                    size = "width_override and height_override, or the size in the definition"
                    hint = f"the layer was trained for another size of the network's input: check {size}"
                self.builder.report(ModelError(Problem("DV205", problem, self.layer.origin, hint)))
            return Constant.absent(shape)
        return from_blob(blob, shape)

    # --- results

    def add(self, op: Op, *inputs: Value, name: str = "", dims: Dims | None = None) -> Value:
        """Append a node, called as the layer unless `name` says otherwise.

        dims: of the result; None is those of the first input, with the lengths that the operator gives them. A map that
        holds the result's elements in another form is brought to the one that dims have.
        """
        name = name or self.layer.name
        nodes = [value.node for value in inputs]
        made = self._shape_after(op, inputs)
        if dims is not None and made is not None and made != blobs.shape_of(dims):
            nodes = [self.builder.add(f"{name}/counted", op, nodes, self.layer.origin)]
            op = Reshape(blobs.shape_of(dims), Order.CHW)
        node = self.builder.add(name, op, nodes, self.layer.origin)
        result = Value(node, self._dims_after(node, inputs[0]) if dims is None else dims)
        assert blobs.shape_of(result.dims) == self.builder.shape(node), f"{result.dims} of {self.builder.shape(node)}"
        return result

    def _shape_after(self, op: Op, inputs: Sequence[Value]) -> Shape | None:
        """The operator's output shape; None when its inputs do not fit, which the builder says better."""
        try:
            return op.output_shape(*map(self.shape, inputs))
        except (ShapeError, TypeError):
            return None

    def _dims_after(self, node: str, first: Value) -> Dims:
        """The first input's dims, with the lengths that the node's map has."""
        if self.builder.shape(node) == self.shape(first):
            return first.dims
        assert blobs.is_plain(first.dims)
        height, width, channels = self.builder.shape(node)
        return (1, channels, height, width)[: first.rank]

    def reshape(self, x: Value, dims: Dims, *, name: str = "") -> Value:
        """The same elements with other axes."""
        if blobs.shape_of(dims) == self.shape(x):
            return self.add(Identity(), x, name=name, dims=dims)
        return self.add(Reshape(blobs.shape_of(dims), Order.CHW), x, name=name, dims=dims)

    def permute(self, x: Value, split: Dims, axes: Dims, dims: Dims, *, name: str = "") -> Value:
        """x counted as an array of the lengths `split`, its axes permuted as numpy does, and counted again as dims."""
        moved = [axis for axis in axes if split[axis] != 1]
        if moved == sorted(moved):
            return self.reshape(x, dims, name=name)
        kept = sorted(moved)
        lengths, order = tuple(split[axis] for axis in kept), tuple(map(kept.index, moved))
        return self.add(TransposeReshape(lengths, order, blobs.shape_of(dims), Order.CHW), x, name=name, dims=dims)

    def unsupported(self, message: str, hint: str = "") -> UnsupportedError:
        """An error: this form of the layer cannot be converted."""
        return UnsupportedError(Problem("DV302", message, self.layer.origin, hint))

    def contradiction(self, message: str, hint: str = "") -> SettingsError:
        """An error: the layer's settings alone make no sense."""
        return SettingsError(Problem("DV206", message, self.layer.origin, hint))

    def wrong(self, message: str, hint: str = "") -> ModelError:
        """An error: the layer makes no sense, in Caffe either."""
        return ModelError(Problem("DV206", message, self.layer.origin, hint))


def from_blob(blob: Blob, shape: tuple[int, ...]) -> Constant:
    """The blob's numbers, in their order, as a constant of a shape."""
    row = int(np.prod(shape[1:], dtype=np.int64))
    return Constant(shape, lambda rows: blob.numbers(rows.start * row, rows.stop * row).reshape(-1, *shape[1:]))


Reader: TypeAlias = Callable[[Reading], Value | Sequence[Value]]

caffe: Registry[Reader] = Registry()

# --- what several readers need


MOST_OUTPUTS = 1 << 24


def number_of_outputs(reading: Reading, parameters: Parameters) -> int:
    outputs = int(parameters.take("num_output"))
    if outputs < 1:
        raise reading.contradiction('"num_output" is missing')
    if outputs > MOST_OUTPUTS:
        raise reading.contradiction(f'"num_output" is {outputs}, more than any network has')
    return outputs


def weight_and_bias(
    reading: Reading, parameters: Parameters, shape: tuple[int, ...], outputs: int
) -> tuple[Constant, Constant | None]:
    weight, *bias = reading.constants(shape, *[(outputs,)] * bool(parameters.take("bias_term")))
    return weight, bias[0] if bias else None


def filled(value: float, channels: int) -> Constant:
    """The same number for each channel."""
    return Constant.of(np.broadcast_to(np.float32(value), (channels,)))


def for_all(numbers: Constant, channels: int) -> Constant:
    """The numbers themselves; a single one for each channel."""
    return filled(float(numbers.load()[0]), channels) if numbers.shape == (1,) else numbers


def numbered(name: str) -> Iterator[str]:
    """name1, name2, ..."""
    return (f"{name}{number}" for number in count(1))
