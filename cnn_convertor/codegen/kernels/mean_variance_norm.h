// Normalization by mean and deviation.
// Timed MeanVarianceNorm: MeanVarianceNorm(x, z, Axes{false, false, true}, 1, true, 1e-6f, false)
#ifndef DV700_CPU_MEAN_VARIANCE_NORM_H
#define DV700_CPU_MEAN_VARIANCE_NORM_H

#include <cmath>

#include "axes.h"
#include "part.h"
#include "tensor.h"
#include "values.h"

namespace dv700_cpu {

// y = (x - mean) / deviation, of the input itself.
inline void MeanVarianceNorm(const Tensor &x, const Tensor &y, Axes along, int groups, bool divides, float epsilon,
                        bool epsilon_outside) {
  Values values = Values::Of(x);
  ForParts(x, along, groups, [&](const Part &part) {
    double sum = 0.0, squares = 0.0;
    part.ForEach([&](int h, int w, int c) { sum += values.Get(h, w, c); });
    const double mean = sum / part.Size();
    part.ForEach([&](int h, int w, int c) {
      const double difference = values.Get(h, w, c) - mean;
      squares += difference * difference;
    });
    const double variance = squares / part.Size();
    const double deviation = epsilon_outside ? std::sqrt(variance) + epsilon : std::sqrt(variance + epsilon);
    part.ForEach([&](int h, int w, int c) {
      values.Set(h, w, c, static_cast<float>((values.Get(h, w, c) - mean) / (divides ? deviation : 1.0)));
    });
  });
  values.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_MEAN_VARIANCE_NORM_H
