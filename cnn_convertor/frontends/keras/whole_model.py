"""Joins a network as JSON with its weights, for Keras itself to load."""

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import h5py

from cnn_convertor.frontends.keras.model import SEQUENTIAL
from cnn_convertor.frontends.keras.model_files import CONFIG, METADATA, WEIGHTS, OpenedModel, open_model
from cnn_convertor.frontends.keras.parameters import WeightsForm, form_of_weights


def write_whole_model(opened: OpenedModel, data: Path, folder: Path) -> Path:
    """Write a network as JSON and its weights into one file, as `model.save` does, since Keras reads such files without running code."""
    if form_of_weights(open_model(data).contents) is WeightsForm.TREE:
        path = folder / "model.keras"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(CONFIG, json.dumps(with_module(opened)))
            archive.writestr(METADATA, json.dumps({"keras_version": opened.writer or "3.0.0"}))
            if zipfile.is_zipfile(data):
                with (
                    zipfile.ZipFile(data) as source_archive,
                    source_archive.open(WEIGHTS) as source,
                    archive.open(WEIGHTS, "w") as target,
                ):
                    shutil.copyfileobj(source, target)
            else:
                archive.write(data, WEIGHTS)
        return path
    path = folder / "model.h5"
    with h5py.File(data) as source_archive, h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(opened.config)
        file.attrs["keras_version"] = opened.writer or "3.0.0"
        file.attrs["backend"] = opened.contents.text("", "backend") or "tensorflow"
        group = file.create_group("model_weights")
        root = source_archive.get("model_weights", source_archive)
        for name, value in root.attrs.items():
            group.attrs[name] = value
        for name in root:
            root.copy(name, group)
    return path


def with_module(opened: OpenedModel) -> dict[str, Any]:
    """The network with the package of the model's own class, which JSON of Keras 2 does not give."""
    if opened.version >= 3:
        return dict(opened.config)
    kind = opened.config["class_name"]
    module = "keras" if kind == SEQUENTIAL else "keras.src.engine.functional"
    return {"module": module, "registered_name": kind, **opened.config}
