"""Generates docs/layouts.md and its pictures. The section on export at its end is written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from cnn_convertor.layouts import cldnn
from cnn_convertor.layouts.describe import describe, svg
from cnn_convertor.layouts.names import LAYOUTS, layout_of
from cnn_convertor.layouts.nvdla.alignment import alignments
from cnn_convertor.layouts.nvdla.memory_forms import FORMS, FULL, LARGE, SMALL
from cnn_convertor.layouts.nvdla.pixels import FORMATS


class Picture(NamedTuple):
    """A layout and a shape to draw."""

    name: str
    shape: tuple[int, ...]


class Section(NamedTuple):
    family: str
    title: str
    text: str
    pictures: tuple[Picture, ...]


PAGE: Final = Path(__file__).resolve().parents[2] / "docs/layouts.md"
EXPORT: Final = "## Export to other accelerators\n"
_HEAD = """# Memory layouts and export

`cnn-convertor layouts` describes and converts memory layouts; `cnn-convertor layouts export` [writes networks](#export-to-other-accelerators)
in them. The sections on layouts are generated from `cnn_convertor/layouts` by `python -m development.pages`.

A layout is a list of terms, outermost first. Each term is a digit of an axis: `c/16` counts slices of 16 channels, `c%16` the
channels of a slice, `h` whole rows.

| term | meaning |
|---|---|
| `c/8!` | the last, partial slice is not padded; without `!` it is padded with zeros |
| `x/2#` | partial slices are an error |
| `-x` | indices count from the end |
| `(yx)/4` | y and x are merged into one axis, x the fastest |
| `c^32` | the axis is padded to a multiple of 32 |
| `h@32` | the distance between neighbors is rounded up to a multiple of 32 bytes |
| `h=448` | the distance between neighbors is 448 bytes |
| `\\| float16 base=32 total=128` | element type, alignment of the first byte, alignment of the size |

The letters before the colon are the axes of the array, in its order. The digits of an axis must fit together, so no two
elements share an offset. In Python:

```python
from cnn_convertor.layouts import layout_of, nbytes, offset, pack, unpack

layout = layout_of("b_fs_yx_fsv16")             # or "NCHW16c", "whc8", "chw: c/16@32 h@32 w c%16 | float16"
memory = pack(array, layout)                    # an array of uint8; out=buffer writes into an existing buffer
array = unpack(memory, layout, shape, element="float16")
place = offset(layout, shape, index, element="float16")  # in bytes
```

On the command line, `.npy` files are arrays, other files are raw memory:

```text
cnn-convertor layouts list [FAMILY]                                   # plain, dv700, nvdla, bpu or cldnn
cnn-convertor layouts describe whc8 --shape 3,2,12 [-o FILE.svg]      # formula, size, first elements, a picture
cnn-convertor layouts pack --to NCHW16c x.npy x.bin                   # default: --from NCHW
cnn-convertor layouts unpack --from NCHW16c --shape 1,20,8,8 --element float32 x.bin y.npy
cnn-convertor layouts convert --from NCHW16c --to NHWC --shape 1,20,8,8 --element float32 x.bin z.bin
```

`--shape` is the shape of the input, in the order of its layout's axes; `--element` is its type, if the layout does not define
it.

In the pictures, the number before a row is an offset in bytes; a cell contains the element's index along the axes longer than
1; padding is gray.
"""

SECTIONS = (
    Section(
        "dv700",
        "DV700",
        "Channels come in chunks of 8; the last chunk is not padded. Maps of one pixel, or of up to 8 channels, are linear. "
        "`whc8` is the device's native order; with `transpose_weight = 1` maps are `hwc8`. The letter d is depth.",
        (Picture("whc8", (3, 2, 12)), Picture("hwc8", (3, 2, 12))),
    ),
    Section(
        "nvdla",
        "NVDLA",
        "Feature data consists of surfaces of one atom of channels; `features.feature_data` takes line and surface strides. Weights "
        "come in groups of kernels; the last group is smaller. `weights.transform` makes Winograd kernels, "
        "`weights.split_sets` the kernels of a deconvolution, `weights.compress` the three surfaces of sparse weights, which `weights.decompress` reads. SDP operands "
        "(bias, PReLU, element-wise) have as many elements per atom as its bytes in int8, else half as many, regardless of the element size; batch norm and "
        "two operands are pairs of addend and factor. Names without a configuration are those of nv_full; every function takes the `form` of another one "
        "(`memory_forms`).",
        (
            Picture("nvdla_feature_int16", (20, 2, 3)),
            Picture("nvdla_weight_int16", (18, 4, 1, 2)),
            Picture("nvdla_weight_image_post2_int16", (2, 3, 3, 2)),
        ),
    ),
    Section(
        "bpu",
        "Horizon BPU",
        "The contract is validShape, stride and alignedByteSize as the model reports them: `bpu.TensorProperties` packs and unpacks "
        "with these. `bpu.TensorQuantization` converts real values to a tensor's integers and back. `bpu.x3` implements the X3's rule; for other chips none is published. `bpu.NV12` is an image of two planes with "
        "rows aligned to 16 bytes (X3, X5, J5) or 32 (J6, S100). As one array of rows, Y then UV, (3 H / 2, W), it is "
        "`hw: h@16 w | uint8`.",
        (Picture("bpu_y16", (1, 3, 10, 1)),),
    ),
    Section(
        "cldnn",
        "clDNN",
        "Names follow Intel's GPU plugin: `fs` counts slices of f, `fsv16` is the 16 values of a slice, the innermost block of an "
        "axis is its lowest digit. Unlisted names of the same pattern work, too; the suffix `_rotate_180` reverses x and y. Use "
        "`cldnn.pack_bits` and `unpack_bits` for one-bit values (`32fp`, `isv32p`), `pack_nibbles` and `unpack_nibbles` for 4-bit values "
        "(`os_iyx_osv32`, `os_is_yx_osv32_isv2` and those of 64), and `winograd_2x3` for Winograd kernels. `check_shape` and "
        "`check_padding` refuse what the device computes wrongly. Images (`image_2d_...`) are described as passed to the driver, row by row; their "
        "layout in device memory is unknown.",
        (
            Picture("b_fs_yx_fsv4", (1, 6, 2, 3)),
            Picture("bs_fs_yx_bsv4_fsv2", (3, 3, 1, 2)),
            Picture("os_is_yx_isv8_osv16_isv2", (3, 4, 1, 1)),
        ),
    ),
    Section(
        "plain",
        "Plain and blocked arrays",
        "As in TVM, capital letters are axes; a number and a lower-case letter is a block. Lower-case letters alone (`nhwc`) have no "
        "blocks; a number after them (`hwc16`) chunks the last axis as the DV700 does.",
        (Picture("NCHW4c", (1, 6, 2, 2)),),
    ),
)


def page() -> str:
    """docs/layouts.md"""
    _, title, text = PAGE.read_text(encoding="utf-8").partition(EXPORT)
    return "\n".join([_HEAD, *map(_section, SECTIONS), title + text])


def pictures() -> dict[str, str]:
    """File name -> SVG, for docs/layouts/"""
    return {f"{p.name}.svg": svg(layout_of(p.name), p.shape) for section in SECTIONS for p in section.pictures}


def _section(section: Section) -> str:
    parts = [f"## {section.title}\n", section.text + "\n"]
    parts += [f"![{picture.name}](layouts/{picture.name}.svg)\n" for picture in section.pictures]
    first = section.pictures[0]
    parts.append(f"```text\n{describe(layout_of(first.name), first.shape, first=9)}```\n")
    rows = [
        f"| `{layout.name}` | `{_cell(str(layout))}` |"
        for family, layout in LAYOUTS.values()
        if family == section.family
    ]
    parts.append("\n".join(["| name | layout |", "|---|---|", *rows]) + "\n")
    if section.family == "nvdla":
        parts += [_forms(), _pixels(), _alignments()]
    if section.family == "cldnn":
        refused = [f"| `{name}` | {reason} |" for name, reason in cldnn.REFUSED.items()]
        parts.append("\n".join(["Unsupported formats:\n", "| name | reason |", "|---|---|", *refused]) + "\n")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _pixels() -> str:
    rows = [
        f"| {f.number} | `{f.name}` | {f} | {f.precision.value} | {', '.join(str(p.pixel_bytes) for p in f.planes)}"
        f" | 0 to {f.max_x_offset} |"
        for f in FORMATS.values()
    ]
    lead = (
        "Pixel formats: `pixels.pack_pixels` and `unpack_pixels`, which take x offsets and strides, or "
        "`layouts pack --from HWC --to T_A8B8G8R8`. `precision.Requantization` converts pixels as the device's input does: "
        "offset, scale and shift.\n"
    )
    head = "| number | name | fields in memory, lowest first | loaded as | bytes per pixel of each plane | x offset |"
    return "\n".join([lead, head, "|---|---|---|---|---|---|", *rows]) + "\n"


def _forms() -> str:
    lines = ["Configurations:\n"]
    lines += [
        "| configuration | layouts | atom, bytes | channels per block | kernels per group | entry, bytes | rows combined |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    for form in FORMS.values():
        counts = ", ".join(f"{count} ({precision.value})" for precision, count in form.kernels.items())
        named = f"`{form.named('...')}`" if form in (FULL, LARGE, SMALL) else "with `form` alone"
        lines.append(
            f"| nvdla-{form.name} | {named} | {form.atom} | {form.channels} | {counts} | {form.entry} | {form.rows} |"
        )
    lines.append(
        """
Which bytes differ from nv_full's:

- Features and SDP operands differ where the atom does: nv_small has 8 channels per atom where nv_full has 32 in int8. Those of
  nv_large are the same bytes.
- Weights differ where blocks or groups do: nv_small has blocks of 8 channels and groups of 8 kernels. Those of nv_large are in the
  same order; their size is a multiple of 64 bytes, not 128. nv_small needs a multiple of 8: with more, the next convolution
  reads its weights from the wrong place.
- Lines of pixels start at multiples of 32 bytes in every configuration, and only 8-bit pixels are usable beside nv_full. x offsets are those of
  nv_full.
- Only nv_full has Winograd kernels and compressed weights here, and only nv_full and nv_large combine rows of images.
"""
    )
    return "\n".join(lines)


def _alignments() -> str:
    lines = [
        "Alignments in bytes (`alignment.check_alignment`), of nv_full, nv_large and nv_small where they differ:\n"
    ]
    lines += ["| data | start | line | surface | cube | size |", "|---|---|---|---|---|---|"]
    rules = [alignments(form) for form in (FULL, LARGE, SMALL)]
    for kind in rules[0]:
        cells = []
        for values in zip(*(rule[kind] for rule in rules), strict=True):
            different = values if len(set(values)) > 1 else values[:1]
            cells.append("-" if values[0] == 1 else ", ".join(map(str, different)))
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
