"""Inputs are made or read, and images are prepared as the ini file says."""

from __future__ import annotations

import struct
import subprocess
import sys
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request, preparation_of
from cnn_convertor.errors import ConvertorWarning, UsageError, captured_warnings
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Input, Shape
from cnn_convertor.samples import BATCH, MOST_PIXELS, Preparation, Samples, random_samples, read_samples, samples_of
from verification.trials import config

COLOR = Preparation((100.0, 110.0, 120.0), 0.5, "BGR", is_given=True)


def test_the_same_seed_gives_the_same_images() -> None:
    shapes = {"a": Shape(9, 7, 3), "b": Shape(1, 1, 5)}
    first = random_samples(shapes, Preparation(), samples=3, seed=4)
    again = random_samples({"b": shapes["b"], "a": shapes["a"]}, Preparation(), samples=3, seed=4)
    other = random_samples(shapes, Preparation(), samples=3, seed=5)
    for name, shape in shapes.items():
        assert first.inputs[name].shape == (3, *shape)
        assert np.array_equal(first.inputs[name], again.inputs[name])
        assert not np.array_equal(first.inputs[name], other.inputs[name])
    assert not np.array_equal(first.inputs["a"][0], first.inputs["a"][1])


def test_samples_that_tell_nothing_are_known() -> None:
    image = np.arange(12.0, dtype=np.float32).reshape(1, 2, 2, 3)
    vector = np.ones((1, 1, 1, 5), np.float32)

    def are_alike(**inputs: NDArray[np.float32]) -> bool:
        return Samples(inputs, "", {}).are_alike

    assert are_alike(a=vector) and are_alike(a=np.repeat(image, 3, axis=0)) and are_alike(a=vector, b=2 * vector)
    assert (
        not are_alike(a=image)
        and not are_alike(a=vector, b=image)
        and not are_alike(a=np.stack([*image, image[0] + 1]))
    )


def test_random_images_take_little_more_memory_than_they_are_large() -> None:
    shapes = {"a": Shape(64, 64, 3)}
    random_samples(shapes, COLOR, samples=1, seed=0)  # the first call also loads modules
    tracemalloc.start()
    images = random_samples(shapes, COLOR, samples=100, seed=0).inputs["a"]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert images.nbytes == 100 * 64 * 64 * 3 * 4 and most < 1.2 * images.nbytes


@pytest.mark.parametrize("samples", [10**9, 10**14, 10**30])
def test_more_images_than_memory_holds_are_refused_at_once(samples: int) -> None:
    """Those here take more than the addresses of a process, also for the second input alone."""
    shapes = {"a": Shape(1, 1, 1), "b": Shape(1024, 1024, 1)}
    with pytest.raises(MemoryError):
        random_samples(shapes, COLOR, samples=samples, seed=0)


def test_random_images_use_the_whole_range_of_inputs() -> None:
    for preparation, low, high in ((Preparation(), -1, 1), (Preparation((51.0,), 1 / 255, "RGB", True), -0.2, 0.8)):
        images = random_samples({"a": Shape(8, 8, 1)}, preparation, samples=2, seed=0).inputs["a"]
        assert images.min() == pytest.approx(low) and images.max() == pytest.approx(high)
        assert preparation.range == pytest.approx((low, high))


def test_the_ini_file_says_how_images_are_prepared() -> None:
    keras = config(Path("a.keras"))
    assert preparation_of(keras) == Preparation((0.0,), 1.0, "RGB", is_given=False)
    assert preparation_of(config(Path("a.prototxt"))).channel_order == "BGR"
    assert preparation_of(replace(keras, mean=(1.0, 2.0, 3.0))) == Preparation(
        (1.0, 2.0, 3.0), 1.0, "RGB", is_given=True
    )
    assert preparation_of(replace(keras, scale=2.0, channel_order="BGR")) == Preparation(
        (0.0,), 2.0, "BGR", is_given=True
    )


