"""`convertor.py export`: what lies in the files, against readers that were written apart; what is refused."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.cli import main
from cnn_convertor.config import Config
from cnn_convertor.errors import ConvertorWarning, ModelError, Origin, UnsupportedError, UsageError
from cnn_convertor.export import Manifest, export, read
from cnn_convertor.export import surface as surfaces
from cnn_convertor.export.network import write, write_program
from cnn_convertor.export.parts import parts_of
from cnn_convertor.export.targets import target_of
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import NO_PADDING, Pair, Shape, Window
from cnn_convertor.layouts import nbytes
from cnn_convertor.layouts.nvdla.alignment import check_alignment
from cnn_convertor.passes import optimize
from cnn_convertor.pipeline import build, load
from cnn_convertor.trials import run
from examples import zoo
from reference.export_reference import (
    cldnn,
    elements,
    nvdla_cube,
    nvdla_image,
    nvdla_kernels,
    nvdla_operand,
    nvdla_pixels,
    nvdla_uncompressed,
    nvdla_winograd,
    quantized,
)
from reference.ir_reference import convolution, transposed_convolution
from reference.packing_reference import packed

ROOT = Path(__file__).resolve().parents[2]
DIGITS = [ROOT / "examples" / "digits_keras" / "net.ini", ROOT / "examples" / "digits_caffe" / "net.ini"]
CLDNN = "cldnn:os_is_yx_isv16_osv16,gs_oiyx_gsv16,b_fs_yx_fsv16"
MODES = ["nvdla-fp16:compressed", "nvdla-int8:image,winograd", "nvdla-int16:winograd,compressed,image"]
TARGETS = ["nvdla-fp16", "nvdla-int16", "nvdla-int8", *MODES, CLDNN, "bpu", "bpu:16", "bpu:x3", "dv700"]


def values(*shape: int, seed: int = 0) -> Constant:
    return Constant.of(np.random.default_rng([seed, *shape]).standard_normal(shape))


def network(*rows: tuple[str, ops.Op, tuple[str, ...]]) -> Graph:
    nodes = tuple(Node(name, op, inputs, (Origin("net", name, type(op).__name__),)) for name, op, inputs in rows)
    return Graph(nodes, (rows[-1][0],))


def conv(out: int, channels: int, side: int, *, groups: int = 1, slopes: bool = False) -> ops.Conv2d:
    function = ops.PRelu(values(out, seed=2)) if slopes else None
    weight = values(out, channels // groups, side, side)
    return ops.Conv2d(weight, values(out, seed=1), Window(Pair(side, side)), groups, function)


def write_for(target: str, graph: Graph, folder: Path) -> Manifest:
    kind = target_of(target)
    assert kind is not None
    write(kind.surfaces(tuple(parts_of(graph, {}))), "net", target, folder)
    return read(folder)


def expected(ini: Path) -> dict[tuple[str, str], NDArray[Any]]:
    """(node, role) -> numbers of the optimized network, as its operators have them."""
    found: dict[tuple[str, str], NDArray[Any]] = {}
    for node in optimize(load(Config.read(ini))).nodes:
        op = node.op
        if isinstance(op, ops.Conv2d | ops.ConvTranspose2d | ops.Dense):
            found[node.name, "weights"] = op.weight.load()
            if op.bias is not None:
                found[node.name, "bias"] = op.bias.load()
        if isinstance(op, ops.Scale):
            found[node.name, "factor"] = op.factor.load()
            if op.shift is not None:
                found[node.name, "shift"] = op.shift.load()
        function = op.function if isinstance(op, ops.Activation) else getattr(op, "activation", None)
        if isinstance(function, ops.PRelu):
            found[node.name, "slopes"] = function.slopes.load()
    assert len(found) > 8
    return found


def key(entry: Any) -> tuple[str, str]:
    return entry.record["node"], entry.role


def dense(weight: NDArray[Any], groups: int) -> NDArray[Any]:
    """Kernels with zeros for the channels of other groups."""
    out, per_group, *rest = weight.shape
    result = np.zeros((out, per_group * groups, *rest), weight.dtype)
    for k in range(out):
        first = k // (out // groups) * per_group
        result[k, first : first + per_group] = weight[k]
    return result


# --- the digits, for every target -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:DV857")  # Caffe's digits have no groups
@pytest.mark.parametrize("ini", DIGITS, ids=["keras", "caffe"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_manifest_is_read_back_into_arrays_and_says_what_lies_where(ini: Path, target: str, tmp_path: Path) -> None:
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
def test_nvdla_surfaces_hold_the_network(ini: Path, kind: str, tmp_path: Path) -> None:
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
def test_cldnn_surfaces_hold_the_network(ini: Path, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("element", ["float32", "float16", "int16", "int8"])
def test_bpu_tensors_hold_the_network(element: str, tmp_path: Path) -> None:
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
def test_dv700_streams_hold_what_was_packed(palette: bool, transposed: bool, tmp_path: Path) -> None:
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


# --- the forms of layers ----------------------------------------------------------------------------------------------------


def test_a_deconvolution_is_split_into_sets_that_compute_it(tmp_path: Path) -> None:
    """Each output pixel of a phase is a plain convolution of the input with the taps of its set."""
    op = ops.ConvTranspose2d(values(6, 2, 4, 5), None, Window(Pair(4, 5), Pair(2, 3)), groups=3)
    image = np.random.default_rng(0).standard_normal((4, 5, 6))
    graph = network(("x", ops.Input(Shape(4, 5, 6)), ()), ("up", op, ("x",)))
    sets = [entry for entry in write_for("nvdla-int16", graph, tmp_path).surfaces if entry.role == "weights"]
    assert [entry.record["set"] for entry in sets] == list(range(6))
    assert {entry.file.name for entry in sets if entry.file} == {f"{n:03}_up.weights.{n}.bin" for n in range(6)}
    wanted = transposed_convolution(op, image)
    result = np.zeros_like(wanted)
    for entry in sets:
        down, across = divmod(entry.record["set"], 3)
        raw = nvdla_kernels(entry.memory().tobytes(), entry.shape, "int16", reverse=True)
        np.testing.assert_array_equal(raw, entry.array())
        kernels = raw * np.array(entry.record["scale"]["values"])[:, None, None, None]
        for y, x in np.ndindex(result[down::2, across::3].shape[:2]):
            for r, s in np.ndindex(kernels.shape[2:]):
                if 0 <= y - r < 4 and 0 <= x - s < 5:
                    result[down + 2 * y, across + 3 * x] += kernels[:, :, r, s] @ image[y - r, x - s]
    np.testing.assert_allclose(result, wanted, atol=1e-2)


def test_groups_become_zeros_for_nvdla_and_an_axis_for_cldnn(tmp_path: Path) -> None:
    op = conv(12, 8, 3, groups=4, slopes=True)
    graph = network(("x", ops.Input(Shape(5, 5, 8)), ()), ("grouped", op, ("x",)))
    entry = write_for("nvdla-fp16", graph, tmp_path / "nvdla")["grouped", "weights"]
    assert entry.record["groups"] == 4
    np.testing.assert_array_equal(entry.array(), dense(op.weight.load(), 4).astype(np.float16))
    entry = write_for("cldnn:g_os_iyx_osv16", graph, tmp_path / "cldnn")["grouped", "weights"]
    assert (entry.axes, entry.shape) == ("goiyx", (4, 3, 2, 3, 3))
    np.testing.assert_array_equal(entry.array().reshape(12, 2, 3, 3), op.weight.load().astype(np.float16))
    entry = write_for("bpu", graph, tmp_path / "bpu")["grouped", "weights"]
    np.testing.assert_array_equal(entry.array(), op.weight.load().transpose(0, 2, 3, 1))


def test_scales_of_grouped_kernels_are_their_own(tmp_path: Path) -> None:
    op = conv(12, 8, 3, groups=4)
    kind = target_of("cldnn:goiyx", "int8")
    assert kind is not None
    graph = network(("x", ops.Input(Shape(5, 5, 8)), ()), ("grouped", op, ("x",)))
    write(kind.surfaces(tuple(parts_of(graph, {}))), "net", "cldnn:goiyx", tmp_path)
    entry = read(tmp_path)["grouped", "weights"]
    assert entry.record["scale"]["axes"] == "go" and len(entry.record["scale"]["values"]) == 12
    integers, scales, *_ = quantized(op.weight.load(), 127)
    assert entry.record["scale"]["values"] == scales
    assert entry.array().reshape(12, -1).tolist() == integers


def test_a_fully_connected_layer_is_a_convolution_as_large_as_its_map(tmp_path: Path) -> None:
    op = ops.Dense(values(10, 20, 3, 4), values(10))
    graph = network(("x", ops.Input(Shape(3, 4, 20)), ()), ("full", op, ("x",)))
    entry = write_for("nvdla-fp16", graph, tmp_path)["full", "weights"]
    assert entry.shape == (10, 20, 3, 4)
    np.testing.assert_array_equal(
        nvdla_kernels(entry.memory().tobytes(), entry.shape, "float16"), op.weight.load().astype(np.float16)
    )


def test_slopes_have_a_scale_that_shifts_make(tmp_path: Path) -> None:
    graph = network(("x", ops.Input(Shape(5, 5, 8)), ()), ("c", conv(9, 8, 3, slopes=True), ("x",)))
    entry = write_for("nvdla-int8", graph, tmp_path)["c", "slopes"]
    (scale,) = entry.record["scale"]["values"]
    assert math.frexp(scale)[0] == 0.5
    assert np.abs(entry.array()).max() > np.iinfo(np.int16).max / 2
    np.testing.assert_allclose(entry.values(), values(9, seed=2).load()[:, None, None], atol=scale / 2)


@pytest.mark.parametrize("kind", ["fp16", "int8"])
def test_a_scale_that_is_left_adds_before_it_multiplies_on_nvdla(kind: str, tmp_path: Path) -> None:
    factor, shift = values(20).load(), values(20, seed=1).load()
    factor[3] = shift[3] = 0
    op = ops.Scale(Constant.of(factor), Constant.of(shift))
    graph = network(("x", ops.Input(Shape(5, 5, 20)), ()), ("s", op, ("x",)))
    entry = write_for(f"nvdla-{kind}", graph, tmp_path)["s", "affine"]
    added, multiplied = entry.values()[:, :, 0, 0]
    np.testing.assert_allclose((2.0 + added) * multiplied, 2.0 * factor + shift, atol=5e-3)
    element = "float16" if kind == "fp16" else "int16"
    raw = nvdla_operand(entry.memory().tobytes(), 20, element, int8=kind == "int8", pairs=True)
    np.testing.assert_array_equal(raw, entry.array()[:, :, 0, 0])
    roles = [entry.role for entry in write_for("bpu", graph, tmp_path / "bpu").surfaces]
    assert roles == ["input", "factor", "shift", "output"]


def test_a_layer_may_be_called_what_no_file_can(tmp_path: Path) -> None:
    rows = [("x", ops.Input(Shape(5, 5, 4)), ())]
    names = ["../a/b", "..", "A b", "a b", "é" * 300]
    before = "x"
    for name in names:
        rows.append((name, conv(4, 4, 1), (before,)))  # type: ignore[arg-type]
        before = name
    manifest = write_for("nvdla-fp16", network(*rows), tmp_path)
    files = [entry.file for entry in manifest.surfaces if entry.file]
    assert all(file.parent == tmp_path for file in files)
    assert len({file.name.lower() for file in files}) == len(files) == 2 * len(names)


KINDS = {
    "weights": "weight",
    "mask": "weight mask",
    "group_sizes": "weight group sizes",
    "bias": "bias",
    "slopes": "prelu",
    "affine": "batch norm",
    "output": "feature",
}


@pytest.mark.filterwarnings("ignore:DV857")
@pytest.mark.parametrize("target", [target for target in TARGETS if target.startswith("nvdla")])
def test_surfaces_are_aligned_as_nvdla_s_table_says(target: str, tmp_path: Path) -> None:
    export(Config.read(DIGITS[0]), target, tmp_path)
    for entry in read(tmp_path).surfaces:
        is_image = entry.record["layout"].startswith("T_")
        kind = "pixel" if is_image else KINDS.get(entry.role, "feature")
        lines = {}
        if entry.role in ("input", "output"):
            strides = {text[0]: stride for text, stride in entry.record["strides"].items() if "%" not in text}
            lines = {"line": strides["h"], "surface": 0 if is_image else strides["c"]}
        check_alignment(kind, start=entry.offset, size=entry.nbytes, **lines)


# --- NVDLA's modes ----------------------------------------------------------------------------------------------------------


def raw(entry: Any, kind: str) -> NDArray[Any]:
    """What the files of an entry hold, as the specification's formulas read them."""
    memory = entry.memory().tobytes()
    if entry.sparse is not None:
        mask, sizes = (other.memory().tobytes() for other in entry.sparse)
        memory = nvdla_uncompressed(memory, mask, sizes, entry.shape, kind)
    name = entry.record["layout"]
    if "winograd" in name:
        return nvdla_winograd(memory, entry.shape, kind)
    if "image" in name:
        return nvdla_image(memory, entry.shape, kind, entry.record["post_extension"])
    return nvdla_kernels(memory, entry.shape, kind, reverse="deconvolution" in name)


