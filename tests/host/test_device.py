"""The convolution block gives what the specification's arithmetic gives."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from host.device import Device, DeviceError
from host.reference import (
    ACTIVATIONS,
    TRANSPOSED,
    Command,
    Run,
    Sides,
    Weights,
    Window,
    activate,
    all_sides,
    average_pool,
    convolve,
    deconvolve,
    half_bits,
    max_pool,
    pair,
    places,
    upsample,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from host.reference import Map
from host.bench import Bench, integer_weights, integers

BOTH_ORDERS = pytest.mark.parametrize("transposed", [False, True], ids=["WHC", "HWC"])


def fractions(seed: int, *shape: int) -> Map:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16).astype(np.float64)


def half(values: Map) -> Map:
    return values.astype(np.float16).astype(np.float64)


def assert_rounded(got: Map, expected: Map) -> None:
    """Equal up to the last bit of FP16: sums in another order may round to a neighbor."""
    np.testing.assert_allclose(got, half(expected), rtol=2**-10, atol=2**-20)


# --- convolution ---

KERNELS = [*((k, k) for k in range(1, 8)), (1, 3), (3, 1), (2, 3), (5, 3), (7, 1), (1, 7), (4, 7)]
CHANNELS = [1, 3, 8, 9, 20, 64, 65]


@dataclass(frozen=True)
class Conv:
    size: tuple[int, int] = (3, 3)
    channels: int = 9
    outputs: int = 9
    stride: tuple[int, int] = (1, 1)
    pad: Sides = field(default_factory=Sides)
    dilation: tuple[int, int] = (1, 1)
    enable: int = 1
    palette: bool = False
    map_size: tuple[int, int] = (9, 11)

    def __str__(self) -> str:
        kind = {1: "conv", 3: "depthwise", 5: "deconv", 7: "depthwise-deconv"}[self.enable]
        p = self.pad
        return (
            f"{kind}-k{self.size[0]}x{self.size[1]}-c{self.channels}-m{self.outputs}-s{self.stride[0]}{self.stride[1]}"
            f"-d{self.dilation[0]}{self.dilation[1]}-p{p.left}{p.right}{p.top}{p.bottom}-{'q8' if self.palette else 'f16'}"
        )


def convolutions() -> Iterator[Conv]:
    for size in KERNELS:
        yield Conv(size, pad=Sides(1, 2, 3, 0), palette=size[0] % 2 == 0)
        yield Conv(size, 20, 10, stride=(2, 1), pad=Sides(0, 3, 1, 2), palette=size[0] % 2 == 1)
        yield Conv(size, 10, 10, enable=3, pad=Sides(2, 1, 0, 3), stride=(1, 2))
        yield Conv(size, 9, 4, enable=5, stride=(2, 3), pad=Sides(2, 1, 3, 0), map_size=(5, 4))
        yield Conv(size, 9, 9, enable=7, stride=(2, 2), pad=Sides(1, 2, 0, 3), map_size=(5, 4), palette=True)
    for channels in CHANNELS:
        for size in [(1, 1), (3, 3), (5, 5), (7, 7)]:
            yield Conv(size, channels, 17, pad=all_sides(2))
            yield Conv(size, 5, channels, pad=all_sides(2), palette=True)
        yield Conv(channels=channels, outputs=channels, enable=3)
    yield Conv((1, 1), 130, 33, palette=True)
    yield Conv((1, 1), 200, 10, map_size=(1, 1))
    yield Conv(stride=(3, 4), pad=Sides(127, 130, 5, 140), channels=3)
    for size in [(3, 3), (1, 3), (5, 3), (7, 7)]:
        for dilation in [(2, 2), (3, 1), (1, 2)]:
            same = [(k - 1) * d // 2 for k, d in zip(size, dilation, strict=True)]
            pad = Sides(same[1], same[1], same[0], same[0])
            for palette in (False, True):
                yield Conv(size, 9, 10, dilation=dilation, pad=pad, palette=palette, map_size=(8, 10))
    two = all_sides(2)
    yield Conv(channels=65, outputs=3, dilation=(2, 2), pad=two)
    yield Conv(dilation=(2, 2), pad=two, stride=(2, 2), map_size=(8, 10))
    yield Conv(dilation=(2, 2), pad=two, enable=3)
    yield Conv(dilation=(2, 2), pad=two, enable=5)


@BOTH_ORDERS
@pytest.mark.parametrize("case", list(dict.fromkeys(convolutions())), ids=str)
def test_convolution_of_integers_is_exact(device: Device, case: Conv, transposed: bool) -> None:
    bench = Bench(device, transposed=transposed)
    values = integers(1, *case.map_size, case.channels)
    depthwise = case.enable in (3, 7)
    weights = integer_weights(2, case.outputs, 1 if depthwise else case.channels, case.size, palette=case.palette)
    window = Window(case.size, case.stride, case.dilation, case.pad)
    arithmetic = deconvolve if case.enable in (5, 7) else convolve
    expected = arithmetic(values, weights, window, depthwise=depthwise)
    command = bench.command(values, bench.conv_run(weights, window, case.enable))
    np.testing.assert_array_equal(bench.result(command, expected.shape), half(expected))


@BOTH_ORDERS
def test_deconvolution_equals_the_transposed_convolution_of_frameworks(device: Device, transposed: bool) -> None:
    (ky, kx), (sy, sx), pad = (4, 3), (2, 3), (1, 1)
    values, kernel = integers(1, 5, 4, 3), integers(2, 6, 3, ky, kx)
    full = np.zeros(((5 - 1) * sy + ky, (4 - 1) * sx + kx, 6))
    for y, x in np.ndindex(5, 4):
        full[y * sy : y * sy + ky, x * sx : x * sx + kx] += np.einsum("c,mcyx->yxm", values[y, x], kernel)
    expected = full[pad[0] : -pad[0], pad[1] : -pad[1]]
    window = Window((ky, kx), (sy, sx), pad=Sides(kx - 2, kx - 2, ky - 2, ky - 2))
    bench = Bench(device, transposed=transposed)
    weights = Weights(kernel[:, :, ::-1, ::-1], np.zeros(6))
    command = bench.command(values, bench.conv_run(weights, window, 5))
    np.testing.assert_array_equal(bench.result(command, expected.shape), expected)


@BOTH_ORDERS
def test_sums_are_rounded_once(device: Device, transposed: bool) -> None:
    """2049 is not an FP16 number: 2048 + 1 + 1 is 2050 only when sums stay FP32."""
    values = np.array([2048.0, 1.0, 1.0]).reshape(1, 1, 3)
    bench = Bench(device, transposed=transposed)
    command = bench.command(values, bench.conv_run(Weights(np.ones((1, 3, 1, 1)), np.zeros(1)), Window(), 1))
    assert bench.result(command, (1, 1, 1)).item() == 2050


@BOTH_ORDERS
def test_convolution_of_fractions_is_rounded_to_fp16(device: Device, transposed: bool) -> None:
    values = fractions(1, 12, 13, 65)
    weights = Weights(fractions(2, 20, 65, 3, 3), fractions(3, 20))
    bench = Bench(device, transposed=transposed)
    expected = convolve(values, weights, Window((3, 3), pad=all_sides(1)))
    command = bench.command(values, bench.conv_run(weights, Window((3, 3), pad=all_sides(1)), 1))
    np.testing.assert_allclose(bench.result(command, (12, 13, 20)), expected, rtol=2**-10, atol=2**-8)


def test_infinities_and_subnormals_are_kept(device: Device) -> None:
    values = np.array([65504.0, -65504.0, 2.0**-24, -(2.0**-24), 2.0**-15, 0.0]).reshape(1, 1, 6)
    bench = Bench(device, transposed=False)
    expected = np.array([np.inf, -np.inf, 2.0**-23, -(2.0**-23), 2.0**-14, 0.0])
    command = bench.command(values, Run(6, pool_enable=2, pool_size=0x0101, pool_avg_param=half_bits(2.0)))
    np.testing.assert_array_equal(bench.result(command, (1, 1, 6)).ravel(), expected)


@pytest.mark.parametrize("scale", [0.5, 2.0**-14, 1.5 * 2.0**-15])
def test_all_fp16_numbers_are_rounded_to_nearest_even(device: Device, scale: float) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    values = bits.view(np.float16)
    values = values[np.isfinite(values)]
    expected = (values.astype(np.float64) * float(np.float16(scale))).astype(np.float16)
    side = 16 * 2
    count = values.size // (side * 8) * side * 8
    shape = (count // (side * 8), side, 8)
    bench = Bench(device, transposed=True)
    device.write(bench.io, 0, values[:count].tobytes())
    run = Run(8, pool_enable=2, pool_size=0x0101, pool_avg_param=half_bits(scale))
    command = Command(
        shape[1], shape[0], 8, [run], (bench.io, 0), (bench.io, 2 * count), input_circular_offset=TRANSPOSED
    )
    device.run(command)
    np.testing.assert_array_equal(device.read(bench.io, 2 * count, count), expected[:count])


# --- pools ---


@BOTH_ORDERS
@pytest.mark.parametrize("size", [(2, 2), (3, 3), (1, 2), (1, 3), (3, 2), (2, 3)])
@pytest.mark.parametrize("pad", [Sides(), Sides(1, 0, 0, 1), Sides(1, 1, 1, 1)], ids=["none", "some", "all"])
def test_max_pool_never_takes_padding(device: Device, size: tuple[int, int], pad: Sides, transposed: bool) -> None:
    values = integers(1, 9, 10, 20) - 10
    window = Window(size, (2, 1), pad=pad if size[0] > 1 else replace(pad, top=0, bottom=0))
    expected = max_pool(values, window)
    bench = Bench(device, transposed=transposed)
    run = Run(20, pool_enable=1, pool_size=pair(size), pool_stride=pair((2, 1)), pool_pad=window.pad.register())
    np.testing.assert_array_equal(bench.result(bench.command(values, run), expected.shape), expected)


@BOTH_ORDERS
@pytest.mark.parametrize("size", [(1, 1), (2, 2), (3, 3), (7, 7), (2, 5), (7, 1)])
def test_average_pool_counts_padding_as_zeros(device: Device, size: tuple[int, int], transposed: bool) -> None:
    values = integers(1, 9, 10, 12)
    window = Window(size, (1, 2), pad=Sides(1, 0, 2, 1))
    expected = average_pool(values, window, 0.25)
    bench = Bench(device, transposed=transposed)
    run = Run(12, pool_enable=2, pool_size=pair(size), pool_stride=pair((1, 2)), pool_pad=window.pad.register())
    command = bench.command(values, replace(run, pool_avg_param=half_bits(0.25)))
    np.testing.assert_array_equal(bench.result(command, expected.shape), expected)


@BOTH_ORDERS
def test_upsampling_repeats(device: Device, transposed: bool) -> None:
    values = integers(1, 3, 4, 9)
    bench = Bench(device, transposed=transposed)
    command = bench.command(values, Run(9, pool_enable=4, pool_size=0x0202))
    np.testing.assert_array_equal(bench.result(command, (6, 8, 9)), upsample(values))


@BOTH_ORDERS
def test_max_pool_comes_between_sum_and_activation(device: Device, transposed: bool) -> None:
    values, operand = integers(1, 6, 8, 9), integers(5, 6, 8, 10, most=20)
    weights = integer_weights(2, 10, 9, (3, 3), palette=False)
    window = Window((3, 3), pad=all_sides(1))
    expected = activate(max_pool(convolve(values, weights, window) + operand, Window((2, 2), (2, 2))), "relu", -0.5)
    bench = Bench(device, transposed=transposed)
    run = replace(
        bench.conv_run(weights, window, 1),
        pool_enable=1, pool_size=0x0202, pool_stride=0x0202, actfunc=2, actfunc_param=half_bits(-0.5),
    )  # fmt: skip
    np.testing.assert_array_equal(bench.result(bench.command(values, run, operand=operand), (3, 4, 10)), expected)


@BOTH_ORDERS
def test_a_plain_sum_is_an_average_pool_of_one(device: Device, transposed: bool) -> None:
    values, operand = integers(1, 6, 8, 9), integers(2, 6, 8, 9)
    bench = Bench(device, transposed=transposed)
    run = Run(9, pool_enable=2, pool_size=0x0101, pool_avg_param=half_bits(2.0), actfunc=2)
    expected = np.maximum(2 * values + operand, 0)
    np.testing.assert_array_equal(bench.result(bench.command(values, run, operand=operand), (6, 8, 9)), expected)


# --- activations ---


@BOTH_ORDERS
@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name != "prelu"])
@pytest.mark.parametrize("convolves", [False, True], ids=["alone", "after-conv"])
def test_activation(device: Device, name: str, convolves: bool, transposed: bool) -> None:
    values = fractions(1, 5, 6, 9) * 4
    slope = 0.125 if name == "relu" else 0.0
    bench = Bench(device, transposed=transposed)
    run = Run(9)
    if convolves:
        run = bench.conv_run(Weights(np.ones((9, 1, 1, 1)), np.zeros(9)), Window(), 3)
    command = bench.command(values, replace(run, actfunc=ACTIVATIONS[name], actfunc_param=half_bits(slope)))
    assert_rounded(bench.result(command, (5, 6, 9)), activate(values, name, slope))


@BOTH_ORDERS
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (5, 5), (7, 7)])
@pytest.mark.parametrize("enable", [1, 3])
def test_prelu_has_a_slope_for_each_channel(
    device: Device, size: tuple[int, int], enable: int, transposed: bool
) -> None:
    values = integers(1, 8, 9, 10)
    weights = integer_weights(2, 10, 10 if enable == 1 else 1, size, palette=False, prelu=True)
    window = Window(size, pad=all_sides(2))
    sums = convolve(values, weights, window, depthwise=enable == 3)
    assert weights.slopes is not None
    expected = activate(sums, "prelu", weights.slopes)
    bench = Bench(device, transposed=transposed)
    run = replace(bench.conv_run(weights, window, enable), actfunc=4)
    got = bench.result(bench.command(values, run), expected.shape)
    np.testing.assert_array_equal(got, half(expected))


def test_rectification_gives_the_absolute_value(device: Device) -> None:
    values = integers(1, 5, 6, 9)
    bench = Bench(device, transposed=False)
    np.testing.assert_array_equal(bench.result(bench.command(values, Run(9, rectifi_en=1)), (5, 6, 9)), np.abs(values))


# --- several runs ---


@BOTH_ORDERS
def test_a_chain_goes_through_the_unified_buffer(device: Device, transposed: bool) -> None:
    values = fractions(1, 10, 12, 9)
    first, second = (
        Weights(fractions(2, 12, 9, 3, 3), fractions(3, 12)),
        Weights(fractions(4, 20, 12, 1, 1), fractions(5, 20)),
    )
    window = Window((3, 3), pad=all_sides(1))
    inner = half(np.maximum(convolve(values, first, window), 0))
    pooled = max_pool(inner, Window((2, 2), (2, 2)))
    expected = convolve(pooled, second, Window())
    bench = Bench(device, transposed=transposed)
    runs = [
        replace(bench.conv_run(first, window, 1), actfunc=2),
        Run(12, pool_enable=1, pool_size=0x0202, pool_stride=0x0202),
        bench.conv_run(second, Window(), 1),
    ]
    got = bench.result(bench.command(values, *runs), (5, 6, 20))
    np.testing.assert_allclose(got, expected, rtol=2**-8, atol=2**-6)


@BOTH_ORDERS
def test_branches_start_at_the_input_and_store_one_after_the_other(device: Device, transposed: bool) -> None:
    """topo 0b11010: one run alone in the middle, two chains of two around it."""
    values = integers(1, 6, 7, 9)
    order = [((1, 1), 9, 8), ((3, 3), 8, 16), ((1, 1), 9, 4), ((5, 5), 4, 8), ((1, 1), 9, 12)]
    bench = Bench(device, transposed=transposed)
    runs, branches, source = [], [], values
    for i, (size, c, m) in enumerate(order):
        weights = integer_weights(10 * i, m, c, size, palette=i % 2 == 1)
        window = Window(size, pad=all_sides(size[0] // 2))
        runs.append(bench.conv_run(weights, window, 1))
        source = half(convolve(source, weights, window))
        if 0b11010 >> i & 1:
            branches.append(source)
            source = values
    got = bench.result(bench.command(values, *runs, topo=0b11010), (6, 7, 36))
    np.testing.assert_array_equal(got, np.concatenate(branches, axis=2))


def test_version_0_of_the_command_is_the_same(device: Device) -> None:
    values = integers(1, 4, 4, 3)
    bench = Bench(device, transposed=False)
    command = bench.command(values, Run(3, pool_enable=1, pool_size=0x0202, pool_stride=0x0202))
    data = command.data()[32:]
    device.ask("list")
    device.ask(f"add {len(data)}", data)
    device.ask("run")
    got = bench.get(command.output_buf[1], (2, 2, 3))
    np.testing.assert_array_equal(got, max_pool(values, Window((2, 2), (2, 2))))


# --- batches ---


@BOTH_ORDERS
@pytest.mark.parametrize("enable", [1, 3, 5, 7])
@pytest.mark.parametrize("stride", [(1, 1), (2, 1)])
def test_a_batch_equals_single_commands(device: Device, enable: int, stride: tuple[int, int], transposed: bool) -> None:
    samples, shape = 3, (6, 5, 10)
    bench = Bench(device, transposed=transposed)
    weights = integer_weights(3, 10, 10 if enable in (1, 5) else 1, (3, 3), palette=False)
    run = bench.conv_run(weights, Window((3, 3), stride, pad=all_sides(1)), enable)
    single = bench.command(integers(0, *shape), run)
    step = int(np.prod(shape))
    device.write(bench.io, 0, fractions(7, samples * step).astype(np.float16).tobytes())
    height, width = convolved_size(shape, stride, enable)
    output, count = 4096, height * width * 10
    for sample in range(samples):
        device.run(
            replace(single, input_buf=(bench.io, 2 * step * sample), output_buf=(bench.io, output + 2 * count * sample))
        )
    one_by_one = device.raw(bench.io, output, 2 * count * samples)
    device.write(bench.io, output, bytes(2 * count * samples))
    order = single.input_circular_offset
    before = device.counters()
    device.run(replace(single, output_buf=(bench.io, output), input_circular_offset=order | samples))
    assert device.raw(bench.io, output, 2 * count * samples) == one_by_one
    assert any(one_by_one)
    work = device.counters().since(before)
    assert (work[0], work[1], work[3]) == (1, 2 * step * samples, 2 * count * samples)


def convolved_size(shape: tuple[int, int, int], stride: tuple[int, int], enable: int) -> tuple[int, int]:
    """Height and width after a 3x3 kernel with a padding of 1."""
    rows, columns = ((shape[i] - 1) * stride[i] + 1 if enable > 3 else (shape[i] - 1) // stride[i] + 1 for i in (0, 1))
    return rows, columns


# --- modes ---


def test_exact_mode_does_not_round_between_commands(driver: Path) -> None:
    device = Device(driver, {"DMP_DV_EXACT": "1"})
    bench = Bench(device, transposed=False)
    values = fractions(1, 8, 8, 20)
    weights = [Weights(fractions(i, 20, 20, 3, 3) / 8, fractions(i + 9, 20)) for i in (2, 3)]
    window = Window((3, 3), pad=all_sides(1))
    first = bench.command(values, bench.conv_run(weights[0], window, 1))
    end = first.output_buf[1] + values.size * 2
    second = replace(
        first, runs=[bench.conv_run(weights[1], window, 1)], input_buf=first.output_buf, output_buf=(1, end)
    )
    device.run(first, second)
    expected = convolve(convolve(values, weights[0], window), weights[1], window)
    got = device.values(bench.io, end, values.size)[places(expected.shape, transposed=False)]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(bench.get(end, (8, 8, 20)), half(got.astype(np.float64)))
    assert np.any(half(got.astype(np.float64)) != got)
    assert device.close() == 0


def test_exact_mode_sees_what_the_cpu_writes(driver: Path) -> None:
    device = Device(driver, {"DMP_DV_EXACT": "1"})
    bench = Bench(device, transposed=False)
    run = Run(3, pool_enable=2, pool_size=0x0101, pool_avg_param=half_bits(0.5))
    for seed in (1, 2):
        values = fractions(seed, 2, 2, 3)
        np.testing.assert_array_equal(bench.result(bench.command(values, run), (2, 2, 3)), half(values / 2))
    assert device.close() == 0


def test_reading_what_nothing_wrote_is_an_error(driver: Path) -> None:
    device = Device(driver, {"DMP_DV_CHECK_UNINITIALIZED": "1"})
    bench = Bench(device, transposed=False)
    command = bench.command(integers(1, 4, 4, 3), Run(3, pool_enable=2, pool_size=0x0101, pool_avg_param=half_bits(1)))
    device.run(command)
    output = command.output_buf
    device.run(replace(command, input_buf=output, output_buf=(1, 512)))
    with pytest.raises(
        DeviceError, match="command 0 of the list: use of uninitialized map: the input reads bytes 98 to"
    ):
        device.run(replace(command, input_buf=(1, output[1] + 2), output_buf=(1, 512)))
    device.ask(f"forget {bench.io}")
    with pytest.raises(DeviceError, match="nothing has written byte 0 in this execution"):
        device.run(command)
    assert device.close() == 0


def test_the_number_of_threads_does_not_change_results(driver: Path) -> None:
    results = []
    for threads in ("1", "2", "5"):
        device = Device(driver, {"DMP_DV_THREADS": threads})
        bench = Bench(device, transposed=False)
        values, weights = fractions(1, 20, 30, 20), Weights(fractions(2, 40, 20, 3, 3), fractions(3, 40))
        command = bench.command(values, bench.conv_run(weights, Window((3, 3), pad=all_sides(1)), 1))
        device.run(command)
        results.append(device.read(bench.io, command.output_buf[1], 20 * 30 * 40).tobytes())
        assert device.close() == 0
    assert results[0] == results[1] == results[2]


@BOTH_ORDERS
@pytest.mark.parametrize(("channels", "to_bgr"), [(1, 0), (2, 0), (3, 0), (3, 1)])
def test_8_bit_input_goes_through_the_table(device: Device, transposed: bool, channels: int, to_bgr: int) -> None:
    bench = Bench(device, transposed=transposed)
    pixels = np.random.default_rng(7).integers(0, 256, (5, 6, channels)).astype(np.uint8)
    table = np.arange(256)[:, None] / 4 - 20 + 100 * np.arange(3)  # exact in FP16
    values = table[pixels, np.arange(channels)]
    values = values[..., ::-1] if to_bgr else values
    weights = Weights(integers(1, 8, channels, 3, 3), integers(2, 8))
    window = Window((3, 3), pad=all_sides(1))
    command = bench.command(values, bench.conv_run(weights, window, 1))
    lines = pixels if transposed else pixels.transpose(1, 0, 2)
    command.u8tofp16_table = (device.store(bytes(16) + table.astype("<f2").tobytes()), 16)
    command.to_bgr = to_bgr
    device.write(bench.io, command.input_buf[1], lines.tobytes())
    device.run(command)
    expected = convolve(values, weights, window).astype(np.float16).astype(np.float64)
    np.testing.assert_array_equal(bench.get(command.output_buf[1], expected.shape), expected)


@pytest.mark.parametrize(
    ("message", "offset", "size", "channels", "to_bgr"),
    [
        ("u8tofp16_table.offs = 8: tables start at a multiple of 16", 8, 2048, 3, 0),
        ("u8tofp16_table: bytes 16 to 1552 are outside a memory of 1551 bytes", 16, 1551, 3, 0),
        ("c = 4: 8-bit input has 1 to 3 channels", 0, 1536, 4, 0),
        ("to_bgr = 1: the input has 2 channels, not 3", 0, 1536, 2, 1),
    ],
)
def test_tables_that_the_driver_refuses(
    device: Device, message: str, offset: int, size: int, channels: int, to_bgr: int
) -> None:
    bench = Bench(device, transposed=False)
    weights = Weights(integers(1, 8, channels, 1, 1), integers(2, 8))
    command = bench.command(integers(3, 2, 2, channels), bench.conv_run(weights, Window((1, 1)), 1))
    command.u8tofp16_table = (device.alloc(size), offset)
    command.to_bgr = to_bgr
    with pytest.raises(DeviceError, match=re.escape(message)):
        device.run(command)
