// Factors and shifts of channels.
// Timed Scale: Scale(x, Tensor(io, 0, 1, 1, 16, kHalf), Tensor(io, 0, 1, 1, 16, kHalf), z)
#ifndef CPU_FUNCTIONS_SCALE_H
#define CPU_FUNCTIONS_SCALE_H

#include <cstddef>

#include "block.h"
#include "tensor.h"
#include "values.h"

namespace cpu_functions {

struct Times {
  template <class V>
  V operator()(V x, V factor) const { return x * factor; }
};

struct Plus {
  template <class V>
  V operator()(V x, V shift) const { return x + shift; }
};

// y = x * factor + shift, both for each channel.
inline void Scale(const Tensor &x, const Tensor &factor, const Tensor &shift, const Tensor &y) {
  const std::size_t channels = static_cast<std::size_t>(y.channels);
  Values values = Values::Of(x), factors = Values::Of(factor), shifts = Values::Of(shift);
  y.ForPixels(y.channels, [&](int h, int w) {
    const Elements pixel = Values::Row(values.At(h, w, 0));
    Transform(pixel, factors.All(), pixel, channels, Times{});
    Transform(pixel, shifts.All(), pixel, channels, Plus{});
  });
  values.Write(y);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_SCALE_H