# F(2x2, 3x3): 4x4 pixels of a map and of a kernel give 2x2 results.
OF_MAPS = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
OF_RESULTS = np.array([[1, 1, 1, 0], [0, 1, -1, -1]])


def winograd_convolution(
    kernels: NDArray[Any], image: NDArray[Any], stride: int, size: tuple[int, int]
) -> NDArray[Any]:
    """A convolution of a map (H, W, C) with kernels (K, C', 4, 4): (*size, K)."""
    count, extended = kernels.shape[:2]
    filled = extended // stride**2
    rows, columns = (n + n % 2 + 2 for n in size)
    whole = np.zeros((rows * stride, columns * stride, filled))
    part = image[: rows * stride, : columns * stride]
    whole[: part.shape[0], : part.shape[1], : image.shape[2]] = part
    result = np.zeros((rows - 2, columns - 2, count))
    for y, x in itertools.product(range(0, rows - 2, 2), range(0, columns - 2, 2)):
        for ry, rx, c in np.ndindex(stride, stride, filled):
            pixels = whole[ry::stride, rx::stride, c][y : y + 4, x : x + 4]
            turned = OF_MAPS @ pixels @ OF_MAPS.T
            for k in range(count):
                product = kernels[k, (ry * stride + rx) * filled + c] * turned
                result[y : y + 2, x : x + 2, k] += OF_RESULTS @ product @ OF_RESULTS.T
    return result[: size[0], : size[1]]


