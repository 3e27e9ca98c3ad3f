"""The command `layout`: pack, unpack and convert arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.cli import main
from cnn_convertor.layouts import layout_of, pack
from cnn_convertor.layouts.bpu import NV12
from cnn_convertor.layouts.nvdla.pixels import FORMATS, pack_pixels
from cnn_convertor.layouts.nvdla.precision import Precision

IMAGE = np.random.default_rng(0).standard_normal((1, 12, 3, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", IMAGE)
    return tmp_path


def layout(text: str) -> int:
    return main(["layouts", *text.split()])


def test_pack_and_unpack() -> None:
    half = IMAGE.astype(np.float16)
    assert layout("pack --to whc8 x.npy x.bin") == 0
    assert Path("x.bin").read_bytes() == pack(half[0].transpose(1, 2, 0), layout_of("whc8")).tobytes()
    assert layout("unpack --from whc8 --shape 3,4,12 x.bin y.npy") == 0
    np.testing.assert_array_equal(np.load("y.npy"), half)


@pytest.mark.parametrize("name", FORMATS)
def test_pixels_of_every_format(name: str) -> None:
    given = FORMATS[name]
    random = np.random.default_rng(0).integers(0, 4, (5, 7, given.channels))
    image = random.astype(np.float32 if given.precision is Precision.FP16 else np.uint8)
    np.save("image.npy", image)
    assert layout(f"pack --from HWC --to {name} image.npy x.bin") == 0
    planes = pack_pixels(image.astype(np.float16) if given.precision is Precision.FP16 else image, given)
    assert Path("x.bin").read_bytes() == b"".join(plane.tobytes() for plane in planes)
    assert layout(f"unpack --from {name} --to CHW --shape 5,7,{given.channels} x.bin y.npy") == 0
    np.testing.assert_array_equal(np.load("y.npy"), image.transpose(2, 0, 1))


def test_rows_of_nv12_are_a_layout() -> None:
    luma, chroma = (np.arange(n, dtype=np.uint8).reshape(shape) for n, shape in ((24, (4, 6)), (12, (2, 3, 2))))
    np.save("rows.npy", np.concatenate([luma, chroma.reshape(2, 6)]))
    assert main(["layouts", "pack", "--from", "HW", "--to", "hw: h@16 w | uint8", "rows.npy", "x.bin"]) == 0
    assert Path("x.bin").read_bytes() == NV12(4, 6).pack(luma, chroma).tobytes()


def test_bits_are_packed_into_words() -> None:
    truth = IMAGE > 0
    np.save("bits.npy", truth)
    assert layout("pack --to b_fs_yx_32fp bits.npy x.bin") == 0
    assert len(Path("x.bin").read_bytes()) == 4 * 3 * 4
    first = int.from_bytes(Path("x.bin").read_bytes()[:4], "little")
    assert [first >> f & 1 for f in range(32)] == [*truth[0, :, 0, 0], *[0] * 20]
    assert layout("unpack --from b_fs_yx_32fp --to NCHW --shape 1,12,3,4 x.bin y.npy") == 0
    np.testing.assert_array_equal(np.load("y.npy"), truth)


def test_convert_between_families() -> None:
    assert layout("pack --to nvdla_feature_float16 x.npy x.bin") == 0
    assert layout("convert --from nvdla_feature_float16 --to b_fs_yx_fsv16 --shape 12x3x4 x.bin y.bin") == 0
    assert layout("convert --from b_fs_yx_fsv16 --to NHWC --shape 1,12,3,4 --element float16 y.bin y.npy") == 0
    np.testing.assert_array_equal(np.load("y.npy"), IMAGE.astype(np.float16).transpose(0, 2, 3, 1))


def test_list_and_describe(capsys: pytest.CaptureFixture[str]) -> None:
    assert layout("list") == 0
    assert "b_fs_yx_fsv16" in capsys.readouterr().out
    assert layout("list dv700") == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert layout("describe whc8 --shape 3,2,12 -o x.svg") == 0
    assert "(c div 8)*96" in capsys.readouterr().out
    assert Path("x.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("list intel", "DV841"),
        ("describe whq8 --shape 1,2,3", 'letter 3, "q"'),
        ("describe whc8 --shape 1,2,z", "is not a shape"),
        (f"describe whc8 --shape 1,2,{'9' * 5000}", "is not a shape"),
        (f"describe {'c/' + '9' * 5000} --shape 1", "5002 letters, more than 400"),
        ("describe whc8 --shape 1,2", "DV802"),
        ("describe NCHW --shape 1,2,3,4 --element halb", "DV841"),
        ("pack --to whc8 x.npy y.npy", "has blocks; an array has none"),
        ("pack --from CHW --to whc8 x.npy y.bin", "DV840: the array has 4 axes, but CHW has 3"),
        ("pack --to whc8 nothing.npy y.bin", "DV113"),
        ("pack --to nvdla_feature_int8 x.npy y.bin", "the layout is for int8, not float32"),
        ("unpack --from whc8 --to NCHW damaged.bin y.npy", "--shape with h,w,c"),
        ("unpack --from whc8 --to NCHW --shape 9,9,9 damaged.bin y.npy", "the buffer has 5"),
        ("pack --to whc8 damaged.npy y.bin", "not an array of numbers"),
        ("pack --to NHWC huge.npy y.bin", "not an array of numbers"),
        ("pack --to NHWC several.npy y.bin", "several arrays"),
        ("pack --to NHWC text.npy y.bin", "an array of <U1, not of numbers"),
        ("convert --to NHWC empty.npy y.npy", "is empty"),
        ("pack --to T_A8B8G8R8 x.npy y.bin", "T_A8B8G8R8 has 4 channels, but the image is 3x4x12"),
        ("pack --from HWC --to T_A8R8G8B8 colors.npy y.bin", "is for integers, not float32"),
        ("unpack --from T_R8 --to HWC --shape 9,9,1 damaged.bin y.npy", "the buffer has 5"),
        ("unpack --from T_R8 --to HWC --shape 9,9,2 damaged.bin y.npy", "T_R8 has 1 channels, not 2"),
        ("unpack --from T_R8 --to HWC --shape 9,9 damaged.bin y.npy", "DV802"),
        (
            "describe T_A8R8G8B8 --shape 2,2,4",
            "a format of pixels, B8 G8 R8 A8\n  try: layouts pack, unpack or convert\n",
        ),
        ("pack --to b_fs_yx_32fp x.npy y.bin", "a bit is 0 or 1"),
        ("convert --from b_fs_yx_32fp --to NCHW --shape 1,33,9,9 damaged.bin y.npy", "DV804"),
    ],
)
def test_errors_of_the_command(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    for ending in ("bin", "npy"):
        Path(f"damaged.{ending}").write_bytes(b"12345")
    Path("huge.npy").write_bytes(Path("x.npy").read_bytes().replace(b"(1, 12, 3, 4)", b"(99999999999,)"))
    np.savez("several", x=IMAGE)
    Path("several.npz").rename("several.npy")
    np.save("text.npy", np.full((1, 1, 1, 1), "a"))
    np.save("empty.npy", IMAGE[:, :0])
    np.save("colors.npy", IMAGE[0, :, :, :4])
    assert layout(arguments) != 0
    assert message in capsys.readouterr().err
    assert not list(Path().glob("y.*"))
