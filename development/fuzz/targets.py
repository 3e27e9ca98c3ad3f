"""What a harness runs: each function takes the bytes of one input and reads them, as the convertor does, up to the graph."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from cnn_convertor.audit import audit as read_sources
from cnn_convertor.board.stored_results import read_results
from cnn_convertor.cli.grids import fitted
from cnn_convertor.cli.overview import report_on
from cnn_convertor.cli.reports import earlier_report
from cnn_convertor.cli.tables import differences as table_of_differences
from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.conversion.cache import Cache
from cnn_convertor.conversion.checking import differences_of
from cnn_convertor.conversion.convert import convert
from cnn_convertor.conversion.manifest import board_of, earlier_files
from cnn_convertor.devices import nvdla
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.nvdla.configurations import CONFIGURATIONS
from cnn_convertor.devices.nvdla.firmware.dispatching import FirmwareTask
from cnn_convertor.devices.nvdla.firmware.register_settings import FieldError
from cnn_convertor.devices.nvdla.loadable.contents import accesses_of
from cnn_convertor.devices.nvdla.loadable.loadable_file import read_loadable
from cnn_convertor.errors import ConvertorError
from cnn_convertor.export import loading
from cnn_convertor.files.codec import to_json
from cnn_convertor.files.opening import Version
from cnn_convertor.files.replacing import replace_all
from cnn_convertor.frontends.builder import PartialGraph
from cnn_convertor.frontends.caffe import importer as caffe
from cnn_convertor.frontends.caffe.parameters import WeightsFile
from cnn_convertor.frontends.keras import hdf5
from cnn_convertor.frontends.keras import importer as keras
from cnn_convertor.frontends.keras.model_files import OpenedModel
from cnn_convertor.frontends.onnx import importer as onnx
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Shape
from cnn_convertor.layouts import array_files as layout_files
from cnn_convertor.layouts.layout import extents, nbytes
from cnn_convertor.layouts.names import layout_of
from cnn_convertor.layouts.packing import pack, unpack
from cnn_convertor.memory import plan, table
from cnn_convertor.pipeline import build, find_violations, legalize_graph, load
from cnn_convertor.report import Report
from cnn_convertor.report.comparison import differences
from cnn_convertor.report.page import html_page, memory_svg, network_svg
from cnn_convertor.samples import Preparation, read_samples
from cnn_convertor.trials.labels import read_classes, read_labels
from cnn_convertor.trials.sweep import variants
from development.fuzz.mutation import SEPARATOR
from development.fuzz.serving import Servant

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = 1 << 16  # elements of an array that is read as a whole


@cache
def folder() -> Path:
    """A folder of this process for files, in memory where the system has such a place."""
    memory = Path("/dev/shm")
    found = tempfile.mkdtemp(prefix="cnn-convertor-fuzz-", dir=memory if memory.is_dir() else None)
    atexit.register(remove_folder)
    return Path(found)


def remove_folder() -> None:
    """For a process that ends without its clean-up, too."""
    shutil.rmtree(folder(), ignore_errors=True)


def saved(data: bytes, name: str) -> Path:
    """A file that holds the input."""
    path = folder() / name
    path.write_bytes(data)
    return path


# --- models --------------------------------------------------------------------------------------------------------------


def use(partial: PartialGraph) -> None:
    """Read the arrays of a network, the large ones in part, and raise what is wrong with its layers."""
    for node in partial.graph.nodes:
        for field in fields(node.op):
            if isinstance(constant := getattr(node.op, field.name), Constant) and constant.shape:
                rows = constant.shape[0] if constant.size <= SMALL else min(constant.shape[0], 1)
                if rows and constant.size // constant.shape[0] <= SMALL:
                    constant.load(slice(0, rows))
    partial.require_complete()


def loadable(data: bytes) -> None:
    """Listed, checked for each configuration and made into writes of registers; not played."""
    network = read_loadable(saved(data, "net.nvdla"))
    network.tables()
    for device in nvdla.NAMES:
        network.findings(device)
    for configuration in CONFIGURATIONS.values():
        for task in network.contents.tasks:
            if isinstance(task.contents, FirmwareTask):
                with suppress(FieldError):
                    deque(accesses_of(task, task.contents, configuration), maxlen=0)


def prototxt(data: bytes) -> None:
    use(caffe.read(saved(data, "net.prototxt"), None))


def caffemodel(data: bytes) -> None:
    """The weights of a small network, with a layer of each kind that has some."""
    path = saved(data, "net.caffemodel")
    with suppress(ConvertorError):
        file = WeightsFile.open(path)
        for name in file.layers:
            for blob in file.blobs(name):
                blob.numbers(0, SMALL)
    use(caffe.read(_weighted_network(), path))


WEIGHTED = """input: "x" input_shape { dim: 1 dim: 2 dim: 3 dim: 3 }
layer { name: "c" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 2 kernel_size: 1 } }
layer { name: "b" type: "BatchNorm" bottom: "c" top: "c" }
layer { name: "s" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true } }
layer { name: "p" type: "PReLU" bottom: "c" top: "c" }
layer { name: "d" type: "Deconvolution" bottom: "c" top: "d" convolution_param { num_output: 2 kernel_size: 1 bias_term: false } }
layer { name: "i" type: "InnerProduct" bottom: "d" top: "i" inner_product_param { num_output: 1 } }
"""


@cache
def _weighted_network() -> Path:
    return saved(WEIGHTED.encode(), "weighted.prototxt")


EXTERNAL = "external.bin"  # beside ONNX models, for arrays that are not in them


def onnx_file(data: bytes) -> Path:
    if not (folder() / EXTERNAL).exists():
        saved(bytes(64), EXTERNAL)
    return saved(data, "net.onnx")


def onnx_model(data: bytes) -> None:
    path = onnx_file(data)
    use(onnx.read(path, path))


class OtherInputError(ConvertorError):
    """An input of the fuzzer is not what the harness expects."""

    def __init__(self) -> None:
        super().__init__(ConvertorError.of("DV999", "not an input of this harness").problems)


def keras_structure(data: bytes) -> None:
    """A model as JSON: what h5py would have found in its file, so that libhdf5 stays out of it."""
    with patch.object(keras, "open_model", _opened(data)):
        use(keras.read(Path("model.keras"), None))


def _opened(data: bytes) -> Callable[[Path], OpenedModel]:
    """In place of `open_model`. A function, as a mock takes longer to make than a small network to read."""
    return lambda _: model_file(data)


def model_file(data: bytes) -> OpenedModel:
    """The Keras file that an input describes: {"config", "writer", "version", "attributes", "arrays"}."""
    try:
        values = json.loads(data)
        groups = {
            str(path): {str(name): [str(text) for text in texts] for name, texts in attributes.items()}
            for path, attributes in values["attributes"].items()
        }
        variables = {
            str(path): _variable(str(path), tuple(min(abs(int(n)), 1 << 62) for n in shape))
            for path, shape in values["arrays"].items()
        }
        contents = hdf5.Contents("model.keras", variables, groups)
        return OpenedModel(
            Path("model.keras"), values["config"], contents, str(values["writer"]), int(values["version"])
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise OtherInputError from None


def _variable(path: str, shape: tuple[int, ...]) -> hdf5.Variable:
    number = np.float32(len(path) / 16)
    return hdf5.Variable(path, shape[:32], lambda index: np.broadcast_to(number, shape[:32])[index])


def keras_archive(data: bytes) -> None:
    """A .keras file with the arrays of the example in place of its own."""
    with patch.object(hdf5, "_contents", _known_contents):
        path = saved(data, "model.keras")
        use(keras.read(path, None))


def _known_contents(source: hdf5.Hdf5Data) -> hdf5.Contents:
    """The example's contents, after the data have been read as far as the archive says that they go."""
    if source.size:
        source.contiguous(np.dtype(np.uint8), 0, (source.size,), ()).max()
    return _example_contents()


