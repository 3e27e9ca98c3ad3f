"""How each form of layer is stored for each target."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.export import export, read
from cnn_convertor.export.parts import parts_of
from cnn_convertor.export.targets import target_of
from cnn_convertor.export.writing import write
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.ops import Pair, Shape, Window
from cnn_convertor.layouts.nvdla.alignment import check_alignment
from export.networks import DIGITS, TARGETS, conv, dense, network, values, write_for
from reference.export_reference import (
    nvdla_kernels,
    nvdla_operand,
    quantized,
)
from reference.ir_reference import transposed_convolution


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


def test_slopes_have_power_of_two_scales(tmp_path: Path) -> None:
    graph = network(("x", ops.Input(Shape(5, 5, 8)), ()), ("c", conv(9, 8, 3, slopes=True), ("x",)))
    entry = write_for("nvdla-int8", graph, tmp_path)["c", "slopes"]
    (scale,) = entry.record["scale"]["values"]
    assert math.frexp(scale)[0] == 0.5
    assert np.abs(entry.array()).max() > np.iinfo(np.int16).max / 2
    np.testing.assert_allclose(entry.values(), values(9, seed=2).load()[:, None, None], atol=scale / 2)


@pytest.mark.parametrize("kind", ["fp16", "int8"])
def test_a_remaining_scale_adds_before_it_multiplies_on_nvdla(kind: str, tmp_path: Path) -> None:
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


def test_layer_names_need_not_be_file_names(tmp_path: Path) -> None:
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
