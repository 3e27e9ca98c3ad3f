// made by cnn-convertor 0.1.0 from digits.prototxt, do not edit
// The layers of Cdigits_caffe that run on the CPU. digits_caffe_gen.cpp alone includes this file.
#ifndef CDIGITS_CAFFE_CPU_H
#define CDIGITS_CAFFE_CPU_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dmp_network.h"

namespace Cdigits_caffe_cpu {

const bool kRowByRow = true;  // of the pixels of the device's feature maps

// The axes along which a function works.
struct Axes {
  bool height, width, channels;
};

inline float FromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, rest = half & 0x7FFFu;
  float value;
  if (rest < 0x0400u) {  // subnormal
    value = static_cast<float>(rest) * (1.0f / 16777216.0f);
    return sign ? -value : value;
  }
  const uint32_t bits = sign | ((rest << 13) + (rest < 0x7C00u ? 0x38000000u : 0x70000000u));
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Rounds to the nearest, ties to even; what is too large becomes infinite.
inline uint16_t ToHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t sign = (bits >> 16) & 0x8000u, rest = bits & 0x7FFFFFFFu;
  uint32_t half;
  if (rest > 0x7F800000u) {
    half = 0x7E00u;  // not a number
  } else if (rest >= 0x47800000u) {
    half = 0x7C00u;  // 65536 and above
  } else if (rest < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded bits at the end
    float magnitude;
    std::memcpy(&magnitude, &rest, sizeof(magnitude));
    magnitude += 0.5f;
    std::memcpy(&half, &magnitude, sizeof(half));
    half -= 0x3F000000u;
  } else {
    half = (rest - 0x38000000u + 0x0FFFu + ((rest >> 13) & 1u)) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

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

  Tensor(uint8_t *io, std::size_t offset, int rows, int columns, int depth, Format format)
      : height(rows),
        width(columns),
        channels(depth),
        data_(io + offset),
        is_half_(format == kHalf),
        shift_(format == kFloatPlain || depth <= 8 || rows * columns == 1 ? 31 : 3),
        row_(format == kFloatPlain || kRowByRow ? columns : 1),
        column_(format == kFloatPlain || kRowByRow ? 1 : rows) {}

  float Get(int y, int x, int c) const {
    const uint8_t *place = data_ + Index(y, x, c) * (is_half_ ? 2 : 4);
    if (is_half_) {
      uint16_t half;
      std::memcpy(&half, place, sizeof(half));
      return FromHalf(half);
    }
    float value;
    std::memcpy(&value, place, sizeof(value));
    return value;
  }

  void Set(int y, int x, int c, float value) const {
    uint8_t *place = data_ + Index(y, x, c) * (is_half_ ? 2 : 4);
    if (is_half_) {
      const uint16_t half = ToHalf(value);
      std::memcpy(place, &half, sizeof(half));
    } else {
      std::memcpy(place, &value, sizeof(value));
    }
  }

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
    const int together = shift_ == 31 ? channels : std::min(8, channels - first);
    const std::size_t pixel = static_cast<std::size_t>(y) * row_ + static_cast<std::size_t>(x) * column_;
    return static_cast<std::size_t>(first) * height * width + pixel * together + (c - first);
  }

  uint8_t *data_;
  bool is_half_;
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
inline void Layer_8(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 64, 1, 1, 10, kHalf);
  const Tensor y(io, 0, 1, 1, 10, kFloat);
  Softmax(x, y, Axes{false, false, true});
}

}  // namespace Cdigits_caffe_cpu

#endif  // CDIGITS_CAFFE_CPU_H
