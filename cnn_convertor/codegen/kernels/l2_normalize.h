// Normalization by length.
// Timed L2Normalize: L2Normalize(x, z, Axes{false, false, true}, 1e-6f, false)
#ifndef DV700_CPU_L2_NORMALIZE_H
#define DV700_CPU_L2_NORMALIZE_H

#include <algorithm>
#include <cmath>

#include "axes.h"
#include "part.h"
#include "tensor.h"
#include "values.h"

namespace dv700_cpu {

// y = x / length, the length being the root of the sum of squares and epsilon, or of the larger of both.
inline void L2Normalize(const Tensor &x, const Tensor &y, Axes along, float epsilon, bool at_least) {
  Values values = Values::Of(x);
  ForParts(x, along, 1, [&](const Part &part) {
    double sum = 0.0;
    part.ForEach([&](int h, int w, int c) { sum += static_cast<double>(values.Get(h, w, c)) * values.Get(h, w, c); });
    const double square = at_least ? std::max(sum, static_cast<double>(epsilon)) : sum + epsilon;
    const double length = std::sqrt(square);
    part.ForEach([&](int h, int w, int c) { values.Set(h, w, c, static_cast<float>(values.Get(h, w, c) / length)); });
  });
  values.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_L2_NORMALIZE_H
