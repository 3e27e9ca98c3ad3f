// Functions of CPU layers as version 0.1.0 had them, to compare the present ones with.
#ifndef FUNCTIONS_OF_0_1_0_H
#define FUNCTIONS_OF_0_1_0_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace v0_1_0 {

inline float FromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, rest = half & 0x7FFFu;
  float value;
  if (rest < 0x0400u) {
    value = static_cast<float>(rest) * (1.0f / 16777216.0f);
    return sign ? -value : value;
  }
  const uint32_t bits = sign | ((rest << 13) + (rest < 0x7C00u ? 0x38000000u : 0x70000000u));
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint16_t ToHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t sign = (bits >> 16) & 0x8000u, rest = bits & 0x7FFFFFFFu;
  uint32_t half;
  if (rest > 0x7F800000u) {
    half = 0x7E00u;
  } else if (rest >= 0x47800000u) {
    half = 0x7C00u;
  } else if (rest < 0x38800000u) {
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

// An FP16 map whose pixels lie row by row.
class Tensor {
 public:
  const int height, width, channels;

  Tensor(uint8_t *io, std::size_t offset, int rows, int columns, int depth)
      : height(rows), width(columns), channels(depth), data_(io + offset), shift_(depth <= 8 || rows * columns == 1 ? 31 : 3) {}

  float Get(int y, int x, int c) const {
    uint16_t half;
    std::memcpy(&half, data_ + 2 * Index(y, x, c), sizeof(half));
    return FromHalf(half);
  }

  void Set(int y, int x, int c, float value) const {
    const uint16_t half = ToHalf(value);
    std::memcpy(data_ + 2 * Index(y, x, c), &half, sizeof(half));
  }

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
    const std::size_t pixel = static_cast<std::size_t>(y) * width + x;
    return static_cast<std::size_t>(first) * height * width + pixel * together + (c - first);
  }

  uint8_t *data_;
  int shift_;
};

struct Swish {
  float operator()(float x) const { return x / (1.0f + std::exp(-x)); }
};

struct Sigmoid {
  float operator()(float x) const { return 1.0f / (1.0f + std::exp(-x)); }
};

struct HardSwish {
  float operator()(float x) const { return x * std::min(std::max(x + 3.0f, 0.0f), 6.0f) / 6.0f; }
};

struct HardSigmoid {
  float slope, shift;
  float operator()(float x) const { return std::min(std::max(slope * x + shift, 0.0f), 1.0f); }
};

struct Add {
  float operator()(float x, float y) const { return x + y; }
};

struct Multiply {
  float operator()(float x, float y) const { return x * y; }
};

template <class F>
void Unary(const Tensor &x, const Tensor &y, F f) {
  y.ForEach([&](int h, int w, int c) { y.Set(h, w, c, f(x.Get(h, w, c))); });
}

template <class F>
void Binary(const Tensor &x, const Tensor &y, const Tensor &z, F f) {
  const auto get = [](const Tensor &t, int h, int w, int c) {
    return t.Get(t.height == 1 ? 0 : h, t.width == 1 ? 0 : w, t.channels == 1 ? 0 : c);
  };
  z.ForEach([&](int h, int w, int c) { z.Set(h, w, c, f(get(x, h, w, c), get(y, h, w, c))); });
}

}  // namespace v0_1_0

#endif  // FUNCTIONS_OF_0_1_0_H
