"""Small files that ask for much memory or time are refused, or read, within both: three times their size and 300 MB, and seconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from cnn_convertor.budget import SHARES
from cnn_convertor.errors import ConvertorError
from cnn_convertor.frontends.model_file import ModelFile
from cnn_convertor.frontends.onnx import tensors
from cnn_convertor.frontends.wire import Field, WireType
from development.fuzz import targets
from development.fuzz.mutation import message
from development.fuzz.watching import outcome
from development.growth import networks
from examples.caffemodel import encode

SECONDS = 10  # of processor time; each takes less than 2 on a quiet machine
MANY = 100_000


def code_of(run: Callable[[bytes], None], data: bytes) -> str:
    """The code with which an input is refused; "" when it is read."""
    code = ""

    def noting(given: bytes) -> None:
        nonlocal code
        try:
            run(given)
        except ConvertorError as error:
            code = error.problems[0].code

    finding = outcome(noting, data, SECONDS)
    assert finding is None, finding.text
    return code


PROTOTXT: Mapping[str, tuple[str, str]] = {
    "nested layers": ("layer { " * MANY, "DV211"),
    "nested layers, closed": ("layer { " * MANY + "}" * MANY, "DV211"),
    "nested unknown fields": ("x { " * MANY + "}" * MANY, "DV211"),
    "nested settings": ("layer { convolution_param { weight_filler { " * MANY, "DV211"),
    "nested lists": ("x: " + "[" * MANY, "DV211"),
    "blanks": (" " * 8_000_000, "DV201"),
    "comments": ("#\n" * 200_000, "DV201"),
    "one text": (f'name: "{"a" * 5_000_000}"', "DV201"),
    "escapes": (f'name: "{chr(92) * 1_000_000}"', "DV201"),
    "one number": (f"layer {{ top: 'x' loss_weight: {'1' * 1_000_000} }}", "DV212"),
    "one word": ("a" * 5_000_000, "DV211"),
    "a long list": (f"input_dim: [{'1, ' * 50_000} 1]", "DV201"),
    "many separators": (";" * 100_000, "DV201"),
    "more than any network needs": ("#" * (9 << 20), "DV201"),
    "huge sizes": ("input: 'x' input_dim: [1, 2147483647, 2147483647, 2147483647] layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'y' }", "DV202"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROTOTXT)
def test_definitions(name: str) -> None:
    text, code = PROTOTXT[name]
    assert code_of(targets.prototxt, text.encode()) == code


def test_a_word_of_any_length_gives_a_short_message() -> None:
    with pytest.raises(ConvertorError) as raised:
        targets.prototxt(b"layer { name: " + b"a" * 100_000 + b" }")
    assert len(str(raised.value)) < 500


def network(nodes: Sequence[Any], constants: Mapping[str, Any]) -> bytes:
    onnx = pytest.importorskip("onnx", reason="networks are written with the onnx package")
    helper = onnx.helper
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4, 6, 5])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    made: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    return made


def node(type: str, inputs: str, output: str, **attributes: Any) -> Any:
    onnx = pytest.importorskip("onnx", reason="networks are written with the onnx package")
    return onnx.helper.make_node(type, inputs.split(), [output], **attributes)


ONE, LONG = np.ones(1, np.float32), np.ones(1 << 14, np.float32)
# The last node of constants, its inputs, and its constants.
LARGE: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "constant of shape": ("ConstantOfShape", "a", {"a": np.array([1 << 28])}),
    "constant of shapes": ("ConstantOfShape", "a", {"a": np.array([0, 1 << 62])}),
    "expand": ("Expand", "a b", {"a": ONE, "b": np.array([1 << 27])}),
    "tile": ("Tile", "a b", {"a": ONE, "b": np.array([1 << 27])}),
    "range": ("Range", "a b c", {"a": np.float32(0), "b": np.float32(1e9), "c": np.float32(1)}),
    "gather": ("Gather", "a b", {"a": LONG.reshape(1, -1), "b": np.zeros(1 << 14, np.int64)}),
    "product": ("Mul", "a b", {"a": LONG.reshape(1, -1), "b": LONG.reshape(-1, 1)}),
    "largest": ("Max", "a b", {"a": LONG.reshape(1, -1), "b": LONG.reshape(-1, 1)}),
    "remainder": ("Mod", "a b", {"a": LONG.reshape(1, -1).astype(int), "b": LONG.reshape(-1, 1).astype(int)}),
    "matrix product": ("MatMul", "a b", {"a": LONG.reshape(-1, 1), "b": LONG.reshape(1, -1)}),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_constants_that_become_large(name: str) -> None:
    type, inputs, constants = LARGE[name]
    made = network([node(type, inputs, "made"), node("Add", "x made", "y")], constants)
    assert code_of(targets.onnx_model, made) == "DV206"


def test_constants_that_double() -> None:
    chain = [node("Concat", f"c{k} c{k}", f"c{k + 1}", axis=0) for k in range(60)]
    assert code_of(targets.onnx_model, network([*chain, node("Add", "x c60", "y")], {"c0": ONE})) == "DV206"


def test_constants_that_are_computed_again_and_again() -> None:
    """Each pair of nodes reads the array before it twice, so that reading the last one would compute 2^60 arrays."""
    start = node("Expand", "a b", "c0")
    chain = [
        part for k in range(60) for part in (node("Neg", f"c{k}", f"n{k}"), node("Max", f"c{k} n{k}", f"c{k + 1}"))
    ]
    constants = {"a": ONE, "b": np.array([1 << 15])}
    assert code_of(targets.onnx_model, network([start, *chain, node("Add", "x c60", "y")], constants)) == "DV302"


@pytest.mark.parametrize("form", ["x.{} = 1", "[{}]", "title.{} = 1", "[device]\nub_size.{} = 1"])
def test_a_key_of_many_parts_in_a_device_file(form: str) -> None:
    """Python's reader of TOML takes the square of their number."""
    assert code_of(targets.device_toml, form.format(".".join("a" * 400_000)).encode()) == "DV150"
    for count in (900, 5_000):
        assert code_of(targets.device_toml, form.format(".".join("a" * count)).encode()) == "DV150"


