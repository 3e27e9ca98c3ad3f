"""Maps the axes of Keras's tensors to those of the graph's maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from cnn_convertor.frontends.keras.model import KerasNetwork, LayerCall, LayerOutput
from cnn_convertor.frontends.keras.variables import ADDONS, BATCH_NORMALIZATIONS
from cnn_convertor.ir.ops import Axis, Order, Shape


class Axes(Enum):
    """The axes after the batch. In the graph every tensor is (height, width, channels)."""

    HWC = "HWC"  # a map, channels_last
    CHW = "CHW"  # a map, channels_first
    WC = "WC"  # rows of channels, channels_last: height is 1
    CW = "CW"  # rows of channels, channels_first: height is 1
    HW = "HW"  # an image without channels, as an input may be: channels is 1
    C = "C"  # a vector
    MANY = ""  # more than three axes, between reshapes: a vector of all elements

    @property
    def rank(self) -> int:
        """Number of axes, the batch included. For MANY, ask the Value."""
        return len(self.value) + 1

    @property
    def order(self) -> Order:
        """The order in which Keras counts the elements."""
        return Order.CHW if self in (Axes.CHW, Axes.CW) else Order.HWC

    def at(self, axis: object) -> Axis | None:
        """The map's axis that is an axis of the tensor, as Keras counts it (negative ones from the end)."""
        if isinstance(axis, list) and len(axis) == 1:
            (axis,) = axis
        if not isinstance(axis, int) or isinstance(axis, bool) or not -self.rank <= axis < self.rank:
            return None
        position = axis % self.rank
        return None if position == 0 else Axis("HWC".index(self.value[position - 1]))

    def sizes(self, shape: Shape) -> tuple[int, ...]:
        """The tensor's sizes, without the batch."""
        return tuple(shape["HWC".index(letter)] for letter in self.value)

    def shape(self, sizes: Sequence[int]) -> Shape:
        """The map for a tensor of these sizes."""
        lengths = dict(zip(self.value, sizes, strict=True))
        return Shape(*(lengths.get(letter, 1) for letter in "HWC"))


class Value(NamedTuple):
    """A tensor: the node that computes it, and its axes.

    node: empty for a tensor without elements. sizes: of such a tensor, and of one of MANY axes. origin: the tensor that this one rearranges, if any.
    """

    node: str
    axes: Axes
    sizes: tuple[int, ...] = ()
    origin: Rearranged | None = None

    def computed_by(self, node: str) -> Value:
        """A tensor like this one, that another node computes."""
        return self._replace(node=node, origin=None)


class Rearranged(NamedTuple):
    """A tensor, reshaped to dims, with its axes permuted."""

    source: Value
    dims: tuple[int, ...]
    permutation: tuple[int, ...]


DATA_FORMATS: Mapping[object, Axes] = {None: Axes.HWC, "channels_last": Axes.HWC, "channels_first": Axes.CHW}
_WEAK = ("Flatten", "Concatenate")  # layers that work on any axes, whose settings are weak evidence
NORMALIZATIONS = ("LayerNormalization", "GroupNormalization", "RMSNormalization", "InstanceNormalization", *ADDONS)
# Layers and operations after which axes have another meaning.
_ENDS = frozenset(
    {"Flatten", "Reshape", "Permute", "RepeatVector", "GlobalAveragePooling1D", "GlobalMaxPooling1D", "GlobalAveragePooling2D",
     "GlobalMaxPooling2D", "Transpose", "GetItem", "Squeeze", "ExpandDims", "Stack", "Mean", "Max", "Min", "Sum"}
)  # fmt: skip


def map_axes(network: KerasNetwork, tensor: LayerOutput, rank: int = 4) -> Axes:
    """The layout of a tensor that its own layer does not define: the one that the first layer reading it expects.

    rank: of the tensor, the batch included.
    """
    if rank == 2:
        return Axes.C
    if rank not in (3, 4):
        return Axes.MANY
    first = _channels_first(network, tensor, rank)
    if rank == 4:
        return Axes.CHW if first else Axes.HWC
    return Axes.HW if first is None else Axes.CW if first else Axes.WC


def _channels_first(network: KerasNetwork, tensor: LayerOutput, rank: int) -> bool | None:
    """Whether the channels come first; None when no layer shows it."""
    weak: list[bool] = []
    for call in network.behind(tensor.call, lambda call: call.layer.type not in _ENDS):
        expected = _expected(call, rank)
        if expected is not None and call.layer.type not in _WEAK:
            return expected
        if expected is not None:
            weak.append(expected)
    return weak[0] if weak and rank == 4 else None


def _expected(call: LayerCall, rank: int) -> bool | None:
    """Whether a layer expects the channels first; None when its settings do not show it."""
    config, type = call.layer.config, call.layer.type
    if call.layer.is_operation:
        return None
    if config.get("data_format") is not None:
        return str(config["data_format"]) == "channels_first"
    if type in (*BATCH_NORMALIZATIONS, "Concatenate", *NORMALIZATIONS):
        return _from_axis(config.get("axis", -1), rank)
    if type == "PReLU" and isinstance(config.get("shared_axes"), Sequence):
        pixels = tuple(map(str, config["shared_axes"]))
        last, first = (tuple(map(str, axes)) for axes in (range(1, rank - 1), range(2, rank)))
        return {last: False, first: True}.get(pixels)
    return False if type in ("Dense", "MultiHeadAttention", "TimeDistributed") or type.endswith("1D") else None


def _from_axis(axis: Any, rank: int) -> bool | None:
    if isinstance(axis, list) and len(axis) == 1:
        (axis,) = axis
    is_first = {1: True, rank - 1: False, -1: False, 1 - rank: True}
    return is_first.get(axis) if isinstance(axis, int) and not isinstance(axis, bool) else None