@cache
def _example_contents() -> hdf5.Contents:
    with patch.object(hdf5, "_contents", ORIGINAL_CONTENTS):
        path = EXAMPLES / "digits_keras" / "digits.keras"
        return hdf5.read_member(path, "model.weights.h5", Version.of(path.stat()))


ORIGINAL_CONTENTS: Callable[[hdf5.Hdf5Data], hdf5.Contents] = hdf5._contents  # noqa: SLF001  # what keras_archive replaces


HDF5_SERVANT = Servant(limit=0.25)


def hdf5_file(data: bytes) -> None:
    """A whole .h5 file, read in a child process, which reads the next ones, too. It inherits h5py."""
    import h5py

    assert h5py
    path = saved(data, "model.h5")
    with patch.object(hdf5, "isolated", HDF5_SERVANT.isolated):
        use(keras.read(path, None))


# --- from a model to the device ------------------------------------------------------------------------------------------


def _legalized(partial: PartialGraph) -> None:
    """Raise what the device refuses, as far as the network is known: what `inspect` shows."""
    target = Request.of(_config()).target
    partial.require_complete(find_violations(partial, legalize_graph(partial.graph, target), target))


@cache
def _config() -> Config:
    return Config.of(EXAMPLES / "digits_pytorch" / "digits.onnx")


def prototxt_to_device(data: bytes) -> None:
    _legalized(caffe.read(saved(data, "net.prototxt"), None))


