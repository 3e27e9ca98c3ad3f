"""The surfaces of the digits networks for every target, compared with independent readers."""

from __future__ import annotations

import hashlib
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.export import export, read
from cnn_convertor.layouts import nbytes
from export.networks import CLDNN, DIGITS, TARGETS, dense, expected, key
from reference.export_reference import (
    cldnn,
    elements,
    nvdla_kernels,
    nvdla_operand,
    quantized,
)
from reference.packing_reference import packed


@pytest.mark.filterwarnings("ignore:DV857")  # Caffe's digits have no groups
@pytest.mark.parametrize("ini", DIGITS, ids=["keras", "caffe"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_manifest_describes_every_array(ini: Path, target: str, tmp_path: Path) -> None:
    made = export(Config.read(ini), target, tmp_path)
    manifest = read(tmp_path)
    assert (manifest.network, manifest.target) == (Config.read(ini).name, target)
    taken: dict[tuple[str, int], Path | None] = {}
    for entry in manifest.surfaces:
        record = entry.record
        if entry.layout is not None:
            assert entry.offset % entry.layout.base_align == 0
            whole = nbytes(entry.layout, entry.shape)
            assert entry.nbytes == whole if entry.sparse is None else entry.nbytes < whole
            assert record["alignment"] == {"start": entry.layout.base_align, "size": entry.layout.total_align}
        assert entry.offset + entry.nbytes <= manifest.memories[record["memory"]]
        assert taken.setdefault((record["memory"], entry.offset), entry.file) in (entry.file, None)
        if entry.file is not None:
            data = entry.file.read_bytes()
            assert (len(data), hashlib.sha256(data).hexdigest()) == (entry.nbytes, entry.sha256)
            assert entry.array().shape == entry.shape and entry.array().dtype == entry.element
    places = sorted((e.offset, e.nbytes) for e in manifest.surfaces if e.record["memory"] == "weights")
    assert all(a + n <= b or (a, n) == (b, m) for (a, n), (b, m) in itertools.pairwise(places))
    assert set(tmp_path.iterdir()) == set(made.files)


@pytest.mark.parametrize("kind", ["fp16", "int16", "int8"])
@pytest.mark.parametrize("ini", DIGITS, ids=["keras", "caffe"])
def test_nvdla_surfaces_contain_the_network(ini: Path, kind: str, tmp_path: Path) -> None:
    export(Config.read(ini), f"nvdla-{kind}", tmp_path)
    numbers, element = expected(ini), "float16" if kind == "fp16" else kind
    operand = "float16" if kind == "fp16" else "int16"
    for entry in read(tmp_path).surfaces:
        if entry.file is None:
            continue
        real = numbers.pop(key(entry))
        memory = entry.memory().tobytes()
        if entry.role == "weights":
            real = dense(real, entry.record.get("groups", 1))
            stored = nvdla_kernels(memory, real.shape, element)
        else:
            stored = nvdla_operand(memory, len(real), operand, int8=kind == "int8")
        np.testing.assert_array_equal(stored.reshape(entry.shape), entry.array())
        if stored.dtype == np.float16:
            np.testing.assert_array_equal(stored, real.astype(np.float16))
            continue
        kernels = real if entry.role == "weights" else real[None]
        if entry.role != "slopes":
            integers, scales, largest, mean_square = quantized(kernels, np.iinfo(stored.dtype).max)
            assert stored.reshape(len(kernels), -1).tolist() == integers
            assert entry.record["scale"]["values"] == scales
            assert entry.record["error"]["max"] == pytest.approx(largest, rel=1e-5)
            assert entry.record["error"]["rms"] == pytest.approx(math.sqrt(mean_square), rel=1e-5)
            ratio = np.mean(np.square(kernels, dtype=np.float64)) / mean_square
            assert entry.record["error"]["sqnr_db"] == pytest.approx(10 * math.log10(ratio), rel=1e-5)
        np.testing.assert_allclose(entry.values().reshape(real.shape), real, atol=entry.record["error"]["max"] * 1.0001)
    assert not numbers


@pytest.mark.parametrize("ini", DIGITS, ids=["keras", "caffe"])
def test_cldnn_surfaces_contain_the_network(ini: Path, tmp_path: Path) -> None:
    formats = [name for name in CLDNN.removeprefix("cldnn:").split(",") if ini is DIGITS[0] or name[0] != "g"]
    export(Config.read(ini), f"cldnn:{','.join(formats)}", tmp_path)
    numbers = expected(ini)
    used = set()
    for entry in read(tmp_path).surfaces:
        used.add(entry.record["layout"])
        if entry.file is None:
            continue
        shape = dict(zip(entry.axes, entry.shape, strict=True))
        stored = cldnn(entry.memory().tobytes(), entry.record["layout"], shape, "float16")
        np.testing.assert_array_equal(stored, entry.array())
        np.testing.assert_array_equal(stored.ravel(), numbers.pop(key(entry)).astype(np.float16).ravel())
    assert not numbers
    assert used == set(formats)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("element", ["float32", "float16", "int16", "int8"])
def test_bpu_tensors_contain_the_network(element: str, tmp_path: Path) -> None:
    export(Config.read(DIGITS[0]), "bpu:16", tmp_path, element=element)
    numbers = expected(DIGITS[0])
    for entry in read(tmp_path).surfaces:
        tensor = entry.record["tensor"]
        assert tensor["validShape"] == list(entry.shape) and tensor["alignedByteSize"] == entry.nbytes
        if entry.file is None:
            continue
        real = numbers.pop(key(entry))
        real = real.transpose(0, 2, 3, 1) if real.ndim == 4 else real
        kind = element if entry.role == "weights" or not element.startswith("int") else "float32"
        memory, size = entry.memory().tobytes(), np.dtype(kind).itemsize
        for index in np.ndindex(*entry.shape):
            at = sum(i * stride for i, stride in zip(index, tensor["stride"], strict=True))
            assert elements(memory[at : at + size], kind)[0] == entry.array()[index]
        assert ("scale" in entry.record) == kind.startswith("int")
        quantized = ("SCALE", 0) if kind.startswith("int") else ("NONE", -1)
        assert (tensor["quantiType"], tensor["quantizeAxis"]) == quantized
        error = entry.record["error"]["max"] if "error" in entry.record else 0
        np.testing.assert_allclose(entry.values(), real, atol=error * 1.0001)
    assert not numbers


@pytest.mark.parametrize("palette", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_dv700_streams_contain_the_packed_weights(palette: bool, transposed: bool, tmp_path: Path) -> None:
    text = (
        DIGITS[1].read_text(encoding="utf-8").replace("transpose_weight = 1", f"transpose_weight = {int(transposed)}")
    )
    ini = tmp_path / "net.ini"
    ini.write_text(text.replace("quantization = 0", f"quantization = {int(palette)}"), encoding="utf-8")
    for name in ("digits.prototxt", "digits.caffemodel"):
        (tmp_path / name).write_bytes((DIGITS[1].parent / name).read_bytes())
    export(Config.read(ini), "dv700", tmp_path / "out")
    manifest = read(tmp_path / "out")
    seen = 0
    layers = [entry.layer for entry in manifest.surfaces if entry.role == "weights"]
    assert layers == ["conv1", "conv2", "conv3", "conv4a", "conv4b", "ip5", "ip6"]
    for entry in manifest.surfaces:
        if entry.role != "weights":
            continue
        form, memory = entry.record["stream"], entry.memory()
        others = {e.role: e.array() for e in manifest.surfaces if e.file == entry.file}
        kernels, table, codes = others["weights"], None, others["weights"]
        if form["palette"]:
            table = memory[:512].view("<f2")
            codes = np.array([[int(np.flatnonzero(table == w)[0]) for w in kernels.ravel()]], np.uint8)
            codes = codes.reshape(kernels.shape)
        arguments = {"dilated": form["dilated"], "transposed": transposed}
        stream = packed(codes, others["bias"], others.get("slopes"), table, **arguments)
        assert stream == memory.tobytes()
        assert form["transposed"] == transposed
        seen += form["palette"]
    assert bool(seen) == palette
