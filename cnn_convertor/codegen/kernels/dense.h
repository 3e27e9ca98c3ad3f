// Fully connected layers.
// Timed Dense, 1024 units: Dense(Tensor(io, 0, 1, 1, 16 * rows, kHalf), Tensor(io, kSecond, 1, 1, 16 * 64 * rows,
//   kHalf), Tensor(io, 0, 1, 1, 64, kHalf), Tensor(io, kResult, 1, 1, 64, kHalf))
#ifndef CPU_FUNCTIONS_DENSE_H
#define CPU_FUNCTIONS_DENSE_H

#include <algorithm>
#include <cstddef>
#include <vector>

#include "block.h"
#include "tensor.h"
#include "threads.h"
#include "values.h"

namespace cpu_functions {

struct AddWeighted {
  float factor;
  template <class V>
  V operator()(V sum, V weight) const { return sum + Each<V>(factor) * weight; }
};

// Further weights of an output lie so far from each other that it is faster to read them in the order of the memory.
const std::size_t kNearOutputs = 1024;

// Adds input[i] * weights[i * outputs], which are FP16, to 16 sums, which stay in registers.
inline void AddAll(const float *input, std::size_t inputs, const uint8_t *weights, std::size_t outputs, Elements sums) {
  Eight a = sums.Get(0), b = sums.Get(8);
  for (std::size_t i = 0; i < inputs; ++i, weights += 2 * outputs) {
    const AddWeighted add = {input[i]};
    a = Apply(add, a, LoadBeside(weights));
    b = Apply(add, b, LoadBeside(weights + 16));
  }
  sums.Set(0, a);
  sums.Set(8, b);
}

// y = bias + the sum of x[i] * weights[i][...]: of each input, the weights of all outputs lie together.
inline void Dense(const Tensor &x, const Tensor &weights, const Tensor &bias, const Tensor &y) {
  const std::size_t outputs = y.Size(), together = 16;
  Values inputs = Values::Of(x), sums = Values::Of(bias);
  Share(y.threads, (outputs + together - 1) / together, together * inputs.Size(), [&](std::size_t first, std::size_t last) {
    const float *input = inputs.At(0, 0, 0);
    const std::size_t end = std::min(last * together, outputs), size = inputs.Size();
    std::size_t begin = first * together;
    for (; weights.is_half && outputs <= kNearOutputs && begin + together <= end; begin += together)
      AddAll(input, size, Elements(weights, begin).At(0), outputs, Elements(sums.All().At(begin), false));
    const Elements rest(sums.All().At(begin), false);
    for (std::size_t i = 0; i < size && begin < end; ++i)
      Transform(rest, Elements(weights, i * outputs + begin), rest, end - begin, AddWeighted{input[i]});
  });
  sums.Write(y);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_DENSE_H
