"""The twin's exact mode: what each engine computes without rounding, and how near the device is to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.devices.nvdla.configurations import NV_FULL
from cnn_convertor.devices.nvdla.named_functions import ExactFunction, NamedTable, naming
from cnn_convertor.devices.nvdla.playing import Access, AccessKind, play
from cnn_convertor.ir.ops import functions as f
from devices.nvdla import programs, reference
from devices.nvdla.programs import Convolution, Features, Pooling, Program

SOURCE, WEIGHTS, OPERANDS, OUTPUT = (0x100000 * number for number in range(1, 5))
Floats = NDArray[np.float32]


def played(program: Program, memory: Mapping[int, Floats], output: Features, *done: str, exact: bool = True) -> Floats:
    """The output. memory: address -> values in the order in which they lie there; with exact=False they are rounded."""
    element = "<f4" if exact else "<f2"
    program.wait(*done)
    pieces = {address: values.astype(element).tobytes() for address, values in memory.items()}
    pieces[output.address] = bytes(output.size(NV_FULL) * (2 if exact else 1))
    result = play(NV_FULL, pieces, program.accesses, threads=2, exact=exact)
    assert result.refusal == ""
    shape = (output.height, output.width, output.channels)
    return reference.from_memory(result.memory[output.address], shape, 64 if exact else 32, element).astype(np.float32)


def in_memory(values: Floats) -> Floats:
    return np.frombuffer(reference.to_memory(values, 64, "<f4"), "<f4")


def random_map(random: np.random.Generator, *shape: int) -> Floats:
    return random.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_a_convolution_with_operands_and_a_pool(seed: int, compiler: None) -> None:
    """On the fly: a bias, a factor that only negative numbers take, the sum with a map, ReLU, and the mean of windows."""
    random = np.random.default_rng(seed)
    height, width, channels, kernels = (int(number) for number in random.integers((4, 4, 1, 1), (9, 9, 80, 40)))
    source = Features(SOURCE, height, width, channels, "fp16")
    c = Convolution(
        source, WEIGHTS, kernels, 3, 2, strides=(1 + seed % 2, 1), dilations=(1, 1), pads=(1, 1, 1, 1), pad_value=0x3555
    )
    values = random_map(random, height, width, channels)
    weights = random_map(random, kernels, 3, 2, channels)
    bias, slopes = random_map(random, 2, kernels)
    operand = random_map(random, c.height, c.width, kernels)
    middle = Features(0, c.height, c.width, kernels, "fp16")
    pool = Pooling(middle, 0, (2, 3), (2, 1), (1, 0, 1, 1), reciprocals=(0x7800, 0x7555))
    pooled = Features(OUTPUT, pool.height, pool.width, kernels, "fp16")
    pairs = np.zeros((1, 1, -(-kernels // 16) * 16, 2), np.float32)
    pairs[0, 0, :kernels] = np.stack([bias, slopes], -1)
    program = Program(NV_FULL)
    programs.pool(program, pool, OUTPUT, flying=True)
    atoms = -(-kernels // 16)
    line = 32 * c.width
    sdp: programs.Values = {
        "D_DP_BS_CFG": {"BS_ALU_ALGO": 2, "BS_MUL_PRELU": 1, "BS_RELU_BYPASS": 1},
        "D_DP_BS_ALU_CFG": {"BS_ALU_SRC": 1},
        "D_DP_BS_MUL_CFG": {"BS_MUL_SRC": 1},
        "D_DP_BN_CFG": {"BN_ALU_ALGO": 2, "BN_MUL_BYPASS": 1, "BN_RELU_BYPASS": 0},
        "D_DP_BN_ALU_CFG": {"BN_ALU_SRC": 1},
    }
    rdma: programs.Values = {
        "D_BRDMA_CFG": {"BRDMA_DATA_USE": 2, "BRDMA_DATA_SIZE": 1, "BRDMA_RAM_TYPE": 1},
        "D_BS_BASE_ADDR_HIGH": 0,
        "D_BS_BASE_ADDR_LOW": OPERANDS,
        "D_BS_LINE_STRIDE": 64,
        "D_BS_SURFACE_STRIDE": 64,
        "D_NRDMA_CFG": {"NRDMA_DATA_USE": 1, "NRDMA_DATA_SIZE": 1, "NRDMA_DATA_MODE": 1, "NRDMA_RAM_TYPE": 1},
        "D_BN_BASE_ADDR_HIGH": 0,
        "D_BN_BASE_ADDR_LOW": OPERANDS + 0x1000,
        "D_BN_LINE_STRIDE": line,
        "D_BN_SURFACE_STRIDE": line * c.height,
        "D_ERDMA_CFG": {"ERDMA_DISABLE": 1},
    }
    programs.process(program, middle, to_pdp=True, sdp=sdp, rdma=rdma)
    programs.convolve(program, c)
    packed = reference.weights_to_memory(weights, NV_FULL.atomic_c, NV_FULL.atomic_k["fp16"], 256, "<f4")
    memory = {
        SOURCE: in_memory(values),
        WEIGHTS: np.frombuffer(packed, "<f4"),
        OPERANDS: pairs.reshape(atoms * 32),
        OPERANDS + 0x1000: in_memory(operand),
    }
    result = played(program, memory, pooled, "SDP", "PDP", "CACC")
    assert np.allclose(result, expected(c, values, weights, bias, slopes, operand), rtol=1e-5, atol=1e-5)
    near = played(program, memory, pooled, exact=False)
    assert np.abs(near - result).max() < 2e-3 * np.abs(result).max()
    assert not np.array_equal(near, result)


def expected(c: Convolution, values: Floats, weights: Floats, bias: Floats, slopes: Floats, operand: Floats) -> Floats:
    pad = np.uint16(c.pad_value).view(np.float16)
    seen = reference.windows(values, (3, 2), c.strides, c.dilations, c.pads, float(pad))
    sums = np.einsum("yxrsc,krsc->yxk", seen.astype(float), weights.astype(float)) + bias
    sums = np.where(sums < 0, sums * slopes, sums)
    relu = np.maximum(sums + operand, 0)
    windows = reference.windows(relu, (3, 2), (2, 1), (1, 1), (1, 0, 1, 1), 0)
    means: Floats = windows.mean(axis=(2, 3))
    return means


FORMULAS: dict[ExactFunction, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    f.Sigmoid(): lambda x: 1 / (1 + np.exp(-x)),
    f.Tanh(): np.tanh,
    f.Elu(): lambda x: np.where(x > 0, x, np.exp(x) - 1),
    f.Swish(1.5): lambda x: x / (1 + np.exp(-1.5 * x)),
    f.HardSigmoid(0.25, 0.5): lambda x: np.clip(0.25 * x + 0.5, 0, 1),
    f.HardSwish(): lambda x: x * np.clip(x + 3, 0, 6) / 6,
    f.Gelu(): lambda x: x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2,
    f.Gelu(by_tanh=True): lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    f.Mish(): lambda x: x * np.tanh(np.log1p(np.exp(x))),
    f.Softplus(): lambda x: np.log1p(np.exp(x)),
    f.Softsign(): lambda x: x / (1 + np.abs(x)),
    f.ScaledElu(1.5, 0.75): lambda x: 0.75 * np.where(x > 0, x, 1.5 * (np.exp(x) - 1)),
    f.Exponential(0.5, 0.25): lambda x: np.exp(0.5 * x + 0.25),
    f.Logarithm(2.0, 0.5, 9.0): lambda x: 2 * np.log(0.5 * x + 9),
    f.Power(-0.75, 0.5, 9.0): lambda x: (0.5 * x + 9) ** -0.75,
    f.Absolute(): np.abs,
    f.Sine(): np.sin,
    f.Cosine(): np.cos,
    f.Arctangent(): np.arctan,
    f.ErrorFunction(): np.vectorize(erf),
    f.Floor(): np.floor,
    f.Round(): np.round,
    f.Threshold(0.5): lambda x: (x > 0.5).astype(float),
    f.Clip(-1.0, 2.0): lambda x: np.clip(x, -1, 2),
    f.BoundedRelu(0.5, 1.0, 2.0): lambda x: np.where(x > 1, np.minimum(x, 2), 0.5 * (x - 1)),
}
TABLES = ([0] * 65, [0x3C00 + 4 * number for number in range(257)])  # LO: 1 to 2
NOWHERE = (1.0, 0.0, 0.0)  # these tables hold none of the functions
SETTINGS: dict[str, int | Mapping[str, int]] = {
    "S_LUT_CFG": {"LUT_LE_FUNCTION": 1, "LUT_UFLOW_PRIORITY": 1, "LUT_OFLOW_PRIORITY": 1, "LUT_HYBRID_PRIORITY": 1},
    "S_LUT_INFO": {"LUT_LO_INDEX_SELECT": -6 & 0xFF},
    "S_LUT_LE_SLOPE_SCALE": 0,
    "S_LUT_LE_SLOPE_SHIFT": 0,
    "S_LUT_LO_SLOPE_SCALE": 0,
    "S_LUT_LO_SLOPE_SHIFT": 0,
}
SDP_BOUNDS: dict[str, int | Mapping[str, int]] = {
    "S_LUT_LE_START": 0x42C80000,
    "S_LUT_LE_END": 0x42C80000,
    "S_LUT_LO_START": 0,
    "S_LUT_LO_END": 0x40800000,
}


def name(program: Program, table: NamedTable, *, of_cdp: bool = False) -> None:
    for address, value in naming(table, of_cdp=of_cdp):
        program.accesses.append(Access(AccessKind.WRITE, address, value))


def test_tables_give_named_functions(compiler: None) -> None:
    """The last one has none: its table is interpolated, 1 + x / 4 from 0 to 4."""
    x = np.linspace(-6, 6, 32, dtype=np.float32).reshape(1, 2, 16)
    source, outputs = Features(SOURCE, 1, 2, 16, "fp16"), []
    program = Program(NV_FULL)
    look_up = {"D_DP_EW_CFG": {"EW_ALU_BYPASS": 1, "EW_MUL_BYPASS": 1}}
    size = source.size(NV_FULL)
    functions: tuple[ExactFunction | None, ...] = (*FORMULAS, None)
    for number, function in enumerate(functions):
        programs.write_tables(program, "SDP", TABLES, SETTINGS | SDP_BOUNDS)
        if function is not None:
            name(program, NamedTable(function, *NOWHERE))
        outputs.append(Features(OUTPUT + number * size, 1, 2, 16, "fp16"))
        programs.process(program, outputs[-1], source=source, sdp=look_up, rdma={"D_BRDMA_CFG": {"BRDMA_DISABLE": 1}})
    whole = Features(OUTPUT, len(functions), 2, 16, "fp16")
    results = played(program, {SOURCE: in_memory(x)}, whole, "SDP")
    for function, result in zip(FORMULAS, results, strict=False):
        assert np.allclose(result, FORMULAS[function](x[0].astype(float)), rtol=1e-6, atol=1e-7), function
    assert np.allclose(results[-1], np.clip(1 + x[0] / 4, 1, 2), rtol=1e-6)


@pytest.mark.parametrize(
    ("slope", "error", "refusal"), [(0.25, 0, ""), (0.26, 0.01, "the table gives"), (0.26, 0.03, "")]
)
def test_a_table_of_another_function_is_refused(compiler: None, slope: float, error: float, refusal: str) -> None:
    """The table has 1 + x / 4."""
    x = np.linspace(0, 4, 32, dtype=np.float32).reshape(1, 2, 16)
    source, output = Features(SOURCE, 1, 2, 16, "fp16"), Features(OUTPUT, 1, 2, 16, "fp16")
    program = Program(NV_FULL)
    programs.write_tables(program, "SDP", TABLES, SETTINGS | SDP_BOUNDS)
    name(program, NamedTable(f.Power(1.0, slope, 1.0), 0, 4, error))
    look_up = {"D_DP_EW_CFG": {"EW_ALU_BYPASS": 1, "EW_MUL_BYPASS": 1}}
    programs.process(program, output, source=source, sdp=look_up, rdma={"D_BRDMA_CFG": {"BRDMA_DISABLE": 1}})
    program.wait("SDP")
    memory = {SOURCE: in_memory(x).tobytes(), OUTPUT: bytes(2 * output.size(NV_FULL))}
    said = play(NV_FULL, memory, program.accesses, exact=True).refusal
    assert said.startswith(refusal) if refusal else not said


def test_the_response_over_channels_is_a_power_of_the_sum_of_squares(compiler: None) -> None:
    values = random_map(np.random.default_rng(1), 3, 4, 20)
    source, output = Features(SOURCE, 3, 4, 20, "fp16"), Features(OUTPUT, 3, 4, 20, "fp16")
    program = Program(NV_FULL)
    bounds: dict[str, int | Mapping[str, int]] = {}
    for table in ("LE", "LO"):
        for end in ("START", "END"):
            bounds |= {f"S_LUT_{table}_{end}_LOW": 0, f"S_LUT_{table}_{end}_HIGH": 0}
    programs.write_tables(program, "CDP", TABLES, SETTINGS | bounds)
    name(program, NamedTable(f.Power(-0.75, 0.25, 2.0), *NOWHERE), of_cdp=True)
    programs.respond(program, source, OUTPUT, {"D_LRN_CFG": 1})
    result = played(program, {SOURCE: in_memory(values)}, output, "CDP")
    squares = np.pad(values.astype(float) ** 2, ((0, 0), (0, 0), (2, 2)))
    sums = sum(squares[:, :, first : first + 20] for first in range(5))
    assert np.allclose(result, values * (0.25 * sums + 2) ** -0.75, rtol=1e-6, atol=1e-7)


def test_a_largest_value_and_whole_numbers(compiler: None) -> None:
    """PDP from memory; INT8 is refused in exact mode."""
    values = random_map(np.random.default_rng(1), 5, 6, 20)
    pool = Pooling(Features(SOURCE, 5, 6, 20, "fp16"), 1, (3, 2), (2, 2), (1, 1, 0, 1))
    program = Program(NV_FULL)
    programs.pool(program, pool, OUTPUT)
    result = played(program, {SOURCE: in_memory(values)}, Features(OUTPUT, pool.height, pool.width, 20, "fp16"), "PDP")
    windows = reference.windows(values, (2, 3), (2, 2), (1, 1), (1, 1, 0, 1), -np.inf)
    assert np.array_equal(result, windows.max(axis=(2, 3)))
    whole = Program(NV_FULL)
    programs.pool(whole, Pooling(Features(SOURCE, 5, 6, 20)), OUTPUT)
    refused = play(NV_FULL, {SOURCE: bytes(1 << 16), OUTPUT: bytes(1 << 16)}, whole.accesses, exact=True)
    assert "has no precision int8" in refused.refusal
