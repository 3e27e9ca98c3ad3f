// Blocks of pixels as channels.
#ifndef DV700_CPU_SPACE_TO_DEPTH_H
#define DV700_CPU_SPACE_TO_DEPTH_H

#include "tensor.h"

namespace dv700_cpu {

// Blocks of pixels become pixels; outside of x there are zeros.
inline void SpaceToDepth(const Tensor &x, const Tensor &y, int block_height, int block_width, int top, int left) {
  y.ForEach([&](int h, int w, int c) {
    const int inside = c / x.channels;
    const int i = h * block_height + inside / block_width - top, j = w * block_width + inside % block_width - left;
    const bool is_in = i >= 0 && i < x.height && j >= 0 && j < x.width;
    y.Set(h, w, c, is_in ? x.Get(i, j, c % x.channels) : 0.0f);
  });
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_SPACE_TO_DEPTH_H
