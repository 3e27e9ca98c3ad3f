// Part of a map.
// Timed Crop, 208 units: Crop(x, Tensor(io, kResult, rows, 16, 13, kHalf), Steps{0, 0, 3}, Steps{1, 1, 1})
#ifndef CPU_FUNCTIONS_CROP_H
#define CPU_FUNCTIONS_CROP_H

#include "moves.h"
#include "tensor.h"

namespace cpu_functions {

// start: of the part; stride: the distance of its elements.
inline void Crop(const Tensor &x, const Tensor &y, Steps start, Steps stride) {
  Move(x, {Range(y.height, start.y, stride.y), Range(y.width, start.x, stride.x), Range(y.channels, start.c, stride.c)}, y);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_CROP_H
