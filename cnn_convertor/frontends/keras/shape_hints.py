"""Shapes of tensors that a Keras file gives, for layers that cannot be read.

Keras 3 writes the shape of each tensor that a layer is called with, and for a layer in a Sequential model its input shape,
which is the output shape of the layer before it. In files of Keras 2 the weights of later layers show at least the channels.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from cnn_convertor.frontends.keras.hdf5 import Variable
from cnn_convertor.frontends.keras.model import FUNCTIONAL, SEQUENTIAL, Json, KerasNetwork
from cnn_convertor.frontends.keras.variables import BATCH_NORMALIZATIONS

Sizes: TypeAlias = tuple[int, ...]


def known_shapes(model: Json) -> dict[str, Sizes]:
    """Full layer name -> its output's sizes, without the batch, where all are known and equal for all calls."""
    shapes_of: dict[str, set[Sizes | None]] = {}
    for name, shape in _stated_shapes(model, ""):
        shapes_of.setdefault(name, set()).add(shape)
    return {
        name: shape for name, shapes in shapes_of.items() if len(shapes) == 1 and (shape := shapes.pop()) is not None
    }


# The axis of the input channels in a layer's first array.
_FROM_THE_END: Mapping[str, int] = {
    **dict.fromkeys(("Conv1D", "Conv2D", "DepthwiseConv1D", "DepthwiseConv2D"), -2),
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D", "Dense"), -2),
    **dict.fromkeys(("Conv1DTranspose", "Conv2DTranspose", *BATCH_NORMALIZATIONS), -1),
}
# Layers whose output has the channels of their input.
_KEEPING = frozenset(
    {"Activation", "Add", "AveragePooling2D", "Cropping2D", "Dropout", "ELU", "LeakyReLU", "MaxPooling2D", "PReLU", "ReLU",
     "SpatialDropout2D", "UpSampling2D", "ZeroPadding2D"}
)  # fmt: skip


def wanted_channels(
    network: KerasNetwork, number: int, arrays: Mapping[tuple[int, ...], Sequence[Variable]]
) -> int | None:
    """The number of channels that later layers have weights for. number: the call's; arrays: by KerasLayer.key."""
    for call in network.behind(number, lambda call: call.layer.type in _KEEPING):
        axis = _FROM_THE_END.get(call.layer.type)
        held = arrays.get(call.layer.key)
        if axis is not None and held and len(held[0].shape) >= -axis:
            groups = call.layer.config.get("groups", 1) if call.layer.type in {"Conv1D", "Conv2D"} else 1
            return int(held[0].shape[axis]) * (groups if isinstance(groups, int) else 1)
    return None


def _stated_shapes(model: Json, prefix: str) -> Iterator[tuple[str, Sizes | None]]:
    """Every shape in the file, with its layer's name. Invalid ones are ignored."""
    config = model.get("config") if isinstance(model, dict) else None
    layers = config.get("layers") if isinstance(config, dict) else None
    if not isinstance(layers, list):
        return
    layers = [layer for layer in layers if isinstance(layer, dict)]
    if model.get("class_name") == SEQUENTIAL:
        for layer, after in pairwise(layers):
            built = after.get("build_config")
            if isinstance(built, dict) and "input_shape" in built:
                yield prefix + _name(layer), _sizes(built["input_shape"])
    for layer in layers:
        for name, shape in _tensors(layer.get("inbound_nodes")):
            yield prefix + name, shape
        if layer.get("class_name") in (*FUNCTIONAL, SEQUENTIAL):
            yield from _stated_shapes(layer, f"{prefix}{_name(layer)}/")


def _name(layer: Mapping[str, Json]) -> str:
    config = layer.get("config")
    return str(layer.get("name") or (config.get("name") if isinstance(config, dict) else ""))


def _tensors(data: Json) -> Iterator[tuple[str, Sizes | None]]:
    match data:
        case {"class_name": "__keras_tensor__", "config": {"shape": shape, "keras_history": [str(name), _, 0]}}:
            yield name, _sizes(shape)
        case dict():
            for value in data.values():
                yield from _tensors(value)
        case list():
            for value in data:
                yield from _tensors(value)


def _sizes(shape: Json) -> Sizes | None:
    """The sizes after the batch; None when one is undefined."""
    if not isinstance(shape, Sequence) or isinstance(shape, str) or len(shape) < 2:
        return None
    sizes = tuple(shape[1:])
    return sizes if all(type(size) is int and size > 0 for size in sizes) else None
