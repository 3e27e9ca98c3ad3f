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
    """what: its name. way: from it to a file that can be read. example: lines for it. reason: why it is not read.

    FILE stands for the quoted name of the file.
    """

    what: str
    way: str
    example: str = ""
    reason: str = "cannot be read"


SAVE = "save the Keras model that it was made from: model.save('model.keras')"
REBUILD = (
    "build the same network in Keras, copy the weights layer by layer (a convolution's (O, I, H, W) becomes (H, W, I, O)), "
    "and save it: model.save('model.keras')"
)
PACKAGES = "pip install torch onnx onnxscript"
PYTORCH = Format(
    "a PyTorch model",
    f"export it to ONNX ({PACKAGES}). In Python, where your class can be imported, with the size of one image; loading runs "
    "code of the file, so do this only with one that you trust:",
    """import torch
model = torch.load(FILE, map_location="cpu", weights_only=False)
if not isinstance(model, torch.nn.Module):  # parameters alone
    parameters = model
    model = Network()  # your class, as in training
    model.load_state_dict(parameters)
torch.onnx.export(model.eval(), (torch.zeros(1, 3, 224, 224),), "model.onnx")""",
)
EXPORTED = Format(
    "a program that torch.export saved",
    f"convert it to ONNX ({PACKAGES}). In Python:",
    """import torch
torch.onnx.export(torch.export.load(FILE), dynamo=True).save("model.onnx")""",
)
TORCHSCRIPT = Format(
    "a TorchScript model",
    f"export it to ONNX ({PACKAGES}). In Python, with the size of one image:",
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
    f"{SAVE}; or, if tf.keras before TensorFlow 2.16 saved it (pip install tf_keras), in Python:",
    """import tf_keras
tf_keras.models.load_model(FILE).save("model.h5")""",
)
SOURCE = "give the model that it was made from, as Keras, Caffe or ONNX"
CORE_ML = Format("a Core ML model", SOURCE)
NCNN = Format("an ncnn model", SOURCE)
OPENVINO = Format("an OpenVINO model", SOURCE)
ORT = Format("an ONNX Runtime model (ORT format)", "give the .onnx file that it was made from")
PADDLE = Format("a PaddlePaddle model", "export it to ONNX with paddle2onnx")
LOADABLE = Format(
    "a loadable of NVDLA",
    "`cnn-convertor inspect FILE` shows it, `cnn-convertor audit FILE --device nvdla-full` checks it, and `cnn-convertor run FILE "
    "--device nvdla-full --inputs x.npy` runs it; --device names the configuration that it was compiled for",
    reason="is compiled already",
)
TENSORRT = Format("a TensorRT engine, made for one GPU", SOURCE)
WEIGHTS = Format("a file of weights without a network", REBUILD)
PICKLE = Format(
    "a Python pickle",
    "load it where it was written, and save the model in it: of Keras, model.save('model.keras'); of PyTorch, "
    "torch.onnx.export(...)",
)
_SAVED = ("saved_model.pb", "saved_model.pbtxt")
HDF5 = b"\x89HDF\r\n\x1a\n"
FORMATS: Mapping[str, Format] = {
    ".ckpt": CHECKPOINT,
    ".engine": TENSORRT,
    ".fbuf": LOADABLE,
    ".gguf": WEIGHTS,
    ".index": CHECKPOINT,
    ".meta": CHECKPOINT,
    ".json": Format(
        "a JSON file without a Keras model",
        "give what model.to_json() writes, beside the weights; a TensorFlow.js model: save it from Keras, "
        "model.save('model.keras')",
    ),
    ".joblib": PICKLE,
    ".mlmodel": CORE_ML,
    ".mlpackage": CORE_ML,
    ".mnn": Format("an MNN model", SOURCE),
    ".npz": Format("a NumPy archive of arrays, without a network", REBUILD),
    ".nvdla": LOADABLE,
    ".ort": ORT,
    ".param": NCNN,
    ".pb": Format(
        "a TensorFlow graph",
        "python -m tf2onnx.convert --graphdef FILE --output model.onnx --inputs NAME --inputs-as-nchw NAME "
        f"--outputs NAME; or {SAVE}",
    ),
    ".pdiparams": PADDLE,
    ".pdmodel": PADDLE,
    ".pdparams": PADDLE,
    ".pickle": PICKLE,
    ".pkl": PICKLE,
    ".plan": TENSORRT,
    ".pt": PYTORCH,
    ".pt2": EXPORTED,
    ".pth": PYTORCH,
    ".safetensors": WEIGHTS,
    ".tflite": LITE,
    ".torchscript": TORCHSCRIPT,
    ".trt": TENSORRT,
    ".xml": OPENVINO,
}
_BEGINNINGS = ((0, b"GGUF", WEIGHTS), (0, b"7767517", NCNN), (4, b"TFL3", LITE), (4, b"ORTM", ORT))  # offset in bytes
_OF_ARCHIVES = {  # how the name of a member ends, or what it contains
    "archive_format": EXPORTED,
    "serialized_exported_program.json": EXPORTED,
    "/code/": TORCHSCRIPT,
    "/data.pkl": PYTORCH,
}
_BESIDE = {".xml": OPENVINO, ".param": NCNN}  # the network to a .bin of weights


def explain(path: Path) -> Problem | None:
    """The problem with a model in a format that cannot be read; None for other files."""
    format_ = _format_of(path)
    if format_ is None:
        return None
    named = path.parent if path.name in _SAVED else path
    name = json.dumps(str(named), ensure_ascii=False)
    problem = f"this is {format_.what}, which {format_.reason}"
    example = format_.example.replace("FILE", name)
    return Problem("DV208", problem, Origin(str(path)), format_.way.replace("FILE", name), example)


def _format_of(path: Path) -> Format | None:
    try:
        if path.is_dir():
            if path.suffix.lower() == ".mlpackage":
                return CORE_ML
            return SAVED_MODEL if any((path / name).exists() for name in (*_SAVED, "keras_metadata.pb")) else None
        if path.name in _SAVED:
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
    for offset, magic, format_ in _BEGINNINGS:
        if start.startswith(magic, offset):
            return format_
    if path.suffix.lower() == ".bin":
        beside = (format_ for suffix, format_ in _BESIDE.items() if path.with_suffix(suffix).is_file())
        by_name = next(beside, None)
    if start.startswith(b"PK\3\4") and zipfile.is_zipfile(path):
        with suppress(*DAMAGES), zipfile.ZipFile(path) as archive:
            members = "\n".join(archive.namelist())
            for part, format_ in _OF_ARCHIVES.items():
                if part in members:
                    return format_
    return by_name
