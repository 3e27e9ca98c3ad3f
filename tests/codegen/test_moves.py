"""C++ functions that move elements between FP16 maps leave their bits, also those of NaN."""

import subprocess
from pathlib import Path

import pytest

from cnn_convertor.codegen import kernels

MAIN = """
#include <cstdio>
#include <vector>
#include "concat.h"
#include "crop.h"
#include "gather.h"
#include "transpose_reshape.h"
using namespace cpu_functions;

uint8_t memory[3 << 17];

int main() {
  const Memory io(memory);
  const Tensor x(io, 0, 64, 64, 16, kHalf), y(io, 1 << 17, 64, 64, 16, kHalf), z(io, 2 << 17, 64, 64, 16, kHalf);
  for (unsigned i = 0; i < 1 << 16; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    std::memcpy(memory + 2 * i, &bits, sizeof(bits));
  }
  Crop(x, Tensor(io, 1 << 17, 64, 64, 5, kHalf), Steps{0, 0, 0}, Steps{1, 1, 1});
  Crop(x, Tensor(io, (1 << 17) + 64 * 64 * 5 * 2, 64, 64, 11, kHalf), Steps{0, 0, 5}, Steps{1, 1, 1});
  Concat({Tensor(io, 1 << 17, 64, 64, 5, kHalf), Tensor(io, (1 << 17) + 64 * 64 * 5 * 2, 64, 64, 11, kHalf)}, z,
         Axes{false, false, true});
  Gather(z, y, {}, {}, {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 0.0f);
  Gather(y, z, {}, {}, {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 0.0f);
  TransposeReshape(z, y, {64, 64, 16}, {2, 0, 1}, false);
  TransposeReshape(y, z, {16, 64, 64}, {1, 2, 0}, false);
  for (unsigned i = 0; i < 1 << 16; ++i) {
    uint16_t bits;
    std::memcpy(&bits, z.data + 2 * i, sizeof(bits));
    if (bits != i) std::printf("%04x became %04x\\n", i, static_cast<unsigned>(bits));
  }
}
"""


@pytest.mark.slow
def test_every_fp16_number_keeps_its_bits(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(MAIN)
    folder = Path(kernels.__file__).parent
    subprocess.run(["g++", "-std=c++11", "-pthread", f"-I{folder}", "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
    result = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert result.stdout == ""
