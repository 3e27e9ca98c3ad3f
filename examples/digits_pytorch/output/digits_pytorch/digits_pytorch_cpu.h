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

// As many floats as a register of the target holds.
#if defined(__AVX__)
typedef float Floats __attribute__((vector_size(32)));
typedef uint32_t Bits __attribute__((vector_size(32)));
#else
typedef float Floats __attribute__((vector_size(16)));
typedef uint32_t Bits __attribute__((vector_size(16)));
#endif

template <class V>
V Larger(V x, V y) {
  return x < y ? y : x;
}
template <class V>
V Smaller(V x, V y) {
  return y < x ? y : x;
}

// A number as each element of V.
template <class V>
V Each(float value) {
  return value - V();  // also -0
}

// Elements of a map that lie one after the other. All are computed, also those after the end of the map.
const int kBlock = 64;
struct Block {
  float values[kBlock];

  Floats Get(int i) const {
    Floats result;
    std::memcpy(&result, values + i, sizeof(result));
    return result;
  }
  void Set(int i, Floats result) { std::memcpy(values + i, &result, sizeof(result)); }
};
const int kStep = static_cast<int>(sizeof(Floats) / sizeof(float));

inline void FromHalves(const uint16_t *halves, float *values) {
#if defined(__F16C__)
  typedef short Shorts __attribute__((vector_size(16)));
  for (int i = 0; i < kBlock; i += 8) {
    Shorts half;
    std::memcpy(&half, halves + i, sizeof(half));
    const Floats value = __builtin_ia32_vcvtph2ps256(half);
    std::memcpy(values + i, &value, sizeof(value));
  }
#elif defined(__ARM_FP16_FORMAT_IEEE) && defined(__ARM_FP) && (__ARM_FP & 2)
  for (int i = 0; i < kBlock; ++i) values[i] = FromHalf(halves[i]);
#else
  uint32_t wide[kBlock];
  for (int i = 0; i < kBlock; ++i) wide[i] = halves[i];
  for (int i = 0; i < kBlock; i += kStep) {
    Bits half;
    std::memcpy(&half, wide + i, sizeof(half));
    const Floats value = Widened<Floats>(half);
    std::memcpy(values + i, &value, sizeof(value));
  }
#endif
}

inline void ToHalves(const float *values, uint16_t *halves) {
#if defined(__F16C__)
  typedef short Shorts __attribute__((vector_size(16)));
  for (int i = 0; i < kBlock; i += 8) {
    Floats value;
    std::memcpy(&value, values + i, sizeof(value));
    const Shorts half = __builtin_ia32_vcvtps2ph256(value, 0);
    const Shorts nan = (half & 0x7FFF) > 0x7C00;
    const Shorts result = (half & ~(nan & 0x7FFF)) | (nan & 0x7E00);
    std::memcpy(halves + i, &result, sizeof(result));
  }
#elif defined(__ARM_FP16_FORMAT_IEEE) && defined(__ARM_FP) && (__ARM_FP & 2)
  for (int i = 0; i < kBlock; ++i) halves[i] = ToHalf(values[i]);
#else
  uint32_t wide[kBlock];
  for (int i = 0; i < kBlock; i += kStep) {
    Floats value;
    std::memcpy(&value, values + i, sizeof(value));
    const Bits half = Narrowed<Bits>(value);
    std::memcpy(wide + i, &half, sizeof(half));
  }
  for (int i = 0; i < kBlock; ++i) halves[i] = static_cast<uint16_t>(wide[i]);
#endif
}

// place: of the elements in the map, counted in the order of its memory.
inline void Read(const Tensor &t, std::size_t place, int count, Block &block) {
  const std::size_t size = static_cast<std::size_t>(count);
  if (!t.is_half) {
    std::memcpy(block.values, t.data + place * 4, size * 4);
    return;
  }
  uint16_t halves[kBlock] = {};
  if (count == kBlock) {
    std::memcpy(halves, t.data + place * 2, sizeof(halves));
  } else {
    std::memcpy(halves, t.data + place * 2, size * 2);
  }
  FromHalves(halves, block.values);
}

