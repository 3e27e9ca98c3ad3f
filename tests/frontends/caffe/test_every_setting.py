"""No field of a layer's settings is left out in silence: each changes the result, is refused, or is listed with the reason."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from google.protobuf import text_format
from numpy.typing import NDArray

from cnn_convertor.errors import ConvertorError
from cnn_convertor.frontends.caffe import text
from cnn_convertor.frontends.caffe.layers import caffe as registry
from cnn_convertor.frontends.caffe.reading import HARMLESS
from cnn_convertor.frontends.caffe.schema import SKIPPED, is_repeated, message_type
from examples.caffemodel import write
from frontends.caffe import layer_texts
from frontends.caffe import test_detection as detection
from frontends.caffe import test_layer_refusals as refused
from frontends.caffe import test_layers as layers
from frontends.caffe.test_limits import CONVOLUTIONS, DEPTHWISE
from frontends.loading import load_caffe
from frontends.reasons import PACKAGE, is_said, reasons
from reference import ir_reference
from verification import test_single_layers as single_layers

Array = NDArray[Any]
SETTINGS = {type: {*registry[type].settings, *registry[type].ignores} for type in registry}


class Case(NamedTuple):
    """A network that converts. blobs: of the layer "l"."""

    definition: str
    blobs: Sequence[Array] = ()


BOXES = detection.INPUTS + layer_texts.layer("PriorBox", "prior_box_param { %s }", bottoms=("map", "image"))
DETECTIONS = """
    input: "location" input_shape { dim: [1, %d] } input: "confidence" input_shape { dim: [1, 8] }
    input: "prior" input_shape { dim: [1, 2, 16] }
