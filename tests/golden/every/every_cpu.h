// made by cnn-convertor 1.2.3 from net.h5, do not edit
// The layers of Cevery that run on the CPU. every_gen.cpp alone includes this file.
#ifndef CEVERY_CPU_H
#define CEVERY_CPU_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dmp_network.h"

namespace Cevery_cpu {

const bool kRowByRow = true;  // of the pixels of the device's feature maps

// The axes along which a function works.
struct Axes {
  bool height, width, channels;
};

// Both conversions have no branches: Bits and Float are uint32_t and float, or vectors of them.
template <class Float, class Bits>
Float Widened(Bits half) {
  const Bits rest = half & 0x7FFFu;
  const Bits one_half = rest + 0x3F000000u;  // and the value of a subnormal
  Float value;
  std::memcpy(&value, &one_half, sizeof(value));
  value = value - 0.5f;
  Bits subnormal;
  std::memcpy(&subnormal, &value, sizeof(subnormal));
  Bits bits = (rest << 13) + 0x38000000u;
  bits = rest < 0x7C00u ? bits : bits + 0x38000000u;
  bits = rest > 0x7C00u ? bits | 0x00400000u : bits;  // a quiet NaN
  bits = (rest < 0x0400u ? subnormal : bits) | ((half & 0x8000u) << 16);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

template <class Bits, class Float>
Bits Narrowed(Float value) {
  Bits bits, subnormal;
  std::memcpy(&bits, &value, sizeof(bits));
  const Bits rest = bits & 0x7FFFFFFFu;
  Float magnitude;
  std::memcpy(&magnitude, &rest, sizeof(magnitude));
  magnitude = magnitude + 0.5f;  // leaves the rounded bits of a subnormal at the end
  std::memcpy(&subnormal, &magnitude, sizeof(subnormal));
  const Bits infinite = (rest & 0u) + 0x7C00u;
  Bits half = (rest - 0x38000000u + 0x0FFFu + ((rest >> 13) & 1u)) >> 13;
  half = rest < 0x38800000u ? subnormal - 0x3F000000u : half;
  half = rest < 0x47800000u ? half : infinite;  // 65536 and above
  half = rest > 0x7F800000u ? infinite | 0x0200u : half;
  return half | ((bits >> 16) & 0x8000u);
}

// FromHalf keeps the sign and the payload of NaN, and makes it quiet; ToHalf keeps its sign alone, and rounds to the
// nearest, ties to even; what is too large becomes infinite. Arm's instructions give the same bits.
#if defined(__ARM_FP16_FORMAT_IEEE) && defined(__ARM_FP) && (__ARM_FP & 2)
inline float FromHalf(uint16_t half) {
  __fp16 value;
  std::memcpy(&value, &half, sizeof(value));
  return value;
}

inline uint16_t ToHalf(float value) {
  const __fp16 rounded = static_cast<__fp16>(value);
  uint16_t half;
  std::memcpy(&half, &rounded, sizeof(half));
  return static_cast<uint16_t>(value != value ? (half & 0x8000u) | 0x7E00u : half);
}
#else
inline float FromHalf(uint16_t half) { return Widened<float>(static_cast<uint32_t>(half)); }

inline uint16_t ToHalf(float value) { return static_cast<uint16_t>(Narrowed<uint32_t>(value)); }
#endif

// How a map lies in memory. In the device's order, chunks of 8 channels lie one after the other, and in each the pixels
// row by row or column by column.
enum Format {
  kHalf,       // FP16, in the device's order
  kFloat,      // FP32, in the device's order
  kFloatPlain  // FP32, in the order height, width, channels
};

// A map in the I/O memory.
class Tensor {
 public:
  const int height, width, channels;
  uint8_t *const data;
  const bool is_half;

  Tensor(uint8_t *io, std::size_t offset, int rows, int columns, int depth, Format format)
      : height(rows),
        width(columns),
        channels(depth),
        data(io + offset),
        is_half(format == kHalf),
        shift_(format == kFloatPlain || depth <= 8 || rows * columns == 1 ? 31 : 3),
        row_(format == kFloatPlain || kRowByRow ? columns : 1),
        column_(format == kFloatPlain || kRowByRow ? 1 : rows) {}

  float Get(int y, int x, int c) const {
    const uint8_t *place = data + Index(y, x, c) * (is_half ? 2 : 4);
    if (is_half) {
      uint16_t half;
      std::memcpy(&half, place, sizeof(half));
      return FromHalf(half);
    }
    float value;
    std::memcpy(&value, place, sizeof(value));
    return value;
  }

  void Set(int y, int x, int c, float value) const {
    uint8_t *place = data + Index(y, x, c) * (is_half ? 2 : 4);
    if (is_half) {
      const uint16_t half = ToHalf(value);
      std::memcpy(place, &half, sizeof(half));
    } else {
      std::memcpy(place, &value, sizeof(value));
    }
  }

  std::size_t Size() const { return static_cast<std::size_t>(height) * width * channels; }

  // Whether pixels, and the channels of each, lie in the same order. Pixels of maps with one channel may be those of any.
  bool LiesLike(const Tensor &t) const {
    return height == t.height && width == t.width && channels == t.channels && shift_ == t.shift_ && PixelsLieLike(t);
  }
  bool PixelsLieLike(const Tensor &t) const {
    return height == t.height && width == t.width && row_ == t.row_ && column_ == t.column_;
  }

  // How many channels of a pixel lie one after the other, beginning with one that begins a chunk.
  int Together(int first) const { return shift_ == 31 ? channels : std::min(8, channels - first); }

  // Calls f(y, x, c) for every element, near ones after each other.
  template <class F>
  void ForEach(F f) const {
    for (int first = 0; first < channels; first += 8)
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
          for (int c = first; c < channels && c < first + 8; ++c) f(y, x, c);
  }

 private:
  std::size_t Index(int y, int x, int c) const {
    const int first = (c >> shift_) << shift_;
    const int together = Together(first);
    const std::size_t pixel = static_cast<std::size_t>(y) * row_ + static_cast<std::size_t>(x) * column_;
    return static_cast<std::size_t>(first) * height * width + pixel * together + (c - first);
  }

  int shift_;  // 3: chunks of 8 channels; 31: all in one
  std::size_t row_, column_;  // pixels from one row, or column, to the next
};

// Elements that belong together: from the first to before the end of each axis.
struct Part {
  int y, y_end, x, x_end, c, c_end;
  int Size() const { return (y_end - y) * (x_end - x) * (c_end - c); }
  template <class F>
  void ForEach(F f) const {
    for (int i = y; i < y_end; ++i)
      for (int j = x; j < x_end; ++j)
        for (int k = c; k < c_end; ++k) f(i, j, k);
  }
};

// Calls f(part) for all parts of a map: whole along some axes, one place along the others; channels in groups.
template <class F>
void ForParts(const Tensor &t, Axes along, int groups, F f) {
  const int height = along.height ? t.height : 1, width = along.width ? t.width : 1;
  const int channels = along.channels ? t.channels / groups : 1;
  for (int y = 0; y < t.height; y += height)
    for (int x = 0; x < t.width; x += width)
      for (int c = 0; c < t.channels; c += channels) f(Part{y, y + height, x, x + width, c, c + channels});
}

inline void Softmax(const Tensor &x, const Tensor &y, Axes along) {
  ForParts(x, along, 1, [&](const Part &part) {
    float largest = -INFINITY;
    double sum = 0.0;
    part.ForEach([&](int h, int w, int c) { largest = std::max(largest, x.Get(h, w, c)); });
    part.ForEach([&](int h, int w, int c) { sum += std::exp(x.Get(h, w, c) - largest); });
    part.ForEach([&](int h, int w, int c) {
      y.Set(h, w, c, static_cast<float>(std::exp(x.Get(h, w, c) - largest) / sum));
    });
  });
}

// "prob" (Softmax)
inline void Layer_10(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 0, 1, 1, 17, kHalf);
  const Tensor y(io, 2304, 1, 1, 17, kFloat);
  Softmax(x, y, Axes{false, false, true});
}

}  // namespace Cevery_cpu

#endif  // CEVERY_CPU_H