@pytest.mark.parametrize("kind", ["int16", "fp16"])
@pytest.mark.parametrize(("side", "stride"), [((3, 3), 1), ((5, 6), 2), ((7, 9), 3)])
def test_winograd_s_kernels_compute_the_convolution(
    side: tuple[int, int], stride: int, kind: str, tmp_path: Path
) -> None:
    op = ops.Conv2d(values(3, 2, *side), None, Window(Pair(*side), Pair(stride, stride)))
    image = np.random.default_rng(0).standard_normal((15, 14, 2)).astype(np.float32)
    graph = network(("x", ops.Input(Shape(15, 14, 2)), ()), ("c", op, ("x",)))
    entry = write_for(f"nvdla-{kind}:winograd", graph, tmp_path)["c", "weights"]
    assert entry.record["kernel"] == list(side) and entry.record["stride"] == [stride, stride]
    stored = raw(entry, "float16" if kind == "fp16" else kind)
    np.testing.assert_array_equal(stored, entry.array())
    wanted = convolution(op, image)
    found = winograd_convolution(entry.values(), image, stride, wanted.shape[:2])
    np.testing.assert_allclose(found, wanted, atol=0.05 if kind == "fp16" else 5e-3)


def test_kernels_that_winograd_does_not_take_stay_as_they_are(tmp_path: Path) -> None:
    windows = [
        Window(Pair(3, 3), dilation=Pair(2, 2)),
        Window(Pair(3, 3), Pair(2, 2)),
        Window(Pair(5, 5), Pair(1, 2)),
        Window(Pair(1, 1)),
    ]
    rows = [("x", ops.Input(Shape(20, 20, 4)), ())]
    rows += [(f"c{n}", ops.Conv2d(values(4, 4, *w.kernel), None, w), ("x",)) for n, w in enumerate(windows)]  # type: ignore[misc]
    graph = Graph(network(*rows).nodes, tuple(f"c{n}" for n in range(len(windows))))
    with pytest.warns(ConvertorWarning, match='in the mode "winograd"'):
        manifest = write_for("nvdla-int8:winograd", graph, tmp_path)
    assert {e.record["layout"] for e in manifest.surfaces if e.role == "weights"} == {"nvdla_weight_int8"}


