"""Invalid arguments of every function of the layouts are errors with a reason, never silently wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import UsageError
from cnn_convertor.layouts import Layout, Term, bpu, cldnn, describe, layout_of, nbytes, offset, pack, svg, unpack
from cnn_convertor.layouts.layout import AxisPadding
from cnn_convertor.layouts.notation import parse
from cnn_convertor.layouts.nvdla import alignment, features, pixels, weights
from cnn_convertor.layouts.nvdla.precision import Precision, Requantization

BLOCKED = parse("chw: c/4 h w c%4")
TURNED = parse("chw: w h c")
INT8, FP16 = Precision.INT8, Precision.FP16
ARRAY = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
PIXELS, PLANES = pixels.FORMATS["T_A8B8G8R8"], pixels.FORMATS["T_Y8___U8V8_N444"]
COMPRESSED = weights.compress(np.ones((3, 4, 1, 1), np.int8), weights.direct(INT8))
SCALED = bpu.TensorQuantization(bpu.QuantiType.SCALE, scale=(0.5,))
PLAIN = bpu.TensorQuantization()
NIBBLES, BITS = layout_of("os_iyx_osv32"), layout_of("b_fs_yx_32fp")


def zeros(*shape: int, element: Any = np.int8) -> Any:
    return np.zeros(shape, element)


def numbers(value: Any, *shape: int) -> Any:
    return np.full(shape, value)


def shifts(*values: Any) -> bpu.TensorQuantization:
    return bpu.TensorQuantization(bpu.QuantiType.SHIFT, shift=values)


CASES: dict[str, tuple[Callable[[], object], str]] = {
    # shapes, indices, padding
    "half an element": (lambda: nbytes(BLOCKED, (1.5, 2, 2)), "DV802"),  # type: ignore[arg-type]
    "a letter for a size": (lambda: nbytes(BLOCKED, ("a", 1, 1)), "DV802"),  # type: ignore[arg-type]
    "one number for a shape": (lambda: nbytes(BLOCKED, 3), "DV802"),  # type: ignore[arg-type]
    "nothing to pack": (lambda: pack(zeros(0, 2, 2), BLOCKED), "DV802"),
    "no axes to pack": (lambda: pack(zeros(), BLOCKED), "DV802"),
    "an index in between": (lambda: offset(BLOCKED, (2, 3, 4), (0.5, 0, 0)), "DV802"),  # type: ignore[arg-type]
    "an index before the start": (lambda: offset(BLOCKED, (2, 3, 4), (-1, 0, 0)), "DV802"),
    "padding of one number": (lambda: nbytes(BLOCKED, (1, 1, 1), padding={"c": 3}), "DV802"),  # type: ignore[dict-item]
    "padding of three": (lambda: nbytes(BLOCKED, (1, 1, 1), padding={"c": (1, 2, 3)}), "DV802"),  # type: ignore[dict-item]
    "half of padding": (lambda: nbytes(BLOCKED, (1, 1, 1), padding={"c": AxisPadding(0.5, 0)}), "DV802"),  # type: ignore[arg-type]
    "unpacked of half": (lambda: unpack(bytes(90), BLOCKED, (1.0, 1, 1), element="i1"), "DV802"),  # type: ignore[arg-type]
    # elements
    "no element type": (lambda: unpack(bytes(90), BLOCKED, (1, 1, 1), element="nope"), "DV804"),
    "objects": (lambda: unpack(bytes(90), BLOCKED, (1, 1, 1), element="O"), "DV804"),
    "a layout of objects": (lambda: BLOCKED.of(object), "DV804"),
    "a layout of nothing known": (lambda: BLOCKED.of("nope"), "DV804"),
    "a description of nothing known": (lambda: describe(BLOCKED, (1, 1, 1), element="nope"), "DV804"),
    "masked": (lambda: pack(np.ma.masked_array(ARRAY, ARRAY > 3), BLOCKED), "DV804"),
    # buffers
    "a list to write to": (lambda: pack(ARRAY, BLOCKED, [1, 2]), "DV804"),
    "a text to write to": (lambda: pack(ARRAY, BLOCKED, "abc"), "DV804"),
    "objects to write to": (lambda: pack(ARRAY, BLOCKED, np.empty(400, object)), "DV804"),
    "gaps to write to": (lambda: pack(ARRAY, BLOCKED, zeros(200)[::2]), "DV804"),
    "columns to write to": (lambda: pack(ARRAY, BLOCKED, np.asfortranarray(zeros(10, 20))), "DV804"),
    "too few bytes to write to": (lambda: pack(ARRAY, BLOCKED, bytearray(95)), "DV804"),
    "a list to read": (lambda: unpack([1, 2], BLOCKED, (1, 1, 1), element="i1"), "DV804"),
    "nothing to read": (lambda: unpack(None, BLOCKED, (1, 1, 1), element="i1"), "DV804"),
    "a memory with gaps": (lambda: unpack(memoryview(bytes(90))[::2], BLOCKED, (1, 1, 1), element="i1"), "DV804"),
    "a list for an array": (lambda: unpack(bytes(90), BLOCKED, (1, 1, 1), element="i1", out=[1]), "DV804"),  # type: ignore[arg-type]
    "an array that cannot be written": (
        lambda: unpack(bytes(90), BLOCKED, (1, 1, 1), element="i1", out=np.broadcast_to(np.int8(0), (1, 1, 1))),
        "DV804",
    ),
    "more than memory has": (lambda: pack(zeros(1, 1), parse("h w@4000000000000000000")), "DV804"),
    "more than can be counted": (lambda: pack(zeros(1, 1), parse(f"h w^{1 << 70}")), "DV804"),
    # layouts
    "no axes": (lambda: Layout("", ()), "DV801"),
    "a term of no axis": (lambda: Layout("c", (Term(""), Term("c"))), "DV801"),
    "half a block": (lambda: Layout("c", (Term("c", 2), Term("c", 1, 2.0))), "DV801"),  # type: ignore[arg-type]
    "a picture of nothing": (lambda: svg(BLOCKED, (0, 1, 1)), "DV802"),
    "a block of one": (lambda: layout_of("c%1 c/16 c%16"), "DV801"),
    "a block of none": (lambda: Layout("c", (Term("c", 1), Term("c", 1, 0))), "DV801"),
    "two types": (lambda: layout_of("c | int8 int16"), "DV800"),
    "two alignments": (lambda: layout_of("c | base=7 base=8"), "DV800"),
    "big-endian": (lambda: layout_of("c | >i2"), "DV800"),
    "filled up to nothing": (lambda: layout_of("c^0"), "DV800"),
    "no x to turn": (lambda: layout_of("bf_rotate_180"), "DV800"),
    # BPU
    "a tensor without axes": (lambda: bpu.TensorProperties((), "U8", (), 1), "DV820"),
    "an empty tensor": (lambda: bpu.TensorProperties((0, 2), "U8", (2, 1), 4), "DV820"),
    "a tensor of less": (lambda: bpu.TensorProperties((-2, 2), "U8", (2, 1), 4), "DV820"),
    "half a stride": (lambda: bpu.TensorProperties((1, 2), "U8", (2.5, 1), 4), "DV802"),  # type: ignore[arg-type]
    "no rows": (lambda: bpu.plain((), "U8"), "DV820"),
    "empty rows": (lambda: bpu.plain((2, 0), "U8"), "DV820"),
    "rows aligned to nothing": (lambda: bpu.plain((2, 2), "U8", row_align=0), "DV820"),
    "rows of half elements": (lambda: bpu.plain((2, 2), "F32", row_align=3), "DV820"),
    "tensors aligned to nothing": (lambda: bpu.plain((2, 2), "U8", total_align=0), "DV820"),
    "an integer for NaN": (lambda: SCALED.quantize(numbers(np.nan, 2), np.int8), "DV820"),
    "quantized to real numbers": (lambda: SCALED.quantize(numbers(1.0, 2), np.float32), "DV820"),
    "too large without a scale": (lambda: PLAIN.quantize(numbers(300.0, 2), np.int8), "DV820"),
    "parts without a scale": (lambda: PLAIN.quantize(numbers(1.5, 2), np.int8), "DV820"),
    "a shift to the left": (lambda: shifts(-3).check((1,)), "DV820"),
    "a shift of more than a byte": (lambda: shifts(256).check((1,)), "DV820"),
    "half a shift": (lambda: shifts(1.5).check((1,)), "DV820"),
    "an image of another shape": (
        lambda: bpu.NV12(4, 4).pack(zeros(2, 8, element=np.uint8), zeros(2, 2, 2, element=np.uint8)),
        "DV821",
    ),
    "colors of another shape": (
        lambda: bpu.NV12(4, 4).pack(zeros(4, 4, element=np.uint8), zeros(4, 2, element=np.uint8)),
        "DV821",
    ),
    "a list for an image": (lambda: bpu.NV12(4, 4).unpack([1, 2]), "DV804"),
    "half an image": (lambda: bpu.NV12(4, 4).unpack(bytes(95)), "DV804"),
    # NVDLA
    "operands of 4 bytes": (lambda: features.operand(INT8, data_size=4), "DV832"),
    "three operands": (lambda: features.operand(INT8, data_size=1, operands=3), "DV832"),
    "Winograd of three axes": (lambda: weights.transform(zeros(1, 3, 3), FP16), "DV833"),
    "Winograd of NaN": (lambda: weights.transform(numbers(np.nan, 1, 1, 3, 3), INT8), "DV833"),
    "Winograd beyond FP16": (lambda: weights.transform(numbers(1e6, 1, 1, 3, 3), FP16), "DV833"),
    "sets of three axes": (lambda: weights.split_sets(zeros(1, 3, 3), stride_y=1, stride_x=1), "DV833"),
    "other weights compressed": (
        lambda: weights.compress(zeros(1, 1, 1, 1, element=np.float16), parse("kcrs: k c r s | float16")),
        "DV834",
    ),
    "weights of any type compressed": (lambda: weights.compress(zeros(1, 1, 1, 1), parse("kcrs: k c r s")), "DV834"),
    "maps compressed": (
        lambda: weights.compress(zeros(1, 1, 1, element=np.float16), features.feature_data(FP16)),
        "DV834",
    ),
    "less than nothing decompressed": (lambda: weights.decompress(COMPRESSED, -3, INT8), "DV834"),
    "half a weight decompressed": (
        lambda: weights.decompress(replace(COMPRESSED, weights=zeros(3)), 0, FP16),
        "DV834",
    ),
    "half a group size": (lambda: weights.decompress(replace(COMPRESSED, group_sizes=zeros(3)), 0, FP16), "DV834"),
    "alignment of anything": (lambda: alignment.check_alignment("sound", start=32), "DV836"),
    "a start before the start": (lambda: alignment.check_alignment("feature", start=-32), "DV836"),
    "pixels in a row": (lambda: pixels.pack_pixels(zeros(2, element=np.uint8), PIXELS), "DV835"),
    "a stride for two planes": (
        lambda: pixels.pack_pixels(zeros(2, 2, 3, element=np.uint8), PLANES, strides=[32]),
        "DV835",
    ),
    "a buffer for two planes": (
        lambda: pixels.pack_pixels(zeros(2, 2, 3, element=np.uint8), PLANES, out=[bytearray(64)]),
        "DV835",
    ),
    "one plane of two": (lambda: pixels.unpack_pixels([bytes(64)], PLANES, 2, 2), "DV835"),
    "an image of less than no lines": (lambda: pixels.unpack_pixels([bytes(64)], PIXELS, -2, 2), "DV835"),
    "offsets for other channels": (lambda: Requantization(offset=(1, 2)).apply(zeros(2, 3), INT8), "DV830"),
    "half a scale": (lambda: Requantization(scale=1.5).apply(zeros(2), INT8), "DV830"),  # type: ignore[arg-type]
    # clDNN
    "half a bit": (lambda: cldnn.pack_bits(numbers(0.5, 1, 1, 1, 1), BITS), "DV811"),
    "NaN in a bit": (lambda: cldnn.pack_bits(numbers(np.nan, 1, 1, 1, 1), BITS), "DV811"),
    "many in a bit": (lambda: cldnn.pack_bits(numbers(7, 1, 1, 1, 1), BITS), "DV811"),
    "a list of bits": (lambda: cldnn.unpack_bits([1], BITS, (1, 1, 1, 1)), "DV804"),
    "too few bits": (lambda: cldnn.unpack_bits(bytes(3), BITS, (1, 1, 1, 1)), "DV804"),
    "a list of pairs": (lambda: cldnn.unpack_nibbles([1], NIBBLES, (32, 1, 1, 1)), "DV804"),
    "too few pairs": (lambda: cldnn.unpack_nibbles(bytes(15), NIBBLES, (32, 1, 1, 1)), "DV804"),
    "parts in 4 bits": (lambda: cldnn.pack_nibbles(numbers(1.5, 32, 1, 1, 1), NIBBLES), "DV811"),
    "truth in 4 bits": (lambda: cldnn.pack_nibbles(numbers(True, 32, 1, 1, 1), NIBBLES), "DV811"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", CASES)
def test_odd_inputs_are_errors(case: str) -> None:
    call, code = CASES[case]
    with pytest.raises(UsageError, match=code):
        call()


def test_arrays_may_overlap_the_output() -> None:
    memory = np.arange(64 * 64 * 8, dtype=np.int16)
    array = memory.reshape(8, 64, 64)
    expected = array.copy()
    pack(array, TURNED, memory)
    np.testing.assert_array_equal(unpack(memory, TURNED, (8, 64, 64), element=np.int16), expected)
    np.testing.assert_array_equal(unpack(memory, TURNED, (8, 64, 64), element=np.int16, out=array), expected)


def test_sizes_may_be_any_integer_type() -> None:
    counted: tuple[Any, ...] = (np.int64(5), np.int8(100), np.uint8(200))
    assert type(nbytes(BLOCKED, counted, element=np.int16)) is int
    assert nbytes(BLOCKED, (1 << 40, 1 << 40, 1 << 40)) == 1 << 120


def test_quantization_clips_to_64_bits() -> None:
    (largest,) = SCALED.quantize(numbers(1e30, 1), np.int64)
    assert 0 < np.iinfo(np.int64).max - largest < 1024
