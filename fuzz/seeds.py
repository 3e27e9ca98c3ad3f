"""Valid inputs for each harness, made from the examples and from what the readers declare."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from cnn_convertor.cache import CachedConversion
from cnn_convertor.config import KEYS, Config
from cnn_convertor.devices.dv700.board_file import BLOCKS, FORMAT, VERSION
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.profile import FIGURES
from cnn_convertor.errors import ConvertorError, Origin, Problem
from cnn_convertor.frontends.caffe.layers import caffe
from cnn_convertor.frontends.caffe.schema import message_type
from cnn_convertor.frontends.keras.files import open_model
from cnn_convertor.frontends.keras.importer import READERS
from cnn_convertor.frontends.keras.reading import keras, operations
from cnn_convertor.frontends.onnx.operators import onnx
from cnn_convertor.frontends.unsupported_formats import FORMATS
from cnn_convertor.frontends.wire import WireType
from cnn_convertor.hashing import Content
from cnn_convertor.layouts.cldnn import BITS
from cnn_convertor.layouts.files import form_of
from cnn_convertor.layouts.names import LAYOUTS
from cnn_convertor.layouts.nvdla.pixels import FORMATS as FORMATS_OF_PIXELS
from cnn_convertor.pipeline import convert
from cnn_convertor.report.form import to_json
from cnn_convertor.sweep import VARIED
from cnn_convertor.values import to_plain
from examples.caffemodel import encode, tag
from fuzz import targets
from fuzz.mutation import SEPARATOR, Words, message, read_archive, write_archive
from fuzz.targets import EXAMPLES

assert READERS  # importing them has filled the registries

OUTPUTS = (EXAMPLES / "digits_caffe/output/digits_caffe", EXAMPLES / "digits_keras/output/digits", EXAMPLES / "digits_pytorch/output/digits_pytorch")  # fmt: skip


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
        settings = dict.fromkeys(keras[type].settings)
        yield _single(type, {"name": "l", "dtype": "float32", **settings}, "keras.layers")
    for type in operations:
        yield _single(type.capitalize(), {"name": "l"}, "keras.src.ops.numpy")


def _structure(config: object, groups: Mapping[str, Any], arrays: Mapping[str, list[int]], version: int) -> bytes:
    values = {"config": config, "writer": f"{version}.0.0", "version": version, "attributes": dict(groups)}
    return json.dumps({**values, "arrays": arrays}).encode()


def _single(type: str, config: Mapping[str, Any], module: str) -> bytes:
    """Input -> layer, as Keras 3 writes it, with two arrays that may or may not fit."""
    tensor = {"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0], "shape": [None, 6, 5, 4]}}
    given = {"name": "x", "batch_shape": [None, 6, 5, 4], "dtype": "float32"}
    layers = [
        {"class_name": "InputLayer", "module": "keras.layers", "name": "x", "config": given, "inbound_nodes": []},
        {"class_name": type, "module": module, "name": "l", "config": config, "inbound_nodes": [{"args": [tensor], "kwargs": {}}]},
    ]  # fmt: skip
    model = {"name": "m", "layers": layers, "input_layers": [["x", 0, 0]], "output_layers": [["l", 0, 0]]}
    arrays = {"layers/l/vars/0": [4, 4], "layers/l/vars/1": [4]}
    groups = {path: dict[str, list[str]]() for path in ("", "layers", "layers/l", "layers/l/vars")}
    groups["layers/l/vars"] = {"name": ["l"]}
    return _structure({"class_name": "Functional", "config": model}, groups, arrays, 3)


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
        for inputs in (["x"], ["x", "a", "b"], ["x", "c"]):
            yield _onnx_single(type, inputs, onnx[type].settings[:3])


def _onnx_single(type: str, inputs: list[str], settings: tuple[str, ...]) -> bytes:
    ends = b"".join(message(1, name.encode()) for name in inputs) + message(2, b"y")
    attributes = b"".join(
        message(
            5, message(1, name.encode()) + tag(3, WireType.VARINT) + encode(1) + tag(20, WireType.VARINT) + encode(2)
        )
        for name in settings
    )
    constants = b"".join(
        message(
            5, message(1, bytes(dims)) + tag(2, WireType.VARINT) + encode(kind) + message(8, name) + message(9, raw)
        )
        for name, dims, kind, raw in (
            (b"a", [4, 4, 1, 1], 1, np.ones(16, "<f4").tobytes()),
            (b"b", [4], 1, np.ones(4, "<f4").tobytes()),
            (b"c", [2], 7, np.array([1, -1], "<i8").tobytes()),
        )
    )
    dims = b"".join(message(1, tag(1, WireType.VARINT) + encode(n)) for n in (1, 4, 6, 5))
    info = message(2, message(1, tag(1, WireType.VARINT) + encode(1) + message(2, dims)))
    ports = message(11, message(1, b"x") + info) + message(12, message(1, b"y"))
    graph = message(1, ends + message(4, type.encode()) + attributes) + constants + ports
    return tag(1, WireType.VARINT) + encode(8) + message(8, tag(2, WireType.VARINT) + encode(17)) + message(7, graph)


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


# --- other files ---------------------------------------------------------------------------------------------------------


def inis() -> Iterator[bytes]:
    for path in sorted(EXAMPLES.glob("*/*.ini")):
        yield path.read_bytes()
    every = "".join(f"[{key.section}]\n{key.name} = {key.default or 1}\n" for key in KEYS)
    yield every.encode()
    sections = dict.fromkeys(key.section for key in KEYS)
    parts = (
        f"[{s}]\n" + "".join(f"{k.name} = {k.default or 'net.prototxt'}\n" for k in KEYS if k.section == s)
        for s in sections
    )
    yield "".join(parts).encode()


def ini_words() -> Words:
    sections = dict.fromkeys(key.section for key in KEYS)
    return (
        *(f"[{section}]\n" for section in sections),
        *(f"{key.name} = " for key in KEYS),
        "net.prototxt",
        "device.toml",
        "auto",
        "true",
    )


def layouts() -> Iterator[bytes]:
    for name in LAYOUTS:
        yield f"{name}/{','.join('3' for _ in LAYOUTS[name].layout.axes)}".encode()
        yield f"{LAYOUTS[name].layout}/1,2,3,4".encode()


def arrays() -> Iterator[bytes]:
    yield (EXAMPLES / "digits_pytorch" / "expected.npy").read_bytes()
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 1, 2), }\n"
    for version in (1, 2, 3):
        size = len(head).to_bytes(2 if version == 1 else 4, "little")
        yield b"\x93NUMPY" + bytes([version, 0]) + size + head.encode() + np.ones(4, "<f4").tobytes()


def manifests() -> Iterator[bytes]:
    for folder in OUTPUTS:
        yield next(folder.glob("*.json")).read_bytes()
    plain = {"layer": "l", "role": "weights", "axes": "oihw", "shape": [1, 1, 1, 2], "element": "float32", "layout": "OIHW",
        "terms": "oihw: o i h w | float32", "offset": 0, "bytes": 8, "file": "w.bin", "sha256": _digest("w.bin"),
        "scale": {"axes": "o", "values": [1.0]}}  # fmt: skip
    bits = {**plain, "axes": "i", "shape": [8], "element": "uint8", "layout": "I", "terms": "i: i | uint8", "scale": {"axes": "", "values": [1]}}  # fmt: skip
    mask = {**bits, "role": "mask", "file": "m.bin", "sha256": _digest("m.bin")}
    groups = {**bits, "role": "group_sizes", "file": "g.bin", "sha256": _digest("g.bin")}
    halves = {"shape": [1, 1, 1, 8], "element": "float16", "terms": "oihw: o i h w | float16"}
    sparse = {**plain, **halves, "compressed": {"mask": "m.bin", "group_sizes": "g.bin"}}
    form = {"kernels": 1, "channels": 1, "kernel": [1, 1], "dilated": False, "palette": False, "slopes": True, "transposed": False}  # fmt: skip
    stream = {**plain, "shape": [1, 1, 1, 1], "element": "float16", "layout": "dv700_weights", "terms": "", "bytes": 176, "file": "s.bin",
        "sha256": _digest("s.bin"), "stream": form}  # fmt: skip
    values = {"format": "cnn-convertor export 1", "network": "net", "target": "nvdla", "memories": {"weights": 8}}
    for surfaces in ([plain], [sparse, mask, groups], [stream, {**stream, "role": "bias", "axes": "o", "shape": [1]}]):
        yield json.dumps({**values, "surfaces": surfaces}).encode()
    network = {"network": "net", "schema": 1, "files": {"net_gen.cpp": {"bytes": 10, "sha256": "0"}}}
    yield json.dumps({**values, **network, "surfaces": []}).encode()


def _digest(name: str) -> str:
    return sha256(targets.EXPORTED[name]).hexdigest()


def journals() -> Iterator[bytes]:
    yield b'{"replaced": ["file"], "added": ["made"]}'
    yield b'{"moved": ["inner"]}'
    yield b'{"moved": ["../old"], "replaced": ["../../outside", "/x"], "added": ["../outside", "inner/file"]}'


def journal_words() -> Words:
    return (
        "file",
        "inner",
        "inner/file",
        "../outside",
        "../../outside",
        "..",
        ".",
        "/",
        "made",
        "moved",
        "replaced",
        "added",
    )


def cache_entries() -> Iterator[bytes]:
    content = Content("net_gen.cpp", 10, "0" * 64)
    problem = Problem("DV501", "a warning", Origin("net.onnx", "l", line=3))
    yield json.dumps(to_plain(CachedConversion((), (content,), targets.known_report(), (problem,)))).encode()


def reports() -> Iterator[bytes]:
    yield to_json(targets.known_report()).encode()


def board_results() -> Iterator[bytes]:
    """Of `targets.SMALL_NETWORK`."""
    measured = {"input_bytes": 64, "output_bytes": None, "weights_bytes": 0}
    layers = [{"usec": 3, "bytes": size, **measured} for size in (4, 8)]
    values = {
        "format": "cnn-convertor results",
        "version": 1,
        "network": "0",
        "inputs": "0",
        "samples": 1,
        "seed": 0,
        "device": {"description": "a board"},
        "conv_usec": 3,
        "fc_usec": 0,
        "cpu_usec": 1,
        **measured,
        "layers": layers,
    }
    yield SEPARATOR.join((json.dumps(values).encode(), bytes(12), bytes(8)))


def committed() -> Iterator[bytes]:
    made = targets.known_outputs()
    yield SEPARATOR.join((made["net_gen.cpp"].read_bytes(), made["net_weights.bin"].read_bytes()))
    yield SEPARATOR.join((b"// Layer_0: x\n", b"x"))


def any_models() -> Iterator[bytes]:
    for suffix in FORMATS:
        yield suffix[1:].encode() + b"\nx"
    for names in (("m/code/x.py",), ("m/data.pkl", "m/version")):
        yield b"bin\n" + write_archive(dict.fromkeys(names, b"x"))
    for start in (b"\x89HDF\r\n\x1a\n", b"    TFL3", b"PK\3\4", b"\x08\x08\x12\x07pytorch", b"layer { }", b""):
        yield b"bin\n" + start
    yield b"prototxt\n" + targets.SMALL_NETWORK.encode()


def varied() -> Iterator[bytes]:
    yield b"quantization=0,1,auto\nfusion=proven,full"
    for name in VARIED:
        yield f"{name}=1".encode()


def varied_words() -> Words:
    return (*(f"{name}=" for name in VARIED), "auto", "dv700", "device.toml", "true", ",")


def label_files() -> Iterator[bytes]:
    yield b"0\n1\n1\n"
    yield "a cat\nKatze\n\xe4\n".encode()


def memories() -> Iterator[bytes]:
    for name in (*LAYOUTS, *FORMATS_OF_PIXELS, *BITS):
        axes = form_of(name).axes
        yield SEPARATOR.join((f"{name}/{','.join('2' for _ in axes)}".encode(), bytes(range(256)) * 16))


def archives_of_samples() -> Iterator[bytes]:
    stream = io.BytesIO()
    np.savez(stream, x=np.ones((2, 2, 1, 3), "f4"), y=np.zeros((2, 2)), expected_l=np.ones((2, 3), "u1"))
    yield stream.getvalue()


def tables() -> Iterator[bytes]:
    yield b"id,lower,upper,size\na,0,4,16\nb,2,6,32\n"
    yield b"buffer,start,end,size\n1,0,4,16\n\n2,2,6,32\n"


def device_tomls() -> Iterator[bytes]:
    for path in sorted((EXAMPLES.parent / "cnn_convertor/devices/dv700/boards").glob("*.toml")):
        yield path.read_bytes()
    yield b'title = "mine"\nbase = "dv700"\n[device]\nub_size = 1024\nmax_kernel_size = { value = 5, source = "me", assumed = true }\n'


def device_jsons() -> Iterator[bytes]:
    """A board's own file, small and with all its parts."""
    yield b'{"format": "cnn-convertor board", "version": 1, "forms": {"run": "passed"}}'
    board = {
        "format": FORMAT,
        "version": VERSION,
        "device": {"description": "a board", "ub_size": 1024, "max_kernel_size": 7, "conv_freq": 100},
        "probed": {"max_width": 2047},
        "forms": {form.name.lower(): "passed" for form in Form},
        "features": dict.fromkeys(("dilation", "palette", "prelu", "upsampling", *BLOCKS), "failed"),
        "measured": {"bytes_per_second": 1.5e9, "conv_mhz": 170.5},
        "commands": [{"name": "conv", "result": "passed", "usec": 100, "cycles": 8, "bytes": 9}],
    }
    yield json.dumps(board).encode()


