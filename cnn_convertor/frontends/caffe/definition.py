"""Reads a network's text definition: the layers that are there at test time, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from cnn_convertor.errors import ModelError, Origin, Problem, warn
from cnn_convertor.frontends.caffe import text
from cnn_convertor.frontends.caffe.schema import message_type, value_of, values
from cnn_convertor.frontends.caffe.weights import check_file

SOLVER_FIELDS = {
    "net",
    "train_net",
    "test_net",
    "base_lr",
    "lr_policy",
    "max_iter",
    "solver_mode",
    "snapshot",
    "test_iter",
}
V1_TYPE_FIELD = "cnn_convertor.caffe.V1LayerParameter.type"

# The old form's names of layer types.
V1_TYPES = {
    "ABSVAL": "AbsVal",
    "ACCURACY": "Accuracy",
    "ARGMAX": "ArgMax",
    "BNLL": "BNLL",
    "CONCAT": "Concat",
    "CONTRASTIVE_LOSS": "ContrastiveLoss",
    "CONVOLUTION": "Convolution",
    "DATA": "Data",
    "DECONVOLUTION": "Deconvolution",
    "DROPOUT": "Dropout",
    "DUMMY_DATA": "DummyData",
    "ELTWISE": "Eltwise",
    "EUCLIDEAN_LOSS": "EuclideanLoss",
    "EXP": "Exp",
    "FLATTEN": "Flatten",
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "HINGE_LOSS": "HingeLoss",
    "IM2COL": "Im2col",
    "IMAGE_DATA": "ImageData",
    "INFOGAIN_LOSS": "InfogainLoss",
    "INNER_PRODUCT": "InnerProduct",
    "LRN": "LRN",
    "MEMORY_DATA": "MemoryData",
    "MULTINOMIAL_LOGISTIC_LOSS": "MultinomialLogisticLoss",
    "MVN": "MVN",
    "POOLING": "Pooling",
    "POWER": "Power",
    "RELU": "ReLU",
    "SIGMOID": "Sigmoid",
    "SIGMOID_CROSS_ENTROPY_LOSS": "SigmoidCrossEntropyLoss",
    "SILENCE": "Silence",
    "SLICE": "Slice",
    "SOFTMAX": "Softmax",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "SPLIT": "Split",
    "TANH": "TanH",
    "THRESHOLD": "Threshold",
    "WINDOW_DATA": "WindowData",
    # Names that forks gave to their own layers.
    "BN": "BN",
    "BATCHNORM": "BatchNorm",
    "BATCH_NORM": "BatchNorm",
    "SCALE": "Scale",
    "PRELU": "PReLU",
    "UPSAMPLE": "Upsample",
    "CROP": "Crop",
    "RESHAPE": "Reshape",
}


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer as the definition has it.

    shared: for each blob the name under which layers share it, or "".
    """

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    shared: tuple[str, ...]
    message: Any
    origin: Origin


def read_definition(path: Path) -> tuple[Layer, ...]:
    """The layers at test time, those of the `input` header first.

    Warns of fields that are not known. Raises ModelError when the file makes no sense.
    """
    content = text.parse(_read_text(path), message_type("NetParameter"), str(path), open_enums=(V1_TYPE_FIELD,))
    net = content.message
    if not (net.layer or net.layers):
        raise _no_layers(path, {unknown.name for unknown in content.unknown})
    if net.layer and net.layers:
        line = max(content.lines["layer", 0], content.lines["layers", 0])
        problem = "the definition holds layers of the old form (layers) and of the new one (layer)"
        raise ModelError(
            Problem(
                "DV212",
                problem,
                Origin(str(path), line=line),
                "bring it to one form with Caffe's upgrade_net_proto_text",
            )
        )
    for unknown in content.unknown:
        times = f" ({unknown.count} times, here first)" if unknown.count > 1 else ""
        problem = f'the field "{unknown.name}" of {unknown.message} is not known, and is left out{times}'
        warn(
            Problem(
                "DV210", problem, Origin(str(path), line=unknown.line), "make sure that the network works without it"
            )
        )
    state = (net.state.level, frozenset(net.state.stage))
    layers = _new_layers(content, path) if net.layer else _old_layers(content, path)
    kept = (layer for layer in layers if _is_included(layer, *state))
    return tuple(chain(_header_inputs(content, path), kept))


