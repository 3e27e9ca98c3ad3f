// Sums, means and extremes.
// Timed Reduce: Reduce(x, Tensor(io, kResult, 1, 1, 16, kHalf), Axes{true, true, false}, kMean, 1.0f)
#ifndef CPU_FUNCTIONS_REDUCE_H
#define CPU_FUNCTIONS_REDUCE_H

#include <algorithm>
#include <cmath>

#include "axes.h"
#include "block.h"
#include "lanes.h"
#include "part.h"
#include "tensor.h"
#include "values.h"

namespace cpu_functions {

enum Reduction { kSum, kMean, kMaximum, kMinimum, kSumOfMagnitudes, kSumOfSquares };

struct Opposite {
  template <class V>
  V operator()(V x, V) const { return Each<V>(0.0f) - x; }
};

// Of each lane. The numbers of the lanes become their opposites for kMinimum.
inline Lanes::Numbers Reduced(const Lanes &lanes, Reduction reduction) {
  float largest[8] = {};
  Lanes::Numbers result;
  switch (reduction) {
    case kSum:
    case kMean: result = lanes.Sum([](double number, double) { return number; }); break;
    case kSumOfMagnitudes: return lanes.Sum([](double number, double) { return std::abs(number); });
    case kSumOfSquares: return lanes.Sum([](double number, double) { return number * number; });
    default:
      if (reduction == kMinimum) lanes.Transform(Opposite{}, largest);
      lanes.Largest(largest);
      std::copy_n(largest, 8, result.lane);
  }
  const double divisor = reduction == kMean ? lanes.Size() : reduction == kMinimum ? -1.0 : 1.0;
  return lanes.Of(result, [=](double number) { return number / divisor; });
}

// One number for each part, times a factor.
inline void Reduce(const Tensor &x, const Tensor &y, Axes along, Reduction reduction, float factor) {
  Values values = Values::Of(x);
  ForLanes(x, &values, along, 1, [=](const Lanes &lanes) {
    const Lanes::Numbers results = Reduced(lanes, reduction);
    const Part &part = lanes.part;
    for (int c = part.c; c < (along.channels ? part.c + 1 : part.c_end); ++c)
      y.Set(along.height ? 0 : part.y, along.width ? 0 : part.x, along.channels ? 0 : c,
            static_cast<float>(results.lane[c - part.c] * factor));
  });
  y.ClearRest();
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_REDUCE_H
