"""The audit knows what the SDK's runtime does: what works on it passes, what fails on it is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from audit.vendor import (
    Dims,
    Layer,
    Run,
    branches,
    concat,
    conv,
    copy_concat,
    custom,
    digits,
    early,
    flatten,
    pooled,
    save,
    softmax,
    source,
    twelve_net,
    weight_bytes,
)
from cnn_convertor.audit import Audit, audit

SOURCES = Path(__file__).parent / "sources"


def audited(text: str, folder: Path) -> Audit:
    return audit(save(text, folder), None)


def codes(text: str, folder: Path) -> set[str]:
    return {finding.code for finding in audited(text, folder).findings}


# --- sources in the vendor's conventions ---


def one_map(*layers: Layer, dims: Dims = (6, 4, 24), io: int = 16384) -> str:
    """A convolution of 1x1 that writes a map at 2048, and the given layers behind it."""
    start = conv("map", (0, (*dims[:2], 8)), (2048, dims), Run(dims[-1], 1), hw=False)
    return source("Net", [start, *layers], weights=weight_bytes(dims[-1], 8, 1), io=io)


@pytest.mark.parametrize(
    "text",
    [
        twelve_net(),
        digits(),
        digits(axis=2, order=0, transposed=False),
        branches(),
        branches(version=0),
    ],
)
def test_sources_in_the_vendors_conventions_pass(text: str, tmp_path: Path) -> None:
    result = audited(text, tmp_path)
    assert result.findings == ()
    assert result.notes == ()


# --- sources of early 2019 ---

CONV = "layer.type = LT_CONV;"
COMMAND = re.compile(r"  dmp_dv_cmdraw_conv_v0& conf.*?(?=  fpga_layer& layer)", re.DOTALL)


@pytest.mark.parametrize("hw", [False, True])
def test_a_layer_without_a_name_is_a_note(hw: bool, tmp_path: Path) -> None:
    """The flag of an LT_CONCAT, at which the runtime does nothing, may be either."""
    result = audited(early(hw=hw), tmp_path)
    assert result.findings == ()
    assert [(note.code, note.where.layer) for note in result.notes if note.where] == [
        ("DV665", f"#{index}") for index in range(6)
    ]
    assert 'concat "#2"' in result.listing


@pytest.mark.parametrize(
    "text",
    [
        early().replace(f"  {CONV}\n", "", 1),
        COMMAND.sub("", early(), count=1),
        early().replace(CONV, f'layer.name = ""; {CONV}', 1),
    ],
    ids=["no type either", "no command either", "the assignment of an empty name crashes"],
)
def test_a_layer_without_a_name_and_more_is_found(text: str, tmp_path: Path) -> None:
    assert text != early()
    result = audited(text, tmp_path)
    assert ("DV665", "#0") in [(finding.code, finding.where.layer) for finding in result.findings if finding.where]
    assert "#0" not in [note.where.layer for note in result.notes if note.where]


def test_findings_name_a_layer_without_a_name_by_its_number(tmp_path: Path) -> None:
    messages = [
        finding.message for finding in audited(early().replace("conf.c = 28", "conf.c = 27"), tmp_path).findings
    ]
    assert any('do not form such a map: "#0", 8x8x16, "#1", 8x8x12' in message for message in messages)


def test_a_finding_about_a_softmax_names_the_runtime(tmp_path: Path) -> None:
    """A source may be for an older one, which was not measured."""
    start, softmax_layer = early().split("LT_SOFTMAX")
    wrong = f"{start}LT_SOFTMAX{softmax_layer.replace('softmax_axis = 0', 'softmax_axis = 3')}"
    messages = [finding.message for finding in audited(wrong, tmp_path).findings if finding.code == "DV663"]
    assert messages and all("runtime of 2019" in message for message in messages)


@pytest.mark.parametrize("name", ["", 'layer.name = "prob"; '])
def test_an_fp32_softmax_is_a_note_only_where_no_name_is_set(name: str, tmp_path: Path) -> None:
    """The runtime of January 2019 wrote FP32, and the sources of that time name no layer of the CPU."""
    start, softmax_layer = early().split("layer.type = LT_SOFTMAX;")
    fp32 = softmax_layer.replace("is_f32_output = false", "is_f32_output = true")
    fp32 = fp32.replace("output_size = 1536", "output_size = 3072")
    result = audited(f"{start}{name}layer.type = LT_SOFTMAX;{fp32}", tmp_path)
    assert [finding.code for finding in result.findings] == ["DV663"] * bool(name)
    assert ("DV663" in [note.code for note in result.notes]) == (not name)


# --- the two blockers of version 0.1.0 ---


def test_the_softmax_of_version_0_1_0_is_found() -> None:
    found = audit(SOURCES / "v0_1_0/digits_gen.cpp", None).findings
    assert [(finding.code, finding.where.layer if finding.where else "") for finding in found] == [
        ("DV663", "digit")
    ] * 2


def test_the_callback_with_two_inputs_of_version_0_1_0_is_found() -> None:
    found = audit(SOURCES / "v0_1_0/two_inputs_gen.cpp", None).findings
    assert [finding.code for finding in found] == ["DV607", "DV667", "DV663", "DV663"]


# --- softmax ---

DATA, MAP = (0, (6, 4, 24)), (2048, (6, 4, 24))
FLAT = flatten("flat", MAP, 4096)
LOGITS = (2048, (6, 4, 4))

RIGHT_SOFTMAX = {
    "FP16 differences stay in a map of 8 channels at most": one_map(softmax("p", LOGITS, (4096, (6, 4, 4)), 2, output=0), dims=(6, 4, 4)),
    "fewer than 8 channels, without the flag": one_map(softmax("p", LOGITS, (4096, (6, 4, 4)), 2, hw=False, output=0), dims=(6, 4, 4)),
    "in place": one_map(softmax("p", LOGITS, LOGITS, 2, output=0), dims=(6, 4, 4)),
    "flattened first": one_map(FLAT, softmax("p", (4096, (24, 24)), (6144, (24, 24)), 1, output=0)),
    "all of a vector": one_map(softmax("p", (2048, (24,)), (4096, (24,)), 0, output=0), dims=(1, 1, 24)),
}  # fmt: skip
WRONG_SOFTMAX = {
    "no such axis": (one_map(FLAT, softmax("p", (4096, (24, 24)), (6144, (24, 24)), -1, output=0)), "DV663"),
    "an axis behind the dimensions": (one_map(FLAT, softmax("p", (4096, (24, 24)), (6144, (24, 24)), 2, output=0)), "DV663"),
    "an axis of one element": (one_map(softmax("p", (2048, (1, 1, 24)), (4096, (24,)), 0, output=0), dims=(1, 1, 24)), "DV663"),
    "chunks of 8 channels": (one_map(softmax("p", MAP, (4096, (6, 4, 24)), 2, output=0)), "DV663"),
    "beyond the input": (one_map(FLAT, softmax("p", (4096, (6, 4, 24)), (6144, (6, 4, 24)), 2, hw=False, output=0)), "DV663"),
    "FP32 read as FP16": (
        one_map(custom("mine", "My", MAP, (4096, (24,))), softmax("p", (4096, (24,)), (6144, (24,)), 0, output=0)),
        "DV654",
    ),
    "logits with another reader": (
        one_map(
            softmax("p", LOGITS, (4096, (6, 4, 4)), 2, output=0),
            conv("pool", LOGITS, (6144, (3, 2, 4)), pooled(Run(4)), output=1),
            dims=(6, 4, 4),
        ),
        "DV673",
    ),
    "logits that are an output": (
        one_map(softmax("p", LOGITS, (4096, (6, 4, 4)), 2, output=1), dims=(6, 4, 4)).replace(
            "output_layers_[1]", "get_layer(0).is_output = true; output_layers_[0] = &get_layer(0); output_layers_[1]"
        ).replace("set_num_output_layers(1)", "set_num_output_layers(2)"),
        "DV673",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT_SOFTMAX)
def test_a_softmax_that_the_runtime_computes_right_passes(name: str, tmp_path: Path) -> None:
    assert audited(RIGHT_SOFTMAX[name], tmp_path).findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG_SOFTMAX)
def test_a_softmax_that_the_runtime_computes_wrong_is_found(name: str, tmp_path: Path) -> None:
    text, code = WRONG_SOFTMAX[name]
    assert codes(text, tmp_path) == {code}


def test_a_softmax_without_the_flag_in_natural_order_is_found(tmp_path: Path) -> None:
    """The runtime exchanges width and height."""
    text = one_map(softmax("p", LOGITS, (4096, (6, 4, 4)), 2, hw=False, output=0), dims=(6, 4, 4))
    text = text.replace("offset = 0x0;", "offset = 0x8000;").replace(
        "if (!Res", "is_weight_transposed = true; if (!Res"
    )
    assert codes(text, tmp_path) == {"DV663"}
    assert not codes(text.replace("is_input_hw_layout = false", "is_input_hw_layout = true"), tmp_path)


# --- flatten and concatenations ---

PIECES = [
    conv("a", MAP, (4096, (6, 4, 5)), Run(5, 1), hw=True),
    conv("b", MAP, (6144, (6, 4, 7)), Run(7, 1), hw=True),
]


def pieces(*layers: Layer) -> str:
    """Maps of 5 and 7 channels, and the given layers behind them."""
    each = [weight_bytes(24, 8, 1), weight_bytes(5, 24, 1), weight_bytes(7, 24, 1)]
    a, b = (
        piece._replace(
            command=[line.replace("weight_buf.offs = 0;", f"weight_buf.offs = {at};") for line in piece.command]
        )
        for piece, at in zip(PIECES, (each[0], each[0] + each[1]), strict=True)
    )
    return one_map(a, b, *layers).replace(f"ReserveMemory({each[0]}", f"ReserveMemory({sum(each)}")


def behind_map(made: tuple[int, Dims], *layers: Layer) -> str:
    """A convolution of the first map, and the given layers."""
    first, second = weight_bytes(24, 8, 1), weight_bytes(made[1][2], 24, 1)
    text = one_map(conv("piece", MAP, made, Run(made[1][2], 1, first)), *layers)
    return text.replace(f"ReserveMemory({first}", f"ReserveMemory({first + second}")


JOINED = (8192, (6, 4, 12))
RIGHT_COPIES = {
    "odd channels": pieces(copy_concat("cat", PIECES[0].made, JOINED, [1, 2]), flatten("out", JOINED, 10240, output=0)),
    "whole chunks that are at their place": behind_map(
        (8192, (6, 4, 5)),
        copy_concat("cat", MAP, (2048, (6, 4, 29)), [0, 1]),
        flatten("out", (2048, (6, 4, 29)), 10240, output=0),
    ),
    "a last map that is at its place": behind_map(
        (8192 + 1152, (6, 4, 5)),
        copy_concat("cat", MAP, (8192, (6, 4, 29)), [0, 1]),
        flatten("out", (8192, (6, 4, 29)), 10240, output=0),
    ),
    "a map that is at its place, and read again": behind_map(
        (8192, (6, 4, 5)),
        copy_concat("cat", MAP, (2048, (6, 4, 29)), [0, 1]),
        copy_concat("more", MAP, (4096, (6, 4, 48)), [0, 0]),
        flatten("a", (2048, (6, 4, 29)), 10240, output=0),
        flatten("b", (4096, (6, 4, 48)), 12288, output=1),
    ),
    "a vector that is at its place": one_map(
        FLAT, copy_concat("cat", (4096, (576,)), (4096, (1152,)), [1, 1])._replace(output=0)
    ),
    "bytes into a vector": pieces(copy_concat("cat", PIECES[0].made, (8192, (288,)), [1, 2])._replace(output=0)),
}
WRONG_COPIES = {
    "over an input that is not at its place": (
        pieces(copy_concat("cat", PIECES[0].made, (6144 - 16, (6, 4, 12)), [1, 2]), flatten("out", (6144 - 16, (6, 4, 12)), 10240, output=0)),
        "DV643",
    ),
    "into wider chunks at the same place": (
        pieces(copy_concat("cat", PIECES[0].made, (4096, (6, 4, 12)), [1, 2]), flatten("out", (4096, (6, 4, 12)), 10240, output=0)),
        "DV643",
    ),
    "a vector over the next one": (
        one_map(FLAT, copy_concat("cat", (4096, (576,)), (4096 - 1150, (1152,)), [1, 1])._replace(output=0)), "DV643"
    ),
    "into two dimensions": (pieces(copy_concat("cat", PIECES[0].made, (8192, (24, 12)), [1, 2])._replace(output=0)), "DV661"),
    "vectors into a map": (
        one_map(
            flatten("a", MAP, 4096), copy_concat("cat", (4096, (576,)), (6144, (6, 4, 24)), [1]), flatten("out", (6144, (6, 4, 24)), 8192, output=0)
        ),
        "DV661",
    ),
    "FP32 channels": (
        one_map(
            custom("mine", "My", MAP, (4096, (6, 4, 8))), copy_concat("cat", (4096, (6, 4, 8)), (8192, (6, 4, 8)), [1])._replace(output=0)
        ),
        "DV654",
    ),
    "in place, but not whole chunks": (
        pieces(concat("cat", (4096, (6, 4, 12))), flatten("out", (4096, (6, 4, 12)), 10240, output=0)), "DV650"
    ),
    "a flatten without the flag": (one_map(FLAT._replace(hw=False, output=0)), "DV669"),
    "a flatten of one dimension": (one_map(FLAT._replace(input=(2048, (576,)), output=0)), "DV669"),
    "a flattened map that the device reads": (
        one_map(
            FLAT._replace(made=(4096, (6, 4, 24))),
            conv("pool", (4096, (6, 4, 24)), (8192, (3, 2, 24)), pooled(Run(24)), hw=False),
            flatten("out", (8192, (3, 2, 24)), 10240, output=0),
        ),
        "DV652",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT_COPIES)
def test_copies_that_the_runtime_makes_right_pass(name: str, tmp_path: Path) -> None:
    assert audited(RIGHT_COPIES[name], tmp_path).findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG_COPIES)
def test_copies_that_the_runtime_makes_wrong_are_found(name: str, tmp_path: Path) -> None:
    text, code = WRONG_COPIES[name]
    assert code in codes(text, tmp_path)


# --- the union, and calls ---

# What is changed in the text, to what, and the code.
EDITS = [
    ("LT_SOFTMAX", "LT_FLATTEN", "DV668"),
    ("LT_FLATTEN", "LT_SOFTMAX", "DV668"),
    ("LT_FLATTEN", "LT_CONCAT", "DV650"),
    ("layer.softmax_axis", "layer.custom_param = NULL; layer.softmax_axis", "DV668"),
    ("layer.is_output = false;", "layer.softmax_axis = 0;", "DV668"),
    ('layer.name = "pool1"', 'layer.name = std::string("pool1")', "DV606"),
    ('layer.name = "pool1"', 'layer.name = "L" + std::to_string(0)', "DV606"),
    ("Layer_0();", "Layer_0(); GenerateCommandLists();", "DV605"),
    ("return true;", "return Commit();", "DV605"),
    ("eltwise_buf.mem = NULL", "eltwise_buf.mem = io_mem_", "DV614"),
    ("eltwise_buf.offs = 0", "eltwise_buf.offs = 16", "DV614"),
    ("ReserveMemory(1635072", "ReserveMemory(0", "DV607"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "code"), EDITS)
def test_what_crashes_or_fails_on_the_sdk_is_found(old: str, new: str, code: str, tmp_path: Path) -> None:
    text = digits()
    assert old in text
    assert code in codes(text.replace(old, new, 1), tmp_path)


TYPES = ["LT_INPUT", "LT_CONV", "LT_FLATTEN", "LT_CONCAT", "LT_COPY_CONCAT", "LT_SOFTMAX", "LT_CUSTOM"]


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("text", [digits(), branches()])
def test_a_layer_of_another_type_does_not_fit_its_neighbors(text: str, tmp_path: Path) -> None:
    for match in re.finditer(r"layer\.type = (LT_\w+)", text):
        for other in set(TYPES) - {match[1]}:
            assert codes(text[: match.start(1)] + other + text[match.end(1) :], tmp_path), f"{match[1]} -> {other}"


@pytest.mark.parametrize(
    "value",
    ['std::string("a text of more than fifteen bytes")', "kName", 'std::to_string(1) + " and fifteen more bytes"'],
)
def test_names_that_are_moved_or_copied_safely_pass(value: str, tmp_path: Path) -> None:
    text = digits().replace('layer.name = "pool1"', f'const std::string kName = "pool1"; layer.name = {value}')
    assert codes(text, tmp_path) == set()


def test_layers_that_are_described_before_they_exist_are_found(tmp_path: Path) -> None:
    """The runtime's get_layer gives a dummy then, and the network stays empty."""
    call = "  set_num_layers(5);\n"
    text = digits().replace(call, "").replace("  return true;", call + "  return true;", 1)
    assert codes(text, tmp_path) == {"DV603"}


