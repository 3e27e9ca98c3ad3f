"""The layers that OpenCV computes differently from Caffe; it is no reference for networks with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cnn_convertor.errors import Problem
from cnn_convertor.frontends.caffe.definition import CaffeLayer
from cnn_convertor.frontends.caffe.weights import WeightsFile

HINT = "give the expected outputs together with the inputs (see docs/verify.md)"

# layer type -> (whether a layer is concerned, what OpenCV does with it).
DIFFERENT: dict[str, tuple[Callable[[Any], bool], str]] = {
    "InnerProduct": (lambda layer: layer.inner_product_param.transpose, "ignores transpose"),
    "Log": (
        lambda layer: (layer.log_param.base, layer.log_param.scale, layer.log_param.shift) != (-1, 1, 0),
        "ignores base, scale and shift",
    ),
    "LRN": (lambda layer: layer.lrn_param.k != 1, "takes 1 for k"),
    "PriorBox": (
        lambda layer: any(size % 1 for size in (*layer.prior_box_param.min_size, *layer.prior_box_param.max_size)),
        "keeps the fractions of sizes",
    ),
    "Deconvolution": (
        lambda layer: any(dilation != 1 for dilation in layer.convolution_param.dilation),
        "ignores dilation",
    ),
    "Swish": (lambda layer: layer.swish_param.beta != 1, "takes 1 for beta"),
    "Axpy": (lambda _: True, "takes the inputs in another order"),
}
WEIGHTED = {"Convolution", "Deconvolution", "InnerProduct"}  # OpenCV crashes without weights


def differences(layers: Sequence[CaffeLayer], weights: Path | None) -> Iterator[Problem]:
    """A problem for each layer that OpenCV must not compute. weights: the .caffemodel, if there is one."""
    held = None if weights is None else WeightsFile.open(weights)
    for layer in layers:
        applies, says = DIFFERENT.get(layer.type, (None, ""))
        if applies is not None and applies(layer.message):
            yield Problem("DV712", f"OpenCV differs from Caffe here: it {says}", layer.origin, HINT)
        if any(_is_of_stage_or_level(rule) for rule in (*layer.message.include, *layer.message.exclude)):
            yield Problem("DV712", "OpenCV ignores the stage and level of rules", layer.origin, HINT)
        if layer.type in WEIGHTED and (held is None or not held.blobs(layer.name)):
            yield Problem("DV712", "OpenCV cannot run the layer, whose weights are not in the file", layer.origin, HINT)


def _is_of_stage_or_level(rule: Any) -> bool:
    return bool(rule.stage or rule.not_stage) or rule.HasField("min_level") or rule.HasField("max_level")
