"""Caffe's defaults: the formulas' table and the frontend's schema agree, and OpenCV computes what the formulas do with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor
from numpy.typing import NDArray

from cnn_convertor.frontends.caffe.layers import caffe as readers
from cnn_convertor.frontends.caffe.schema import SKIPPED, message_type
from cnn_convertor.verification import caffe_network
from cnn_convertor.verification.caffe_network import Evaluation, evaluate, read_network
from cnn_convertor.verification.formulas import FORMULAS
from cnn_convertor.verification.formulas.defaults import DEFAULTS, defaults_of
from examples import caffemodel

# --- both tables ---------------------------------------------------------------------------------------------------------

STRUCTURE = {"NetParameter", "LayerParameter", "V1LayerParameter"}  # of files, without settings


def messages() -> set[str]:
    """The messages of settings in the frontend's schema."""
    named = message_type("LayerParameter").DESCRIPTOR.file.message_types_by_name
    return {name for name in named if name.endswith("Parameter")} - STRUCTURE


def fields_of(message: str) -> dict[str, Any]:
    """Name -> field of a message of the frontend's schema, without those that it skips."""
    fields = {}
    for field in message_type(message).DESCRIPTOR.fields:
        if field.message_type is None or field.message_type.full_name != SKIPPED:
            fields[field.name] = field
    return fields


def as_text(field: Any) -> str:
    """The value that a field has where a file does not set it."""
    value = field.default_value
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_both_tables_have_the_same_messages() -> None:
    assert messages() == set(DEFAULTS)


@pytest.mark.parametrize("message", sorted(messages() | set(DEFAULTS)))
def test_both_tables_have_the_same_defaults(message: str) -> None:
    fields, defaults = fields_of(message), defaults_of(message)
    assert fields.keys() == defaults.keys()
    for name, default in defaults.items():
        field = fields[name]
        if default is None:
            assert not field.has_default_value, f"{message}.{name} has a default in the schema alone"
        elif field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT:
            assert np.float32(default) == np.float32(field.default_value), f"{message}.{name}"
        else:
            assert default == as_text(field), f"{message}.{name}"


# --- what the defaults compute -------------------------------------------------------------------------------------------

Array = NDArray[Any]
RANDOM = np.random.default_rng(5)


def some(*shape: int) -> Array:
    return RANDOM.normal(size=shape).astype(np.float32)


SHAPE, SMALL = (1, 8, 6, 8), (1, 8, 4, 5)
DATA = {"data": some(*SHAPE), "small": some(*SMALL), "factors": some(1, 8, 1, 1)}
FACTORS, SHIFTS = some(8), some(8)
VARIANCES = np.linspace(1e-6, 1e-4, 8, dtype=np.float32)  # beside which 1e-5 counts
STATISTICS = [some(8), VARIANCES * 2, np.array([2], np.float32)]


class Layer(NamedTuple):
    """A layer that sets nothing but what it must, behind the input "data".

    type: of the layer; None: the key of the table. spelled: the layer for OpenCV, which has other defaults or another name for
    it. scale: of the input.
    """

    settings: str = ""
    weights: Sequence[Array] = ()
    type: str | None = None
    spelled: str = ""
    scale: float = 1.0


