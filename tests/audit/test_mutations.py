"""One register, offset, size or byte is wrong, and the audit says which."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from audit.networks import Written, generate, networks

# The network, what is changed (layer, field, value), and a code that must be found.
FIELDS: list[tuple[str, int, str, object, str]] = [
    ("residual", 0, "w", 15, "DV645"),
    ("residual", 0, "h", 0, "DV611"),
    ("residual", 0, "z", 2, "DV611"),
    ("residual", 0, "c", 4, "DV645"),
    ("residual", 0, "topo", "0", "DV613"),
    ("residual", 0, "topo", "0x2", "DV625"),
    ("residual", 0, "input_circular_offset", "0x8000", "DV612"),
    ("residual", 0, "input_circular_offset", "0x0002", "DV652"),
    ("residual", 2, "output_mode", 2, "DV614"),
    ("residual", 2, "output_mode", 0, "DV614"),
    ("residual", 2, "eltwise_buf.offs", 2048, "DV656"),
    ("residual", 2, "eltwise_buf.offs", 4096, "DV650"),
    ("residual", 2, "eltwise_buf.offs", 4097, "DV640"),
    ("residual", 2, "eltwise_buf.offs", 8000, "DV641"),
    ("residual", 2, "eltwise_buf.mem", "nullptr", "DV642"),
    ("residual", 0, "input_buf.mem", "weights_mem_", "DV642"),
    ("residual", 0, "header.size", "sizeof(dmp_dv_cmdraw_conv_v0)", "DV610"),
    ("residual", 0, "header.version", "0", "DV610"),
    ("residual", 0, "header.device_type", "DMP_DV_DEV_FC", "DV610"),
    ("residual", 0, "input_buf.offs", 4098, "DV642"),
    ("residual", 1, "output_buf.offs", 2048, "DV643"),
    ("residual", 1, "output_buf.offs", 16, "DV651"),
    ("residual", 0, "run[0].m", 24, "DV646"),
    ("residual", 1, "run[0].m", 8, "DV620"),
    ("residual", 0, "run[0].m", 0, "DV620"),
    ("residual", 0, "run[0].m", 70000, "DV604"),
    ("residual", 0, "run[0].conv_enable", 2, "DV615"),
    ("residual", 0, "run[0].conv_enable", 3, "DV620"),
    ("residual", 0, "run[0].p", "0x0803", "DV616"),
    ("residual", 0, "run[0].p", "0x0503", "DV646"),
    ("residual", 0, "run[0].pz", 3, "DV616"),
    ("residual", 0, "run[0].conv_stride", "0x0100", "DV617"),
    ("residual", 0, "run[0].conv_stride", "0x0102", "DV646"),
    ("residual", 0, "run[0].conv_pad", "0x01010181", "DV618"),
    ("residual", 0, "run[0].conv_pad", "0x01010000", "DV646"),
    ("residual", 0, "run[0].conv_dilation", "0x0202", "DV623"),
    ("residual", 0, "run[0].weight_fmt", 0, "DV615"),
    ("residual", 0, "run[0].weight_fmt", 3, "DV682"),
    ("residual", 0, "run[0].pool_enable", 2, "DV619"),
    ("residual", 0, "run[0].pool_enable", 0, "DV646"),
    ("residual", 0, "run[0].pool_enable", 3, "DV615"),
    ("residual", 0, "run[0].pool_size", "0x0201", "DV621"),
    ("residual", 0, "run[0].pool_stride", "0x0002", "DV617"),
    ("residual", 0, "run[0].pool_pad", "0x01010101", "DV646"),
    ("residual", 0, "run[0].actfunc", 7, "DV615"),
    ("residual", 0, "run[0].actfunc", 4, "DV682"),
    ("residual", 2, "run[0].actfunc", 4, "DV624"),
    ("residual", 0, "run[0].actfunc_param", "0x7E00", "DV629"),
    ("residual", 2, "run[0].pool_avg_param", 0, "DV629"),
    ("residual", 2, "run[0].pool_enable", 0, "DV625"),
    ("residual", 0, "run[0].rectifi_en", 2, "DV615"),
    ("residual", 0, "run[0].lrn", 1, "DV615"),
    ("residual", 1, "run[0].weight_buf.offs", 2328, "DV681"),
    ("residual", 1, "run[0].weight_buf.offs", 2320, "DV682"),
    ("residual", 1, "run[0].weight_buf.mem", "io_mem_", "DV681"),
    ("residual", 0, "input_offs", 4098, "DV642"),
    ("residual", 0, "output_offs", 2049, "DV640"),
    ("residual", 0, "output_size", 4096, "DV644"),
    ("residual", 0, "input_dim[2]", 4, "DV645"),
    ("residual", 0, "input_dim_size", 4, "DV647"),
    ("residual", 0, "output_dim[0]", 0, "DV647"),
    ("residual", 0, "output_dim[2]", 8, "DV646"),
    ("residual", 0, "is_f32_output", "true", "DV654"),
    ("residual", 0, "is_output", "true", "DV670"),
    ("residual", 1, "is_input_hw_layout", "false", "DV655"),
    ("residual", 0, "type", "LT_FC", "DV645"),
    ("residual", 0, "type", "LT_FLATTEN", "DV665"),
    ("residual", 0, "name", '""', "DV665"),
    ("residual", 6, "output_offs", 16, "DV660"),
    ("residual", 6, "input_layer_num", 1, "DV661"),
    ("residual", 6, "output_dim[2]", 24, "DV661"),
    ("residual", 5, "output_size", 20, "DV644"),
    ("residual", 5, "output_offs", 2, "DV640"),
    ("residual", 5, "output_offs", 4092, "DV643"),
    ("residual", 5, "is_output", "false", "DV670"),
    ("dilated", 0, "run[0].p", "0x0202", "DV623"),
    ("dilated", 0, "run[0].conv_pad", "0x01010101", "DV623"),
    ("dilated", 0, "run[0].conv_dilation", "0x0101", "DV646"),
    ("dilated with a stride", 0, "run[0].conv_pad", "0x02010201", "DV623"),
    ("upwards", 0, "run[0].conv_enable", 1, "DV646"),
    ("upwards", 1, "run[0].pool_pad", "0x1", "DV621"),
    ("upwards", 2, "h", 2, "DV622"),
    ("upwards", 4, "type", "LT_CONCAT", "DV660"),
    ("upwards", 4, "type", "LT_COPY_CONCAT", "DV661"),
    ("upwards", 4, "output_dim[0]", 959, "DV662"),
    ("two inputs", 1, "output_offs", 1536, "DV642"),
    ("two inputs", 0, "type", "LT_CUSTOM", "DV664"),
    ("CPU", 1, "is_f32_output", "false", "DV644"),
    ("CPU", 1, "custom_proc_ptr", "nullptr", "DV664"),
    ("CPU", 3, "input_buf.offs", 976, "DV651"),
]


@cache
def written(name: str) -> Written:
    return generate(networks()[name])


def codes(changed: Written, folder: Path) -> list[str]:
    return [finding.code for finding in changed.audit(folder).findings]


def in_turn() -> Iterator[Any]:
    """The first row of each code runs at each commit, and the others in turn."""
    codes: set[str] = set()
    for row in FIELDS:
        code = row[-1]
        yield pytest.param(*row, marks=[pytest.mark.rotating] if code in codes else [])
        codes.add(code)


@pytest.mark.slow
@pytest.mark.parametrize(("network", "layer", "field", "value", "code"), in_turn())
def test_a_wrong_field_is_found(network: str, layer: int, field: str, value: object, code: str, tmp_path: Path) -> None:
    assert code in codes(written(network).with_field(layer, field, value), tmp_path)


def test_a_finding_names_layer_and_line(tmp_path: Path) -> None:
    changed = written("residual").with_field(1, "run[0].conv_stride", "0x0000")
    (finding,) = changed.audit(tmp_path).findings
    line = changed.text[: changed.text.index("conv_stride = 0x0000")].count("\n") + 1
    assert finding.code == "DV617"
    assert str(finding.where) == f'Net_gen.cpp:{line}: layer "dw" (LT_CONV)'
    assert finding.hint


REPLACEMENTS: list[tuple[str, str, str, str]] = [
    ("residual", "ReserveMemory(53152, 6144)", "ReserveMemory(53168, 6144)", "DV680"),
    ("residual", "ReserveMemory(53152, 6144)", "ReserveMemory(53136, 6144)", "DV682"),
    ("residual", "ReserveMemory(53152, 6144)", "ReserveMemory(53152, 6128)", "DV641"),
    ("residual", "if (!ReserveMemory(53152, 6144))", "if (false)", "DV603"),
    ("residual", "set_num_layers(7)", "set_num_layers(6)", "DV603"),
    ("residual", "set_num_layers(7)", "set_num_layers(8)", "DV603"),
    ("residual", "set_num_output_layers(1)", "set_num_output_layers(2)", "DV670"),
    ("residual", "set_num_output_layers(1)", "set_num_output_layers(0)", "DV670"),
    ("residual", "  Layer_3();\n", "", "DV603"),
    ("residual", "output_layers_[0] = &layer", "output_layers_[0] = &get_layer(4)", "DV670"),
    ("residual", "= &get_layer(3)", "= &get_layer(2)", "DV660"),
    ("residual", "= &get_layer(3)", "= &get_layer(6)", "DV661"),
    ("residual", "get_layer(1);", "get_layer(0);", "DV603"),
    ("residual", "conf.header.version = 1;", "conf.header.version = 1; conf.to_bgr = 1;", "DV610"),
    ("residual", "cmd.topo = 0x00000001;", "cmd.topo = 0x00000001; cmd.run[1].m = 3;", "DV613"),
    ("two inputs", "set_num_layers", "is_weight_transposed = true; set_num_layers", "DV612"),
]


@pytest.mark.parametrize(("network", "old", "new", "code"), REPLACEMENTS)
def test_a_wrong_statement_is_found(network: str, old: str, new: str, code: str, tmp_path: Path) -> None:
    assert code in codes(written(network).replaced(old, new), tmp_path)


def moved(network: Written, offset: int, to: int) -> Written:
    """With another offset wherever that one stands, so that only the bytes themselves tell."""
    return network._replace(text=re.sub(rf"(_?offs = ){offset};", rf"\g<1>{to};", network.text))


def test_a_map_that_is_overwritten_before_its_last_reader_is_found(tmp_path: Path) -> None:
    """Layer 2 writes over the first map, which layer 4 is still to read."""
    assert "DV651" in codes(moved(written("residual"), 4096, 2064), tmp_path)


def test_an_output_that_is_overwritten_at_the_end_is_found(tmp_path: Path) -> None:
    """The first output is written before the last layer, and lies where the second one goes."""
    text = written("CPU").text
    start = text.index("::Layer_1() {")
    place = re.search(r"output_offs = (\d+);", text[start:])
    assert place is not None
    assert "DV653" in codes(moved(written("CPU"), 0, int(place[1])), tmp_path)


def test_a_network_that_ends_in_chunks_is_found(tmp_path: Path) -> None:
    changed = written("residual").replaced("output_layers_[0] = &layer", "output_layers_[0] = &get_layer(0)")
    assert "DV671" in codes(changed, tmp_path)


def test_an_input_that_the_application_does_not_fill_is_found(tmp_path: Path) -> None:
    changed = written("two inputs").with_field(0, "type", "LT_CONCAT")
    assert "DV672" in codes(changed, tmp_path)


def test_several_runs_that_do_not_fit_the_unified_buffer_are_found(tmp_path: Path) -> None:
    changed = with_second_run("0x2").replaced("cmd.w = 20;", "cmd.w = 500;").replaced("cmd.h = 12;", "cmd.h = 300;")
    assert "DV627" in codes(changed, tmp_path)


def test_a_deconvolution_among_several_runs_is_found(tmp_path: Path) -> None:
    changed = with_second_run("0x2").with_field(0, "run[0].conv_enable", 5)
    assert "DV628" in codes(changed, tmp_path)


def test_joined_runs_of_channels_that_are_no_multiple_of_8_are_found(tmp_path: Path) -> None:
    assert "DV614" in codes(with_second_run("0x3"), tmp_path)


def with_second_run(topo: str) -> Written:
    """A convolution to 9 channels, then an average pool of 1x1."""
    changed = written("kernels").with_field(0, "topo", topo)
    runs = " ".join(f"cmd.run[1].{field} = {value};" for field, value in RUN.items())
    return changed.replaced("cmd.run[0].m = 9;", f"cmd.run[0].m = 9; {runs}")


def test_a_map_that_is_read_in_another_form_is_found(tmp_path: Path) -> None:
    """8x16x8 has as many elements as 8x8x16, in another order."""
    assert "DV652" in codes(written("residual").with_field(1, "h", 16).with_field(1, "c", 8), tmp_path)


RUN = {"m": 9, "pool_enable": 2, "pool_size": "0x0101", "pool_stride": "0x0101", "pool_avg_param": "0x3C00"}

# The network, palette or not, the byte, its new value, the code.
BYTES: list[tuple[str, bool, int, int, str]] = [
    ("residual", False, 1, 0x7C, "DV687"),  # a bias is infinite
    ("residual", False, 16 + 2 * 3, 1, "DV683"),  # channel 3 of 3 has no place
    ("residual", False, 16 + 2 * (6 * 9) + 1, 0x7E, "DV687"),  # the first weight of channel 0 is no number
    ("residual", False, 7040 + 16 + 2 * 56, 1, "DV683"),  # a 1x1 kernel uses 64 of 72 places
    ("kernels", False, 8 * 9 * 144 + 16 + 2, 1, "DV684"),  # the bias of output channel 9 of 9
    ("kernels", True, 0, 1, "DV686"),  # entry 0 of a palette
    ("kernels", True, 2 * 255 + 1, 0x7C, "DV687"),  # entry 255
    ("kernels", True, 512 + 16 + 1, 1, "DV683"),  # a 7x7 kernel uses 49 of 72 places
    ("kernels", True, 6384 - 1, 1, "DV685"),  # behind the first layer's weights
    ("dilated", False, 0, 1, "DV688"),  # the bias of the first of nine taps
    ("prelu", False, 8 * 144 + 32 + 16 + 6, 1, "DV684"),  # the slope of output channel 11 of 11
]


@pytest.mark.slow
@pytest.mark.parametrize(("network", "palette", "at", "value", "code"), BYTES)
def test_a_wrong_byte_of_the_weights_is_found(
    network: str, palette: bool, at: int, value: int, code: str, tmp_path: Path
) -> None:
    changed = generate(networks()[network], palette=palette)
    assert code in codes(changed.with_byte(at, value), tmp_path)


def test_weights_of_another_size_or_none_at_all_are_found(tmp_path: Path) -> None:
    network = written("residual")
    for weights in (network.weights[:-1], network.weights + b"\0", b""):
        assert codes(network._replace(weights=weights), tmp_path) == ["DV680"]


def with_the_runtimes_softmax() -> Written:
    """The residual network with LT_SOFTMAX, in a form that the SDK's runtime takes."""
    changed = written("residual")._replace(header="")
    changed = changed.with_field(5, "type", "LT_SOFTMAX").with_field(5, "is_f32_output", "false")
    changed = changed.with_field(5, "output_size", 20)
    return changed.replaced("layer.custom_proc_ptr = CNet_cpu::Layer_5", "layer.softmax_axis = 0")


def test_a_softmax_of_the_runtime_in_a_form_that_it_takes_is_right(tmp_path: Path) -> None:
    assert not codes(with_the_runtimes_softmax(), tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("input_dim[0]", 9, "DV662"),
        ("is_f32_output", "true", "DV663"),
        ("softmax_axis", -1, "DV663"),
        ("softmax_axis", 3, "DV663"),
    ],
)
def test_a_softmax_of_the_runtime_in_another_form_is_found(
    field: str, value: object, code: str, tmp_path: Path
) -> None:
    assert code in codes(with_the_runtimes_softmax().with_field(5, field, value), tmp_path)
