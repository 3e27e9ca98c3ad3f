"""No field of a layer's settings is left out in silence: each changes the result, is refused, or is listed with the reason."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from google.protobuf import text_format
from numpy.typing import NDArray

import ir_reference
from cnn_convertor.errors import ConvertorError
from cnn_convertor.frontends import caffe
from cnn_convertor.frontends.caffe import text
from cnn_convertor.frontends.caffe.reading import HARMLESS, Reading
from cnn_convertor.frontends.caffe.schema import SKIPPED, is_repeated, message_type
from cnn_convertor.frontends.caffe.writing import write
from cnn_convertor.supported import FRAMEWORKS, entries
from frontends.caffe import test_detection as detection
from frontends.caffe import test_layers as layers

Array = NDArray[Any]
SETTINGS = {entry.type: entry.settings for entry in entries(FRAMEWORKS[0])}


class Case(NamedTuple):
    """A network that converts. blobs: of the layer "l"."""

    definition: str
    blobs: Sequence[Array] = ()


BOXES = detection.INPUTS + layers.layer("PriorBox", "prior_box_param { %s }", bottoms=("map", "image"))
DETECTIONS = """
    input: "location" input_shape { dim: [1, %d] } input: "confidence" input_shape { dim: [1, 8] }
    input: "prior" input_shape { dim: [1, 2, 16] }
""" + layers.layer(
    "DetectionOutput", "detection_output_param { num_classes: 2 %s }", bottoms=("location", "confidence", "prior")
)
CASES = [
    *(Case(layers.HEADER + definition, blobs) for definition, blobs, _ in layers.LAYERS.values()),
    *(Case(layers.VECTOR_HEADER + definition, blobs) for definition, blobs, _ in layers.VECTOR_LAYERS.values()),
    *(Case(layers.ROWS_HEADER + definition, blobs) for definition, blobs, _ in layers.ROWS_LAYERS.values()),
    *(Case(BOXES % settings) for settings in (
        "min_size: 4 max_size: 40 aspect_ratio: [2, 3]", "min_size: 4 step: 3 img_size: 20", "min_size: 4 step_h: 3 step_w: 2 img_h: 9 img_w: 7"
    )),
    *(Case(DETECTIONS % (16, settings)) for settings in (
        "keep_top_k: 5 nms_param { nms_threshold: 0.4 }", "background_label_id: -1 confidence_threshold: 0.1 nms_param { eta: 0.9 nms_threshold: 0.9 }",
    )),
    Case(DETECTIONS % (32, "share_location: false keep_top_k: 4")),
]  # fmt: skip
# Of each kind of field, what is tried beside the default.
NUMBERS = (0, 1, 2, 3, -1, 5, 20)
REALS = (0.25, 2.5, -1.0, 0.0, 1.0, 30.0)


def inputs_of(graph: Any) -> dict[str, Array]:
    random = np.random.default_rng(3)
    made = {node.name: random.normal(size=graph.shape(node.name)) for node in graph.inputs}
    if "prior" in made:
        corners = np.array([[0.1, 0.1, 0.4, 0.5], [0.15, 0.1, 0.4, 0.5], [0.3, 0.2, 0.6, 0.5], [0.5, 0.5, 0.7, 0.9]])
        made["prior"] = np.stack([corners.ravel(), np.tile(detection.VARIANCE, 4)], axis=1)[:, None]
        made["confidence"] = np.array([[[0.1, 0.9, 0.3, 0.8, 0.2, 0.7, 0.6, 0.05]]])
    return made


def computed(message: Any, blobs: Sequence[Array], folder: Path) -> list[Array]:
    """What a network gives. Raises ConvertorError."""
    (folder / "net.prototxt").write_text(text_format.MessageToString(message))
    write(folder / "net.caffemodel", [("l", "Any", blobs)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = caffe.load(folder / "net.prototxt", folder / "net.caffemodel")
    results = ir_reference.run(graph, inputs_of(graph))
    return [results[name] for name in graph.outputs]


def same(first: Sequence[Array], second: Sequence[Array]) -> bool:
    return len(first) == len(second) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(first, second, strict=True)
    )


def other_values(message: Any, field: Any) -> Iterator[Any]:
    """Values for a field, other than the one that it has."""
    now = getattr(message, field.name)
    if field.enum_type is not None:
        every: Sequence[Any] = [value.number for value in field.enum_type.values]
    elif field.cpp_type == field.CPPTYPE_BOOL:
        every = [False, True]
    elif field.cpp_type == field.CPPTYPE_STRING:
        every = ["other"]
    elif field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        every = REALS
    else:
        every = [n for n in NUMBERS if n >= 0 or field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64)]
    if is_repeated(field):
        longer = [[value] * len(now) for value in every if len(now) > 1]
        yield from (value for value in ([], *([value] for value in every), *longer) if value != list(now))
    else:
        yield from (value for value in every if value != now or not message.HasField(field.name))


def fields(message: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each field of a message and of those in it, but for the fillers, which are one setting."""
    for field in message.DESCRIPTOR.fields:
        inner = field.message_type
        if inner is None or inner.full_name == SKIPPED or inner.name in ("FillerParameter", "BlobShape"):
            yield (*path, field.name), field
        else:
            yield from fields(getattr(message_type("LayerParameter")(), path[0]) if not path else getattr(message, field.name), (*path, field.name))
