// Part of a map.
// Timed Crop, 208 units: Crop(x, Tensor(io, kResult, rows, 16, 13, kHalf), Steps{0, 0, 3}, Steps{1, 1, 1})
#ifndef DV700_CPU_CROP_H
#define DV700_CPU_CROP_H

#include "moves.h"
#include "tensor.h"

namespace dv700_cpu {

// start: of the part; stride: the distance of its elements.
inline void Crop(const Tensor &x, const Tensor &y, Steps start, Steps stride) {
  Move(x, {Range(y.height, start.y, stride.y), Range(y.width, start.x, stride.x), Range(y.channels, start.c, stride.c)}, y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_CROP_H
