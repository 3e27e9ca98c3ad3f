// Products of matrices.
// Timed MatMul, 16384 units: MatMul(Tensor(io, 0, 1, 16 * rows, 16, kHalf), Tensor(io, kSecond, 1, 16, 64, kHalf),
//   Tensor(io, kResult, 1, 16 * rows, 64, kHalf), Matrices{1, 0, 1, 2}, Matrices{1, 0, 1, 2}, Matrices{1, 0, 1, 2},
//   1.0f)
#ifndef DV700_CPU_MAT_MUL_H
#define DV700_CPU_MAT_MUL_H

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "block.h"
#include "tensor.h"
#include "threads.h"
#include "values.h"

namespace dv700_cpu {

// The axes of a map (0: height, 1: width, 2: channels) that count its matrices, their rows and their columns. Rows or columns
// on the axis of the batch are a run of it for each matrix.
struct Matrices {
  int count, batch, rows, columns;
};

// The matrices of a map, one after the other.
class MatrixReader {
 public:
  const int rows, columns;

  MatrixReader(Values &values, Matrices matrices)
      : rows(Length(values, matrices, matrices.rows)),
        columns(Length(values, matrices, matrices.columns)),
        values_(values),
        matrices_(matrices) {}

  // Calls f(h, w, c, number) for the elements of a matrix; number: of the element, row by row.
  template <class F>
  void ForEach(int matrix, F f) const {
    int place[3] = {0, 0, 0};
    const int first_row = matrices_.rows == matrices_.batch ? matrix * rows : 0;
    const int first_column = matrices_.columns == matrices_.batch ? matrix * columns : 0;
    place[matrices_.batch] = matrix;
    std::size_t number = 0;
    for (int row = 0; row < rows; ++row) {
      place[matrices_.rows] = first_row + row;
      for (int column = 0; column < columns; ++column) {
        place[matrices_.columns] = first_column + column;
        f(place[0], place[1], place[2], number++);
      }
    }
  }

  // The elements of a matrix, row by row.
  void Read(int matrix, std::vector<float> *values) const {
    values->resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    float *to = values->data();
    ForEach(matrices_.count == 1 ? 0 : matrix,
            [&](int h, int w, int c, std::size_t number) { to[number] = values_.Get(h, w, c); });
  }

 private:
  static int Length(const Values &t, const Matrices &m, int axis) {
    const int length = axis == 0 ? t.height : axis == 1 ? t.width : t.channels;
    return axis == m.batch ? length / m.count : length;
  }

  Values &values_;
  const Matrices matrices_;
};

// sums += factor * values
inline void AddTimes(float factor, const float *values, float *sums, std::size_t count) {
  const std::size_t step = kStep;
  std::size_t i = 0;
  for (; i + step <= count; i += step) {
    Floats value, sum;
    std::memcpy(&value, values + i, sizeof(value));
    std::memcpy(&sum, sums + i, sizeof(sum));
    sum = sum + Each<Floats>(factor) * value;
    std::memcpy(sums + i, &sum, sizeof(sum));
  }
  for (; i < count; ++i) sums[i] += factor * values[i];
}

// z += x * y, in blocks of y that stay in the cache, for some rows of x and z. y: inner x columns, row by row.
inline void AddProduct(const float *x, const float *y, float *z, std::size_t begin, std::size_t end, std::size_t inner,
                       std::size_t columns) {
  const std::size_t kInner = 64, kColumns = 256;
  for (std::size_t left = 0; left < columns; left += kColumns) {
    const std::size_t right = std::min(columns, left + kColumns);
    for (std::size_t first = 0; first < inner; first += kInner) {
      const std::size_t last = std::min(inner, first + kInner);
      for (std::size_t row = begin; row < end; ++row) {
        float *sums = z + row * columns;
        for (std::size_t i = first; i < last; ++i) {
          AddTimes(x[row * inner + i], y + i * columns + left, sums + left, right - left);
        }
      }
    }
  }
}

// z = factor * x * y for each matrix; a single one meets all of the other map.
inline void MatMul(const Tensor &x, const Tensor &y, const Tensor &z, Matrices left, Matrices right, Matrices result,
                   float factor) {
  Values x_map = Values::Of(x), y_map = Values::Of(y), z_map(z);
  const MatrixReader x_reader(x_map, left), y_reader(y_map, right), z_places(z_map, result);
  std::vector<float> x_values, y_values, sums;
  for (int matrix = 0; matrix < result.count; ++matrix) {
    if (matrix == 0 || left.count > 1) x_reader.Read(matrix, &x_values);
    if (matrix == 0 || right.count > 1) y_reader.Read(matrix, &y_values);
    const std::size_t rows = static_cast<std::size_t>(z_places.rows), columns = static_cast<std::size_t>(z_places.columns);
    const std::size_t inner = static_cast<std::size_t>(x_reader.columns);
    sums.assign(rows * columns, 0.0f);
    Share(z.threads, rows, inner * columns, [&](std::size_t first, std::size_t last) {
      AddProduct(x_values.data(), y_values.data(), sums.data(), first, last, inner, columns);
    });
    const float *from = sums.data();
    z_places.ForEach(matrix, [&](int h, int w, int c, std::size_t number) { z_map.Set(h, w, c, factor * from[number]); });
  }
  z_map.Write(z);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_MAT_MUL_H
