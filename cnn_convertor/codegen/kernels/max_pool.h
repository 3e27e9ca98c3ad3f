// Max pooling.
// Timed MaxPool, 2304 units: MaxPool(x, z, Window{3, 3, 1, 1, 1, 1, 1, 1})
#ifndef CPU_FUNCTIONS_MAX_POOL_H
#define CPU_FUNCTIONS_MAX_POOL_H

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "block.h"
#include "tensor.h"
#include "values.h"
#include "window.h"

namespace cpu_functions {

struct Largest {
  template <class V>
  V operator()(V x, V y) const { return Larger(x, y); }
};

inline void MaxPool(const Tensor &x, const Tensor &y, const Window &window) {
  const std::size_t channels = static_cast<std::size_t>(y.channels);
  Values from = Values::Of(x), to(y);
  y.ForPixels(y.channels * window.Size(), [&](int h, int w) {
    float *largest = to.At(h, w, 0);
    std::fill_n(largest, channels, -INFINITY);
    ForWindow(window, h, w, x.height, x.width, [&](int i, int j) {
      Transform(Values::Row(largest), Values::Row(from.At(i, j, 0)), Values::Row(largest), channels, Largest{});
    });
  });
  to.Write(y);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_MAX_POOL_H
