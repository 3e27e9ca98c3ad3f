// Average pooling.
// Timed AveragePool, 2304 units: AveragePool(x, z, Window{3, 3, 1, 1, 1, 1, 1, 1}, Counted{0, 0, 0, 0}, 0.0f)
// Timed GlobalAverage: AverageOfAll(x, Tensor(io, kResult, 1, 1, 16, kHalf), 0.0f)
#ifndef CPU_FUNCTIONS_AVERAGE_POOL_H
#define CPU_FUNCTIONS_AVERAGE_POOL_H

#include <algorithm>
#include <cstddef>
#include <vector>

#include "block.h"
#include "in_pieces.h"
#include "tensor.h"
#include "values.h"
#include "window.h"

namespace cpu_functions {

// The average of the whole map, or a factor of the sum: eight channels at a time, without a copy of the map.
inline void AverageOfAll(const Tensor &x, const Tensor &y, float factor) {
  InPieces(x, 0, true, [&](Piece &piece) { piece.Average(piece.Of(x), piece.Of(y), factor); });
  y.ClearRest();
}

// The places of a window along an axis that lie in the map: the first one, and how many.
struct Reach {
  int first, count;
  Reach(int start, int kernel, int dilation, int size) {
    const int outside = start < 0 ? (dilation - 1 - start) / dilation : 0;
    first = start + outside * dilation;
    count = first < size ? std::min(kernel - outside, (size - 1 - first) / dilation + 1) : 0;
    if (count <= 0) first = count = 0;
  }
};

// The pixels of a window in the map. line, step: elements from one line, or pixel, to the next.
struct WindowPixels {
  Reach lines, pixels;
  std::size_t line, step;

  // Calls f(elements of a pixel) for all, from a channel of the first one on.
  template <class F>
  __attribute__((always_inline)) void ForEach(const float *from, F f) const {
    for (int i = 0; i < lines.count; ++i, from += line) {
      const float *pixel = from;
      for (int j = 0; j < pixels.count; ++j, pixel += step) f(Values::Row(const_cast<float *>(pixel)));
    }
  }
};

// The sums of a window, of up to 16 channels.
struct WindowSums {
  Eight low, high;

  WindowSums(const WindowPixels &window, const float *from, std::size_t channels) : low(), high() {
    Eight first = {}, second = {};
    if (channels >= 16) {
      window.ForEach(from, [&](const Elements &pixel) __attribute__((always_inline)) {
        first = Apply(Sum{}, first, pixel.Get(0));
        second = Apply(Sum{}, second, pixel.Get(8));
      });
    } else if (channels >= 8) {
      window.ForEach(from, [&](const Elements &pixel) __attribute__((always_inline)) {
        first = Apply(Sum{}, first, pixel.Get(0));
        if (channels > 8) second = Apply(Sum{}, second, pixel.GetSome(8, channels - 8));
      });
    } else {
      window.ForEach(from, [&](const Elements &pixel) __attribute__((always_inline)) {
        first = Apply(Sum{}, first, pixel.GetSome(0, channels));
      });
    }
    low = first;
    high = second;
  }
};

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
    const WindowPixels pixels = {all_lines[at_line], all_pixels[at_pixel], line, step};
    const int count = counted_lines[at_line].count * counted_pixels[at_pixel].count;
    const Averaged averaged = {factor, static_cast<float>(std::max(count, 1))};
    const float *const first = from.At(pixels.lines.first, pixels.pixels.first, 0);
    const Elements pixel = Values::Row(to.At(h, w, 0));
    const auto store = [&](std::size_t c, Eight sums) {
      const Eight average = Apply(averaged, sums);
      channels - c < 8 ? pixel.SetSome(c, channels - c, average) : pixel.Set(c, average);
    };
    for (std::size_t c = 0; c < channels; c += 16) {
      const WindowSums sums(pixels, first + c, channels - c);
      store(c, sums.low);
      if (c + 8 < channels) store(c + 8, sums.high);
    }
  });
  to.Write(y);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_AVERAGE_POOL_H
