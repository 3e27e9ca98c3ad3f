"""Numbers in ONNX files: every type and field, in the model or in a file beside it."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError, ModelError
from cnn_convertor.frontends.onnx.stored import SMALL, Numbers, Stored
from cnn_convertor.ir import ops
from frontends.onnx.networks import Network, agreeing, helper, load, numpy_helper, onnx
from frontends.onnx.test_networks import RANDOM, X, integers, make, normal


def convolution(weight: Any, path: Path, **more: Any) -> Any:
    """The weights of a convolution that the graph holds."""
    graph = Network([make("Conv", ["x", "w"], ["y"])], {"x": X}, {"w": weight}).write(path, **more)
    (found,) = (node.op for node in load(graph).nodes if isinstance(node.op, ops.Conv2d))
    return found.weight.load()


@pytest.mark.parametrize("type", [np.float16, np.float32, np.float64])
def test_weights_of_each_type(type: type, tmp_path: Path) -> None:
    weight = normal(3, 4, 3, 3).astype(type)
    np.testing.assert_array_equal(convolution(weight, tmp_path / "net.onnx"), weight.astype(np.float32))


STORED: Mapping[str, tuple[int, Callable[[Any], Any]]] = {
    "float32": (1, lambda w: w), "float16": (10, lambda w: w.astype(np.float16)), "double": (11, lambda w: w),
    "bfloat16": (16, lambda w: (w.view(np.uint32) & 0xFFFF0000).view(np.float32)),
}  # fmt: skip


@pytest.mark.parametrize("name", STORED)
def test_weights_in_fields_with_types(name: str, tmp_path: Path) -> None:
    kind, rounded = STORED[name]
    weight = rounded(normal(3, 4, 3, 3)).astype(np.float32)
    Network([make("Conv", ["x", "w"], ["y"])], {"x": X}, {"w": weight}).write(path := tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.initializer[0].CopyFrom(helper.make_tensor("w", kind, weight.shape, weight.flatten()))
    onnx.save(model, path)
    (found,) = (node.op for node in load(path).nodes if isinstance(node.op, ops.Conv2d))
    np.testing.assert_array_equal(found.weight.load(), weight)


def test_a_size_of_no_octets_is_undefined(tmp_path: Path) -> None:
    path = Network([make("Relu", ["x"], ["y"])], {"x": X}, {}).write(tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "??"
    data = model.SerializeToString()
    assert data.count(b"\x12\x02??") == 1
    path.write_bytes(data.replace(b"\x12\x02??", b"\x0a\x00\x0a\x00"))  # dim_value as bytes, of which there are none
    with pytest.raises(ConvertorError, match="DV206"):
        load(path)


TYPE_NAMES = {8: "STRING", 14: "COMPLEX64", 15: "COMPLEX128", **dict.fromkeys((17, 18, 19, 20), "FLOAT8"), 99: "99"}


@pytest.mark.parametrize(
    ("type", "axes", "problem"),
    [(1, axes, f"has {axes} axes") for axes in (33, 67)]
    + [(type, 1, f"is of type {name}, which cannot be read") for type, name in TYPE_NAMES.items()],
)
def test_an_array_that_numpy_cannot_hold_is_refused(type: int, axes: int, problem: str, tmp_path: Path) -> None:
    path = Network([make("Neg", ["w"], ["y"])], {}, {"w": np.ones(1, np.float32)}).write(tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.initializer[0].CopyFrom(onnx.TensorProto(name="w", data_type=type, dims=[1] * axes, raw_data=b"0000"))
    onnx.save(model, path)
    with pytest.raises(ModelError, match=f"DV201: .*the array 'w' {problem}"):
        load(path)


@pytest.mark.parametrize("form", ["raw", "float_data", "int32_data", "ConstantOfShape"])
def test_weights_stay_in_the_file(form: str, tmp_path: Path) -> None:
    """Four megabytes of them."""
    weight = np.full((1024, 1024), 0.5, np.float32)
    filled = make("ConstantOfShape", ["dims"], ["w"], value=numpy_helper.from_array(np.array([0.5], np.float32)))
    is_filled = form == "ConstantOfShape"
    constants: Mapping[str, Any] = {"dims": integers(1024, 1024)} if is_filled else {"w": weight}
    nodes = [*([filled] if is_filled else []), make("MatMul", ["x", "w"], ["y"])]
    path = Network(nodes, {"x": normal(1, 1024)}, constants).write(tmp_path / "net.onnx")
    if form.endswith("data"):
        model = onnx.load(path)
        kind = onnx.TensorProto.FLOAT if form == "float_data" else onnx.TensorProto.FLOAT16
        model.graph.initializer[0].CopyFrom(helper.make_tensor("w", kind, weight.shape, weight.reshape(-1)))
        onnx.save(model, path)
    tracemalloc.start()
    graph = load(path)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1 << 20
    (dense,) = (node.op for node in graph.nodes if isinstance(node.op, ops.Dense))
    assert np.all(dense.weight.load(slice(1000, 1024)) == 0.5)


def test_a_large_result_is_computed_once_for_all_its_parts() -> None:
    calls = []

    def function() -> Numbers:
        calls.append(1)
        return np.arange(2 * SMALL, dtype=np.float32).reshape(2, -1).T

    stored = Stored.computed(function)
    parts = [stored.read(at, at + 64) for at in range(0, 2 * SMALL, 64)]
    np.testing.assert_array_equal(np.concatenate(parts).reshape(stored.dims), function())
    assert len(calls) == 3, "to know its size, for the parts, and here"


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    weight = normal(30, 4, 3, 3)
    external = {"save_as_external_data": True, "location": "net.data", "size_threshold": 0}
    np.testing.assert_array_equal(convolution(weight, tmp_path / "net.onnx", **external), weight)
    (tmp_path / "net.data").unlink()
    with pytest.raises(ConvertorError, match="DV201"):
        load(tmp_path / "net.onnx")


def test_weights_outside_of_the_folder_are_refused(tmp_path: Path) -> None:
    external = {"save_as_external_data": True, "location": "net.data", "size_threshold": 0}
    convolution(normal(30, 4, 3, 3), tmp_path / "net.onnx", **external)
    content = (tmp_path / "net.onnx").read_bytes().replace(b"net.data", b"../a.dat")
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(ConvertorError, match="outside of its folder"):
        load(tmp_path / "net.onnx")


def test_weights_behind_a_link_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    """But not where a link leads to the model's file, too, as in the cache of a download."""
    store, names = tmp_path / "store", tmp_path / "names"
    store.mkdir()
    names.mkdir()
    external = {"save_as_external_data": True, "location": "net.data", "size_threshold": 0}
    weight = normal(30, 4, 3, 3)
    convolution(weight, store / "net.onnx", **external)
    (names / "net.data").symlink_to(store / "net.data")
    (names / "net.onnx").symlink_to(store / "net.onnx")
    load(names / "net.onnx")
    (names / "net.onnx").unlink()
    (names / "net.onnx").write_bytes((store / "net.onnx").read_bytes())
    with pytest.raises(ConvertorError, match=r"DV201.*from where a link leads out[\s\S]*put the file itself there"):
        load(names / "net.onnx")
    (names / "net.data").unlink()
    (names / "net.data").write_bytes((store / "net.data").read_bytes())
    load(names / "net.onnx")


