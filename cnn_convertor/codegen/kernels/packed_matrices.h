// Matrices as the packed weights of 1x1 convolutions, which the device reads from the I/O memory.
// Timed PackedMatrices, 1168 units: PackedMatrices(Tensor(io, 0, 1, 16 * rows, 64, kHalf), Tensor(io, kResult, 1, 1,
//   1168 * rows, kHalf), Matrices{1, 0, 1, 2}, 1.0f)
#ifndef CPU_FUNCTIONS_PACKED_MATRICES_H
#define CPU_FUNCTIONS_PACKED_MATRICES_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "block.h"
#include "mat_mul.h"
#include "tensor.h"
#include "threads.h"

namespace cpu_functions {

const std::size_t kKernelsTogether = 8;  // with 8 biases before them
const std::size_t kTileElements = 72, kTileChannels = 64;

// Where the tile of a 1x1 kernel has a channel: in 12 rows of 6, the last row first.
inline std::size_t TilePlace(std::size_t channel) {
  const std::size_t group = channel / 8, in_group = channel % 8;
  return 6 * (11 - 3 * (in_group / 2) - group / 3) + 3 * (in_group % 2) + group % 3;
}

template <class Value>
inline Value ValueAt(const uint8_t *from) {
  Value value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <class Value>
inline void PutAt(uint8_t *to, int place, Value value) {
  std::memcpy(to + static_cast<int>(sizeof(value)) * place, &value, sizeof(value));
}

// Eight channels that are `step` bytes apart, to their places in a tile. to: of the first one. Processors that work in order
// wait for each value that they need at once.
template <class Value>
inline void CopyGroup(const uint8_t *from, std::size_t step, uint8_t *to) {
  const uint8_t *fourth = from + 4 * step;
  const Value a = ValueAt<Value>(from), b = ValueAt<Value>(from + step), c = ValueAt<Value>(from + 2 * step);
  const Value d = ValueAt<Value>(from + 3 * step), e = ValueAt<Value>(fourth), f = ValueAt<Value>(fourth + step);
  const Value g = ValueAt<Value>(fourth + 2 * step), h = ValueAt<Value>(fourth + 3 * step);
  PutAt(to, 0, a);
  PutAt(to, 3, b);
  PutAt(to, -18, c);
  PutAt(to, -15, d);
  PutAt(to, -36, e);
  PutAt(to, -33, f);
  PutAt(to, -54, g);
  PutAt(to, -51, h);
}

struct TimesFactor {
  float factor;
  template <class V>
  V operator()(V x) const { return x * factor; }
};

// The elements of some matrices of a map. Value: uint16_t for FP16, float for FP32.
template <class Value>
class MatrixPacker {
 public:
  // map: its elements in the order of the memory. to: zeros.
  MatrixPacker(const Tensor &x, const Matrices &matrices, const uint8_t *map, uint8_t *to)
      : x_(x),
        matrices_(matrices),
        map_(map),
        to_(to),
        kernels_(Length(matrices.rows)),
        channels_(Length(matrices.columns)),
        tiles_((channels_ + kTileChannels - 1) / kTileChannels),
        blocks_((kernels_ + kKernelsTogether - 1) / kKernelsTogether) {
    for (std::size_t i = 0; i < kTileChannels; ++i) places_[i] = TilePlace(i);
  }

  std::size_t Blocks() const { return blocks_ * static_cast<std::size_t>(matrices_.count); }
  std::size_t BlockElements() const { return kKernelsTogether * (1 + tiles_ * kTileElements); }

  void PackBlock(std::size_t block) const {
    const std::size_t matrix = block / blocks_, first = block % blocks_ * kKernelsTogether;
    const std::size_t last = std::min(first + kKernelsTogether, kernels_);
    std::size_t tile = matrix * (blocks_ * kKernelsTogether + kernels_ * tiles_ * kTileElements) +
                       first / kKernelsTogether * BlockElements() + kKernelsTogether;
    for (std::size_t channel = 0; channel < channels_; channel += kTileChannels)
      for (std::size_t kernel = first; kernel < last; ++kernel, tile += kTileElements)
        PackTile(matrix, kernel, channel, tile);
  }

 private:
  std::size_t Length(int axis) const {
    const int length = axis == 0 ? x_.height : axis == 1 ? x_.width : x_.channels;
    return static_cast<std::size_t>(axis == matrices_.batch ? length / matrices_.count : length);
  }

  // Up to 64 channels of a kernel.
  void PackTile(std::size_t matrix, std::size_t kernel, std::size_t channel, std::size_t tile) const {
    const std::size_t count = std::min(kTileChannels, channels_ - channel);
    int place[3] = {0, 0, 0};
    place[matrices_.batch] = static_cast<int>(matrix);
    place[matrices_.rows] = static_cast<int>(kernel + (matrices_.batch == matrices_.rows ? matrix * kernels_ : 0));
    int &column = place[matrices_.columns];
    column = static_cast<int>(channel + (matrices_.batch == matrices_.columns ? matrix * channels_ : 0));
    uint8_t *to = to_ + sizeof(Value) * tile;
    std::size_t i = 0;
    if (matrices_.columns != 2 || column % 8 == 0) {
      const std::size_t step = sizeof(Value) * Step(place[2]);
      for (; i + 8 <= count; i += 8, column += 8)
        CopyGroup<Value>(map_ + sizeof(Value) * x_.Index(place[0], place[1], place[2]), step, to + sizeof(Value) * places_[i]);
    }
    for (; i < count; ++i, ++column) {
      const uint8_t *from = map_ + sizeof(Value) * x_.Index(place[0], place[1], place[2]);
      std::memcpy(to + sizeof(Value) * places_[i], from, sizeof(Value));
    }
  }

  // How far apart two columns are in the memory; c: of a channel in a chunk.
  std::size_t Step(int c) const {
    if (matrices_.columns == 2) return 1;
    const std::size_t pixels = matrices_.columns == 0 ? x_.Pixel(1, 0) : x_.Pixel(0, 1);
    return pixels * static_cast<std::size_t>(x_.Step(x_.First(c)));
  }

  const Tensor &x_;
  const Matrices matrices_;
  const uint8_t *const map_;
  uint8_t *const to_;
  const std::size_t kernels_, channels_, tiles_, blocks_;
  std::size_t places_[kTileChannels];
};

template <class Value>
void PackAll(const Tensor &x, const Tensor &y, const Matrices &matrices, const uint8_t *map) {
  const MatrixPacker<Value> packer(x, matrices, map, y.data);
  Share(y.threads, packer.Blocks(), packer.BlockElements(), [&](std::size_t first, std::size_t last) {
    for (std::size_t block = first; block < last; ++block) packer.PackBlock(block);
  });
}

// Each row of a matrix is a kernel, its columns are the channels; times a factor, with biases of 0.
inline void PackedMatrices(const Tensor &x, const Tensor &y, Matrices matrices, float factor) {
  const std::size_t element = y.is_half ? 2 : 4;
  std::vector<uint8_t> map(x.Stored() * element);
  TransformAll(y.threads, Elements(x, 0), Elements(map.data(), y.is_half), x.Stored(), TimesFactor{factor});
  std::memset(y.data, 0, y.Stored() * element);
  if (y.is_half) PackAll<uint16_t>(x, y, matrices, map.data());
  else PackAll<float>(x, y, matrices, map.data());
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_PACKED_MATRICES_H
