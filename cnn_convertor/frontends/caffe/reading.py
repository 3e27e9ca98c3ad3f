"""What the reader of a layer works with: the layer's settings, inputs and weights, and the graph under construction."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from cnn_convertor.errors import ModelError, Problem, SettingsError, UnsupportedError, suggestion, warn
from cnn_convertor.frontends import chw_nodes
from cnn_convertor.frontends import nchw as blobs
from cnn_convertor.frontends.builder import Builder
from cnn_convertor.frontends.caffe.definition import CaffeLayer, is_ignored, setting
from cnn_convertor.frontends.caffe.parameters import Blob
from cnn_convertor.frontends.caffe.schema import SKIPPED, values
from cnn_convertor.frontends.caffe.sharing import SharedWeights
from cnn_convertor.frontends.caffe.text import Unknown
from cnn_convertor.frontends.nchw import Dims
from cnn_convertor.frontends.readers import Registry, Settings
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Axis, Op, Pair, Shape, Window

# Settings that never change what a trained layer computes.
HARMLESS = frozenset(
    {"bias_filler", "dropout_ratio", "filler", "force_nd_im2col", "momentum", "moving_average_fraction", "scale_filler",
     "shift_filler", "slope_filler", "stable_prod_grad", "weight_filler"}
)  # fmt: skip
MOST_OUTPUTS = 1 << 24


class Mask(NamedTuple):
    """The positions of a pooling's maxima. pooled: the node that gives the map which is pooled."""

    pooled: str
    window: Window


class CaffeBlob(NamedTuple):
    """A blob: the node that computes it, and its length along each of Caffe's axes, for a batch of one.

    mask: set for the second blob of a pooling, which no node computes: `node` is the pooling itself.
    """

    node: str
    dims: Dims
    mask: Mask | None = None

    @property
    def rank(self) -> int:
        return len(self.dims)


class Parameters(Settings):
    """A layer's parameter message; a field that the file does not give has the format's default."""

    def __init__(self, message: Any, declared: Iterable[str] = (), ignored: Iterable[str] = ()) -> None:
        super().__init__({} if message is None else values(message), frozenset(declared), HARMLESS.union(ignored))
        self._message = message

    def take(self, name: str, default: Any = None) -> Any:
        return super().take(name, setting(self._message, name) if default is None else default)


