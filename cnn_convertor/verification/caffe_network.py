"""Reads and evaluates a Caffe network by Caffe's own formulas, slowly, and apart from the frontend that it checks.

Only the names and types of the schema (caffe.binpb) are shared with the frontend, not its defaults. Files are read by
protobuf itself.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.unknown_fields import UnknownFieldSet
from numpy.typing import NDArray

from cnn_convertor.files.opening import bytes_of
from cnn_convertor.verification.formulas import FORMULAS, Blob, FormulaLayer
from cnn_convertor.verification.formulas.defaults import DEFAULTS, defaults_of

Top: TypeAlias = tuple[str, int]  # layer, position

PACKAGE = "cnn_convertor.caffe"
OWN_PACKAGE = f"{PACKAGE}.formulas"  # its own pool: the frontend's schema has the same names with other types
DATA, DOUBLE_DATA = 5, 8  # fields of a blob, which the schema declares as bytes: numbers that are packed
LARGE = 1 << 20  # numbers that stay in FP32, to save memory
V1_TYPE = re.compile(r"\btype\s*:\s*([A-Z0-9_]+)")  # a word without quotes; forks have words that the schema lacks
RAW_TYPES = {0: "<f8", 1: "<f4", 2: "<f2"}


@dataclass(slots=True)
class Evaluation:
    """tops: the blobs of every top, by layer and position. masks: unpooling -> the mask that it was given.

    lacking: layer -> why it has no result.
    """

    tops: dict[Top, Blob] = field(default_factory=dict)
    masks: dict[str, Blob] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)


def evaluate(
    layers: Iterable[FormulaLayer], inputs: Mapping[str, Blob], indices: Mapping[str, Blob] = {}
) -> Evaluation:
    """The blobs of one sample. inputs: name of an input's top -> (1, ...), with the axes of the definition.

    indices: unpooling -> the mask that replaces its second bottom.
    """
    result = Evaluation()
    blobs: dict[str, Blob | None] = {}
    for layer in layers:
        tops = _tops(layer, blobs, inputs, indices, result)
        for position, (name, values) in enumerate(zip(layer.tops, tops, strict=False)):
            blobs[name] = values
            if values is not None:
                result.tops[layer.name, position] = values
    return result


def _tops(
    layer: FormulaLayer,
    blobs: Mapping[str, Blob | None],
    inputs: Mapping[str, Blob],
    indices: Mapping[str, Blob],
    result: Evaluation,
) -> list[Blob | None]:
    if layer.type == "Input":
        return [inputs.get(name) for name in layer.tops]
    bottoms: list[Blob | None] = [blobs.get(name) for name in layer.bottoms]
    missing = [name for name, values in zip(layer.bottoms, bottoms, strict=True) if values is None]
    if missing:
        result.lacking[layer.name] = f"it reads {missing[0]}, which has no result"
    elif layer.type not in FORMULAS:
        result.lacking[layer.name] = f"there is no formula for {layer.type}"
    else:
        if layer.name in indices and len(bottoms) == 2:
            result.masks[layer.name] = np.asarray(bottoms[1])
            bottoms[1] = indices[layer.name]
        try:
            with np.errstate(all="ignore"):  # Caffe's results hold NaN and infinity, too
                results = FORMULAS[layer.type](layer, *bottoms)
            return [results] if isinstance(results, np.ndarray) else [*results]
        except (ValueError, IndexError, TypeError, ZeroDivisionError) as error:  # settings or weights that do not fit
            result.lacking[layer.name] = f"its formula fails: {error}"
    return [None] * len(layer.tops)


# --- reading -------------------------------------------------------------------------------------------------------------


def read_network(
    definition: Path, weights: Path | None, stages: Iterable[str] = (), level: int | None = None
) -> list[FormulaLayer]:
    """The layers at test time, in their order. Raises ValueError when protobuf cannot read a file."""
    net = _parse(bytes_of(definition).decode("utf-8-sig", errors="replace"))
    state = (net.state.level if level is None else level, {*net.state.stage, *stages})
    messages = [message for message in (*net.layer, *map(_upgraded, net.layers)) if _is_included(message, *state)]
    held = {} if weights is None else dict(_held_weights(weights))
    shared = _shared(messages, held)
    inputs = [*_header(net)]
    batch = next((int(shape.dim[0]) for m in (*inputs, *messages) for shape in m.input_param.shape if shape.dim), 1)
    return [
        FormulaLayer(
            message.name or next(iter(message.top), ""),
            message.type,
            tuple(message.bottom),
            tuple(message.top),
            message,
            shared.get(message.name, ()),
            batch,
        )
        for message in (*inputs, *messages)
    ]


def input_dims(layers: Iterable[FormulaLayer]) -> dict[str, tuple[int, ...]]:
    """Name of an input's top -> its dims in the definition."""
    dims: dict[str, tuple[int, ...]] = {}
    for layer in (layer for layer in layers if layer.type == "Input"):
        shapes = [tuple(shape.dim) for shape in layer.message.input_param.shape]
        dims |= {top: shapes[index % len(shapes)] for index, top in enumerate(layer.tops) if shapes}
    return dims


def _parse(text: str) -> Any:
    quoted = V1_TYPE.sub(r'type: "\1"', text)
    try:
        return text_format.Parse(quoted, _message("NetParameter"), allow_unknown_field=True)
    except text_format.ParseError as error:
        raise ValueError(str(error)) from error


