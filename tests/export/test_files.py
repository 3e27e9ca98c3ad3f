"""The files of an export: deterministic, bounded in memory, verified when read back."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.errors import ModelError
from cnn_convertor.export import export, read
from cnn_convertor.export import surface as surfaces
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Pair, Shape, Window
from export.networks import DIGITS, conv, network, write_for


def test_the_same_network_gives_the_same_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        export(Config.read(DIGITS[0]), "nvdla-int8", folder)
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert first == second


@pytest.mark.parametrize("target", ["nvdla-int8", "nvdla-fp16", "cldnn:oiyx", "cldnn:yxio", "bpu:16"])
def test_packing_rows_separately_gives_the_same_surface(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = network(("x", ops.Input(Shape(5, 5, 8)), ()), ("c", conv(77, 8, 3, slopes=True), ("x",)))
    whole = write_for(target, graph, tmp_path / "whole")
    monkeypatch.setattr(surfaces, "_PIECE_BYTES", 1)
    parts = write_for(target, graph, tmp_path / "parts")
    assert [e.sha256 for e in parts.surfaces] == [e.sha256 for e in whole.surfaces]
    assert [e.record.get("scale") for e in parts.surfaces] == [e.record.get("scale") for e in whole.surfaces]


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("target", ["nvdla-int8", "nvdla-int8:compressed"])
def test_memory_is_bounded_by_a_part_of_a_layer(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surfaces, "_PIECE_BYTES", 1 << 16)
    weight = Constant((4096, 64, 3, 3), lambda rows: np.ones((rows.stop - rows.start, 64, 3, 3), np.float32))
    rows = [("x", ops.Input(Shape(20, 20, 64)), ())]
    rows += [(f"c{n}", ops.Conv2d(weight, None, Window(Pair(3, 3))), ("x",)) for n in range(4)]  # type: ignore[misc]
    graph = network(*rows)
    tracemalloc.start()
    write_for(target, Graph(graph.nodes, ("c0", "c1", "c2", "c3")), tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * weight.size  # the size of one layer's weights in FP32


def test_an_earlier_export_is_removed_but_not_other_files(tmp_path: Path) -> None:
    config = Config.read(DIGITS[0])
    first = export(config, "nvdla-fp16", tmp_path).files
    changed, mine = first[3], tmp_path / "mine.bin"
    changed.write_bytes(b"changed")
    mine.write_bytes(b"mine")
    second = export(config, "dv700", tmp_path).files
    assert set(tmp_path.iterdir()) == {*second, changed, mine}
    for manifest in ("[]", json.dumps({"surfaces": [{"file": "mine.bin"}]})):
        (tmp_path / "manifest.json").write_text(manifest, encoding="utf-8")
        export(config, "dv700", tmp_path)
        assert set(tmp_path.iterdir()) == {*second, changed, mine}


@pytest.fixture(params=["nvdla-int8", "nvdla-int8:compressed"])
def exported(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    export(Config.read(DIGITS[0]), request.param, tmp_path / "out")
    return tmp_path / "out"


def tamper(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("change", [tamper, lambda data: data[:-1], lambda data: data + b"\0", lambda _: b""])
def test_a_changed_surface_is_an_error(exported: Path, change: Callable[[bytes], bytes]) -> None:
    entries = [entry for entry in read(exported).surfaces if entry.file]
    whole = next((entry for entry in entries if entry.sparse), entries[0])
    for entry in (whole, *(whole.sparse or ())):
        assert entry.file is not None
        before = entry.file.read_bytes()
        entry.file.write_bytes(change(before))
        with pytest.raises(ModelError, match="DV856"):
            whole.array()
        entry.file.unlink()
        with pytest.raises(ModelError, match="DV856"):
            whole.array()
        entry.file.write_bytes(before)
        assert whole.array().shape == whole.shape


def changes(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every field of a record with another value."""
    for name in ("shape", "axes", "element", "bytes", "terms", "layout", "layer", "role", "offset", "file", "sha256"):
        yield name, "delete"
        wrong: list[Any] = [None, -1, "../manifest.json", [], [0], [1 << 70], {}, "c h w | int8", "", "a\0", 1e400]
        yield from ((name, other) for other in wrong if other != record[name])
    scale = record["scale"]
    scales: list[Any] = [None, {}, {"axes": "c"}, {"values": scale["values"][1:]}, {"values": ["x"]}]
    scales += [{"values": [0.0] * len(scale["values"])}]
    yield from (("scale", scale | other if other else other) for other in scales)


def test_an_invalid_manifest_is_an_error(exported: Path) -> None:
    text = (exported / "manifest.json").read_text(encoding="utf-8")
    records = list(enumerate(json.loads(text)["surfaces"]))
    stored = [n for n, record in records if "file" in record]
    position = next((n for n, record in records if "compressed" in record), stored[0])
    for name, other in changes(json.loads(text)["surfaces"][position]):
        data = json.loads(text)
        if other == "delete":
            del data["surfaces"][position][name]
        else:
            data["surfaces"][position][name] = other
        (exported / "manifest.json").write_text(json.dumps(data), encoding="utf-8")
        if name in ("layer", "layout") and other in ([1 << 70], 1e400):
            continue  # no number of such a file
        if (name in ("layer", "layout") and other != "delete") or (name == "file" and other in (None, "delete")):
            read_all(exported, position)  # descriptive fields may have any value, fields used for reading may not
            continue
        with pytest.raises(ModelError, match=r"DV85[56]"):
            read_all(exported, position)


def read_all(folder: Path, position: int) -> None:
    entry = read(folder).surfaces[position]
    if entry.file is not None:
        entry.values()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"format": "cnn-convertor export 2"}', "[" * 100_000, "\ud800"]
)
def test_other_files_are_not_manifests(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ModelError, match="DV855"):
        read(tmp_path)


def test_a_missing_surface_is_an_error(exported: Path) -> None:
    with pytest.raises(KeyError, match="tail"):
        read(exported)["tail", "mask"]


def test_a_missing_manifest_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot read the manifest"):
        read(tmp_path)
