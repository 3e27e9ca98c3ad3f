"""Writes a first net.ini for a model: every key with its meaning, and guesses from the model's first layers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from cnn_convertor.config import KEYS, Config, Key, is_model, name_of
from cnn_convertor.config.request import Request
from cnn_convertor.errors import Origin, UsageError, near_file
from cnn_convertor.escaping import visible
from cnn_convertor.frontends.unsupported_formats import explain
from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes.normalization import input_normalizations
from cnn_convertor.pipeline import read

_BRIGHTEST: Final = 255.0
_LARGEST_FACTOR: Final = 0.1  # of pixels of 0 to 255; a larger one belongs to values of 0 to 1
_UNSAFE: Final = frozenset('#;"\\')  # in a path, where they need double quotes
_WIDTH: Final = 44  # characters before the comment of a key
_NO_WEIGHTS: Final = "to be set: the definition has no weights"


class Guess(NamedTuple):
    """A value of a key, or None if the user has to find it, and the reason."""

    key: str
    value: str | None
    reason: str


def first_ini(model: Path, output: Path | None) -> str:
    """The text of an ini file for a model file. output: where it will be, which decides its paths; None: in this folder.

    Raises UsageError when there cannot be one, ModelError when the model cannot be read at all.
    """
    if unsupported := explain(model):
        raise UsageError(unsupported)
    if not model.is_file() or not is_model(model):
        problem = "this is not a model" if model.exists() else f'there is no file "{model}"{near_file(model)}'
        raise UsageError.of(
            "DV162", problem, Origin(str(model)), "give a .prototxt, .h5, .hdf5, .keras, .json or .onnx file"
        )
    if output is not None and output.exists():
        raise UsageError.of("DV162", "the file exists already", Origin(str(output)), "give another name after -o")
    folder = Path() if output is None else output.parent
    config = Config(definition=model)
    weights = _weights_of(config, model)
    values = {
        "name": name_of(model),
        "definition": _path(model, folder),
        "output_folder": "output",
        "generate_source": "1",
        "quantization": "auto",
    }
    if weights is not None and weights != model:
        values["data"] = _path(weights, folder)
    knows_weights = weights is not None or not config.model.may_lack_weights
    graph = read(Request.of(replace(config, data=weights or model)), with_weights=knows_weights).graph
    guesses = guessed_preprocessing(graph) if knows_weights else (Guess("data", None, _NO_WEIGHTS),)
    return "\n".join(_lines(values, {guess.key: guess for guess in guesses})) + "\n"


def _weights_of(config: Config, model: Path) -> Path | None:
    """The file of the weights, if the model has none and one file beside it stands out: by its name, or as the only one."""
    if not config.model.may_lack_weights:
        return None
    beside = sorted(path for path in model.parent.iterdir() if path.suffix.lower() in config.origin.data)
    same = [path for path in beside if path.stem == model.stem]
    snapshots = [path for path in beside if path.stem.startswith(f"{model.stem}_iter_")]
    candidates = same or snapshots or beside
    return candidates[0] if len(candidates) == 1 else None


def _path(path: Path, folder: Path) -> str:
    """A path as an ini file in the folder names it. Raises UsageError for one that it cannot name."""
    text = Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    if '"' in text or text != text.strip() or not text.isprintable():
        hint = "rename the file: letters, digits, dots, dashes and underscores are safe"
        raise UsageError.of("DV162", "an ini file cannot name this file", Origin(visible(str(path))), hint)
    return f'"{text}"' if _UNSAFE.intersection(text) else text


# --- preprocessing -------------------------------------------------------------------------------------------------------


def guessed_preprocessing(graph: Graph) -> tuple[Guess, ...]:
    """Preprocessing that fits the first layers; empty unless they normalize every input in the same way."""
    normalizations = input_normalizations(graph)
    takes_bytes = {max(map(abs, each.scale)) <= _LARGEST_FACTOR for each in normalizations}
    if len(normalizations) != len(graph.inputs) or len(takes_bytes) != 1:
        return ()
    layers = ", ".join(f'"{visible(layer)}"' for each in normalizations for layer in each.layers)
    values = "pixels of 0 to 255" if True in takes_bytes else "values of 0 to 1"
    reason = f"guessed: the network normalizes its input itself ({layers}), as it suits {values}"
    return Guess("mean", "0", reason), Guess("scale", "1" if True in takes_bytes else f"1/{_BRIGHTEST:g}", reason)


# --- text ----------------------------------------------------------------------------------------------------------------


def _lines(values: dict[str, str], guesses: dict[str, Guess]) -> Iterator[str]:
    """The ini file, key by key: those that are given or guessed, and the others as comments with their defaults."""
    yield "# How cnn-convertor converts this network. `cnn-convertor docs net-ini` explains each key."
    for section in dict.fromkeys(key.section for key in KEYS):
        yield from ("", f"[{section}]")
        for key in KEYS:
            if key.section == section:
                yield _line(key, values, guesses)


def _line(key: Key, values: dict[str, str], guesses: dict[str, Guess]) -> str:
    meaning = key.meaning.replace("`", "")
    if key.name in values:
        return _setting(f"{key.name} = {values[key.name]}", meaning)
    guess = guesses.get(key.name, Guess(key.name, None, ""))
    if guess.value is not None:
        return _setting(f"{key.name} = {guess.value}", f"{meaning}; {guess.reason}")
    return _setting(f"# {key.name} = {key.default or ''}".rstrip(), f"{meaning}; {guess.reason}".removesuffix("; "))


def _setting(setting: str, comment: str) -> str:
    return f"{setting:<{_WIDTH}}  # {comment}"