CONVOLUTION = [some(4, 8, 3, 3), SHIFTS[:4]]
DEPTHWISE = [some(8, 1, 3, 3), SHIFTS]
BY_OPENCV: Mapping[str, Layer] = {
    "ReLU": Layer(),
    "ReLU6": Layer(),
    "ELU": Layer(),
    "Sigmoid": Layer(),
    "TanH": Layer(),
    "Swish": Layer(),
    "BNLL": Layer(),
    "AbsVal": Layer(),
    "Power": Layer(),
    "Exp": Layer(),
    "Dropout": Layer(),
    "Split": Layer(),
    "Softmax": Layer(),
    "Eltwise": Layer('bottom: "data"'),
    "Concat": Layer('bottom: "data"'),
    "Crop": Layer('bottom: "small"'),
    "Flatten": Layer(),
    "Reshape": Layer("reshape_param { shape { dim: [0, 4, -1] } }"),
    "Permute": Layer("permute_param { order: [0, 2, 3, 1] }"),
    "ShuffleChannel": Layer(),
    "MVN": Layer(),
    "Normalize": Layer(weights=[FACTORS[:1]], scale=1e-6),
    "BatchNorm": Layer(weights=STATISTICS),
    "Scale": Layer(weights=[FACTORS]),
    "PReLU": Layer(weights=[FACTORS]),
    "InnerProduct": Layer("inner_product_param { num_output: 5 }", [some(5, 384), SHIFTS[:5]]),
    "Convolution": Layer("convolution_param { num_output: 4 kernel_size: 3 }", CONVOLUTION),
    "Deconvolution": Layer("convolution_param { num_output: 4 kernel_size: 3 }", [some(8, 4, 3, 3), SHIFTS[:4]]),
    "Pooling": Layer("pooling_param { kernel_size: 3 }"),
    "Pooling with a stride": Layer("pooling_param { kernel_size: 3 stride: 2 }", type="Pooling"),
    "Pooling of averages": Layer("pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }", type="Pooling"),
    "Interp": Layer("interp_param { height: 9 width: 11 }"),
    "LRN": Layer(spelled='type: "LRN" lrn_param { local_size: 5 alpha: 1 beta: 0.75 k: 1 norm_region: ACROSS_CHANNELS }'),
    "PriorBox": Layer(
        'bottom: "data" prior_box_param { min_size: 2 aspect_ratio: 2 }',
        spelled='bottom: "data" type: "PriorBox" prior_box_param { min_size: 2 aspect_ratio: 2 flip: true clip: false'
        " variance: 0.1 offset: 0.5 }",
    ),
    **{
        name: Layer(
            "convolution_param { num_output: 8 kernel_size: 3 }", DEPTHWISE,
            spelled='type: "Convolution" convolution_param { num_output: 8 group: 8 kernel_size: 3 }',
        )
        for name in ("DepthwiseConvolution", "ConvolutionDepthwise", "DepthWiseConv", "DepthwiseConv")
    },
}  # fmt: skip
X = DATA["data"].astype(np.float64)
POSITIVE = np.abs(X) + 0.1


def spatial_pyramid(x: Array) -> Array:
    """The maximum of the whole map, and of each quarter."""
    quarters = [x[:, :, i : i + 3, j : j + 4].max((2, 3)) for i in (0, 3) for j in (0, 4)]
    return np.concatenate([x.max((2, 3)), np.stack(quarters, -1).reshape(1, -1)], axis=1)


def normalized(x: Array) -> Array:
    """Caffe adds its epsilon to the deviation, OpenCV to the variance."""
    return np.asarray((x - x.mean((2, 3), keepdims=True)) / (x.std((2, 3), keepdims=True) + 1e-9))


