"""What grows: each row reads an input with a count of something, as the fuzz targets and the commands do."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial, reduce
from typing import Final, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np

from cnn_convertor.board.stored_results import read_results
from cnn_convertor.cli.entry import main
from cnn_convertor.errors import ConvertorError
from cnn_convertor.files.codec import to_values
from cnn_convertor.memory import plan, table
from development.fuzz import targets
from development.fuzz.file_seeds import board_results, sources
from development.fuzz.mutation import SEPARATOR, message
from development.fuzz.written_loadables import Pooling
from development.growth.networks import (
    NETWORKS,
    blocks,
    branches,
    caffe_deconvolution,
    caffe_matrix,
    chain,
    compressed_keras_kernels,
    keras_kernels,
    matrix_weights,
    normalizations,
    refusals,
    transposed_convolution_weights,
    turned_weights,
)
from examples.caffemodel import write

Run = Callable[[int], object]

_INI_TEXT: Final = """[INPUT]
name = net
definition = {model}
[OUTPUT]
output_folder = out
generate_source = 1
generate_dot = 1
generate_doxy = 1
selftest = 1
quantization = 0
"""


# --- networks through the commands ---------------------------------------------------------------------------------------


def _command(make: Callable[[int], bytes | tuple[str, np.ndarray]], *arguments: str, model: str = "net.onnx") -> Run:
    """A command on a network. Its outputs are there already. make: a file, called as `model`, or a definition and weights."""
    done: set[int] = set()

    def run(count: int) -> None:
        folder = targets.folder() / f"{make.__name__}-{count}"
        if count not in done:
            folder.mkdir(exist_ok=True)
            match make(count):
                case bytes(content):
                    (folder / model).write_bytes(content)
                case definition, weights:
                    (folder / "net.prototxt").write_text(definition)
                    write(folder / "net.caffemodel", [("y", "", [weights])])
            (folder / "net.ini").write_text(_INI_TEXT.format(model=model))
            done.add(count)
            if arguments[0] in {"audit", "check"}:
                _main("convert", "-q", str(folder / "net.ini"))
        (folder / "first.ini").unlink(missing_ok=True)
        _main(*(argument.format(folder=folder) for argument in arguments))

    return run


def _main(*arguments: str) -> None:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), suppress(SystemExit):
        main(arguments)


_ANY_NETWORK: Final[dict[str, tuple[str, ...]]] = {
    "convert": ("convert", "{folder}/net.ini"),
    "inspect": ("inspect", "{folder}/net.ini"),
    "report": ("report", "{folder}/net.ini", "--html", "{folder}/net.html", "--json", "{folder}/net.json"),
    "audit": ("audit", "{folder}/out/net/net_gen.cpp"),
}
_ONE_NETWORK: Final[dict[str, tuple[str, ...]]] = {  # their work is that of `convert`, and little more
    "passes": ("passes", "{folder}/net.ini"),
    "check": ("check", "{folder}/net.ini"),
    "init": ("init", "{folder}/net.onnx", "-o", "{folder}/first.ini"),
    "sweep": ("sweep", "{folder}/net.ini", "--vary", "fusion=full", "--csv", "{folder}/net.csv"),
}


def network_rows() -> Iterator[tuple[str, Run]]:
    for name, make in NETWORKS.items():
        for command, arguments in (_ANY_NETWORK | (_ONE_NETWORK if make is chain else {})).items():
            yield f"{command} {name}", _command(make, *arguments)
    for command in ("convert", "inspect", "report", "passes"):
        yield f"{command} blocks", _command(blocks, *(_ANY_NETWORK | _ONE_NETWORK)[command])
    for weights in (matrix_weights, turned_weights, transposed_convolution_weights):
        yield f"convert {weights.__name__}", _command(weights, *_ANY_NETWORK["convert"])
    for keras in (keras_kernels, compressed_keras_kernels):
        yield f"convert {keras.__name__}", _command(keras, *_ANY_NETWORK["convert"], model="net.h5")
    for caffe in (caffe_matrix, caffe_deconvolution):
        model = "net.prototxt\ndata = net.caffemodel"
        yield f"convert {caffe.__name__}", _command(caffe, *_ANY_NETWORK["convert"], model=model)
    yield "convert normalizations", _command(normalizations, *_ANY_NETWORK["convert"])
    yield "inspect branches", _command(branches, *_ANY_NETWORK["inspect"])
    yield "inspect refusals", _command(refusals, *_ANY_NETWORK["inspect"])


# --- readers -------------------------------------------------------------------------------------------------------------


def _reads(target: Callable[[bytes], object], text: Callable[[int], str | bytes]) -> Run:
    """A target of the fuzz harnesses on a text; the input may be refused."""

    def run(count: int) -> None:
        made = text(count)
        with suppress(ConvertorError), catch_warnings():
            simplefilter("ignore")
            target(made.encode() if isinstance(made, str) else made)

    return run


_BLOB: Final = 'input: "x" input_shape { dim: 1 dim: 4 dim: 6 dim: 6 }\n'
_INI: Final = "[INPUT]\nname = net\ndefinition = net.prototxt\n[OUTPUT]\noutput_folder = out\n"
_COMMAND: Final = {"name": "x", "result": "passed", "usec": 1, "cycles": 8, "bytes": 9, "repeats": 2}
_FUNCTION: Final = "void Cnet::f() {\n"


def _caffe_chain(count: int) -> str:
    layers = (
        f'layer {{ name: "l{i}" type: "ReLU" bottom: "{f"t{i - 1}" if i else "x"}" top: "t{i}" }}' for i in range(count)
    )
    return _BLOB + "\n".join(layers)


def _caffe_slice(count: int) -> str:
    tops = " ".join(f'top: "t{i}"' for i in range(count))
    points = " ".join(f"slice_point: {i}" for i in range(1, count))
    return (
        f'input: "x" input_shape {{ dim: 1 dim: {count} dim: 6 dim: 6 }}\n'
        f'layer {{ name: "s" type: "Slice" bottom: "x" {tops} slice_param {{ axis: 1 {points} }} }}'
    )


def _keras_structure(layers: list[tuple[str, list[str]]], outputs: list[str]) -> str:
    """A Functional model in the form of Keras 2: (name, names of what it reads)."""
    config = {
        "name": "net",
        "layers": [
            {"class_name": "InputLayer", "name": "x", "config": {"batch_input_shape": [None, 6, 6, 4], "dtype": "float32", "name": "x"}, "inbound_nodes": []},
            *({"class_name": "Activation" if len(reads) == 1 else "Add", "name": name, "config": {"name": name, "dtype": "float32"} | ({"activation": "relu"} if len(reads) == 1 else {}), "inbound_nodes": [[[read, 0, 0, {}] for read in reads]]} for name, reads in layers),
        ],
        "input_layers": [["x", 0, 0]],
        "output_layers": [[name, 0, 0] for name in outputs],
    }  # fmt: skip
    structure = {"class_name": "Functional", "config": config}
    return json.dumps({"config": structure, "writer": "2.15.0", "version": 2, "attributes": {}, "arrays": {}})


def _keras_chain(count: int) -> str:
    return _keras_structure([(f"l{i}", [f"l{i - 1}" if i else "x"]) for i in range(count)], [f"l{count - 1}"])


def _keras_reversed(count: int) -> str:
    """A chain whose layers are listed from the last to the first."""
    layers = [(f"l{i}", [f"l{i - 1}" if i else "x"]) for i in range(count)]
    return _keras_structure(layers[::-1], [f"l{count - 1}"])


def _keras_calls(count: int) -> str:
    """One layer that is called again and again."""
    call = '[["x", 0, 0, {}]]'
    return _keras_structure([("l", ["x"])], ["l"]).replace(f"[{call}]", f"[{', '.join([call] * count)}]")


def _keras_refusals(count: int) -> str:
    """Layers that no reader knows, all of which read the same."""
    layers = [(f"l{i}", ["x"]) for i in range(count)]
    return _keras_structure(layers, [name for name, _ in layers]).replace('"Activation"', '"NoSuchType"')


def _caffe_missing(count: int) -> str:
    """Blobs that no layer makes."""
    layers = (f'layer {{ name: "l{i}" type: "ReLU" bottom: "blob_{i}" top: "t{i}" }}' for i in range(count))
    return _BLOB + "\n".join(layers)


def _blob_of_axes(count: int) -> bytes:
    """Weights of the layer "c", with so many axes."""
    blob = message(7, message(1, b"\x02" * count))
    return message(100, message(1, b"c") + message(7, blob))


def _keras_sum(count: int) -> str:
    layers = [(f"l{i}", ["x"]) for i in range(count)]
    return _keras_structure([*layers, ("sum", [name for name, _ in layers])], ["sum"])


def _report(count: int) -> str:
    """A report that has each step, layer and weight so many times."""
    values = to_values(targets.known_report())
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = value * count
    return json.dumps(values)


def _board_results(count: int) -> bytes:
    first, *rest = next(board_results()).split(SEPARATOR)
    values = json.loads(first)
    values["layers"] *= count
    return SEPARATOR.join([json.dumps(values).encode(), *rest])


def _stored(data: bytes) -> None:
    for name, content in zip(("results.json", "layers.bin", "outputs.bin"), data.split(SEPARATOR), strict=True):
        targets.saved(content, name)
    read_results(targets.folder())


def _source(lines: str) -> Callable[[int], bytes]:
    """A generated source with so many of these lines in it."""
    source, *others = next(sources()).split(SEPARATOR)

    def make(count: int) -> bytes:
        return SEPARATOR.join((source + (lines * count).encode(), *others))

    return make


def _rows(step: int) -> Callable[[int], str]:
    """A table of buffers, each live for 2 steps more than `step`."""
    return lambda count: (
        "id,lower,upper,size\n"
        + "".join(f"b{i},{i * step},{i * step + step + 2},{16 + i % 7 * 32}\n" for i in range(count))
    )


def _plan(data: bytes) -> None:
    plan(table.load(targets.saved(data, "buffers.csv")), alignment=16, nodes=100)


class _Form(NamedTuple):
    """What an input of a reader can have many of. opening: what is not closed. entry: of the number i."""

    target: Callable[[bytes], object]
    start: str
    opening: str
    entry: str
    end: str = ""


def _json(target: Callable[[bytes], object], start: str, end: str = "}") -> _Form:
    return _Form(target, start, "[", '"entry{i}": {{"a": ["{i}"]}}, ', f'"last": {{}}{end}')


_FORMS: Final = {
    "ini": _Form(targets.ini, _INI, "[", "key{i} = 1\n"),
    "ini, sections": _Form(targets.ini, _INI, "(", "[SECTION{i}]\na = 1\n"),
    "prototxt": _Form(targets.prototxt, _BLOB, "layer { ", "field{i}: 1\n"),
    "prototxt, layers": _Form(targets.prototxt, _BLOB, '"', 'layer {{ name: "l{i}" type: "NoSuchType" }}\n'),
    "keras": _json(targets.keras_structure, '{"config": {"class_name": "Sequential", "config": {', "}}}"),
    "device.toml": _Form(targets.device_toml, "", "a = [", "key{i} = 1\n"),
    "device.toml, tables": _Form(targets.device_toml, "", "{", "[table{i}.a]\n"),
    "device.json": _json(targets.device_json, '{"format": "cnn-convertor board", "version": 1, "commands": [], "forms": {', "}}"),
    "manifest": _json(targets.manifest, '{"network": "net", "schema": 1, "files": {', "}}"),
    "journal": _json(targets.journal, '{"added": ["made"], '),
    "cache": _json(targets.cached, "{"),
    "report --compare": _json(targets.report, "{"),
    "labels": _Form(targets.labels, "", '"', "{i}\n"),
    "layout": _Form(targets.layout, "x:", " (", " x%1", "/1"),
    "sweep --vary": _Form(targets.varied, "quantization_threshold=", '"', "{i},", "1"),
    "layouts plan": _Form(targets.buffers, "id,lower,upper,size\n", '"', "b{i},{i},9999,16\n"),
    "audit": _Form(lambda data: targets.sources(_source(data.decode())(1)), "", "void f() { (", "int a{i} = {i};\n"),
}  # fmt: skip


def _written(form: _Form, part: str, count: int) -> str:
    """The form with many entries, blanks, letters in a name, or openings without an end."""
    match part:
        case "entries":
            content = "".join(form.entry.format(i=i) for i in range(count))
        case "blanks":
            content = " " * 64 * count + form.entry.format(i=1) + "\t\n" * count + "x" + " " * 64 * count
        case "a long name":
            content = form.entry.format(i="e" * 64 * count)
        case _:
            content = form.opening * count
    return form.start + content + form.end


def _members(count: int) -> bytes:
    """An archive of so many small arrays."""
    stream = io.BytesIO()
    np.savez(stream, *[np.ones(3, np.float32)] * count)
    return stream.getvalue()


def _header(count: int) -> bytes:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, " + b" " * 64 * count + b"3)}\n"
    return b"\x93NUMPY\x02\0" + struct.pack("<I", len(header)) + header


READERS: Final[Mapping[str, Run]] = {
    **{
        f"{name}: {part}": _reads(form.target, partial(_written, form, part))
        for name, form in _FORMS.items()
        for part in ("entries", "blanks", "a long name", "unclosed")
    },
    "onnx: unknown fields": _reads(targets.onnx_model, lambda n: chain(2) + message(99, b"x") * n),
    "onnx: messages in messages": _reads(
        targets.onnx_model, lambda n: reduce(lambda data, _: message(7, data), range(n), b"")
    ),
    "onnx: texts of the model": _reads(
        targets.onnx_model, lambda n: chain(2) + message(14, message(1, b"a") + message(2, b"b")) * n
    ),
    "caffemodel: unknown layers": _reads(
        targets.caffemodel, lambda n: b"".join(message(100, message(1, b"l%d" % i)) for i in range(n))
    ),
    "caffemodel: blobs": _reads(
        targets.caffemodel, lambda n: message(100, message(1, b"c") + message(7, message(5, bytes(8))) * n)
    ),
    "keras-archive: members": _reads(targets.keras_archive, _members),
    "samples: members": _reads(targets.samples, _members),
    "array: blanks in the header": _reads(targets.array_file, _header),
    "committed: lines": _reads(
        targets.committed, lambda n: SEPARATOR.join((b"".join(b"  x = %d;\n" % i for i in range(n)), b"x" * n))
    ),
    "ini: names of outputs": _reads(targets.ini, lambda n: _INI + f"outputs = {', '.join(map(str, range(n)))}\n"),
    "ini: lines without a key": _reads(targets.ini, lambda n: _INI + "x\n" * n),
    "prototxt: chain": _reads(targets.prototxt_to_device, _caffe_chain),
    "prototxt: missing blobs": _reads(targets.prototxt, _caffe_missing),
    "caffemodel: axes": _reads(targets.caffemodel, _blob_of_axes),
    "journal: paths": _reads(targets.journal, lambda n: json.dumps({"added": [f"made/{i}" for i in range(n)]})),
    "prototxt: parts": _reads(targets.prototxt_to_device, _caffe_slice),
    "prototxt: comments": _reads(targets.prototxt, lambda n: _BLOB + "# x\n" * n),
    "keras: chain": _reads(targets.keras_to_device, _keras_chain),
    "keras: chain in reverse order": _reads(targets.keras_to_device, _keras_reversed),
    "keras: calls of one layer": _reads(targets.keras_to_device, _keras_calls),
    "keras: refusals": _reads(targets.keras_to_device, _keras_refusals),
    "keras: sum": _reads(targets.keras_to_device, _keras_sum),
    "audit: headers": _reads(targets.sources, _source('#include "x.h"\n')),
    "audit: unclosed comments": _reads(targets.sources, _source("/* x\n")),
    "audit: unclosed functions": _reads(targets.sources, _source(_FUNCTION)),
    "audit: statements": _reads(targets.sources, _source(f"{_FUNCTION}  conf.x = 1;\n}}\n")),
    "report --compare: steps": _reads(targets.report, _report),
    "board results: layers": _reads(_stored, _board_results),
    "device.json: commands": _reads(
        targets.device_json,
        lambda n: json.dumps(
            {"format": "cnn-convertor board", "version": 1, "forms": {"run": "passed"}, "commands": [_COMMAND] * n}
        ),
    ),
    "manifest: files": _reads(
        targets.manifest,
        lambda n: json.dumps({"network": "net", "schema": 1, "files": {f"f{i}": {} for i in range(n)}}),
    ),
    "loadable: operations": _reads(targets.loadable, lambda n: Pooling(count=n).file()),
    "loadable: events": _reads(
        targets.loadable, lambda n: Pooling(lists={"events": [[("H", 0), ("I", 1)]] * n}).file()
    ),
    "labels": _reads(targets.labels, lambda n: "1\n" * n),
    "sweep --vary: values": _reads(targets.varied, lambda n: f"quantization={','.join('0' * n)}"),
    "layout: terms": _reads(targets.layout, lambda n: f"x:{' x%1' * n}/1"),
    "layouts plan: chain": _reads(_plan, _rows(1)),
    "layouts plan: all live": _reads(_plan, _rows(0)),
}

GROWING: Final[Mapping[str, Run]] = {**dict(network_rows()), **READERS}