""" + layer_texts.layer(
    "DetectionOutput", "detection_output_param { num_classes: 2 %s }", bottoms=("location", "confidence", "prior")
)
CASES = [
    *(Case(layer_texts.HEADER + definition, blobs) for definition, blobs, _ in layers.LAYERS.values()),
    *(Case(layer_texts.VECTOR_HEADER + definition, blobs) for definition, blobs, _ in layers.VECTOR_LAYERS.values()),
    *(Case(layer_texts.ROWS_HEADER + definition, blobs) for definition, blobs, _ in layers.ROWS_LAYERS.values()),
    *(Case(BOXES % settings) for settings in (
        "min_size: 4 max_size: 40 aspect_ratio: [2, 3]", "min_size: 4 step: 3 img_size: 20", "min_size: 4 step_h: 3 step_w: 2 img_h: 9 img_w: 7",
        "min_size: 12 aspect_ratio: 3 flip: false clip: true offset: 0.25 variance: [0.1, 0.2, 0.3, 0.4]",
    )),
    *(Case(DETECTIONS % (16, settings)) for settings in (
        "keep_top_k: 5", "background_label_id: -1 keep_top_k: 5 nms_param { nms_threshold: 0.9 }",
        "code_type: CENTER_SIZE variance_encoded_in_target: true confidence_threshold: 0.25 keep_top_k: 5 nms_param { top_k: 3 eta: 0.9 }",
    )),
    Case(DETECTIONS % (32, "share_location: false keep_top_k: 4")),
    Case('layer { name: "l" type: "Input" top: "x" input_param { shape { dim: [1, 3, 2] } } }' + layer_texts.layer("Split")),
]  # fmt: skip

# Fields of which no value changes a result, and why.
NO_EFFECT: Mapping[tuple[str, str], str] = {
    ("BN", "frozen"): "says whether training changes the statistics",
    ("DetectionOutput", "visualize"): "draws the detections besides",
    ("DetectionOutput", "visualize_threshold"): "of what is drawn",
    ("DetectionOutput", "save_file"): "of what is drawn",
    ("DetectionOutput", "save_output_param"): "writes the detections to files besides",
}
# Fields of which any value but the default is refused, with the code.
REFUSED: Mapping[tuple[str, str], str] = {
    ("Pooling", "dilation"): "DV302",
    ("ReLU6", "negative_slope"): "DV302",
    **{(type, "axis"): "DV302" for type in CONVOLUTIONS},
    **{(type, "group"): "DV302" for type in DEPTHWISE},
}  # fmt: skip
# Settings for training in other layers.
ALSO_READ = {("Dropout", "dropout_ratio"), ("BatchNorm", "scale_filler"), ("BatchNorm", "bias_filler")}
ENGINE = "engine"  # which library does the work
# Of each kind of field, what is tried beside the value in the case.
WHOLE = (0, 1, 2, 3, -1, 5, 20)
REAL = (0.25, 2.5, -1.0, 0.0, 1.0, 30.0)


def network(case: Case) -> Any:
    return text.parse(case.definition, message_type("NetParameter"), "net").message


def inputs_of(graph: Any) -> dict[str, Array]:
    random = np.random.default_rng(3)
    made = {node.name: random.normal(size=graph.shape(node.name)) for node in graph.inputs}
    if "prior" in made:
        corners = np.array([[0.1, 0.1, 0.4, 0.5], [0.15, 0.1, 0.4, 0.5], [0.3, 0.2, 0.6, 0.5], [0.5, 0.5, 0.7, 0.9]])
        made["prior"] = np.stack([corners.ravel(), np.tile(detection.VARIANCE, 4)], axis=1)[:, None]
        made["confidence"] = np.array([[[0.1, 0.9, 0.3, 0.8, 0.2, 0.7, 0.6, 0.05]]])
        made["location"] *= 0.1
    return made


def computed(message: Any, blobs: Sequence[Array], folder: Path) -> list[Array]:
    """What a network gives. Raises ConvertorError."""
    (folder / "net.prototxt").write_text(text_format.MessageToString(message))
    write(folder / "net.caffemodel", [("l", "Any", blobs)])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        graph = load_caffe(folder / "net.prototxt", folder / "net.caffemodel")
        results = ir_reference.run(graph, inputs_of(graph))
    return [results[name] for name in graph.outputs]


def outcome(before: Sequence[Array], message: Any, case: Case, folder: Path) -> str:
    """The code of what is refused, or whether the result is another."""
    try:
        after = computed(message, case.blobs, folder)
    except ConvertorError as error:
        return error.problems[0].code
    is_same = len(before) == len(after) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)
        for a, b in zip(before, after, strict=True)
    )
    return "same" if is_same else "differs"


class Place(NamedTuple):
    """layer: its number. names: of messages, each in the one before."""

    layer: int
    names: tuple[str, ...]


def changed(net: Any, place: Place, field: Any) -> Iterator[Any]:
    """Copies of a network in which a field has another value."""
    now = getattr(message_in(net, place), field.name)
    for value in _values(field, now):
        copy = type(net)()
        copy.CopyFrom(net)
        message = message_in(copy, place)
        if field.message_type is not None:
            getattr(message, field.name).MergeFrom(value)
        elif is_repeated(field):
            message.ClearField(field.name)
            getattr(message, field.name).extend(value)
        else:
            setattr(message, field.name, value)
        yield copy


def _values(field: Any, now: Any) -> Iterator[Any]:
    if field.message_type is not None:  # a filler, or the sizes of blobs
        kind = message_type(field.message_type.name)
        others = (
            [kind(type="bilinear", value=3)] if field.message_type.name == "FillerParameter" else [kind(dim=[1, 1])]
        )
        yield from ([one] if is_repeated(field) else one for one in others)
        return
    every: Sequence[Any] = WHOLE
    if field.enum_type is not None:
        every = [value.number for value in field.enum_type.values]
    elif field.cpp_type == field.CPPTYPE_BOOL:
        every = [False, True]
    elif field.cpp_type == field.CPPTYPE_STRING:
        every = ["other"]
    elif field.cpp_type == field.CPPTYPE_FLOAT:
        every = REAL
    elif field.cpp_type == field.CPPTYPE_UINT32:
        every = [n for n in WHOLE if n >= 0]
    if is_repeated(field):
        longer = [[value] * len(now) for value in every if len(now) > 1]
        yield from (value for value in ([], *([value] for value in every), *longer) if value != list(now))
    else:
        yield from every


def message_in(net: Any, place: Place) -> Any:
    """One of the settings' messages of a layer, or one inside it."""
    message = net.layer[place.layer]
    for name in place.names:
        message = getattr(message, name)
    return message


def fields(net: Any, place: Place) -> Iterator[tuple[Any, Place]]:
    """Each field of a message and of those in it, with the place of its message."""
    for field in message_in(net, place).DESCRIPTOR.fields:
        inner = field.message_type
        if inner is not None and inner.full_name != SKIPPED and inner.name not in ("FillerParameter", "BlobShape"):
            yield from fields(net, Place(place.layer, (*place.names, field.name)))
        else:
            yield field, place


@cache
def asked_by_type() -> Mapping[str, frozenset[str]]:
    """Layer type -> the message that its reader declares, if any."""
    return {type: frozenset({registry[type].group} - {""}) for type in registry}


