// Average pooling.
// Timed AveragePool, 2304 units: AveragePool(x, z, Window{3, 3, 1, 1, 1, 1, 1, 1}, Counted{0, 0, 0, 0}, 0.0f)
// Timed GlobalAverage: AverageOfAll(x, Tensor(io, kResult, 1, 1, 16, kHalf), 0.0f)
#ifndef DV700_CPU_AVERAGE_POOL_H
#define DV700_CPU_AVERAGE_POOL_H

#include <algorithm>
#include <cstddef>
#include <vector>

#include "block.h"
#include "in_pieces.h"
#include "tensor.h"
#include "values.h"
#include "window.h"

namespace dv700_cpu {

// The average of the whole map, or a factor of the sum: eight channels at a time, without a copy of the map.
inline void AverageOfAll(const Tensor &x, const Tensor &y, float factor) {
  InPieces(x, 0, true, [&](Piece &piece) { piece.Average(piece.Of(x), piece.Of(y), factor); });
}

// The places of a window along an axis that lie in the map: the first one, and how many.
struct Reach {
  int first, count;
  Reach(int start, int kernel, int dilation, int size) {
    const int outside = start < 0 ? (dilation - 1 - start) / dilation : 0;
    first = start + outside * dilation;
    count = first < size ? std::min(kernel - outside, (size - 1 - first) / dilation + 1) : 0;
    count = std::max(count, 0);
  }
};

// The sums of up to 16 channels. pixels, lines: where they are in the map; step, line: elements from one to the next.
inline void AddWindow(const float *from, Reach lines, std::size_t line, Reach pixels, std::size_t step, std::size_t channels, Eight *sums) {
  Eight low = {}, high = {};
  for (int i = 0; i < lines.count; ++i, from += line) {
    const float *pixel = from;
    for (int j = 0; j < pixels.count; ++j, pixel += step) {
      const Elements elements = Values::Row(const_cast<float *>(pixel));
      if (channels >= 16) {
        low = Apply(Sum{}, low, elements.Get(0));
        high = Apply(Sum{}, high, elements.Get(8));
      } else if (channels >= 8) {
        low = Apply(Sum{}, low, elements.Get(0));
        if (channels > 8) high = Apply(Sum{}, high, elements.GetSome(8, channels - 8));
      } else {
        low = Apply(Sum{}, low, elements.GetSome(0, channels));
      }
    }
  }
  sums[0] = low;
  sums[1] = high;
}

// counted: rows above, below, left and right of the map that count as zeros. factor: of the sums; 0: 1 / (what counts).
struct Counted {
  int top, bottom, left, right;
};
inline void AveragePool(const Tensor &x, const Tensor &y, const Window &window, const Counted &counted, float factor) {
  const bool is_whole = window.kernel_height == x.height && window.kernel_width == x.width && window.top + window.left == 0;
  const bool is_one = y.height * y.width == 1 && window.dilation_height * window.dilation_width == 1;
  if (is_whole && is_one) return AverageOfAll(x, y, factor);
  Values from = Values::Of(x), to(y);
  const std::size_t channels = static_cast<std::size_t>(y.channels);
  const std::size_t step = static_cast<std::size_t>(window.dilation_width) * channels;
  const std::size_t line = static_cast<std::size_t>(window.dilation_height * x.width) * channels;
  const auto reaches = [](int count, int stride, int padding, int kernel, int dilation, int size) {
    std::vector<Reach> result;
    for (int i = 0; i < count; ++i) result.push_back(Reach(i * stride - padding, kernel, dilation, size));
    return result;
  };
  const auto in_height = [&](int padding, int size) {
    return reaches(y.height, window.stride_height, padding, window.kernel_height, window.dilation_height, size);
  };
  const auto in_width = [&](int padding, int size) {
    return reaches(y.width, window.stride_width, padding, window.kernel_width, window.dilation_width, size);
  };
  const std::vector<Reach> all_lines = in_height(window.top, x.height), all_pixels = in_width(window.left, x.width);
  const std::vector<Reach> counted_lines = in_height(window.top - counted.top, x.height + counted.top + counted.bottom);
  const std::vector<Reach> counted_pixels = in_width(window.left - counted.left, x.width + counted.left + counted.right);
  y.ForPixels(y.channels * window.Size(), [&](int h, int w) {
    const std::size_t at_line = static_cast<std::size_t>(h), at_pixel = static_cast<std::size_t>(w);
    const Reach rows = all_lines[at_line], columns = all_pixels[at_pixel];
    const int count = counted_lines[at_line].count * counted_pixels[at_pixel].count;
    const Averaged averaged = {factor, static_cast<float>(std::max(count, 1))};
    const bool is_empty = rows.count * columns.count == 0;
    const float *const first = is_empty ? nullptr : from.At(rows.first, columns.first, 0);
    const Elements pixel = Values::Row(to.At(h, w, 0));
    for (std::size_t c = 0; c < channels; c += 16) {
      Eight sums[2] = {};
      if (!is_empty) AddWindow(first + c, rows, line, columns, step, channels - c, sums);
      for (std::size_t i = c; i < std::min(channels, c + 16); i += 8) {
        const Eight average = Apply(averaged, sums[(i - c) / 8]);
        channels - i < 8 ? pixel.SetSome(i, channels - i, average) : pixel.Set(i, average);
      }
    }
  });
  to.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_AVERAGE_POOL_H
