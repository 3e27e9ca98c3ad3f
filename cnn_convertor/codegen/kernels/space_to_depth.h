// Blocks of pixels as channels.
// Timed SpaceToDepth: SpaceToDepth(x, Tensor(io, kResult, rows / 2, 8, 64, kHalf), 2, 2, 0, 0)
#ifndef DV700_CPU_SPACE_TO_DEPTH_H
#define DV700_CPU_SPACE_TO_DEPTH_H

#include <algorithm>

#include "tensor.h"
#include "values.h"

namespace dv700_cpu {

// Blocks of pixels become pixels; outside of x there are zeros.
inline void SpaceToDepth(const Tensor &x, const Tensor &y, int block_height, int block_width, int top, int left) {
  Values from = Values::Of(x), to(y);
  y.ForPixels(y.channels, [&](int h, int w) {
    for (int c = 0, inside = 0; c < y.channels; c += x.channels, ++inside) {
      const int i = h * block_height + inside / block_width - top, j = w * block_width + inside % block_width - left;
      const bool is_in = i >= 0 && i < x.height && j >= 0 && j < x.width;
      if (is_in) std::copy_n(from.At(i, j, 0), x.channels, to.At(h, w, c));
    }
  });
  to.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_SPACE_TO_DEPTH_H
