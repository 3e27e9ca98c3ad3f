// Normalization by length.
// Timed L2Normalize: L2Normalize(x, z, Axes{false, false, true}, 1e-6f, false)
#ifndef CPU_FUNCTIONS_L2_NORMALIZE_H
#define CPU_FUNCTIONS_L2_NORMALIZE_H

#include <algorithm>
#include <cmath>

#include "axes.h"
#include "lanes.h"
#include "tensor.h"
#include "values.h"

namespace cpu_functions {

// y = x / length, the length being the root of the sum of squares and epsilon, or of the larger of both.
inline void L2Normalize(const Tensor &x, const Tensor &y, Axes along, float epsilon, bool at_least) {
  Values values = Values::Of(x);
  ForLanes(x, &values, along, 1, [=](const Lanes &lanes) {
    const Lanes::Numbers sums = lanes.Sum([](double number, double) { return number * number; });
    const Lanes::Numbers factors = lanes.Of(sums, [=](double sum) {
      return 1.0 / std::sqrt(at_least ? std::max(sum, static_cast<double>(epsilon)) : sum + epsilon);
    });
    lanes.Scale(Lanes::Numbers(), factors);
  });
  values.Write(y);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_L2_NORMALIZE_H