def test_groups_become_zeros_before_they_are_transformed(tmp_path: Path) -> None:
    op = conv(6, 6, 3, groups=3)
    graph = network(("x", ops.Input(Shape(6, 6, 6)), ()), ("c", op, ("x",)))
    entry = write_for("nvdla-int16:winograd", graph, tmp_path)["c", "weights"]
    assert (entry.record["groups"], entry.record["channels"]) == (3, 6)
    image = np.random.default_rng(0).standard_normal((6, 6, 6)).astype(np.float32)
    plain = ops.Conv2d(Constant.of(dense(op.weight.load(), 3)), None, op.window)
    found = winograd_convolution(entry.values(), image, 1, (4, 4))
    np.testing.assert_allclose(found, convolution(plain, image), atol=5e-3)


@pytest.mark.parametrize("kind", ["int8", "int16", "fp16"])
@pytest.mark.parametrize(
    ("channels", "side", "stride", "extension"),
    [
        (1, (5, 5), 1, 4),
        (2, (3, 3), 1, 2),
        (3, (3, 3), 1, 2),
        (3, (7, 7), 2, 2),
        (3, (11, 11), 4, 1),
        (4, (2, 3), 4, 1),
    ],
)
def test_an_input_that_is_an_image_is_pixels_and_its_weights_are_extended(
    channels: int, side: tuple[int, int], stride: int, extension: int, kind: str, tmp_path: Path
) -> None:
    op = ops.Conv2d(values(35, channels, *side), None, Window(Pair(*side), Pair(stride, stride)))
    graph = network(("x", ops.Input(Shape(20, 13, channels)), ()), ("c", op, ("x",)))
    image = values(20, 13, channels, seed=5).load()
    kind_, element = target_of(f"nvdla-{kind}:image"), "float16" if kind == "fp16" else kind
    assert kind_ is not None
    write(kind_.surfaces(tuple(parts_of(graph, {"x": image}))), "net", f"nvdla-{kind}:image", tmp_path)
    given, entry = read(tmp_path)["x", "input"], read(tmp_path)["c", "weights"]
    names = {"int8": ("T_R8", "T_A8B8G8R8"), "int16": ("T_R16_I", "T_A16B16G16R16")}
    assert given.record["layout"] == names.get(kind, ("T_R16_F", "T_A16B16G16R16_F"))[channels > 1]
    np.testing.assert_array_equal(nvdla_pixels(given.memory().tobytes(), given.shape, element), given.array())
    np.testing.assert_allclose(given.values(), image.transpose(2, 0, 1), atol=given.record["error"]["max"] * 1.0001)
    assert (entry.record["post_extension"], entry.record["channels"]) == (extension, channels)
    np.testing.assert_array_equal(raw(entry, element), entry.array())
    assert not entry.array()[:, channels:].any() and entry.shape[1] == (1 if channels == 1 else 4)
    tolerance = entry.record["error"]["max"] * 1.0001
    np.testing.assert_allclose(entry.values()[:, :channels], op.weight.load(), atol=tolerance)


@pytest.mark.parametrize(
    "users",
    [
        [("c", conv(4, 3, 3), ("x",)), ("a", ops.Activation(ops.Relu()), ("x",))],
        [("c", conv(4, 5, 3), ("x",))],
        [("c", conv(3, 3, 3, groups=3), ("x",))],
        [("c", ops.Conv2d(values(4, 3, 3, 3), None, Window(Pair(3, 3), dilation=Pair(2, 2))), ("x",))],
        [("c", ops.Dense(values(4, 3, 9, 9), None), ("x",))],
    ],
    ids=["another reader", "channels", "groups", "dilation", "fully connected"],
)
def test_an_input_that_is_no_image_is_feature_data(users: list[Any], tmp_path: Path) -> None:
    channels = 5 if users[0][1].weight.shape[1] == 5 else 3
    graph = Graph(network(("x", ops.Input(Shape(9, 9, channels)), ()), *users).nodes, tuple(u[0] for u in users))
    with pytest.warns(ConvertorWarning, match='in the mode "image"'):
        manifest = write_for("nvdla-fp16:image", graph, tmp_path)
    assert manifest["x", "input"].record["layout"] == "nvdla_feature_float16"
    assert manifest["c", "weights"].record["layout"] == "nvdla_weight_float16"


def pruned(*shape: int, every: int) -> Constant:
    """Weights of which one in so many is not zero, and some are -0.0, which FP16 keeps."""
    numbers = values(*shape).load().ravel().copy()
    numbers[np.arange(numbers.size) % every != 0] = 0
    numbers[1 :: 2 * every] = -0.0
    return Constant.of(numbers.reshape(shape))