def keras_to_device(data: bytes) -> None:
    with patch.object(keras, "open_model", _opened(data)):
        _legalized(keras.read(Path("model.keras"), None))


def onnx_to_device(data: bytes) -> None:
    path = onnx_file(data)
    _legalized(onnx.read(path, path))


_AUDITED: Final = 8  # one source of so many, by its size


def _converted(model: Path) -> None:
    """All that the commands make of a network: files, report, pictures. The audit, which compiles, finds nothing in one of eight."""
    config = Config.of(model, name="net", output_folder=folder() / "made", generate_source=True, generate_dot=True)
    made = convert(config)
    html_page(made.report)
    shown = report_on(config)
    earlier_report(saved(to_json(shown).encode(), "shown.json"))
    html_page(shown)
    for draw in (network_svg, memory_svg):
        draw(shown)
    source = next(path for path in made.files if path.name == "net_gen.cpp")
    if source.stat().st_size % _AUDITED == 0:
        found = read_sources(source)
        assert not found.findings, found.findings[:3]


def prototxt_to_files(data: bytes) -> None:
    _converted(saved(data, "net.prototxt"))


def keras_to_files(data: bytes) -> None:
    """Under the name of a Keras file, so that its frontend is taken."""
    with patch.object(keras, "open_model", _opened(data)):
        _converted(_keras_file())


@cache
def _keras_file() -> Path:
    return saved((EXAMPLES / "digits_keras" / "digits.keras").read_bytes(), "net.keras")


def onnx_to_files(data: bytes) -> None:
    _converted(onnx_file(data))


# --- other files ---------------------------------------------------------------------------------------------------------


def ini(data: bytes) -> None:
    _prepare_for_ini()
    config = Config.read(saved(data, "net.ini"))
    assert config.model and config.hardware


@cache
def _prepare_for_ini() -> None:
    """The files that the examples' ini files name."""
    for name in (
        "net.prototxt",
        "digits.prototxt",
        "digits.caffemodel",
        "digits.onnx",
        "digits.keras",
        "digits_keras2.h5",
    ):
        saved(b"layer { }", name)
    saved(b"base = 'dv700'", "device.toml")


def layout(data: bytes) -> None:
    """A name of a layout, and after a slash the lengths of an array's axes: `NCHW16c/1,2,3,4`."""
    name, _, lengths = data.decode("utf-8", "replace").rpartition("/")
    found = layout_of(name)
    assert str(found) or repr(found)
    shape = tuple(int(part) for part in lengths.split(",") if part.isascii() and part.isdecimal() and len(part) < 20)
    extents(found, shape)
    element = found.element or np.dtype(np.uint8)
    if nbytes(found, shape, element=element) <= SMALL:
        array = np.arange(np.prod(shape)).reshape(shape).astype(element)
        assert np.array_equal(unpack(pack(array, found), found, shape, element=element), array)


def array_file(data: bytes) -> None:
    """A .npy file that is to be packed."""
    layout_files.read(saved(data, "array.npy"), layout_of("NHWC"), (), None)


def memory_file(data: bytes) -> None:
    """`NAME/1,2,3,4`, and the memory that this layout describes, which is to be unpacked."""
    described, memory = _parts(data, 2)
    name, _, lengths = described.decode("utf-8", "replace").rpartition("/")
    shape = tuple(int(part) for part in lengths.split(",") if part.isascii() and part.isdecimal() and len(part) < 20)
    layout_files.read(saved(memory, "array.bin"), layout_files.form_of(name), shape, None)


def samples(data: bytes) -> None:
    """A .npz file of inputs, and of results that are known."""
    read_samples(saved(data, "inputs.npz"), {"x": Shape(2, 1, 3), "y": Shape(1, 1, 2)}, Preparation())


def manifest(data: bytes) -> None:
    """The manifest of a conversion, and that of an export with its files."""
    saved(data, "net.json")
    earlier_files(folder(), "net")
    board_of(folder() / "net_gen.cpp")
    for name, content in EXPORTED.items():
        saved(content, name)
    for entry in loading.read(saved(data, loading.MANIFEST)).surfaces:
        entry.values()


# One bit of a mask and one group of two bytes: the form of compressed weights. A stream of one weight.
EXPORTED = {**dict.fromkeys(("w.bin", "m.bin", "g.bin"), b"\2" + bytes(7)), "s.bin": bytes(176)}


def journal(data: bytes) -> None:
    """The journal of a replacement that was cut off, which the next one undoes. Nothing outside of the folder may change."""
    place = folder() / "journal"
    outside, staging = place / "outside", place / ".out.unfinished-x"
    shutil.rmtree(place, ignore_errors=True)
    for inner in ("new", "old", "old/inner"):
        (staging / inner).mkdir(parents=True)
        (staging / inner / "file").write_bytes(b"earlier")
    outside.write_bytes(b"")
    (staging / "journal.json").write_bytes(data)
    replace_all(place / "out", {"made": "new"})
    assert (place / "out" / "made").read_text() == "new"
    assert {path.name for path in place.iterdir()} - {staging.name} == {"out", outside.name}
    assert not (folder() / "outside").exists() and not (folder() / "file").exists()


