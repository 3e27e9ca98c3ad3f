// Softmax along an axis.
// Timed Softmax: Softmax(x, z, Axes{false, false, true})
#ifndef DV700_CPU_SOFTMAX_H
#define DV700_CPU_SOFTMAX_H

#include <algorithm>
#include <cmath>

#include "axes.h"
#include "part.h"
#include "power_of_two.h"
#include "tensor.h"
#include "values.h"

namespace dv700_cpu {

struct NaturalExponential {
  template <class V>
  V operator()(V x) const { return PowerOfTwo(Each<V>(kLog2OfE) * x); }
};

inline void Softmax(const Tensor &x, const Tensor &y, Axes along) {
  Values values = Values::Of(x);
  ForParts(x, along, 1, [&](const Part &part) {
    float largest = -INFINITY;
    part.ForEach([&](int h, int w, int c) { largest = std::max(largest, values.Get(h, w, c)); });
    part.ForEach([&](int h, int w, int c) { *values.At(h, w, c) -= largest; });
  });
  TransformAll(x.threads, values.All(), values.All(), values.Size(), NaturalExponential{});
  ForParts(x, along, 1, [&](const Part &part) {
    double sum = 0.0;
    part.ForEach([&](int h, int w, int c) { sum += values.Get(h, w, c); });
    part.ForEach([&](int h, int w, int c) {
      values.Set(h, w, c, static_cast<float>(values.Get(h, w, c) / sum));
    });
  });
  values.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_SOFTMAX_H