def test_a_scale_or_a_deviation_for_each_channel() -> None:
    keras, mean, std = config(Path("a.keras")), (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    pixels = np.random.default_rng(1).integers(0, 256, (4, 5, 3)).astype(np.float64)
    by_std = preparation_of(replace(keras, mean=mean, std=std))
    np.testing.assert_allclose(by_std.apply(pixels), (pixels - mean) / std, rtol=1e-6)
    by_scale = preparation_of(replace(keras, mean=mean, scale=tuple(1 / each for each in std)))
    assert by_scale == by_std
    assert by_std.range == pytest.approx((-mean[0] / std[0], (255 - mean[2]) / std[2]))
    swapped = preparation_of(replace(keras, mean=mean, std=std, input="u8_bgr")).as_written
    assert swapped.mean == mean[::-1] and swapped.scale == tuple(1 / each for each in std[::-1])
    assert preparation_of(replace(keras, std=4.0)).scale == 0.25
    shapes = {"color": Shape(3, 4, 3), "mask": Shape(3, 4, 1)}
    inputs = random_samples(shapes, by_std, samples=2, seed=0).inputs
    assert inputs["color"].min() == np.float32(by_std.range[0]) and inputs["mask"].min() == -1


def write_image(path: Path, pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Path:
    cv2 = pytest.importorskip("cv2")
    cv2.imwrite(str(path), pixels)
    return path


@pytest.mark.parametrize(("order", "expected"), [("BGR", (-45, -45, -45)), ("RGB", (-35, -45, -55))])
def test_channels_mean_and_scale_of_an_image(order: str, expected: tuple[float, ...], tmp_path: Path) -> None:
    blue_green_red = np.full((4, 5, 3), (10, 20, 30), np.uint8)
    path = write_image(tmp_path / "a.png", blue_green_red)
    samples = read_samples(path, {"in": Shape(4, 5, 3)}, replace(COLOR, channel_order=order))
    assert samples.inputs["in"].shape == (1, 4, 5, 3)
    assert samples.inputs["in"][0, 0, 0].tolist() == list(expected)


def test_images_that_become_numbers_beyond_fp16_are_refused(tmp_path: Path) -> None:
    path, shapes = write_image(tmp_path / "a.png", np.full((4, 5, 3), 255, np.uint8)), {"in": Shape(4, 5, 3)}
    large = replace(COLOR, scale=500.0)
    with pytest.raises(UsageError, match=rf"DV706.*holds 77500 in sample 0[\s\S]*{path}[\s\S]*mean and scale"):
        read_samples(path, shapes, large)
    with pytest.raises(UsageError, match=r'DV706: the input "in" holds [\s\S]*random images[\s\S]*mean and scale'):
        random_samples(shapes, large, samples=2, seed=0)


def test_images_are_resized_and_made_gray(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.png", np.full((40, 30, 3), 128, np.uint8))
    gray = Preparation((0.0,), 1 / 128, "RGB", is_given=True)
    values = read_samples(path, {"in": Shape(6, 7, 1)}, gray).inputs["in"]
    assert np.array_equal(values, np.ones((1, 6, 7, 1), np.float32))


def test_an_image_without_mean_and_scale_is_worth_a_warning(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.png", np.full((4, 4), 200, np.uint8))
    with pytest.warns(ConvertorWarning, match="DV714"):
        values = read_samples(path, {"in": Shape(4, 4, 1)}, Preparation()).inputs["in"]
    assert values.max() == 200


def test_a_folder_of_images_without_mean_and_scale_is_worth_one_warning(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.png"):
        write_image(tmp_path / name, np.full((4, 4), 200, np.uint8))
    with pytest.warns(ConvertorWarning, match="DV714") as caught:
        values = read_samples(tmp_path, {"in": Shape(4, 4, 1)}, Preparation()).inputs["in"]
    assert len(caught) == 1 and str(tmp_path) in str(caught[0].message) and len(values) == 3


@pytest.mark.parametrize("given", [(4, 5, 3), (3, 4, 5), (2, 4, 5, 3), (2, 3, 4, 5)])
def test_arrays_come_in_either_order_with_or_without_a_batch(given: tuple[int, ...], tmp_path: Path) -> None:
    batch = given if len(given) == 4 else (1, *given)
    values = np.arange(np.prod(given), dtype=np.float32).reshape(batch)
    np.save(tmp_path / "a.npy", values.reshape(given))
    read = read_samples(tmp_path / "a.npy", {"in": Shape(4, 5, 3)}, COLOR).inputs["in"]
    assert np.array_equal(read, values if batch[1:] == (4, 5, 3) else values.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(
    ("axes", "given", "shape"),
    [
        ("CHW", (4, 4, 4), Shape(4, 4, 4)),
        ("CHW", (2, 4, 4, 4), Shape(4, 4, 4)),
        ("HWC", (4, 4, 4), Shape(4, 4, 4)),
        ("CH", (3, 7), Shape(7, 1, 3)),
        ("CH", (2, 3, 7), Shape(7, 1, 3)),
        ("CW", (5, 5), Shape(1, 5, 5)),
        ("WC", (5, 5), Shape(1, 5, 5)),
        ("HW", (2, 4, 5), Shape(4, 5, 1)),
        ("C", (2, 6), Shape(1, 1, 6)),
    ],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_the_frameworks_own_axes_win(
    axes: str, given: tuple[int, ...], shape: Shape, suffix: str, tmp_path: Path
) -> None:
    values = np.arange(np.prod(given), dtype=np.float32).reshape(given)
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "a.npz", image=values)
    read = read_samples(tmp_path / f"a.{suffix}", {"in": shape}, COLOR, {"in": axes}).inputs["in"]
    batch = values.reshape(-1, *given[-len(axes) :])
    expected = np.moveaxis(batch, [1 + axes.index(letter) for letter in "HWC" if letter in axes], range(1, batch.ndim))
    assert np.array_equal(read, expected.reshape(-1, *shape))


def test_both_orders_of_maps_still_fit_where_the_own_axes_do_not(tmp_path: Path) -> None:
    values = np.arange(60, dtype=np.float32).reshape(4, 5, 3)
    for axes in ("HWC", "CHW"):
        for own, array in (("HWC", values), ("CHW", values.transpose(2, 0, 1))):
            np.save(tmp_path / "a.npy", array)
            read = read_samples(tmp_path / "a.npy", {"in": Shape(4, 5, 3)}, COLOR, {"in": axes}).inputs["in"]
            assert np.array_equal(read[0], values), own


def test_an_archive_holds_inputs_by_name_and_results_that_are_known(tmp_path: Path) -> None:
    shapes = {"a": Shape(2, 2, 1), "b": Shape(1, 1, 3)}
    np.savez(tmp_path / "x.npz", a=np.zeros((2, 2)), b=np.ones(3), expected_prob=np.zeros((1, 4)))
    samples = read_samples(tmp_path / "x.npz", shapes, COLOR)
    assert {name: values.shape for name, values in samples.inputs.items()} == {"a": (1, 2, 2, 1), "b": (1, 1, 1, 3)}
    assert set(samples.expected) == {"prob"}
    np.savez(tmp_path / "y.npz", image=np.zeros((2, 2)))
    assert list(read_samples(tmp_path / "y.npz", {"a": Shape(2, 2, 1)}, COLOR).inputs) == ["a"]
    with pytest.raises(UsageError, match=r'"image".*"a", "b"'):
        read_samples(tmp_path / "y.npz", shapes, COLOR)


@pytest.mark.parametrize(
    "result", [np.ones(4), np.ones((2, 4)), np.array([["a"]]), np.ones((1, 0)), np.array(1.0), np.ones((1, 4), complex)]
)
def test_results_that_make_no_sense_are_refused(tmp_path: Path, result: NDArray[Any]) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros((2, 2)), expected_prob=result)
    with pytest.raises(UsageError, match="DV707: expected_prob is an array of"):
        read_samples(tmp_path / "x.npz", {"a": Shape(2, 2, 1)}, COLOR)


def test_inputs_with_different_numbers_of_samples_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros((6, 2, 2, 1)), b=np.zeros((4, 2, 2, 1)))
    with pytest.raises(UsageError, match="DV707: its inputs have 4 and 6 samples"):
        read_samples(tmp_path / "x.npz", {"a": Shape(2, 2, 1), "b": Shape(2, 2, 1)}, COLOR)


def test_results_of_a_folder_that_differ_in_shape_are_refused(tmp_path: Path) -> None:
    for size in (3, 4):
        np.savez(tmp_path / f"{size}.npz", a=np.zeros((2, 2)), expected_prob=np.ones((1, size)))
    with pytest.raises(UsageError, match="DV707: the arrays expected_prob of its files"):
        read_samples(tmp_path, {"a": Shape(2, 2, 1)}, COLOR)


def test_an_image_without_an_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    path.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="a pipe or a device"):
        read_samples(path, {"in": Shape(2, 2, 3)}, Preparation())


def test_a_folder_is_all_its_images_and_arrays_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        np.save(tmp_path / f"{name}.npy", np.full((2, 2, 1), ord(name), np.float32))
    (tmp_path / "notes.txt").touch()
    samples = read_samples(tmp_path, {"in": Shape(2, 2, 1)}, COLOR)
    assert samples.count == 3 and samples.source == f"3 files of {tmp_path.name}"
    assert [chr(int(v)) for v in samples.inputs["in"][:, 0, 0, 0]] == ["a", "b", "c"]
    for name in ("a", "b"):
        (tmp_path / f"{name}.npy").unlink()
    assert read_samples(tmp_path, {"in": Shape(2, 2, 1)}, COLOR).source == f"1 file of {tmp_path.name}"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"x", "not an image, a .npy or"),
        ("a.png", b"x", "this is not an image"),
        ("a.npy", b"x", r"not a \.npy file"),
        ("none", None, "no such file"),
        ("folder", b"", "no images or arrays"),
    ],
)
def test_what_cannot_be_read_is_said(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    path = tmp_path / name
    if content:
        path.write_bytes(content)
    elif content is not None:
        path.mkdir()
    with pytest.raises(UsageError, match=message):
        read_samples(path, {"in": Shape(2, 2, 3)}, COLOR)
    np.save(tmp_path / "b.npy", np.zeros((5, 6, 7)))
    with pytest.raises(UsageError, match=r"5x6x7 does not fit the input \"in\" of 2x2x3"):
        read_samples(tmp_path / "b.npy", {"in": Shape(2, 2, 3)}, COLOR)
    np.save(tmp_path / "c.npy", np.float32(1))
    with pytest.raises(UsageError, match="an array of a single number does not fit"):
        read_samples(tmp_path / "c.npy", {"in": Shape(2, 2, 3)}, COLOR)


# --- keys of the ini file ------------------------------------------------------------------------------------------------


def ini(folder: Path, lines: str) -> Path:
    (folder / "net.keras").write_bytes(b"PK\x03\x04")
    path = folder / "net.ini"
    path.write_text(f"[INPUT]\nname = net\ndefinition = net.keras\n{lines}\n[OUTPUT]\noutput_folder = out\n")
    return path


def test_the_keys_of_an_images_preparation(tmp_path: Path) -> None:
    read = Config.read(ini(tmp_path, "mean = 104, 117.5,123\nscale = 1/255\nchannel_order = bgr"))
    assert (read.mean, read.scale, read.channel_order) == ((104.0, 117.5, 123.0), 1 / 255, "BGR")
    assert Config.read(ini(tmp_path, "scale = 1/127.5")).scale == 2 / 255
    read = Config.read(ini(tmp_path, "mean = -1 ; shifted\nscale = 7.8125e-3"))
    assert (read.mean, read.scale, read.channel_order) == ((-1.0,), 0.0078125, "")
    read = Config.read(ini(tmp_path, ""))
    assert (read.mean, read.scale, read.channel_order) == ((), None, "")


@pytest.mark.parametrize(
    "line",
    [
        *("scale = 0", "scale = 1/0", "scale = 1/", "scale = 1/2/3", "scale = 1/inf", "scale = nan", "scale = x"),
        *("mean = 1, x", "mean = inf", "channel_order = GBR"),
    ],
)
def test_values_that_make_no_sense(line: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"DV106.*(a number|RGB or BGR)"):
        Config.read(ini(tmp_path, line))


@pytest.mark.parametrize(
    "name",
    ["empty.npy", "none.npy", "text.npy", "several.npy", "array.npz", "cut.npy", "cut.npz", "huge.npy", "flip.npz"],
)
def test_files_that_hold_no_samples_are_refused(name: str, tmp_path: Path) -> None:
    np.save(tmp_path / "none.npy", np.zeros((0, 4, 5, 3)))
    np.save(tmp_path / "text.npy", np.full((4, 5, 3), "a"))
    np.savez(tmp_path / "cut", a=np.random.default_rng(0).random((4, 5, 3)))
    whole, archive = np.zeros((4, 5, 3)), (tmp_path / "cut.npz").read_bytes()
    np.save(tmp_path / "array.npy", whole)
    array = (tmp_path / "array.npy").read_bytes()
    contents = {
        "empty.npy": b"",
        "several.npy": archive,
        "array.npz": array,
        "cut.npy": array[:100],
        "cut.npz": archive[:-30],
        "huge.npy": array.replace(b"(4, 5, 3), ", b"(1, " + b"9" * 7 + b"), "),
        "flip.npz": archive[:200] + bytes([archive[200] ^ 255]) + archive[201:],
    }
    for other, data in contents.items():
        (tmp_path / other).write_bytes(data)
    with pytest.raises(UsageError, match="DV707"):
        read_samples(tmp_path / name, {"a": Shape(4, 5, 3)}, Preparation())


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_fp32_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "large.npy", np.full((4, 5, 3), 1e300))
    with pytest.raises(UsageError, match=r"DV706.*holds inf in sample 0, row 0, column 0, channel 0"):
        read_samples(tmp_path / "large.npy", {"a": Shape(4, 5, 3)}, Preparation())


