// Factors of channels as the packed weights of a 1x1 depthwise convolution, which the device reads from the I/O memory.
// Timed PackedFactors, 1168 units: PackedFactors(Tensor(io, 0, 1, 1, 16 * rows, kHalf), Tensor(io, kResult, 1, 1,
//   1168 * rows, kHalf))
#ifndef CPU_FUNCTIONS_PACKED_FACTORS_H
#define CPU_FUNCTIONS_PACKED_FACTORS_H

#include <cstddef>
#include <cstring>

#include "tensor.h"

namespace cpu_functions {

const int kFactorsTogether = 8;  // with 8 biases before them
const int kFactorTile = 72;      // elements of a factor: one of them, and zeros
const int kFactorPlace = 66;     // of the factor among them: the last row of 6

// A bias of -0 leaves each product as it is; +0 would make +0 of -0.
inline void PackedFactors(const Tensor &x, const Tensor &y) {
  std::memset(y.data, 0, y.Stored() * (y.is_half ? 2 : 4));
  int at = 0;
  for (int c = 0; c < x.channels; ++c, at += kFactorTile) {
    if (c % kFactorsTogether == 0) {
      for (int i = 0; i < kFactorsTogether && c + i < x.channels; ++i) y.Set(0, 0, at + i, -0.0f);
      at += kFactorsTogether;
    }
    y.Set(0, 0, at + kFactorPlace, x.Get(0, 0, c));
  }
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_PACKED_FACTORS_H
