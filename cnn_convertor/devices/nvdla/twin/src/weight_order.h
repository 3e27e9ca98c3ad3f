// The order of weights in memory.
#ifndef NVDLA_WEIGHT_ORDER_H
#define NVDLA_WEIGHT_ORDER_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "conv.h"

namespace nvdla {

// Weights in the order kernel, row, column, channel. Memory has groups of kernels; in each, blocks of channels, rows, columns, kernels,
// channels of the block. Pixels have the elements of a row as channels, and groups of rows outside the kernels.
template <class Stored, class Element>
std::vector<Element> in_order(const Configuration &configuration, const Convolution &c, const uint8_t *from) {
  const std::size_t block = configuration.atomic_c, group = configuration.atomic_k[c.precision];
  const std::size_t channels = c.pixels ? c.row_elements() : c.channels, columns = c.pixels ? 1 : c.columns;
  std::vector<Element> values(c.kernels * c.kernel_elements());
  const auto copy = [&](std::size_t kernel, std::size_t row, std::size_t column, std::size_t channel, std::size_t count) {
    Element *to = values.data() + ((kernel * c.rows + row) * columns + column) * channels + channel;
    for (std::size_t i = 0; i < count; ++i, from += sizeof(Stored)) {
      Stored stored;
      std::memcpy(&stored, from, sizeof stored);
      to[i] = stored;
    }
  };
  for (std::size_t first = 0; first < c.kernels; first += group) {
    const std::size_t end = std::min(first + group, c.kernels);
    for (std::size_t channel = 0; channel < channels; channel += block) {
      const std::size_t count = std::min(block, channels - channel);
      for (std::size_t row = 0; row < c.rows; row += c.row_group)
        for (std::size_t column = 0; column < columns; ++column)
          for (std::size_t kernel = first; kernel < end; ++kernel)
            for (std::size_t r = row; r < std::min(row + c.row_group, c.rows); ++r) copy(kernel, r, column, channel, count);
    }
  }
  return values;
}

}  // namespace nvdla

#endif
