"""Tells what kind of file the user gave, and opens it: the model's configuration, and where its weights are."""

from __future__ import annotations

import json
import lzma
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from cnn_convertor.errors import ModelError, Origin, Problem
from cnn_convertor.frontends.keras.storage import Contents, Source, damaged, read_contents
from cnn_convertor.frontends.unsupported_formats import explain

# What reading a damaged archive raises, depending on where the damage is and on how it is packed.
ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError)
CONFIG, METADATA, WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
SAVE = "save the whole model from Python: keras.models.load_model(...).save('model.keras')"
SAVE_WHOLE = "save the whole model, not its weights alone: model.save('model.keras') instead of model.save_weights(...)"

_HINTS: Mapping[str, tuple[str, str]] = {
    ".caffemodel": ("a Caffe model", "give the .prototxt as the definition, and set origin = CAFFE"),
    ".prototxt": ("a Caffe definition", "set origin = CAFFE"),
    ".npz": ("a NumPy archive", SAVE),
}


@dataclass(frozen=True, slots=True)
class ModelFile:
    """An opened file. config: the model's configuration as JSON gives it, or None when the file has weights alone.

    writer: version of the Keras that saved it, as it is told; empty where it is not. version: its first number.
    """

    config: Any
    contents: Contents
    writer: str = ""
    version: int = 3


def open_model(path: Path) -> ModelFile:
    """Open a .h5, .hdf5 or .keras file. Raises ModelError, with what to do, for anything else."""
    try:
        if path.is_dir():
            raise _unknown(path)
        if not path.exists():
            raise ModelError(
                Problem("DV201", "there is no such file", Origin(str(path)), "check the path in the ini file")
            )
        if path.stat().st_size == 0:
            raise ModelError(Problem("DV201", "the file is empty", Origin(str(path)), SAVE))
        with path.open("rb") as file:
            start = file.read(4)
        if start == b"PK\3\4" and path.suffix.lower() not in _HINTS and explain(path) is None:
            return _open_archive(path)
        if not h5py.is_hdf5(path):
            raise _unknown(path)
        contents = read_contents(Source.whole(path))
    except OSError as error:
        raise ModelError(
            Problem("DV201", f"the file cannot be read: {error.strerror or error}", Origin(str(path)))
        ) from None
    text = contents.text("", "model_config")
    writer = contents.text("", "keras_version") or contents.text("model_weights", "keras_version") or ""
    return ModelFile(None if text is None else _parse_json(path, text), contents, writer, _major(writer, 2))


def _major(version: str, default: int) -> int:
    """2 of "2.4.0"."""
    first = version.partition(".")[0]
    return int(first) if first.isdecimal() else default


def _open_archive(path: Path) -> ModelFile:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            config = archive.read(CONFIG) if CONFIG in names else None
            metadata = archive.read(METADATA) if METADATA in names else b"{}"
        if config is None or WEIGHTS not in names:
            raise _incomplete(path, names)
        source = Source.member(path, WEIGHTS)
    except ZIP_ERRORS as error:
        raise damaged(str(path), error) from None
    told = _parse_json(path, metadata)
    writer = str(told.get("keras_version", "")) if isinstance(told, dict) else ""
    return ModelFile(_parse_json(path, config), read_contents(source), writer, _major(writer, 3))


def _parse_json(path: Path, text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(str(path), f"its configuration is no JSON ({error})") from None


def _incomplete(path: Path, names: list[str]) -> ModelError:
    missing = CONFIG if CONFIG not in names else WEIGHTS
    hint = "save it again with model.save('model.keras'), without sharding" if CONFIG in names else SAVE
    return ModelError(
        Problem(
            "DV201", f"the file is a zip archive, but no .keras model: it has no {missing}", Origin(str(path)), hint
        )
    )


def _unknown(path: Path) -> ModelError:
    """The error for what is no Keras file, with the best guess at what it is."""
    if problem := explain(path):
        return ModelError(problem)
    if path.is_dir():
        return ModelError(Problem("DV201", "this is a folder, not a Keras file", Origin(str(path)), "name a file"))
    suffix = path.suffix.lower()
    what, hint = _HINTS.get(suffix, ("", SAVE))
    if not what and suffix in {".h5", ".hdf5", ".keras"}:
        return ModelError(
            Problem("DV201", f"the file is called {suffix}, but what is in it is no Keras model", Origin(str(path)),
                    "the file may be cut short, or a text (a failed download, a Git LFS pointer): get or save it again"))  # fmt: skip
    return ModelError(
        Problem(
            "DV201", f"this is {what or 'not a Keras file'}{', not a Keras file' * bool(what)}", Origin(str(path)), hint
        )
    )


def definition_of(path: Path, opened: ModelFile) -> Any:
    """The configuration. Raises ModelError for a file of weights alone."""
    if opened.config is not None:
        return opened.config
    groups = opened.contents.groups
    weights = (
        opened.contents.texts("", "layer_names") is not None
        or "layers" in groups
        or "_layer_checkpoint_dependencies" in groups
    )
    if weights:
        reason, hint = (
            "the file holds weights alone, not the network",
            f"{SAVE_WHOLE}; or name this file as `data` beside a whole model",
        )
    else:
        reason, hint = "the file is HDF5, but holds no Keras model (no model_config)", SAVE
    raise ModelError(Problem("DV207", reason, Origin(str(path)), hint))


def keras_version(path: Path) -> tuple[int, str]:
    """The first number of the version of the Keras that saved a model, and all of it. Raises ModelError for what is none."""
    opened = open_model(path)
    return opened.version, opened.writer
