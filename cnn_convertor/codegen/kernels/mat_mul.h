// Products of matrices.
// Timed MatMul, 16384 units: MatMul(Tensor(io, 0, 1, 16 * rows, 16, kHalf), Tensor(io, kSecond, 1, 16, 64, kHalf),
//   Tensor(io, kResult, 1, 16 * rows, 64, kHalf), Matrices{1, 0, 1, 2}, Matrices{1, 0, 1, 2}, Matrices{1, 0, 1, 2},
//   1.0f)
#ifndef CPU_FUNCTIONS_MAT_MUL_H
#define CPU_FUNCTIONS_MAT_MUL_H

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "block.h"
#include "tensor.h"
#include "threads.h"
#include "values.h"

namespace cpu_functions {

// The axes of a map (0: height, 1: width, 2: channels) that count its matrices, their rows and their columns. Rows or columns
// on the axis of the batch are a run of it for each matrix.
struct Matrices {
  int count, batch, rows, columns;
};

// Where the matrices of a map are. row, column: from one to the next.
class MatrixPlaces {
 public:
  const std::size_t rows, columns, row, column;

  MatrixPlaces(Values &values, Matrices m)
      : rows(Length(values, m, m.rows)),
        columns(Length(values, m, m.columns)),
        row(Distance(values, m.rows)),
        column(Distance(values, m.columns)),
        next_(m.count == 1 ? 0 : Distance(values, m.batch) * (m.rows == m.batch ? rows : m.columns == m.batch ? columns : 1)),
        first_(values.At(0, 0, 0)) {}

  float *First(int matrix) const { return first_ + static_cast<std::size_t>(matrix) * next_; }

 private:
  static std::size_t Length(const Values &t, const Matrices &m, int axis) {
    const int length = axis == 0 ? t.height : axis == 1 ? t.width : t.channels;
    return static_cast<std::size_t>(axis == m.batch ? length / m.count : length);
  }
  static std::size_t Distance(const Values &t, int axis) {
    return static_cast<std::size_t>(axis == 2 ? 1 : axis == 1 ? t.channels : t.width * t.channels);
  }

  const std::size_t next_;
  float *const first_;
};

// Elements of a row that are computed together.
struct Strip {
  Floats low, high;
  Strip() : low(), high() {}  // zeros
  explicit Strip(const float *from) {
    std::memcpy(&low, from, sizeof(low));
    std::memcpy(&high, from + kStep, sizeof(high));
  }
  void AddTimes(float factor, const Strip &y) {
    low = low + Each<Floats>(factor) * y.low;
    high = high + Each<Floats>(factor) * y.high;
  }
  void StoreTimes(float factor, float *to) const {
    const Floats first = Each<Floats>(factor) * low, second = Each<Floats>(factor) * high;
    std::memcpy(to, &first, sizeof(first));
    std::memcpy(to + kStep, &second, sizeof(second));
  }
};
const std::size_t kStrip = 2 * kStep;

// z = factor * x * y for a strip of one row, or of four, whose sums stay in registers. row, column: distances in x.
inline void MultiplyRow(const float *x, std::size_t column, const float *y, std::size_t inner, float factor, float *z) {
  Strip sums;
  for (; inner > 0; --inner, x += column, y += kStrip) sums.AddTimes(x[0], Strip(y));
  sums.StoreTimes(factor, z);
}
inline void MultiplyFour(const float *x, std::size_t row, std::size_t column, const float *y, std::size_t inner, float factor,
                         float *z, std::size_t z_row) {
  const float *const second = x + row, *const third = second + row, *const fourth = third + row;
  Strip a, b, c, d;
  const auto add = [&](std::size_t i, const Strip &next) {
    a.AddTimes(x[i], next);
    b.AddTimes(second[i], next);
    c.AddTimes(third[i], next);
    d.AddTimes(fourth[i], next);
  };
  std::size_t i = 0;
  for (; i + 2 <= inner; i += 2, y += 2 * kStrip) {
    const Strip next(y), after(y + kStrip);
    add(i * column, next);
    add((i + 1) * column, after);
  }
  if (i < inner) add(i * column, Strip(y));
  a.StoreTimes(factor, z);
  b.StoreTimes(factor, z + z_row);
  c.StoreTimes(factor, z + 2 * z_row);
  d.StoreTimes(factor, z + 3 * z_row);
}

// The columns of a matrix in strips, one after the other; zeros fill the last one.
inline void ReadStrips(const MatrixPlaces &places, const float *from, Threads *threads, std::vector<float> *strips) {
  const std::size_t rows = places.rows, count = (places.columns + kStrip - 1) / kStrip;
  strips->assign(rows * count * kStrip, 0.0f);
  float *const to = strips->data();
  Share(threads, count, rows * kStrip, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first * rows; i < last * rows; ++i) {
      const std::size_t left = i / rows * kStrip, width = std::min(kStrip, places.columns - left);
      const float *const line = from + i % rows * places.row + left * places.column;
      for (std::size_t j = 0; j < width; ++j) to[i * kStrip + j] = line[j * places.column];
    }
  });
}

// Some rows of z = factor * x * y. A strip of y stays in the cache for all of them.
inline void MultiplyRows(const MatrixPlaces &xs, const float *x, const float *y, const MatrixPlaces &zs, float *z,
                         std::size_t begin, std::size_t end, float factor) {
  for (std::size_t left = 0; left < zs.columns; left += kStrip, y += xs.columns * kStrip) {
    const std::size_t width = std::min(kStrip, zs.columns - left);
    const bool is_together = zs.column == 1 && width == kStrip;
    for (std::size_t row = begin, count; row < end; row += count) {
      float values[4 * kStrip], *const place = z + row * zs.row + left * zs.column, *const to = is_together ? place : values;
      const float *const from = x + row * xs.row;
      count = end - row < 4 ? 1 : 4;
      if (count == 4) MultiplyFour(from, xs.row, xs.column, y, xs.columns, factor, to, is_together ? zs.row : kStrip);
      else MultiplyRow(from, xs.column, y, xs.columns, factor, to);
      for (std::size_t i = 0; i < count * kStrip && !is_together; ++i)
        if (i % kStrip < width) place[i / kStrip * zs.row + i % kStrip * zs.column] = values[i];
    }
  }
}

// z = factor * x * y for each matrix; a single one meets all of the other map.
inline void MatMul(const Tensor &x, const Tensor &y, const Tensor &z, Matrices left, Matrices right, Matrices result,
                   float factor) {
  Values x_map = Values::Of(x), y_map = Values::Of(y), z_map(z);
  const MatrixPlaces xs(x_map, left), ys(y_map, right), zs(z_map, result);
  std::vector<float> strips;
  for (int matrix = 0; matrix < result.count; ++matrix) {
    if (matrix == 0 || right.count > 1) ReadStrips(ys, ys.First(matrix), z.threads, &strips);
    const std::size_t together = 4, blocks = (zs.rows + together - 1) / together;
    Share(z.threads, blocks, together * xs.columns * zs.columns, [&](std::size_t first, std::size_t last) {
      const std::size_t end = std::min(last * together, zs.rows);
      MultiplyRows(xs, xs.First(matrix), strips.data(), zs, zs.First(matrix), first * together, end, factor);
    });
  }
  z_map.Write(z);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_MAT_MUL_H
