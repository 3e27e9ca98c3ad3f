// Concatenation along any axis.
// Timed Concat, 512 units: Concat({x, y}, Tensor(io, kResult, rows, 16, 32, kHalf), Axes{false, false, true})
#ifndef DV700_CPU_CONCAT_H
#define DV700_CPU_CONCAT_H

#include <algorithm>
#include <vector>

#include "axes.h"
#include "tensor.h"
#include "values.h"

namespace dv700_cpu {

// All maps, one after the other along an axis.
inline void Concat(const std::vector<Tensor> &xs, const Tensor &y, Axes along) {
  int top = 0, left = 0, first = 0;
  Values to(y);
  for (const Tensor &x : xs) {
    Values from = Values::Of(x);
    x.ForPixels(x.channels, [&](int h, int w) {
      std::copy_n(from.At(h, w, 0), x.channels, to.At(top + h, left + w, first));
    });
    if (along.height) top += x.height;
    if (along.width) left += x.width;
    if (along.channels) first += x.channels;
  }
  to.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_CONCAT_H
