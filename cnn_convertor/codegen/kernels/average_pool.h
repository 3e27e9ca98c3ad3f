// Average pooling.
#ifndef DV700_CPU_AVERAGE_POOL_H
#define DV700_CPU_AVERAGE_POOL_H

#include <algorithm>

#include "tensor.h"
#include "window.h"

namespace dv700_cpu {

// counted: rows above, below, left and right of the map that count as zeros. factor: of the sums; 0: 1 / (what counts).
struct Counted {
  int top, bottom, left, right;
};
inline void AveragePool(const Tensor &x, const Tensor &y, const Window &window, const Counted &counted, float factor) {
  const Window inside = {window.kernel_height,   window.kernel_width,   window.stride_height,
                         window.stride_width,    window.dilation_height, window.dilation_width,
                         window.top - counted.top, window.left - counted.left};
  const int height = x.height + counted.top + counted.bottom, width = x.width + counted.left + counted.right;
  y.ForEach([&](int h, int w, int c) {
    float sum = 0.0f;
    int count = 0;
    ForWindow(window, h, w, x.height, x.width, [&](int i, int j) { sum += x.Get(i, j, c); });
    ForWindow(inside, h, w, height, width, [&](int, int) { ++count; });
    y.Set(h, w, c, factor != 0.0f ? sum * factor : sum / static_cast<float>(std::max(count, 1)));
  });
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_AVERAGE_POOL_H
