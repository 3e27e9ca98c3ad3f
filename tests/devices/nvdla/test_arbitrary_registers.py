"""The twin refuses what it is given at random with the name of a block, and never crashes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.devices.nvdla.configurations import NV_FULL, NV_LARGE, NV_SMALL, Configuration
from cnn_convertor.devices.nvdla.playing import INCLUDE, SOURCES, job_of, play
from cnn_convertor.devices.nvdla.register_table import header
from cnn_convertor.emulation.build import program_of
from devices.nvdla import programs
from devices.nvdla.programs import Convolution, Features, Pooling, Program

SOURCE, WEIGHTS, OPERANDS, BETWEEN, OUTPUT = (0x10000 * number for number in range(1, 6))
MEMORY: dict[int, int] = {SOURCE: 0x8000, WEIGHTS: 0x8000, OPERANDS: 0x4000, BETWEEN: 0x8000, OUTPUT: 0x8000}
LUT = {
    "S_LUT_CFG": {"LUT_LE_FUNCTION": 0},
    "S_LUT_INFO": {"LUT_LE_INDEX_OFFSET": 1, "LUT_LE_INDEX_SELECT": 0, "LUT_LO_INDEX_SELECT": 2},
}


def convolution(configuration: Configuration, precision: str) -> Program:
    """With operands, and a pool on the fly."""
    program = Program(configuration)
    source = Features(SOURCE, 6, 7, 11, precision)
    c = Convolution(source, WEIGHTS, 9, 3, 2, strides=(1, 2), pads=(1, 1, 2, 0), pad_value=3)
    middle = Features(BETWEEN, c.height, c.width, 9, precision)
    lanes = configuration.atom_bytes // (1 if precision == "int8" else 2)
    bias: dict[str, int | Mapping[str, int]] = {
        "D_BRDMA_CFG": {"BRDMA_RAM_TYPE": 1, "BRDMA_DATA_USE": 1, "BRDMA_DATA_SIZE": 1},
        "D_BS_BASE_ADDR_HIGH": 0,
        "D_BS_BASE_ADDR_LOW": OPERANDS,
        "D_BS_LINE_STRIDE": lanes * 2,
        "D_BS_SURFACE_STRIDE": lanes * 2,
    }
    add = {"D_DP_BS_CFG": {"BS_ALU_ALGO": 2, "BS_MUL_BYPASS": 1}, "D_DP_BS_ALU_CFG": {"BS_ALU_SRC": 1}}
    programs.pool(program, Pooling(middle, 1, (2, 2)), OUTPUT, flying=True)
    programs.process(program, middle, to_pdp=True, sdp={**add, "D_CVT_SHIFT": 6}, rdma=bias)
    programs.convolve(program, c)
    program.wait("SDP", "PDP", "CACC")
    program.read("SDP", "S_STATUS")
    return program


def elements(configuration: Configuration, precision: str) -> Program:
    """SDP from memory with its table, where there is one."""
    program = Program(configuration)
    source = Features(SOURCE, 5, 4, 13, precision)
    bounds = {
        f"S_LUT_{table}_{end}": 0 for table in ("LE", "LO") for end in ("START", "END", "SLOPE_SCALE", "SLOPE_SHIFT")
    }
    unit: dict[str, int | Mapping[str, int]] = {
        "D_DP_BS_CFG": {"BS_ALU_ALGO": 2},
        "D_DP_BS_ALU_CFG": {"BS_ALU_SHIFT_VALUE": 2},
        "D_DP_BS_ALU_SRC_VALUE": 77,
        "D_DP_BS_MUL_CFG": {"BS_MUL_SHIFT_VALUE": 3},
        "D_DP_BS_MUL_SRC_VALUE": 21,
    }
    if "LUT" in configuration.engines:
        programs.write_tables(program, "SDP", ([*range(65)], [*range(257)]), {**LUT, **bounds})
        unit["D_DP_EW_CFG"] = {"EW_ALU_BYPASS": 1, "EW_MUL_BYPASS": 1}
    programs.process(program, replace(source, address=OUTPUT), source=source, sdp=unit)
    program.wait("SDP")
    return program


def response(configuration: Configuration, precision: str) -> Program:
    program = Program(configuration)
    bounds = {}
    for table in ("LE", "LO"):
        for name in ("START_LOW", "START_HIGH", "END_LOW", "END_HIGH", "SLOPE_SCALE", "SLOPE_SHIFT"):
            bounds[f"S_LUT_{table}_{name}"] = 0
    programs.write_tables(program, "CDP", ([*range(65)], [*range(257)]), {**LUT, **bounds})
    converters = {f"D_DAT{side}_{name}": 1 for side in ("IN", "OUT") for name in ("OFFSET", "SCALE", "SHIFTER")}
    programs.respond(program, Features(SOURCE, 3, 4, 19, precision), OUTPUT, {"D_LRN_CFG": 1, **converters})
    program.wait("CDP")
    return program


def pooling(configuration: Configuration, precision: str) -> Program:
    program = Program(configuration)
    source = Features(SOURCE, 7, 9, 10, precision)
    programs.pool(program, Pooling(source, 0, (3, 2), (2, 1), (1, 1, 1, 0), (0x5555, 0x8000)), OUTPUT)
    program.wait("PDP")
    return program


def moving(configuration: Configuration, precision: str) -> Program:
    """BDMA and RUBIK."""
    program = Program(configuration)
    copy = {
        "SRC_ADDR_LOW": SOURCE,
        "SRC_ADDR_HIGH": 0,
        "DST_ADDR_LOW": BETWEEN,
        "DST_ADDR_HIGH": 0,
        "LINE": 2,
        "CMD": 3,
    }
    copy |= {"LINE_REPEAT": 3, "SRC_LINE": 128, "DST_LINE": 96, "SURF_REPEAT": 1, "SRC_SURF": 512, "DST_SURF": 384}
    for name, value in {**copy, "OP": 1, "LAUNCH0": 1}.items():
        program.write("BDMA", f"CFG_{name}", value)
    program.set(
        "RBK",
        {
            "D_MISC_CFG": {"RUBIK_MODE": 1, "IN_PRECISION": programs.PRECISIONS[precision]},
            "D_DATAIN_SIZE_0": {"DATAIN_WIDTH": 4, "DATAIN_HEIGHT": 3},
            "D_DATAIN_SIZE_1": 33,
            "D_DATAOUT_SIZE_1": 33,
            "D_DAIN_ADDR_HIGH": 0,
            "D_DAIN_ADDR_LOW": SOURCE,
            "D_DAIN_LINE_STRIDE": 160,
            "D_DAIN_SURF_STRIDE": 640,
            "D_DAOUT_ADDR_HIGH": 0,
            "D_DAOUT_ADDR_LOW": OUTPUT,
            "D_DAOUT_LINE_STRIDE": 32,
            "D_DAOUT_PLANAR_STRIDE": 128,
        },
    )
    program.enable("RBK")
    program.wait("RBK")
    return program


def seeds() -> list[Program]:
    made = [moving(NV_FULL, "int8"), moving(NV_FULL, "fp16")]
    for make in (convolution, elements, response, pooling):
        made += [make(NV_SMALL, "int8"), make(NV_LARGE, "int8")]
        made += [make(NV_FULL, precision) for precision in ("int8", "int16", "fp16")]
    return made


def memory() -> Mapping[int, bytes]:
    random = np.random.default_rng(5)
    return {address: random.integers(0, 256, size, np.uint8).tobytes() for address, size in MEMORY.items()}


def damaged(folder: Path, seed: int, count: int) -> tuple[int, int]:
    """How many of the damaged sequences end, and how many are refused."""
    sources = [path for path in SOURCES if path.name != "player.cpp"]
    fuzz = Path(__file__).with_name("fuzz_registers.cpp")
    include = [*INCLUDE, fuzz.parent]
    program = program_of("fuzzed twin of NVDLA", [*sources, fuzz], include, {"register_table.h": header()})
    jobs = []
    for number, one in enumerate(seeds()):
        jobs.append(folder / f"{number}.job")
        jobs[-1].write_bytes(job_of(one.configuration, memory(), one.accesses, 1))
    ran = subprocess.run([program, str(seed), str(count), *jobs], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = re.fullmatch(r"(\d+) ended, (\d+) refused\n", ran.stdout)
    assert found
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("number", range(len(seeds())))
def test_undamaged_sequences_end(compiler: None, number: int) -> None:
    program = seeds()[number]
    assert play(program.configuration, memory(), program.accesses).refusal == ""


@pytest.mark.slow
@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(6))
def test_damaged_sequences_are_refused_with_a_name(compiler: None, tmp_path: Path, seed: int) -> None:
    ended, refused = damaged(tmp_path, seed, 3000)
    assert ended + refused == 3000
    assert ended > 300 and refused > 1000
