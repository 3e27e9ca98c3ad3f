// Blocks of pixels as channels.
// Timed SpaceToDepth: SpaceToDepth(x, Tensor(io, kResult, rows / 2, 8, 64, kHalf), 2, 2, 0, 0)
#ifndef CPU_FUNCTIONS_SPACE_TO_DEPTH_H
#define CPU_FUNCTIONS_SPACE_TO_DEPTH_H

#include <algorithm>
#include <vector>

#include "moves.h"
#include "tensor.h"

namespace cpu_functions {

// Blocks of pixels become pixels; outside of x there are zeros.
inline void SpaceToDepth(const Tensor &x, const Tensor &y, int block_height, int block_width, int top, int left) {
  const auto inside = [](std::vector<int> positions, int size) {
    for (int &place : positions) place = place < size ? std::max(place, -1) : -1;
    return positions;
  };
  for (int i = 0; i < block_height; ++i)
    for (int j = 0; j < block_width; ++j)
      Move(x, {inside(Range(y.height, i - top, block_height), x.height), inside(Range(y.width, j - left, block_width), x.width),
               Range(x.channels)}, y, Steps{0, 0, (i * block_width + j) * x.channels});
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_SPACE_TO_DEPTH_H
