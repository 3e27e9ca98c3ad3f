// Permuted axes and other shapes.
// Timed TransposeReshape: TransposeReshape(x, Tensor(io, kResult, 16, rows, 16, kHalf), {rows, 16, 16}, {1, 0, 2},
//   false)
#ifndef DV700_CPU_TRANSPOSE_RESHAPE_H
#define DV700_CPU_TRANSPOSE_RESHAPE_H

#include <cstddef>
#include <vector>

#include "tensor.h"
#include "threads.h"
#include "values.h"

namespace dv700_cpu {

// The order channels, height, width of a copy, or back.
inline std::vector<float> ChannelsFirst(Threads *threads, Values &values, const float *back) {
  std::vector<float> planes(back ? 0 : values.Size());
  const std::size_t height = static_cast<std::size_t>(values.height), width = static_cast<std::size_t>(values.width);
  Share(threads, values.Size() / width, width, [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first, number = first * width; row < last; ++row) {
      const int c = static_cast<int>(row / height), h = static_cast<int>(row % height);
      for (int w = 0; w < values.width; ++w, ++number) {
        if (back) values.Set(h, w, c, back[number]);
        else planes[number] = values.Get(h, w, c);
      }
    }
  });
  return planes;
}

// x as an array of dims, its axes permuted, as y.
inline void TransposeReshape(const Tensor &x, const Tensor &y, const std::vector<int> &dims, const std::vector<int> &axes,
                      bool channels_first) {
  std::vector<std::size_t> size(dims.begin(), dims.end()), step(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) step[i - 1] = step[i] * size[i];
  std::vector<std::size_t> length, stride;
  for (const int axis : axes) {
    length.push_back(size[static_cast<std::size_t>(axis)]);
    stride.push_back(step[static_cast<std::size_t>(axis)]);
  }
  const std::size_t count = size[0] * step[0];
  Values given = Values::Of(x), made(y);
  const std::vector<float> planes = channels_first ? ChannelsFirst(x.threads, given, nullptr) : std::vector<float>();
  std::vector<float> turned(channels_first ? count : 0);
  const float *from = channels_first ? planes.data() : given.At(0, 0, 0);
  float *to = channels_first ? turned.data() : made.At(0, 0, 0);
  Share(x.threads, count, 1, [&](std::size_t first, std::size_t last) {
    std::vector<std::size_t> place(length.size());
    std::size_t source = 0, rest = first;
    for (std::size_t i = length.size(); i-- > 0; rest /= length[i]) {
      place[i] = rest % length[i];
      source += stride[i] * place[i];
    }
    for (std::size_t number = first; number < last; ++number) {
      to[number] = from[source];
      for (std::size_t i = length.size(); i-- > 0;) {
        source += stride[i];
        if (++place[i] < length[i]) break;
        source -= stride[i] * length[i];
        place[i] = 0;
      }
    }
  });
  if (channels_first) ChannelsFirst(x.threads, made, turned.data());
  made.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_TRANSPOSE_RESHAPE_H
