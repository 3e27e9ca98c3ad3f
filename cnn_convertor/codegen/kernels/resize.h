// Maps of another height and width.
// Timed Nearest, 1024 units: Resize(x, Tensor(io, kResult, 2 * rows, 32, 16, kHalf), false, kAsymmetric)
// Timed Resize, 1024 units: Resize(x, Tensor(io, kResult, 2 * rows, 32, 16, kHalf), true, kHalfPixel)
#ifndef CPU_FUNCTIONS_RESIZE_H
#define CPU_FUNCTIONS_RESIZE_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "block.h"
#include "moves.h"
#include "tensor.h"
#include "values.h"

namespace cpu_functions {

enum Sampling { kHalfPixel, kCorners, kAsymmetric };

// Where output pixel i of `to` lies among `from` input pixels.
inline float Sample(int i, int from, int to, Sampling sampling) {
  const float ratio = static_cast<float>(from) / static_cast<float>(to);
  if (sampling == kHalfPixel) return (static_cast<float>(i) + 0.5f) * ratio - 0.5f;
  if (sampling == kAsymmetric) return static_cast<float>(i) * ratio;
  return to == 1 ? 0.0f : static_cast<float>(i) * static_cast<float>(from - 1) / static_cast<float>(to - 1);
}

// Between two numbers; share: of the second.
struct Between {
  float share;
  template <class V>
  V operator()(V x, V y) const { return x * Each<V>(1.0f - share) + y * Each<V>(share); }
};

// Two neighboring rows or columns, and the share of the second.
struct Neighbors {
  int first, second;
  float share;
  Neighbors(int i, int from, int to, Sampling sampling) {
    const float place = Sample(i, from, to, sampling), before = std::floor(place);
    const auto held = [=](int number) { return std::min(std::max(number, 0), from - 1); };
    first = held(static_cast<int>(before));
    second = held(static_cast<int>(before) + 1);
    share = place - before;
  }
};

// Rows of a map, stretched to other columns. The last two stay.
class StretchedRows {
 public:
  StretchedRows(Values *values, const std::vector<Neighbors> &columns) : values_(values), columns_(columns) {
    for (std::vector<float> &row : rows_) row.resize(columns.size() * static_cast<std::size_t>(values->channels));
  }

  // Numbers do not fall from call to call.
  float *Row(int number) {
    if (numbers_[0] == number) return rows_[0].data();
    if (numbers_[1] == number) return rows_[1].data();
    const int place = numbers_[0] < numbers_[1] ? 0 : 1;
    const std::size_t channels = static_cast<std::size_t>(values_->channels);
    numbers_[place] = number;
    float *to = rows_[place].data();
    for (const Neighbors &column : columns_) {
      const Elements left = Values::Row(values_->At(number, column.first, 0)), right = Values::Row(values_->At(number, column.second, 0));
      Transform(left, right, Values::Row(to), channels, Between{column.share});
      to += channels;
    }
    return rows_[place].data();
  }

 private:
  Values *const values_;
  const std::vector<Neighbors> &columns_;
  int numbers_[2] = {-1, -1};
  std::vector<float> rows_[2];
};

inline void ResizeBilinear(const Tensor &x, const Tensor &y, Sampling sampling) {
  Values from = Values::Of(x), to(y);
  std::vector<Neighbors> columns;
  for (int w = 0; w < y.width; ++w) columns.push_back(Neighbors(w, x.width, y.width, sampling));
  const std::size_t elements = columns.size() * static_cast<std::size_t>(y.channels);
  Share(y.threads, static_cast<std::size_t>(y.height), 2 * elements, [&](std::size_t begin, std::size_t end) {
    StretchedRows rows(&from, columns);
    for (int h = static_cast<int>(begin); h < static_cast<int>(end); ++h) {
      const Neighbors row(h, x.height, y.height, sampling);
      float *const above = rows.Row(row.first), *const below = rows.Row(row.second);
      Transform(Values::Row(above), Values::Row(below), Values::Row(to.At(h, 0, 0)), elements, Between{row.share});
    }
  });
  to.Write(y);
}

inline void Resize(const Tensor &x, const Tensor &y, bool is_bilinear, Sampling sampling) {
  if (is_bilinear) return ResizeBilinear(x, y, sampling);
  const auto nearest = [&](int from, int to) {
    std::vector<int> positions;
    for (int i = 0; i < to; ++i) {
      const float place = Sample(i, from, to, sampling) + (sampling == kAsymmetric ? 0.0f : 0.5f);
      positions.push_back(std::min(std::max(static_cast<int>(std::floor(place)), 0), from - 1));
    }
    return positions;
  };
  Move(x, {nearest(x.height, y.height), nearest(x.width, y.width), Range(x.channels)}, y);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_RESIZE_H