def _read_text(path: Path) -> str:
    check_file(path, "definition")
    origin = Origin(str(path))
    with path.open("rb") as file:
        head = file.read(1 << 16)
        if head.startswith((b"\x89HDF", b"PK\x03\x04")):
            raise ModelError(
                Problem(
                    "DV201", "this is no Caffe definition, but looks like a Keras model", origin, "set origin = KERAS"
                )
            )
        if b"\0" in head:
            hint = "`definition` names the .prototxt, `data` the .caffemodel"
            raise ModelError(Problem("DV201", "the definition is a binary file, not a text", origin, hint))
        return (head + file.read()).decode("utf-8-sig", errors="replace")


def _no_layers(path: Path, unknown: set[str]) -> ModelError:
    if unknown & SOLVER_FIELDS:
        problem = "this is the definition of a training run (a solver), not of a network"
        return ModelError(
            Problem("DV201", problem, Origin(str(path)), "name the network's own .prototxt, best its deploy form")
        )
    return ModelError(
        Problem("DV201", "the definition holds no layer", Origin(str(path)), "name the network's .prototxt")
    )


def _header_inputs(content: text.Text, path: Path) -> Iterator[Layer]:
    """An Input layer for each `input` at the top of the file."""
    net = content.message
    count, dims = len(net.input), list(net.input_dim)
    shapes = [list(shape.dim) for shape in net.input_shape] or [dims[i : i + 4] for i in range(0, len(dims), 4)]
    if count and shapes and (len(shapes) != count or (dims and not net.input_shape and len(dims) != 4 * count)):
        line = content.lines["input_shape" if net.input_shape else "input_dim", 0]
        problem = f"{count} inputs are named, but the sizes given are not for as many"
        hint = "give one input_shape, or four input_dim (batch, channels, height, width), for each input"
        raise ModelError(Problem("DV206", problem, Origin(str(path), line=line), hint))
    for index, name in enumerate(net.input):
        message = message_type("LayerParameter")()
        if shapes:
            message.input_param.shape.add().dim.extend(shapes[index])
        origin = Origin(str(path), name, "Input", content.lines["input", index])
        yield Layer(name, "Input", (), (name,), (), message, origin)


def _new_layers(content: text.Text, path: Path) -> Iterator[Layer]:
    for index, message in enumerate(content.message.layer):
        name = message.name or (message.top[0] if message.top else "")
        origin = Origin(str(path), name, message.type, content.lines["layer", index])
        shared = tuple(spec.name for spec in message.param)
        yield Layer(name, message.type, tuple(message.bottom), tuple(message.top), shared, message, origin)


def _old_layers(content: text.Text, path: Path) -> Iterator[Layer]:
    for index, message in enumerate(content.message.layers):
        word = content.words.get(("layers", index, "type"), "")
        if not word and message.HasField("type"):
            word = values(message)["type"]
        type = V1_TYPES.get(word.upper(), word)
        name = message.name or (message.top[0] if message.top else "")
        origin = Origin(str(path), name, type, content.lines["layers", index])
        shared = tuple(message.param)
        yield Layer(name, type, tuple(message.bottom), tuple(message.top), shared, _as_new(message), origin)


def _as_new(old: Any) -> Any:
    """The settings and rules of an old layer as a new one; their fields have the same names and types."""
    new = message_type("LayerParameter")()
    for field, value in old.ListFields():
        if field.name in ("include", "exclude"):
            getattr(new, field.name).extend(value)
        elif field.name.endswith("_param"):
            getattr(new, field.name).CopyFrom(value)
    return new


def _is_included(layer: Layer, level: int, stages: frozenset[str]) -> bool:
    """Whether the layer's rules keep it in a net of the TEST phase."""
    include, exclude = layer.message.include, layer.message.exclude
    if include and exclude:
        raise ModelError(
            Problem("DV212", "the layer has rules to include it and rules to exclude it", layer.origin, "keep one kind")
        )
    if include:
        return any(_is_met(rule, level, stages) for rule in include)
    return not any(_is_met(rule, level, stages) for rule in exclude)


def _is_met(rule: Any, level: int, stages: frozenset[str]) -> bool:
    given = values(rule)
    return (
        given.get("phase", "TEST") == "TEST"
        and given.get("min_level", level) <= level <= given.get("max_level", level)
        and stages.issuperset(rule.stage)
        and stages.isdisjoint(rule.not_stage)
    )


def setting(message: Any, name: str) -> Any:
    """A field's value or default, by its name."""
    return value_of(message, message.DESCRIPTOR.fields_by_name[name])
