"""Errors and warnings of exports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.errors import ConvertorWarning, Origin, UnsupportedError, UsageError
from cnn_convertor.export.parts import parts_of
from cnn_convertor.export.targets import target_of
from cnn_convertor.export.writing import write_program
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import NO_PADDING, Pair, Shape, Window
from cnn_convertor.pipeline import build
from export.networks import DIGITS, conv, network, values, write_for


@pytest.mark.parametrize(
    ("target", "element", "hint"),
    [
        ("nvdla", None, "nvdla-"),
        ("nvdla-fp32", None, "nvdla-fp16"),
        ("nvdla-fp16", "int8", "omit --element"),
        ("nvdla-fp16:", None, "nvdla-fp16:image,winograd,compressed"),
        ("nvdla-fp16:image,", None, "nvdla-fp16:image,winograd,compressed"),
        ("nvdla-int8:sparse", None, "nvdla-int8:image,winograd,compressed"),
        ("nvdla-int8:image", "int8", "omit --element"),
        ("dv700", "float32", "omit --element"),
        ("cldnn", None, "cldnn:os_is"),
        ("bpu:0", None, "bpu"),
        ("bpu:x5", None, "bpu:x3"),
        ("bpu", "float64", "float32"),
        ("", None, "dv700"),
    ],
)
def test_unknown_targets_are_errors_with_a_hint(target: str, element: str | None, hint: str) -> None:
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
def test_an_unsuitable_format_is_an_error_with_suggestions(
    formats: str, groups: int, near: str, tmp_path: Path
) -> None:
    graph = network(("x", ops.Input(Shape(5, 5, 8)), ()), ("c", conv(8, 8, 3, groups=groups), ("x",)))
    with pytest.raises(UnsupportedError, match="DV852") as error:
        write_for(f"cldnn:{formats}", graph, tmp_path)
    assert near in error.value.problems[0].hint
    assert error.value.problems[0].where == Origin("net", "c", "Conv2d")


def test_a_format_may_lack_axes_of_length_1(tmp_path: Path) -> None:
    op = ops.Dense(values(20, 30, 1, 1), None)
    graph = network(("x", ops.Input(Shape(1, 1, 30)), ()), ("full", op, ("x",)))
    entry = write_for("cldnn:os_i_osv16", graph, tmp_path)["full", "weights"]
    assert (entry.axes, entry.shape) == ("oi", (20, 30))
    np.testing.assert_array_equal(entry.array(), op.weight.load()[:, :, 0, 0].astype(np.float16))


def test_unused_formats_are_a_warning(tmp_path: Path) -> None:
    graph = network(("x", ops.Input(Shape(5, 5, 8)), ()), ("c", conv(8, 8, 3), ("x",)))
    with pytest.warns(ConvertorWarning, match="the formats goiyx, oizyx are unused"):
        write_for("cldnn:oiyx,goiyx,oizyx", graph, tmp_path)


def test_all_overflows_are_reported_and_nothing_is_written(tmp_path: Path) -> None:
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


def test_arrays_without_a_known_format_are_an_error() -> None:
    norm = ops.BatchNorm(values(4), Constant.of(np.ones(4)), None, None, 0.0)
    graph = network(("x", ops.Input(Shape(5, 5, 4)), ()), ("n", norm, ("x",)))
    with pytest.raises(UnsupportedError, match="DV854"):
        list(parts_of(graph, {}))


def test_padding_and_pools_have_no_surfaces(tmp_path: Path) -> None:
    pool = ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2), padding=NO_PADDING), ops.PRelu(values(4)))
    graph = network(("x", ops.Input(Shape(6, 6, 4)), ()), ("p", pool, ("x",)))
    roles = [entry.role for entry in write_for("nvdla-fp16", graph, tmp_path).surfaces]
    assert roles == ["input", "slopes", "output"]


def test_all_weights_too_large_for_the_dv700_are_reported(tmp_path: Path) -> None:
    rows = [("x", ops.Input(Shape(5, 5, 1)), ())]
    for name, value in (("a", 1e6), ("b", 1.0), ("c", 1e6)):
        rows.append((name, ops.Conv2d(Constant.of([[[[value]]]]), None, Window(Pair(1, 1))), ("x",)))  # type: ignore[arg-type]
    graph = Graph(network(*rows).nodes, ("a", "b", "c"))
    with pytest.raises(UnsupportedError, match="DV501") as error:
        write_program(build(graph, Config.read(DIGITS[0])), Dv700(), {}, tmp_path / "out")
    assert [p.where.layer for p in error.value.problems if p.where] == ["a", "c"]
    assert not (tmp_path / "out").exists()
