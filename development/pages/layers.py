"""The page docs/layers.md: the layers that can be converted, made from what their readers declare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, get_args

from cnn_convertor.devices.dv700.legalize.device_forms import FUNCTIONS
from cnn_convertor.devices.dv700.operators import OPERATORS, Executor
from cnn_convertor.devices.words import words_of
from cnn_convertor.frontends.caffe.layers import caffe
from cnn_convertor.frontends.caffe.reading import HARMLESS as CAFFE_HARMLESS
from cnn_convertor.frontends.keras.importer import OPERATIONS_HARMLESS, keras, operations
from cnn_convertor.frontends.keras.reading import HARMLESS as KERAS_HARMLESS
from cnn_convertor.frontends.onnx.operators import onnx
from cnn_convertor.frontends.onnx.reading import HARMLESS as ONNX_HARMLESS
from cnn_convertor.frontends.readers import LayerReader, Registry
from cnn_convertor.ir import ops
from development.pages.cpu_layers import cpu_layers


class Framework(NamedTuple):
    name: str
    registry: Registry[Any]
    harmless: frozenset[str]


FRAMEWORKS = (
    Framework("Caffe", caffe, CAFFE_HARMLESS),
    Framework("Keras", keras, KERAS_HARMLESS),
    Framework("Keras: functions between layers", operations, OPERATIONS_HARMLESS),
    Framework("ONNX", onnx, ONNX_HARMLESS),
)


def _places(reader: LayerReader[Any]) -> list[str]:
    """Where what the reader makes runs, functions within the operator that applies them."""
    executors = {_executor(made) for made in reader.makes}
    return [executor.value for executor in Executor if executor in executors]


def _executor(made: type) -> Executor:
    """Who computes an operator, or a function of single elements."""
    if made in OPERATORS:
        return OPERATORS[made].executor
    if made in get_args(ops.Function):
        return OPERATORS[ops.Activation].executor
    return OPERATORS[ops.Unary].executor if made in FUNCTIONS else Executor.CPU


# --- the page ------------------------------------------------------------------------------------------------------------


def manual() -> str:
    """The page docs/layers.md."""
    return "\n".join(_lines()) + "\n\n" + cpu_layers()


def _lines() -> Iterator[str]:
    yield "# Layers that can be converted"
    yield ""
    yield "This page is generated from the declarations of the readers in `cnn_convertor/frontends`."
    yield ""
    yield "A layer of another type, or with a setting that is not listed, is an error (DV301, DV302) and never ignored, except for"
    yield "custom layers of Keras models, which the firmware implements. `cnn-convertor inspect` shows where each layer of a network"
    yield "runs. Sizes have the limits of [messages.md](messages.md#4xx-the-device). If a layer needs another order of axes, the CPU reorders"
    yield "its input."
    yield ""
    yield "| runs | meaning |"
    yield "|---|---|"
    for executor in Executor:
        yield f"| {executor.value} | {executor.meaning} |"
    for framework in FRAMEWORKS:
        yield from _table(framework)


def _table(framework: Framework) -> Iterator[str]:
    yield ""
    yield f"## {framework.name}"
    yield ""
    yield f"These settings change nothing: {_code(sorted(framework.harmless))}."
    if "activation" in {name for type in framework.registry for name in framework.registry[type].settings}:
        yield "`activation` takes what a layer of the type `Activation` takes."
    yield ""
    yield "| type | becomes | runs | settings | limits |"
    yield "|---|---|---|---|---|"
    for reader, types in _by_reader(framework.registry).items():
        words = ", ".join(dict.fromkeys(map(words_of, reader.makes)))
        meaning = _cell((reader.read.__doc__ or "").strip().partition("\n")[0])
        settings = (
            "all, without effect" if "*" in reader.ignores else _code([*reader.settings, *sorted(reader.ignores)])
        )
        becomes = f"{meaning} ({words})" if meaning else words
        yield f"| {_code(types)} | {becomes} | {', '.join(_places(reader))} | {settings} | {_cell(reader.limits)} |"


def _by_reader(registry: Registry[Any]) -> dict[LayerReader[Any], list[str]]:
    """Types of the same reader together, where the first of them stands."""
    found: dict[LayerReader[Any], list[str]] = {}
    for type in registry:
        found.setdefault(registry[type], []).append(type)
    return found


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
