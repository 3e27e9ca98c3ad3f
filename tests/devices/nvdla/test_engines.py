"""Each engine computes what its plain formula says, on random operations."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pytest

from cnn_convertor.devices.nvdla.configurations import NV_FULL, NV_LARGE, NV_SMALL, Configuration
from cnn_convertor.devices.nvdla.playing import play
from devices.nvdla import programs, reference
from devices.nvdla.programs import Convolution, Features, Pooling, Program
from devices.nvdla.reference import Stage, Tables

SOURCE, WEIGHTS, OPERANDS, OUTPUT = (0x100000 * number for number in range(1, 5))
Registers: TypeAlias = dict[str, int | Mapping[str, int]]
ELEMENTS = {"int8": "<i1", "int16": "<i2", "fp16": "<u2"}
INTEGERS = ((NV_SMALL, "int8"), (NV_LARGE, "int8"), (NV_FULL, "int8"), (NV_FULL, "int16"))
each_integer = pytest.mark.parametrize(("configuration", "precision"), INTEGERS, ids=lambda v: getattr(v, "name", v))
seeds = pytest.mark.parametrize("seed", range(3))


def numbers(random: np.random.Generator, precision: str, *shape: int) -> reference.Numbers:
    """Of the whole range; halves are finite, of many sizes, and few of them zero."""
    if precision == "int8":
        return random.integers(-128, 128, shape).astype(np.int8)
    if precision == "int16":
        return random.integers(-32768, 32768, shape).astype(np.int16)
    halves = random.normal(size=shape) * 2.0 ** random.integers(-8, 6, shape)
    return halves.astype(np.float16).view(np.uint16)


def random_convolution(random: np.random.Generator, precision: str) -> Convolution:
    height, width = map(int, random.integers(3, 8, 2))
    source = Features(SOURCE, height, width, int(random.integers(1, 80)), precision)
    rows, columns = map(int, random.integers(1, 4, 2))
    return Convolution(
        source,
        WEIGHTS,
        int(random.integers(1, 40)),
        rows,
        columns,
        strides=(int(random.integers(1, 3)), int(random.integers(1, 3))),
        dilations=(int(random.integers(1, 2 + (columns < 3))), int(random.integers(1, 2 + (rows < 3)))),
        pads=(1, int(random.integers(0, 3)), int(random.integers(0, 3)), 0),
        pad_value=int(random.integers(-100, 100)) if precision != "fp16" else 0x3555,
        truncate=int(random.integers(0, 5)) if precision != "int16" else 18,
    )


def played(
    program: Program, memory: Mapping[int, bytes], output: Features, *done: str, threads: int = 1
) -> reference.Numbers:
    """The output of a program."""
    program.wait(*done)
    size = output.size(program.configuration)
    result = play(program.configuration, {**memory, output.address: bytes(size)}, program.accesses, threads)
    assert result.refusal == ""
    shape = (output.height, output.width, output.channels)
    contents = result.memory[output.address]
    return reference.from_memory(contents, shape, program.configuration.atom_bytes, ELEMENTS[output.precision])


def convolution_memory(
    configuration: Configuration, c: Convolution, values: reference.Numbers, kernels: reference.Numbers
) -> dict[int, bytes]:
    element = ELEMENTS[c.source.precision]
    groups = configuration.atomic_k[c.source.precision]
    packed = reference.weights_to_memory(
        kernels, configuration.atomic_c, groups, configuration.cbuf_entry_bytes, element
    )
    return {SOURCE: reference.to_memory(values, configuration.atom_bytes, element), WEIGHTS: packed}


@seeds
@each_integer
def test_convolutions_of_integers(compiler: None, configuration: Configuration, precision: str, seed: int) -> None:
    """With a unit X and the output converter; with two threads."""
    random = np.random.default_rng(seed)
    c = random_convolution(random, precision)
    values = numbers(random, precision, c.source.height, c.source.width, c.source.channels)
    kernels = numbers(random, precision, c.kernels, c.rows, c.columns, c.source.channels)
    stage = Stage(2, int(random.integers(-9000, 9000)), 3, int(random.integers(-300, 300)), 7, prelu=bool(seed % 2))
    unit: Registers = {
        "D_DP_BS_CFG": {"BS_ALU_ALGO": 2, "BS_MUL_PRELU": int(stage.prelu), "BS_RELU_BYPASS": 1},
        "D_DP_BS_ALU_CFG": {"BS_ALU_SHIFT_VALUE": stage.left},
        "D_DP_BS_ALU_SRC_VALUE": stage.operand,
        "D_DP_BS_MUL_CFG": {"BS_MUL_SHIFT_VALUE": stage.right},
        "D_DP_BS_MUL_SRC_VALUE": stage.factor or 0,
        "D_CVT_OFFSET": 100,
        "D_CVT_SCALE": -37,
        "D_CVT_SHIFT": 16,
    }
    bits = 8 if precision == "int8" else 16
    output = Features(OUTPUT, c.height, c.width, c.kernels, precision)
    program = Program(configuration)
    programs.process(program, output, sdp=unit)
    programs.convolve(program, c)
    memory = convolution_memory(configuration, c, values, kernels)
    computed = played(program, memory, output, "SDP", "CACC", threads=2)
    seen = reference.windows(values.astype(np.int64), (c.rows, c.columns), c.strides, c.dilations, c.pads, c.pad_value)
    for y, line in enumerate(reference.convolved(seen, kernels, c.truncate)):
        for x, sums in enumerate(line):
            due = [reference.out_converted(stage.of(v), 100, -37, 16, bits) for v in sums]
            assert computed[y, x].tolist() == due


@seeds
def test_convolutions_of_halves(compiler: None, seed: int) -> None:
    """Each step of the multipliers, aligned and cut as the device does; large and small numbers meet."""
    random = np.random.default_rng(seed)
    c = random_convolution(random, "fp16")
    values = numbers(random, "fp16", c.source.height, c.source.width, c.source.channels)
    kernels = numbers(random, "fp16", c.kernels, c.rows, c.columns, c.source.channels)
    kernels[0, 0, 0, 0] = 0  # a lane that does not count
    output = Features(OUTPUT, c.height, c.width, c.kernels, "fp16")
    program = Program(NV_FULL)
    programs.process(program, output)
    programs.convolve(program, c)
    computed = played(program, convolution_memory(NV_FULL, c, values, kernels), output, "SDP", "CACC", threads=2)
    seen = reference.windows(values, (c.rows, c.columns), c.strides, c.dilations, c.pads, c.pad_value)
    for y, x in np.ndindex(seen.shape[:2]):
        for k in range(min(c.kernels, 4)):
            sums = reference.Cacc()
            for first in range(0, c.source.channels, 64):
                lanes = slice(first, first + 64)
                for row, column in np.ndindex(c.rows, c.columns):
                    sums.add(seen[y, x, row, column, lanes].tolist(), kernels[k, row, column, lanes].tolist())
            assert computed[y, x, k] & 0x7FFF == reference.half_bits(sums.value()) & 0x7FFF
            assert computed[y, x, k] == reference.half_bits(sums.value()) or sums.value() == 0


def random_tables(random: np.random.Generator, bits: int, exponential: bool) -> Tables:
    return Tables(
        random.integers(-3000, 3000, 65).tolist(),
        random.integers(-3000, 3000, 257).tolist(),
        exponential,
        int(random.integers(0, 3)),
        (int(random.integers(0, 4)), int(random.integers(-1, 5))),
        (int(random.integers(-200, 50)), int(random.integers(-200, 50))),
        (3000, 5000),
        ((7, -3), (-5, 9)),
        ((2, -1), (3, 0)),
        (int(random.integers(0, 2)), int(random.integers(0, 2)), int(random.integers(0, 2))),
        bits,
    )


def table_settings(tables: Tables, *, wide: bool) -> Registers:
    """Registers of SDP, or the wide ones of CDP."""
    settings: Registers = {
        "S_LUT_CFG": {
            "LUT_LE_FUNCTION": int(not tables.exponential),
            "LUT_UFLOW_PRIORITY": tables.priorities[0],
            "LUT_OFLOW_PRIORITY": tables.priorities[1],
            "LUT_HYBRID_PRIORITY": tables.priorities[2],
        },
        "S_LUT_INFO": {
            "LUT_LE_INDEX_OFFSET": tables.offset,
            "LUT_LE_INDEX_SELECT": tables.selects[0],
            "LUT_LO_INDEX_SELECT": tables.selects[1],
        },
    }
    for table, name in enumerate(("LE", "LO")):
        for end, value in (("START", tables.starts[table]), ("END", tables.ends[table])):
            if wide:
                settings[f"S_LUT_{name}_{end}_LOW"] = value
                settings[f"S_LUT_{name}_{end}_HIGH"] = value >> 32
            else:
                settings[f"S_LUT_{name}_{end}"] = value
        for kind, pair in (("SCALE", tables.scales[table]), ("SHIFT", tables.shifts[table])):
            below, above = f"LUT_{name}_SLOPE_UFLOW_{kind}", f"LUT_{name}_SLOPE_OFLOW_{kind}"
            settings[f"S_LUT_{name}_SLOPE_{kind}"] = {below: pair[0], above: pair[1]}
    return settings


@seeds
@each_integer
def test_units_of_integers(compiler: None, configuration: Configuration, precision: str, seed: int) -> None:
    """X1 with operands of each channel, X2 with a map, and Y's table where there is one."""
    random = np.random.default_rng(seed)
    source = Features(SOURCE, 3, 5, int(random.integers(1, 40)), precision)
    values = numbers(random, precision, 3, 5, source.channels)
    operands = random.integers(-3000, 3000, (source.channels, 2)).astype("<i2")  # to add, to multiply
    added = numbers(random, precision, 3, 5, source.channels)
    lanes = configuration.atom_bytes // (1 if precision == "int8" else 2)
    size = 1 if precision == "int8" else 2
    rdma: Registers = {
        "D_BRDMA_CFG": {"BRDMA_RAM_TYPE": 1, "BRDMA_DATA_USE": 2, "BRDMA_DATA_SIZE": 1},
        "D_BS_BASE_ADDR_HIGH": 0,
        "D_BS_BASE_ADDR_LOW": OPERANDS,
        "D_BS_LINE_STRIDE": lanes * 4,
        "D_BS_SURFACE_STRIDE": lanes * 4,
        "D_NRDMA_CFG": {"NRDMA_RAM_TYPE": 1, "NRDMA_DATA_USE": 1, "NRDMA_DATA_SIZE": size - 1, "NRDMA_DATA_MODE": 1},
        "D_BN_BASE_ADDR_HIGH": 0,
        "D_BN_BASE_ADDR_LOW": OPERANDS * 2,
        "D_BN_LINE_STRIDE": source.line_stride(configuration),
        "D_BN_SURFACE_STRIDE": source.surface_stride(configuration),
    }
    sdp: Registers = {
        "D_DP_BS_CFG": {"BS_ALU_ALGO": 2, "BS_RELU_BYPASS": 1},
        "D_DP_BS_ALU_CFG": {"BS_ALU_SRC": 1, "BS_ALU_SHIFT_VALUE": 1},
        "D_DP_BS_MUL_CFG": {"BS_MUL_SRC": 1, "BS_MUL_SHIFT_VALUE": 9},
        "D_DP_BN_CFG": {"BN_ALU_ALGO": seed, "BN_MUL_BYPASS": 1, "BN_RELU_BYPASS": seed % 2},
        "D_DP_BN_ALU_CFG": {"BN_ALU_SRC": 1, "BN_ALU_SHIFT_VALUE": 4},
        "D_DP_BN_MUL_CFG": {"BN_MUL_SHIFT_VALUE": 2},
        "D_CVT_SHIFT": 1,
    }
    program = Program(configuration)
    tables = None
    if "LUT" in configuration.engines:
        tables = random_tables(random, 32, bool(seed % 2))
        programs.write_tables(program, "SDP", ([*tables.le], [*tables.lo]), table_settings(tables, wide=False))
        sdp["D_DP_EW_CFG"] = {"EW_ALU_BYPASS": 1, "EW_MUL_BYPASS": 1}
    output = Features(OUTPUT, 3, 5, source.channels, precision)
    programs.process(program, output, source=source, sdp=sdp, rdma=rdma)
    memory = {
        SOURCE: reference.to_memory(values, configuration.atom_bytes, ELEMENTS[precision]),
        OPERANDS: operands.tobytes(),
        OPERANDS * 2: reference.to_memory(added, configuration.atom_bytes, ELEMENTS[precision]),
    }
    computed = played(program, memory, output, "SDP")
    for place in np.ndindex(values.shape):
        first = Stage(2, int(operands[place[2], 0]), 1, int(operands[place[2], 1]), 9)
        second = Stage(seed, int(added[place]), 4, None, 2, relu=seed % 2 == 0)
        value = second.of(first.of(int(values[place])))
        if tables:
            value = tables.of(value, reference.between_sdp, bias_of_zero=False)
        assert computed[place] == reference.out_converted(value, 0, 1, 1, 8 * size)


