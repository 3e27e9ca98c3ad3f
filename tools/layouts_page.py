"""The manual's page of memory layouts with its pictures, made from the layouts themselves."""

from __future__ import annotations

from typing import NamedTuple

from cnn_convertor.layouts import cldnn
from cnn_convertor.layouts.describe import describe, svg
from cnn_convertor.layouts.names import ENTRIES, layout_of
from cnn_convertor.layouts.nvdla.alignment import ALIGNMENTS
from cnn_convertor.layouts.nvdla.pixels import FORMATS


class Picture(NamedTuple):
    """A layout, and an array small enough to be drawn."""

    name: str
    shape: tuple[int, ...]


class Section(NamedTuple):
    family: str
    title: str
    text: str
    pictures: tuple[Picture, ...]


_HEAD = """# Memory layouts

Made from `cnn_convertor/layouts`; `pytest --update-golden tests/layouts` writes it anew.

A layout is a list of terms, outermost first. Each term is a digit of an axis: `c/16` counts slices of 16 channels, `c%16` the
channels of a slice, `h` whole rows. What a term stands for lies closer together the further right the term is.

| written | means |
|---|---|
| `c/8!` | the last, partial slice is stored as narrow as it is; without `!` it is filled up with zeros |
| `x/2#` | there is no partial slice: an axis that has one is refused |
| `-x` | the axis is counted from its end |
| `(yx)/4` | y and x are counted as one axis, x the fastest |
| `c^32` | the axis is filled up to a multiple of 32 |
| `h@32` | neighbors lie a multiple of 32 bytes apart |
| `h=448` | neighbors lie 448 bytes apart |
| `\\| float16 base=32 total=128` | the type of the elements; what the first address and the size are multiples of |

The letters before the colon are the axes of the array, in its own order. The digits of an axis must fit each other, so no two
elements can ever share a place. In Python:

```python
from cnn_convertor.layouts import layout_of, nbytes, offset, pack, unpack

layout = layout_of("b_fs_yx_fsv16")             # or "NCHW16c", "whc8", "chw: c/16@32 h@32 w c%16 | float16"
memory = pack(array, layout)                    # an array of uint8; out=buffer writes into a buffer of yours
array = unpack(memory, layout, shape, element="float16")
place = offset(layout, shape, index, element="float16")  # in bytes
```

On the command line, where `.npy` files hold arrays and others bare memory:

```text
convertor.py layout list [FAMILY]                                    # plain, dv700, nvdla, bpu or cldnn
convertor.py layout describe whc8 --shape 3,2,12 [--svg FILE.svg]    # formula, size, first elements, a picture
convertor.py layout pack --to NCHW16c x.npy x.bin                    # --from NCHW unless told otherwise
convertor.py layout unpack --from NCHW16c --shape 1,20,8,8 --element float32 x.bin y.npy
convertor.py layout convert --from NCHW16c --to NHWC --shape 1,20,8,8 --element float32 x.bin z.bin
```

`--shape` is that of the input, in the order of its layout's axes; `--element` is its type, where the layout does not say it.

In the pictures a row is what lies together, the number before it an offset in bytes, the numbers in a cell the element's index
along the axes that are longer than 1, gray what is filled up.
"""

