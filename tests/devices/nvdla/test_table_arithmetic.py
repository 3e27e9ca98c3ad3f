"""The tables' arithmetic in numpy gives what the twin gives, bit for bit, on random tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.configurations import NV_FULL
from cnn_convertor.devices.nvdla.firmware import descriptors
from cnn_convertor.devices.nvdla.firmware.cdp import cdp_settings
from cnn_convertor.devices.nvdla.firmware.descriptors import Lut, Slope
from cnn_convertor.devices.nvdla.firmware.register_settings import Places, Setting, writes
from cnn_convertor.devices.nvdla.firmware.sdp import sdp_settings
from cnn_convertor.devices.nvdla.playing import Access, AccessKind, play
from cnn_convertor.devices.nvdla.table_arithmetic import (
    LINEAR,
    bits_of_half,
    bits_of_single,
    evaluated,
    halves,
    responded,
)
from devices.nvdla import programs, reference
from devices.nvdla.programs import Features, Program

SOURCE = 0x100000
OUTPUT = 0x200000
FP16 = 2


def zero(kind: Any) -> Any:
    return descriptors.unpack_descriptor(kind, bytes(descriptors.size_of(kind)))


def settings_of_tables(block: str, lut: Lut) -> Iterator[Setting]:
    """What the firmware writes for tables in FP16."""
    places = Places(NV_FULL, lambda index, offset: offset)
    if block == "SDP":
        op = replace(zero(descriptors.SdpOperation), src_precision=FP16, dst_precision=FP16, batch_num=1)
        settings = sdp_settings(op, zero(descriptors.SdpSurfaces), places, lut)
    else:
        op = replace(zero(descriptors.CdpOperation), in_precision=FP16, local_size=3)
        settings = cdp_settings(op, zero(descriptors.CdpSurfaces), places, lut)
    for name, value in settings:
        if name.startswith(f"{block}.S_LUT"):
            yield name, value


def played(block: str, lut: Lut, x: NDArray[np.float16], factor: float = 1.0, size: int = 3) -> NDArray[np.float16]:
    """What the twin makes of x (height, width, channels). factor: what SDP multiplies x by, before the table."""
    program = Program(NV_FULL)
    for address, value in writes(settings_of_tables(block, lut), NV_FULL):
        program.accesses.append(Access(AccessKind.WRITE, address, value & 0xFFFFFFFF))
    height, width, channels = x.shape
    source = Features(SOURCE, height, width, channels, "fp16")
    output = replace(source, address=OUTPUT)
    if block == "SDP":
        sdp: programs.Values = {
            "D_DP_BS_CFG": {"BS_ALU_BYPASS": 1, "BS_RELU_BYPASS": 1},
            "D_DP_BS_MUL_CFG": 0,
            "D_DP_BS_MUL_SRC_VALUE": bits_of_half(factor),
            "D_DP_EW_CFG": {"EW_ALU_BYPASS": 1, "EW_MUL_BYPASS": 1},
        }
        programs.process(program, output, source=source, sdp=sdp)
    else:
        converters = {"D_DATIN_OFFSET": 0, "D_DATIN_SCALE": 1, "D_DATIN_SHIFTER": 0}
        converters |= {"D_DATOUT_OFFSET": 0, "D_DATOUT_SCALE": 1, "D_DATOUT_SHIFTER": 0}
        programs.respond(program, source, OUTPUT, {"D_LRN_CFG": size // 2 - 1, **converters})
    program.wait(block)
    memory = {SOURCE: reference.to_memory(x.view(np.uint16), 32, "<u2"), OUTPUT: bytes(output.size(NV_FULL))}
    result = play(NV_FULL, memory, program.accesses)
    assert result.refusal == ""
    return np.ascontiguousarray(reference.from_memory(result.memory[OUTPUT], x.shape, 32, "<u2")).view(np.float16)


def random_lut(random: np.random.Generator, *, exponential: bool, spread: float) -> Lut:
    """Entries of many sizes and signs, with zeros of both; tables that overlap, or not."""

    def some(count: int) -> NDArray[np.float64]:
        values = random.normal(size=count) * 2.0 ** random.integers(-20, 14, count)
        return np.where(random.random(count) < 0.1, np.copysign(0.0, values), values)

    def slope() -> Slope:
        return Slope(bits_of_half(float(random.normal())), 0)

    starts = random.normal(size=2) * spread
    ends = random.normal(size=2) * spread
    selects = random.integers(-6, 3, 2)
    priorities = random.integers(0, 2, 3)
    return Lut(
        linear_exp_table=halves(some(65)),
        linear_only_table=halves(some(257)),
        linear_exp_offset=int(selects[0]),
        linear_only_offset=int(selects[1]),
        linear_exp_start=bits_of_single(float(starts[0])),
        linear_exp_end=bits_of_single(float(ends[0])),
        linear_only_start=bits_of_single(float(starts[1])),
        linear_only_end=bits_of_single(float(ends[1])),
        linear_exp_underflow_slope=slope(),
        linear_exp_overflow_slope=slope(),
        linear_only_underflow_slope=slope(),
        linear_only_overflow_slope=slope(),
        hybrid_priority=int(priorities[0]),
        underflow_priority=int(priorities[1]),
        overflow_priority=int(priorities[2]),
        method=0 if exponential else LINEAR,
    )


def random_halves(random: np.random.Generator, spread: float) -> NDArray[np.float16]:
    """(4, 64, 40) values around 0, and of all sizes; infinity, zeros, subnormal numbers."""
    x = random.normal(size=(4, 64, 40)) * spread
    x[0] *= 2.0 ** random.integers(-20, 12, x[0].shape)
    special = (0.0, -0.0, np.inf, -np.inf, 65504.0, -65504.0, 2.0**-24, -(2.0**-24), 2.0**-14)
    x[1, 0, : len(special)] = special
    with np.errstate(over="ignore"):
        return x.astype(np.float16)


def differences(computed: NDArray[np.float16], due: NDArray[np.float16]) -> int:
    return int(np.count_nonzero(computed.view(np.uint16) != due.view(np.uint16)))


@pytest.mark.parametrize("seed", range(4))
def test_sdp_gives_what_is_evaluated(compiler: None, seed: int) -> None:
    random = np.random.default_rng(seed)
    spread = 2.0 ** int(random.integers(-3, 5))
    lut = random_lut(random, exponential=seed % 2 == 0, spread=spread)
    x = random_halves(random, spread)
    factor = np.float16(random.normal())
    due = evaluated(lut, x.astype(np.float32) * np.float32(factor))
    computed = played("SDP", lut, x, float(factor))
    assert differences(computed, due) == 0
    assert len(np.unique(due.view(np.uint16))) > 100


@pytest.mark.parametrize("seed", range(4))
def test_cdp_gives_what_is_evaluated(compiler: None, seed: int) -> None:
    random = np.random.default_rng(seed)
    spread = 2.0 ** int(random.integers(-2, 3))
    lut = random_lut(random, exponential=seed % 2 == 0, spread=spread * spread)
    x = random_halves(random, spread)
    x[np.isinf(x)] = 1  # its square is not FP16's largest number squared
    size = 3 + 2 * (seed % 4)
    due = responded(lut, x, size)
    computed = played("CDP", lut, x, size=size)
    assert differences(computed, due) == 0
    assert len(np.unique(due.view(np.uint16))) > 100
