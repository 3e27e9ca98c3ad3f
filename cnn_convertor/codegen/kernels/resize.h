// Maps of another height and width.
// Timed Nearest, 1024 units: Resize(x, Tensor(io, kResult, 2 * rows, 32, 16, kHalf), false, kAsymmetric)
// Timed Resize, 1024 units: Resize(x, Tensor(io, kResult, 2 * rows, 32, 16, kHalf), true, kHalfPixel)
#ifndef DV700_CPU_RESIZE_H
#define DV700_CPU_RESIZE_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "block.h"
#include "moves.h"
#include "tensor.h"
#include "values.h"

namespace dv700_cpu {

enum Sampling { kHalfPixel, kCorners, kAsymmetric };

// Where output pixel i of `to` lies among `from` input pixels.
inline float Sample(int i, int from, int to, Sampling sampling) {
  const float ratio = static_cast<float>(from) / static_cast<float>(to);
  if (sampling == kHalfPixel) return (static_cast<float>(i) + 0.5f) * ratio - 0.5f;
  if (sampling == kAsymmetric) return static_cast<float>(i) * ratio;
  return to == 1 ? 0.0f : static_cast<float>(i) * static_cast<float>(from - 1) / static_cast<float>(to - 1);
}

// Between two numbers; share: of the second.
struct Between {
  float share;
  template <class V>
  V operator()(V x, V y) const { return x * Each<V>(1.0f - share) + y * Each<V>(share); }
};

inline void Resize(const Tensor &x, const Tensor &y, bool is_bilinear, Sampling sampling) {
  const auto held = [](int i, int size) { return std::min(std::max(i, 0), size - 1); };
  if (!is_bilinear) {
    const auto nearest = [&](int from, int to) {
      std::vector<int> positions;
      for (int i = 0; i < to; ++i) {
        const float place = Sample(i, from, to, sampling) + (sampling == kAsymmetric ? 0.0f : 0.5f);
        positions.push_back(held(static_cast<int>(std::floor(place)), from));
      }
      return positions;
    };
    Move(x, {nearest(x.height, y.height), nearest(x.width, y.width), Range(x.channels)}, y);
    return;
  }
  const std::size_t channels = static_cast<std::size_t>(y.channels);
  Values from = Values::Of(x), to(y);
  std::vector<float> above(channels), below(channels);
  y.ForPixels(2 * y.channels, [&, above, below](int h, int w) mutable {
    const float i = Sample(h, x.height, y.height, sampling), j = Sample(w, x.width, y.width, sampling);
    const float row = std::floor(i), column = std::floor(j);
    const int top = held(static_cast<int>(row), x.height), bottom = held(static_cast<int>(row) + 1, x.height);
    const int left = held(static_cast<int>(column), x.width), end = held(static_cast<int>(column) + 1, x.width);
    const auto mix = [&](float *a, float *b, float *result, float share) {
      Transform(Values::Row(a), Values::Row(b), Values::Row(result), channels, Between{share});
    };
    mix(from.At(top, left, 0), from.At(top, end, 0), above.data(), j - column);
    mix(from.At(bottom, left, 0), from.At(bottom, end, 0), below.data(), j - column);
    mix(above.data(), below.data(), to.At(h, w, 0), i - row);
  });
  to.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_RESIZE_H