inline void Write(const Tensor &t, std::size_t place, int count, const Block &block) {
  const std::size_t size = static_cast<std::size_t>(count);
  if (!t.is_half) {
    std::memcpy(t.data + place * 4, block.values, size * 4);
    return;
  }
  uint16_t halves[kBlock];
  ToHalves(block.values, halves);
  if (count == kBlock) {
    std::memcpy(t.data + place * 2, halves, sizeof(halves));
  } else {
    std::memcpy(t.data + place * 2, halves, size * 2);
  }
}

// Calls f(place, count) for all blocks between two places.
template <class F>
void ForBlocks(std::size_t first, std::size_t end, int most, F f) {
  for (std::size_t place = first; place < end; place += static_cast<std::size_t>(most))
    f(place, static_cast<int>(std::min(end - place, static_cast<std::size_t>(most))));
}

struct Swish {
  float beta;
  float operator()(float x) const { return x / (1.0f + std::exp(-beta * x)); }
};

struct HardSigmoid {
  float slope, shift;
  template <class V>
  V operator()(V x) const {
    return Smaller(Larger(Each<V>(slope) * x + Each<V>(shift), Each<V>(0.0f)), Each<V>(1.0f));
  }
};

struct HardSwish {
  template <class V>
  V operator()(V x) const {
    return x * Smaller(Larger(x + Each<V>(3.0f), Each<V>(0.0f)), Each<V>(6.0f)) / Each<V>(6.0f);
  }
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
  template <class V>
  V operator()(V x) const { return x > Each<V>(threshold) ? Each<V>(1.0f) : Each<V>(0.0f); }
};

struct Clip {
  float low, high;
  template <class V>
  V operator()(V x) const { return Smaller(Larger(x, Each<V>(low)), Each<V>(high)); }
};

struct BoundedRelu {
  float slope, threshold, high;
  template <class V>
  V operator()(V x) const {
    return x > Each<V>(threshold) ? Smaller(x, Each<V>(high)) : Each<V>(slope) * (x - Each<V>(threshold));
  }
};

// y = f(x), element by element, of maps that lie alike: functions that are templates work on vectors.
template <class F>
auto UnaryBlocks(const Tensor &x, const Tensor &y, F f, int) -> decltype(f(Floats()), void()) {
  Block block = {};
  ForBlocks(0, y.Size(), kBlock, [&](std::size_t place, int count) {
    Read(x, place, count, block);
    for (int i = 0; i < kBlock; i += kStep) block.Set(i, f(block.Get(i)));
    Write(y, place, count, block);
  });
}

// Each other function is computed once for each FP16 value that occurs. The results are kept until the end of the call.
template <class F>
void UnaryBlocks(const Tensor &x, const Tensor &y, F f, long) {
  const std::size_t size = y.Size();
  if (!x.is_half || !y.is_half || size < 4096) {
    Block block = {};
    ForBlocks(0, size, kBlock, [&](std::size_t place, int count) {
      Read(x, place, count, block);
      for (int i = 0; i < count; ++i) block.values[i] = f(block.values[i]);
      Write(y, place, count, block);
    });
    return;
  }
  const uint16_t unknown = 0xFFFFu;  // ToHalf never gives it
  std::vector<uint16_t> results(65536, unknown);
  for (std::size_t i = 0; i < size; ++i) {
    uint16_t half;
    std::memcpy(&half, x.data + 2 * i, sizeof(half));
    uint16_t &result = results[half];
    if (result == unknown) result = ToHalf(f(FromHalf(half)));
    std::memcpy(y.data + 2 * i, &result, sizeof(result));
  }
}