def test_arrays_of_a_row_come_without_their_height(tmp_path: Path) -> None:
    """As Keras has them behind a Conv1D: (N, W, C), or (W, C)."""
    row = np.arange(2 * 7 * 3, dtype=np.float32).reshape(2, 7, 3)
    for given in (row, row[:1], row[0]):
        np.save(tmp_path / "x.npy", given)
        found = read_samples(tmp_path / "x.npy", {"x": Shape(1, 7, 3)}, Preparation()).inputs["x"]
        assert np.array_equal(found, given.reshape(-1, 1, 7, 3))


def test_an_image_without_opencv_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(
        UsageError, match=r"DV711: images are read with OpenCV, and [\s\S]*; or give the input as a .npy"
    ):
        read_samples(tmp_path / "a.png", {"in": Shape(2, 2, 3)}, Preparation())


@pytest.mark.parametrize("page", ["cluster.md", "verify.md"])
def test_pages_name_the_size_of_a_batch(page: str) -> None:
    assert f"batches of {BATCH}" in (Path(__file__).parents[1] / "docs" / page).read_text(encoding="utf-8")


NOISE = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)


@pytest.mark.parametrize("is_progressive", [False, True])
def test_a_jpeg_without_its_end_is_refused(is_progressive: bool, tmp_path: Path) -> None:
    """Also where an application's segment holds a whole image, as a preview."""
    cv2 = pytest.importorskip("cv2")
    small, options = cv2.imencode(".jpg", NOISE[:8, :8])[1].tobytes(), [cv2.IMWRITE_JPEG_PROGRESSIVE, int(is_progressive), cv2.IMWRITE_JPEG_RST_INTERVAL, 2]  # fmt: skip
    whole = cv2.imencode(".jpg", NOISE, options)[1].tobytes()
    whole = whole[:2] + b"\xff\xe1" + (len(small) + 2).to_bytes(2, "big") + small + whole[2:]
    path, kept = tmp_path / "a.jpg", len(small) + 200
    for data in (whole, whole + b"more"):
        path.write_bytes(data)
        assert read_samples(path, {"a": Shape(64, 64, 3)}, COLOR).count == 1
    for length in (*range(kept, len(whole) - 2, 97), len(whole) - 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(UsageError, match=r"DV707: (the JPEG file ends before its image does|OpenCV cannot read)"):
            read_samples(path, {"a": Shape(64, 64, 3)}, COLOR)


def test_an_image_of_too_many_pixels_is_refused(tmp_path: Path) -> None:
    """In a process of its own, as OpenCV reads the limit when it is loaded."""
    path = tmp_path / "a.pgm"
    path.write_bytes(b"P5 8192 %d 255\n" % (MOST_PIXELS // 8192 + 1))
    read = f"from cnn_convertor.samples import *; read_image(Path({str(path)!r}), Shape(4, 4, 1), Preparation())"
    done = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=False)
    assert "DV707" in done.stderr and "OPENCV_IO_MAX_IMAGE_PIXELS" in done.stderr


def test_an_image_in_the_form_of_another_format_is_refused(tmp_path: Path) -> None:
    """OpenCV would read it, as FP32."""
    (tmp_path / "a.png").write_bytes(b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 4 +X 4\n" + bytes([9, 9, 9, 129] * 16))
    with pytest.raises(UsageError, match="DV707: this is not an image"):
        read_samples(tmp_path / "a.png", {"a": Shape(4, 4, 3)}, COLOR)


def test_an_image_of_absurd_size_is_refused(tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 1 << 20, 1 << 20, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(header)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    (tmp_path / "a.png").write_bytes(data)
    (tmp_path / "a.bmp").write_bytes(b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, 1 << 20, 1 << 20, 1, 24, 0, 0, 0, 0, 0, 0))  # fmt: skip
    for name in ("a.png", "a.bmp"):
        with pytest.raises(UsageError, match="DV707: OpenCV cannot read the image"):
            read_samples(tmp_path / name, {"a": Shape(4, 4, 3)}, COLOR)


PHOTOGRAPH = np.linspace(0, 255, 4 * 5 * 3).reshape(4, 5, 3)
CENTERED = Preparation((127.5,), 1 / 127.5, is_given=True)
MEANS = Preparation((104.0, 117.0, 123.0), 1.0, is_given=True)  # as Caffe's networks take pixels
PLAIN = Preparation((0.0,), 1.0, is_given=True)


def graph_of(shape: Shape = Shape(4, 5, 3), integers: tuple[int, int] | None = None) -> Graph:
    return Graph((Node("in", Input(shape, integers=integers)),), ("in",))


def warnings_of(given: Any, graph: Graph, preparation: Preparation) -> list[str]:
    with captured_warnings() as caught:
        samples_of(given, graph, preparation)
    return [problem.message for problem in caught.problems]


@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
@pytest.mark.parametrize(
    ("array", "preparation", "numbers"),
    [
        (PHOTOGRAPH.astype(np.uint8), CENTERED, "integers from 0 to 255"),
        (PHOTOGRAPH.astype(np.int64), CENTERED, "integers from 0 to 255"),
        (PHOTOGRAPH, CENTERED, "numbers from 0 to 255"),
        ((PHOTOGRAPH / 2).astype(np.uint8), MEANS, "integers from 0 to 127"),  # within the range of the preparation
        (PHOTOGRAPH - 127.5, CENTERED, "numbers from -127.5 to 127.5"),
        (PHOTOGRAPH - 127.5, PLAIN, "numbers from -127.5 to 127.5"),
        (np.float32(CENTERED.apply(PHOTOGRAPH) * 1.25), CENTERED, "numbers from -1.25 to 1.25"),
    ],
)
def test_pixels_in_place_of_prepared_values_are_worth_a_warning(
    array: NDArray[Any], preparation: Preparation, numbers: str, tmp_path: Path
) -> None:
    """In every form that arrays have; a folder of many has one warning."""
    (tmp_path / "several").mkdir()
    for file in ("a", "several/b", "several/c"):
        np.save(tmp_path / f"{file}.npy", array)
    np.savez(tmp_path / "d.npz", array)
    for given in (array, tmp_path / "a.npy", tmp_path / "several", tmp_path / "d.npz"):
        (message,) = warnings_of(given, graph_of(), preparation)
        assert f'the input "in" is an array of {numbers}, which is used as it is' in message
    with pytest.warns(ConvertorWarning, match="DV733"):
        samples_of(array, graph_of(), preparation)
    right = preparation.apply(PHOTOGRAPH)  # what the remedy gives
    assert not warnings_of(right, graph_of(), preparation)


@pytest.mark.parametrize(
    ("array", "graph", "preparation"),
    [
        (CENTERED.apply(PHOTOGRAPH) * np.float32(1.15), graph_of(), CENTERED),  # from another decoder or filter
        (np.rint(MEANS.apply(PHOTOGRAPH)).astype(np.int16), graph_of(), MEANS),
        (PHOTOGRAPH.astype(np.uint8), graph_of(), PLAIN),
        (PHOTOGRAPH.astype(np.uint8), graph_of(), Preparation()),  # nobody says what the network takes
        (PHOTOGRAPH.astype(np.uint8), graph_of(integers=(0, 255)), CENTERED),
        (PHOTOGRAPH > 100, graph_of(), CENTERED),
        ((PHOTOGRAPH > 100).astype(np.uint8), graph_of(), Preparation((0.0,), 1 / 255, is_given=True)),  # a mask
        (np.arange(9), graph_of(Shape(1, 1, 9)), CENTERED),
        (np.full((4, 5, 8), 9), graph_of(Shape(4, 5, 8)), CENTERED),
        (None, graph_of(), CENTERED),
    ],
)
def test_arrays_that_are_prepared_or_no_images_are_worth_none(
    array: NDArray[Any] | None, graph: Graph, preparation: Preparation
) -> None:
    assert warnings_of(array, graph, preparation) == []


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        ("mean = 0.485, 0.456, 0.406\nstd = 0.229, 0.224, 0.225", "mean = 123.675, 116.28, 103.53 and std = 58.395, 57.12, 57.375"),
        ("mean = 0.5\nscale = 2", "mean = 127.5 and scale = 0.00784314"),
        ("scale = 255", "scale = 0.00392157"),
        ("std = 1/255", "std = 255"),
        ("mean = 127.5\nscale = 127.5", "scale = 0.00784314"),
        ("mean = 123.7, 116.3, 103.5\nstd = 0.229, 0.224, 0.225", "std = 58.395, 57.12, 57.375"),
    ],
)  # fmt: skip
def test_figures_for_pixels_from_0_to_1_and_reciprocals_are_worth_a_warning(
    lines: str, right: str, tmp_path: Path
) -> None:
    """The figures that it names are worth none."""
    written = Config.read(ini(tmp_path, lines))
    with pytest.warns(ConvertorWarning, match=rf"DV141: \[INPUT\] mean and [\s\S]*net.ini:\d[\s\S]*try: {right}:"):
        Request.of(written)
    named = dict(line.split(" = ") for line in lines.split("\n"))
    named |= dict(part.split(" = ") for part in right.split(" and "))
    corrected = Config.read(ini(tmp_path, "\n".join(f"{key} = {value}" for key, value in named.items())))
    with captured_warnings() as caught:
        Request.of(corrected)
    assert caught.problems == ()


@pytest.mark.parametrize("lines", ["", "mean = 104, 117, 123", "scale = 1", "mean = 127.5\nstd = 0.9", "input = u8"])
def test_networks_that_take_pixels_as_they_are_are_worth_none(lines: str, tmp_path: Path) -> None:
    written = ini(tmp_path, "").read_text() + lines if lines == "input = u8" else ini(tmp_path, lines).read_text()
    (tmp_path / "net.ini").write_text(written)
    with captured_warnings() as caught:
        Request.of(Config.read(tmp_path / "net.ini"))
    assert caught.problems == ()
