// Part of a map.
#ifndef DV700_CPU_CROP_H
#define DV700_CPU_CROP_H

#include "tensor.h"

namespace dv700_cpu {

// Where a part begins, and the distance of its elements, along each axis.
struct Steps {
  int y, x, c;
};
inline void Crop(const Tensor &x, const Tensor &y, Steps start, Steps stride) {
  y.ForEach([&](int h, int w, int c) {
    y.Set(h, w, c, x.Get(start.y + h * stride.y, start.x + w * stride.x, start.c + c * stride.c));
  });
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_CROP_H
