// Normalization by mean and deviation.
// Timed MeanVarianceNorm, 4096 units: MeanVarianceNorm(Tensor(io, 0, rows, 16, 256, kHalf),
//   Tensor(io, kResult, rows, 16, 256, kHalf), Axes{false, false, true}, 1, true, 1e-6f, false)
#ifndef CPU_FUNCTIONS_MEAN_VARIANCE_NORM_H
#define CPU_FUNCTIONS_MEAN_VARIANCE_NORM_H

#include <cmath>

#include "axes.h"
#include "lanes.h"
#include "tensor.h"
#include "values.h"

namespace cpu_functions {

// y = (x - mean) / deviation, of the input itself.
inline void MeanVarianceNorm(const Tensor &x, const Tensor &y, Axes along, int groups, bool divides, float epsilon,
                        bool epsilon_outside) {
  Values values = Values::Of(x);
  ForLanes(x, &values, along, groups, [=](const Lanes &lanes) {
    const double part = 1.0 / lanes.Size();
    const Lanes::Numbers sums = lanes.Sum([](double number, double) { return number; });
    const Lanes::Numbers means = lanes.Of(sums, [=](double sum) { return sum * part; });
    const auto square = [](double number, double mean) { return (number - mean) * (number - mean); };
    const Lanes::Numbers factors = lanes.Of(lanes.Sum(square, means), [=](double squares) {
      const double variance = squares * part;
      return divides ? 1.0 / (epsilon_outside ? std::sqrt(variance) + epsilon : std::sqrt(variance + epsilon)) : 1.0;
    });
    lanes.Scale(means, factors);
  });
  values.Write(y);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_MEAN_VARIANCE_NORM_H