def test_functions_that_take_long_count_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHARES, "constants", 300_000)
    start, constants = node("Expand", "a b", "c0"), {"a": ONE, "b": np.array([1 << 15])}
    for type, code in (("Tanh", ""), ("Erf", "DV302")):
        chain = [node(type, f"c{k}", f"c{k + 1}") for k in range(8)]
        last = node("ReduceSum", "c8", "sum", keepdims=0)
        made = network([start, *chain, last, node("Add", "x sum", "y")], constants)
        assert code_of(targets.onnx_model, made) == code


def test_products_of_large_matrices() -> None:
    """8.6 * 10^9 products of integers."""
    nodes = [
        node("Expand", "a b", "c"),
        node("MatMul", "c c", "d"),
        node("ReduceMax", "d", "e"),
        node("Add", "x e", "y"),
    ]
    assert code_of(targets.onnx_model, network(nodes, {"a": np.ones(1, int), "b": np.array([2048, 2048])})) == "DV302"


@pytest.mark.parametrize("make", [networks.split, networks.chain, networks.fan])
def test_more_layers_than_networks_have(make: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHARES, "layers", 50 * 16_000)
    assert code_of(targets.onnx_model, make(40)) == ""
    assert code_of(targets.onnx_model, make(100)) == "DV304"


def test_messages_in_messages() -> None:
    data = b""
    for _ in range(3000):
        data = message(7, data)
    assert code_of(targets.onnx_model, data) in ("DV201", "DV302")


