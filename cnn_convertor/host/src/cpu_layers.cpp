#include "cpu_layers.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dv {
namespace {

std::size_t size(int value) { return static_cast<std::size_t>(value); }

}  // namespace

std::size_t element_count(const int *dim, int dim_size) {
  std::size_t count = 1;
  for (int i = 0; i < dim_size; ++i) count *= size(std::max(dim[i], 0));
  return dim_size > 0 ? count : 0;
}

bool is_chunked(const int *dim, int dim_size) { return dim_size == 3 && dim[2] > 8 && dim[0] * dim[1] > 1; }

std::vector<float> to_hwc(const std::vector<float> &values, const int *dim, int dim_size, bool transposed) {
  if (dim_size != 3) return values;
  const std::size_t width = size(dim[0]), height = size(dim[1]), channels = size(dim[2]);
  std::vector<float> result(values.size());
  for (std::size_t c = 0; c < channels; c += 8) {
    const std::size_t held = std::min<std::size_t>(8, channels - c);
    const float *chunk = &values[c * width * height];
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < width; ++x) {
        const float *from = chunk + (transposed ? y * width + x : x * height + y) * held;
        std::copy(from, from + held, &result[(y * width + x) * channels + c]);
      }
  }
  return result;
}

void softmax(std::vector<float> &values, const std::vector<int> &extents, int axis) {
  std::size_t inner = 1;
  for (std::size_t i = size(axis) + 1; i < extents.size(); ++i) inner *= size(extents[i]);
  const std::size_t length = size(extents[size(axis)]), block = length * inner;
  for (std::size_t start = 0; start + block <= values.size(); start += block)
    for (std::size_t i = 0; i < inner; ++i) {
      float *row = &values[start + i];
      float most = -std::numeric_limits<float>::infinity(), sum = 0.0f;
      for (std::size_t k = 0; k < length; ++k) most = std::max(most, row[k * inner]);
      for (std::size_t k = 0; k < length; ++k) sum += row[k * inner] = std::exp(row[k * inner] - most);
      for (std::size_t k = 0; k < length; ++k) row[k * inner] /= sum;
    }
}

}  // namespace dv
