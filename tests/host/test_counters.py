"""The counters have the bytes that commands move."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from host.device import Device
from host.reference import (
    Run,
    Window,
    all_sides,
)

if TYPE_CHECKING:
    from pathlib import Path

from host.bench import Bench, integer_weights, integers


def test_the_counters_have_the_bytes_of_each_command(device: Device) -> None:
    values, operand = integers(1, 6, 8, 9), integers(5, 6, 8, 10)
    bench = Bench(device, transposed=False)
    run = bench.conv_run(integer_weights(2, 10, 9, (3, 3), palette=False), Window((3, 3), pad=all_sides(1)), 1)
    command = bench.command(values, run, operand=operand)
    before = device.counters()
    device.run(command)
    assert device.counters().since(before) == (1, 6 * 8 * 9 * 2, 6 * 8 * 10 * 2, 6 * 8 * 10 * 2, 144 * 10 * 2 + 16 * 2)


def test_each_branch_reads_the_input_and_8_bit_input_has_half_the_bytes(device: Device) -> None:
    bench = Bench(device, transposed=False)
    values = integers(1, 6, 8, 3)
    runs = [bench.conv_run(integer_weights(i, 8, 3, (1, 1), palette=False), Window(), 1) for i in (1, 2)]
    chain = bench.conv_run(integer_weights(3, 8, 8, (1, 1), palette=False), Window(), 1)
    before = device.counters()
    device.run(bench.command(values, runs[0], runs[1], chain, topo=0b101))
    size = 6 * 8 * 2
    assert device.counters().since(before)[:4] == (1, 2 * 3 * size, 0, 16 * size)
    before = device.counters()
    device.run(replace(bench.command(values, runs[0]), u8tofp16_table=(device.alloc(1536), 0)))
    assert device.counters().since(before)[:4] == (1, 3 * size // 2, 0, 8 * size)


def test_strips_read_the_columns_that_they_share_twice(driver: Path) -> None:
    """A map 20 wide: with 3 strips and a kernel of 3 the device reads 20 + 2 * 2 columns."""
    device = Device(driver, {"DMP_DV_UB_SIZE": "6000"})
    bench = Bench(device, transposed=False)
    run = bench.conv_run(integer_weights(2, 9, 16, (3, 3), palette=False), Window((3, 3), pad=all_sides(1)), 1)
    command = bench.command(integers(1, 10, 20, 16), run)
    assert device.needs(command, 6000)[1] == 3
    device.run(command)
    assert device.counters()[:2] == (1, 10 * 24 * 16 * 2)
    assert device.close() == 0


def test_the_counters_are_files_as_in_sysfs(driver: Path, tmp_path: Path) -> None:
    device = Device(driver, {"DMP_DV_SYSFS": str(tmp_path)})
    bench = Bench(device, transposed=False)
    device.run(bench.command(integers(1, 4, 4, 3), Run(3, pool_enable=1, pool_size=0x0202, pool_stride=0x0202)))
    found = {path.name: int(path.read_text()) for path in tmp_path.iterdir()}
    assert found == {"conv_kick_count": 1, "input_bytes": 96, "output_bytes": 24, "weights_bytes": 0}
    assert device.close() == 0