KERAS: Mapping[str, tuple[str, str]] = {
    "nested lists": ('{"config": ' + "[" * MANY + "]" * MANY + "}", "DV999"),
    "models in models": (
        '{"class_name": "Sequential", "config": {"layers": [' * 300 + "]}}" * 300,
        "DV201",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KERAS)
def test_configurations(name: str) -> None:
    text, code = KERAS[name]
    if code == "DV201":
        text = f'{{"config": {text}, "writer": "3", "version": 3, "attributes": {{}}, "arrays": {{}}}}'
    assert code_of(targets.keras_structure, text.encode()) == code


def keras_layer(type: str, name: str, *calls: tuple[str, int], **config: Any) -> dict[str, Any]:
    """A layer as Keras 3 writes it, with a call on each of these outputs: (layer, number of its call)."""
    nodes = [
        {"args": [{"class_name": "__keras_tensor__", "config": {"keras_history": [*call, 0]}}], "kwargs": {}}
        for call in calls
    ]
    return {
        "class_name": type,
        "module": "keras.layers",
        "name": name,
        "config": {"name": name, "trainable": True, **config},
        "inbound_nodes": nodes,
    }


def keras_input(config: Mapping[str, Any]) -> bytes:
    return json.dumps({"config": config, "writer": "3", "version": 3, "attributes": {}, "arrays": {}}).encode()


X = keras_layer("InputLayer", "x", batch_shape=[None, 8, 8, 4])


def keras_model(name: str, inner: Mapping[str, Any], output: tuple[str, int]) -> dict[str, Any]:
    refs = {"input_layers": [["x", 0, 0]], "output_layers": [[*output, 0]]}
    return {"class_name": "Functional", "name": name, "config": {"name": name, "layers": [X, inner], **refs}}


def test_models_in_models_that_are_called_twice() -> None:
    """Thirty of them, which are 2^30 calls of the innermost layer."""
    model = keras_model("m0", keras_layer("ReLU", "r", ("x", 0)), ("r", 0))
    for depth in range(30):
        inner = model | {"inbound_nodes": keras_layer("", "", ("x", 0), (f"m{depth}", 0))["inbound_nodes"]}
        model = keras_model(f"m{depth + 1}", inner, (f"m{depth}", 1))
    assert code_of(targets.keras_structure, keras_input(model)) == "DV201"


def test_padding_far_beyond_any_map() -> None:
    text = """input: "x" input_dim: [1, 3, 8, 8] layer { name: "c" type: "Convolution" bottom: "x" top: "y"
        convolution_param { num_output: 4 kernel_size: 3 pad: 1000000000 } }"""
    assert code_of(targets.prototxt_to_device, text.encode()) == "DV202"


def test_a_map_with_more_channels_than_memory_has_bytes() -> None:
    text = 'input: "x" input_dim: [1, 2147483647, 1, 1] layer { name: "r" type: "ReLU" bottom: "x" top: "y" }'
    assert code_of(targets.prototxt_to_device, text.encode()) == "DV202"


def constant(type: int, count: int, numbers: bytes) -> bytes:
    """A model with nothing but an array of this many numbers."""
    array = message(5, b"\x08" + encode(count) + b"\x10" + encode(type) + numbers + message(8, b"c"))
    return b"\x08\x08" + message(8, b"\x10\x11") + message(7, array + message(12, message(1, b"c")))


def test_numbers_of_one_octet_each() -> None:
    """12 MB of them, which take up to 35 times as much while they are unpacked all at once."""
    count = 12 << 20
    assert code_of(targets.onnx_model, constant(tensors.FLOAT16, count, message(5, bytes(count)))) == "DV302"


@pytest.mark.parametrize(("millions", "code"), [(8, "DV302"), (60, "DV201")])
def test_integers_of_eight_bytes_that_have_one_octet_in_the_file(millions: int, code: str) -> None:
    count = millions << 20
    assert code_of(targets.onnx_model, constant(tensors.INT64, count, message(7, bytes(count)))) == code


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize(("type", "field"), [(tensors.INT64, b"\x38\x00"), (tensors.FLOAT, b"\x25\x00\x00\x00\x00")])
def test_numbers_with_a_field_each(type: int, field: bytes) -> None:
    count = 4 << 20
    assert code_of(targets.onnx_model, constant(type, count, field * count)) == "DV201"


@pytest.mark.parametrize("piece", [10, 11, 16, 1000])
def test_packed_numbers_are_the_same_in_pieces_of_any_size(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "PIECE", piece)
    numbers = [0, 1, 127, 128, 300, 2**31, 2**62, -1, -(2**63)] * 9
    packed = b"".join(encode(n % 2**64) for n in numbers)
    data = message(1, encode(len(numbers))) + b"\x10\x07" + message(7, packed) + message(8, b"c")
    path = targets.saved(data, "tensor")
    file = tensors.TensorFile(path, ModelFile(path))
    name, stored = tensors.read_tensor(file, Field(0, WireType.BYTES, 0, len(data)))
    assert name == "c" and stored.load().tolist() == numbers
