// Maps of another height and width.
#ifndef DV700_CPU_RESIZE_H
#define DV700_CPU_RESIZE_H

#include <algorithm>
#include <cmath>

#include "tensor.h"

namespace dv700_cpu {

enum Sampling { kHalfPixel, kCorners, kAsymmetric };

// Where output pixel i of `to` lies among `from` input pixels.
inline float Sample(int i, int from, int to, Sampling sampling) {
  const float ratio = static_cast<float>(from) / static_cast<float>(to);
  if (sampling == kHalfPixel) return (static_cast<float>(i) + 0.5f) * ratio - 0.5f;
  if (sampling == kAsymmetric) return static_cast<float>(i) * ratio;
  return to == 1 ? 0.0f : static_cast<float>(i) * static_cast<float>(from - 1) / static_cast<float>(to - 1);
}

inline void Resize(const Tensor &x, const Tensor &y, bool is_bilinear, Sampling sampling) {
  const auto held = [](int i, int size) { return std::min(std::max(i, 0), size - 1); };
  y.ForEach([&](int h, int w, int c) {
    const float i = Sample(h, x.height, y.height, sampling), j = Sample(w, x.width, y.width, sampling);
    if (!is_bilinear) {
      const float half = sampling == kAsymmetric ? 0.0f : 0.5f;
      const int row = static_cast<int>(std::floor(i + half)), column = static_cast<int>(std::floor(j + half));
      y.Set(h, w, c, x.Get(held(row, x.height), held(column, x.width), c));
      return;
    }
    const float row = std::floor(i), column = std::floor(j), down = i - row, right = j - column;
    const int top = held(static_cast<int>(row), x.height), bottom = held(static_cast<int>(row) + 1, x.height);
    const int left = held(static_cast<int>(column), x.width), end = held(static_cast<int>(column) + 1, x.width);
    const float above = x.Get(top, left, c) * (1.0f - right) + x.Get(top, end, c) * right;
    const float below = x.Get(bottom, left, c) * (1.0f - right) + x.Get(bottom, end, c) * right;
    y.Set(h, w, c, above * (1.0f - down) + below * down);
  });
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_RESIZE_H