@pytest.mark.parametrize("key", ["offset", "length"])
@pytest.mark.parametrize("text", [" 0 ", "1_0", "+0", "-0", "\u0660", "", "9" * 4301])
def test_positions_of_weights_are_plain_digits(key: str, text: str, tmp_path: Path) -> None:
    external = {"save_as_external_data": True, "location": "net.data", "size_threshold": 0}
    convolution(normal(30, 4, 3, 3), tmp_path / "net.onnx", **external)
    model = onnx.load(tmp_path / "net.onnx", load_external_data=False)
    entries = {entry.key: entry for entry in model.graph.initializer[0].external_data}
    assert key in entries
    entries[key].value = text
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ConvertorError, match="the offset or the length of external data is not a number"):
        load(tmp_path / "net.onnx")


@pytest.mark.parametrize("place", ["/dev/zero", "/proc/self/maps", "a pipe"])
def test_weights_in_what_is_no_file_are_refused(tmp_path: Path, place: str) -> None:
    """An archive can have pipes, and links to devices: opening one may have no end, and none can be mapped."""
    external = {"save_as_external_data": True, "location": "net.data", "size_threshold": 0}
    convolution(normal(30, 4, 3, 3), tmp_path / "net.onnx", **external)
    (tmp_path / "net.data").unlink()
    if place == "a pipe":
        os.mkfifo(tmp_path / "net.data")
    else:
        (tmp_path / "net.data").symlink_to(place)
    with pytest.raises(ConvertorError, match="DV201: the file of the weights is"):
        load(tmp_path / "net.onnx")


def test_quantized_weights_are_dequantized(tmp_path: Path) -> None:
    weight = RANDOM.integers(-128, 128, (5, 4, 3, 3)).astype(np.int8)
    scales, zeros = np.abs(normal(5)), np.zeros(5, np.int8)
    nodes = [make("DequantizeLinear", ["w", "s", "z"], ["f"], axis=0), make("Conv", ["x", "f"], ["y"])]
    agreeing(Network(nodes, {"x": X}, {"w": weight, "s": scales, "z": zeros}, 18), tmp_path / "net.onnx")