@dataclass(frozen=True, slots=True)
class CaffeReading:
    """One layer that is being read. needed: which of its tops other layers or the user read.

    size: (height, width) of every input map, in place of the definition's. batch: the definition's batch size.
    """

    layer: CaffeLayer
    group: str
    settings: Parameters
    inputs: tuple[CaffeBlob, ...]
    needed: tuple[bool, ...]
    size: Pair | None
    batch: int
    builder: Builder
    weights: SharedWeights | None  # None: the network is inspected without weights

    # --- settings

    def take(self, name: str, default: Any = None) -> Any:
        """A setting, or else the default given here, or else the format's."""
        return self.settings.take(name, default)

    def take_each(self, *names: str) -> tuple[Any, ...]:
        return tuple(map(self.settings.take, names))

    def gives(self, name: str) -> bool:
        """Whether the definition gives a setting."""
        return name in self.settings

    def number_of_outputs(self) -> int:
        outputs = int(self.take("num_output"))
        if outputs < 1:
            raise self.contradiction('"num_output" is missing')
        if outputs > MOST_OUTPUTS:
            raise self.contradiction(f'"num_output" is {outputs}, more than {MOST_OUTPUTS}')
        return outputs

    def check_all_is_used(self) -> None:
        """Refuse the layer when it has settings that the reader does not take."""
        unread = [f"{self.group}.{name}" for name in self.settings.left()]
        if values(self.layer.message).get("phase") == "TRAIN":
            unread.append("phase: TRAIN")
        if unread:
            plural = "s" * (len(unread) > 1)
            raise self.unsupported(
                f"the setting{plural} {', '.join(unread)} cannot be converted", "remove it if the results stay the same"
            )
        for unknown in self.layer.unknown:
            self._check_known(unknown)
        for field, _ in self.layer.message.ListFields():
            is_parameter = field.name.endswith("_param") and field.message_type.full_name != SKIPPED
            if is_parameter and field.name != self.group:
                problem = f'"{field.name}" does not belong to a layer of this type and is ignored'
                warn(Problem("DV210", problem, self.layer.origin))

    def _check_known(self, unknown: Unknown) -> None:
        """Refuse a field that Caffe does not have among the layer's settings, or where the settings' name is misspelled."""
        if not self.group:
            return
        where = replace(self.layer.origin, line=unknown.line)
        if unknown.group == self.group and not is_ignored(unknown):
            fields = getattr(self.layer.message, self.group).DESCRIPTOR.fields_by_name
            near = suggestion(unknown.name, fields)
            hint = f"remove it if the results stay the same{near and f', or correct its name: {near}'}"
            name = f"{self.group}.{unknown.name}"
            raise UnsupportedError.of("DV302", f"the setting {name} is not one of Caffe's", where, hint)
        if not unknown.group and (hint := suggestion(unknown.name, [self.group], strict=True)):
            raise UnsupportedError.of("DV302", f'the field "{unknown.name}" is not one of Caffe\'s', where, hint)

    # --- inputs

    @property
    def input(self) -> CaffeBlob:
        """The layer's only input."""
        if len(self.inputs) != 1:
            raise self.unsupported(f"a layer of this type with {len(self.inputs)} inputs cannot be converted")
        return self.inputs[0]

    def check_inputs(self, number: int, what: str) -> None:
        if len(self.inputs) != number:
            raise self.wrong(f"the layer needs {what}, not {len(self.inputs)} inputs")

    @property
    def map(self) -> CaffeBlob:
        """The layer's only input, a map."""
        return self.as_map(self.input)

    def as_map(self, value: CaffeBlob) -> CaffeBlob:
        """The blob, which must be a map."""
        if value.rank != 4:
            raise self.wrong(f"the layer needs a map (batch, channels, height, width), not {value.rank} axes")
        return self.as_plain(value)

    def as_plain(self, value: CaffeBlob) -> CaffeBlob:
        """The blob, whose axes must be batch (of one), channels, height and width, or the first of these."""
        if not blobs.is_plain(value.dims):
            dims = blobs.text_of(value.dims)
            raise self.unsupported(
                f"a layer of this type on {dims} cannot be converted; on batch (of one), channels, height and width it can",
                "bring the blob to that form with a Reshape before the layer",
            )
        return value

    def shape(self, value: CaffeBlob) -> Shape:
        return self.builder.shape(value.node)

    def axis(self, name: str = "axis") -> int:
        """The setting `name`: an axis of the first input, counted from the front."""
        axis = int(self.take(name))
        rank = self.inputs[0].rank
        if not -rank <= axis < rank:
            raise self.wrong(f"{name} is {axis}, but the input has {rank} axes")
        return axis % rank

    def axis_of_map(self, value: CaffeBlob, axis: int) -> Axis:
        """The map's axis that is an axis of the blob."""
        map_axis = blobs.axis_of(value.dims, axis)
        if map_axis is None:
            dims = blobs.text_of(value.dims)
            raise self.unsupported(f"a layer of this type on axis {axis} of {dims} cannot be converted")
        return map_axis

    # --- weights

    def constants(self, *shapes: tuple[int, ...]) -> list[Constant]:
        """The layer's blobs as constants of these shapes.

        Where the file has other shapes, or none, the builder keeps the problem and placeholders take their place, so that
        one error names all such layers.
        """
        for index, shape in enumerate(shapes):
            self.builder.count(self.layer.origin, index, shape)
        if self.weights is None:
            return [Constant.absent(shape) for shape in shapes]
        try:
            stored = self.weights.blobs(self.layer, len(shapes))
        except ModelError as error:
            self.builder.report(error)
            return [Constant.absent(shape) for shape in shapes]
        return [
            self._constant(index, blob, shape) for index, (blob, shape) in enumerate(zip(stored, shapes, strict=True))
        ]

    def _constant(self, index: int, blob: Blob, shape: tuple[int, ...]) -> Constant:
        if blobs.is_regrouped(blob.shape, shape):  # old files have four axes for everything, or join axes
            return Constant.in_order(shape, blob.numbers)
        if not any(self.builder.is_guessed(value.node) for value in self.inputs):
            assert self.weights is not None
            sizes = f"{blobs.text_of(blob.shape)} in {self.weights.file.path.name}, but the definition needs {blobs.text_of(shape)}"
            hint = "check that the definition and the weights belong to the same network"
            if self.layer.type == "InnerProduct" and shape[0] in blob.shape[:-1]:
                size = "width_override and height_override, or the size in the definition"
                hint = f"the layer was trained for another size of the network's input: check {size}"
            self.builder.report(
                ModelError.of("DV205", f"blob {index} of the layer is {sizes}", self.layer.origin, hint)
            )
        return Constant.absent(shape)

    def weight_and_bias(self, shape: tuple[int, ...], outputs: int) -> tuple[Constant, Constant | None]:
        weight, *bias = self.constants(shape, *[(outputs,)] * bool(self.take("bias_term")))
        return weight, bias[0] if bias else None

    # --- results

    def add(self, op: Op, *inputs: CaffeBlob, name: str = "", part: str = "", dims: Dims | None = None) -> CaffeBlob:
        """Append a node, named as the layer unless `name` says otherwise. part: names one of several nodes of the layer.

        dims: of the result; None for those of the first input, with the lengths that the operator gives them. A map that
        holds the result's elements in another form is reshaped.
        """
        name = name or (f"{self.layer.name}/{part}" if part else self.layer.name)
        return CaffeBlob(*chw_nodes.append(self.builder, op, inputs, name, self.layer.origin, dims))

    def reshape(self, x: CaffeBlob, dims: Dims, *, part: str = "") -> CaffeBlob:
        """The same elements with other axes."""
        return self.add(chw_nodes.reshape(self.shape(x), dims), x, part=part, dims=dims)

    def permute(self, x: CaffeBlob, split: Dims, axes: Dims, dims: Dims, *, part: str = "") -> CaffeBlob:
        """x seen as an array of the lengths `split`, its axes permuted as in numpy, and seen again as dims."""
        return self.add(chw_nodes.permute(self.shape(x), split, axes, dims), x, part=part, dims=dims)

    # --- errors

    def unsupported(self, message: str, hint: str = "") -> UnsupportedError:
        """This form of the layer cannot be converted."""
        return UnsupportedError.of("DV302", message, self.layer.origin, hint)

    def contradiction(self, message: str, hint: str = "") -> SettingsError:
        """The layer's settings make no sense with any inputs."""
        return SettingsError.of("DV206", message, self.layer.origin, hint)

    def wrong(self, message: str, hint: str = "") -> ModelError:
        """The layer is invalid in Caffe itself."""
        return ModelError.of("DV206", message, self.layer.origin, hint)


Reader: TypeAlias = Callable[[CaffeReading], CaffeBlob | Sequence[CaffeBlob]]

caffe: Registry[Reader] = Registry()
