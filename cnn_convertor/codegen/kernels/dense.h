// Fully connected layers.
// Timed Dense, 1024 units: Dense(Tensor(io, 0, 1, 1, 16 * rows, kHalf), Tensor(io, kSecond, 1, 1, 16 * 64 * rows,
//   kHalf), Tensor(io, 0, 1, 1, 64, kHalf), Tensor(io, kResult, 1, 1, 64, kHalf))
#ifndef DV700_CPU_DENSE_H
#define DV700_CPU_DENSE_H

#include <algorithm>
#include <cstddef>
#include <vector>

#include "block.h"
#include "tensor.h"
#include "threads.h"
#include "values.h"

namespace dv700_cpu {

struct AddWeighted {
  float factor;
  template <class V>
  V operator()(V sum, V weight) const { return sum + Each<V>(factor) * weight; }
};

// y = bias + the sum of x[i] * weights[i][...]: of each input, the weights of all outputs lie together.
inline void Dense(const Tensor &x, const Tensor &weights, const Tensor &bias, const Tensor &y) {
  const std::size_t outputs = y.Size();
  Values inputs = Values::Of(x), sums = Values::Of(bias);
  const std::size_t together = 64;
  Share(y.threads, (outputs + together - 1) / together, together * inputs.Size(), [&](std::size_t first, std::size_t last) {
    const std::size_t begin = first * together, count = std::min(last * together, outputs) - begin;
    const Elements part(sums.All().At(begin), false);
    for (std::size_t i = 0; i < inputs.Size(); ++i)
      Transform(part, Elements(weights, i * outputs + begin), part, count, AddWeighted{inputs.Get(0, 0, static_cast<int>(i))});
  });
  sums.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_DENSE_H
