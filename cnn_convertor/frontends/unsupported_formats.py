"""Recognizes models in formats that cannot be read, and says how to get from them to one that can."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cnn_convertor.errors import Origin, Problem
from cnn_convertor.files.opening import open_file
from cnn_convertor.frontends import START, recognize_content


class Format(NamedTuple):
    """what: its name. way: from it to a file that can be read. example: lines for it.

    FILE stands for the quoted name of the file.
    """

    what: str
    way: str
    example: str = ""


SAVE = "save the Keras model that it was made from: model.save('model.keras')"
REBUILD = (
    "build the same network in Keras, copy the weights layer by layer (a convolution's (O, I, H, W) becomes (H, W, I, O)), "
    "and save it: model.save('model.keras')"
)
PYTORCH = Format(
    "a PyTorch model",
    "export it to ONNX. In Python, with your class as in training, and the size of one image:",
    """import torch
model = Network()
model.load_state_dict(torch.load(FILE, map_location="cpu"))
torch.onnx.export(model.eval(), (torch.zeros(1, 3, 224, 224),), "model.onnx")""",
)
TORCHSCRIPT = Format(
    "a TorchScript model",
    "export it to ONNX. In Python, with the size of one image:",
    """import torch
model = torch.jit.load(FILE, map_location="cpu")
torch.onnx.export(model.eval(), (torch.zeros(1, 3, 224, 224),), "model.onnx", dynamo=False)""",
)
LITE = Format(
    "a TensorFlow Lite model",
    "if its weights are not rounded, python -m tf2onnx.convert --tflite FILE --output model.onnx "
    f"--inputs NAME --inputs-as-nchw NAME; else {SAVE}",
)
CHECKPOINT = Format(
    "a TensorFlow checkpoint", "load it into its Keras model: model.load_weights(...), then model.save('model.keras')"
)
SAVED_MODEL = Format(
    "a TensorFlow SavedModel folder",
    f"if Keras saved it: pip install tf_keras, then tf_keras.models.load_model('FOLDER').save('model.h5'); else {SAVE}",
)
HDF5 = b"\x89HDF\r\n\x1a\n"
FORMATS: Mapping[str, Format] = {
    ".ckpt": CHECKPOINT,
    ".engine": Format("a TensorRT engine", "it is made for one GPU: go back to the model that it was made from"),
    ".index": CHECKPOINT,
    ".meta": CHECKPOINT,
    ".json": Format(
        "a JSON file without a Keras model",
        "give what model.to_json() writes, beside the weights; a TensorFlow.js model: save it from Keras, "
        "model.save('model.keras')",
    ),
    ".mlmodel": Format("a Core ML model", f"export the model that it was made from to ONNX, or {REBUILD}"),
    ".pb": Format(
        "a TensorFlow graph",
        "python -m tf2onnx.convert --graphdef FILE --output model.onnx --inputs NAME --inputs-as-nchw NAME "
        f"--outputs NAME; or {SAVE}",
    ),
    ".pdmodel": Format("a PaddlePaddle model", "export it to ONNX with paddle2onnx"),
    ".pt": PYTORCH,
    ".pth": PYTORCH,
    ".safetensors": Format("a file of weights without a network", REBUILD),
    ".tflite": LITE,
    ".torchscript": TORCHSCRIPT,
}


def explain(path: Path) -> Problem | None:
    """The problem with a model in a format that cannot be read; None for other files."""
    format_ = _format_of(path)
    if format_ is None:
        return None
    way, example = (text.replace("FILE", json.dumps(path.name)) for text in (format_.way, format_.example))
    return Problem("DV208", f"this is {format_.what}, which cannot be read", Origin(str(path)), way, example)


def _format_of(path: Path) -> Format | None:
    try:
        if path.is_dir():
            saved = any((path / name).exists() for name in ("saved_model.pb", "saved_model.pbtxt", "keras_metadata.pb"))
            return SAVED_MODEL if saved else None
        if path.name in {"saved_model.pb", "saved_model.pbtxt"}:
            return SAVED_MODEL
        return _by_contents(path)
    except (OSError, ValueError):  # reading the file reports it
        return None


def _by_contents(path: Path) -> Format | None:
    """Some formats show in the content, with any name; others only in the name."""
    import zipfile  # --help needs none

    from cnn_convertor.files.limited import DAMAGES

    by_name = FORMATS.get(path.suffix.lower())
    if not path.is_file():
        return None if path.suffix.lower() == ".json" else by_name
    with open_file(path) as file:
        start = file.read(START)
    if start.startswith(HDF5) or (by_name is FORMATS[".json"] and recognize_content(start)):  # may be Keras's
        return None
    if start[4:8] == b"TFL3":
        return LITE
    if start.startswith(b"PK\3\4") and zipfile.is_zipfile(path):
        with suppress(*DAMAGES), zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if any("/code/" in name for name in names):
                return TORCHSCRIPT
            if any(name.endswith("/data.pkl") for name in names):
                return PYTORCH
    return by_name