// y = f(x), element by element.
template <class F>
void Unary(const Tensor &x, const Tensor &y, F f) {
  if (x.LiesLike(y)) {
    UnaryBlocks(x, y, f, 0);
  } else {
    y.ForEach([&](int h, int w, int c) { y.Set(h, w, c, f(x.Get(h, w, c))); });
  }
}

struct Add {
  template <class V>
  V operator()(V x, V y) const { return x + y; }
};

struct Subtract {
  template <class V>
  V operator()(V x, V y) const { return x - y; }
};

struct Multiply {
  template <class V>
  V operator()(V x, V y) const { return x * y; }
};

struct Divide {
  template <class V>
  V operator()(V x, V y) const { return x / y; }
};

struct Maximum {
  template <class V>
  V operator()(V x, V y) const { return Larger(x, y); }
};

struct Minimum {
  template <class V>
  V operator()(V x, V y) const { return Smaller(x, y); }
};

struct Mask {
  template <class V>
  V operator()(V x, V y) const { return y != Each<V>(0.0f) ? x : Each<V>(0.0f); }
};

// A map as an operand of z: as z itself, or repeated over its pixels, its channels or both.
class Operand {
 public:
  Operand(const Tensor &t, const Tensor &z)
      : t_(t),
        is_like_(t.LiesLike(z)),
        has_pixels_(t.channels == 1 && t.PixelsLieLike(z)),
        has_channels_(t.height == 1 && t.width == 1 && t.channels == z.channels),
        is_one_(t.Size() == 1) {}

  // Whether this class can read the operand: it repeats no more channels than a block has elements.
  bool HasBlocks(const Tensor &z) const {
    return is_like_ || is_one_ || ((has_pixels_ || has_channels_) && z.Together(0) <= kBlock);
  }

  // Before the first block of a chunk: the factors of its channels, which each block repeats.
  void Begin(int first, int together, Block &block) const {
    if (is_like_ || (has_pixels_ && !is_one_)) return;
    for (int i = 0; i < kBlock; ++i) block.values[i] = t_.Get(0, 0, is_one_ ? 0 : first + i % together);
  }

  // place: of the block in z. pixel: of its first element.
  void Next(std::size_t place, std::size_t pixel, int together, int count, Block &block) const {
    if (is_like_) {
      Read(t_, place, count, block);
    } else if (has_pixels_ && !is_one_) {
      Block pixels = {};
      Read(t_, pixel, count / together, pixels);
      for (int i = 0, p = 0; i < count; ++p)
        for (int c = 0; c < together; ++c) block.values[i++] = pixels.values[p];
    }
  }

 private:
  const Tensor &t_;
  bool is_like_, has_pixels_, has_channels_, is_one_;
};

template <class F>
void BinaryBlocks(const Operand &x, const Operand &y, const Tensor &z, F f) {
  Block a = {}, b = {}, result = {};
  const std::size_t pixels = static_cast<std::size_t>(z.height) * z.width;
  for (int first = 0; first < z.channels; first += z.Together(first)) {
    const int together = z.Together(first), most = together > kBlock ? kBlock : kBlock / together * together;
    const std::size_t start = static_cast<std::size_t>(first) * pixels, chunk = static_cast<std::size_t>(together);
    x.Begin(first, together, a);
    y.Begin(first, together, b);
    ForBlocks(start, start + pixels * chunk, most, [&](std::size_t place, int count) {
      const std::size_t pixel = (place - start) / chunk;
      x.Next(place, pixel, together, count, a);
      y.Next(place, pixel, together, count, b);
      for (int i = 0; i < kBlock; i += kStep) result.Set(i, f(a.Get(i), b.Get(i)));
      Write(z, place, count, result);
    });
  }
}

// z = f(x, y), element by element; an axis of length 1 is repeated.
template <class F>
void Binary(const Tensor &x, const Tensor &y, const Tensor &z, F f) {
  const Operand a(x, z), b(y, z);
  if (a.HasBlocks(z) && b.HasBlocks(z)) {
    BinaryBlocks(a, b, z, f);
    return;
  }
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
