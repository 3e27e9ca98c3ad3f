"""Which variables a layer of each type has, in the order in which Keras stores them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Slot(NamedTuple):
    """A variable's place in a layer. trained: whether training changes it (Keras 2 files keep the others apart)."""

    role: str
    trained: bool = True


def _with_bias(*roles: str) -> Callable[[Mapping[str, Any]], tuple[Slot, ...]]:
    return lambda config: tuple(map(Slot, (*roles, "bias") if config.get("use_bias", True) else roles))


def _scale_and_center(config: Mapping[str, Any]) -> tuple[Slot, ...]:
    gamma = (Slot("gamma"),) if config.get("scale", True) else ()
    beta = (Slot("beta"),) if config.get("center", True) else ()
    return (*gamma, *beta)


def _batch_normalization(config: Mapping[str, Any]) -> tuple[Slot, ...]:
    moving = (Slot("moving_mean", trained=False), Slot("moving_variance", trained=False))
    return (*_scale_and_center(config), *moving)


def _normalization(config: Mapping[str, Any]) -> tuple[Slot, ...]:
    """The statistics are arrays, unless they are among the settings."""
    if config.get("mean") is not None:
        return ()
    return tuple(Slot(role, trained=False) for role in ("mean", "variance", "count"))


BATCH_NORMALIZATIONS = ("BatchNormalization", "BatchNormalizationV1", "BatchNormalizationV2", "SyncBatchNormalization")

_SLOTS: Mapping[str, Callable[[Mapping[str, Any]], tuple[Slot, ...]]] = {
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv1DTranspose", "Conv2DTranspose", "Dense"), _with_bias("kernel")),
    **dict.fromkeys(("DepthwiseConv1D", "DepthwiseConv2D"), _with_bias("depthwise_kernel")),
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), _with_bias("depthwise_kernel", "pointwise_kernel")),
    "PReLU": lambda _: (Slot("alpha"),),
    "LayerNormalization": _scale_and_center,
    "GroupNormalization": _scale_and_center,
    "RMSNormalization": lambda _: (Slot("scale"),),
    "Normalization": _normalization,
    "LayerScale": lambda _: (Slot("gamma"),),
    **dict.fromkeys(BATCH_NORMALIZATIONS, _batch_normalization),
}


def slots(type: str, config: Mapping[str, Any]) -> tuple[Slot, ...]:
    """The variables of a layer; none for types that have none or are unknown."""
    return _SLOTS[type](config) if type in _SLOTS else ()
