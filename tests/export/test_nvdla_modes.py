"""NVDLA's modes: pixels, Winograd kernels, compressed weights."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.errors import ConvertorWarning, ModelError, UnsupportedError
from cnn_convertor.export import read
from cnn_convertor.export import surface as surfaces
from cnn_convertor.export.parts import parts_of
from cnn_convertor.export.targets import target_of
from cnn_convertor.export.writing import write
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Pair, Shape, Window
from export.networks import conv, dense, network, values, write_for
from reference.export_reference import (
    nvdla_image,
    nvdla_kernels,
    nvdla_pixels,
    nvdla_uncompressed,
    nvdla_winograd,
)
from reference.ir_reference import convolution


def raw(entry: Any, kind: str) -> NDArray[Any]:
    """The contents of an entry's files, read by the specification's formulas."""
    memory = entry.memory().tobytes()
    if entry.sparse is not None:
        mask, sizes = (other.memory().tobytes() for other in entry.sparse)
        memory = nvdla_uncompressed(memory, mask, sizes, entry.shape, kind)
    name = entry.record["layout"]
    if "winograd" in name:
        return nvdla_winograd(memory, entry.shape, kind)
    if "image" in name:
        return nvdla_image(memory, entry.shape, kind, entry.record["post_extension"])
    return nvdla_kernels(memory, entry.shape, kind, reverse="deconvolution" in name)


# F(2x2, 3x3): 4x4 pixels of a map and of a kernel give 2x2 results.
OF_MAPS = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
OF_RESULTS = np.array([[1, 1, 1, 0], [0, 1, -1, -1]])


def winograd_convolution(
    kernels: NDArray[Any], image: NDArray[Any], stride: int, size: tuple[int, int]
) -> NDArray[Any]:
    """A convolution of a map (H, W, C) with kernels (K, C', 4, 4): (*size, K)."""
    count, extended = kernels.shape[:2]
    filled = extended // stride**2
    rows, columns = (n + n % 2 + 2 for n in size)
    whole = np.zeros((rows * stride, columns * stride, filled))
    part = image[: rows * stride, : columns * stride]
    whole[: part.shape[0], : part.shape[1], : image.shape[2]] = part
    result = np.zeros((rows - 2, columns - 2, count))
    for y, x in itertools.product(range(0, rows - 2, 2), range(0, columns - 2, 2)):
        for ry, rx, c in np.ndindex(stride, stride, filled):
            pixels = whole[ry::stride, rx::stride, c][y : y + 4, x : x + 4]
            turned = OF_MAPS @ pixels @ OF_MAPS.T
            for k in range(count):
                product = kernels[k, (ry * stride + rx) * filled + c] * turned
                result[y : y + 2, x : x + 2, k] += OF_RESULTS @ product @ OF_RESULTS.T
    return result[: size[0], : size[1]]


@pytest.mark.parametrize("kind", ["int16", "fp16"])
@pytest.mark.parametrize(("side", "stride"), [((3, 3), 1), ((5, 6), 2), ((7, 9), 3)])
def test_winograd_s_kernels_compute_the_convolution(
    side: tuple[int, int], stride: int, kind: str, tmp_path: Path
) -> None:
    op = ops.Conv2d(values(3, 2, *side), None, Window(Pair(*side), Pair(stride, stride)))
    image = np.random.default_rng(0).standard_normal((15, 14, 2)).astype(np.float32)
    graph = network(("x", ops.Input(Shape(15, 14, 2)), ()), ("c", op, ("x",)))
    entry = write_for(f"nvdla-{kind}:winograd", graph, tmp_path)["c", "weights"]
    assert entry.record["kernel"] == list(side) and entry.record["stride"] == [stride, stride]
    stored = raw(entry, "float16" if kind == "fp16" else kind)
    np.testing.assert_array_equal(stored, entry.array())
    wanted = convolution(op, image)
    found = winograd_convolution(entry.values(), image, stride, wanted.shape[:2])
    np.testing.assert_allclose(found, wanted, atol=0.05 if kind == "fp16" else 5e-3)


def test_kernels_unsuitable_for_winograd_are_unchanged(tmp_path: Path) -> None:
    windows = [
        Window(Pair(3, 3), dilation=Pair(2, 2)),
        Window(Pair(3, 3), Pair(2, 2)),
        Window(Pair(5, 5), Pair(1, 2)),
        Window(Pair(1, 1)),
    ]
    rows = [("x", ops.Input(Shape(20, 20, 4)), ())]
    rows += [(f"c{n}", ops.Conv2d(values(4, 4, *w.kernel), None, w), ("x",)) for n, w in enumerate(windows)]  # type: ignore[misc]
    graph = Graph(network(*rows).nodes, tuple(f"c{n}" for n in range(len(windows))))
    with pytest.warns(ConvertorWarning, match='uses the mode "winograd"'):
        manifest = write_for("nvdla-int8:winograd", graph, tmp_path)
    assert {e.record["layout"] for e in manifest.surfaces if e.role == "weights"} == {"nvdla_weight_int8"}


def test_groups_become_zeros_before_they_are_transformed(tmp_path: Path) -> None:
    op = conv(6, 6, 3, groups=3)
    graph = network(("x", ops.Input(Shape(6, 6, 6)), ()), ("c", op, ("x",)))
    entry = write_for("nvdla-int16:winograd", graph, tmp_path)["c", "weights"]
    assert (entry.record["groups"], entry.record["channels"]) == (3, 6)
    image = np.random.default_rng(0).standard_normal((6, 6, 6)).astype(np.float32)
    plain = ops.Conv2d(Constant.of(dense(op.weight.load(), 3)), None, op.window)
    found = winograd_convolution(entry.values(), image, 1, (4, 4))
    np.testing.assert_allclose(found, convolution(plain, image), atol=5e-3)


@pytest.mark.parametrize("kind", ["int8", "int16", "fp16"])
@pytest.mark.parametrize(
    ("channels", "side", "stride", "extension"),
    [
        (1, (5, 5), 1, 4),
        (2, (3, 3), 1, 2),
        (3, (3, 3), 1, 2),
        (3, (7, 7), 2, 2),
        (3, (11, 11), 4, 1),
        (4, (2, 3), 4, 1),
    ],
)
def test_image_inputs_are_pixels_with_extended_weights(
    channels: int, side: tuple[int, int], stride: int, extension: int, kind: str, tmp_path: Path
) -> None:
    op = ops.Conv2d(values(35, channels, *side), None, Window(Pair(*side), Pair(stride, stride)))
    graph = network(("x", ops.Input(Shape(20, 13, channels)), ()), ("c", op, ("x",)))
    image = values(20, 13, channels, seed=5).load()
    kind_, element = target_of(f"nvdla-{kind}:image"), "float16" if kind == "fp16" else kind
    assert kind_ is not None
    write(kind_.surfaces(tuple(parts_of(graph, {"x": image}))), "net", f"nvdla-{kind}:image", tmp_path)
    given, entry = read(tmp_path)["x", "input"], read(tmp_path)["c", "weights"]
    names = {"int8": ("T_R8", "T_A8B8G8R8"), "int16": ("T_R16_I", "T_A16B16G16R16")}
    assert given.record["layout"] == names.get(kind, ("T_R16_F", "T_A16B16G16R16_F"))[channels > 1]
    np.testing.assert_array_equal(nvdla_pixels(given.memory().tobytes(), given.shape, element), given.array())
    np.testing.assert_allclose(given.values(), image.transpose(2, 0, 1), atol=given.record["error"]["max"] * 1.0001)
    assert (entry.record["post_extension"], entry.record["channels"]) == (extension, channels)
    np.testing.assert_array_equal(raw(entry, element), entry.array())
    assert not entry.array()[:, channels:].any() and entry.shape[1] == (1 if channels == 1 else 4)
    tolerance = entry.record["error"]["max"] * 1.0001
    np.testing.assert_allclose(entry.values()[:, :channels], op.weight.load(), atol=tolerance)


@pytest.mark.parametrize(
    "users",
    [
        [("c", conv(4, 3, 3), ("x",)), ("a", ops.Activation(ops.Relu()), ("x",))],
        [("c", conv(4, 5, 3), ("x",))],
        [("c", conv(3, 3, 3, groups=3), ("x",))],
        [("c", ops.Conv2d(values(4, 3, 3, 3), None, Window(Pair(3, 3), dilation=Pair(2, 2))), ("x",))],
        [("c", ops.Dense(values(4, 3, 9, 9), None), ("x",))],
    ],
    ids=["another reader", "channels", "groups", "dilation", "fully connected"],
)
def test_other_inputs_are_feature_data(users: list[Any], tmp_path: Path) -> None:
    channels = 5 if users[0][1].weight.shape[1] == 5 else 3
    graph = Graph(network(("x", ops.Input(Shape(9, 9, channels)), ()), *users).nodes, tuple(u[0] for u in users))
    with pytest.warns(ConvertorWarning, match='uses the mode "image"'):
        manifest = write_for("nvdla-fp16:image", graph, tmp_path)
    assert manifest["x", "input"].record["layout"] == "nvdla_feature_float16"
    assert manifest["c", "weights"].record["layout"] == "nvdla_weight_float16"


def pruned(*shape: int, every: int) -> Constant:
    """Weights with one in `every` non-zero; some are -0.0, which FP16 keeps."""
    numbers = values(*shape).load().ravel().copy()
    numbers[np.arange(numbers.size) % every != 0] = 0
    numbers[1 :: 2 * every] = -0.0
    return Constant.of(numbers.reshape(shape))


@pytest.mark.parametrize("kind", ["int8", "int16", "fp16"])
@pytest.mark.parametrize("rows", [0, 1], ids=["whole", "group by group"])
def test_weights_with_zeros_are_compressed_if_smaller(
    kind: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rows:
        monkeypatch.setattr(surfaces, "_PIECE_BYTES", 1)
    steps = [
        ("x", ops.Input(Shape(9, 9, 70)), ()),
        ("depthwise", conv(70, 70, 3, groups=70), ("x",)),
        ("sparse", ops.Conv2d(pruned(75, 70, 3, 3, every=7), None, Window(Pair(3, 3))), ("depthwise",)),
        ("zero", ops.Conv2d(Constant.of(np.zeros((40, 75, 1, 1))), None, Window(Pair(1, 1))), ("sparse",)),
        ("full", conv(33, 40, 1), ("zero",)),
        ("up", ops.ConvTranspose2d(pruned(40, 33, 3, 3, every=9), None, Window(Pair(3, 3), Pair(2, 2))), ("full",)),
    ]
    target, element = f"nvdla-{kind}", "float16" if kind == "fp16" else kind
    graph = network(*steps)  # type: ignore[arg-type]
    plain = write_for(target, graph, tmp_path / "plain")
    manifest = write_for(f"{target}:compressed", graph, tmp_path / "compressed")
    stored = [entry for entry in manifest.surfaces if entry.role == "weights"]
    assert [e.layer for e in stored if e.sparse is None] == ["full"]
    assert manifest["zero", "weights"].nbytes == 0
    for entry, other in zip(stored, (e for e in plain.surfaces if e.role == "weights"), strict=True):
        np.testing.assert_array_equal(raw(entry, element).view(f"u{entry.element.itemsize}"), bits(entry.array()))
        np.testing.assert_array_equal(bits(entry.array()), bits(other.array()))
        assert (entry.record.get("scale"), entry.record.get("error")) == (
            other.record.get("scale"),
            other.record.get("error"),
        )
        if entry.sparse is not None:
            mask, sizes = entry.sparse
            assert entry.nbytes + mask.nbytes + sizes.nbytes < other.nbytes
            assert {mask.layer, sizes.layer} == {entry.layer} and (mask.role, sizes.role) == ("mask", "group_sizes")
            assert mask.shape == (math.ceil(math.prod(entry.shape) / 8),) and mask.array().dtype == np.uint8
            assert sizes.shape == (math.ceil(entry.shape[0] / (32 if kind == "int8" else 16)),)
            assert sizes.array().sum() == np.count_nonzero(bits(entry.array())) * entry.element.itemsize
            assert all(e.offset % 256 == 0 for e in (entry, mask, sizes))
    assert (manifest["sparse", "weights"].array().view(f"u{np.dtype(element).itemsize}") == 0x8000).any() == (
        kind == "fp16"
    )


def bits(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(f"u{array.itemsize}")


def test_incompressible_weights_are_one_warning(tmp_path: Path) -> None:
    op = ops.Conv2d(Constant.of(np.full((4, 4, 3, 3), np.nan)), None, Window(Pair(3, 3)))
    graph = network(("x", ops.Input(Shape(9, 9, 4)), ()), ("c", op, ("x",)))
    for modes in ("compressed", "winograd", "image", "compressed,winograd"):
        with pytest.raises(UnsupportedError, match="DV853") as error:
            write_for(f"nvdla-fp16:{modes}", graph, tmp_path / "out")
        assert len(error.value.problems) == 1
    assert not (tmp_path / "out").exists()


def test_compressed_weights_with_an_invalid_manifest_are_an_error(tmp_path: Path) -> None:
    op = ops.Conv2d(pruned(40, 40, 3, 3, every=9), None, Window(Pair(3, 3)))
    write_for("nvdla-int8:compressed", network(("x", ops.Input(Shape(9, 9, 40)), ()), ("c", op, ("x",))), tmp_path)
    text = (tmp_path / "manifest.json").read_text(encoding="utf-8")
    position = next(n for n, record in enumerate(json.loads(text)["surfaces"]) if record["role"] == "weights")
    names = json.loads(text)["surfaces"][position]["compressed"]
    wrong: list[Any] = [None, [], "x", {}, {"mask": names["mask"]}, names | {"mask": names["group_sizes"]}]
    wrong += [names | {"group_sizes": []}, names | {"mask": None}]
    for other in wrong:
        data = json.loads(text)
        data["surfaces"][position]["compressed"] = other
        (tmp_path / "manifest.json").write_text(json.dumps(data), encoding="utf-8")
        with pytest.raises(ModelError, match="DV855"):
            read(tmp_path)
    for size in (1, 33, 1 << 40):  # no multiple of the alignment, or more than all weights
        data = json.loads(text)
        data["surfaces"][position]["bytes"] = size
        (tmp_path / "manifest.json").write_text(json.dumps(data), encoding="utf-8")
        with pytest.raises(ModelError, match="DV855"):
            read(tmp_path)
    data = json.loads(text)
    del data["surfaces"][position]["compressed"]
    (tmp_path / "manifest.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ModelError, match="DV855"):
        read(tmp_path)
    data = json.loads(text)
    mask = next(record for record in data["surfaces"] if record["role"] == "mask")
    (tmp_path / mask["file"]).write_bytes(b"\xff" * mask["bytes"])
    mask["sha256"] = hashlib.sha256(b"\xff" * mask["bytes"]).hexdigest()
    (tmp_path / "manifest.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ModelError, match="contradict each other"):
        read(tmp_path)["c", "weights"].array()
