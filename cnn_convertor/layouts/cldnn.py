"""clDNN's memory formats (Intel's GPU plugin), parsed from their names.

`b_fs_yx_fsv16`: outer section, then inner section. `fs` counts slices of f, `fsv16` the 16 values of a slice; `isa8` is a
coarser block of an axis that also has an `isv`; the innermost block of an axis is its lowest digit. `__ai32` pads an axis
without a block, `_rotate_180` stores x and y reversed. Source: the device's own index formulas.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cnn_convertor.layouts.layout import Layout, Paddings, nbytes, refuse
from cnn_convertor.layouts.notation import blocked, natural_axes, parse, wrong_at
from cnn_convertor.layouts.packing import bytes_of, pack, unpack
from cnn_convertor.layouts.winograd import transformed

LETTERS = "bfgoivuwzyx"

_DATA = (
    "bfyx byxf yxfb fyxb fbyx fybx xbfy ybfx byfx bxfy bfzyx bzyxf bfwzyx bfuwzyx bfvuwzyx "
    "b_fs_yx_fsv2 b_fs_yx_fsv4 b_fs_yx_fsv8 b_fs_yx_fsv16 b_fs_yx_fsv32 "
    "b_fs_zyx_fsv2 b_fs_zyx_fsv4 b_fs_zyx_fsv8 b_fs_zyx_fsv16 b_fs_zyx_fsv32 fs_b_yx_fsv32 "
    "bs_fs_yx_bsv16_fsv16 bs_fs_yx_bsv16_fsv32 bs_fs_yx_bsv32_fsv32 bs_fs_yx_bsv32_fsv16 "
    "bs_fs_yx_bsv4_fsv4 bs_fs_yx_bsv8_fsv4 bs_fs_yx_bsv4_fsv2 bs_fs_yx_bsv8_fsv2 "
    "bs_fs_yx_bsv16_fsv2 bs_fs_yx_bsv16_fsv4 bs_fs_yx_bsv16_fsv8 "
    "bs_fs_zyx_bsv16_fsv2 bs_fs_zyx_bsv16_fsv4 bs_fs_zyx_bsv16_fsv8 "
    "bs_fs_zyx_bsv4_fsv2 bs_fs_zyx_bsv4_fsv4 bs_fs_zyx_bsv8_fsv2 bs_fs_zyx_bsv8_fsv4 "
    "bs_fs_zyx_bsv16_fsv16 bs_fs_zyx_bsv16_fsv32 bs_fs_zyx_bsv32_fsv16 bs_fs_zyx_bsv32_fsv32 "
    "bs_fs_fsv8_bsv8 bs_fs_fsv8_bsv16 bs_f_bsv16 bs_f_bsv8__af8"
)
DATA = tuple(_DATA.split())

_WEIGHTS = (
    "oiyx ioyx yxio iyxo oyxi oizyx goiyx gioyx gyxio "
    "os_iyx_osv16 os_iyx_osv32 o_is_yx_isv16 os_zyxi_osv16 g_os_iyx_osv16 gs_oiyx_gsv16 gs_oiyx_gsv32 "
    "os_is_yx_isv16_osv16 os_is_yx_osv16_isv16 is_os_yx_isv16_osv16 os_is_yx_osv8_isv4 os_is_yx_osv16_isv4 "
    "os_is_yx_osv32_isv4 os_is_zyx_isv16_osv16 os_is_zyx_osv16_isv16 os_is_zyx_osv32_isv16 os_is_zyx_osv64_isv16 "
    "os_is_zyx_osv32_isv4 is_os_zyx_isv16_osv16 "
    "g_os_is_yx_isv16_osv16 g_os_is_zyx_isv16_osv16 g_is_os_yx_isv16_osv16 g_is_os_zyx_isv16_osv16 "
    "g_os_is_yx_osv16_isv4 g_os_is_zyx_osv16_isv16 "
    "g_os_zyx_is_osv16_isv4 g_os_zyx_is_osv16_isv16 g_os_zyx_is_osv16_isv32 "
    "g_os_zyx_is_osv32_isv4 g_os_zyx_is_osv32_isv16 g_os_zyx_is_osv32_isv32 "
    "os_is_yx_isv8_osv16_isv2 os_is_zyx_isv8_osv16_isv2 g_os_is_yx_isv8_osv16_isv2 g_os_is_zyx_isv8_osv16_isv2 "
    "os_is_yx_isa8_osv8_isv4 os_is_yx_isa8_osv16_isv4 os_is_zyx_isa8_osv8_isv4 os_is_zyx_isa8_osv16_isv4 "
    "os_is_yx_osa4_isa8_osv8_isv4 os_is_zyx_osa4_isa8_osv8_isv4 os_is_yx_osa4_isa8_osv8_isv2 "
    "os_is_zyx_osa4_isa8_osv8_isv2 os_is_yx_osa2_isa8_osv8_isv2 "
    "is_os_yx_isa8_osv8_isv2 is_os_yx_isa8_osv8_isv4 is_os_yx_isa2_osa8_isv8_osv2 is_os_yx_isa4_osa8_isv8_osv4 "
    "is_os_yx_osa4_isa8_osv8_isv4 is_os_yx_osa8_isv16_osv4 "
    "os_iyx_osv64 os_is_yx_osv32_isv2 os_is_yx_osv64_isv2 os_iyx_osv32__ai32 os_i_osv8__ai8 os_i_osv16 os_i_osv16__ai8 "
    "os_i_yxs_osv4_yxsv4 gs_oi_yxs_gsv4_yxsv4 gs_oi_yxs_gsv16_yxsv4 gs_oi_yxs_gsv32_yxsv4 i_yxs_os_yxsv2_osv16"
)
WEIGHTS = tuple(_WEIGHTS.split())

# Formats whose names do not define the layout.
SPECIAL = {
    "os_is_yx_osa4_isa8_osv8_isv4_swizzled_by_4": "oiyx: o/32 i/32 y x o%4 i/4%8 o/4%8 i%4",
    "os_is_yx_osv32_isv4_swizzled_by_2": "oiyx: o/32 i/4 y x o%2 o/2%16 i%4",
    "os_is_osv32_isv32_swizzled_by_4": "oi: o/32 i/32 o%4 i/4%8 o/4%8 i%4",
    "is_o32_yx_isv32_swizzled_by_4": "oiyx: i/32 o/32 o%4 o/4%8 y x i%32",
    # All axes after b are merged.
    "bs_x_bsv16": "bfyx: b/16 (fyx) b%16",
    "bs_xs_xsv8_bsv8": "bfyx: b/8 (fyx)/8 (fyx)%8 b%8",
    "lstm_weights_dio": "dio: d i o",
    "winograd_2x3_s1_data": "bfyx: b x y f",
}

# Pairs of x between slices of o. For odd x the slices are 32 or 64 wide, with an undocumented order.
SPECIAL |= {f"iy_xs_os_xsv2_osv{n}__ao32": f"oiyx: i y x/2# o/{n}^32 x%2 o%{n}" for n in (8, 16)} | {
    f"giy_xs_os_xsv2_osv{n}__ao32": f"goiyx: g i y x/2# o/{n}^32 x%2 o%{n}" for n in (8, 16)
}

# One bit per value, 32-bit words, lowest bit first.
BITS = {"b_fs_yx_32fp": "bfyx: b f/32 y x f%32", "os_is_yx_osv32_isv32p": "oiyx: o/32 i/32 y x o%32 i%32"}

# Images as passed to the driver, row by row; their layout in device memory is unknown. Texels of one number or four; the row
# pitch is the distance of the first term.
IMAGES = {
    "image_2d_rgba": "bfyx: b y x f^4",
    "image_2d_weights_c4_fyx_b": "oiyx: o (iyx)^4",
    "image_2d_weights_c1_b_fyx": "oiyx: (iyx) o",
}

_WINOGRAD = "the tables of host and device contradict each other: one of them swaps oiyx and xyio"
_X8 = "x is padded to 8, o to 8, i to 4, in an undocumented order"
_IMAGE = "the driver chooses the layout, and the order of its rows is undocumented"
REFUSED = {
    "is_o_yx_isv32": "its name means i/32 o y x i%32, but the only table with it has o y x i/32 i%32",
    "os_is_y_x8_osv8_isv4": _X8,
    "os_is_y_x8_osv8_isv4_swizzled_by_4": _X8,
    "image_2d_weights_winograd_6x3_s1_fbxyb": _IMAGE,
    "image_2d_weights_winograd_6x3_s1_xfbyb": _IMAGE,
    "nv12": "its two planes are of different sizes: layouts.bpu.NV12 packs both",
    "winograd_2x3_s1_weights": _WINOGRAD,
    "winograd_2x3_s1_fused_weights": _WINOGRAD,
    "winograd_6x3_s1_fused_weights": _WINOGRAD,
    "custom": "each tensor has its own order: write it as text",
}
_HINTS = {_WINOGRAD: 'cldnn.winograd_2x3 and the order of your device, "oiyx: o i y x" or "oiyx: x y i o"'}


def format_of(name: str) -> Layout:
    """The layout of a format. Raises UsageError that points at the offending letter."""
    if name in REFUSED:
        reason = REFUSED[name]
        refuse("DV810", f'the format "{name}" has no known layout: {reason}', _HINTS.get(reason, ""))
    text = SPECIAL.get(name) or BITS.get(name) or IMAGES.get(name)
    layout = parse(text) if text is not None else _of_parts(name)
    return Layout(layout.axes, layout.terms, name=name)


def _of_parts(name: str) -> Layout:
    body, _, rotation = name.partition("_rotate_")
    body, mark, padding = body.partition("__")
    if rotation:
        _check_rotation(name, f"{body}{mark}{padding}", rotation)
    fill = re.fullmatch(f"a([{LETTERS}])(0*[1-9][0-9]*)", padding)
    if mark and fill is None:
        wrong_at(name, len(body) + 2, "expected the padding of an axis, like ai32")
    outer, inner = _parts(name, body)
    _check_axes(name, outer, inner)
    axes = [axis for axis, _, _ in outer]
    if fill and fill[1] not in "".join(axes):
        wrong_at(name, len(body) + 3, f'there is no axis "{fill[1]}"')
    terms = blocked(axes, [(axis, size) for axis, size, _ in inner])
    for index, term in enumerate(terms[: len(outer)]):
        align = int(fill[2]) if fill and fill[1] == term.axis else 1
        terms[index] = replace(term, flip=bool(rotation) and term.axis in ("x", "y"), extent_align=align)
    return Layout(natural_axes(terms), tuple(terms))


def _check_rotation(name: str, rotated: str, angle: str) -> None:
    if not set(rotated) & {"x", "y"}:
        wrong_at(name, len(rotated), "there is no x or y to rotate")
    if angle != "180":
        wrong_at(name, len(rotated) + len("_rotate_"), "the only rotation is 180")


def _check_axes(name: str, outer: Sequence[tuple[str, bool, int]], inner: Sequence[tuple[str, int, int]]) -> None:
    """Each axis appears once, and has blocks if, and only if, it counts slices. Parameters: as from `_parts`."""
    with_blocks = {axis for axis, _, _ in inner}
    letters = ""
    for axis, counts_slices, at in outer:
        if duplicate := next((letter for letter in axis if letter in letters), ""):
            wrong_at(name, at, f'duplicate axis "{duplicate}"')
        letters += axis
        if counts_slices and axis not in with_blocks:
            wrong_at(name, at, f'"{axis}s" counts slices, but {axis}svN is missing')
        if not counts_slices and axis in with_blocks:
            wrong_at(name, at, f'"{axis}" has blocks: expected {axis}s')
    for axis, _, at in inner:
        if axis not in {other for other, _, _ in outer}:
            wrong_at(name, at, f'blocks of "{axis}" without {axis}s')


def _parts(name: str, body: str) -> tuple[list[tuple[str, bool, int]], list[tuple[str, int, int]]]:
    """The axes, and whether each counts slices; the blocks of axes, and their sizes. All with their positions in the name."""
    outer: list[tuple[str, bool, int]] = []
    inner: list[tuple[str, int, int]] = []
    at = 0
    for part in body.split("_"):
        rest = part.lstrip(LETTERS)
        axes = part.removesuffix(rest)
        end = at + len(axes)
        if not axes:
            wrong_at(name, at, f"expected an axis, one of {' '.join(LETTERS)}")
        if rest[:2] in ("sv", "sa"):
            digits = re.match("[0-9]*", rest[2:], re.ASCII)
            assert digits is not None
            if digits[0] != rest[2:] or int(digits[0] or 0) < 2:
                wrong_at(name, end + 2 + digits.end(), "expected the block size, 2 or more")
            inner.append((axes, int(digits[0]), at))
        elif rest not in ("", "s"):
            wrong_at(name, end + rest.startswith("s"), "expected s, svN, saN or the end of this part")
        elif inner:
            wrong_at(name, at, "slices and axes precede blocks")
        else:
            outer += [(axes, True, at)] if rest else [(letter, False, at + i) for i, letter in enumerate(axes)]
        at += len(part) + 1
    return outer, inner


# --- values of less than a byte ------------------------------------------------------------------------------------------


def pack_bits(array: npt.NDArray[np.bool_], layout: Layout) -> npt.NDArray[np.uint8]:
    """One bit per value in 32-bit words, lowest bit first."""
    if not np.isin(array, (0, 1)).all():
        refuse("DV811", f"a bit is 0 or 1, not {np.setdiff1d(array, (0, 1))[0]}")
    bits = np.packbits(pack(array.astype(np.bool_), layout), bitorder="little")
    return np.pad(bits, (0, -bits.size % 4))


def unpack_bits(data: Any, layout: Layout, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    words = -(-nbytes(layout, shape) // 32)
    bits = np.unpackbits(bytes_of(data, 4 * words), bitorder="little")
    return unpack(bits, layout, shape, element=np.uint8).astype(np.bool_)


def pack_nibbles(array: npt.NDArray[np.int8], layout: Layout) -> npt.NDArray[np.uint8]:
    """Two 4-bit values per byte, the first in the low half. Raises UsageError for values beyond 4 bits."""
    if array.dtype.kind not in "iu":
        refuse("DV811", f"4-bit values are integers, not {array.dtype}")
    low, high = (-8, 7) if array.dtype.kind == "i" else (0, 15)
    if array.size and not (low <= array.min() and array.max() <= high):
        refuse("DV811", f"4-bit values are {low} to {high}, not {array.min()} to {array.max()}")
    values = pack(array.astype(np.int8 if array.dtype.kind == "i" else np.uint8), layout) & 15
    values = np.pad(values, (0, values.size % 2))
    return (values[0::2] | values[1::2] << 4).view(np.uint8)


def unpack_nibbles(
    data: Any, layout: Layout, shape: tuple[int, ...], *, signed: bool = True
) -> npt.NDArray[np.int8] | npt.NDArray[np.uint8]:
    pairs = bytes_of(data, -(-nbytes(layout, shape) // 2))
    values = np.stack([pairs & 15, pairs >> 4], axis=1).reshape(-1)
    array = unpack(values, layout, shape, element=np.uint8)
    return ((array ^ 8).astype(np.int8) - 8).astype(np.int8) if signed else array


# --- peculiarities of the device -----------------------------------------------------------------------------------------


def winograd_2x3(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Winograd kernels: (O, I, 3, 3) -> (O, I, 3, 4); rows are transformed, columns are not."""
    if weights.ndim != 4 or weights.shape[2:] != (3, 3):
        refuse("DV811", f"Winograd 2x3 needs 3x3 kernels, not an array of {'x'.join(map(str, weights.shape))}")
    return transformed(weights.astype(np.float32), 3)


def check_shape(layout: Layout, shape: Sequence[int]) -> None:
    """Raise UsageError for shapes that the device's own index formula gets wrong."""
    size = dict(zip(layout.axes, shape, strict=False))  # packing checks the number of axes
    if layout.name.startswith("gs_oi_yxs_gsv") and {"o", "i"} <= set(size) and (size["o"], size["i"]) != (1, 1):
        reason = f'the device supports "{layout.name}" only for o = i = 1, not {size["o"]} and {size["i"]}'
        refuse("DV812", reason, "goiyx, or another format with g")


def check_padding(layout: Layout, padding: Paddings) -> None:
    """Raise UsageError for batch padding that the device's index formula ignores."""
    if any(padding.get("b", (0, 0))) and layout.name.startswith(("bs_fs_", "fs_b_", "b_fs_zyx_")):
        refuse("DV812", f'the device ignores batch padding in "{layout.name}"', "no padding of b")