def test_a_network_without_weights_reserves_16_bytes(tmp_path: Path) -> None:
    pool = conv("pool", (0, (6, 4, 8)), (2048, (3, 2, 8)), pooled(Run(8)), hw=False, output=0)
    assert codes(source("Net", [pool], weights=16, io=4096), tmp_path) == set()


def test_a_factor_that_is_not_the_reciprocal_of_its_window_is_a_note(tmp_path: Path) -> None:
    result = audited(branches(factor=0x3C00), tmp_path)
    assert [note.code for note in result.notes] == ["DV630"]
    assert result.findings == ()
    assert not audited(branches(factor=0x2C01), tmp_path).notes, "rounded otherwise"


# --- batches ---


def batched(second: int, io: int) -> str:
    """Two pools, of 3 samples and of `second`."""
    layers = [
        conv("a", (0, (8, 4, 8)), (2048, (4, 2, 8)), pooled(Run(8)), hw=False, order=3),
        conv("b", (2048, (4, 2, 8)), (4096, (2, 1, 8)), pooled(Run(8)), order=second, output=0),
    ]
    return source("Net", layers, weights=16, io=io)


def test_a_batch_is_legal(tmp_path: Path) -> None:
    assert codes(batched(3, 4096 + 3 * 32), tmp_path) == set()


def test_all_samples_of_a_batch_have_to_fit(tmp_path: Path) -> None:
    assert codes(batched(3, 4096 + 2 * 32), tmp_path) == {"DV641"}


def test_a_batch_is_read_as_a_batch(tmp_path: Path) -> None:
    assert codes(batched(2, 8192), tmp_path) == {"DV652"}