@pytest.mark.slow
def test_each_field_is_read_or_refused_or_has_no_effect(tmp_path: Path) -> None:
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for case in CASES:
        net = network(case)
        before = computed(net, case.blobs, tmp_path)
        for index, layer in enumerate(net.layer):
            for name in asked_by_type()[layer.type]:
                for field, place in fields(net, Place(index, (name,))):
                    outcomes = found[layer.type, field.name]
                    if field.message_type is not None and field.message_type.full_name == SKIPPED:
                        outcomes.add("same")
                        continue
                    for copy in changed(net, place, field):
                        if "differs" not in outcomes:
                            outcomes.add(outcome(before, copy, case, tmp_path))
    for (type, name), outcomes in found.items():
        if (type, name) in REFUSED:
            assert REFUSED[type, name] in outcomes and "differs" not in outcomes, (type, name)
        elif (type, name) in NO_EFFECT or name == ENGINE or (name in HARMLESS and (type, name) not in ALSO_READ):
            assert outcomes == {"same"}, (type, name)
        else:  # another result, or weights of another shape, or a contradiction to the other settings
            assert outcomes - {"same"}, f"{name} of {type} has no effect"
            assert name in SETTINGS[type] or name in ("nms_threshold", "eta", "top_k"), (
                f"{name} of {type} is on no page"
            )
    assert {type for type, _ in found} >= {type for type in SETTINGS if asked_by_type()[type]} - {*DEPTHWISE}


# --- what is compared ----------------------------------------------------------------------------------------------------


# Settings that are compared in a test of their own: its file and name.
ELSEWHERE: Mapping[tuple[str, str], tuple[str, str]] = {
    ("Deconvolution", "weight_filler"): (
        "test_layer_weights.py",
        "test_a_bilinear_deconvolution_that_was_never_trained",
    ),
    ("Deconvolution", "bias_filler"): ("test_layer_weights.py", "test_a_bilinear_deconvolution_that_was_never_trained"),
}
# What is not given means something else than the value that the format has for it.
UNSET = {("BatchNorm", "use_global_stats"), ("BilinearInterpolate", "align_corners")}


def given(layer: Any) -> Iterator[tuple[str, Any, Any]]:
    """The fields that a layer's definition sets: name, value and default."""
    for name in asked_by_type()[layer.type]:
        message = getattr(layer, name)
        usual = message_type(message.DESCRIPTOR.name)()
        for field, value in message.ListFields():
            yield field.name, value, [] if is_repeated(field) else getattr(usual, field.name)


def test_each_setting_has_another_value_than_the_default_in_a_case_that_is_compared() -> None:
    """With results worked out by hand in test_layers.py, or with OpenCV's in verify/test_single_layers.py."""
    seen = set()
    for definition in (*(case.definition for case in CASES), *compared_with_opencv()):
        for layer in text.parse(definition, message_type("NetParameter"), "net").message.layer:
            seen |= {
                (layer.type, name)
                for name, value, default in given(layer)
                if value != default or (layer.type, name) in UNSET
            }
    every = {(type, name) for type, names in SETTINGS.items() for name in names}
    assert every - seen - set(NO_EFFECT) - set(REFUSED) - set(ELSEWHERE) == set()
    for file, test in ELSEWHERE.values():
        assert f"def {test}(" in (Path(__file__).parent / file).read_text()


def compared_with_opencv() -> Iterator[str]:
    for fill in single_layers.FILLS:
        net = single_layers.Net(channels=64, seed=0)
        fill(net)
        yield net.text


# --- what is refused -----------------------------------------------------------------------------------------------------


# Never reported, since the builder drops what follows from a guess.
FOLLOWS = {"the pooling before the unpooling cannot be read"}


def test_each_reason_for_a_refusal_has_a_case_that_asserts_its_code(tmp_path: Path) -> None:
    every = (*refused.UNSUPPORTED.values(), *refused.SENSELESS.values())
    said = [reason for definition, *_ in every for reason in refusals(Case(layer_texts.HEADER + definition), tmp_path)]
    written = reasons((PACKAGE / "caffe/layers").glob("*.py"), frozenset({"unsupported", "wrong", "contradiction"}))
    assert len(written) > 50
    assert {reason for reason in written if not is_said(reason, said)} == FOLLOWS


def refusals(case: Case, folder: Path) -> list[str]:
    """What is said of a network that does not convert."""
    with pytest.raises(ConvertorError) as caught:
        computed(network(case), case.blobs, folder)
    return [problem.message for problem in caught.value.problems]