# OpenCV lacks these, so the results are worked out here.
BY_HAND: Mapping[str, tuple[Layer, Callable[[], Array]]] = {
    "Threshold": (Layer(), lambda: np.where(X > 0, 1, 0)),
    "Clip": (Layer("clip_param { min: -0.5 max: 1 }"), lambda: np.minimum(np.maximum(X, -0.5), 1)),
    "Log": (Layer(), lambda: np.log(POSITIVE)),
    "Dropout that scales in tests": (
        Layer("dropout_param { scale_train: false }", type="Dropout"),
        lambda: X * 0.5,
    ),
    "Interp to its own size": (Layer(type="Interp"), lambda: X),
    "Slice": (Layer('top: "other"'), lambda: X[:, :4]),
    "MVN of tiny values": (Layer(type="MVN", scale=1e-8), lambda: normalized(X * 1e-8)),
    "Tile": (Layer("tile_param { tiles: 2 }"), lambda: np.concatenate([X, X], axis=1)),
    "ArgMax": (Layer(), lambda: np.reshape(X.argmax(), (1, 1, 1, 1))),
    "Reduction": (Layer(), lambda: np.asarray(X.sum())),
    "SPP": (Layer("spp_param { pyramid_height: 2 }"), lambda: spatial_pyramid(X)),
    "Bias": (Layer(weights=[SHIFTS]), lambda: X + SHIFTS.reshape(1, 8, 1, 1)),
    "BN": (
        Layer("bn_param { }", [FACTORS, SHIFTS, SHIFTS, VARIANCES]),
        lambda: (
            (X - SHIFTS.reshape(1, 8, 1, 1)) / np.sqrt(VARIANCES.astype(float) + 1e-5).reshape(1, 8, 1, 1)
            * FACTORS.reshape(1, 8, 1, 1) + SHIFTS.reshape(1, 8, 1, 1)
        ),
    ),
    "Axpy": (Layer(), lambda: DATA["factors"].astype(float) * X + X),
    "Upsample": (Layer("upsample_param { scale: 2 }"), lambda: X.repeat(2, axis=2).repeat(2, axis=3)),
    "Pad": (Layer("pad_param { pad_u: 1 }"), lambda: np.concatenate([np.zeros((1, 8, 1, 8)), X], axis=2)),
    "Pad on the right": (
        Layer("pad_param { pad_r: 1 }", type="Pad"),
        lambda: np.concatenate([X, np.zeros((1, 8, 6, 1))], axis=3),
    ),
    # The centers of areas, at twice the distance: (0, 2, 4 ...) + 0.5 lie between two pixels.
    "BilinearInterpolate": (
        Layer("bilinear_interpolate_param { dst_h: 3 dst_w: 4 }"),
        lambda: X.reshape(1, 8, 3, 2, 4, 2).mean((3, 5)),
    ),
    # No scores reach less than -FLT_MAX: all boxes are kept but those that overlap a better one by more than 0.3.
    "DetectionOutput": (
        Layer("detection_output_param { num_classes: 2 }"),
        lambda: np.array([[0, 1, 0.9, 0.1, 0.1, 0.5, 0.5], [0, 1, 0.6, 0.62, 0.6, 0.9, 0.9]]).reshape(1, 1, 2, 7),
    ),
}  # fmt: skip
BOXES = [[0.1, 0.1, 0.5, 0.5], [0.1, 0.1, 0.5, 0.3], [0.6, 0.6, 0.9, 0.9]]
INPUTS: Mapping[str, Mapping[str, Array]] = {  # where they are not `data`, the bottoms in their order
    "Log": {"data": POSITIVE},
    "Axpy": {"factors": DATA["factors"], "data": X, "again": X},
    "DetectionOutput": {
        "locations": np.array([[0] * 8 + [0.2, 0, 0, 0]]),  # times the variance of 0.1
        "confidences": np.array([[0.1, 0.9, 0.3, 0.7, 0.4, 0.6]]),
        "priors": np.stack([np.ravel(BOXES), np.full(12, 0.1)])[None],
    },
}


class Network(NamedTuple):
    """A definition with one layer `op`, and its weights. inputs: name of an input -> (1, ...)."""

    definition: Path
    weights: Path | None
    inputs: Mapping[str, Array]

    def by_formulas(self) -> Evaluation:
        return evaluate(read_network(self.definition, self.weights), self.inputs)

    def by_opencv(self) -> Array:
        cv2 = pytest.importorskip("cv2")
        net = cv2.dnn.readNetFromCaffe(str(self.definition), str(self.weights or ""))
        for name, values in self.inputs.items():
            net.setInput(values.astype(np.float32), name)
        return np.asarray(net.forward("op"))


def network(folder: Path, name: str, layer: Layer, body: str) -> Network:
    """body: the type of the layer, and what it sets."""
    inputs = dict(INPUTS.get(name, {"data": DATA["data"].astype(np.float64) * layer.scale}))
    bottoms = [*inputs]
    if 'bottom: "small"' in body:
        inputs["small"] = DATA["small"]
    heads = "".join(f'input: "{each}" input_shape {{ dim: {[*values.shape]} }}\n' for each, values in inputs.items())
    reads = " ".join(f'bottom: "{each}"' for each in bottoms)
    definition, weights = folder / "net.prototxt", folder / "net.caffemodel"
    definition.write_text(f'{heads}layer {{ name: "op" {reads} top: "op" {body} }}')
    caffemodel.write(weights, [("op", "Any", [*layer.weights])])
    return Network(definition, weights if layer.weights else None, inputs)


def unspelled(folder: Path, name: str, layer: Layer) -> Network:
    return network(folder, name, layer, f'type: "{layer.type or name}" {layer.settings}')


def near(values: Array, expected: Array) -> None:
    assert values.shape == expected.shape
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5 * max(float(np.abs(expected).max()), 1e-30))


def test_every_layer_is_judged_with_its_defaults() -> None:
    judged = {layer.type or name for name, layer in BY_OPENCV.items()}
    judged |= {layer.type or name for name, (layer, _) in BY_HAND.items()}
    assert judged == set(FORMULAS)


@pytest.mark.parametrize("name", BY_OPENCV)
def test_opencv_computes_what_the_formulas_do_with_their_defaults(name: str, tmp_path: Path) -> None:
    layer = BY_OPENCV[name]
    values = unspelled(tmp_path, name, layer).by_formulas().tops["op", 0]
    judge = network(tmp_path, name, layer, layer.spelled) if layer.spelled else unspelled(tmp_path, name, layer)
    near(values, judge.by_opencv())