SECTIONS = (
    Section(
        "dv700",
        "DV700",
        "Channels lie in chunks of 8, of which the last one is narrow. A map of one pixel, or of up to 8 channels, is linear. "
        "`whc8` is the device's own order; with `transpose_weight = 1` maps are `hwc8`. The letter d is depth.",
        (Picture("whc8", (3, 2, 12)), Picture("hwc8", (3, 2, 12))),
    ),
    Section(
        "nvdla",
        "NVDLA",
        "Feature data lies in surfaces of 32 bytes of channels; `features.feature_data` takes strides of lines and surfaces. Weights "
        "lie in groups of 32 kernels (int8) or 16, of which the last one is smaller. `weights.transform` makes Winograd's kernels, "
        "`weights.split_sets` those of a deconvolution, `weights.compress` the three surfaces of sparse weights. Operands of the SDP "
        "(bias, PReLU, element-wise) have atoms of 32 elements in int8 and 16 otherwise, whatever the elements' size; batch norm and "
        "two operands are pairs of what is added and what is multiplied.",
        (
            Picture("nvdla_feature_int16", (20, 2, 3)),
            Picture("nvdla_weight_int16", (18, 4, 1, 2)),
            Picture("nvdla_weight_image_post2_int16", (2, 3, 3, 2)),
        ),
    ),
    Section(
        "bpu",
        "Horizon BPU",
        "The contract is validShape, stride and alignedByteSize as the model reports them: `bpu.TensorProperties` packs with these and "
        "takes the alignment away again. `bpu.x3` has the rule of the X3; for other chips none is published. `bpu.NV12` is an image "
        "of two planes, rows of both aligned to 16 bytes (X3, X5, J5) or 32 (J6, S100). As one array of rows, Y and behind them UV, "
        "(3 H / 2, W), it is `hw: h@16 w | uint8`.",
        (Picture("bpu_y16", (1, 3, 10, 1)),),
    ),
    Section(
        "cldnn",
        "clDNN",
        "Names as Intel's GPU plugin has them: `fs` counts slices of f, `fsv16` is the 16 values of a slice, the innermost block of an "
        "axis is its lowest digit. Names of the same pattern that are not listed are read, too, `_rotate_180` behind a name turns x "
        "and y around. Values of one bit (`32fp`, `isv32p`) and 4 bits (`os_iyx_osv32`, `os_is_yx_osv32_isv2` and those of 64) go through "
        "`cldnn.pack_bits` and `cldnn.pack_nibbles`. Images (`image_2d_...`) are what is handed to the driver, row by row: how they lie in "
        "their own memory, only the driver knows.",
        (
            Picture("b_fs_yx_fsv4", (1, 6, 2, 3)),
            Picture("bs_fs_yx_bsv4_fsv2", (3, 3, 1, 2)),
            Picture("os_is_yx_isv8_osv16_isv2", (3, 4, 1, 1)),
        ),
    ),
    Section(
        "plain",
        "Plain and blocked arrays",
        "Capital letters are axes, a number and a small letter is a block, as in TVM. Small letters alone (`nhwc`) have no blocks; a "
        "number behind them (`hwc16`) chunks the last axis as the DV700 does.",
        (Picture("NCHW4c", (1, 6, 2, 2)),),
    ),
)


def page() -> str:
    """docs/layouts.md"""
    return "\n".join([_HEAD, *map(_section, SECTIONS)])


def pictures() -> dict[str, str]:
    """File name -> SVG, for docs/layouts/"""
    return {f"{p.name}.svg": svg(layout_of(p.name), p.shape) for section in SECTIONS for p in section.pictures}


def _section(section: Section) -> str:
    parts = [f"## {section.title}\n", section.text + "\n"]
    parts += [f"![{picture.name}](layouts/{picture.name}.svg)\n" for picture in section.pictures]
    first = section.pictures[0]
    parts.append(f"```text\n{describe(layout_of(first.name), first.shape, first=9)}```\n")
    rows = [
        f"| `{entry.name}` | `{_cell(str(entry.make()))}` |"
        for entry in ENTRIES.values()
        if entry.family == section.family
    ]
    parts.append("\n".join(["| name | layout |", "|---|---|", *rows]) + "\n")
    if section.family == "nvdla":
        parts += [_pixels(), _alignments()]
    if section.family == "cldnn":
        refused = [f"| `{name}` | {reason} |" for name, reason in cldnn.REFUSED.items()]
        parts.append("\n".join(["Refused, with the reason:\n", "| name | reason |", "|---|---|", *refused]) + "\n")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _pixels() -> str:
    rows = [
        f"| {f.number} | `{f.name}` | {f} | {f.precision.value} | {', '.join(str(p.pixel_bytes) for p in f.planes)}"
        f" | 0 to {f.max_x_offset} |"
        for f in FORMATS.values()
    ]
    head = [
        "Pixel formats: `pixels.pack_pixels`, which takes x offsets and strides, or `layout pack --from HWC --to T_A8B8G8R8`.\n",
        "| number | name | fields in memory, lowest first | loaded as | bytes a pixel, each plane | x offset |",
    ]
    return "\n".join([*head, "|---|---|---|---|---|---|", *rows]) + "\n"


def _alignments() -> str:
    rows = [f"| {kind} | {' | '.join(str(n) if n > 1 else '-' for n in rule)} |" for kind, rule in ALIGNMENTS.items()]
    head = ["Alignments in bytes (`alignment.check_alignment`):\n", "| data | start | line | surface | cube | size |"]
    return "\n".join([*head, "|---|---|---|---|---|---|", *rows]) + "\n"
