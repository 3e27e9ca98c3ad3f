"""Reads a network's text definition: the layers that are there at test time, in their order."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from cnn_convertor.errors import ModelError, Origin, Problem, suggestion, warn
from cnn_convertor.files.opening import open_file
from cnn_convertor.frontends import recognize_content
from cnn_convertor.frontends.caffe import text
from cnn_convertor.frontends.caffe.schema import message_type, value_of, values
from cnn_convertor.frontends.model_file import check_file

SOLVER_FIELDS = frozenset(
    ["net", "train_net", "test_net", "base_lr", "lr_policy", "max_iter", "solver_mode", "snapshot", "test_iter"]
)
LARGEST = 8 << 20  # bytes of a definition; those of large networks have less than 1 MB
V1_TYPE_FIELD = "cnn_convertor.caffe.V1LayerParameter.type"

# Types that the old form names in capitals, in part with underscores; the last line is of forks.
_V1_TYPES = """
    AbsVal Accuracy ArgMax BNLL Concat ContrastiveLoss Convolution Data Deconvolution Dropout DummyData Eltwise EuclideanLoss
    Exp Flatten HDF5Data HDF5Output HingeLoss Im2col ImageData InfogainLoss InnerProduct LRN MemoryData
    MultinomialLogisticLoss MVN Pooling Power ReLU Sigmoid SigmoidCrossEntropyLoss Silence Slice Softmax Split TanH Threshold
    WindowData
    BN BatchNorm Scale PReLU Upsample Crop Reshape
"""
_BY_V1_NAME = {type.upper(): type for type in _V1_TYPES.split()} | {"SOFTMAXLOSS": "SoftmaxWithLoss"}

# Settings that a fork has beside Caffe's, and that change no result: (message, field) -> the fork.
FORKS = {
    ("ConvolutionParameter", "conv_algos_override"): "NVCaffe",
    ("ConvolutionParameter", "cudnn_convolution_algo_seeker"): "NVCaffe",
}
RULES = ("NetState", "NetStateRule")  # messages that choose the layers


def type_of_v1(name: str) -> str:
    """The type that the old form calls `name`; the name itself where it is not known."""
    return _BY_V1_NAME.get(name.upper().replace("_", ""), name)


@dataclass(frozen=True, slots=True)
class CaffeLayer:
    """A layer of the definition.

    shared: for each blob the name under which layers share it, or "". unknown: fields that Caffe does not have.
    """

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    shared: tuple[str, ...]
    message: Any
    origin: Origin
    unknown: tuple[text.Unknown, ...] = ()


def read_definition(path: Path, stages: Iterable[str] = (), level: int | None = None) -> tuple[CaffeLayer, ...]:
    """The layers at test time, those of the `input` header first.

    stages, level: for the rules that include layers, added to the definition's own stages, or in place of its level.
    Warns of unknown fields. Raises ModelError when the file is invalid.
    """
    content = text.parse(_read_text(path), message_type("NetParameter"), str(path), open_enums=(V1_TYPE_FIELD,))
    net = content.message
    if not (net.layer or net.layers):
        raise _no_layers(path, {unknown.name for unknown in content.unknown})
    if net.layer and net.layers:
        line = max(content.lines["layer", 0], content.lines["layers", 0])
        problem = "the definition holds layers of the old form (layers) and of the new one (layer)"
        hint = "bring it to one form with Caffe's upgrade_net_proto_text"
        raise ModelError.of("DV212", problem, Origin(str(path), line=line), hint)
    _warn_of_unknown(content, path)
    state = (net.state.level if level is None else level, frozenset((*net.state.stage, *stages)))
    layers = _new_layers(content, path) if net.layer else _old_layers(content, path)
    kept = (layer for layer in layers if _is_included(layer, *state))
    return tuple(chain(_header_inputs(content, path), kept))


def _warn_of_unknown(content: text.ParsedText, path: Path) -> None:
    """Warn of the fields that are ignored; the others are in a layer's settings, whose reader refuses them."""
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for unknown in content.unknown:
        if unknown.message in RULES:
            problem = f'the field "{unknown.name}" of {unknown.message}, which chooses layers, is unknown'
            fields = message_type(unknown.message).DESCRIPTOR.fields_by_name
            hint = suggestion(unknown.name, fields) or "remove it if the layers stay the same"
            raise ModelError.of("DV212", problem, Origin(str(path), line=unknown.line), hint)
        key = (unknown.message, unknown.name)
        if is_ignored(unknown):
            line, count = counts.get(key, (unknown.line, 0))
            counts[key] = line, count + unknown.count
    for key, (line, count) in counts.items():
        times = f" ({count} times, here first)" if count > 1 else ""
        what = f"is one of {FORKS[key]}'s" if key in FORKS else "is unknown"
        problem = f'the field "{key[1]}" of {key[0]} {what} and ignored{times}'
        where = Origin(str(path), line=line)
        warn(Problem("DV210", problem, where, "make sure that the network works without it"))


def is_ignored(unknown: text.Unknown) -> bool:
    """Whether a field that Caffe does not have changes no result: it is in no layer's settings, a known fork's, or for training."""
    is_setting = unknown.group.endswith("_param") and unknown.message != "FillerParameter"
    return not is_setting or (unknown.message, unknown.name) in FORKS