@pytest.mark.parametrize("name", BY_HAND)
def test_the_formulas_of_what_opencv_lacks(name: str, tmp_path: Path) -> None:
    layer, expected = BY_HAND[name]
    values = unspelled(tmp_path, name, layer).by_formulas().tops["op", 0]
    near(values, expected())


# --- each default counts -------------------------------------------------------------------------------------------------

# Defaults that change nothing of these layers.
WITHOUT_EFFECT: Mapping[str, str] = {
    "BN.bn_mode": "it counts if it is set",
    "BN.frozen": "it counts in training",
    "BN.momentum": "it counts in training",
    "BatchNorm.moving_average_fraction": "it counts in training",
    "Concat.concat_dim": "it counts if it is set",
    "Convolution.axis": "no other converts",
    "Convolution.force_nd_im2col": "another way to the same result",
    "Convolution.pad_h": "it counts if it is set",
    "Convolution.pad_w": "it counts if it is set",
    "DetectionOutput.visualize": "it counts for pictures",
    "Eltwise.stable_prod_grad": "it counts in training",
    "Interp.pad_end": "it is negative where it counts",
    "NonMaximumSuppression.eta": "it counts for a threshold above 0.5",
    "Normalize.channel_shared": "a layer with one factor has it for all channels",
    "Pooling.pad_h": "it counts if it is set",
    "Pooling.pad_w": "it counts if it is set",
    "Slice.slice_dim": "it counts if it is set",
    "Upsample.pad_out_h": "it counts for unpoolings, which have no other size",
    "Upsample.pad_out_w": "it counts for unpoolings, which have no other size",
}


def changed(default: str, field: Any) -> str:
    """Another value of a field."""
    if field.enum_type is not None:
        names = [value.name for value in field.enum_type.values]
        return str(names[(names.index(default) + 1) % len(names)])
    if default in ("true", "false"):
        return "false" if default == "true" else "true"
    if field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT:
        return str(2 * float(default) or 0.25)
    return str(int(default) + 1)


def cases() -> dict[str, Layer]:
    return {**BY_OPENCV, **{name: layer for name, (layer, _) in BY_HAND.items()}}


def message_of(type: str) -> str:
    """The message that holds a type's settings; empty where it has none."""
    group = readers[type].group
    return message_type("LayerParameter").DESCRIPTOR.fields_by_name[group].message_type.name if group else ""


def results(folder: Path) -> dict[str, tuple[str, Array | None]]:
    """Layer -> the message of its settings, and what the formulas compute; None if they fail."""
    return {
        name: (message_of(layer.type or name), unspelled(folder, name, layer).by_formulas().tops.get(("op", 0)))
        for name, layer in cases().items()
    }


def same(one: Array | None, other: Array | None) -> bool:
    return one is not None and other is not None and np.array_equal(one, other)


def test_a_wrong_default_changes_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each round one default of every layer is wrong."""
    settings: dict[str, list[tuple[str, str, str]]] = {}  # the message that a layer reads -> message, name, default
    for message in [*DEFAULTS][::-1]:  # DetectionOutput's after those of the message that it holds
        read = "DetectionOutputParameter" if message == "NonMaximumSuppressionParameter" else message
        defaults = [(message, name, default) for name, default in defaults_of(message).items() if default is not None]
        settings.setdefault(read, []).extend(defaults)
    del settings["FillerParameter"]
    right, without = results(tmp_path), set[str]()
    while settings := {read: defaults for read, defaults in settings.items() if defaults}:
        wrong = {read: defaults.pop() for read, defaults in settings.items()}
        with monkeypatch.context() as patch:
            for message, name, default in wrong.values():
                text = f" {DEFAULTS[message]} "
                other = changed(default, fields_of(message)[name])
                patch.setitem(DEFAULTS, message, text.replace(f" {name}={default} ", f" {name}={other} "))
            caffe_network.schema.cache_clear()
            found = results(tmp_path)
        for read, (message, name, _) in wrong.items():
            layers = [layer for layer, (own, _) in right.items() if own == read]
            if all(same(right[layer][1], found[layer][1]) for layer in layers):
                without.add(f"{message.removesuffix('Parameter')}.{name}")
    caffe_network.schema.cache_clear()
    assert without == set(WITHOUT_EFFECT)