def _upgraded(old: Any) -> Any:
    """A layer of the old form as one of the new form, whose settings have the same names."""
    new = _message("LayerParameter")
    by_old_name = {type.upper(): type for type in (*FORMULAS, "Input")}
    new.name = old.name
    new.type = by_old_name.get(old.type.replace("_", ""), old.type)
    new.bottom.extend(old.bottom)
    new.top.extend(old.top)
    for name in old.param:
        new.param.add().name = name
    for setting, value in old.ListFields():
        if setting.name in ("include", "exclude"):
            getattr(new, setting.name).extend(value)
        elif setting.name.endswith("_param"):
            getattr(new, setting.name).CopyFrom(value)
    return new


def _header(net: Any) -> Iterator[Any]:
    """An Input layer for each `input` at the top of the file."""
    for index, name in enumerate(net.input):
        layer = _message("LayerParameter")
        layer.name, layer.type = name, "Input"
        layer.top.append(name)
        dims = net.input_shape[index].dim if net.input_shape else net.input_dim[4 * index : 4 * index + 4]
        layer.input_param.shape.add().dim.extend(dims)
        yield layer


def _is_included(message: Any, level: int, stages: set[str]) -> bool:
    def is_met(rule: Any) -> bool:
        return (
            (not rule.HasField("phase") or rule.phase == 1)  # TEST
            and (not rule.HasField("min_level") or level >= rule.min_level)
            and (not rule.HasField("max_level") or level <= rule.max_level)
            and stages.issuperset(rule.stage)
            and stages.isdisjoint(rule.not_stage)
        )

    return any(map(is_met, message.include)) if message.include else not any(map(is_met, message.exclude))


def _held_weights(path: Path) -> Iterator[tuple[str, tuple[Blob, ...]]]:
    """Layer -> its blobs, in the file's order."""
    net = _message("NetParameter")
    try:
        net.ParseFromString(bytes_of(path))
    except Exception as error:  # protobuf's versions define DecodeError in different modules
        raise ValueError(f"{path.name}: {error}") from error
    for layer in (*net.layer, *net.layers):
        if layer.blobs:
            yield layer.name, tuple(map(_blob, layer.blobs))


def _blob(blob: Any) -> Blob:
    numbers: NDArray[Any]
    if blob.raw_data:
        numbers = np.frombuffer(blob.raw_data, RAW_TYPES[blob.raw_data_type])
    elif blob.data:
        numbers = np.frombuffer(blob.data, "<f4")
    elif blob.double_data:
        numbers = np.frombuffer(blob.double_data, "<f8")
    else:
        numbers = _not_packed(blob)
    is_legacy = any(blob.HasField(name) for name in ("num", "channels", "height", "width"))
    dims = (blob.num, blob.channels, blob.height, blob.width) if is_legacy else tuple(blob.shape.dim)
    return (numbers if numbers.size > LARGE else numbers.astype(np.float64)).reshape(dims)


def _not_packed(blob: Any) -> NDArray[Any]:
    """Numbers that are fields of their own, which are unknown to protobuf, since the schema declares bytes."""
    fields = [(each.field_number, each.data) for each in UnknownFieldSet(blob)]
    singles = np.array([bits for number, bits in fields if number == DATA], "<u4").view("<f4")
    doubles = np.array([bits for number, bits in fields if number == DOUBLE_DATA], "<u8").view("<f8")
    return singles if singles.size else doubles


def _shared(messages: Iterable[Any], held: Mapping[str, tuple[Blob, ...]]) -> dict[str, tuple[Blob, ...]]:
    """Layer -> blobs. Blobs of one name share their values: those of the last layer in the file that has the name."""
    names = {message.name: [spec.name for spec in message.param] for message in messages}
    by_name: dict[str, Blob] = {}
    for layer, blobs in held.items():
        by_name |= {name: blob for name, blob in zip(names.get(layer, ()), blobs, strict=False) if name}
    result = {}
    for layer, shared in names.items():
        own = [*held.get(layer, ())]
        count = max(len(own), max((i + 1 for i, name in enumerate(shared) if name in by_name), default=0))
        result[layer] = tuple(
            by_name[shared[i]] if i < len(shared) and shared[i] in by_name else own[i]
            for i in range(count)
            if i < len(own) or shared[i] in by_name
        )
    return result


# --- the schema ----------------------------------------------------------------------------------------------------------


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(schema().FindMessageTypeByName(f"{OWN_PACKAGE}.{name}"))()


@cache
def schema() -> descriptor_pool.DescriptorPool:
    """Caffe's messages with the defaults of `formulas`, the old form's types as text, and without fields of training."""
    data = resources.files("cnn_convertor.frontends.caffe").joinpath("caffe.binpb").read_bytes()
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        text = text_format.MessageToString(file).replace(f'".{PACKAGE}.', f'".{OWN_PACKAGE}.')
        own = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
        own.name, own.package = f"formulas_{own.name}", OWN_PACKAGE
        for message in own.message_type:
            _rewrite(message)
        pool.Add(own)
    return pool


def _rewrite(message: Any) -> None:
    """A descriptor of the schema as the formulas need it."""
    fields = [each for each in message.field if not each.type_name.endswith(".Skipped")]
    defaults = defaults_of(message.name) if message.name in DEFAULTS else {}
    for each in fields:
        each.ClearField("default_value")
        default = defaults.get(each.name)
        if default is not None:
            each.default_value = default
        if each.type_name.endswith(".LayerType"):
            each.ClearField("type_name")
            each.type = each.TYPE_STRING
    del message.field[:]
    message.field.extend(fields)