def _unknown_in_layers(content: text.ParsedText) -> dict[tuple[str, int], tuple[text.Unknown, ...]]:
    fields: dict[tuple[str, int], tuple[text.Unknown, ...]] = {}
    for unknown in content.unknown:
        fields[unknown.within] = (*fields.get(unknown.within, ()), unknown)
    return fields


def _read_text(path: Path) -> str:
    check_file(path, "definition")
    origin = Origin(str(path))
    with open_file(path) as file:
        head = file.read(1 << 16)
        if other := recognize_content(head):
            problem = f"this is not a Caffe definition, but looks like a {other.title} model"
            raise ModelError.of("DV201", problem, origin, f"set origin = {other.name}")
        if b"\0" in head:
            hint = "`definition` names the .prototxt, `data` the .caffemodel"
            raise ModelError.of("DV201", "the definition is a binary file, not text", origin, hint)
        content = head + file.read(LARGEST)
    if len(content) > LARGEST:
        problem = f"the definition has more than {LARGEST >> 20} MB, which no network needs"
        raise ModelError.of("DV201", problem, origin, "name the network's .prototxt, without weights in it")
    return content.decode("utf-8-sig", errors="replace")


def _no_layers(path: Path, unknown: set[str]) -> ModelError:
    problem = "the definition holds no layer"
    hint = "name the network's .prototxt"
    if unknown & SOLVER_FIELDS:
        problem = "this is the definition of a training run (a solver), not of a network"
        hint = "name the network's own .prototxt, preferably its deploy form"
    return ModelError.of("DV201", problem, Origin(str(path)), hint)


def _header_inputs(content: text.ParsedText, path: Path) -> Iterator[CaffeLayer]:
    """An Input layer for each `input` at the top of the file."""
    net = content.message
    count, dims = len(net.input), list(net.input_dim)
    shapes = [list(shape.dim) for shape in net.input_shape] or [dims[i : i + 4] for i in range(0, len(dims), 4)]
    if count and shapes and (len(shapes) != count or (dims and not net.input_shape and len(dims) != 4 * count)):
        line = content.lines["input_shape" if net.input_shape else "input_dim", 0]
        problem = f"{count} inputs are named, but the sizes given are not for as many"
        hint = "give one input_shape, or four input_dim (batch, channels, height, width), for each input"
        raise ModelError.of("DV206", problem, Origin(str(path), line=line), hint)
    for index, name in enumerate(net.input):
        message = message_type("LayerParameter")()
        if shapes:
            message.input_param.shape.add().dim.extend(shapes[index])
        origin = Origin(str(path), name, "Input", content.lines["input", index])
        yield CaffeLayer(name, "Input", (), (name,), (), message, origin)


def _new_layers(content: text.ParsedText, path: Path) -> Iterator[CaffeLayer]:
    unknown = _unknown_in_layers(content)
    for index, message in enumerate(content.message.layer):
        name = message.name or (message.top[0] if message.top else "")
        origin = Origin(str(path), name, message.type, content.lines["layer", index])
        shared = tuple(spec.name for spec in message.param)
        bottoms = tuple(message.bottom)
        tops = tuple(message.top)
        fields = unknown.get(("layer", index), ())
        yield CaffeLayer(name, message.type, bottoms, tops, shared, message, origin, fields)


def _old_layers(content: text.ParsedText, path: Path) -> Iterator[CaffeLayer]:
    unknown = _unknown_in_layers(content)
    for index, message in enumerate(content.message.layers):
        word = content.words.get(("layers", index, "type"), "")
        if not word and message.HasField("type"):
            word = values(message)["type"]
        type = type_of_v1(word)
        name = message.name or (message.top[0] if message.top else "")
        origin = Origin(str(path), name, type, content.lines["layers", index])
        shared = tuple(message.param)
        bottoms = tuple(message.bottom)
        tops = tuple(message.top)
        fields = unknown.get(("layers", index), ())
        yield CaffeLayer(name, type, bottoms, tops, shared, _as_new(message), origin, fields)


def _as_new(old: Any) -> Any:
    """The settings and rules of an old layer as a new one; their fields have the same names and types."""
    new = message_type("LayerParameter")()
    for field, value in old.ListFields():
        if field.name in ("include", "exclude"):
            getattr(new, field.name).extend(value)
        elif field.name.endswith("_param"):
            getattr(new, field.name).CopyFrom(value)
    return new


def _is_included(layer: CaffeLayer, level: int, stages: frozenset[str]) -> bool:
    """Whether the layer's rules keep it in a net of the TEST phase."""
    include, exclude = layer.message.include, layer.message.exclude
    if include and exclude:
        problem = "the layer has rules to include it and rules to exclude it"
        raise ModelError.of("DV212", problem, layer.origin, "keep one kind")
    if include:
        return any(_is_met(rule, level, stages) for rule in include)
    return not any(_is_met(rule, level, stages) for rule in exclude)


def _is_met(rule: Any, level: int, stages: frozenset[str]) -> bool:
    conditions = values(rule)
    return (
        conditions.get("phase", "TEST") == "TEST"
        and conditions.get("min_level", level) <= level <= conditions.get("max_level", level)
        and stages.issuperset(rule.stage)
        and stages.isdisjoint(rule.not_stage)
    )


def setting(message: Any, name: str) -> Any:
    """A field's value or default, by its name."""
    return value_of(message, message.DESCRIPTOR.fields_by_name[name])
