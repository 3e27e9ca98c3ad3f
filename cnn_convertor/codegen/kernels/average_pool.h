// Average pooling.
#ifndef DV700_CPU_AVERAGE_POOL_H
#define DV700_CPU_AVERAGE_POOL_H

#include <algorithm>
#include <cstddef>

#include "block.h"
#include "tensor.h"
#include "values.h"
#include "window.h"

namespace dv700_cpu {

struct Sum {
  template <class V>
  V operator()(V x, V y) const { return x + y; }
};

// counted: rows above, below, left and right of the map that count as zeros. factor: of the sums; 0: 1 / (what counts).
struct Counted {
  int top, bottom, left, right;
};
inline void AveragePool(const Tensor &x, const Tensor &y, const Window &window, const Counted &counted, float factor) {
  const Window inside = {window.kernel_height,   window.kernel_width,   window.stride_height,
                         window.stride_width,    window.dilation_height, window.dilation_width,
                         window.top - counted.top, window.left - counted.left};
  const int height = x.height + counted.top + counted.bottom, width = x.width + counted.left + counted.right;
  const std::size_t channels = static_cast<std::size_t>(y.channels);
  Values from = Values::Of(x), to(y);
  y.ForPixels(y.channels * window.Size(), [&](int h, int w) {
    float *sums = to.At(h, w, 0);
    int count = 0;
    ForWindow(window, h, w, x.height, x.width, [&](int i, int j) {
      Transform(Values::Row(sums), Values::Row(from.At(i, j, 0)), Values::Row(sums), channels, Sum{});
    });
    ForWindow(inside, h, w, height, width, [&](int, int) { ++count; });
    for (std::size_t c = 0; c < channels; ++c)
      sums[c] = factor != 0.0f ? sums[c] * factor : sums[c] / static_cast<float>(std::max(count, 1));
  });
  to.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_AVERAGE_POOL_H
