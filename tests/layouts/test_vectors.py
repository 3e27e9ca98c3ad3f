"""Memory compared with other programs' vectors: clDNN's formats, BPU tensors, DV700 and NVDLA maps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.errors import UsageError
from cnn_convertor.layouts import bpu, cldnn, dv700
from cnn_convertor.layouts.layout import AxisPadding, Layout
from cnn_convertor.layouts.names import layout_of
from cnn_convertor.layouts.notation import parse
from cnn_convertor.layouts.nvdla import features, pixels, weights
from cnn_convertor.layouts.nvdla.precision import Precision, Requantization
from cnn_convertor.layouts.packing import Bytes, pack, unpack


@cache
def index_of(folder: Path) -> dict[str, Any]:
    index: dict[str, Any] = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    return index


def test_every_cldnn_vector_matches(shared: Path) -> None:
    folder = shared / "vectors" / "layouts"
    formats = index_of(folder)["cldnn"]["formats"]
    cases = 0
    for name, entry in formats.items():
        layout = layout_of(name)
        assert layout.axes == entry["axes"], name
        arrays = np.load(folder / entry["file"])
        for number, case in enumerate(entry["cases"]):
            lower, upper = case["lower"], case["upper"]
            padding = {axis: AxisPadding(lower.get(axis, 0), upper.get(axis, 0)) for axis in layout.axes}
            array, expected = arrays[f"in_{number}"], arrays[f"out_{number}"]
            memory = pack(array, layout, padding=padding)
            assert memory.tobytes() == expected.tobytes(), (name, case)
            back = unpack(expected, layout, array.shape, element=array.dtype, padding=padding)
            np.testing.assert_array_equal(back, array)
            cases += 1
    assert (len(formats), cases) == (53, 165)


def test_names_match_the_vectors_table(shared: Path) -> None:
    for name, entry in index_of(shared / "vectors" / "layouts")["cldnn"]["formats"].items():
        expected = parse(f"{entry['axes']}: {entry['terms']}")
        filled = entry["align"]
        shown = str(layout_of(name))
        for axis, align in filled.items():
            shown = shown.replace(f"{axis}^{align}", axis)
        assert shown == str(expected), name


def test_the_wiki_s_example(shared: Path) -> None:
    example = json.loads((shared / "vectors" / "layouts" / "seed003_example.json").read_text(encoding="utf-8"))
    array = np.arange(1, 17, dtype=np.int32).reshape(2, 2, 2, 2)
    plain = pack(array, layout_of("bfyx")).view(np.int32)
    blocked = pack(array, layout_of("b_fs_yx_fsv16")).view(np.int32)
    assert plain.size == example["bfyx"]["buffer_len"]
    assert blocked.size == example["b_fs_yx_fsv16"]["buffer_len"]
    for i, b, f, y, x in example["bfyx"]["rows"]:
        assert plain[i] == array[b, f, y, x]
    for i, *_, b, fs, y, x, fsv in example["b_fs_yx_fsv16"]["rows_as_printed"]:
        assert blocked[i] == (array[b, 16 * fs + fsv, y, x] if 16 * fs + fsv < 2 else 0)


def test_every_bpu_vector_matches(shared: Path) -> None:
    folder = shared / "vectors" / "layouts"
    index, arrays = index_of(folder)["bpu_strided"], np.load(folder / "bpu_strided.npz")
    for case in index["cases"]:
        array, expected = arrays[f"in_{case['k']}"], arrays[f"out_{case['k']}"]
        given = bpu.TensorProperties(
            tuple(case["validShape"]), case["dtype"], tuple(case["stride"]), case["alignedByteSize"]
        )
        assert given.pack(array).tobytes() == expected.tobytes(), case["name"]
        np.testing.assert_array_equal(given.unpack(expected), array)
        np.testing.assert_array_equal(given.unpack(expected, copy=False), array)
        if case["name"].startswith("x3"):
            layout = bpu.TensorLayout[case["layout"]]
            made = bpu.x3(case["validShape"], case["dtype"], layout, is_input=case["is_input"])
            assert made.stride == given.stride and made.aligned_byte_size == given.aligned_byte_size
            assert made.aligned_shape == tuple(case["alignedShape"])
    assert {int(size): bpu.x3_row(int(size)) for size in index["x3_rule_table"]} == {
        int(size): row for size, row in index["x3_rule_table"].items()
    }
    for fact in index["published_properties_facts"]:
        if fact["dtype"] == "IMG_NV12":
            *_, height, width = fact["validShape"]
            assert bpu.NV12(height, width).nbytes == fact["alignedByteSize"]
        else:
            bpu.TensorProperties(
                tuple(fact["validShape"]), fact["dtype"], tuple(fact["stride"]), fact["alignedByteSize"]
            )


def test_every_nv12_vector_matches(shared: Path) -> None:
    folder = shared / "vectors" / "layouts"
    index, arrays = index_of(folder)["nv12"], np.load(folder / "nv12.npz")
    for case in index["cases"]:
        image = bpu.NV12(case["H"], case["W"], case["align"])
        luma, chroma, expected = (arrays[f"{name}_{case['k']}"] for name in ("y", "uv", "out"))
        assert (image.stride, image.nbytes) == (case["stride"], case["total"])
        assert [plane.aligned_byte_size for plane in image.planes] == [case["y_bytes"], case["uv_bytes"]]
        assert image.pack(luma, chroma).tobytes() == expected.tobytes()
        for part, back in zip((luma, chroma), image.unpack(expected), strict=True):
            np.testing.assert_array_equal(back, part)
    for case in index["reject"]:
        with pytest.raises(UsageError, match="must be even"):
            bpu.NV12(case["H"], case["W"])


def test_every_dv700_vector_matches(shared: Path) -> None:
    folder = shared / "vectors" / "layouts"
    arrays = np.load(folder / "dv700_chunked.npz")
    for case in index_of(folder)["dv700_chunked"]["cases"]:
        layout = dv700.feature_map(transposed=bool(case["transpose_weight"]), depth=True).of(np.int32)
        array, expected = arrays[f"in_{case['k']}"], arrays[f"out_{case['k']}"]
        assert pack(array, layout).tobytes() == expected.tobytes()
        np.testing.assert_array_equal(unpack(expected, layout, array.shape), array)
        if array.shape[0] == 1:
            flat = dv700.feature_map(transposed=bool(case["transpose_weight"])).of(np.int32)
            assert pack(array[0], flat).tobytes() == expected.tobytes()


def test_every_nvdla_map_matches(shared: Path) -> None:
    folder = shared / "vectors" / "layouts"
    arrays = np.load(folder / "nvdla_feature.npz")
    for case in index_of(folder)["nvdla_feature"]["cases"]:
        scale = 4 // case["elem_bytes"]  # the vectors contain 4-byte numbers as elements
        per_atom = 32 // case["elem_bytes"]
        line, surface = case["line_stride"] * scale, case["surf_stride"] * scale
        layout = parse(f"chw: c/{per_atom}={surface} h={line} w c%{per_atom}")
        array, expected = arrays[f"in_{case['k']}"], arrays[f"out_{case['k']}"]
        assert pack(array, layout).tobytes() == expected.tobytes()


# --- what must hold without the folder of vectors -------------------------------------------------------------------------

# SHA-256 of the memory of the numbers 1, 2, 3 ... (int32); from the layouts that matched the vectors.
FIGURES: dict[tuple[str, tuple[int, ...]], str] = {
    ("b_fs_yx_fsv16", (2, 33, 3, 5)): "cb520767bcecc1649dacf2313a06feaccd4ad8bdb2031bd73918ba7826f9f0a7",
    ("bs_fs_yx_bsv16_fsv16", (3, 20, 2, 3)): "66c6f4502eb232bc3eb3cefd1f912d5faad95ef5424aa6ad7f51ad008ec6406c",
    ("fs_b_yx_fsv32", (2, 35, 2, 2)): "5a4d0e268fbd0bdfe23c8ccb2ea1c0bf0b0b0cd4c6f15f0e69b48cfd1a1d7ac4",
    ("os_is_yx_isv8_osv16_isv2", (17, 33, 3, 2)): "c101d7dbbfb9e04fc733619a1f716c4d363928431d89cca8ec815d0ead89e40d",
    (
        "os_is_yx_osa4_isa8_osv8_isv4_swizzled_by_4",
        (33, 40, 2, 1),
    ): "8f09ebc7b8174529f41c26d69a0939fbbd7bc38d955ac092c473a68f88adfa1a",
    ("gs_oi_yxs_gsv16_yxsv4", (17, 1, 1, 3, 3)): "e97e16ea7d98bc41b85dd4f38644efbd26669ea55318760f05af9b574c80d80b",
    ("os_iyx_osv32__ai32", (33, 5, 2, 2)): "ec07473c25731f61712b2f5eb94fe987a04127190088cc929c386bc99fab5fb1",
    ("whc8", (3, 5, 20)): "78837c18349ac245b9ceab3478b4553ccc0bf3d694470badf8b3cda3610e0d24",
    ("hwc8", (4, 3, 12)): "fb23f59d29adb28db4953c09b5066b55d5e777eda859860981ca9e5be6c763c1",
    ("dwhc8", (2, 3, 2, 11)): "cae5e2e7519ce17775b39b6a839fdf1d079516d723ac33011fc34050b14edf8e",
    ("nvdla_feature_float16", (33, 2, 3)): "e4570bfd1769c6942c3b4377bc2aede1a3782629efbed5f85c9650740a18ff22",
    ("nvdla_weight_int8", (40, 100, 3, 3)): "72a149dcdc81e21029a748b62c1489968f3040c01ee96d81e1c15035b2383537",
    (
        "nvdla_weight_image_post2_int16",
        (17, 3, 5, 8),
    ): "ab3df69203d902d2d294f38c583d722400f4aa38669bb4ece1d904c9ea6dec24",
    (
        "nvdla_weight_deconvolution_float16",
        (17, 65, 2, 3),
    ): "a17d37ab7ae24e08d0d5394af7fd5495e6e4906e79a5fc164a11153814b909eb",
}


@pytest.mark.parametrize(("name", "shape"), FIGURES)
def test_memory_of_generated_arrays(name: str, shape: tuple[int, ...]) -> None:
    assert figure(name, shape) == FIGURES[name, shape]


def figure(name: str, shape: tuple[int, ...]) -> str:
    array = np.arange(1, np.prod(shape) + 1, dtype=np.int32).reshape(shape)
    return hashlib.sha256(pack(array, layout_of(name).of(np.int32)).tobytes()).hexdigest()


def counted(shape: tuple[int, ...], kind: str = "int16", modulus: int = 1 << 14) -> NDArray[Any]:
    """0, 1, 2 ... up to a modulus, every third one negative, every fifth one zero."""
    values = np.arange(np.prod(shape)) % modulus
    values[::3] *= -1
    values[::5] = 0
    return values.reshape(shape).astype(kind)


def winograd(shape: tuple[int, ...], kind: Precision, stride: int) -> bytes:
    kernels = weights.transform(counted(shape, "float32", 29), kind, stride=stride)
    return pack(kernels, weights.winograd(kind)).tobytes()


def compressed(layout: Layout, shape: tuple[int, ...]) -> bytes:
    made = weights.compress(counted(shape, str(layout.element), 120), layout)
    return b"".join(surface.tobytes() for surface in (made.weights, made.mask, made.group_sizes))


def all_pixels(x_offset: int) -> bytes:
    """An image in all 36 formats."""
    planes: list[Bytes] = []
    for given in pixels.FORMATS.values():
        image = np.abs(counted((3, 9, given.channels), modulus=4))
        image = image.astype(np.float16) if given.precision is Precision.FP16 else image
        planes += pixels.pack_pixels(image, given, x_offset=x_offset)
    return b"".join(plane.tobytes() for plane in planes)


def operands(processing: Precision, kind: str) -> bytes:
    one, two = counted((35, 1, 1), kind, 100), counted((2, 35, 1, 1), kind, 100)
    layouts = [features.operand(processing, data_size=one.dtype.itemsize, operands=number) for number in (1, 2)]
    return pack(one, layouts[0]).tobytes() + pack(two, layouts[1]).tobytes()


def converted(to: Precision) -> bytes:
    given = np.arange(-700, 700, 3, dtype=np.int16)
    return b"".join(Requantization(*how).apply(given, to).tobytes() for how in ((0, 1, 0), (17, 3, 2), (-5, -9, 4)))


def strided(shape: tuple[int, ...], kind: str, layout: bpu.TensorLayout, is_input: bool) -> bytes:
    properties = bpu.x3(shape, kind, layout, is_input=is_input)
    return properties.pack(counted(shape, str(properties.element), 100)).tobytes()


def nv12(align: int) -> bytes:
    luma, chroma = (np.abs(counted(shape, modulus=200)).astype(np.uint8) for shape in ((6, 22), (3, 11, 2)))
    return bpu.NV12(6, 22, align).pack(luma, chroma).tobytes()


# Results of functions; from versions that matched the vectors.
MEMORIES: dict[str, tuple[Callable[[], bytes], str]] = {
    "Winograd, FP16": (
        lambda: winograd((17, 5, 3, 3), Precision.FP16, 1),
        "bfbf30ee6dea89585f151fbc7d2adda5606dd4298e5083edcc6d7fd7b8ad41b2",
    ),
    "Winograd, a stride of 2": (
        lambda: winograd((18, 3, 5, 6), Precision.INT16, 2),
        "092285d9eb1507ed0153326bb13cf0e552d7ab3bf005895c30b7bc629833341a",
    ),
    "Winograd, a stride of 3": (
        lambda: winograd((3, 2, 7, 9), Precision.INT8, 3),
        "69d6991eae1b40108dd5fc47e0237030ecb1de74194f5f1cfb0a38da49b14a0d",
    ),
    "compressed": (
        lambda: compressed(weights.direct(Precision.INT8), (40, 70, 2, 3)),
        "51c99beefafd3831b3efeeb2564455b06e97b4cb26138755d7189d8544317ac8",
    ),
    "compressed for an image": (
        lambda: compressed(weights.image(Precision.FP16, 2), (18, 4, 3, 3)),
        "530761bc2dc32dae5e817a8523852d0485f3b5d3a91f47e048475ac82c08178f",
    ),
    "pixels": (lambda: all_pixels(0), "3d2c853075472547e3974c14e76855c7e13b395e084403fb0c158d15a84f62a8"),
    "pixels that begin behind others": (
        lambda: all_pixels(3),
        "551aebe81d0c3b399b62248a0962506dd21b2d4cb94c3b1c3637a0d25d98bc12",
    ),
    "operands of 8 bits": (
        lambda: operands(Precision.INT8, "int8"),
        "cd6d18b0a536bf11f609cc827e15a75e272e286dc0f8770f26b6b9d642860f0b",
    ),
    "operands of 16 bits for 8": (
        lambda: operands(Precision.INT8, "int16"),
        "3c9216efc4d63ac1f3f5f9ce6fd480f3ac7b8fc1d35d39606d1748b758194f25",
    ),
    "operands of FP16": (
        lambda: operands(Precision.FP16, "float16"),
        "c438b9758aabb423b84211f0263bda0918c2709110d733e5edffcffcb41b5994",
    ),
    "converted to 8 bits": (
        lambda: converted(Precision.INT8),
        "818cfeaf207b2824498e834b4bb613e9d60de91ca5d279619ebbaf0eeaa9f02d",
    ),
    "converted to 16 bits": (
        lambda: converted(Precision.INT16),
        "ecdafea5f67054efee2154d437910915e95ba72987cdc34f98a3d29c8ad73819",
    ),
    "X3, rows": (
        lambda: strided((1, 3, 5, 33), "S32", bpu.TensorLayout.NHWC, False),
        "8171882dfc09a2bbd5cbe7684871e940d6df3ce0b4e26acd1dbbcfeba7284e49",
    ),
    "X3, an image": (
        lambda: strided((1, 3, 5, 3), "U8", bpu.TensorLayout.NHWC, True),
        "939531a2a12ed57e2e1302ffb17f293c6fd939927cea28d0233b5bcde448812b",
    ),
    "NV12": (lambda: nv12(16), "970b08335e9d0dc04ac8ea17c4d90df30c40e42acec0670f461e5b430a250c48"),
    "NV12 for J6": (lambda: nv12(32), "970b08335e9d0dc04ac8ea17c4d90df30c40e42acec0670f461e5b430a250c48"),
}


@pytest.mark.parametrize("name", MEMORIES)
def test_functions_on_generated_arrays(name: str) -> None:
    make, expected = MEMORIES[name]
    assert hashlib.sha256(make()).hexdigest() == expected


def test_bits_and_nibbles() -> None:
    random = np.random.default_rng(0)
    bits = random.integers(0, 2, (2, 40, 2, 3)).astype(np.bool_)
    layout = layout_of("b_fs_yx_32fp")
    words = cldnn.pack_bits(bits, layout)
    assert words.size == 2 * 2 * 2 * 3 * 4
    assert words[:4].view(np.uint32)[0] == sum(int(bit) << f for f, bit in enumerate(bits[0, :32, 0, 0]))
    np.testing.assert_array_equal(cldnn.unpack_bits(words, layout, bits.shape), bits)
    weights = random.integers(-8, 8, (33, 3, 2, 2)).astype(np.int8)
    layout = layout_of("os_iyx_osv32")
    pairs = cldnn.pack_nibbles(weights, layout)
    assert pairs.size == 64 * 3 * 2 * 2 // 2
    assert pairs[0] == (int(weights[0, 0, 0, 0]) & 15) | (int(weights[1, 0, 0, 0]) & 15) << 4
    np.testing.assert_array_equal(cldnn.unpack_nibbles(pairs, layout, weights.shape), weights)
    with pytest.raises(UsageError, match="DV811"):
        cldnn.pack_nibbles(weights + 8, layout)


def test_quantization_of_bpu_tensors() -> None:
    scaled = bpu.TensorQuantization(bpu.QuantiType.SCALE, scale=(0.5, 0.25), zero_point=(0, 3), axis=1)
    values = np.array([[0.25, 0.25], [0.75, -100.0], [-100.0, 1.0]])
    assert scaled.quantize(values, np.int8).tolist() == [[0, 4], [2, -128], [-128, 7]]  # ties go to even
    np.testing.assert_array_equal(scaled.dequantize(np.array([[2, 7]], np.int8)), [[1.0, 1.0]])
    shifted = bpu.TensorQuantization(bpu.QuantiType.SHIFT, shift=(3,))
    assert shifted.quantize(np.array([1.0, -0.5, 99.0]), np.int8).tolist() == [8, -4, 127]
    np.testing.assert_array_equal(shifted.dequantize(np.array([8], np.int8)), [1.0])
    with pytest.raises(UsageError, match="count the valid shape"):
        bpu.TensorProperties((1, 2, 2, 3), "S8", (12, 6, 3, 1), 12, quantization=bpu.TensorQuantization(
            bpu.QuantiType.SCALE, scale=(1.0, 1.0), axis=3))  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "type_", "stride", "size"),
    [
        ((1, 2), "S9", (2, 1), 2),
        ((1, 2), "S8", (1, 1), 2),
        ((1, 2), "S16", (4, 1), 4),
        ((2, 2), "S8", (2, 1), 3),
        ((-1, 2), "S8", (2, 1), 2),
        ((1, 2), "S8", (2,), 2),
    ],
)
def test_contradictory_tensor_properties_are_errors(
    shape: tuple[int, ...], type_: str, stride: tuple[int, ...], size: int
) -> None:
    with pytest.raises(UsageError, match="DV820"):
        bpu.TensorProperties(shape, type_, stride, size)


def test_rows_by_a_rule_and_images_of_generic_alignment() -> None:
    gray = bpu.plain((20, 30), "U8", row_align=8)
    assert (gray.stride, gray.aligned_byte_size) == ((32, 1), 640)
    with pytest.raises(UsageError, match="for the valid shape"):
        gray.pack(np.zeros((20, 31), np.uint8))


def test_padding_ignored_by_the_device_is_an_error() -> None:
    cldnn.check_padding(layout_of("b_fs_yx_fsv16"), {"b": AxisPadding(1)})
    cldnn.check_padding(layout_of("bs_fs_yx_bsv16_fsv16"), {"x": AxisPadding(1)})
    with pytest.raises(UsageError, match="DV812"):
        cldnn.check_padding(layout_of("bs_fs_yx_bsv16_fsv16"), {"b": AxisPadding(0, 1)})