@pytest.mark.parametrize("kind", ["int8", "int16", "fp16"])
@pytest.mark.parametrize("rows", [0, 1], ids=["whole", "group by group"])
def test_weights_with_zeros_are_compressed_where_that_takes_fewer_bytes(
    kind: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rows:
        monkeypatch.setattr(surfaces, "_PIECE_BYTES", 1)
    steps = [
        ("x", ops.Input(Shape(9, 9, 70)), ()),
        ("depthwise", conv(70, 70, 3, groups=70), ("x",)),
        ("sparse", ops.Conv2d(pruned(75, 70, 3, 3, every=7), None, Window(Pair(3, 3))), ("depthwise",)),
        ("zero", ops.Conv2d(Constant.of(np.zeros((40, 75, 1, 1))), None, Window(Pair(1, 1))), ("sparse",)),
        ("full", conv(33, 40, 1), ("zero",)),
        ("up", ops.ConvTranspose2d(pruned(40, 33, 3, 3, every=9), None, Window(Pair(3, 3), Pair(2, 2))), ("full",)),
    ]
    target, element = f"nvdla-{kind}", "float16" if kind == "fp16" else kind
    graph = network(*steps)  # type: ignore[arg-type]
    plain = write_for(target, graph, tmp_path / "plain")
    manifest = write_for(f"{target}:compressed", graph, tmp_path / "compressed")
    stored = [entry for entry in manifest.surfaces if entry.role == "weights"]
    assert [e.layer for e in stored if e.sparse is None] == ["full"]
    assert manifest["zero", "weights"].nbytes == 0
    for entry, other in zip(stored, (e for e in plain.surfaces if e.role == "weights"), strict=True):
        np.testing.assert_array_equal(raw(entry, element).view(f"u{entry.element.itemsize}"), bits(entry.array()))
        np.testing.assert_array_equal(bits(entry.array()), bits(other.array()))
        assert (entry.record.get("scale"), entry.record.get("error")) == (
            other.record.get("scale"),
            other.record.get("error"),
        )
        if entry.sparse is not None:
            mask, sizes = entry.sparse
            assert entry.nbytes + mask.nbytes + sizes.nbytes < other.nbytes
            assert {mask.layer, sizes.layer} == {entry.layer} and (mask.role, sizes.role) == ("mask", "group_sizes")
            assert mask.shape == (math.ceil(math.prod(entry.shape) / 8),) and mask.array().dtype == np.uint8
            assert sizes.shape == (math.ceil(entry.shape[0] / (32 if kind == "int8" else 16)),)
            assert sizes.array().sum() == np.count_nonzero(bits(entry.array())) * entry.element.itemsize
            assert all(e.offset % 256 == 0 for e in (entry, mask, sizes))
    assert (manifest["sparse", "weights"].array().view(f"u{np.dtype(element).itemsize}") == 0x8000).any() == (
        kind == "fp16"
    )


def bits(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(f"u{array.itemsize}")


def test_what_cannot_be_compressed_is_told_once(tmp_path: Path) -> None:
    op = ops.Conv2d(Constant.of(np.full((4, 4, 3, 3), np.nan)), None, Window(Pair(3, 3)))
    graph = network(("x", ops.Input(Shape(9, 9, 4)), ()), ("c", op, ("x",)))
    for modes in ("compressed", "winograd", "image", "compressed,winograd"):
        with pytest.raises(UnsupportedError, match="DV853") as error:
            write_for(f"nvdla-fp16:{modes}", graph, tmp_path / "out")
        assert len(error.value.problems) == 1
    assert not (tmp_path / "out").exists()


def test_compressed_weights_whose_manifest_is_not_true_are_refused(tmp_path: Path) -> None:
    op = ops.Conv2d(pruned(40, 40, 3, 3, every=9), None, Window(Pair(3, 3)))
    write_for("nvdla-int8:compressed", network(("x", ops.Input(Shape(9, 9, 40)), ()), ("c", op, ("x",))), tmp_path)
    text = (tmp_path / "manifest.json").read_text(encoding="utf-8")
    position = next(n for n, record in enumerate(json.loads(text)["surfaces"]) if record["role"] == "weights")
    names = json.loads(text)["surfaces"][position]["compressed"]
    wrong: list[Any] = [None, [], "x", {}, {"mask": names["mask"]}, names | {"mask": names["group_sizes"]}]
    wrong += [names | {"group_sizes": []}, names | {"mask": None}]
    for other in wrong:
        data = json.loads(text)
        data["surfaces"][position]["compressed"] = other
        (tmp_path / "manifest.json").write_text(json.dumps(data), encoding="utf-8")
        with pytest.raises(ModelError, match="DV855"):
            read(tmp_path)
    data = json.loads(text)
    del data["surfaces"][position]["compressed"]
    (tmp_path / "manifest.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ModelError, match="DV855"):
        read(tmp_path)
    data = json.loads(text)
    mask = next(record for record in data["surfaces"] if record["role"] == "mask")
    (tmp_path / mask["file"]).write_bytes(b"\xff" * mask["bytes"])
    mask["sha256"] = hashlib.sha256(b"\xff" * mask["bytes"]).hexdigest()
    (tmp_path / "manifest.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ModelError, match="contradict each other"):
        read(tmp_path)["c", "weights"].array()


# --- maps -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.npy"
    np.save(path, np.random.default_rng(0).random((1, 8, 8, 1)).astype(np.float32))
    return path


@pytest.mark.parametrize("target", TARGETS)
def test_the_input_is_written_when_it_is_given(target: str, image: Path, tmp_path: Path) -> None:
    export(Config.read(DIGITS[0]), target, tmp_path / "out", given=image)
    manifest = read(tmp_path / "out")
    (entry,) = (entry for entry in manifest.surfaces if entry.role == "input")
    pixels = np.load(image)[0]
    if entry.axes in ("chw", "bfyx"):
        pixels = pixels.transpose(2, 0, 1)
    tolerance = 1e-3 if entry.element == np.float16 else 1 / 200 if entry.element == np.int8 else 1e-4
    np.testing.assert_allclose(entry.values().reshape(pixels.shape), pixels, atol=tolerance)
    if target == "nvdla-int8":
        np.testing.assert_array_equal(nvdla_cube(entry.memory().tobytes(), entry.shape, "int8"), entry.array())
    (output,) = (entry for entry in manifest.surfaces if entry.role == "output")
    assert output.file is None
    with pytest.raises(ModelError, match="DV856") as error:
        output.array()
    assert "described, not written" in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["nvdla-int8:image", "nvdla-fp16", "cldnn:oiyx,goiyx,b_fs_yx_fsv16", "bpu:16", "dv700"]
)
@pytest.mark.parametrize("is_given", [True, False])
def test_the_outputs_are_written_as_the_device_gives_them(
    target: str, is_given: bool, image: Path, tmp_path: Path
) -> None:
    config = Config.read(DIGITS[0])
    export(config, target, tmp_path / "out", given=image if is_given else None, run=True)
    manifest = read(tmp_path / "out")
    (given,) = (entry for entry in manifest.surfaces if entry.role == "input")
    if is_given:
        np.testing.assert_allclose(given.values().ravel(), np.load(image).ravel(), atol=0.01)
    np.save(tmp_path / "x.npy", given.values().reshape(1, 8, 8, 1).astype(np.float32))
    results = run(config.in_fp16, tmp_path / "x.npy")
    found = {entry.layer: entry for entry in manifest.surfaces if entry.role == "output"}
    assert set(found) == set(results)
    for name, entry in found.items():
        assert entry.file is not None and entry.record["memory"] == "maps"
        tolerance = 0.05 if "int8" in target else 1e-2  # of probabilities: the input was rounded before
        np.testing.assert_allclose(entry.values().ravel(), results[name][0].ravel(), atol=tolerance)


def test_without_a_compiler_the_outputs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert main(["export", str(DIGITS[0]), "--target", "bpu", "--run", "--output", str(tmp_path / "out")]) == 2
    assert "C++ compiler" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_of_several_samples_the_first_is_written_and_the_user_told(tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((3, 8, 8, 1)).astype(np.float32)
    np.save(tmp_path / "x.npy", images)
    with pytest.warns(ConvertorWarning, match="there are 3 samples"):
        export(Config.read(DIGITS[0]), "bpu", tmp_path / "out", given=tmp_path / "x.npy")
    np.testing.assert_array_equal(read(tmp_path / "out")["image", "input"].array(), images[:1])


# --- files ------------------------------------------------------------------------------------------------------------------


def test_the_same_network_gives_the_same_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        export(Config.read(DIGITS[0]), "nvdla-int8", folder)
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert first == second


@pytest.mark.parametrize("target", ["nvdla-int8", "nvdla-fp16", "cldnn:oiyx", "cldnn:yxio", "bpu:16"])
def test_rows_that_are_packed_apart_make_the_same_surface(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = network(("x", ops.Input(Shape(5, 5, 8)), ()), ("c", conv(77, 8, 3, slopes=True), ("x",)))
    whole = write_for(target, graph, tmp_path / "whole")
    monkeypatch.setattr(surfaces, "_PIECE_BYTES", 1)
    parts = write_for(target, graph, tmp_path / "parts")
    assert [e.sha256 for e in parts.surfaces] == [e.sha256 for e in whole.surfaces]
    assert [e.record.get("scale") for e in parts.surfaces] == [e.record.get("scale") for e in whole.surfaces]


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
    assert peak < 4 * weight.size  # one layer's weights in FP32 would be that much


def test_an_earlier_export_goes_but_not_what_somebody_else_has_written(tmp_path: Path) -> None:
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
def test_a_surface_that_was_changed_is_refused(exported: Path, change: Callable[[bytes], bytes]) -> None:
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
    """Every field of a record with something else in it."""
    for name in ("shape", "axes", "element", "bytes", "terms", "layout", "layer", "role", "offset", "file", "sha256"):
        yield name, "delete"
        wrong: list[Any] = [None, -1, "../manifest.json", [], [0], [1 << 70], {}, "c h w | int8", "", 1e400]
        yield from ((name, other) for other in wrong if other != record[name])
    scale = record["scale"]
    scales: list[Any] = [None, {}, {"axes": "c"}, {"values": scale["values"][1:]}, {"values": ["x"]}]
    scales += [{"values": [0.0] * len(scale["values"])}]
    yield from (("scale", scale | other if other else other) for other in scales)


def test_a_manifest_that_cannot_be_true_is_refused_or_its_surface_is(exported: Path) -> None:
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
        if (name in ("layer", "layout") and other != "delete") or (name == "file" and other in (None, "delete")):
            read_all(exported, position)  # what is told of a surface may be anything, but not what it is read with
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
def test_what_is_no_manifest_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ModelError, match="DV855"):
        read(tmp_path)


def test_a_surface_that_is_not_there_is_told(exported: Path) -> None:
    with pytest.raises(KeyError, match="tail"):
        read(exported)["tail", "mask"]


def test_a_missing_manifest_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no manifest"):
        read(tmp_path)


# --- what is refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "element", "hint"),
    [
        ("nvdla", None, "nvdla-"),
        ("nvdla-fp32", None, "nvdla-fp16"),
        ("nvdla-fp16", "int8", "no --element"),
        ("nvdla-fp16:", None, "nvdla-fp16:image,winograd,compressed"),
        ("nvdla-fp16:image,", None, "nvdla-fp16:image,winograd,compressed"),
        ("nvdla-int8:sparse", None, "nvdla-int8:image,winograd,compressed"),
        ("nvdla-int8:image", "int8", "no --element"),
        ("dv700", "float32", "no --element"),
        ("cldnn", None, "cldnn:os_is"),
        ("bpu:0", None, "bpu"),
        ("bpu:x5", None, "bpu:x3"),
        ("bpu", "float64", "float32"),
        ("", None, "dv700"),
    ],
)
def test_targets_that_are_none(target: str, element: str | None, hint: str) -> None:
    with pytest.raises(UsageError, match="DV850") as error:
        target_of(target, element)
    assert hint in error.value.problems[0].hint


def test_a_format_s_name_is_checked_letter_by_letter() -> None:
    with pytest.raises(UsageError, match='at letter 9, "q"'):
        target_of("cldnn:os_is_yxq")
    with pytest.raises(UsageError, match="DV810"):
        target_of("cldnn:is_o_yx_isv32")


@pytest.mark.parametrize(
    ("formats", "groups", "near"),
    [
        ("b_fs_yx_fsv16", 1, "o_is_yx_isv16"),
        ("os_is_yx_isv16_osv16", 4, "g_os_is_yx_isv16_osv16"),
        ("g_os_is_yx_isv16_osv16", 1, "os_is_yx_isv16_osv16"),
        ("os_is_zyx_isv16_osv16", 1, "os_is_yx_isv16_osv16"),
        ("os_i_osv16", 1, "os_iyx_osv16"),
        ("os_is_yx_osv32_isv32p", 1, "os_is_yx_osv32_isv4"),
    ],
)
def test_a_format_that_does_not_fit_is_told_with_those_that_would(
    formats: str, groups: int, near: str, tmp_path: Path
) -> None:
    graph = network(("x", ops.Input(Shape(5, 5, 8)), ()), ("c", conv(8, 8, 3, groups=groups), ("x",)))
    with pytest.raises(UnsupportedError, match="DV852") as error:
        write_for(f"cldnn:{formats}", graph, tmp_path)
    assert near in error.value.problems[0].hint
    assert error.value.problems[0].where == Origin("net", "c", "Conv2d")


def test_a_format_without_axes_holds_what_is_1_along_them(tmp_path: Path) -> None:
    op = ops.Dense(values(20, 30, 1, 1), None)
    graph = network(("x", ops.Input(Shape(1, 1, 30)), ()), ("full", op, ("x",)))
    entry = write_for("cldnn:os_i_osv16", graph, tmp_path)["full", "weights"]
    assert (entry.axes, entry.shape) == ("oi", (20, 30))
    np.testing.assert_array_equal(entry.array(), op.weight.load()[:, :, 0, 0].astype(np.float16))


def test_formats_that_nothing_uses_are_told(tmp_path: Path) -> None:
    graph = network(("x", ops.Input(Shape(5, 5, 8)), ()), ("c", conv(8, 8, 3), ("x",)))
    with pytest.warns(ConvertorWarning, match="nothing in the network is stored as goiyx, oizyx"):
        write_for("cldnn:oiyx,goiyx,oizyx", graph, tmp_path)


def test_numbers_that_do_not_fit_are_all_told_and_nothing_is_written(tmp_path: Path) -> None:
    rows = [("x", ops.Input(Shape(5, 5, 1)), ())]
    for name, value in (("large", 1e6), ("small", 1.0), ("none", np.nan)):
        op = ops.Conv2d(Constant.of(np.full((1, 1, 1, 1), value)), None, Window(Pair(1, 1)))
        rows.append((name, op, ("x",)))  # type: ignore[arg-type]
    graph = network(*rows)
    (tmp_path / "manifest.json").write_text("an earlier one", encoding="utf-8")
    for target, codes in (("nvdla-fp16", 2), ("nvdla-int8", 1), ("bpu", 1)):
        with pytest.raises(UnsupportedError, match="DV853") as error:
            write_for(target, Graph(graph.nodes, ("large", "small", "none")), tmp_path)
        assert len(error.value.problems) == codes
    assert [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()] == ["an earlier one"]


def test_a_dilated_deconvolution_is_refused_for_nvdla(tmp_path: Path) -> None:
    window = Window(Pair(3, 3), Pair(2, 2), Pair(2, 2))
    op = ops.ConvTranspose2d(values(4, 4, 3, 3), None, window)
    graph = network(("x", ops.Input(Shape(5, 5, 4)), ()), ("up", op, ("x",)))
    with pytest.raises(UnsupportedError, match="DV851"):
        write_for("nvdla-fp16", graph, tmp_path)
    assert write_for("cldnn:oiyx", graph, tmp_path)["up", "weights"].record["stride"] == [2, 2]


def test_a_scale_of_zero_with_a_shift_is_refused_for_nvdla(tmp_path: Path) -> None:
    op = ops.Scale(Constant.of([1.0, 0.0]), Constant.of([1.0, 1.0]))
    graph = network(("x", ops.Input(Shape(5, 5, 2)), ()), ("s", op, ("x",)))
    with pytest.raises(UnsupportedError, match="adds before it multiplies"):
        write_for("nvdla-fp16", graph, tmp_path)


def test_numbers_without_a_known_format_are_refused() -> None:
    norm = ops.BatchNorm(values(4), Constant.of(np.ones(4)), None, None, 0.0)
    graph = network(("x", ops.Input(Shape(5, 5, 4)), ()), ("n", norm, ("x",)))
    with pytest.raises(UnsupportedError, match="DV854"):
        list(parts_of(graph, {}))


def test_padding_and_pools_have_no_surfaces(tmp_path: Path) -> None:
    pool = ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2), padding=NO_PADDING), ops.PRelu(values(4)))
    graph = network(("x", ops.Input(Shape(6, 6, 4)), ()), ("p", pool, ("x",)))
    roles = [entry.role for entry in write_for("nvdla-fp16", graph, tmp_path).surfaces]
    assert roles == ["input", "slopes", "output"]