@seeds
@each_integer
@pytest.mark.parametrize("method", range(3))
def test_pools_of_integers(
    compiler: None, configuration: Configuration, precision: str, method: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    kernel = int(random.integers(1, 9)), int(random.integers(1, 9))
    source = Features(SOURCE, 9, 10, int(random.integers(1, 40)), precision)
    pads = tuple(int(random.integers(0, min(size, 4))) for size in (kernel[0], kernel[0], kernel[1], kernel[1]))
    pad_values = (0, *(int(v) for v in random.integers(-60, 60, 7)))
    strides = int(random.integers(1, 4)), int(random.integers(1, 4))
    factors = 0x10000 // kernel[0], 0x10000 // kernel[1]
    p = Pooling(source, method, kernel, strides, (pads[0], pads[1], pads[2], pads[3]), factors, pad_values[1:])
    values = numbers(random, precision, 9, 10, source.channels)
    output = Features(OUTPUT, p.height, p.width, source.channels, precision)
    program = Program(configuration)
    programs.pool(program, p, OUTPUT)
    memory = {SOURCE: reference.to_memory(values, configuration.atom_bytes, ELEMENTS[precision])}
    computed = played(program, memory, output, "PDP")
    assert np.array_equal(computed, reference.pooled(values, method, kernel, strides, pads, factors, pad_values))


@seeds
@each_integer
def test_responses_of_integers(compiler: None, configuration: Configuration, precision: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    bits = 8 if precision == "int8" else 16
    source = Features(SOURCE, 2, 3, int(random.integers(1, 40)), precision)
    values = numbers(random, precision, 2, 3, source.channels) // (4 if bits == 8 else 512)
    tables = random_tables(random, 16, bool(seed % 2))
    into, out = (int(random.integers(-9, 9)), 3, 1), (500, -11, 12)
    program = Program(configuration)
    programs.write_tables(program, "CDP", ([*tables.le], [*tables.lo]), table_settings(tables, wide=True))
    converters = {}
    for side, converter in (("IN", into), ("OUT", out)):
        for name, value in zip(("OFFSET", "SCALE", "SHIFTER"), converter, strict=True):
            converters[f"D_DAT{side}_{name}"] = value
    programs.respond(program, source, OUTPUT, {"D_LRN_CFG": seed + 1, **converters})
    memory = {SOURCE: reference.to_memory(values, configuration.atom_bytes, ELEMENTS[precision])}
    computed = played(program, memory, Features(OUTPUT, 2, 3, source.channels, precision), "CDP")
    assert np.array_equal(computed, reference.responded(values, 2 * seed + 5, tables, into, out, bits))


@seeds
def test_units_of_halves(compiler: None, seed: int) -> None:
    """X1 adds and multiplies registers in fp32; the output is a half."""
    random = np.random.default_rng(seed)
    source = Features(SOURCE, 4, 5, 19, "fp16")
    values = numbers(random, "fp16", 4, 5, 19)
    add, factor = (int(v) for v in numbers(random, "fp16", 2))
    sdp: Registers = {
        "D_DP_BS_CFG": {"BS_ALU_ALGO": 2, "BS_RELU_BYPASS": 1},
        "D_DP_BS_ALU_CFG": 0,
        "D_DP_BS_ALU_SRC_VALUE": add,
        "D_DP_BS_MUL_CFG": 0,
        "D_DP_BS_MUL_SRC_VALUE": factor,
    }
    program = Program(NV_FULL)
    output = Features(OUTPUT, 4, 5, 19, "fp16")
    programs.process(program, output, source=source, sdp=sdp)
    computed = played(program, {SOURCE: reference.to_memory(values, 32, "<u2")}, output, "SDP")
    for place in np.ndindex(values.shape):
        total = reference.FP32.rounded(
            reference.half_value(int(values[place])) + reference.half_value(add), flush_first=True
        )
        product = reference.FP32.rounded(total * reference.half_value(factor))
        assert computed[place] & 0x7FFF == reference.half_bits(product) & 0x7FFF
        assert product == 0 or computed[place] == reference.half_bits(product)


@seeds
def test_averages_of_halves(compiler: None, seed: int) -> None:
    """In fp17: rows first, then the new row plus what there is."""
    random = np.random.default_rng(seed)
    source = Features(SOURCE, 6, 7, 17, "fp16")
    values = numbers(random, "fp16", 6, 7, 17)
    fp17 = reference.FP17
    program = Program(NV_FULL)
    p = Pooling(source, 0, (3, 2), (2, 1), (1, 1, 1, 0), (0x7555, 0x7800))
    programs.pool(program, p, OUTPUT)
    output = Features(OUTPUT, p.height, p.width, 17, "fp16")
    computed = played(program, {SOURCE: reference.to_memory(values, 32, "<u2")}, output, "PDP")
    third = fp17.rounded(Fraction(1365, 4096))  # 0x7555
    for y, x, channel in np.ndindex(computed.shape):
        total = Fraction(0)
        for row in range(max(y - 1, 0), y + 1):
            line = Fraction(0)
            for column in range(max(2 * x - 1, 0), min(2 * x + 2, 7)):
                line = fp17.rounded(line + reference.half_value(int(values[row, column, channel])), flush_first=True)
            total = fp17.rounded(line + total, flush_first=True)
        mean = fp17.rounded(fp17.rounded(total * third) / 2)
        assert computed[y, x, channel] & 0x7FFF == reference.half_bits(mean) & 0x7FFF
        assert mean == 0 or computed[y, x, channel] == reference.half_bits(mean)
