// Max pooling.
#ifndef DV700_CPU_MAX_POOL_H
#define DV700_CPU_MAX_POOL_H

#include <algorithm>
#include <cmath>

#include "tensor.h"
#include "window.h"

namespace dv700_cpu {

inline void MaxPool(const Tensor &x, const Tensor &y, const Window &window) {
  y.ForEach([&](int h, int w, int c) {
    float largest = -INFINITY;
    ForWindow(window, h, w, x.height, x.width, [&](int i, int j) { largest = std::max(largest, x.Get(i, j, c)); });
    y.Set(h, w, c, largest);
  });
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_MAX_POOL_H
