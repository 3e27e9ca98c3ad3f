// Part of a map.
// Timed Crop: Crop(x, z, Steps{0, 0, 0}, Steps{1, 1, 1})
#ifndef DV700_CPU_CROP_H
#define DV700_CPU_CROP_H

#include "tensor.h"
#include "values.h"

namespace dv700_cpu {

// Where a part begins, and the distance of its elements, along each axis.
struct Steps {
  int y, x, c;
};
inline void Crop(const Tensor &x, const Tensor &y, Steps start, Steps stride) {
  Values from = Values::Of(x), to(y);
  y.ForPixels(y.channels, [&](int h, int w) {
    const float *row = from.At(start.y + h * stride.y, start.x + w * stride.x, start.c);
    float *result = to.At(h, w, 0);
    for (int c = 0; c < y.channels; ++c) result[c] = row[c * stride.c];
  });
  to.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_CROP_H
