"""The audit finds nothing in what the convertor writes."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from audit.networks import PAIR, Written, generate, graph, networks, same, values
from cnn_convertor.audit import audit
from cnn_convertor.audit.command_checks import AuditedDevice
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.profiles import device_of
from cnn_convertor.devices.figures import Figure
from cnn_convertor.devices.settings import Fusion, Runtime
from cnn_convertor.errors import ConvertorError
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from reference import random_networks

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.slow
@pytest.mark.rotating
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("palette", "fusion"), [*product([False], Fusion), (True, Fusion.FULL)])
@pytest.mark.parametrize("name", networks())
def test_nothing_is_found_in_networks_of_every_kind(
    name: str, palette: bool, fusion: Fusion, transposed: bool, tmp_path: Path
) -> None:
    result = generate(networks()[name], palette=palette, transposed=transposed, fusion=fusion).audit(tmp_path)
    assert not result.findings
    assert result.name == "Net"


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("channels", [5, 19])
@pytest.mark.parametrize("axis", list(ops.Axis))
def test_nothing_is_found_in_a_softmax_of_the_sdk(
    axis: ops.Axis, channels: int, transposed: bool, tmp_path: Path
) -> None:
    network = graph(
        ("probability",),
        ("data", ops.Input(Shape(4, 6, 3)), ()),
        ("logits", ops.Conv2d(values(channels, 3, 1, 1), None, Window(Pair(1, 1))), ("data",)),
        ("probability", ops.Softmax(axis), ("logits",)),
    )
    written = generate(network, transposed=transposed, uses_sdk_softmax=True)
    assert "LT_SOFTMAX" in written.text
    assert not written.audit(tmp_path).findings


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("name", networks())
def test_a_generated_runtime_is_no_part_of_what_is_audited(name: str, tmp_path: Path) -> None:
    """The assignments are found as without it."""
    written = generate(networks()[name], runtime=Runtime.GENERATED)
    assert "_run::Network" in written.declaration and not written.audit(tmp_path).findings
    other = written.with_field(0, "w", 3) if "cmd.w = " in written.text.partition("::Layer_1()")[0] else None
    assert other is None or other.audit(tmp_path).findings


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_nothing_is_found_in_random_networks(tmp_path: Path) -> None:
    """The convertor refuses some of them."""
    audited = several = 0
    for seed in range(24):
        make = [random_networks.network, random_networks.network_of_blocks][seed // 3 % 2]
        network = make(seed, 3 + seed % 12)
        with suppress(ConvertorError):
            written = generate(
                network, palette=seed % 2 == 0, transposed=seed % 3 == 0, fusion=list(Fusion)[seed // 6 % 3]
            )
            assert not written.audit(tmp_path).findings, seed
            audited += 1
            several += "cmd.run[1].m" in written.text
    assert audited > 8
    assert several


def test_without_weights_all_else_is_checked(tmp_path: Path) -> None:
    written = generate(networks()["residual"])
    source = tmp_path / "Net_gen.cpp"
    source.write_text(written.text, encoding="utf-8")
    source.with_name("Net_gen.h").write_text(written.declaration, encoding="utf-8")
    assert not audit(source, None).findings
    source.write_text(written.with_field(1, "run[0].weight_buf.offs", 0).text, encoding="utf-8")
    assert "DV682" in {finding.code for finding in audit(source, None).findings}


def test_nothing_is_found_in_the_golden_sources() -> None:
    for name in ("every", "small"):
        assert not audit(GOLDEN / name / f"{name}_gen.cpp").findings


def test_a_smaller_device_refuses_what_a_larger_one_takes(tmp_path: Path) -> None:
    written = generate(networks()["kernels"])
    written.audit(tmp_path)
    found = audit(
        tmp_path / "Net_gen.cpp", tmp_path / "Net_weights.bin", AuditedDevice(max_kernel_size=5, ub_size=1024)
    ).findings
    assert {finding.code for finding in found} == {"DV616", "DV626"}


def test_the_listing_says_in_words_what_the_commands_do(tmp_path: Path) -> None:
    result = generate(networks()["residual"]).audit(tmp_path)
    assert (result.layers, result.commands) == (7, 5)
    assert result.listing == LISTING


def with_a_custom_layer_of_two_inputs() -> Written:
    pool = Window(Pair(3, 3))
    return generate(
        graph(
            ("mine",),
            ("data", ops.Input(Shape(4, 6, 12)), ()),
            ("a", ops.MaxPool2d(pool), ("data",)),
            ("b", ops.AveragePool2d(pool), ("data",)),
            ("mine", ops.Custom("Mine", (("scale", 2.0),), Shape(2, 4, 12)), ("a", "b")),
        )
    )


def test_the_maps_that_a_custom_layer_lists_are_read(tmp_path: Path) -> None:
    assert not with_a_custom_layer_of_two_inputs().audit(tmp_path).findings


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('"b", 768, 192, 2, 4, 12, 2', '"b", 1024, 192, 2, 4, 12, 2', "DV650"),  # another place
        ('"b", 768, 192, 2, 4, 12, 2', '"b", 768, 192, 2, 2, 24, 2', "DV652"),  # another form
        ('"b", 768, 192, 2, 4, 12, 2', '"b", 768, 192, 2, 4, 6, 4', "DV654"),  # FP32
        ('"b", 768, 192, 2, 4, 12, 2', '"b", 576, 192, 2, 4, 12, 2', "DV656"),  # the same map twice
    ],
)
def test_a_wrong_map_in_the_list_of_a_custom_layer_is_found(old: str, new: str, code: str, tmp_path: Path) -> None:
    found = with_a_custom_layer_of_two_inputs().replaced(old, new).audit(tmp_path).findings
    assert code in {finding.code for finding in found}


def with_packed_factors() -> Written:
    return generate(
        graph(
            ("max",),
            ("x", ops.Input(Shape(40, 56, 16)), ()),
            ("s", ops.Input(Shape(1, 1, 16)), ()),
            ("p", ops.Binary(ops.BinaryOp.MULTIPLY), ("x", "s")),
            ("max", ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2))), ("p",)),
        ),
        fusion=Fusion.FULL,
    )


def test_packed_factors_are_read(tmp_path: Path) -> None:
    found = with_packed_factors().audit(tmp_path)
    assert not found.findings
    assert "depthwise 1x1" in "".join(found.listing)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("run[0].weight_buf.offs", 4, "DV681"),  # where no weights may start
        ("run[0].weight_buf.offs", 16, "DV656"),  # in another map
        ("run[0].weight_buf.mem", "weights_mem_", "DV682"),
        ("run[0].p", 0x0303, "DV681"),  # other weights are in their memory
        ("run[0].conv_enable", 1, "DV681"),
    ],
)
def test_packed_factors_of_another_form_are_found(field: str, value: object, code: str, tmp_path: Path) -> None:
    written = with_packed_factors()
    layer = next(
        n
        for n in range(9)
        if "weight_buf.mem = io_mem_" in written.text.split(f"::Layer_{n}() {{")[1].split("\n}\n")[0]
    )
    assert code in {finding.code for finding in written.with_field(layer, field, value).audit(tmp_path).findings}


def with_a_packed_matrix() -> Written:
    rows = ops.Matrices(1, ops.Axis.HEIGHT, ops.Axis.WIDTH, ops.Axis.CHANNELS)
    turned = rows._replace(rows=ops.Axis.CHANNELS, columns=ops.Axis.WIDTH)
    x = Shape(1, 600, 64)
    return generate(
        graph(
            ("end",),
            ("x", ops.Input(x), ()),
            ("y", ops.Input(x), ()),
            ("p", ops.MatMul(rows, turned, rows), ("x", "y")),
            ("end", ops.AveragePool2d(Window(Pair(1, 2), Pair(1, 2))), ("p",)),
        ),
        fusion=Fusion.FULL,
    )


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("run[0].weight_buf.offs", 4, "DV681"),
        ("run[0].weight_buf.mem", "weights_mem_", "DV682"),
        ("run[0].m", 599, "DV646"),
        ("run[0].conv_enable", 3, "DV681"),
    ],
)
def test_packed_matrices_of_another_form_are_found(field: str, value: object, code: str, tmp_path: Path) -> None:
    written = with_a_packed_matrix()
    assert not written.audit(tmp_path).findings
    layer = next(
        n
        for n in range(9)
        if "weight_buf.mem = io_mem_" in written.text.split(f"::Layer_{n}() {{")[1].split("\n}\n")[0]
    )
    assert code in {finding.code for finding in written.with_field(layer, field, value).audit(tmp_path).findings}


def test_a_callback_with_unknown_parameters_may_read_any_map(tmp_path: Path) -> None:
    written = with_a_custom_layer_of_two_inputs()
    unknown = written.replaced("custom_param = &param", "custom_param = new int")
    assert not unknown.audit(tmp_path).findings


def test_a_callback_with_a_list_of_input_layers_is_found(tmp_path: Path) -> None:
    """The list overwrites the callback's address on the SDK."""
    listed = "  layer.input_layer_num = 1;\n  output_layers_[0]"
    (found,) = generate(networks()["residual"]).replaced("  output_layers_[0]", listed).audit(tmp_path).findings
    assert (found.code, found.where.layer if found.where else "") == ("DV667", "prob")