def device_words() -> Words:
    return (*FIGURES, "title", "base", "device", "value", "source", "assumed", "true", "[[device]]")


def sources() -> Iterator[bytes]:
    """What networks of one node are converted to, with layers of each kind."""
    for number, type in enumerate(("Conv", "MaxPool", "Tanh", "Softmax", "Relu", "Add")):
        model = targets.saved(
            _onnx_single(type, ["x", "a"] if type == "Conv" else ["x", "x"] if type == "Add" else ["x"], ()),
            f"source{number}.onnx",
        )
        try:
            made = convert(
                Config.of(model, output_folder=targets.folder() / "made", name=f"net{number}", generate_source=True)
            ).files
        except ConvertorError:
            continue
        files = {path.name.partition("_")[2]: path.read_bytes() for path in made}
        yield SEPARATOR.join(
            (_short(files["gen.cpp"], number), _short(files.get("cpu.h", b""), number), files["weights.bin"])
        )


def _short(text: bytes, number: int) -> bytes:
    """Without comments, and with the name of the harness's files."""
    return re.sub(rb"^ *//.*\n|^ *\*.*\n", b"", text, flags=re.MULTILINE).replace(b"net%d_cpu.h" % number, b"net_cpu.h")


def source_words() -> Words:
    return ("layer.", "conf.", "get_layer(0)", "set_num_layers(9);", "&conf", "run[31].", "memset(&conf, 0, sizeof(conf));", "LT_CONCAT", "#if 1\n",
        "for (int i = 0; i < 9; i++)", "{", "}", "if (", "nullptr", "0x7FFFFFFF", "R\"(", "/*", "//", "\\\n", "output_layers_[0]")  # fmt: skip
