// Concatenation along any axis.
// Timed Concat, 448 units: Concat({Tensor(io, 0, rows, 16, 12, kHalf), y}, Tensor(io, kResult, rows, 16, 28, kHalf),
//   Axes{false, false, true})
#ifndef CPU_FUNCTIONS_CONCAT_H
#define CPU_FUNCTIONS_CONCAT_H

#include <vector>

#include "axes.h"
#include "moves.h"
#include "tensor.h"

namespace cpu_functions {

// All maps, one after the other along an axis.
inline void Concat(const std::vector<Tensor> &xs, const Tensor &y, Axes along) {
  int top = 0, left = 0, first = 0;
  for (const Tensor &x : xs) {
    Move(x, {Range(x.height), Range(x.width), Range(x.channels)}, y, Steps{top, left, first});
    if (along.height) top += x.height;
    if (along.width) left += x.width;
    if (along.channels) first += x.channels;
  }
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_CONCAT_H
