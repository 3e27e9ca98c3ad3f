// Elements at given positions of a map.
// Timed Gather: Gather(x, z, {}, {}, {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 0.0f)
#ifndef CPU_FUNCTIONS_GATHER_H
#define CPU_FUNCTIONS_GATHER_H

#include <vector>

#include "moves.h"
#include "tensor.h"

namespace cpu_functions {

// y = x at all combinations of rows, columns and channels. An empty list has all of them; -1 stands for the filling number.
inline void Gather(const Tensor &x, const Tensor &y, const std::vector<int> &rows, const std::vector<int> &columns,
                   const std::vector<int> &channels, float filling) {
  const auto all = [](const std::vector<int> &positions, int count) { return positions.empty() ? Range(count) : positions; };
  Move(x, {all(rows, y.height), all(columns, y.width), all(channels, y.channels)}, y, Steps{0, 0, 0}, filling);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_GATHER_H
