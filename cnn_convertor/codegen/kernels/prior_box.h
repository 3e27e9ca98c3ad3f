// The boxes of SSD.
// Timed PriorBox, 512 units: PriorBox(Tensor(io, kResult, 256 * rows, 1, 2, kFloat), 4 * rows, 4, 300.0f, 300.0f,
//   {30.0f}, {60.0f}, {2.0f, 0.5f}, false, {0.1f, 0.1f, 0.2f, 0.2f}, 8.0f, 8.0f, 0.5f)
#ifndef CPU_FUNCTIONS_PRIOR_BOX_H
#define CPU_FUNCTIONS_PRIOR_BOX_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "tensor.h"

namespace cpu_functions {

// SSD's boxes around each pixel of a map, and their variances.
inline void PriorBox(const Tensor &y, int map_height, int map_width, float image_height, float image_width,
                     const std::vector<float> &min_sizes, const std::vector<float> &max_sizes,
                     const std::vector<float> &aspect_ratios, bool clip, const std::vector<float> &variance,
                     float step_height, float step_width, float offset) {
  int next = 0;
  const auto add = [&](float i, float j, float height, float width) {
    const float corners[] = {(j - width / 2.0f) / image_width, (i - height / 2.0f) / image_height,
                             (j + width / 2.0f) / image_width, (i + height / 2.0f) / image_height};
    for (int k = 0; k < 4; ++k, ++next) {
      y.Set(next, 0, 0, clip ? std::min(std::max(corners[k], 0.0f), 1.0f) : corners[k]);
      y.Set(next, 0, 1, variance[static_cast<std::size_t>(k)]);
    }
  };
  for (int h = 0; h < map_height; ++h)
    for (int w = 0; w < map_width; ++w) {
      const float i = (static_cast<float>(h) + offset) * step_height, j = (static_cast<float>(w) + offset) * step_width;
      for (std::size_t s = 0; s < min_sizes.size(); ++s) {
        const float size = min_sizes[s];
        add(i, j, size, size);
        if (!max_sizes.empty()) {
          const float between = std::sqrt(size * max_sizes[s]);
          add(i, j, between, between);
        }
        for (const float ratio : aspect_ratios) add(i, j, size / std::sqrt(ratio), size * std::sqrt(ratio));
      }
    }
  y.ClearRest();
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_PRIOR_BOX_H
