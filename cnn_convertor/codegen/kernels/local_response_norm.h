// Local response normalization.
// Timed LocalResponseNorm: LocalResponseNorm(x, z, 5, 1e-4f, 0.75f, 1.0f, true)
#ifndef CPU_FUNCTIONS_LOCAL_RESPONSE_NORM_H
#define CPU_FUNCTIONS_LOCAL_RESPONSE_NORM_H

#include <algorithm>
#include <cmath>

#include "tensor.h"
#include "values.h"

namespace cpu_functions {

// y = x / (bias + alpha / n * sum of squares) ^ beta, over `size` channels or over size x size pixels.
inline void LocalResponseNorm(const Tensor &x, const Tensor &y, int size, float alpha, float beta, float bias,
                              bool across_channels) {
  const int half = size / 2;
  const float share = alpha / static_cast<float>(across_channels ? size : size * size);
  Values from = Values::Of(x), to(y);
  const auto normalize = [&](int h, int w, int c) {
    float sum = 0.0f;
    if (across_channels) {
      for (int k = std::max(c - half, 0); k <= std::min(c + half, x.channels - 1); ++k) {
        const float value = from.Get(h, w, k);
        sum += value * value;
      }
    } else {
      for (int i = std::max(h - half, 0); i <= std::min(h + half, x.height - 1); ++i)
        for (int j = std::max(w - half, 0); j <= std::min(w + half, x.width - 1); ++j) {
          const float value = from.Get(i, j, c);
          sum += value * value;
        }
    }
    to.Set(h, w, c, from.Get(h, w, c) * std::pow(bias + share * sum, -beta));
  };
  y.ForPixels(y.channels * size, [&](int h, int w) {
    for (int c = 0; c < y.channels; ++c) normalize(h, w, c);
  });
  to.Write(y);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_LOCAL_RESPONSE_NORM_H
