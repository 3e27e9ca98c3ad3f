"""The functions of CPU layers that work on blocks give the bits of one element at a time."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.codegen import kernels

FOLDER = Path(kernels.__file__).parent
CPU_INFO = Path("/proc/cpuinfo")
HAS_F16C = CPU_INFO.exists() and " f16c " in CPU_INFO.read_text()
NEEDS_F16C = pytest.mark.skipif(not HAS_F16C, reason="this processor has no F16C")
TARGETS = [(), pytest.param(("-mavx", "-mf16c"), marks=NEEDS_F16C)]

CONVERSIONS = """
#include <cstdio>
#include "block.h"
using namespace cpu_functions;
int main() {
  uint16_t halves[64];
  float values[64];
  uint8_t *half_bytes = reinterpret_cast<uint8_t *>(halves), *bytes = reinterpret_cast<uint8_t *>(values);
  for (int first = 0; first < 65536; first += 64) {
    for (int i = 0; i < 64; ++i) halves[i] = static_cast<uint16_t>(first + i);
    for (int i = 0; i < 64; i += 8) StoreFloats(LoadHalves(half_bytes + 2 * i), bytes + 4 * i);
    std::fwrite(values, 4, 64, stdout);
    for (int i = 0; i < 64; ++i) values[i] = FromHalf(halves[i]);
    std::fwrite(values, 4, 64, stdout);
  }
  while (std::fread(values, 4, 64, stdin) == 64) {
    for (int i = 0; i < 64; i += 8) StoreHalves(LoadFloats(bytes + 4 * i), half_bytes + 2 * i);
    std::fwrite(halves, 2, 64, stdout);
    for (int i = 0; i < 64; ++i) halves[i] = ToHalf(values[i]);
    std::fwrite(halves, 2, 64, stdout);
  }
}
"""

SWISH = """
#include <cstdio>
#include <vector>
#include "unary.h"
using namespace cpu_functions;
int main() {
  std::vector<uint16_t> halves(65536), results(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  const Tensor x(reinterpret_cast<uint8_t *>(halves.data()), 0, 256, 256, 1, kHalf);
  Unary(x, Tensor(reinterpret_cast<uint8_t *>(results.data()), 0, 256, 256, 1, kHalf), Swish{1.0f});
  std::fwrite(results.data(), 2, 65536, stdout);
}
"""

PARTS = """
#include <cstdio>
#include <vector>
#include "mean_variance_norm.h"
#include "softmax.h"
using namespace cpu_functions;
int main() {
  std::vector<float> values(40 * 9 * 75), results(values.size());
  if (std::fread(values.data(), 4, values.size(), stdin) != values.size()) return 1;
  const Tensor x(reinterpret_cast<uint8_t *>(values.data()), 0, 40, 9, 75, kFloatPlain);
  const Tensor y(reinterpret_cast<uint8_t *>(results.data()), 0, 40, 9, 75, kFloatPlain);
  for (const bool is_softmax : {true, false})
    for (const Axes &along : {Axes{false, false, true}, Axes{true, false, false}}) {
      if (is_softmax) Softmax(x, y, along);
      else MeanVarianceNorm(x, y, along, 1, true, 1e-6f, false);
      std::fwrite(results.data(), 4, results.size(), stdout);
    }
}
"""

MAPS = """
#include <cstdio>
#include <vector>
#include "binary.h"
#include "transpose_reshape.h"
#include "unary.h"
#include "values.h"
using namespace cpu_functions;

std::vector<uint8_t> memory(1 << 22);
const std::size_t kX = 0, kY = 1 << 20, kZ = 2 << 20, kExpected = 3 << 20;

void Compare(const char *what, const Tensor &z, const Tensor &expected) {
  const std::size_t bytes = z.Stored() * (z.is_half ? 2 : 4);
  bool is_same = true;
  z.ForEach([&](int h, int w, int c) {
    const float a = z.Get(h, w, c), b = expected.Get(h, w, c);
    is_same = is_same && ((a != a && b != b) || std::memcmp(&a, &b, 4) == 0);
  });
  for (std::size_t i = 0; i < 16; ++i) is_same = is_same && z.data[bytes + i] == 0xAB;  // nothing behind the map
  if (!is_same) std::printf("%s of %dx%dx%d as format %d\\n", what, z.height, z.width, z.channels, z.is_half);
}

template <class F>
void TryUnary(const char *what, int h, int w, int c, Format from, Format to, F f) {
  std::memset(&memory[kZ], 0xAB, 4 * static_cast<std::size_t>((h * w + 15) * (c + 15)) + 16);
  const Tensor x(&memory[0], kX, h, w, c, from), z(&memory[0], kZ, h, w, c, to);
  const Tensor expected(&memory[0], kExpected, h, w, c, to);
  Unary(x, z, f);
  x.ForEach([&](int i, int j, int k) { expected.Set(i, j, k, f(x.Get(i, j, k))); });
  Compare(what, z, expected);
}

template <class F>
void TryBinary(const char *what, int h, int w, int c, bool rows, bool columns, bool depth, Format from, Format format, F f) {
  std::memset(&memory[kZ], 0xAB, 4 * static_cast<std::size_t>((h * w + 15) * (c + 15)) + 16);
  const Tensor x(&memory[0], kX, h, w, c, from), z(&memory[0], kZ, h, w, c, format);
  const Tensor y(&memory[0], kY, rows ? h : 1, columns ? w : 1, depth ? c : 1, from);
  const Tensor expected(&memory[0], kExpected, h, w, c, format);
  for (const bool is_first : {true, false}) {
    is_first ? Binary(x, y, z, f) : Binary(y, x, z, f);
    x.ForEach([&](int i, int j, int k) {
      const float a = x.Get(i, j, k), b = y.Get(rows ? i : 0, columns ? j : 0, depth ? k : 0);
      expected.Set(i, j, k, is_first ? f(a, b) : f(b, a));
    });
    Compare(what, z, expected);
  }
}

void TryCopy(int h, int w, int c, Format format) {
  std::memset(&memory[kZ], 0xAB, 4 * static_cast<std::size_t>((h * w + 15) * (c + 15)) + 16);
  const Tensor x(&memory[0], kX, h, w, c, format), z(&memory[0], kZ, h, w, c, format);
  Values copy = Values::Of(x);
  copy.Write(z);
  Compare("copy", z, x);
  x.ForEach([&](int i, int j, int k) {
    const float expected = x.Get(i, j, k), found = copy.Get(i, j, k);
    if (std::memcmp(&expected, &found, 4) != 0 && expected == expected) std::printf("copy of %dx%dx%d\\n", h, w, c);
  });
}

void TryTransposition(int h, int w, int c, Format format) {
  std::memset(&memory[kZ], 0xAB, 4 * static_cast<std::size_t>((h * w + 15) * (c + 15)) + 16);
  const Tensor x(&memory[0], kX, h, w, c, format), z(&memory[0], kZ, 1, c, h * w, format);
  const Tensor expected(&memory[0], kExpected, 1, c, h * w, format);
  TransposeReshape(x, z, {h * w, c}, {1, 0}, false);
  x.ForEach([&](int i, int j, int k) { expected.Set(0, k, i * w + j, x.Get(i, j, k)); });
  Compare("transposition", z, expected);
}

int main() {
  uint32_t random = 1;
  for (std::size_t i = 0; i < kZ; i += 2) {
    random = random * 1664525u + 1013904223u;
    // near 1, and sometimes any bits: NaN, infinite, subnormal
    const uint16_t half = static_cast<uint16_t>(random >> 30 ? 0x3000u + (random >> 19) % 0x1800u : random >> 14);
    std::memcpy(&memory[i], &half, 2);
  }
  for (bool row_by_row : {true, false})
    for (int c : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 130, 300})
      for (int h : {1, 7})
        for (int w : {1, 5, 70}) {
          kRowByRow = row_by_row;
          for (const Format to : {kHalf, kFloat, kFloatPlain, kAtoms, kFloatAtoms}) {
            const Format from = to >= kAtoms ? kAtoms : kHalf;
            TryCopy(h, w, c, to);
            TryTransposition(h, w, c, to);
            TryUnary("hard swish", h, w, c, from, to, HardSwish{});
            TryUnary("swish", h, w, c, from, to, Swish{1.0f});
            TryUnary("clip", h, w, c, from, to, Clip{-0.0f, 1.5f});
            TryUnary("hard sigmoid", h, w, c, from, to, HardSigmoid{0.2f, 0.5f});
            TryUnary("bounded", h, w, c, from, to, BoundedRelu{0.1f, 0.5f, 1.0f});
            TryUnary("threshold", h, w, c, from, to, Threshold{0.5f});
            for (int axes = 0; axes < 8; ++axes) {
              TryBinary("product", h, w, c, axes & 1, axes & 2, axes & 4, from, to, Multiply{});
              TryBinary("maximum", h, w, c, axes & 1, axes & 2, axes & 4, from, to, Maximum{});
              TryBinary("mask", h, w, c, axes & 1, axes & 2, axes & 4, from, to, Mask{});
            }
          }
        }
  std::puts("done");
}
"""


def run(source: str, folder: Path, flags: tuple[str, ...], stdin: bytes = b"") -> bytes:
    """The order of maps is a variable, as in the runner of programs that are data."""
    headers = folder / "headers"
    shutil.copytree(FOLDER, headers)
    order = (headers / "order.h").read_text()
    assert "const bool kRowByRow" in order
    (headers / "order.h").write_text(order.replace("const bool kRowByRow", "bool kRowByRow"))
    (folder / "main.cpp").write_text(source)
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-ffp-contract=off"]
    command = ["g++", "-std=c++11", "-O2", *warnings, *flags, f"-I{headers}", "main.cpp", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run([folder / "main"], input=stdin, capture_output=True, check=True, timeout=300).stdout


@pytest.mark.parametrize("flags", TARGETS)
def test_conversions_are_those_of_numpy(flags: tuple[str, ...], tmp_path: Path) -> None:
    halves = np.arange(65536, dtype=np.uint16)
    bits = np.concatenate([np.arange(0, 2**32, 65521, dtype=np.uint32), halves.astype(np.uint32) << 16])
    edges = halves[(halves & 0x7FFF) < 0x7C00].view(np.float16).astype(np.float32)
    ties = (edges[:-1] + edges[1:]) / 2
    values = np.concatenate([bits.view(np.float32), edges, ties, np.nextafter(ties, np.float32(9e9)), -ties])
    values = values[: values.size // 64 * 64]
    output = run(CONVERSIONS, tmp_path, flags, values.tobytes())
    wide = np.frombuffer(output[: 65536 * 8], np.uint32).reshape(-1, 2, 64)
    quiet = np.where((halves & 0x7FFF) > 0x7C00, halves | 0x200, halves).astype(np.uint16)
    assert (wide == quiet.view(np.float16).astype(np.float32).view(np.uint32).reshape(-1, 1, 64)).all()
    narrow = np.frombuffer(output[65536 * 8 :], np.uint16).reshape(-1, 2, 64)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    sign = (values.view(np.uint32) >> 16 & 0x8000).astype(np.uint16)
    expected = np.where(np.isnan(values), sign | 0x7E00, expected)
    assert (narrow == expected.reshape(-1, 1, 64)).all()


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize("flags", TARGETS)
def test_blocks_compute_what_single_elements_do(flags: tuple[str, ...], tmp_path: Path) -> None:
    assert run(MAPS, tmp_path, flags) == b"done\n"


@pytest.mark.parametrize("flags", TARGETS)
def test_swish_is_the_nearest_half_but_for_ties(flags: tuple[str, ...], tmp_path: Path) -> None:
    halves = np.arange(65536, dtype=np.uint16)
    x = halves.view(np.float16).astype(np.float64)
    with np.errstate(all="ignore"):
        exact = (x / (1 + np.exp(-x))).astype(np.float16)
    results = np.frombuffer(run(SWISH, tmp_path, flags), np.float16)
    assert (np.isnan(results) == np.isnan(exact)).all()
    steps = results.view(np.int16).astype(int) - exact.view(np.int16)
    others = (steps != 0) & ~np.isnan(exact)
    assert others.sum() <= 8 and abs(steps[others]).max(initial=0) <= 1


@pytest.mark.parametrize("flags", TARGETS)
def test_softmax_and_norms_lose_nothing_in_their_sums(flags: tuple[str, ...], tmp_path: Path) -> None:
    """Of a power, the product that is its exponent makes 16 steps of FP32; the factor and its product make one."""
    x = np.random.default_rng(0).normal(3, 2, size=(40, 9, 75)).astype(np.float32)
    output = np.frombuffer(run(PARTS, tmp_path, flags, x.tobytes()), np.float32).reshape(2, 2, *x.shape)
    exact = x.astype(np.float64)
    for number, axis in enumerate((2, 0)):
        powers = np.exp(exact - exact.max(axis, keepdims=True))
        deviation = np.sqrt(exact.var(axis, keepdims=True) + np.float32(1e-6))
        assert steps_between(output[0, number], powers / powers.sum(axis, keepdims=True)) < 17
        assert steps_between(output[1, number], (exact - exact.mean(axis, keepdims=True)) / deviation) < 0.51


def steps_between(found: NDArray[Any], exact: NDArray[Any]) -> float:
    """The largest error, in steps of FP32."""
    return float((np.abs(found - exact) / np.spacing(np.abs(exact).astype(np.float32))).max())
