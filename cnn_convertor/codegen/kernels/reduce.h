// Sums, means and extremes.
// Timed Reduce: Reduce(x, Tensor(io, kResult, 1, 1, 16, kHalf), Axes{true, true, false}, kMean, 1.0f)
#ifndef DV700_CPU_REDUCE_H
#define DV700_CPU_REDUCE_H

#include <algorithm>
#include <cmath>

#include "axes.h"
#include "part.h"
#include "tensor.h"
#include "values.h"

namespace dv700_cpu {

enum Reduction { kSum, kMean, kMaximum, kMinimum, kSumOfMagnitudes, kSumOfSquares };

// One number for each part, times a factor.
inline void Reduce(const Tensor &x, const Tensor &y, Axes along, Reduction reduction, float factor) {
  Values values = Values::Of(x);
  ForParts(x, along, 1, [&](const Part &part) {
    double result = reduction == kMaximum ? -INFINITY : reduction == kMinimum ? INFINITY : 0.0;
    part.ForEach([&](int h, int w, int c) {
      const double value = values.Get(h, w, c);
      switch (reduction) {
        case kMaximum: result = std::max(result, value); break;
        case kMinimum: result = std::min(result, value); break;
        case kSumOfMagnitudes: result += std::abs(value); break;
        case kSumOfSquares: result += value * value; break;
        default: result += value;
      }
    });
    if (reduction == kMean) result /= part.Size();
    y.Set(along.height ? 0 : part.y, along.width ? 0 : part.x, along.channels ? 0 : part.c,
          static_cast<float>(result * factor));
  });
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_REDUCE_H
