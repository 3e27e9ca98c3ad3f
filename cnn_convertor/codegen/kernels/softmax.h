// Softmax along an axis.
#ifndef DV700_CPU_SOFTMAX_H
#define DV700_CPU_SOFTMAX_H

#include <algorithm>
#include <cmath>

#include "axes.h"
#include "part.h"
#include "tensor.h"

namespace dv700_cpu {

inline void Softmax(const Tensor &x, const Tensor &y, Axes along) {
  ForParts(x, along, 1, [&](const Part &part) {
    float largest = -INFINITY;
    double sum = 0.0;
    part.ForEach([&](int h, int w, int c) { largest = std::max(largest, x.Get(h, w, c)); });
    part.ForEach([&](int h, int w, int c) { sum += std::exp(x.Get(h, w, c) - largest); });
    part.ForEach([&](int h, int w, int c) {
      y.Set(h, w, c, static_cast<float>(std::exp(x.Get(h, w, c) - largest) / sum));
    });
  });
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_SOFTMAX_H