def cached(data: bytes) -> None:
    """An entry of a cache, with its right digest."""
    store = Cache(folder() / "cache")
    path = store.folder / "entries" / "ke" / "key"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(sha256(data).hexdigest().encode() + b"\n" + data)
    if (entry := store.find("key")) is not None:
        assert all(PurePosixPath(content.name).is_relative_to("") for content in entry.contents)
        html_page(entry.report)


def report(data: bytes) -> None:
    """What `report --json` wrote, compared with another report, on the terminal and as a page."""
    found = differences(earlier_report(saved(data, "report.json")), known_report())
    fitted(table_of_differences(found), 80).encode()
    html_page(known_report(), compared=found).encode()


def board_results(data: bytes) -> None:
    """results.json, layers.bin and outputs.bin of a kit."""
    for name, content in zip(("results.json", "layers.bin", "outputs.bin"), _parts(data, 3), strict=True):
        saved(content, name)
    results = read_results(folder())
    results.require_fit(known_program())
    assert all(len(maps) == results.samples for maps in results.maps(known_program()))


def committed(data: bytes) -> None:
    """A committed source and weights, beside those of a conversion."""
    made = known_outputs()
    for path, content in zip((made["net_gen.cpp"], made["net_weights.bin"]), _parts(data, 2), strict=True):
        before = saved(content, f"committed{path.suffix}")
        for difference in differences_of(before, path, made["net.json"]):
            difference.encode()


SMALL_NETWORK = """input: "x" input_shape { dim: 1 dim: 2 dim: 2 dim: 2 }
layer { name: "p" type: "Pooling" bottom: "x" top: "p" pooling_param { kernel_size: 2 } }
layer { name: "s" type: "Softmax" bottom: "p" top: "s" }
"""


@cache
def _known_config() -> Config:
    return Config.of(
        saved(SMALL_NETWORK.encode(), "known.prototxt"),
        name="net",
        output_folder=folder() / "known",
        generate_source=True,
    )


@cache
def known_program() -> Program:
    return build(load(_known_config()), _known_config())


@cache
def known_report() -> Report:
    return report_on(_known_config())


@cache
def known_outputs() -> Mapping[str, Path]:
    return {path.name: path for path in convert(_known_config()).files}


def any_model(data: bytes) -> None:
    """A file of a format that no reader has, or with the wrong name: the input's first line is the suffix."""
    suffix, _, content = data.partition(b"\n")
    path = saved(content, "any." + suffix.decode("ascii", "replace").translate(PLAIN)[:9])
    load(Config.of(path))


PLAIN = {code: "x" for code in range(128) if not chr(code).isalnum()}


VARIED_INI = b"[INPUT]\nname = net\ndefinition = %s\n[OUTPUT]\noutput_folder = out\n"


def varied(data: bytes) -> None:
    """Texts that `sweep --vary` takes, one a line."""
    ini = saved(VARIED_INI % _known_config().definition.name.encode(), "varied.ini")
    texts = data.decode("utf-8", "replace").splitlines()
    assert variants(ini, [text[:100] for text in texts[:4]])


def labels(data: bytes) -> None:
    """Names of classes, and the right class of each sample."""
    path = saved(data, "labels.txt")
    read_classes(path, max(1, len(read_labels(path))), load(_known_config()))


def buffers(data: bytes) -> None:
    plan(table.load(saved(data, "buffers.csv")), alignment=16, nodes=10)


def device_toml(data: bytes) -> None:
    saved(data, "device.toml")
    _check_profile(read_profile("device.toml", folder()))


def device_json(data: bytes) -> None:
    saved(data, "device.json")
    _check_profile(read_profile("device.json", folder()))


def _check_profile(profile: Any) -> None:
    assert profile.limits


def sources(data: bytes) -> None:
    """NAME_gen.cpp, NAME_cpu.h, the weights and NAME_gen.h of a conversion, for the audit."""
    for name, content in zip(("net_gen.cpp", "net_cpu.h", "weights.bin", "net_gen.h"), _parts(data, 4), strict=True):
        saved(content, name)
    read_sources(folder() / "net_gen.cpp", folder() / "weights.bin")


def _parts(data: bytes, count: int) -> list[bytes]:
    """The parts of an input; missing ones are empty."""
    found = data.split(SEPARATOR, count - 1)
    return found + [b""] * (count - len(found))