LISTING = """\
Net: 7 layers, maps in WHC order; sizes are height x width x channels
   0  conv "pool": 16x16x3@0 -> 8x8x16@2048, 2048 bytes
       conv 3x3 s1 p1 3->16 FP16 @0 2336 bytes, max pool 2x2 s2, ReLU
   1  conv "dw": 8x8x16@2048 -> 8x8x16@0, 2048 bytes
       depthwise 3x3 s1 p1 16->16 FP16 @2336 2336 bytes
   2  conv "prelu/linear": 8x8x16@2048 -> 8x8x16@4096, 2048 bytes
       average pool 1x1 s1 factor 1, add 8x8x16@0
   3  conv "prelu": 8x8x16@4096 -> 8x8x16@0, 2048 bytes
       depthwise 1x1 s1 16->16 FP16 @4672 2368 bytes, PReLU
   4  conv "fc": 8x8x32@0 -> 10@4096, 20 bytes
       conv 1x1 s1 2048->10 FP16 @7040 46112 bytes
   5  custom "prob": 10@4096 -> 10@0, 40 bytes FP32
   6  concat "cat": layers 3, 0 -> 8x8x32@0, 4096 bytes
outputs: "prob"
commands: 5
multiply-accumulates: 141,312
weights: 53,152 bytes
I/O memory: 6,144 bytes, at most 6,144 in use at a time
"""


