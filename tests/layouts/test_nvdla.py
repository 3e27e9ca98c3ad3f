"""NVDLA's formats compared with the vendor's software and hardware model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import UsageError
from cnn_convertor.layouts.layout import Layout, nbytes
from cnn_convertor.layouts.nvdla import alignment, features, pixels, weights
from cnn_convertor.layouts.nvdla.memory_forms import FULL, LARGE, SMALL
from cnn_convertor.layouts.nvdla.precision import Precision, Requantization
from cnn_convertor.layouts.packing import pack, unpack

PRECISIONS = {"int8": Precision.INT8, "int16": Precision.INT16, "fp16": Precision.FP16}
Arrays = Any


def same(memory: Any, expected: Any) -> None:
    assert np.asarray(memory).tobytes() == np.asarray(expected).tobytes()


def both_ways(array: Any, layout: Layout, expected: Any) -> None:
    same(pack(array, layout), expected)
    np.testing.assert_array_equal(unpack(expected, layout, array.shape), array)


def check_feature(params: dict[str, Any], arrays: Arrays) -> None:
    strides = {"line_stride": params["line_stride"], "surface_stride": params["surface_stride"]}
    both_ways(arrays["data_chw"], features.feature_data(PRECISIONS[params["precision"]], **strides), arrays["expected"])


def check_operand(params: dict[str, Any], arrays: Arrays) -> None:
    processing = PRECISIONS[params["proc_precision"]]
    layout = features.operand(processing, data_size=params["data_size"])
    both_ways(arrays["data_chw"], layout, arrays["expected"])


def check_batch_norm(params: dict[str, Any], arrays: Arrays) -> None:
    values = np.stack([arrays["alu"], arrays["mul"]])
    layout = features.operand(PRECISIONS[params["proc_precision"]], data_size=values.dtype.itemsize, operands=2)
    both_ways(values.reshape(*values.shape, 1, 1), layout, arrays["expected"])


def check_two_operands(params: dict[str, Any], arrays: Arrays) -> None:
    layout = features.operand(
        PRECISIONS[params["proc_precision"]],
        data_size=params["data_size"],
        operands=2,
        line_stride=params["line_stride"],
        surface_stride=params["surface_stride"],
    )
    both_ways(np.stack([arrays["alu_chw"], arrays["mul_chw"]]), layout, arrays["expected"])


def check_direct(params: dict[str, Any], arrays: Arrays) -> None:
    both_ways(arrays["weights_kcrs"], weights.direct(PRECISIONS[params["precision"]]), arrays["expected"])


def check_image(params: dict[str, Any], arrays: Arrays) -> None:
    precision, extension = PRECISIONS[params["precision"]], params["post_extension"]
    both_ways(arrays["weights_kcrs"], weights.image(precision, extension), arrays["expected"])


def check_winograd(params: dict[str, Any], arrays: Arrays) -> None:
    precision = PRECISIONS[params["precision"]]
    transformed = weights.transform(arrays["weights_kcrs"], precision, stride=params["stride"])
    both_ways(transformed, weights.winograd(precision), arrays["expected"])


def check_deconvolution(params: dict[str, Any], arrays: Arrays) -> None:
    strides = {"stride_y": params["stride_y"], "stride_x": params["stride_x"]}
    given = arrays["weights_kcrs"]
    sets = weights.split_sets(given, **strides)
    np.testing.assert_array_equal(sets, arrays["sets_kcrs"])
    for one, expected in zip(sets, arrays["expected_per_set"], strict=True):
        both_ways(one, weights.deconvolution(PRECISIONS[params["precision"]]), expected)


def check_compressed(params: dict[str, Any], arrays: Arrays) -> None:
    precision, given = PRECISIONS[params["precision"]], arrays["weights_kcrs"]
    layout = weights.direct(precision)
    if "post_extension" in params:
        layout = weights.image(precision, params["post_extension"])
    elif "stride" in params:
        layout, given = weights.winograd(precision), weights.transform(given, precision, stride=params["stride"])
    same(pack(given, layout), arrays["uncompressed"])
    compressed = weights.compress(given, layout)
    same(compressed.weights, arrays["weight_surface"])
    same(compressed.mask, arrays["wmb_surface"])
    same(compressed.group_sizes, arrays["wgs_surface"])
    payload = weights.decompress(compressed, given.size, precision)
    same(payload, arrays["uncompressed"][: payload.size])


def check_conversions(params: dict[str, Any], arrays: Arrays) -> None:
    for _, value, offset, scale, truncate, bits, expected in arrays["rows"].tolist():
        to = Precision.INT8 if bits == 8 else Precision.INT16
        assert Requantization(offset, scale, truncate).apply(np.array([value]), to).tolist() == [expected]


def loading_shifts(given: pixels.PixelFormat) -> list[int]:
    """The device shifts fields of 2 and 10 bits that share a word to the top of 16 bits."""
    bits = dict(field for plane in given.planes for field in plane.fields)
    return [16 - bits[c] if given.planes[0].is_joined else 0 for c in range(given.channels)]


def check_pixels(params: dict[str, Any], arrays: Arrays) -> None:
    given = pixels.FORMATS[params["pixel_format"]]
    assert (given.number, given.channels, len(given.planes)) == (
        params["hw_enum"],
        params["channels"],
        params["planes"],
    )
    assert given.max_x_offset == params["x_offset_max"]
    assert [plane.pixel_bytes for plane in given.planes] == [
        params[f"bytes_per_pixel_plane{number}"] for number in range(params["planes"])
    ]
    surfaces = [arrays[f"plane{number}"] for number in range(params["planes"])]
    place: dict[str, Any] = {"x_offset": params["x_offset"]}
    place["strides"] = [params[f"line_stride_plane{number}"] for number in range(params["planes"])]
    image = pixels.unpack_pixels(surfaces, given, params["H"], params["W"], **place)
    fields = image.view(np.uint16) if given.precision is Precision.FP16 else image
    np.testing.assert_array_equal(fields << loading_shifts(given), arrays["decoded_hwc"])
    # The vendor's lines contain noise around the image, which ours must preserve.
    written = [surface.copy() for surface in surfaces]
    pixels.pack_pixels(np.zeros_like(image), given, **place, out=written)
    assert any((mine != surface).any() for mine, surface in zip(written, surfaces, strict=True))
    pixels.pack_pixels(image, given, **place, out=written)
    for mine, surface in zip(written, surfaces, strict=True):
        same(mine, surface)


CHECKS: dict[str, Callable[[dict[str, Any], Arrays], None]] = {
    "feature_data": check_feature,
    "bias_per_channel": check_operand,
    "bias_per_element": check_operand,
    "prelu": check_operand,
    "eltwise_one_operand": check_operand,
    "batch_norm": check_batch_norm,
    "eltwise_two_operands": check_two_operands,
    "weight_dc": check_direct,
    "weight_img": check_image,
    "weight_img_post": check_image,
    "weight_winograd": check_winograd,
    "weight_deconv": check_deconvolution,
    "weight_dc_compressed": check_compressed,
    "weight_img_compressed": check_compressed,
    "weight_winograd_compressed": check_compressed,
    "pixel_precision_conversion": check_conversions,
    "pixel": check_pixels,
}


@pytest.mark.parametrize("kind", CHECKS)
def test_every_vector_matches(kind: str, shared: Path) -> None:
    folder = shared / "vectors" / "nvdla"
    cases = json.loads((folder / "index.json").read_text(encoding="utf-8"))["cases"]
    assert set(Counter(case["format"] for case in cases)) == set(CHECKS)
    mine = [case for case in cases if case["format"] == kind]
    assert mine
    for case in mine:
        CHECKS[kind](case["params"], np.load(folder / case["file"]))


@pytest.mark.parametrize("name", pixels.NAMES)
def test_every_pixel_format_round_trips(name: str) -> None:
    given = pixels.FORMATS[name]
    bits = dict(field for plane in given.planes for field in plane.fields)
    random = np.random.default_rng(0)
    image = np.stack([random.integers(0, 1 << bits[c], (3, 7)) for c in range(given.channels)], axis=-1).astype(
        np.uint16
    )
    if given.precision is Precision.FP16:
        image = (image % 1000).astype(np.float16)
    for x_offset in range(given.max_x_offset + 1):
        surfaces = pixels.pack_pixels(image, given, x_offset=x_offset)
        assert [s.size for s in surfaces] == [3 * stride for stride in given.strides(7, x_offset)]
        np.testing.assert_array_equal(pixels.unpack_pixels(surfaces, given, 3, 7, x_offset=x_offset), image)


def test_the_order_of_components_in_memory() -> None:
    rgba = np.array([[[1, 2, 3, 4]]])
    assert pixels.pack_pixels(rgba, pixels.FORMATS["T_A8B8G8R8"])[0][:4].tolist() == [1, 2, 3, 4]
    assert pixels.pack_pixels(rgba, pixels.FORMATS["T_R8G8B8A8"])[0][:4].tolist() == [4, 3, 2, 1]
    word = pixels.pack_pixels(rgba % 4, pixels.FORMATS["T_R10G10B10A2"])[0][:4].view(np.uint32)[0]
    assert word == 0 | 3 << 2 | 2 << 12 | 1 << 22
    y, vu = pixels.pack_pixels(np.array([[[1, 2, 3]]]), pixels.FORMATS["T_Y8___U8V8_N444"])
    assert y[0] == 1 and vu[:2].tolist() == [3, 2]


def test_signed_pixels_are_two_s_complement() -> None:
    assert pixels.pack_pixels(np.array([[[-1]]]), pixels.FORMATS["T_R8"])[0][0] == 255


@pytest.mark.parametrize(
    "call",
    [
        lambda: pixels.pixel_format("T_R9"),
        lambda: pixels.pack_pixels(np.zeros((1, 1, 3), int), pixels.FORMATS["T_R8"]),
        lambda: pixels.pack_pixels(np.full((1, 1, 1), 256), pixels.FORMATS["T_R8"]),
        lambda: pixels.pack_pixels(np.zeros((1, 1, 1)), pixels.FORMATS["T_R8"]),
        lambda: pixels.pack_pixels(np.zeros((1, 1, 1), int), pixels.FORMATS["T_R16_F"]),
        lambda: pixels.pack_pixels(np.zeros((1, 1, 1), int), pixels.FORMATS["T_R8"], x_offset=32),
        lambda: pixels.pack_pixels(np.zeros((1, 33, 1), int), pixels.FORMATS["T_R8"], strides=[32]),
        lambda: pixels.pack_pixels(np.zeros((1, 3, 1), int), pixels.FORMATS["T_R8"], strides=[40]),
    ],
)
def test_pixels_that_do_not_fit_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="DV835"):
        call()


@pytest.mark.parametrize("strides", [{"line_stride": 40}, {"line_stride": 64}, {"surface_stride": 100}])
def test_strides_of_feature_data_are_checked(strides: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="DV803"):
        nbytes(features.feature_data(Precision.INT8, FULL, **strides), (33, 2, 3))


@pytest.mark.parametrize(
    "call",
    [
        lambda: weights.image(Precision.INT8, 3),
        lambda: weights.transform(np.zeros((1, 1, 4, 4)), Precision.FP16),
        lambda: weights.transform(np.full((1, 1, 3, 3), 127), Precision.INT8),
        lambda: weights.split_sets(np.zeros((1, 1, 3, 3)), stride_y=0, stride_x=1),
    ],
)
def test_weights_that_cannot_be_extended_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="DV833"):
        call()


def test_negative_zero_survives_compression() -> None:
    given = np.array([0.0, -0.0, 1.0], np.float16).reshape(1, 3, 1, 1)
    compressed = weights.compress(given, weights.direct(Precision.FP16))
    assert compressed.mask[0] == 0b110 and compressed.group_sizes[:4].view(np.uint32)[0] == 4
    back = weights.decompress(compressed, 3, Precision.FP16).view(np.uint16)
    assert back.tolist() == [0, 0x8000, 0x3C00]
    with pytest.raises(UsageError, match="DV834"):
        weights.decompress(compressed, 9999, Precision.FP16)


def test_alignments_are_checked_together() -> None:
    alignment.check_alignment("feature", start=64, line=32, surface=96, cube=0)
    with pytest.raises(UsageError) as error:
        alignment.check_alignment("weight", start=32, size=64)
    assert len(error.value.problems) == 2


def test_conversion_to_fp16_and_by_channel() -> None:
    pixels_ = np.array([[0, 128, 255]], np.uint8)
    assert Requantization(128, 1, 7).apply(pixels_, Precision.FP16).tolist() == [[-1.0, 0.0, 127 / 128]]
    assert Requantization((0, 128, 255)).apply(pixels_, Precision.INT8).tolist() == [[0, 0, 0]]
    with pytest.raises(UsageError, match="DV830"):
        Requantization(40000).apply(pixels_, Precision.INT8)


@pytest.mark.parametrize("precision", [Precision.INT16, Precision.FP16])
def test_a_precision_that_a_configuration_lacks_is_an_error(precision: Precision) -> None:
    with pytest.raises(UsageError, match=f"DV917: nvdla-small does not compute in {precision.value}"):
        features.feature_data(precision, SMALL)
    with pytest.raises(UsageError, match="DV917"):
        weights.direct(precision, LARGE)


def test_nv_small_combines_no_rows_of_images() -> None:
    with pytest.raises(UsageError, match="nvdla-small has no post-extension"):
        weights.image(Precision.INT8, 2, SMALL)
    assert weights.post_extension(1, 4, 1, stride_x=1, form=SMALL) == 1
    assert weights.post_extension(1, 4, 1, stride_x=1, form=LARGE) == 4


def test_alignments_follow_the_configuration() -> None:
    alignment.check_alignment("feature", SMALL, start=8, line=24, surface=40)
    alignment.check_alignment("weight", SMALL, start=256, size=8)
    with pytest.raises(UsageError, match="line 24 is not a multiple of 32"):
        alignment.check_alignment("feature", LARGE, line=24)
