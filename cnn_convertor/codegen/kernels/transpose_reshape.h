// Permuted axes and other shapes.
#ifndef DV700_CPU_TRANSPOSE_RESHAPE_H
#define DV700_CPU_TRANSPOSE_RESHAPE_H

#include <cstddef>
#include <vector>

#include "tensor.h"

namespace dv700_cpu {

// The element with a number, counted in the order channels, height, width or height, width, channels.
struct Counter {
  const Tensor &tensor;
  bool channels_first;
  template <class F>
  void At(std::size_t number, F f) const {
    const auto last = static_cast<std::size_t>(channels_first ? tensor.width : tensor.channels);
    const auto middle = static_cast<std::size_t>(channels_first ? tensor.height : tensor.width);
    const int c = static_cast<int>(number % last), b = static_cast<int>(number / last % middle);
    const int a = static_cast<int>(number / last / middle);
    channels_first ? f(b, c, a) : f(a, b, c);
  }
};

// x as an array of dims, its axes permuted, as y.
inline void TransposeReshape(const Tensor &x, const Tensor &y, const std::vector<int> &dims, const std::vector<int> &axes,
                      bool channels_first) {
  std::vector<std::size_t> size(dims.begin(), dims.end()), step(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) step[i - 1] = step[i] * size[i];
  std::vector<std::size_t> length, stride, place(dims.size(), 0);
  for (const int axis : axes) {
    length.push_back(size[static_cast<std::size_t>(axis)]);
    stride.push_back(step[static_cast<std::size_t>(axis)]);
  }
  const Counter from = {x, channels_first}, to = {y, channels_first};
  const std::size_t count = size[0] * step[0];
  std::size_t source = 0;
  for (std::size_t number = 0; number < count; ++number) {
    float value = 0.0f;
    from.At(source, [&](int h, int w, int c) { value = x.Get(h, w, c); });
    to.At(number, [&](int h, int w, int c) { y.Set(h, w, c, value); });
    for (std::size_t i = length.size(); i-- > 0;) {
      source += stride[i];
      if (++place[i] < length[i]) break;
      source -= stride[i] * length[i];
      place[i] = 0;
    }
  }
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_TRANSPOSE_RESHAPE_H