def restricted() -> dict[str, tuple[dict[str, Any], ops.Op, Shape]]:
    """What old revisions and drivers lack, with an operator that needs it and its input."""
    return {
        "a deconvolution": (
            {"deconvolves": False},
            ops.ConvTranspose2d(values(8, 8, 2, 2), None, PAIR),
            Shape(4, 4, 8),
        ),
        "a wide pool": ({"pools_unevenly": False}, ops.AveragePool2d(Window(Pair(1, 2))), Shape(4, 4, 8)),
        "wide padding": (
            {"pads_beyond_map": False},
            ops.Conv2d(values(8, 8, 5, 5), None, Window(Pair(5, 5), padding=Padding(4, 4, 4, 4))),
            Shape(2, 2, 8),
        ),
        "a wide padding of a pool": (
            {"pads_beyond_map": False},
            ops.AveragePool2d(Window(Pair(5, 5), padding=same(5).padding)),
            Shape(1, 1, 8),
        ),
    }


@pytest.mark.parametrize("name", restricted())
def test_an_old_device_refuses_what_a_new_one_takes(name: str, tmp_path: Path) -> None:
    lacks, op, shape = restricted()[name]
    rows: list[tuple[str, ops.Op, tuple[str, ...]]] = [("x", ops.Input(shape), ()), ("a", op, ("x",))]
    generate(graph(("a",), *rows)).audit(tmp_path)
    sources = tmp_path / "Net_gen.cpp", tmp_path / "Net_weights.bin"
    assert not audit(*sources).findings
    assert [finding.code for finding in audit(*sources, AuditedDevice(**lacks)).findings] == ["DV631"]


def test_a_max_pool_in_several_strips_needs_a_late_driver_and_late_hardware(tmp_path: Path) -> None:
    pool, large = ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2))), ops.Input(Shape(200, 200, 64))
    conv = ops.Conv2d(values(64, 64, 3, 3), None, same(3))
    network = graph(("a",), ("x", large, ()), ("c", conv, ("x",)), ("a", pool, ("c",)))
    figures: dict[str, Figure[Any]] = {
        "driver": Figure("7.2.20201106", "test"),
        "hardware": Figure(date(2019, 7, 29), "test"),
    }
    late = read_profile("dv700", Path()).with_figures(figures)
    (finding,) = generate(network, device=device_of(late)).audit(tmp_path).findings
    assert finding.code == "DV631"
    assert "a user driver from 7.2.20201106 on and hardware from 2019-07-29 on" in finding.message
    sources = tmp_path / "Net_gen.cpp", tmp_path / "Net_weights.bin"
    assert not audit(*sources, AuditedDevice(pools_tiles=True)).findings
    too_small = audit(*sources, AuditedDevice(ub_size=1024)).findings
    assert too_small and "DV631" not in {each.code for each in too_small}, "no number of strips is enough"
    assert not generate(network).audit(tmp_path).findings
