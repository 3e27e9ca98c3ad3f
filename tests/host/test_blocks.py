"""The maximizer and the image processing unit give what a plain reference gives, and refuse what the driver refuses."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from host.device import Device, DeviceError
from host.reference import to_memory

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MAXIMIZER, IPU = 4, 3


def assert_refused(device: Device, message: str, command: Maximizer | Ipu, *, memories: list[int]) -> None:
    """memories: the sizes in bytes of those that the command may name."""
    for size in memories:
        device.alloc(size)
    with pytest.raises(DeviceError) as refused:
        device.run(command)
    assert str(refused.value).startswith(message)


# --- maximizer ---


@dataclass(frozen=True)
class Maximizer:
    width: int = 3
    height: int = 2
    nclass: int = 5
    input_buf: tuple[int, int] = (1, 0)
    output_buf: tuple[int, int] = (1, 512)
    size: int = 48
    version: int = 0

    def data(self) -> bytes:
        buffers = (*self.input_buf, *self.output_buf)
        return struct.pack(
            "<IBB2xQQQQHHB3x", self.size, MAXIMIZER, self.version, *buffers, self.width, self.height, self.nclass
        )


def largest(device: Device, values: NDArray[np.float16]) -> NDArray[np.uint8]:
    """What the maximizer finds in a map (height, width, channels)."""
    height, width, classes = values.shape
    data = to_memory(values.astype(np.float64), transposed=False)
    memory = device.alloc(len(data) + height * width)
    device.write(memory, 0, data)
    device.run(Maximizer(width, height, classes, (memory, 0), (memory, len(data))))
    return np.frombuffer(device.raw(memory, len(data), height * width), np.uint8).reshape(width, height).T


@pytest.mark.parametrize("classes", [2, 7, 8, 9, 16, 149, 254, 255])
def test_the_maximizer_finds_the_lowest_index_of_the_largest_value(device: Device, classes: int) -> None:
    few = np.random.default_rng(classes).integers(-3, 4, (5, 7, classes)).astype(np.float16)  # many equal values
    np.testing.assert_array_equal(largest(device, few), few.argmax(axis=2))


def test_the_maximizer_compares_fp16(device: Device) -> None:
    values = np.array([[[-np.inf, -65504, -1], [0.0, -0.0, 0.0], [2.0**-24, 0.0, 2.0**-24], [1.0, 1.0009765625, 1.0]]])
    np.testing.assert_array_equal(largest(device, values.astype(np.float16)), [[2, 0, 0, 1]])


@pytest.mark.parametrize(("width", "height"), [(1, 1), (128, 1), (1, 491)])
def test_the_maximizer_takes_any_shape(device: Device, width: int, height: int) -> None:
    values = np.random.default_rng(1).normal(size=(height, width, 11)).astype(np.float16)
    np.testing.assert_array_equal(largest(device, values), values.argmax(axis=2))


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ("width = 0: a map has at least one column", Maximizer(width=0)),
        ("height = 0: a map has at least one row", Maximizer(height=0)),
        ("nclass = 1: 2 to 255 is possible", Maximizer(nclass=1)),
        ("width = 4096, height = 4096: a map has less than 16777216 pixels", Maximizer(4096, 4096)),
        ("header.size = 40: this version has 48 bytes", Maximizer(size=40)),
        ("header.version = 1: 0 is known", Maximizer(version=1)),
        ("input_buf.mem = 0: no memory", Maximizer(input_buf=(0, 0))),
        ("output_buf: bytes 1020 to 1026 are outside a memory of 1024 bytes", Maximizer(output_buf=(1, 1020))),
    ],
)
def test_maximizer_refusal(device: Device, message: str, command: Maximizer) -> None:
    assert_refused(device, message, command, memories=[1024])


def test_the_maximizer_counts_its_bytes(device: Device) -> None:
    before = device.counters(MAXIMIZER)
    largest(device, np.zeros((4, 5, 6), np.float16))
    assert device.counters(MAXIMIZER).since(before) == (1, 240, 0, 20, 0)


# --- image processing unit ---


@dataclass(frozen=True)
class Ipu:
    tex: tuple[int, int] = (1, 0)
    wr: tuple[int, int] = (2, 0)
    fmt_tex: int = 1
    fmt_wr: int = 2
    tex_size: tuple[int, int] = (4, 3)
    rect_size: tuple[int, int] = (4, 3)
    stride_wr: int = 24
    lut: tuple[int, ...] = ()
    transpose: int = 0
    use_tex: int = 1
    use_rd: int = 0
    blf: int = 0
    indices: tuple[int, int, int, int] = (0, 1, 2, 3)
    cnv_type: int = 0
    cnv_param: tuple[int, int, int] = (0, 0, 0)

    def data(self) -> bytes:
        head = struct.pack("<IBB2xQQQQQQ", 224, IPU, 0, *self.tex, 0, 0, *self.wr)
        sizes = struct.pack(
            "<4B4Hii", self.fmt_tex, 0, self.fmt_wr, 0, *self.tex_size, *self.rect_size, 0, self.stride_wr
        )
        colors = struct.pack("<32I", *self.lut, *[0] * (32 - len(self.lut)))
        modes = (len(self.lut), 0, self.transpose, 0, self.use_tex, self.use_rd, self.blf)
        tail = struct.pack("<7B4b4B", *modes, *self.indices, self.cnv_type, *self.cnv_param)
        data = head + sizes + colors + tail
        return data + bytes(224 - len(data))


PIXELS = np.random.default_rng(3).integers(0, 256, (3, 4, 3)).astype(np.uint8)


def drawn(device: Device, image: NDArray[np.uint8], command: Ipu, count: int) -> bytes:
    device.store(image.tobytes())
    device.alloc(count)
    device.run(command)
    return device.raw(2, 0, count)


def halves(data: bytes, *shape: int) -> NDArray[np.float16]:
    return np.frombuffer(data, np.float16).reshape(shape)


def test_pixels_become_fp16_less_a_mean(device: Device) -> None:
    data = drawn(device, PIXELS, Ipu(cnv_param=(104, 117, 123)), PIXELS.size * 2)
    np.testing.assert_array_equal(halves(data, 3, 4, 3), PIXELS.astype(int) - [104, 117, 123])


def test_pixels_become_fp16_of_0_to_1(device: Device) -> None:
    every = np.arange(768, dtype=np.int64).reshape(16, 16, 3).astype(np.uint8)
    command = Ipu(tex_size=(16, 16), rect_size=(16, 16), stride_wr=96, cnv_type=1)
    data = drawn(device, every, command, every.size * 2)
    np.testing.assert_array_equal(halves(data, 16, 16, 3), (every / 255.0).astype(np.float16))


def test_channels_are_picked(device: Device) -> None:
    data = drawn(device, PIXELS, Ipu(indices=(2, 1, 0, 3), cnv_param=(1, 2, 3)), PIXELS.size * 2)
    np.testing.assert_array_equal(halves(data, 3, 4, 3), PIXELS[..., ::-1].astype(int) - [1, 2, 3])


def test_transposition_gives_the_device_order(device: Device) -> None:
    data = drawn(device, PIXELS, Ipu(transpose=1, stride_wr=18), PIXELS.size * 2)
    assert data == to_memory(PIXELS.astype(np.float64), transposed=False)


def test_lines_start_at_the_stride(device: Device) -> None:
    data = drawn(device, PIXELS, Ipu(fmt_wr=1, stride_wr=20), 2 * 20 + 12)
    assert [data[20 * y : 20 * y + 12] for y in range(3)] == [PIXELS[y].tobytes() for y in range(3)]


def test_nearest_scaling_takes_the_pixel_below_the_center(device: Device) -> None:
    command = Ipu(rect_size=(8, 6), fmt_wr=1, stride_wr=24)
    data = drawn(device, PIXELS, command, 8 * 6 * 3)
    np.testing.assert_array_equal(np.frombuffer(data, np.uint8).reshape(6, 8, 3), PIXELS.repeat(2, 0).repeat(2, 1))


def test_bilinear_scaling_mixes_neighbors(device: Device) -> None:
    image = np.array([[[0, 0, 0], [100, 200, 40]]], np.uint8)
    command = Ipu(tex_size=(2, 1), rect_size=(4, 1), fmt_wr=1, blf=1)
    data = drawn(device, image, command, 12)
    assert np.frombuffer(data, np.uint8)[::3].tolist() == [0, 25, 75, 100]


def test_a_texture_of_colors(device: Device) -> None:
    image = np.array([[0, 1, 1, 0]], np.uint8)
    colors = (0xFF030201, 0x00FFFEFD)
    command = Ipu(fmt_tex=7, lut=colors, tex_size=(4, 1), rect_size=(4, 1), fmt_wr=0)
    data = drawn(device, image, command, 16)
    assert data == b"".join(struct.pack("<I", colors[i]) for i in image.ravel())
    with pytest.raises(DeviceError, match="ncolor_lut = 1: the texture has the color 1"):
        device.run(replace(command, lut=colors[:1]))


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ("use_tex = 0: without a texture nothing is drawn", Ipu(use_tex=0)),
        ("use_rd = 1: how an image below the texture is mixed in is not documented", Ipu(use_rd=1)),
        ("fmt_tex = 2: 0 (RGBA8888), 1 (RGB888) or 7 (LUT) is possible", Ipu(fmt_tex=2)),
        ("fmt_wr = 7: 0 (RGBA8888), 1 (RGB888) or 2 (RGBFP16) is possible", Ipu(fmt_wr=7)),
        ("tex_width = 0: 1 to 4095 is possible", Ipu(tex_size=(0, 3))),
        ("tex_height = 4096: 1 to 4095 is possible", Ipu(tex_size=(4, 4096))),
        ("rect_width = 4095: 1 to 4094 is possible", Ipu(rect_size=(4095, 3))),
        ("rect_height = 0: 1 to 4094 is possible", Ipu(rect_size=(4, 0))),
        ("stride_wr = 32768: -32768 to 32767 is possible", Ipu(stride_wr=32768)),
        ("stride_wr = -24: where lines that run backwards start", Ipu(stride_wr=-24)),
        ("stride_wr = 22: lines have 24 bytes and would overlap", Ipu(stride_wr=22)),
        ("gidx = 0: the same as ridx", Ipu(indices=(0, 0, 2, 3))),
        ("bidx = 3: 0 to 2 is possible", Ipu(indices=(0, 1, 3, 2))),
        ("ridx = -1: 0 to 2 is possible", Ipu(indices=(-1, 1, 2, 3))),
        ("ncolor_lut = 0: 1 to 32 is possible", Ipu(fmt_tex=7)),
        ("cnv_type = 2: 0 (subtraction) or 1 (division by 255) is possible", Ipu(cnv_type=2)),
        ("wr.offs = 1: FP16 values start at even offsets", Ipu(wr=(2, 1))),
        ("wr: bytes 2 to 74 are outside a memory of 72 bytes", Ipu(wr=(2, 2))),
        ("tex.mem = 0: no memory", Ipu(tex=(0, 0))),
    ],
)
def test_ipu_refusal(device: Device, message: str, command: Ipu) -> None:
    assert_refused(device, message, command, memories=[36, 72])


def test_the_ipu_counts_its_bytes(device: Device) -> None:
    before = device.counters(IPU)
    drawn(device, PIXELS, Ipu(), PIXELS.size * 2)
    assert device.counters(IPU).since(before) == (1, 36, 0, 72, 0)


# --- both ---


def test_a_device_has_the_blocks_that_the_environment_names(device: Device, driver: Path) -> None:
    assert [device.exists(block) for block in (1, 2, 3, 4)] == [True, False, True, True]
    small = Device(driver, {"DMP_DV_BLOCKS": "CONV"})
    assert [small.exists(block) for block in (1, 2, 3, 4)] == [True, False, False, False]
    small.alloc(1024)
    with pytest.raises(DeviceError, match=r"header.device_type = 4: the device has no such block \(it has CONV\)"):
        small.run(Maximizer())
    assert small.close() == 0
