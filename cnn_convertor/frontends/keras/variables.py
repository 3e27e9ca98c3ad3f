"""Which variables a layer of each type has, in the order in which Keras stores them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Slot(NamedTuple):
    """A variable's place in a layer. trained: whether training changes it (Keras 2 files keep the others apart).

    part: the layer inside the layer that has it, as Keras 3 files name it; none for its own.
    """

    role: str
    trained: bool = True
    part: str = ""


def _with_bias(*roles: str) -> Callable[[Mapping[str, Any]], tuple[Slot, ...]]:
    return lambda config: tuple(map(Slot, (*roles, "bias") if config.get("use_bias", True) else roles))


def _scale_and_center(config: Mapping[str, Any]) -> tuple[Slot, ...]:
    gamma = (Slot("gamma"),) if config.get("scale", True) else ()
    beta = (Slot("beta"),) if config.get("center", True) else ()
    return gamma + beta


def _batch_normalization(config: Mapping[str, Any]) -> tuple[Slot, ...]:
    moving = (Slot("moving_mean", trained=False), Slot("moving_variance", trained=False))
    return _scale_and_center(config) + moving


def _normalization(config: Mapping[str, Any]) -> tuple[Slot, ...]:
    """The statistics are arrays, unless they are among the settings."""
    if config.get("mean") is not None:
        return ()
    return tuple(Slot(role, trained=False) for role in ("mean", "variance", "count"))


def _projections(config: Mapping[str, Any]) -> tuple[Slot, ...]:
    """Of the queries, keys, values and outputs, each a layer of its own."""
    parts = {"query": "query_dense", "key": "key_dense", "value": "value_dense", "attention_output": "output_dense"}
    roles = ("kernel", "bias") if config.get("use_bias", True) else ("kernel",)
    return tuple(Slot(f"{name}/{role}", part=part) for name, part in parts.items() for role in roles)


def wrapped(config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Type and configuration of the layer that TimeDistributed calls; empty where it is none.

    That layer counts the axes without the steps, but for the batch.
    """
    layer = config.get("layer")
    layer = layer if isinstance(layer, Mapping) else {}
    inner = layer.get("config")
    return str(layer.get("class_name", "")), _with_steps(inner) if isinstance(inner, Mapping) else {}


def _with_steps(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration, and those in it, with axes that are counted from the front one further."""
    counted: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            counted[name] = _with_steps(value)
        elif name == "axis" and isinstance(value, list):
            counted[name] = [axis + 1 if type(axis) is int and axis > 0 else axis for axis in value]
        elif name == "axis" and type(value) is int and value > 0:
            counted[name] = value + 1
        else:
            counted[name] = value
    return counted


def _of_the_wrapped(config: Mapping[str, Any]) -> tuple[Slot, ...]:
    return tuple(slot._replace(part="layer") for slot in slots(*wrapped(config)))


ADDONS = ("Addons>GroupNormalization", "Addons>InstanceNormalization")  # of TensorFlow Addons
BATCH_NORMALIZATIONS = ("BatchNormalization", "BatchNormalizationV1", "BatchNormalizationV2", "SyncBatchNormalization")

_SLOTS: Mapping[str, Callable[[Mapping[str, Any]], tuple[Slot, ...]]] = {
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv1DTranspose", "Conv2DTranspose", "Dense"), _with_bias("kernel")),
    **dict.fromkeys(("DepthwiseConv1D", "DepthwiseConv2D"), _with_bias("depthwise_kernel")),
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), _with_bias("depthwise_kernel", "pointwise_kernel")),
    "PReLU": lambda _: (Slot("alpha"),),
    "LayerNormalization": _scale_and_center,
    **dict.fromkeys(("GroupNormalization", *ADDONS, "InstanceNormalization"), _scale_and_center),
    "RMSNormalization": lambda _: (Slot("scale"),),
    "Normalization": _normalization,
    "LayerScale": lambda _: (Slot("gamma"),),
    **dict.fromkeys(BATCH_NORMALIZATIONS, _batch_normalization),
    "Attention": lambda config: (Slot("scale"),) if config.get("use_scale") else (),
    "MultiHeadAttention": _projections,
    "TimeDistributed": _of_the_wrapped,
}


def slots(type: str, config: Mapping[str, Any]) -> tuple[Slot, ...]:
    """The variables of a layer; none for types that have none or are unknown."""
    return _SLOTS[type](config) if type in _SLOTS else ()
