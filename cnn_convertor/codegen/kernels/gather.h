// Elements at given places of a map.
// Timed Gather: Gather(x, z, {}, {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, {}, 0.0f)
#ifndef DV700_CPU_GATHER_H
#define DV700_CPU_GATHER_H

#include <cstddef>
#include <vector>

#include "tensor.h"
#include "values.h"

namespace dv700_cpu {

// y = x at all combinations of rows, columns and channels. An empty list has all of them; -1 stands for the filling number.
inline void Gather(const Tensor &x, const Tensor &y, const std::vector<int> &rows, const std::vector<int> &columns,
                   const std::vector<int> &channels, float filling) {
  const auto at = [](const std::vector<int> &places, int i) {
    return places.empty() ? i : places[static_cast<std::size_t>(i)];
  };
  Values from = Values::Of(x), to(y);
  y.ForPixels(y.channels, [&](int h, int w) {
    const int row = at(rows, h), column = at(columns, w);
    for (int c = 0; c < y.channels; ++c) {
      const int channel = at(channels, c);
      to.Set(h, w, c, row < 0 || column < 0 || channel < 0 ? filling : from.Get(row, column, channel));
    }
  });
  to.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_GATHER_H