def test_weights_too_large_for_the_dv700_are_all_told(tmp_path: Path) -> None:
    rows = [("x", ops.Input(Shape(5, 5, 1)), ())]
    for name, value in (("a", 1e6), ("b", 1.0), ("c", 1e6)):
        rows.append((name, ops.Conv2d(Constant.of([[[[value]]]]), None, Window(Pair(1, 1))), ("x",)))  # type: ignore[arg-type]
    graph = Graph(network(*rows).nodes, ("a", "b", "c"))
    with pytest.raises(UnsupportedError, match="DV501") as error:
        write_program(build(graph, Config.read(DIGITS[0])), {}, tmp_path / "out")
    assert [p.where.layer for p in error.value.problems if p.where] == ["a", "c"]
    assert not (tmp_path / "out").exists()


# --- the command line, and a larger network -----------------------------------------------------------------------------------


def test_the_command_writes_and_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(DIGITS[0]), "--target", "nvdla-int8", "--output", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "digits for nvdla-int8" in said and "dB SQNR" in said
    assert read(tmp_path / "out").surfaces
    assert main(["export", str(DIGITS[0]), "--target", "nvdla", "--output", str(tmp_path / "no")]) == 2
    assert "DV850" in capsys.readouterr().err
    assert main(["export", str(DIGITS[0]), "--target", "cldnn:bfyx", "--output", str(tmp_path / "no")]) == 1
    assert capsys.readouterr().err.count("DV852") > 2
    assert not (tmp_path / "no").exists()


