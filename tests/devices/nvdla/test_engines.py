"""Each engine computes what its plain formula says, on random operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pytest

from cnn_convertor.devices.nvdla.configurations import NV_FULL, NV_LARGE, NV_SMALL, Configuration
from cnn_convertor.devices.nvdla.playing import play
from devices.nvdla import programs, reference
from devices.nvdla.programs import Convolution, Features, Pooling, Program
from devices.nvdla.reference import HalfTables, Stage, Tables

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
    contents = bytes(result.memory[output.address])
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


def assert_halves(computed: reference.Numbers, expected: Sequence[Fraction]) -> None:
    """The sign of a zero may differ."""
    for bits, value in zip(computed.reshape(-1).tolist(), expected, strict=True):
        due = reference.half_bits(value)
        assert bits == due or (value == 0 and bits & 0x7FFF == 0) or (due & 0x7FFF == 0 and bits & 0x7FFF == 0)


def single_bits(value: Fraction) -> int:
    return int(np.array(float(value), np.float32).view(np.uint32))


def random_half_tables(random: np.random.Generator, exponential: bool, bits: int) -> HalfTables:
    """Whose positions are near values of 2^-8 to 2^6, also between, below and above entries."""

    def halves(*shape: int) -> list[Fraction]:
        return [reference.half_value(int(v)) for v in numbers(random, "fp16", *shape)]

    starts = halves(2)
    ends = [start + abs(more) for start, more in zip(starts, halves(2), strict=True)]
    slopes = halves(4)
    priorities = int(random.integers(0, 2)), int(random.integers(0, 2)), int(random.integers(0, 2))
    return HalfTables(
        halves(65),
        halves(257),
        exponential,
        int(random.integers(-8, 3)),
        (int(random.integers(-5, 1)), int(random.integers(-7, 0))),
        (starts[0], starts[1]),
        (ends[0], ends[1]),
        ((slopes[0], slopes[1]), (slopes[2], slopes[3])),
        priorities,
        bits,
    )


def half_table_settings(tables: HalfTables, *, wide: bool) -> Registers:
    """As those of integers, but bits of fp32 and of halves, which have no shifts."""
    bits = [single_bits(value) for value in (*tables.starts, *tables.ends)]
    slopes = [reference.half_bits(value) for pair in tables.slopes for value in pair]
    whole = Tables(
        (),
        (),
        tables.exponential,
        tables.offset,
        tables.selects,
        (bits[0], bits[1]),
        (bits[2], bits[3]),
        ((slopes[0], slopes[1]), (slopes[2], slopes[3])),
        ((0, 0), (0, 0)),
        tables.priorities,
        0,
    )
    return table_settings(whole, wide=wide)


def half_entries(tables: HalfTables) -> tuple[list[int], list[int]]:
    return [reference.half_bits(v) for v in tables.le], [reference.half_bits(v) for v in tables.lo]


@pytest.mark.parametrize("exponential", [False, True])
@seeds
def test_tables_of_halves(compiler: None, seed: int, exponential: bool) -> None:
    """Of SDP, behind an addition in fp32, so that x has more bits than a half."""
    random = np.random.default_rng(seed)
    tables = random_half_tables(random, exponential, 35)
    source = Features(SOURCE, 5, 6, 23, "fp16")
    values = numbers(random, "fp16", 5, 6, 23)
    (add,) = (int(v) for v in numbers(random, "fp16", 1))
    sdp: Registers = {
        "D_DP_BS_CFG": {"BS_ALU_ALGO": 2, "BS_MUL_BYPASS": 1, "BS_RELU_BYPASS": 1},
        "D_DP_BS_ALU_CFG": 0,
        "D_DP_BS_ALU_SRC_VALUE": add,
        "D_DP_EW_CFG": {"EW_ALU_BYPASS": 1, "EW_MUL_BYPASS": 1},
    }
    program = Program(NV_FULL)
    programs.write_tables(program, "SDP", half_entries(tables), half_table_settings(tables, wide=False))
    output = Features(OUTPUT, 5, 6, 23, "fp16")
    programs.process(program, output, source=source, sdp=sdp)
    computed = played(program, {SOURCE: reference.to_memory(values, 32, "<u2")}, output, "SDP")
    sums = [
        reference.sum32(reference.half_value(int(v)), reference.half_value(add)) for v in values.reshape(-1).tolist()
    ]
    assert_halves(computed, [tables.of(x, reference.between_sdp_halves) for x in sums])


@pytest.mark.parametrize("exponential", [False, True])
@seeds
def test_responses_of_halves(compiler: None, seed: int, exponential: bool) -> None:
    random = np.random.default_rng(seed)
    tables = random_half_tables(random, exponential, 16)
    source = Features(SOURCE, 3, 4, int(random.integers(5, 40)), "fp16")
    values = numbers(random, "fp16", 3, 4, source.channels)
    program = Program(NV_FULL)
    programs.write_tables(program, "CDP", half_entries(tables), half_table_settings(tables, wide=True))
    programs.respond(program, source, OUTPUT, {"D_LRN_CFG": seed + 1})
    computed = played(
        program,
        {SOURCE: reference.to_memory(values, 32, "<u2")},
        Features(OUTPUT, 3, 4, source.channels, "fp16"),
        "CDP",
    )
    expected = reference.responded_halves(values, 2 * seed + 5, tables)
    assert_halves(computed, [value for line in expected for pixel in line for value in pixel])


IMAGES = [
    *(
        (configuration, "int8", number)
        for configuration in (NV_SMALL, NV_FULL)
        for number in (0, 12, 13, 14, 15, 28, 29)
    ),
    *((NV_FULL, "fp16", number) for number in (0, 3, 5, 8, 13, 29)),
]


@pytest.mark.parametrize(
    ("configuration", "precision", "number"), IMAGES, ids=[f"{c.name}-{p}-{n}" for c, p, n in IMAGES]
)
def test_images(compiler: None, configuration: Configuration, precision: str, number: int) -> None:
    """Means, the converter, padding after it, and, on nv_full, rows that meet in one step."""
    random = np.random.default_rng(number)
    size, orders = reference.PIXELS[number]
    components = len("".join(orders))
    height, width = map(int, random.integers(5, 9, 2))
    source = Features(SOURCE, height, width, components, precision)
    c = Convolution(
        source, WEIGHTS, 21, 3, 2, (2, 1), pads=(1, 2, 1, 0), pad_value=5 if precision == "int8" else 0x3555
    )
    pixels = random.integers(0, 256**size, (height, width, components))
    kernels = numbers(random, precision, c.kernels, c.rows, c.columns, components)
    converts = precision == "int8" or number in {0, 3, 13, 29}
    if not converts:
        pixels = numbers(random, "fp16", height, width, components).astype(np.int64)
    offsets = [int(v) for v in random.integers(-200, 200, 4)]
    scale, truncate = int(random.integers(-50, 50)), int(random.integers(0, 6 + 8 * (size - 1)))
    rows = 2 if "POST_EXTENSION" in configuration.engines else 1
    line = programs.up(width * components * size, 32) + 32
    changed = programs.pixel_registers(configuration, c, number, line, SOURCE + len(orders) // 2 * 0x8000, rows)
    if converts:
        changed["CDMA"] |= {
            "D_MEAN_FORMAT": 1,
            "D_MEAN_GLOBAL_0": {"MEAN_RY": offsets[0], "MEAN_GU": offsets[1]},
            "D_MEAN_GLOBAL_1": {"MEAN_BV": offsets[2], "MEAN_AX": offsets[3]},
            "D_CVT_CFG": {"CVT_EN": 1, "CVT_TRUNCATE": truncate},
            "D_CVT_SCALE": scale,
        }
    output = Features(OUTPUT, c.height, c.width, c.kernels, precision)
    program = Program(configuration)
    programs.process(program, output, sdp={"D_CVT_SHIFT": 8} if precision == "int8" else None)
    programs.convolve(program, c, changed)
    groups = configuration.atomic_k[precision]
    entry = configuration.cbuf_entry_bytes
    packed = reference.pixel_weights_to_memory(
        kernels, configuration.atomic_c, groups, entry, ELEMENTS[precision], rows
    )
    planes = reference.pixels_to_memory(pixels, number, line)
    image = b"".join(plane.ljust(0x8000, b"\0") for plane in planes)
    computed = played(program, {SOURCE: image, WEIGHTS: packed}, output, "SDP", "CACC")
    values = pixels
    if converts:
        values = reference.in_converted(pixels, offsets, scale, truncate, 8 if precision == "int8" else 17)
    if precision == "fp16" and converts:
        halves = [reference.half_bits(Fraction(int(v))) for v in values.reshape(-1)]
        values = np.array(halves).reshape(values.shape)
    windows = reference.windows(values, (c.rows, c.columns), c.strides, c.dilations, c.pads, c.pad_value)
    if precision == "int8":
        for y, sums in enumerate(reference.convolved(windows, kernels, 0)):
            due = [[reference.out_converted(v, 0, 1, 8, 8) for v in pixel] for pixel in sums]
            assert computed[y].tolist() == due
        return
    expected = []
    for y, x, k in np.ndindex(c.height, c.width, c.kernels):
        accumulator = reference.Cacc()
        for row in range(0, c.rows, rows):
            lanes = slice(row, row + rows)
            accumulator.add(windows[y, x, lanes].reshape(-1).tolist(), kernels[k, lanes].reshape(-1).tolist())
        expected.append(accumulator.value())
    assert_halves(computed, expected)


@seeds
def test_copies(compiler: None, seed: int) -> None:
    """Several with one launch; what lies between the lines stays."""
    random = np.random.default_rng(seed)
    program = Program(NV_FULL)
    source, before = (random.integers(0, 256, 0x8000, np.uint8) for _ in range(2))
    expected = before
    for number in range(3):
        size = 32 * int(random.integers(1, 5))
        lines, surfaces = (int(v) for v in random.integers(1, 5, 2))
        strides = [size + 32 * int(v) for v in random.integers(0, 4, 2)]
        whole = [lines * stride + 32 * int(v) for stride, v in zip(strides, random.integers(0, 3, 2), strict=True)]
        to = 0x2000 * number
        copy = {
            "SRC_ADDR_LOW": SOURCE + 64,
            "SRC_ADDR_HIGH": 0,
            "DST_ADDR_LOW": OUTPUT + to,
            "DST_ADDR_HIGH": 0,
            "LINE": size // 32 - 1,
            "CMD": 3,
            "LINE_REPEAT": lines - 1,
            "SRC_LINE": strides[0],
            "DST_LINE": strides[1],
            "SURF_REPEAT": surfaces - 1,
            "SRC_SURF": whole[0],
            "DST_SURF": whole[1],
            "OP": 1,
        }
        for name, value in copy.items():
            program.write("BDMA", f"CFG_{name}", value)
        moves = []
        for surface, one in np.ndindex(surfaces, lines):
            moves.append((64 + surface * whole[0] + one * strides[0], to + surface * whole[1] + one * strides[1]))
        expected = reference.copied(expected, source, moves, size)
    program.write("BDMA", "CFG_LAUNCH0", 1)
    result = play(NV_FULL, {SOURCE: source.tobytes(), OUTPUT: before.tobytes()}, program.accesses)
    assert (result.refusal, bytes(result.memory[OUTPUT])) == ("", expected.tobytes())


@seeds
@pytest.mark.parametrize("precision", ["int8", "int16", "fp16"])
def test_contractions(compiler: None, precision: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    lanes = 32 // np.dtype(ELEMENTS[precision]).itemsize
    channels = lanes * int(random.integers(1, 4))
    strides = int(random.integers(1, 4)), int(random.integers(1, 4))
    source = Features(SOURCE, 3, 4, channels * strides[0] * strides[1], precision)
    output = Features(OUTPUT, 3 * strides[1], 4 * strides[0], channels, precision)
    values = numbers(random, precision, 3, 4, source.channels)
    program = Program(NV_FULL)
    programs.reshape(program, 0, source, output, strides)
    computed = played(program, {SOURCE: reference.to_memory(values, 32, ELEMENTS[precision])}, output, "RBK")
    assert np.array_equal(computed, reference.contracted(values, strides, channels))


@seeds
@pytest.mark.parametrize("precision", ["int8", "int16", "fp16"])
@pytest.mark.parametrize("splits", [True, False])
def test_planes(compiler: None, precision: str, splits: bool, seed: int) -> None:
    """A map becomes planes of its channels, and the reverse."""
    random = np.random.default_rng(seed)
    height, width, channels = (int(v) for v in random.integers(1, 40, 3))
    features = Features(SOURCE if splits else OUTPUT, height, width, channels, precision)
    planes = Features(OUTPUT if splits else SOURCE, height, width, channels, precision)
    values = numbers(random, precision, height, width, channels)
    program = Program(NV_FULL)
    if splits:
        programs.reshape(program, 1, features, planes)
    else:
        programs.reshape(program, 2, planes, features)
    program.wait("RBK")
    contents = reference.to_memory(values, 32, ELEMENTS[precision]), reference.planes_to_memory(values)
    before, due = contents if splits else contents[::-1]
    result = play(NV_FULL, {SOURCE: before, OUTPUT: b"\xa5" * len(due)}, program.accesses)
    assert (result.refusal, bytes(result.memory[OUTPUT])) == ("", due)
