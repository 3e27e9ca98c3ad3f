"""Names of layouts: meanings and errors."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cnn_convertor.errors import UsageError
from cnn_convertor.layouts import cldnn, pack
from cnn_convertor.layouts.names import LAYOUTS, layout_of, match_axes


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("NCHW", "nchw: n c h w"),
        ("NHWC", "nchw: n h w c"),
        ("NCHW16c", "nchw: n c/16 h w c%16"),
        ("NCHW4c16c", "nchw: n c/64 h w c/16%4 c%16"),
        ("OIHW8i16o2i", "oihw: o/16 i/16 h w i/2%8 o%16 i%2"),
        ("nhwc", "nchw: n h w c"),
        ("whc8", "hwc: c/8! w h c%8 | float16"),
        ("hwc16", "hwc: c/16! h w c%16"),
        ("dwhc8", "dhwc: c/8! d w h c%8 | float16"),
        ("bfyx", "bfyx: b f y x"),
        ("b_fs_yx_fsv16", "bfyx: b f/16 y x f%16"),
        ("os_is_yx_osa4_isa8_osv8_isv4", "oiyx: o/32 i/32 y x o/8%4 i/4%8 o%8 i%4"),
        ("bs_fs_fsv8_bsv8", "bf: b/8 f/8 f%8 b%8"),
        ("i_yxs_os_yxsv2_osv16", "oiyx: i (yx)/2 o/16 (yx)%2 o%16"),
        ("os_i_osv8__ai8", "oi: o/8 i^8 o%8"),
        ("oiyx_rotate_180", "oiyx: o i -y -x"),
        ("nvdla_feature_int8", "chw: c/32@32 h@32 w c%32 | int8 base=32"),
        ("nvdla_weight_image_post2_float16", "kcrs: k/16! r/2! k%16 r%2 (sc) | float16 base=256 total=128"),
        ("c/2 h c%2", "ch: c/2 h c%2"),
    ],
)
def test_meanings_of_names(name: str, text: str) -> None:
    assert str(layout_of(name)) == text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NCHW16", 'the end: expected the axis (a lower-case letter) of the block of 16'),
        ("NCHW16x", 'letter 7, "x": blocks of "x", but there is no axis "X"'),
        ("NCHC", 'letter 4, "C": duplicate axis "C"'),
        ("NCHW16cD", 'letter 8, "D": axes precede blocks'),
        ("NCHW1c", 'letter 5, "1": a block has 2 or more'),
        ("NCHWc", 'letter 5, "c": expected an axis'),
        ("whq8", 'letter 3, "q": expected one of the axes'),
        ("whw8", 'letter 3, "w": duplicate axis "w"'),
        ("whc0", 'letter 4, "0": a chunk has 2 or more'),
        ("nchn", 'letter 4, "n": duplicate axis "n"'),
        ("b_fs_yx_fsv1x", 'letter 13, "x": expected the block size'),
        ("b_f_yx_fsv16", 'letter 3, "f": "f" has blocks'),
        ("b_fs_yx", 'letter 3, "f": "fs" counts slices, but fsvN is missing'),
        ("b_fs_yx_fsv16_osv8", 'letter 15, "o": blocks of "o"'),
        ("b_fs_yx_fsv16_x", 'letter 15, "x": slices and axes precede blocks'),
        ("bfyxb", 'letter 5, "b": duplicate axis "b"'),
        ("os_iyx_osv32__ag2", 'letter 16, "g": there is no axis "g"'),
        ("b_fs_yx_fsv", "the end: expected the block size"),
        ("b_fs_yx_fsz16", 'letter 11, "z"'),
        ("oiyx_rotate_90", 'letter 13, "9": the only rotation is 180'),
        ("is_o_yx_isv32", "its name means i/32 o y x i%32, but the only table"),
        ("os_is_y_x8_osv8_isv4", "in an undocumented order"),
        ("winograd_2x3_s1_weights", "contradict each other"),
        ("nv12", "layouts.bpu.NV12"),
        ("c/2!# h c%2", "exclude each other"),
        ("c/2## h c%2", 'letter 5, "#": duplicate "#"'),
        ("chhw: c h w", 'letter 3, "h": duplicate axis "h"'),
        ("c h/0", 'letter 5, "0": expected a number above 0 after "/"'),
        ("c h w | floatx", 'letter 9, "f": expected an element type'),
        ("(c) h", 'letter 3, ")": merged axes are'),
        ("", "the end"),
        ("nvdla_feature_int9", "nvdla_feature_int8 is a layout"),
    ],
)  # fmt: skip
def test_errors_in_names_point_at_the_letter(name: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        layout_of(name)
    assert message in str(error.value)


def test_the_wrong_letter_is_shown() -> None:
    with pytest.raises(UsageError) as error:
        layout_of("NCHW16x")
    *_, text, mark = error.value.problems[0].message.splitlines()
    assert "`layouts list` shows the names" in error.value.problems[0].hint
    assert text[mark.index("^")] == "x"


def test_no_two_entries_share_a_name() -> None:
    assert all(layout_of(name).name == name for name in LAYOUTS)


@pytest.mark.parametrize(
    ("given", "to", "shape", "order", "result"),
    [
        ("NCHW", "whc8", (1, 3, 4, 5), (0, 2, 3, 1), (4, 5, 3)),
        ("whc8", "NCHW", (4, 5, 3), (2, 0, 1), (1, 3, 4, 5)),
        ("NCHW", "bfzyx", (2, 3, 4, 5), (0, 1, 2, 3), (2, 3, 1, 4, 5)),
        ("OIHW", "nvdla_weight_int8", (2, 3, 4, 5), (0, 1, 2, 3), (2, 3, 4, 5)),
    ],
)
def test_axes_of_two_families(given: str, to: str, shape: tuple[int, ...], order: object, result: object) -> None:
    assert match_axes(layout_of(given), layout_of(to), shape) == (order, result)


def test_a_lost_axis_is_an_error() -> None:
    with pytest.raises(UsageError, match='has no axis for "n", which has length 2'):
        match_axes(layout_of("NCHW"), layout_of("whc8"), (2, 3, 4, 5))


@settings(max_examples=500)
@given(st.text("bfyxosivag_1268sNCHWchwk/%!@=:|()-^ ²", max_size=24))
@example("b_fs_yx_fsv²")
@example("c | str")
@example("c h | i4,i4")
def test_any_text_is_a_layout_or_a_user_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        layout_of(text)


def test_names_mentioned_in_the_specification_are_layouts_or_have_a_reason() -> None:
    told = "gs_oi_yxs_gsv4_yxsv4 gs_oi_yxs_gsv32_yxsv4 giy_xs_os_xsv2_osv8__ao32 os_iyx_osv64 oiyx_rotate_180"
    for name in told.split():
        assert layout_of(name).terms, name
    for name in cldnn.REFUSED:
        with pytest.raises(UsageError, match="DV810") as error:
            layout_of(name)
        assert cldnn.REFUSED[name] in str(error.value)


def test_terms_are_those_of_the_specification_s_tables(shared: Path) -> None:
    text = (shared / "spec" / "cldnn.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9_]+)` \|[^|]*\|([^|]*)\| `([^`]+)` \|", text, re.MULTILINE)
    assert len(rows) == 66
    for name, blocks, terms in rows:
        for axis, fill in re.findall(r"([a-z])(\^[0-9]+)", blocks):
            terms = re.sub(rf"(^| ){axis}( |$)", rf"\g<1>{axis}{fill}\g<2>", terms)
        assert str(layout_of(name)).split(": ")[1] == terms, name


def expanded(text: str) -> list[str]:
    """Expands bs_fs_{yx,zyx}_bsv4[_more] to names."""
    found = re.search(r"\{([^{}]*)\}|\[([^]]*)\]", text)
    if found is None:
        return [text]
    choices = ["", found[2]] if found[1] is None else found[1].split(",")
    return [name for choice in choices for name in expanded(text[: found.start()] + choice + text[found.end() :])]


def test_every_name_in_the_specification_is_listed_or_refused(shared: Path) -> None:
    text = (shared / "spec" / "cldnn.md").read_text(encoding="utf-8")
    words = {name for code in re.findall("`([^`]+)`", text) for word in code.split() for name in expanded(word)}
    outer = "[bfgoivuwzyxs]+|image|winograd|lstm"
    names = {w for w in words if re.fullmatch(f"(?:{outer})(?:_{{1,2}}[a-z0-9]+)+", w)}
    names |= {w for w in words if len(w) > 3 and set(w) <= set(cldnn.LETTERS)}
    listed = {name for name in names if name in LAYOUTS and LAYOUTS[name].family == "cldnn"}
    assert len(listed) > 120
    # A wrong order, and spurious products of two pairs of braces.
    others = {"oixy", "is_os_yx_isa2_osa8_isv8_osv4", "is_os_yx_isa4_osa8_isv8_osv2"}
    assert names - listed - set(cldnn.REFUSED) == others


def test_formats_with_pairs_of_columns() -> None:
    layout = layout_of("iy_xs_os_xsv2_osv16__ao32")
    array = np.arange(1, 1 + 20 * 3 * 2 * 4, dtype=np.int32).reshape(20, 3, 2, 4)
    memory = (
        pack(array, layout).view(np.int32).reshape(3, 2, 2, 2, 2, 16)
    )  # i, y, pairs of x, slices of o, x of a pair, o
    assert memory.size == 32 * 3 * 2 * 4
    for o, i, y, x in np.ndindex(*array.shape):
        assert memory[i, y, x // 2, o // 16, x % 2, o % 16] == array[o, i, y, x]
    with pytest.raises(UsageError, match="needs x in whole slices of 2, not 3"):
        pack(array[..., :3], layout)


def test_images_are_rows_for_the_driver() -> None:
    image = np.arange(1, 1 + 3 * 2 * 5, dtype=np.uint8).reshape(1, 3, 2, 5)
    texels = pack(image, layout_of("image_2d_rgba")).reshape(2, 5, 4)
    np.testing.assert_array_equal(texels[..., :3], image[0].transpose(1, 2, 0))
    assert not texels[..., 3].any()
    weights = np.arange(1, 1 + 2 * 3 * 2 * 2, dtype=np.float16).reshape(2, 3, 2, 2)
    rows = pack(weights, layout_of("image_2d_weights_c1_b_fyx")).view(np.float16).reshape(12, 2)
    np.testing.assert_array_equal(rows, weights.reshape(2, 12).T)
    rows = pack(weights[:, :, :1, :1], layout_of("image_2d_weights_c4_fyx_b")).view(np.float16).reshape(2, 4)
    np.testing.assert_array_equal(rows, [[1, 5, 9, 0], [13, 17, 21, 0]])


def test_kernels_for_winograd_give_the_convolution() -> None:
    random = np.random.default_rng(0)
    kernels, row = random.integers(-8, 8, (3, 2, 3, 3)).astype(np.float32), random.integers(-8, 8, (2, 3, 4))
    transformed = cldnn.winograd_2x3(kernels)
    assert transformed.shape == (3, 2, 3, 4)
    a, b, c, d = row.transpose(2, 0, 1)
    sums = np.einsum("oiyt,tiy->ot", transformed, np.array([a - c, b + c, c - b, b - d]))
    wanted = [[np.sum(k * row[:, :, x : x + 3]) for x in range(2)] for k in kernels]
    np.testing.assert_array_equal(np.stack([sums[:, :3].sum(1), sums[:, 1] - sums[:, 2] - sums[:, 3]], axis=1), wanted)
    with pytest.raises(UsageError, match="DV811"):
        cldnn.winograd_2x3(kernels[:, :, :2])


def test_formats_with_wrong_device_formulas_are_errors() -> None:
    cldnn.check_shape(layout_of("gs_oi_yxs_gsv4_yxsv4"), (8, 1, 1, 3, 3))
    with pytest.raises(UsageError, match="DV812"):
        cldnn.check_shape(layout_of("gs_oi_yxs_gsv4_yxsv4"), (8, 2, 1, 3, 3))
