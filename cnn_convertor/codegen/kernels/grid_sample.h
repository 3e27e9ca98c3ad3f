// Samples maps at computed positions.
// Timed GridSample: GridSample(x, Tensor(io, kSecond, rows, 16, 2, kHalf), z, true, kZeros, false, 1)
#ifndef CPU_FUNCTIONS_GRID_SAMPLE_H
#define CPU_FUNCTIONS_GRID_SAMPLE_H

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tensor.h"
#include "values.h"

namespace cpu_functions {

enum Outside { kZeros, kBorder, kReflected };

// A position between -1 and 1 as a position among `size` pixels, at most two pixels outside; also for NaN.
inline float Pixel(float position, int size, bool is_bilinear, Outside outside, bool corners) {
  const float last = static_cast<float>(size - 1), low = corners ? 0.0f : -0.5f, high = last - low;
  float p = low + (position + 1.0f) * 0.5f * (high - low);
  if (!is_bilinear) p = std::nearbyint(p);
  if (outside == kZeros) return std::max(-2.0f, std::min(last + 2.0f, p));
  if (outside == kReflected && !(low <= p && p <= high)) {
    const float span = high - low, away = std::fmod(std::abs(p - low), 2.0f * span);
    p = low + std::min(away, 2.0f * span - away);
  }
  return std::max(0.0f, std::min(last, p));
}

// y[h, w] = x at the position grid[h, w]. images: groups of channels in each map.
inline void GridSample(const Tensor &x, const Tensor &grid, const Tensor &y, bool is_bilinear, Outside outside, bool corners,
                       int images) {
  const int channels = x.channels / images;
  Values from = Values::Of(x), to(y);
  y.ForPixels(4 * y.channels, [&](int h, int w) {
    for (int image = 0; image < images; ++image) {
      const float i = Pixel(grid.Get(h, w, 2 * image + 1), x.height, is_bilinear, outside, corners);
      const float j = Pixel(grid.Get(h, w, 2 * image), x.width, is_bilinear, outside, corners);
      const float row = std::floor(i), column = std::floor(j);
      float *result = to.At(h, w, image * channels);
      std::fill_n(result, channels, 0.0f);
      for (int corner = 0; corner < 4; ++corner) {
        const int below = corner / 2, right = corner % 2;
        const int at = static_cast<int>(row) + below, column_at = static_cast<int>(column) + right;
        const float share = (below ? i - row : 1.0f - (i - row)) * (right ? j - column : 1.0f - (j - column));
        if (share == 0.0f || at < 0 || at >= x.height || column_at < 0 || column_at >= x.width) continue;
        const float *pixel = from.At(at, column_at, image * channels);
        for (int c = 0; c < channels; ++c) result[c] += share * pixel[c];
      }
    }
  });
  to.Write(y);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_GRID_SAMPLE_H
