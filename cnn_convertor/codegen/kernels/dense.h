// Fully connected layers.
#ifndef DV700_CPU_DENSE_H
#define DV700_CPU_DENSE_H

#include <cstddef>
#include <vector>

#include "block.h"
#include "tensor.h"
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
  for (std::size_t i = 0; i < inputs.Size(); ++i)
    Transform(sums.All(), Elements(weights, i * outputs), sums.All(), outputs, AddWeighted{inputs.Get(0, 0, static_cast<int>(i))});
  sums.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_DENSE_H
