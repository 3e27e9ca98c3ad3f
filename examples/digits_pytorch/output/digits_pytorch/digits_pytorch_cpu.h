// made by cnn-convertor 0.1.0 from digits.onnx, do not edit
// The layers of Cdigits_pytorch that run on the CPU. digits_pytorch_gen.cpp alone includes this file.
#ifndef CDIGITS_PYTORCH_CPU_H
#define CDIGITS_PYTORCH_CPU_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "dmp_network.h"

namespace Cdigits_pytorch_cpu {

const bool kRowByRow = true;  // of the pixels of the device's feature maps

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

// The element with a number, counted in the order channels, height, width or height, width, channels.
struct Counter {
  const Tensor &tensor;
  bool channels_first;
  template <class F>
  void At(std::size_t number, F f) const {
    const auto last = static_cast<std::size_t>(channels_first ? tensor.width : tensor.channels);
    const auto middle = static_cast<std::size_t>(channels_first ? tensor.height : tensor.width);
    const int c = static_cast<int>(number % last), b = static_cast<int>(number / last % middle);
    const int a = static_cast<int>(number / last / middle);
    channels_first ? f(b, c, a) : f(a, b, c);
  }
};

// x as an array of dims, its axes permuted, as y.
inline void TransposeReshape(const Tensor &x, const Tensor &y, const std::vector<int> &dims, const std::vector<int> &axes,
                      bool channels_first) {
  std::vector<std::size_t> size(dims.begin(), dims.end()), step(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) step[i - 1] = step[i] * size[i];
  std::vector<std::size_t> length, stride, place(dims.size(), 0);
  for (const int axis : axes) {
    length.push_back(size[static_cast<std::size_t>(axis)]);
    stride.push_back(step[static_cast<std::size_t>(axis)]);
  }
  const Counter from = {x, channels_first}, to = {y, channels_first};
  const std::size_t count = size[0] * step[0];
  std::size_t source = 0;
  for (std::size_t number = 0; number < count; ++number) {
    float value = 0.0f;
    from.At(source, [&](int h, int w, int c) { value = x.Get(h, w, c); });
    to.At(number, [&](int h, int w, int c) { y.Set(h, w, c, value); });
    for (std::size_t i = length.size(); i-- > 0;) {
      source += stride[i];
      if (++place[i] < length[i]) break;
      source -= stride[i] * length[i];
      place[i] = 0;
    }
  }
}

struct Swish {
  float beta;
  float operator()(float x) const { return x / (1.0f + std::exp(-beta * x)); }
};

struct HardSigmoid {
  float slope, shift;
  float operator()(float x) const { return std::min(std::max(slope * x + shift, 0.0f), 1.0f); }
};

struct HardSwish {
  float operator()(float x) const { return x * std::min(std::max(x + 3.0f, 0.0f), 6.0f) / 6.0f; }
};

struct Gelu {
  bool by_tanh;
  float operator()(float x) const {
    if (by_tanh) return 0.5f * x * (1.0f + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
    return 0.5f * x * std::erfc(-0.7071067812f * x);
  }
};

struct Softplus {
  float operator()(float x) const { return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))); }
};

struct Mish {
  float operator()(float x) const { return x * std::tanh(Softplus{}(x)); }
};

struct Softsign {
  float operator()(float x) const { return x / (1.0f + std::abs(x)); }
};

struct ScaledElu {
  float alpha, scale;
  float operator()(float x) const { return scale * (x > 0.0f ? x : alpha * std::expm1(x)); }
};

struct Exponential {
  float scale, shift;
  float operator()(float x) const { return std::exp(scale * x + shift); }
};

struct Logarithm {
  float factor, scale, shift;
  float operator()(float x) const { return factor * std::log(scale * x + shift); }
};

struct Power {
  float power, scale, shift;
  float operator()(float x) const { return std::pow(scale * x + shift, power); }
};

struct Absolute {
  float operator()(float x) const { return std::abs(x); }
};

struct Sine {
  float operator()(float x) const { return std::sin(x); }
};

struct Cosine {
  float operator()(float x) const { return std::cos(x); }
};

