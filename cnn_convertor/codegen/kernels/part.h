// Parts of a map: lines, planes, groups.
#ifndef CPU_FUNCTIONS_PART_H
#define CPU_FUNCTIONS_PART_H

#include <algorithm>
#include <cstddef>

#include "axes.h"
#include "tensor.h"
#include "threads.h"

namespace cpu_functions {

// Elements that belong together: from the first to before the end of each axis.
struct Part {
  int y, y_end, x, x_end, c, c_end;
  int Size() const { return (y_end - y) * (x_end - x) * (c_end - c); }
  template <class F>
  void ForEach(F f) const {
    for (int i = y; i < y_end; ++i)
      for (int j = x; j < x_end; ++j)
        for (int k = c; k < c_end; ++k) f(i, j, k);
  }
};

// Calls f(part) for all parts of a map, each thread its own copy of f. Parts are whole along some axes, one place along the
// others; channels in groups. beside: how many neighboring channels a call takes where each is another part's.
template <class F>
void ForParts(const Tensor &t, Axes along, int groups, const F &f, int beside = 1) {
  const int height = along.height ? t.height : 1, width = along.width ? t.width : 1;
  const int channels = along.channels ? t.channels / groups : beside;
  const std::size_t columns = static_cast<std::size_t>(t.width / width), depth = static_cast<std::size_t>((t.channels + channels - 1) / channels);
  const std::size_t size = static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  Share(t.threads, static_cast<std::size_t>(t.height / height) * columns * depth, size, [&](std::size_t first, std::size_t last) {
    F own = f;
    int y = static_cast<int>(first / depth / columns) * height, x = static_cast<int>(first / depth % columns) * width;
    int c = static_cast<int>(first % depth) * channels;
    for (std::size_t i = first; i < last; ++i) {
      own(Part{y, y + height, x, x + width, c, std::min(c + channels, t.channels)});
      c += channels;
      if (c < t.channels) continue;
      c = 0;
      x += width;
      if (x < t.width) continue;
      x = 0;
      y += height;
    }
  });
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_PART_H
