"""Opens a model file: the model's configuration, and where its weights lie."""

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnn_convertor.errors import ModelError, Origin
from cnn_convertor.files.limited import DAMAGES, TooLargeError, open_archive
from cnn_convertor.files.limited import contents as contents_of
from cnn_convertor.files.opening import Version, open_file
from cnn_convertor.frontends import START, recognize, recognize_content
from cnn_convertor.frontends.keras import KERAS
from cnn_convertor.frontends.keras.hdf5 import Contents, damaged, is_hdf5, read_file, read_member
from cnn_convertor.frontends.keras.model import MAKE_FUNCTIONAL
from cnn_convertor.frontends.keras.parameters import WeightsForm, form_of_weights
from cnn_convertor.frontends.unsupported_formats import explain

LARGEST_TEXT = 32 << 20  # bytes; configurations of large networks have less than 1 MB
CONFIG = "config.json"
METADATA = "metadata.json"
WEIGHTS = "model.weights.h5"
SAVE = "save the whole model from Python: keras.models.load_model(...).save('model.keras')"
SAVE_WHOLE = "save the whole model, not only its weights: model.save('model.keras') instead of model.save_weights(...)"
DAMAGED = "the file may be cut short, or a text (a failed download, a Git LFS pointer): get or save it again"


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """An opened file. config: the model's configuration as JSON, or None when the file holds only weights.

    writer: version of the Keras that saved it; empty where the file does not give it. version: its first number.
    is_json: whether it is JSON, which never holds weights.
    """

    path: Path
    config: Any
    contents: Contents
    writer: str
    version: int
    is_json: bool = False

    def definition(self) -> Any:
        """The configuration. Raises ModelError for a file of weights."""
        if self.config is not None:
            return self.config
        reason = "the file is HDF5, but holds no Keras model (no model_config)"
        hint = SAVE
        match form_of_weights(self.contents):
            case WeightsForm.GROUPS | WeightsForm.TREE:
                reason = "the file holds only weights, not the network"
                hint = f"{SAVE_WHOLE}; or name this file as `data` beside a whole model"
            case WeightsForm.ATTRIBUTES:
                reason = "the file holds only weights, of a model that is a class of your own"
                hint = MAKE_FUNCTIONAL
            case None:
                pass
        raise ModelError.of("DV207", reason, Origin(str(self.path)), hint)


def open_model(path: Path) -> OpenedModel:
    """Open a .h5, .hdf5 or .keras file, or the JSON of a model. Raises ModelError, with a way out, for any other."""
    try:
        if path.is_dir():
            raise _unknown(path)
        if not path.exists():
            raise _error(path, "there is no such file", "check the path in the ini file")
        if path.stat().st_size == 0:
            raise _error(path, "the file is empty", SAVE)
        with open_file(path) as file:
            start = file.read(START)
        if not start.startswith(KERAS.magic) and recognize_content(start) is KERAS and explain(path) is None:
            return _open_json(path)
        if (
            start[:4] == b"PK\3\4"
            and path.suffix.lower() != ".npz"
            and recognize(path) is KERAS
            and explain(path) is None
        ):
            return _open_archive(path)
        if not is_hdf5(path):
            raise _unknown(path)
        contents = read_file(path)
    except OSError as error:
        raise _error(path, f"the file cannot be read: {error.strerror or error}") from None
    text = contents.text("", "model_config")
    writer = contents.text("", "keras_version") or contents.text("model_weights", "keras_version") or ""
    return OpenedModel(path, None if text is None else _parse_json(path, text), contents, writer, _major(writer, 2))


def _open_json(path: Path) -> OpenedModel:
    """What Keras's model.to_json() gives."""
    try:
        config = _parse_json(path, contents_of(path, LARGEST_TEXT))
    except TooLargeError as error:
        raise damaged(str(path), error) from None
    if not (isinstance(config, dict) and isinstance(config.get("class_name"), str)):
        raise _error(path, "the JSON is not a Keras model", "give what model.to_json() writes")
    writer, backend = (str(config.get(name) or "") for name in ("keras_version", "backend"))
    contents = Contents(str(path), {}, {"": {"backend": [backend]}})
    return OpenedModel(path, config, contents, writer, _major(writer, 3 if "module" in config else 2), is_json=True)


def _open_archive(path: Path) -> OpenedModel:
    version = Version.of(path.stat())
    try:
        with open_archive(path) as archive:
            names = archive.namelist()
            config = _read_text(path, archive, CONFIG) if CONFIG in names else None
            metadata = _read_text(path, archive, METADATA) if METADATA in names else b"{}"
        if config is None or WEIGHTS not in names:
            missing = CONFIG if config is None else WEIGHTS
            hint = SAVE if config is None else "save it again with model.save('model.keras'), without sharding"
            raise _error(path, f"the file is a zip archive, but not a .keras model: it has no {missing}", hint)
        contents = read_member(path, WEIGHTS, version)
    except DAMAGES as error:
        raise damaged(str(path), error) from None
    about = _parse_json(path, metadata)
    writer = str(about.get("keras_version", "")) if isinstance(about, dict) else ""
    return OpenedModel(path, _parse_json(path, config), contents, writer, _major(writer, 3))


def _read_text(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """A member that holds text. Compression hides its size, so it is checked while it is read."""
    with archive.open(name) as member:
        text = member.read(LARGEST_TEXT + 1)
    if len(text) > LARGEST_TEXT:
        raise damaged(str(path), f"{name} has more than {LARGEST_TEXT >> 20} MB")
    return text


def _major(version: str, default: int) -> int:
    """2 of "2.4.0"."""
    first = version.partition(".")[0]
    return int(first) if first.isdecimal() else default


def _parse_json(path: Path, text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(str(path), f"its configuration is not JSON ({error})") from None


def _error(path: Path, reason: str, hint: str = "") -> ModelError:
    return ModelError.of("DV201", reason, Origin(str(path)), hint)


def _unknown(path: Path) -> ModelError:
    """The error for a file that is not Keras's, with the best guess at what it is."""
    if problem := explain(path):
        return ModelError(problem)
    if path.is_dir():
        return _error(path, "this is a folder, not a Keras file", "name a file")
    suffix = path.suffix.lower()
    frontend = recognize(path)
    if frontend is KERAS and suffix in KERAS.suffixes:
        return _error(path, f"the file is called {suffix}, but its content is not a Keras model", DAMAGED)
    if frontend not in (KERAS, None):
        hint = f"set origin = {frontend.name}, with the {' or '.join(frontend.definitions)} as the definition"
        return _error(path, f"this is a {frontend.title} file, not a Keras file", hint)
    return _error(path, f"this is {'a NumPy archive, ' * (suffix == '.npz')}not a Keras file", SAVE)