struct ErrorFunction {
  float operator()(float x) const { return std::erf(x); }
};

struct Floor {
  float operator()(float x) const { return std::floor(x); }
};

struct Round {
  float operator()(float x) const { return std::nearbyint(x); }
};

struct Threshold {
  float threshold;
  float operator()(float x) const { return x > threshold ? 1.0f : 0.0f; }
};

struct Clip {
  float low, high;
  float operator()(float x) const { return std::min(std::max(x, low), high); }
};

struct BoundedRelu {
  float slope, threshold, high;
  float operator()(float x) const { return x > threshold ? std::min(x, high) : slope * (x - threshold); }
};

// y = f(x), element by element.
template <class F>
void Unary(const Tensor &x, const Tensor &y, F f) {
  y.ForEach([&](int h, int w, int c) { y.Set(h, w, c, f(x.Get(h, w, c))); });
}

struct Add {
  float operator()(float x, float y) const { return x + y; }
};

struct Subtract {
  float operator()(float x, float y) const { return x - y; }
};

struct Multiply {
  float operator()(float x, float y) const { return x * y; }
};

struct Divide {
  float operator()(float x, float y) const { return x / y; }
};

struct Maximum {
  float operator()(float x, float y) const { return std::max(x, y); }
};

struct Minimum {
  float operator()(float x, float y) const { return std::min(x, y); }
};

struct Mask {
  float operator()(float x, float y) const { return y != 0.0f ? x : 0.0f; }
};

// z = f(x, y), element by element; an axis of length 1 is repeated.
template <class F>
void Binary(const Tensor &x, const Tensor &y, const Tensor &z, F f) {
  const auto get = [](const Tensor &t, int h, int w, int c) {
    return t.Get(t.height == 1 ? 0 : h, t.width == 1 ? 0 : w, t.channels == 1 ? 0 : c);
  };
  z.ForEach([&](int h, int w, int c) { z.Set(h, w, c, f(get(x, h, w, c), get(y, h, w, c))); });
}

// The axes along which a function works.
struct Axes {
  bool height, width, channels;
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

// "cat" (Focus)
inline void Layer_0(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 0, 8, 8, 1, kHalf);
  const Tensor y(io, 512, 4, 4, 4, kHalf);
  TransposeReshape(x, y, {4, 2, 4, 2}, {3, 1, 0, 2}, true);
}

// "silu" (Swish)
inline void Layer_2(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 0, 4, 4, 16, kHalf);
  const Tensor y(io, 512, 4, 4, 16, kHalf);
  Unary(x, y, Swish{1.0f});
}

// "hardswish" (HardSwish)
inline void Layer_4(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 0, 4, 4, 16, kHalf);
  const Tensor y(io, 1024, 4, 4, 16, kHalf);
  Unary(x, y, HardSwish{});
}

// "mul" (Mul)
inline void Layer_9(fpga_layer &, void *, uint8_t *io) {
  const Tensor x0(io, 1024, 4, 4, 16, kHalf);
  const Tensor x1(io, 1536, 1, 1, 16, kHalf);
  const Tensor y(io, 0, 4, 4, 16, kHalf);
  Binary(x0, x1, y, Multiply{});
}

// "gelu" (Gelu)
inline void Layer_12(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 256, 4, 4, 8, kHalf);
  const Tensor y(io, 0, 4, 4, 8, kHalf);
  Unary(x, y, Gelu{false});
}

// "transpose" (Transpose)
// "view_1" (Reshape)
inline void Layer_15(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 0, 4, 4, 24, kHalf);
  const Tensor y(io, 768, 1, 1, 384, kHalf);
  TransposeReshape(x, y, {2, 12, 4, 4}, {1, 0, 2, 3}, true);
}

// "digit" (Softmax)
inline void Layer_17(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 48, 1, 1, 10, kHalf);
  const Tensor y(io, 0, 1, 1, 10, kFloat);
  Softmax(x, y, Axes{false, false, true});
}

}  // namespace Cdigits_pytorch_cpu

#endif  // CDIGITS_PYTORCH_CPU_H
