// Permuted axes and other shapes.
#ifndef DV700_CPU_TRANSPOSE_RESHAPE_H
#define DV700_CPU_TRANSPOSE_RESHAPE_H

#include <cstddef>
#include <vector>

#include "tensor.h"
#include "values.h"

namespace dv700_cpu {

// The order channels, height, width of a copy, or back.
inline std::vector<float> ChannelsFirst(Values &values, const float *back) {
  std::vector<float> planes(back ? 0 : values.Size());
  std::size_t number = 0;
  for (int c = 0; c < values.channels; ++c)
    for (int h = 0; h < values.height; ++h)
      for (int w = 0; w < values.width; ++w, ++number) {
        if (back) values.Set(h, w, c, back[number]);
        else planes[number] = values.Get(h, w, c);
      }
  return planes;
}

// x as an array of dims, its axes permuted, as y.
inline void TransposeReshape(const Tensor &x, const Tensor &y, const std::vector<int> &dims, const std::vector<int> &axes,
                      bool channels_first) {
  std::vector<std::size_t> size(dims.begin(), dims.end()), step(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) step[i - 1] = step[i] * size[i];
  std::vector<std::size_t> length, stride, place(dims.size(), 0);
  for (const int axis : axes) {
    length.push_back(size[static_cast<std::size_t>(axis)]);
    stride.push_back(step[static_cast<std::size_t>(axis)]);
  }
  const std::size_t count = size[0] * step[0];
  Values given = Values::Of(x), made(y);
  const std::vector<float> planes = channels_first ? ChannelsFirst(given, nullptr) : std::vector<float>();
  std::vector<float> turned(channels_first ? count : 0);
  const float *from = channels_first ? planes.data() : given.At(0, 0, 0);
  float *to = channels_first ? turned.data() : made.At(0, 0, 0);
  std::size_t source = 0;
  for (std::size_t number = 0; number < count; ++number) {
    to[number] = from[source];
    for (std::size_t i = length.size(); i-- > 0;) {
      source += stride[i];
      if (++place[i] < length[i]) break;
      source -= stride[i] * length[i];
      place[i] = 0;
    }
  }
  if (channels_first) ChannelsFirst(made, turned.data());
  made.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_TRANSPOSE_RESHAPE_H
