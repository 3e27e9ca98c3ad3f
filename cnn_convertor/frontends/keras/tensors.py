"""Which axis of a framework's tensor is which, so that axes, orders and shapes mean the same in the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from cnn_convertor.frontends.keras.model import Call, Network
from cnn_convertor.frontends.keras.variables import BATCH_NORMALIZATIONS
from cnn_convertor.ir.ops import Order


class Axes(Enum):
    """The axes after the batch. In the graph every tensor is (height, width, channels)."""

    HWC = "HWC"  # a map, channels_last
    CHW = "CHW"  # a map, channels_first
    WC = "WC"  # rows of channels, as Reshape makes them: height is 1
    HW = "HW"  # an image without channels, as inputs may be: channels is 1
    C = "C"  # a vector

    @property
    def rank(self) -> int:
        """Number of axes, the batch included."""
        return len(self.value) + 1

    @property
    def channel_axis(self) -> int | None:
        at = self.value.find("C")
        return None if at < 0 else at + 1

    @property
    def order(self) -> Order:
        """How the framework counts the elements."""
        return Order.CHW if self is Axes.CHW else Order.HWC

    def is_channels(self, axis: object) -> bool:
        """Whether an axis, as the framework counts it (negative ones from the end), is that of the channels."""
        if isinstance(axis, list) and len(axis) == 1:
            (axis,) = axis
        if not isinstance(axis, int) or isinstance(axis, bool) or not -self.rank <= axis < self.rank:
            return False
        return axis % self.rank == self.channel_axis


class Value(NamedTuple):
    """A tensor: the node that computes it, and its axes."""

    node: str
    axes: Axes


DATA_FORMATS: Mapping[object, Axes] = {None: Axes.HWC, "channels_last": Axes.HWC, "channels_first": Axes.CHW}
_ENDS = frozenset({"Flatten", "Reshape", "GlobalAveragePooling2D", "GlobalMaxPooling2D"})


def map_axes(network: Network, tensor: int) -> Axes:
    """How a map whose maker does not say it is laid out: as the first layer that uses it expects."""
    users: dict[int, list[Call]] = {}
    for call in network.calls:
        for source in call.inputs:
            users.setdefault(source, []).append(call)
    weak: list[Axes] = []
    queue, seen = [tensor], {tensor}
    while queue:
        for call in users.get(queue.pop(0), ()):
            told = _expected(call)
            if told is not None and call.layer.type != "Flatten":
                return told
            if told is not None:
                weak.append(told)
            elif call.layer.type not in _ENDS and call.output not in seen:
                seen.add(call.output)
                queue.append(call.output)
    return weak[0] if weak else Axes.HWC


def _expected(call: Call) -> Axes | None:
    """The layout in which a layer takes its input, where its settings tell."""
    config = call.layer.config
    if call.layer.is_operation:
        return None
    if config.get("data_format") is not None:
        return DATA_FORMATS.get(str(config["data_format"]))
    if call.layer.type in (*BATCH_NORMALIZATIONS, "Concatenate"):
        return _from_axis(config.get("axis", -1))
    if call.layer.type == "PReLU" and isinstance(config.get("shared_axes"), Sequence):
        return {(1, 2): Axes.HWC, (2, 3): Axes.CHW}.get(tuple(config["shared_axes"]))
    return Axes.HWC if call.layer.type == "Dense" else None


def _from_axis(axis: Any) -> Axes | None:
    if isinstance(axis, list) and len(axis) == 1:
        (axis,) = axis
    return {1: Axes.CHW, 3: Axes.HWC, -1: Axes.HWC, -3: Axes.CHW}.get(axis) if isinstance(axis, int) else None
