// The places of the largest elements.
// Timed ArgMax: ArgMax(x, Tensor(io, kResult, rows, 16, 1, kHalf), Axes{false, false, true}, 1, false, false)
#ifndef CPU_FUNCTIONS_ARG_MAX_H
#define CPU_FUNCTIONS_ARG_MAX_H

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "axes.h"
#include "part.h"
#include "tensor.h"

namespace cpu_functions {

// The places of the largest numbers along an axis, or of the whole map in the order channels, height, width; or the numbers.
inline void ArgMax(const Tensor &x, const Tensor &y, Axes along, int count, bool values, bool last_first) {
  const bool is_whole = along.height && along.width && along.channels;
  std::vector<std::pair<float, int>> found;
  ForParts(x, along, 1, [&, found](const Part &part) mutable {
    found.clear();
    part.ForEach([&](int h, int w, int c) {
      const int place = is_whole ? (c * x.height + h) * x.width + w : h - part.y + w - part.x + c - part.c;
      found.emplace_back(x.Get(h, w, c), place);
    });
    std::partial_sort(found.begin(), found.begin() + count, found.end(),
                      [&](const std::pair<float, int> &a, const std::pair<float, int> &b) {
                        if (a.first != b.first) return a.first > b.first;
                        return last_first ? a.second > b.second : a.second < b.second;
                      });
    for (int i = 0; i < count; ++i) {
      const std::pair<float, int> &next = found[static_cast<std::size_t>(i)];
      if (is_whole) {
        y.Set(i, 0, 0, static_cast<float>(next.second));
        if (values) y.Set(i, 0, 1, next.first);
      } else {
        y.Set(part.y + (along.height ? i : 0), part.x + (along.width ? i : 0), part.c + (along.channels ? i : 0),
              values ? next.first : static_cast<float>(next.second));
      }
    }
  });
  y.ClearRest();
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_ARG_MAX_H
