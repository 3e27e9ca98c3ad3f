// Average pooling.
// Timed AveragePool, 2304 units: AveragePool(x, z, Window{3, 3, 1, 1, 1, 1, 1, 1}, Counted{0, 0, 0, 0}, 0.0f)
// Timed GlobalAverage: AverageOfAll(x, Tensor(io, kResult, 1, 1, 16, kHalf), 0.0f)
#ifndef DV700_CPU_AVERAGE_POOL_H
#define DV700_CPU_AVERAGE_POOL_H

#include <algorithm>
#include <cstddef>

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

// counted: rows above, below, left and right of the map that count as zeros. factor: of the sums; 0: 1 / (what counts).
struct Counted {
  int top, bottom, left, right;
};
inline void AveragePool(const Tensor &x, const Tensor &y, const Window &window, const Counted &counted, float factor) {
  const bool is_whole = window.kernel_height == x.height && window.kernel_width == x.width && window.top + window.left == 0;
  const bool is_one = y.height * y.width == 1 && window.dilation_height * window.dilation_width == 1;
  if (is_whole && is_one) return AverageOfAll(x, y, factor);
  const Window inside = {window.kernel_height,   window.kernel_width,   window.stride_height,
                         window.stride_width,    window.dilation_height, window.dilation_width,
                         window.top - counted.top, window.left - counted.left};
  Values from = Values::Of(x), to(y);
  const int rows = x.height, columns = x.width, width = y.width;
  const int all_rows = rows + counted.top + counted.bottom, all_columns = columns + counted.left + counted.right;
  const std::size_t channels = static_cast<std::size_t>(y.channels);
  float *const first = from.At(0, 0, 0), *const result = to.At(0, 0, 0);
  // Copies, which what is written cannot change.
  y.ForPixels(y.channels * window.Size(), [=](int h, int w) {
    const Elements sums = Values::Row(result + static_cast<std::size_t>(h * width + w) * channels);
    int count = 0;
    ForWindow(window, h, w, rows, columns, [=](int i, int j) {
      Transform(sums, Values::Row(first + static_cast<std::size_t>(i * columns + j) * channels), sums, channels, Sum{});
    });
    ForWindow(inside, h, w, all_rows, all_columns, [&](int, int) { ++count; });
    Transform(sums, sums, channels, Averaged{factor, static_cast<float>(std::max(count, 1))});
  });
  to.Write(y);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_AVERAGE_POOL_H