def test_the_manual_shows_what_the_command_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    manual = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    command, said = manual.split("$ convertor.py ")[1].split("```")[0].split("\n", 1)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 0
    assert capsys.readouterr().out == said
    manifest = read(tmp_path / "digits_nvdla")
    assert manifest["tail", "weights"].array().dtype == np.int8
    known = set(re.findall("`([a-z0-9]+)`", manual))
    assert not {name for entry in manifest.surfaces for name in entry.record} - known


def phase(weight: NDArray[Any], record: dict[str, Any]) -> NDArray[Any]:
    """The taps of a deconvolution's set, zeros where the kernel has none."""
    down, across = record["stride"]
    y, x = divmod(record["set"], across)
    result = np.zeros((*weight.shape[:2], -(-weight.shape[2] // down), -(-weight.shape[3] // across)), weight.dtype)
    for r, s in np.ndindex(*result.shape[2:]):
        if y + r * down < weight.shape[2] and x + s * across < weight.shape[3]:
            result[:, :, r, s] = weight[:, :, y + r * down, x + s * across]
    return result


@pytest.fixture(params=["squeezenet", "caffe_enet"])
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The ini file of a trained network, or of one with deconvolutions, dilations and slopes."""
    if request.param == "caffe_enet":
        return zoo.build("caffe_enet", tmp_path / "zoo", size=64)
    model = request.getfixturevalue("shared") / "models" / "squeezenet_v1.0_caffe"
    (definition,), (data,) = model.glob("*.prototxt"), model.glob("*.caffemodel")
    ini = tmp_path / "net.ini"
    text = f"[INPUT]\nname = squeeze\ndefinition = {definition}\ndata = {data}\n[OUTPUT]\noutput_folder = .\n"
    ini.write_text(text, encoding="utf-8")
    return ini


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:DV857")
@pytest.mark.parametrize("target", ["nvdla-int8", "nvdla-fp16:compressed", "cldnn:oiyx,goiyx,bfyx", "bpu:x3", "dv700"])
def test_a_whole_network_is_read_back(target: str, whole: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        export(Config.read(whole), target, tmp_path / "out")
    assert len([w for w in caught if "DV502" in str(w.message)]) <= 1  # of small weights, for all layers together
    numbers, seen = expected(whole), set()
    for entry in read(tmp_path / "out").surfaces:
        if entry.file is None or entry.role in ("mask", "group_sizes"):
            continue
        if target == "dv700":
            assert entry.array().shape == entry.shape
            continue
        tolerance = entry.record.get("error", {"max": 0})["max"] * 1.0001
        if entry.role == "affine":
            (added, multiplied), node = entry.values()[:, :, 0, 0].astype(np.float64), entry.record["node"]
            seen |= {(node, "factor"), (node, "shift")} & set(numbers)
            np.testing.assert_allclose(multiplied, numbers[node, "factor"], atol=tolerance)
            shift = numbers.get((node, "shift"), np.zeros_like(added))
            np.testing.assert_allclose(
                added * numbers[node, "factor"], shift, atol=tolerance * np.abs(multiplied).max()
            )
            continue
        seen.add(key(entry))
        real = numbers[key(entry)]
        if target.startswith("nvdla") and real.ndim == 4:
            real = dense(real, entry.record.get("groups", 1))
        if "set" in entry.record:
            real = phase(real, dict(entry.record))
        if target.startswith("bpu") and real.ndim == 4:
            real = real.transpose(0, 2, 3, 1)
        np.testing.assert_allclose(entry.values().reshape(real.shape), real, atol=tolerance)
    assert target == "dv700" or seen == set(numbers)
