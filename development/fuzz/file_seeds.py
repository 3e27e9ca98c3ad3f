"""Valid files of every other kind for the harnesses, made from the examples and from small conversions."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from hashlib import sha256

import numpy as np

from cnn_convertor.config import KEYS, Config
from cnn_convertor.conversion.cache import CachedConversion
from cnn_convertor.conversion.convert import convert
from cnn_convertor.devices.dv700.board_file import BLOCKS, FORMAT, VERSION
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.profile import FIGURES
from cnn_convertor.errors import ConvertorError, Origin, Problem
from cnn_convertor.files.codec import to_json, to_values
from cnn_convertor.files.hashing import Content
from cnn_convertor.frontends.unsupported_formats import FORMATS
from cnn_convertor.layouts.array_files import form_of
from cnn_convertor.layouts.cldnn import BITS
from cnn_convertor.layouts.names import LAYOUTS
from cnn_convertor.layouts.nvdla.pixels import FORMATS as FORMATS_OF_PIXELS
from cnn_convertor.trials.sweep import VARIED
from development.fuzz import targets
from development.fuzz.model_seeds import onnx_of
from development.fuzz.mutation import SEPARATOR, Words, write_archive
from development.fuzz.tables import OnnxNode
from development.fuzz.targets import EXAMPLES
from development.fuzz.written_loadables import Pooling

OUTPUTS = (EXAMPLES / "digits_caffe/output/digits_caffe", EXAMPLES / "digits_keras/output/digits", EXAMPLES / "digits_pytorch/output/digits_pytorch")  # fmt: skip


def loadables() -> Iterator[bytes]:
    """In both versions of the descriptors."""
    for older in (False, True):
        yield Pooling(older=older).file()
        yield Pooling(atom=32, older=older, width=2, height=2, channels=3).file()


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
    yield json.dumps(
        to_values(CachedConversion((), (content,), targets.known_report(), (problem,)), exact=True)
    ).encode()


def reports() -> Iterator[bytes]:
    yield to_json(targets.known_report()).encode()


def board_results() -> Iterator[bytes]:
    """Of `targets.SMALL_NETWORK`."""
    program = targets.known_program()
    sizes = [layer.output.nbytes for layer in program.layers]
    values_of_outputs = sum(program.layers[index].output.shape.size for index in program.outputs)
    measured = {"input_bytes": 64, "output_bytes": None, "weights_bytes": 0}
    layers = [{"usec": 3, "bytes": size, **measured} for size in sizes]
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
        "between_usec": 1,
        **measured,
        "layers": layers,
    }
    yield SEPARATOR.join((json.dumps(values).encode(), bytes(sum(sizes)), bytes(4 * values_of_outputs)))


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
    yield b" 0\x1f\n1\n"
    yield "a cat\nKatze\n\xe4\n".encode()


def memories() -> Iterator[bytes]:
    for name in (*LAYOUTS, *FORMATS_OF_PIXELS, *BITS):
        axes = form_of(name).axes
        yield SEPARATOR.join((f"{name}/{','.join('2' for _ in axes)}".encode(), bytes(range(256)) * 16))


def archives_of_samples() -> Iterator[bytes]:
    stream = io.BytesIO()
    np.savez(stream, x=np.ones((2, 2, 1, 3), "f4"), y=np.zeros((2, 2)), expected_l=np.ones((2, 3), "u1"))
    yield stream.getvalue()


def buffer_tables() -> Iterator[bytes]:
    yield b"id,lower,upper,size\na,0,4,16\nb,2,6,32\n"
    yield b"buffer,start,end,size\n1,0,4,16\n\n2,2,6,32\n"
    yield b"id,lower,upper,size\na,0,300000000,16\nb,1,3,32\n"


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
        "measured": {"bytes_per_second": 1.5e9, "conv_mhz": 170.5, "command_usec": 2.5, "list_usec": 9},
        "commands": [{"name": "conv", "result": "passed", "usec": 100, "cycles": 8, "bytes": 9, "repeats": 2}],
    }
    yield json.dumps(board).encode()


def device_words() -> Words:
    return (*FIGURES, "title", "base", "device", "value", "source", "assumed", "true", "[[device]]")


def sources() -> Iterator[bytes]:
    """What networks of one node are converted to, with layers of each kind."""
    for number, type in enumerate(("Conv", "MaxPool", "Tanh", "Softmax", "Relu", "Add")):
        constants = {"Conv": (np.ones((4, 4, 1, 1), "<f4"),), "Add": (np.ones(1, "<f4"),)}.get(type, ())
        settings = {"kernel_shape": [2, 2]} if type == "MaxPool" else {}
        model = targets.saved(onnx_of([OnnxNode(type, settings, constants)]), f"source{number}.onnx")
        try:
            made = convert(
                Config.of(model, output_folder=targets.folder() / "made", name=f"net{number}", generate_source=True)
            ).files
        except ConvertorError:
            continue
        files = {path.name.partition("_")[2]: path.read_bytes() for path in made}
        texts = (files["gen.cpp"], files.get("cpu.h", b""), files["gen.h"])
        source, functions, header = (_short(text, number) for text in texts)
        yield SEPARATOR.join((source, functions, files["weights.bin"], header))


def _short(text: bytes, number: int) -> bytes:
    """Without comments, and with the name of the harness's files."""
    return re.sub(rb"^ *//.*\n|^ *\*.*\n", b"", text, flags=re.MULTILINE).replace(b"net%d_" % number, b"net_")


def source_words() -> Words:
    return ("layer.", "conf.", "get_layer(0)", "set_num_layers(9);", "&conf", "run[31].", "memset(&conf, 0, sizeof(conf));", "LT_CONCAT", "#if 1\n",
        "for (int i = 0; i < 9; i++)", "{", "}", "if (", "nullptr", "0x7FFFFFFF", "R\"(", "/*", "//", "\\\n", "output_layers_[0]")  # fmt: skip
