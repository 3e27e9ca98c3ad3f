// Parts of a map: lines, planes, groups.
#ifndef DV700_CPU_PART_H
#define DV700_CPU_PART_H

#include "axes.h"
#include "tensor.h"

namespace dv700_cpu {

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

// Calls f(part) for all parts of a map: whole along some axes, one place along the others; channels in groups.
template <class F>
void ForParts(const Tensor &t, Axes along, int groups, F f) {
  const int height = along.height ? t.height : 1, width = along.width ? t.width : 1;
  const int channels = along.channels ? t.channels / groups : 1;
  for (int y = 0; y < t.height; y += height)
    for (int x = 0; x < t.width; x += width)
      for (int c = 0; c < t.channels; c += channels) f(Part{y, y + height, x, x + width, c, c + channels});
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_PART_H
