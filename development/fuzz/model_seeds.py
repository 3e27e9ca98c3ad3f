"""Valid models for the harnesses, made from the examples, from what the readers declare, and from `tables`."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from cnn_convertor.frontends.caffe.layers import caffe
from cnn_convertor.frontends.caffe.schema import message_type
from cnn_convertor.frontends.keras.importer import READERS, keras, operations
from cnn_convertor.frontends.keras.model_files import open_model
from cnn_convertor.frontends.onnx.operators import onnx
from cnn_convertor.frontends.wire import WireType
from development.fuzz import tables
from development.fuzz.mutation import Words, message, read_archive, write_archive
from development.fuzz.tables import OnnxNode
from development.fuzz.targets import EXAMPLES, EXTERNAL
from examples.caffemodel import encode, tag

assert READERS  # importing them has filled the registries

# --- Caffe ---------------------------------------------------------------------------------------------------------------


def prototxts() -> Iterator[bytes]:
    """The example, and a network of one layer for each type, with a part of the settings of its group."""
    yield (EXAMPLES / "digits_caffe" / "digits.prototxt").read_bytes()
    head = 'input: "x" input_shape { dim: 1 dim: 4 dim: 6 dim: 5 }\n'
    for type in caffe:
        group = caffe[type].group
        settings = f"{group} {{ {_caffe_settings(group)} }}" if group else ""
        yield f'{head}layer {{ name: "l" type: "{type}" bottom: "x" top: "y" {settings} }}'.encode()
        yield f'{head}layer {{ name: "l" type: "{type}" bottom: "x" bottom: "x" top: "y" top: "z" }}'.encode()
    for text in tables.CAFFE_NETWORKS:
        yield (head + re.sub(r"=(\w)", r'bottom: "\1"', re.sub(r">(\w)", r'top: "\1"', text))).encode()


def _caffe_settings(group: str) -> str:
    described = message_type("LayerParameter").DESCRIPTOR.fields_by_name[group].message_type
    texts = (f"{field.name}: {2 if field.cpp_type != field.CPPTYPE_BOOL else 'true'}" for field in described.fields
        if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_INT32, field.CPPTYPE_FLOAT, field.CPPTYPE_BOOL))  # fmt: skip
    return " ".join(list(texts)[:4])


def caffe_words() -> Words:
    messages = [message_type("NetParameter").DESCRIPTOR, message_type("LayerParameter").DESCRIPTOR]
    messages += [field.message_type for field in messages[1].fields if field.message_type is not None]
    names = dict.fromkeys(field.name for described in messages for field in described.fields)
    return (*caffe, *(f"{name}: " for name in names), "true", "MAX", "AVE", "layer { ", "}", '"x"', '"l"')


def caffemodels() -> Iterator[bytes]:
    """The weights of `targets.WEIGHTED`, complete and as one blob in each of the forms that Caffe has written."""
    shapes: dict[str, list[tuple[int, ...]]] = {
        "c": [(2, 2, 1, 1), (2,)],
        "b": [(2,), (2,), (1,)],
        "s": [(2,), (2,)],
        "p": [(2,)],
        "d": [(2, 2, 1, 1)],
        "i": [(1, 18), (1,)],
    }
    layers = {name: b"".join(message(7, _blob(shape)) for shape in blobs) for name, blobs in shapes.items()}
    yield b"".join(message(100, message(1, name.encode()) + blobs) for name, blobs in layers.items())
    shape, numbers = message(7, message(1, b"\2\2\1\1")), np.arange(4, dtype="<f4").tobytes()
    loose = b"".join(tag(5, WireType.FIXED32) + numbers[i : i + 4] for i in range(0, 16, 4))
    legacy = b"".join(tag(number, WireType.VARINT) + encode(size) for number, size in enumerate((2, 2, 1, 1), start=1))
    halves = message(12, np.arange(4, dtype="<f2").tobytes()) + tag(10, WireType.VARINT) + encode(2)
    doubles = message(8, np.arange(4, dtype="<f8").tobytes())
    for blob in (shape + loose, shape + halves, shape + doubles, legacy + loose):
        yield message(1, b"net") + message(100, message(1, b"c") + message(7, blob))
        yield message(1, b"net") + message(2, message(4, b"c") + message(6, blob))


def _blob(shape: tuple[int, ...]) -> bytes:
    return message(7, message(1, bytes(shape))) + message(5, np.ones(shape, "<f4").tobytes())


# --- Keras ---------------------------------------------------------------------------------------------------------------


def keras_structures() -> Iterator[bytes]:
    """The examples, and a network of one layer or operation for each type."""
    for name in ("digits.keras", "digits_keras2.h5"):
        opened = open_model(EXAMPLES / "digits_keras" / name)
        contents = opened.contents
        arrays = {path: list(variable.shape) for path, variable in contents.variables.items()}
        yield _structure(opened.config, contents.groups, arrays, opened.version)
    for type in keras:
        known = {**tables.KERAS_SETTINGS, **tables.KERAS_OWN.get(type, {})}
        settings = {name: known.get(name) for name in keras[type].settings}
        shapes = next(shapes for start, shapes in tables.KERAS_ARRAYS.items() if type.startswith(start))
        yield _single(
            type, {"name": "l", "dtype": "float32", **_in_one_direction(type, settings)}, "keras.layers", shapes
        )
    for type in operations:
        for keywords in tables.OPERATIONS.get(type, ({},)):
            if type[0].isupper():
                yield _single(type, {"name": "l"}, "keras.src.ops.numpy", keywords=keywords)
            else:
                yield _single("TFOpLambda", {"name": "l", "function": type}, "keras.layers", keywords=keywords)
    for type, config in tables.KERAS_PRODUCTS.items():
        yield _single(
            type,
            {"name": "l", "dtype": "float32", **config},
            "keras.layers",
            tensors=2,
            parts=tables.KERAS_PARTS.get(type, {}),
        )


def _in_one_direction(type: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    if not type.endswith(("1D", "1DTranspose")):
        return settings
    names = ("kernel_size", "strides", "pool_size", "dilation_rate", "output_size", "size")
    return {name: value[:1] if name in names and isinstance(value, list) else value for name, value in settings.items()}


def _structure(config: object, groups: Mapping[str, Any], arrays: Mapping[str, list[int]], version: int) -> bytes:
    values = {"config": config, "writer": f"{version}.0.0", "version": version, "attributes": dict(groups)}
    return json.dumps({**values, "arrays": arrays}).encode()


def _single(
    type: str,
    config: Mapping[str, Any],
    module: str,
    arrays: Sequence[Sequence[int]] = (),
    keywords: Mapping[str, Any] | None = None,
    *,
    tensors: int = 1,
    parts: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> bytes:
    """Input -> layer, as Keras 3 writes it; functions of TensorFlow as Keras 2 does.

    tensors: how often it reads the input; without parts, as a list. parts: layers inside of it -> the shapes of their kernels.
    """
    shape = [None, 6, 4] if type.endswith(("1D", "1DTranspose")) else [None, 6, 5, 4]
    tensor = {"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0], "shape": shape}}
    given = {"name": "x", "batch_shape": shape, "dtype": "float32"}
    args: list[Any] = [tensor] * tensors if tensors == 1 or parts else [[tensor] * tensors]
    is_old = type == "TFOpLambda"
    calls: list[Any] = (
        [["x", 0, 0, dict(keywords or {})]] if is_old else [{"args": args, "kwargs": dict(keywords or {})}]
    )
    layers = [
        {"class_name": "InputLayer", "module": "keras.layers", "name": "x", "config": given, "inbound_nodes": []},
        {"class_name": type, "module": module, "name": "l", "config": config, "inbound_nodes": calls},
    ]
    model = {"name": "m", "layers": layers, "input_layers": [["x", 0, 0]], "output_layers": [["l", 0, 0]]}
    named = {f"layers/l/vars/{number}": list(shape) for number, shape in enumerate(arrays)}
    named |= {f"layers/l/{part}/vars/0": list(shape) for part, shape in parts.items()}
    groups = {path: dict[str, list[str]]() for path in ("", "layers", "layers/l", "layers/l/vars")}
    groups["layers/l/vars"] = {"name": ["l"]}
    return _structure({"class_name": "Functional", "config": model}, groups, named, 2 if is_old else 3)


def keras_words() -> Words:
    readers = [*(keras[type] for type in keras), *(operations[type] for type in operations)]
    names = dict.fromkeys(name for reader in readers for name in reader.settings)
    return (*keras, *operations, *names, "Functional", "Sequential", "__keras_tensor__", "channels_first", "channels_last", "same", "valid",
        "relu", "softmax", "linear", "float32", "float16")  # fmt: skip


def keras_archives() -> Iterator[bytes]:
    """The example, with a few bytes in place of its weights, which this harness does not read."""
    members = read_archive((EXAMPLES / "digits_keras" / "digits.keras").read_bytes())
    yield write_archive({**members, "model.weights.h5": b"\x89HDF\r\n\x1a\n" + bytes(100)})
    for structure in [*keras_structures()][::5]:
        config = json.dumps(json.loads(structure)["config"]).encode()
        yield write_archive({**members, "config.json": config, "model.weights.h5": b"\x89HDF"})


def hdf5_files() -> Iterator[bytes]:
    """A small network in the file formats of old and new versions of libhdf5, and links and arrays that are refused."""
    for libver in ("earliest", "latest"):
        yield _hdf5(libver, _small_network)
        yield _hdf5(libver, _odd_contents)


def _hdf5(libver: str, fill: Callable[[Any], None]) -> bytes:
    import h5py

    stream = io.BytesIO()
    with h5py.File(stream, "w", libver=libver) as file:
        fill(file)
    return stream.getvalue()


def _small_network(file: Any) -> None:
    """A convolution, and a dense layer with compressed weights."""
    conv = {"name": "c", "batch_input_shape": [None, 6, 5, 2], "filters": 3, "kernel_size": [1, 1], "padding": "same"}
    layers = [("Conv2D", conv), ("Flatten", {"name": "f"}), ("Dense", {"name": "d", "units": 2, "use_bias": False})]
    listed = [{"class_name": type, "config": config} for type, config in layers]
    file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": listed}})
    file.attrs["keras_version"] = "2.1.0"
    root = file.create_group("model_weights")
    root.attrs["layer_names"] = [b"c", b"f", b"d"]
    for name, arrays in (("c", {"k": (1, 1, 2, 3), "b": (3,)}), ("f", {}), ("d", {"k": (90, 2)})):
        group = root.create_group(name)
        group.attrs["weight_names"] = [f"{name}/{array}".encode() for array in arrays]
        for array, shape in arrays.items():
            options = {"compression": "gzip", "shuffle": True, "fletcher32": True} if name == "d" else {}
            group.create_dataset(f"{name}/{array}", data=np.ones(shape, "f4"), **options)


def _odd_contents(file: Any) -> None:
    """What HDF5 has beside groups and arrays of numbers, in a file of weights."""
    import h5py

    file["layers/c/vars/0"] = np.ones((2, 2), "V2")
    file["layers/c/vars/1"] = np.ones(2, "i4")
    file["layers/c"].attrs["name"] = h5py.Empty("f")
    file["soft"], file["hard"] = h5py.SoftLink("/layers/c/vars/0"), file["layers"]
    file["other"] = h5py.ExternalLink("other.h5", "/x")
    file.create_dataset("outside", (2,), "f4", external=[("raw.bin", 0, 8)])
    layout = h5py.VirtualLayout((2,), "f4")
    layout[:] = h5py.VirtualSource("other.h5", "x", (2,))
    file.create_virtual_dataset("virtual", layout)
    file["texts"] = ["a", "b"]
    file["never"] = h5py.Empty("f4")


# --- ONNX ----------------------------------------------------------------------------------------------------------------


def onnx_models() -> Iterator[bytes]:
    """The example, and a network of one node for each type, on a map, with constants that may or may not fit."""
    yield (EXAMPLES / "digits_pytorch" / "digits.onnx").read_bytes()
    for type in onnx:
        yield onnx_of([OnnxNode(type)])
        yield onnx_of([OnnxNode(type, {}, (np.ones((4, 4, 1, 1), "<f4"), np.ones(4, "<f4")))])
    for chain in tables.ONNX_CHAINS:
        yield onnx_of(chain)
    yield onnx_of([OnnxNode("Add")], _external_tensor("e", (4, 1, 1)), more_inputs=("e",))


def onnx_of(chain: Sequence[OnnxNode], tensors: bytes = b"", more_inputs: tuple[str, ...] = ()) -> bytes:
    """x -> the nodes, one after the other -> y. tensors: more constants, which the first node reads after its own."""
    nodes, constants, last = b"", tensors, "x"
    for number, node in enumerate(chain):
        names = [f"c{number}{place}" for place in range(len(node.constants))]
        inputs = [last, *names] if node.reads_x or number else names
        inputs += more_inputs if number == 0 else ()
        if node.reads_x and len(chain) > 1 and node.type in ("Add", "Mul") and not names:
            inputs = [last, "x"]
        last = "y" if number == len(chain) - 1 else f"y{number}"
        ends = b"".join(message(1, name.encode()) for name in inputs) + message(2, last.encode())
        settings = b"".join(_attribute(name, value) for name, value in node.settings.items())
        nodes += message(1, ends + message(4, node.type.encode()) + settings)
        constants += b"".join(_tensor(name, value) for name, value in zip(names, node.constants, strict=True))
    dims = b"".join(message(1, tag(1, WireType.VARINT) + encode(n)) for n in (1, 4, 6, 5))
    info = message(2, message(1, tag(1, WireType.VARINT) + encode(1) + message(2, dims)))
    graph = nodes + constants + message(11, message(1, b"x") + info) + message(12, message(1, b"y"))
    opset = message(8, tag(2, WireType.VARINT) + encode(chain[0].opset))
    return tag(1, WireType.VARINT) + encode(8) + opset + message(7, graph)


def _attribute(name: str, value: Any) -> bytes:
    """An integer, integers, a number or a text."""
    match value:
        case int():
            kind, content = 2, tag(3, WireType.VARINT) + encode(value % (1 << 64))
        case float():
            kind, content = 1, tag(2, WireType.FIXED32) + np.float32(value).tobytes()
        case str():
            kind, content = 3, message(4, value.encode())
        case _:
            kind, content = 7, b"".join(tag(8, WireType.VARINT) + encode(n % (1 << 64)) for n in value)
    return message(5, message(1, name.encode()) + content + tag(20, WireType.VARINT) + encode(kind))


def _tensor(name: str, value: Any) -> bytes:
    array = np.asarray(value)
    kind = {"float32": 1, "uint8": 2, "int64": 7, "bool": 9}[array.dtype.name]
    dims = b"".join(tag(1, WireType.VARINT) + encode(size) for size in array.shape)
    raw = message(8, name.encode()) + message(9, array.tobytes())
    return message(5, dims + tag(2, WireType.VARINT) + encode(kind) + raw)


def _external_tensor(name: str, shape: tuple[int, ...]) -> bytes:
    """In a file beside the model, which `targets` writes."""
    dims = b"".join(tag(1, WireType.VARINT) + encode(size) for size in shape)
    place = {"location": EXTERNAL, "offset": "4", "length": str(4 * int(np.prod(shape)))}
    entries = b"".join(message(13, message(1, k.encode()) + message(2, v.encode())) for k, v in place.items())
    external = tag(14, WireType.VARINT) + encode(1)
    return message(5, dims + tag(2, WireType.VARINT) + encode(1) + message(8, name.encode()) + entries + external)


def onnx_words() -> Words:
    return (
        *onnx,
        *dict.fromkeys(name for type in onnx for name in onnx[type].settings),
        "x",
        "y",
        "a",
        "b",
        "c",
        "SAME_UPPER",
        "linear",
    )
