// Unpooling by the maxima of a map.
// Timed MaxUnpool, 1024 units: MaxUnpool(x, Tensor(io, kSecond, 2 * rows, 32, 16, kHalf), Tensor(io, kResult, 2 *
//   rows, 32, 16, kHalf), Window{2, 2, 2, 2, 1, 1, 0, 0})
#ifndef CPU_FUNCTIONS_MAX_UNPOOL_H
#define CPU_FUNCTIONS_MAX_UNPOOL_H

#include <cmath>

#include "tensor.h"
#include "window.h"

namespace cpu_functions {

// Values where the maxima of x are, the first of equal ones in each window; zeros elsewhere.
inline void MaxUnpool(const Tensor &values, const Tensor &x, const Tensor &y, const Window &window) {
  y.ForEach([&](int h, int w, int c) { y.Set(h, w, c, 0.0f); });
  const auto place = [&](int h, int w, int c) {
    float largest = -INFINITY;
    int row = -1, column = -1;
    ForWindow(window, h, w, x.height, x.width, [&](int i, int j) {
      const float value = x.Get(i, j, c);
      if (!(value > largest) && (row >= 0 || std::isnan(value))) return;
      largest = value;
      row = i;
      column = j;
    });
    if (row >= 0) y.Set(row, column, c, values.Get(h, w, c));
  };
  const std::size_t channels = static_cast<std::size_t>(values.channels), pixels = values.Size() / channels;
  // Windows overlap, so that each channel is the work of one thread.
  Share(y.threads, channels, pixels * static_cast<std::size_t>(window.Size()), [&](std::size_t first, std::size_t last) {
    for (int h = 0; h < values.height; ++h)
      for (int w = 0; w < values.width; ++w)
        for (std::size_t c = first; c < last; ++c) place(h, w, static_cast<int>(c));
  });
  y.ClearRest();
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_MAX_UNPOOL_H
