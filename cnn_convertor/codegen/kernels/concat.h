// Concatenation along any axis.
#ifndef DV700_CPU_CONCAT_H
#define DV700_CPU_CONCAT_H

#include <vector>

#include "axes.h"
#include "tensor.h"

namespace dv700_cpu {

// All maps, one after the other along an axis.
inline void Concat(const std::vector<Tensor> &xs, const Tensor &y, Axes along) {
  int top = 0, left = 0, first = 0;
  for (const Tensor &x : xs) {
    x.ForEach([&](int h, int w, int c) { y.Set(top + h, left + w, first + c, x.Get(h, w, c)); });
    if (along.height) top += x.height;
    if (along.width) left += x.width;
    if (along.channels) first += x.channels;
  }
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_CONCAT_H
