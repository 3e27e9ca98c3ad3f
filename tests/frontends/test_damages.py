"""Each kind of damage, in a model of each format: it is converted, or refused with one error that has codes.

`tests/repository/test_fuzz.py` damages at random; here no kind is left to chance.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import h5py
import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.conversion.convert import convert
from development.fuzz.mutation import mutate_bytes, read_archive, read_wire, write_archive, write_wire
from development.fuzz.watching import outcome

onnx = pytest.importorskip("onnx", reason="onnx rewrites models")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SECONDS = 10  # for one model, on a busy machine
NAMES = ("\x00", "\x07\x1b[31m", "\n", "\u202e", "*/", '"', "a" * 3000)
DEPTH = 20_000
HUGE = (1 << 31, 1 << 40, (1 << 63) - 1)
NUMBERS = (float("nan"), float("inf"), float("-inf"))

Files: TypeAlias = dict[str, bytes]  # the first is the definition
Damaged: TypeAlias = Iterator[Files]

# --- Caffe ---------------------------------------------------------------------------------------------------------------

DEFINITION = "net.prototxt"
WEIGHTS = "net.caffemodel"


def caffe() -> Files:
    folder = EXAMPLES / "digits_caffe"
    return {
        DEFINITION: (folder / "digits.prototxt").read_bytes(),
        WEIGHTS: (folder / "digits.caffemodel").read_bytes(),
    }


def blocks() -> tuple[str, list[str]]:
    """What comes before the layers, and each layer."""
    text = re.sub(r"#.*\n", "\n", caffe()[DEFINITION].decode())
    head, *layers = re.split(r"(?m)^(?=layer \{)", text)
    return head, layers


def caffe_text(change: Callable[[list[str], Random], None]) -> Damaged:
    for seed in range(3):
        head, layers = blocks()
        change(layers, Random(seed))
        yield {**caffe(), DEFINITION: (head + "".join(layers)).encode("utf-8", "surrogateescape")}


def caffe_replaced(pattern: str, values: Sequence[object]) -> Damaged:
    for value in values:
        text = caffe()[DEFINITION].decode()
        place = Random(str(value)).choice([*re.finditer(pattern, text)])
        yield {**caffe(), DEFINITION: (text[: place.start(1)] + str(value) + text[place.end(1) :]).encode()}


def caffe_blobs(change: Callable[[list[Any]], None]) -> Damaged:
    """Change the fields of the blob of one layer: [number, type, value]."""
    for seed in range(3):
        tree = read_wire(caffe()[WEIGHTS], 0, len(caffe()[WEIGHTS]))
        layers = [layer for layer in tree if layer[0] == 100 and any(field[0] == 7 for field in layer[2])]
        layer = Random(seed).choice(layers)
        change(layer[2])
        yield {**caffe(), WEIGHTS: write_wire(tree)}


def without_blobs(layer: list[Any]) -> None:
    layer[:] = [field for field in layer if field[0] != 7]


def with_shape(size: int, layer: list[Any]) -> None:
    for field in layer:
        if field[0] == 7:
            field[2] = [[7, 2, [[1, 0, size]]], *(inner for inner in field[2] if inner[0] != 7)]


def with_number(number: float, layer: list[Any]) -> None:
    for field in layer:
        for inner in field[2] if field[0] == 7 else ():
            if inner[0] == 5:
                inner[2] = np.full(len(write_wire(inner[2])) // 4, number, "<f4").tobytes()


def caffe_cycle(layers: list[str], random: Random) -> None:
    """A layer reads what comes after it."""
    tops = re.findall(r'top: "(\w+)"', layers[-1])
    at = random.randint(1, len(layers) - 2)
    layers[at] = re.sub(r'bottom: "\w+"', f'bottom: "{tops[0]}"', layers[at], count=1)


def renamed(layers: list[str], random: Random, names: Sequence[str]) -> None:
    at = random.randrange(1, len(layers))
    layers[at] = re.sub(r'name: "\w+"', lambda _: f'name: "{random.choice(names)}"', layers[at], count=1)


CAFFE: Mapping[str, Callable[[], Damaged]] = {
    "swapped layers": lambda: caffe_text(lambda layers, random: random.shuffle(layers)),
    "duplicated layers": lambda: caffe_text(lambda layers, random: layers.append(random.choice(layers))),
    "cycles": lambda: caffe_text(caffe_cycle),
    "duplicated names": lambda: caffe_text(partial(renamed, names=["conv1"])),
    "control characters": lambda: caffe_text(partial(renamed, names=NAMES)),
    "not UTF-8": lambda: caffe_text(partial(renamed, names=["\udcff", "\udced\udca0\udc80"])),
    "missing blobs": lambda: caffe_blobs(without_blobs),
    "blobs of another shape": lambda: caffe_blobs(partial(with_shape, 7)),
    "zero dimensions": lambda: (
        file
        for damaged in (caffe_replaced(r"(?:num_output|dim|kernel_size): (\d+)", [0, "0.0"]), caffe_blobs(partial(with_shape, 0)))
        for file in damaged
    ),
    "huge dimensions": lambda: (
        file
        for damaged in (caffe_replaced(r"(?:num_output|dim|kernel_size|pad): (\d+)", HUGE), *(caffe_blobs(partial(with_shape, n)) for n in HUGE))
        for file in damaged
    ),
    "NaN and infinity": lambda: (
        file
        for damaged in (caffe_replaced(r"(?:num_output|kernel_size): (\d+)", ["nan", "inf"]), *(caffe_blobs(partial(with_number, n)) for n in NUMBERS))
        for file in damaged
    ),
    "deep nesting": lambda: caffe_text(lambda layers, _: layers.append("layer { " * DEPTH + "} " * DEPTH)),
}  # fmt: skip

# --- Keras ---------------------------------------------------------------------------------------------------------------


def keras_archive() -> Files:
    return {"net.keras": (EXAMPLES / "digits_keras" / "digits.keras").read_bytes()}


def keras_hdf5() -> Files:
    return {"net.h5": (EXAMPLES / "digits_keras" / "digits_keras2.h5").read_bytes()}


def in_file(data: bytes, change: Callable[[h5py.File], None]) -> bytes:
    stream = io.BytesIO(data)
    with h5py.File(stream, "r+") as file:
        change(file)
    return stream.getvalue()


def with_config(form: str, change: Callable[[str], bytes]) -> Files:
    """The model with another configuration. change: of the JSON text."""
    if form == "h5":
        (name, data) = next(iter(keras_hdf5().items()))

        def rewrite(file: h5py.File) -> None:
            text = change(str(file.attrs["model_config"]))
            del file.attrs["model_config"]
            if len(text) < 60_000:
                file.attrs["model_config"] = np.bytes_(text)
            else:  # as Keras splits what is too long for an attribute
                for number, start in enumerate(range(0, len(text), 60_000)):
                    file.attrs[f"model_config{number}"] = np.bytes_(text[start : start + 60_000])

        return {name: in_file(data, rewrite)}
    members = read_archive(keras_archive()["net.keras"])
    return {"net.keras": write_archive({**members, "config.json": change(members["config.json"].decode())})}


def keras_tree(form: str, change: Callable[[list[Any], Random], None]) -> Damaged:
    for seed in range(3):

        def rewrite(text: str, seed: int = seed) -> bytes:
            tree = json.loads(text)
            change(tree["config"]["layers"], Random(seed))
            return json.dumps(tree).encode()

        yield with_config(form, rewrite)


def keras_number(form: str, pattern: str, values: Sequence[object]) -> Damaged:
    for value in values:

        def rewrite(text: str, value: object = value) -> bytes:
            place = Random(str(value)).choice([*re.finditer(pattern, text)])
            return (text[: place.start(1)] + str(value) + text[place.end(1) :]).encode()

        yield with_config(form, rewrite)


def keras_arrays(form: str, change: Callable[[h5py.Group, str], None]) -> Damaged:
    for seed in range(3):

        def rewrite(file: h5py.File, seed: int = seed) -> None:
            found: list[str] = []
            file.visititems(lambda path, item: found.append(path) if isinstance(item, h5py.Dataset) else None)
            change(file, Random(seed).choice([path for path in found if "optimizer" not in path]))

        if form == "h5":
            yield {"net.h5": in_file(keras_hdf5()["net.h5"], rewrite)}
        else:
            members = read_archive(keras_archive()["net.keras"])
            weights = in_file(members["model.weights.h5"], rewrite)
            yield {"net.keras": write_archive({**members, "model.weights.h5": weights})}


def without_array(file: h5py.Group, path: str) -> None:
    del file[path]


def with_array(values: Any, file: h5py.Group, path: str) -> None:
    del file[path]
    file[path] = values


def with_huge_array(file: h5py.Group, path: str) -> None:
    """One that is not stored."""
    del file[path]
    file.create_dataset(path, (1 << 20, 1 << 20, 4), "f4", chunks=(64, 64, 4))


def with_numbers(number: float, file: h5py.Group, path: str) -> None:
    file[path][...] = number


def keras_cycle(layers: list[Any], random: Random) -> None:
    last = layers[-1]["config"]["name"]
    changed = random.choice(layers[1:-1])
    read = json.dumps(changed["inbound_nodes"])
    changed["inbound_nodes"] = json.loads(re.sub(r'(keras_history": \[|\[\[\[?)"\w+"', rf'\1"{last}"', read, count=1))


def keras_renamed(layers: list[Any], random: Random, names: Sequence[str]) -> None:
    layer = random.choice(layers[1:])
    layer["name"] = layer["config"]["name"] = random.choice(names)


def keras_nested(form: str) -> Damaged:
    for opening, closing in (("[", "]"), ('{"a": ', "}")):
        deep = opening * DEPTH + "0" + closing * DEPTH
        yield with_config(form, lambda text, deep=deep: _with_entry(text, deep))  # type: ignore[misc]  # a default binds
        yield with_config(form, lambda _, deep=deep: str(deep).encode())  # type: ignore[misc]


def _with_entry(text: str, value: str) -> bytes:
    return text.replace('"layers": [', f'"deep": {value}, "layers": [').encode()


def keras_damages(form: str) -> Mapping[str, Callable[[], Damaged]]:
    number = r'"(?:filters|units|kernel_size|pool_size|batch_shape|batch_input_shape|strides)": (?:\[[^\]]*?)?(\d+)'
    return {
        "swapped layers": lambda: keras_tree(form, lambda layers, random: random.shuffle(layers)),
        "duplicated layers": lambda: keras_tree(form, lambda layers, random: layers.append(random.choice(layers))),
        "cycles": lambda: keras_tree(form, keras_cycle),
        "duplicated names": lambda: keras_tree(form, partial(keras_renamed, names=["stem"])),
        "control characters": lambda: keras_tree(form, partial(keras_renamed, names=NAMES)),
        "not UTF-8": lambda: iter(
            [with_config(form, lambda text: text.encode().replace(b"stem", b"st\xffm")), with_config(form, lambda _: b"\xff\xfe{}")]
        ),
        "missing blobs": lambda: keras_arrays(form, without_array),
        "blobs of another shape": lambda: keras_arrays(form, partial(with_array, np.ones((7, 3), "f4"))),
        "zero dimensions": lambda: (
            file
            for damaged in (keras_number(form, number, [0, "0.0"]), keras_arrays(form, partial(with_array, np.ones((0, 3), "f4"))))
            for file in damaged
        ),
        "huge dimensions": lambda: (
            file for damaged in (keras_number(form, number, HUGE), keras_arrays(form, with_huge_array)) for file in damaged
        ),
        "NaN and infinity": lambda: (
            file
            for damaged in (
                keras_number(form, number, ["NaN", "Infinity", "1e999"]), *(keras_arrays(form, partial(with_numbers, n)) for n in NUMBERS)
            )
            for file in damaged
        ),
        "deep nesting": lambda: keras_nested(form),
    }  # fmt: skip


# --- ONNX ----------------------------------------------------------------------------------------------------------------


def onnx_file() -> Files:
    return {"net.onnx": (EXAMPLES / "digits_pytorch" / "digits.onnx").read_bytes()}


def onnx_graph(change: Callable[[Any, Random], None], count: int = 3) -> Damaged:
    for seed in range(count):
        model = onnx.load_from_string(onnx_file()["net.onnx"])
        change(model.graph, Random(seed))
        yield {"net.onnx": model.SerializeToString()}


def onnx_shuffled(graph: Any, random: Random) -> None:
    nodes = list(graph.node)
    random.shuffle(nodes)
    del graph.node[:]
    graph.node.extend(nodes)


def onnx_cycle(graph: Any, random: Random) -> None:
    random.choice(graph.node[:-1]).input[0] = graph.node[-1].output[0]


def onnx_named(graph: Any, random: Random, names: Sequence[str]) -> None:
    random.choice(graph.node).name = random.choice(names)


def onnx_same_output(graph: Any, random: Random) -> None:
    one, other = random.sample(list(graph.node), 2)
    one.output[0] = other.output[0]


def onnx_sized(size: int, graph: Any, random: Random) -> None:
    match random.randint(0, 2):
        case 0:
            random.choice(graph.initializer).dims[0] = size
        case 1:
            graph.input[0].type.tensor_type.shape.dim[-1].dim_value = size
        case _:
            listed = [a for node in graph.node for a in node.attribute if a.ints]
            random.choice(listed).ints[0] = size


def onnx_numbers(number: float, graph: Any, random: Random) -> None:
    tensor = random.choice([t for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT])
    values = np.full(onnx.numpy_helper.to_array(tensor).shape, number, np.float32)
    tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))


def onnx_without(graph: Any, random: Random) -> None:
    del graph.initializer[random.randrange(len(graph.initializer))]


def onnx_not_utf8() -> Damaged:
    data = onnx_file()["net.onnx"]
    name = onnx.load_from_string(data).graph.node[0].output[0].encode()
    yield {"net.onnx": data.replace(name, b"\xff" * len(name))}
    yield {"net.onnx": data.replace(b"Conv", b"\xff\xfe\xed\xa0")}


def onnx_nested() -> Damaged:
    """Graphs in the attributes of nodes in graphs."""
    for depth in (50, 2000):
        inner = b""
        for _ in range(depth):
            attribute = write_wire([[1, 2, b"a"], [20, 0, 5], [6, 2, inner]])
            inner = write_wire([[1, 2, [[4, 2, b"If"], [2, 2, b"y"], [5, 2, attribute]]]])
        yield {"net.onnx": write_wire([[1, 0, 8], [8, 2, [[2, 0, 17]]], [7, 2, inner]])}


ONNX: Mapping[str, Callable[[], Damaged]] = {
    "swapped layers": lambda: onnx_graph(onnx_shuffled),
    "duplicated layers": lambda: onnx_graph(lambda graph, random: graph.node.append(random.choice(graph.node))),
    "cycles": lambda: onnx_graph(onnx_cycle),
    "duplicated names": lambda: onnx_graph(onnx_same_output),
    "control characters": lambda: onnx_graph(partial(onnx_named, names=NAMES), 8),
    "not UTF-8": onnx_not_utf8,
    "missing blobs": lambda: onnx_graph(onnx_without),
    "blobs of another shape": lambda: onnx_graph(partial(onnx_sized, 7)),
    "zero dimensions": lambda: onnx_graph(partial(onnx_sized, 0), 6),
    "huge dimensions": lambda: (file for size in HUGE for file in onnx_graph(partial(onnx_sized, size), 4)),
    "NaN and infinity": lambda: (file for n in NUMBERS for file in onnx_graph(partial(onnx_numbers, n), 1)),
    "deep nesting": onnx_nested,
}

# --- the tests -----------------------------------------------------------------------------------------------------------

WHOLE: Mapping[str, Callable[[], Files]] = {"caffe": caffe, "h5": keras_hdf5, "keras": keras_archive, "onnx": onnx_file}
DAMAGES = {"caffe": CAFFE, "h5": keras_damages("h5"), "keras": keras_damages("keras"), "onnx": ONNX}
CASES = [(form, kind) for form, kinds in DAMAGES.items() for kind in kinds]


def converted(files: Files, folder: Path) -> None:
    paths = [folder / name for name in files]
    for path in paths:
        path.write_bytes(files[path.name])
    data = paths[1] if len(paths) > 1 else None
    convert(Config.of(paths[0], data=data, output_folder=folder / "out", name="net"))


def check(damaged: Damaged, folder: Path) -> int:
    """The number of models, all of which were converted or refused."""
    count = 0
    for files in damaged:
        count += 1
        finding = outcome(lambda _, files=files: converted(files, folder), b"".join(files.values()), SECONDS)  # type: ignore[misc]
        assert finding is None
    return count


def test_every_format_has_every_kind() -> None:
    assert len({tuple(kinds) for kinds in DAMAGES.values()}) == 1


@pytest.mark.parametrize("form", WHOLE)
def test_the_models_are_whole_without_damage(form: str, tmp_path: Path) -> None:
    converted(WHOLE[form](), tmp_path)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize(("form", "kind"), CASES)
def test_a_damaged_model_is_converted_or_refused(form: str, kind: str, tmp_path: Path) -> None:
    assert check(DAMAGES[form][kind](), tmp_path)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("form", WHOLE)
def test_flipped_bits_and_files_that_are_cut_short(form: str, tmp_path: Path) -> None:
    def damaged() -> Damaged:
        random = Random(form)
        for _ in range(4):
            for name, data in WHOLE[form]().items():
                place = random.randrange(8 * len(data))
                flipped = bytearray(data)
                flipped[place // 8] ^= 1 << place % 8
                for changed in (bytes(flipped), data[: place // 8], mutate_bytes(data, random)):
                    yield {**WHOLE[form](), name: changed}

    assert check(damaged(), tmp_path)
