"""The layers that can be converted: the page docs/layers.md, made from the readers themselves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from cnn_convertor.frontends.caffe import reading as caffe_reading
from cnn_convertor.frontends.caffe.layers import caffe
from cnn_convertor.frontends.keras import functions
from cnn_convertor.frontends.keras import reading as keras_reading
from cnn_convertor.frontends.keras.importer import OPERATIONS_HARMLESS, layer_types
from cnn_convertor.frontends.readers import Registry
from cnn_convertor.frontends.tracing import trace
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Op

DEVICE, WITHIN, EITHER, CPU = "device", "within", "device/CPU", "CPU"
PLACES: Mapping[str, str] = {
    DEVICE: "on the device, rewritten where its own form is not the device's",
    WITHIN: "on the device, within the command of a neighbor; in a command of its own where there is none that can take it",
    EITHER: "on the device, as it is or rewritten; on the CPU where no rewrite gives the same",
    CPU: "on the CPU: in the runtime, or in C++ that the convertor writes",
    "in place": "no number moves, where the sizes allow it; else on the CPU",
    "nothing": "there is nothing to do",
    "application": "the application writes it",
    "firmware": "the author of the firmware writes it",
}
# Where operators run; the CPU does what is not here.
RUNS: Mapping[type, str] = {
    ops.Input: "application",
    ops.Identity: "nothing",
    ops.Conv2d: DEVICE,
    ops.ConvTranspose2d: DEVICE,
    ops.Dense: DEVICE,
    ops.Add: DEVICE,
    ops.MaxPool2d: EITHER,
    ops.AveragePool2d: EITHER,
    ops.Upsample: EITHER,
    ops.BatchNorm: WITHIN,
    ops.Scale: WITHIN,
    ops.Activation: WITHIN,
    ops.Pad: WITHIN,
    ops.Concat: "in place",
    ops.Reshape: "in place",
    ops.Custom: "firmware",
}
OPERATORS: frozenset[type] = frozenset(get_args(Op))


class Entry(NamedTuple):
    """What is known of a layer type. makes: operators and functions, in words. refused: what is not converted of it.

    arranges: operators that only bring inputs and results into another order.
    """

    type: str
    meaning: str
    makes: tuple[str, ...]
    arranges: tuple[str, ...]
    runs: tuple[str, ...]
    settings: tuple[str, ...]
    refused: tuple[str, ...]


class Framework(NamedTuple):
    """apart: functions of the readers that are told of on their own, and the settings that they take."""

    name: str
    registry: Registry[Any]
    classes: tuple[type, ...]
    apart: Mapping[Callable[..., Any], str]
    harmless: frozenset[str]


FRAMEWORKS = (
    Framework("Caffe", caffe, (caffe_reading.Reading, caffe_reading.Parameters), {}, caffe_reading.HARMLESS),
    Framework(
        "Keras",
        keras_reading.keras,
        (keras_reading.Reading,),
        {functions.take_activation: "activation"},
        keras_reading.HARMLESS,
    ),
    Framework(
        "Keras: functions between layers", keras_reading.operations, (keras_reading.Reading,), {}, OPERATIONS_HARMLESS
    ),
)
assert list(layer_types())  # importing the package of a framework enters its readers


def entries(framework: Framework) -> tuple[Entry, ...]:
    """Of every layer type that the framework's frontend reads, sorted."""
    return tuple(_entry(framework, type) for type in framework.registry)


def _entry(framework: Framework, type: str) -> Entry:
    reader = framework.registry.get(type)
    assert reader is not None
    apart = {} if type == "Activation" else framework.apart
    found = trace(reader, type, framework.classes, apart)
    of_its_own = found.made or found.arranged
    runs = dict.fromkeys(RUNS.get(made, CPU) for made in of_its_own if made in OPERATORS)
    return Entry(
        type=type,
        meaning=_first_line(reader.__doc__ or ""),
        makes=_in_words(of_its_own),
        arranges=_in_words(found.arranged),
        runs=tuple(sorted(runs, key=list(PLACES).index)),
        settings=tuple(found.settings),
        refused=tuple(found.refused),
    )


def _in_words(made: Iterable[type]) -> tuple[str, ...]:
    """Without the operators that only apply a function, since that is there, too."""
    return tuple(dict.fromkeys(words_of(one) for one in made if one not in (ops.Activation, ops.Unary)))


_WORDS: Mapping[type, str] = {
    ops.Conv2d: "convolution",
    ops.ConvTranspose2d: "deconvolution",
    ops.Dense: "fully connected",
    ops.Add: "sum",
    ops.Concat: "concatenation",
    ops.Binary: "element-wise arithmetic",
    ops.TransposeReshape: "transpose",
    ops.L2Normalize: "L2 normalization",
    ops.MeanVarianceNorm: "mean-variance normalization",
}


def words_of(made: type) -> str:
    """An operator or a function in words: AveragePool2d is "average pool"."""
    return _WORDS.get(made) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", made.__name__.removesuffix("2d")).lower()


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


# --- the page ------------------------------------------------------------------------------------------------------------


def manual() -> str:
    """The page docs/layers.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Layers that can be converted"
    yield ""
    yield "This page is made from the readers of the frontends (`cnn_convertor/frontends`): what they take, make and refuse."
    yield ""
    yield "A layer of another type, or with a setting that is not listed, is an error (DV301, DV302), never left out in silence;"
    yield "custom layers of Keras models are the exception: the author of the firmware writes them. `convertor.py inspect` shows"
    yield "for the layers of one network where each runs. Sizes have the limits of [device-rules.md](device-rules.md)."
    yield "Where axes come in another order than a layer takes them, the CPU moves them before it."
    yield ""
    yield "| runs | meaning |"
    yield "|---|---|"
    for place, meaning in PLACES.items():
        yield f"| {place} | {meaning} |"
    for framework in FRAMEWORKS:
        yield from _table(framework)


def _table(framework: Framework) -> Iterator[str]:
    yield ""
    yield f"## {framework.name}"
    yield ""
    yield f"Of no consequence in any layer: {_code(sorted(framework.harmless))}."
    every = entries(framework)
    common = _common(every)
    if common:
        yield f"Is refused in most of them: {'; '.join(map(_cell, common))}."
    for function, setting in framework.apart.items():
        yield f"`{setting}` takes what a layer of the type `{setting.capitalize()}` takes ({_first_line(function.__doc__ or '')})"
    yield ""
    yield "| type | becomes | runs | settings | is refused |"
    yield "|---|---|---|---|---|"
    for types, entry in _grouped(every):
        meaning = f"{_cell(entry.meaning)} " * bool(entry.meaning)
        makes = f"({', '.join(entry.makes)})" if meaning else ", ".join(entry.makes)
        refused = "<br>".join(_cell(text) for text in entry.refused if text not in common)
        yield f"| {_code(types)} | {meaning}{makes} | {', '.join(entry.runs)} | {_code(entry.settings)} | {refused} |"


def _common(every: Sequence[Entry]) -> list[str]:
    """What is refused of more than half of the types."""
    told = Counter(text for entry in every for text in entry.refused)
    return [text for text, count in told.items() if 2 * count > len(every)]


def _grouped(every: Sequence[Entry]) -> list[tuple[list[str], Entry]]:
    """Types of which the same is known, together, where the first of them stands."""
    groups: dict[Entry, list[str]] = {}
    for entry in every:
        groups.setdefault(entry._replace(type=""), []).append(entry.type)
    return [(types, entry) for entry, types in groups.items()]


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
