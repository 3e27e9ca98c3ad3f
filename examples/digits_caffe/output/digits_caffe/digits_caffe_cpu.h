// made by cnn-convertor 0.2.0 from digits.prototxt, do not edit
// The layers of Cdigits_caffe that run on the CPU. digits_caffe_gen.cpp alone includes this file.
#ifndef CDIGITS_CAFFE_CPU_H
#define CDIGITS_CAFFE_CPU_H

#include <algorithm>
#if defined(__ARM_NEON) && defined(__ARM_FP16_FORMAT_IEEE) && (__ARM_FP & 2)
#include <arm_neon.h>
#endif
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "dmp_network.h"

// The compiler fuses no product with a sum: the results are the same bits on every processor. Clang does so to the file's end.
#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#endif

namespace Cdigits_caffe_cpu {

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

struct Threads {};

// Calls f for 0 to count.
template <class F>
void Share(Threads *, std::size_t count, std::size_t, const F &f) {
  f(static_cast<std::size_t>(0), count);
}

// How a map lies in memory: chunks of channels lie one after the other, and in each the pixels. Chunks have 8 channels, the last
// one what is left, and pixels row by row or column by column; or else whole atoms of 16 channels, and pixels row by row.
enum Format {
  kHalf,        // FP16, in chunks
  kFloat,       // FP32, in chunks
  kFloatPlain,  // FP32, in the order height, width, channels
  kAtoms,       // FP16, in atoms
  kFloatAtoms   // FP32, in atoms
};

// The I/O memory, and the threads that work on it; null: the calling thread alone.
struct Memory {
  uint8_t *data;
  Threads *threads;
  Memory(uint8_t *bytes, Threads *workers = nullptr) : data(bytes), threads(workers) {}
};

// A map in the I/O memory.
class Tensor {
 public:
  const int height, width, channels;
  uint8_t *const data;
  Threads *const threads;
  const bool is_half, has_atoms;

  Tensor(const Memory &io, std::size_t offset, int rows, int columns, int depth, Format format)
      : height(rows),
        width(columns),
        channels(depth),
        data(io.data + offset),
        threads(io.threads),
        is_half(format == kHalf || format == kAtoms),
        has_atoms(format == kAtoms || format == kFloatAtoms),
        shift_(has_atoms ? 4 : format == kFloatPlain || depth <= 8 || rows * columns == 1 ? 31 : 3),
        most_(shift_ == 31 ? depth : 1 << shift_),
        least_(has_atoms ? most_ : 0),
        row_(format >= kFloatPlain || kRowByRow ? columns : 1),
        column_(format >= kFloatPlain || kRowByRow ? 1 : rows) {}

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

  // How many elements the memory has, with those beyond the last channel in atoms.
  std::size_t Stored() const { return Size() / static_cast<std::size_t>(channels) * static_cast<std::size_t>(channels + Rest()); }

  // Writes zeros beyond the last channel.
  void ClearRest() const {
    const std::size_t element = is_half ? 2 : 4, bytes = static_cast<std::size_t>(Rest()) * element;
    if (bytes == 0) return;
    ForPixels(Rest(), [=](int y, int x) { std::memset(data + (Index(y, x, channels - 1) + 1) * element, 0, bytes); });
  }

  // Whether pixels, and the channels of each, lie in the same order. Pixels of maps with one channel may be those of any.
  bool LiesLike(const Tensor &t) const {
    return height == t.height && width == t.width && channels == t.channels && shift_ == t.shift_ && PixelsLieLike(t);
  }
  bool PixelsLieLike(const Tensor &t) const {
    return height == t.height && width == t.width && row_ == t.row_ && column_ == t.column_;
  }

  // Whether the elements lie in the order height, width, channels.
  bool LiesPlain() const {
    const bool is_row_by_row = row_ == static_cast<std::size_t>(width) || height == 1 || width == 1;
    return height * width == 1 || (Step(0) == channels && is_row_by_row);
  }

  // The number of an element, counted in the order of the memory.
  std::size_t Index(int y, int x, int c) const {
    const int first = First(c);
    return static_cast<std::size_t>(first) * height * width + Pixel(y, x) * Step(first) + (c - first);
  }

  // The number of a pixel, and the channel that begins a chunk.
  std::size_t Pixel(int y, int x) const { return static_cast<std::size_t>(y) * row_ + static_cast<std::size_t>(x) * column_; }
  int First(int c) const { return (c >> shift_) << shift_; }

  // How many channels of a pixel lie one after the other, beginning with one that begins a chunk.
  int Together(int first) const { return std::min(most_, channels - first); }
  // How many elements from one pixel to the next in such a chunk.
  int Step(int first) const { return std::max(least_, Together(first)); }

  // Calls f(y, x) for every pixel, each thread its own copy of f. elements: that are read or written for a pixel.
  template <class F>
  void ForPixels(int elements, const F &f) const {
    const std::size_t columns = static_cast<std::size_t>(width);
    Share(threads, columns * height, static_cast<std::size_t>(elements), [&](std::size_t first, std::size_t last) {
      F own = f;
      int y = static_cast<int>(first / columns), x = static_cast<int>(first % columns);
      for (std::size_t i = first; i < last; ++i) {
        own(y, x);
        if (++x < width) continue;
        x = 0;
        ++y;
      }
    });
  }

  // Calls f(y, x, c) for every element, near ones after each other.
  template <class F>
  void ForEach(const F &f) const {
    const std::size_t chunks = static_cast<std::size_t>((channels + 7) / 8), rows = static_cast<std::size_t>(height);
    Share(threads, chunks * rows, 8 * static_cast<std::size_t>(width), [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const int y = static_cast<int>(i % rows), begin = static_cast<int>(i / rows) * 8, end = std::min(begin + 8, channels);
        for (int x = 0; x < width; ++x)
          for (int c = begin; c < end; ++c) f(y, x, c);
      }
    });
  }

 private:
  int Rest() const { return Step(First(channels - 1)) - Together(First(channels - 1)); }

  int shift_;         // 3: chunks of 8 channels; 4: atoms; 31: all in one
  int most_, least_;  // elements of a pixel in a chunk
  std::size_t row_, column_;  // pixels from one row, or column, to the next
};

// Whether the machine converts FP16, so that vectors are faster than results that are kept.
#if defined(__F16C__) || (defined(__ARM_NEON) && defined(__ARM_FP16_FORMAT_IEEE) && (__ARM_FP & 2))
typedef int Preferred;
#else
typedef long Preferred;
#endif

// A register of floats, and what has the size of one. The compiler makes the best of both on any target.
#if defined(__F16C__)
typedef float Floats __attribute__((vector_size(32)));
typedef uint32_t Bits __attribute__((vector_size(32)));
#else
typedef float Floats __attribute__((vector_size(16)));
typedef uint32_t Bits __attribute__((vector_size(16)));
#endif
typedef int16_t Shorts __attribute__((vector_size(16)));
typedef uint16_t Halves __attribute__((vector_size(16)));
const int kStep = static_cast<int>(sizeof(Floats) / sizeof(float));

template <class V>
V Larger(V x, V y) {
  return x < y ? y : x;
}
template <class V>
V Smaller(V x, V y) {
  return y < x ? y : x;
}

#if defined(__F16C__)  // compilers do not find these instructions
inline Floats Larger(Floats x, Floats y) { return __builtin_ia32_maxps256(y, x); }
inline Floats Smaller(Floats x, Floats y) { return __builtin_ia32_minps256(y, x); }
#elif defined(__SSE__)
inline Floats Larger(Floats x, Floats y) { return __builtin_ia32_maxps(y, x); }
inline Floats Smaller(Floats x, Floats y) { return __builtin_ia32_minps(y, x); }
#endif

// A number as each element of V.
template <class V>
V Each(float value) {
  return value - V();  // also -0
}

// Eight elements. Their order in the registers is that of LoadHalves, which is the order in memory or not.
#if defined(__F16C__)
struct Eight {
  Floats all;
};

template <class F>
Eight Apply(F f, Eight x) {
  return {f(x.all)};
}
template <class F>
Eight Apply(F f, Eight x, Eight y) {
  return {f(x.all, y.all)};
}

inline Eight LoadHalves(const uint8_t *from) {
  short halves __attribute__((vector_size(16)));
  std::memcpy(&halves, from, sizeof(halves));
  return {__builtin_ia32_vcvtph2ps256(halves)};
}

inline void StoreHalves(Eight x, uint8_t *to) {
  const Shorts rounded = __builtin_ia32_vcvtps2ph256(x.all, 0);
  const Shorts positive = Smaller(rounded, static_cast<int16_t>(0x7E00) - Shorts());  // NaN keeps its sign alone
  const Halves result = Smaller(reinterpret_cast<Halves>(positive), static_cast<uint16_t>(0xFE00u) - Halves());
  std::memcpy(to, &result, sizeof(result));
}

inline Eight LoadFloats(const uint8_t *from) {
  Eight x;
  std::memcpy(&x.all, from, sizeof(x.all));
  return x;
}

inline void StoreFloats(Eight x, uint8_t *to) { std::memcpy(to, &x.all, sizeof(x.all)); }
#else
struct Eight {
  Floats low, high;
};

template <class F>
Eight Apply(F f, Eight x) {
  return {f(x.low), f(x.high)};
}
template <class F>
Eight Apply(F f, Eight x, Eight y) {
  return {f(x.low, y.low), f(x.high, y.high)};
}

#if defined(__ARM_NEON) && defined(__ARM_FP16_FORMAT_IEEE) && (__ARM_FP & 2)
inline Floats Widened(const uint8_t *from) {
  uint16x4_t halves;
  std::memcpy(&halves, from, sizeof(halves));
  return reinterpret_cast<Floats>(vcvt_f32_f16(vreinterpret_f16_u16(halves)));
}

inline void Narrowed(Floats x, uint8_t *to) {
  const int16x4_t rounded = vreinterpret_s16_f16(vcvt_f16_f32(reinterpret_cast<float32x4_t>(x)));
  const int16x4_t positive = vmin_s16(rounded, vdup_n_s16(0x7E00));  // NaN keeps its sign alone
  const uint16x4_t result = vmin_u16(vreinterpret_u16_s16(positive), vdup_n_u16(0xFE00u));
  std::memcpy(to, &result, sizeof(result));
}

inline Eight LoadHalves(const uint8_t *from) { return {Widened(from), Widened(from + 8)}; }

inline void StoreHalves(Eight x, uint8_t *to) {
  Narrowed(x.low, to);
  Narrowed(x.high, to + 8);
}

inline Eight LoadFloats(const uint8_t *from) {
  Eight x;
  std::memcpy(&x.low, from, sizeof(x.low));
  std::memcpy(&x.high, from + sizeof(x.low), sizeof(x.high));
  return x;
}

inline void StoreFloats(Eight x, uint8_t *to) {
  std::memcpy(to, &x.low, sizeof(x.low));
  std::memcpy(to + sizeof(x.low), &x.high, sizeof(x.high));
}
#else
// Elements with even numbers are in `low`: a register of halves is one of pairs.
const int kFirst = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 16;

inline Eight LoadHalves(const uint8_t *from) {
  Bits pairs;
  std::memcpy(&pairs, from, sizeof(pairs));
  return {Widened<Floats>(Bits(pairs >> kFirst & 0xFFFFu)), Widened<Floats>(Bits(pairs >> (16 - kFirst) & 0xFFFFu))};
}

inline void StoreHalves(Eight x, uint8_t *to) {
  const Bits pairs = Narrowed<Bits>(x.low) << kFirst | Narrowed<Bits>(x.high) << (16 - kFirst);
  std::memcpy(to, &pairs, sizeof(pairs));
}

inline Eight LoadFloats(const uint8_t *from) {
  float values[8];
  std::memcpy(values, from, sizeof(values));
  const Floats low = {values[0], values[2], values[4], values[6]}, high = {values[1], values[3], values[5], values[7]};
  return {low, high};
}

inline void StoreFloats(Eight x, uint8_t *to) {
  const float values[8] = {x.low[0], x.high[0], x.low[1], x.high[1], x.low[2], x.high[2], x.low[3], x.high[3]};
  std::memcpy(to, values, sizeof(values));
}
#endif
#endif

// Elements that lie one after the other in memory: of a map, or repeated for it.
class Elements {
 public:
  const bool is_half;

  Elements(uint8_t *place, bool half) : is_half(half), place_(place) {}
  // The elements of a map from a number on, counted in the order of its memory.
  Elements(const Tensor &t, std::size_t number) : Elements(t.data, t.is_half) { place_ += number * Bytes(1); }

  std::size_t Bytes(std::size_t count) const { return count * (is_half ? 2 : 4); }
  uint8_t *At(std::size_t i) const { return place_ + Bytes(i); }

  Eight Get(std::size_t i) const { return is_half ? LoadHalves(place_ + 2 * i) : LoadFloats(place_ + 4 * i); }
  void Set(std::size_t i, Eight x) const { is_half ? StoreHalves(x, place_ + 2 * i) : StoreFloats(x, place_ + 4 * i); }

  float GetOne(std::size_t i) const {
    uint16_t half;
    float value;
    is_half ? std::memcpy(&half, At(i), sizeof(half)) : std::memcpy(&value, At(i), sizeof(value));
    return is_half ? FromHalf(half) : value;
  }
  void SetOne(std::size_t i, float value) const {
    const uint16_t half = ToHalf(value);
    is_half ? std::memcpy(At(i), &half, sizeof(half)) : std::memcpy(At(i), &value, sizeof(value));
  }

  // Less than eight; the others are zeros, or are left alone.
  Eight GetSome(std::size_t i, std::size_t count) const {
    uint8_t some[32] = {};
    std::memcpy(some, At(i), Bytes(count));
    return Elements(some, is_half).Get(0);
  }
  void SetSome(std::size_t i, std::size_t count, Eight x) const {
    uint8_t some[32];
    Elements(some, is_half).Set(0, x);
    std::memcpy(At(i), some, Bytes(count));
  }

 private:
  uint8_t *place_;
};

// The same as LoadHalves and StoreHalves, for elements beside others: fewer instructions that wait longer for each other.
#if defined(__aarch64__) && defined(__ARM_NEON) && defined(__ARM_FP16_FORMAT_IEEE) && (__ARM_FP & 2)
inline Eight LoadBeside(const uint8_t *from) {
  uint16x8_t halves;
  std::memcpy(&halves, from, sizeof(halves));
  const float16x8_t x = vreinterpretq_f16_u16(halves);
  return {reinterpret_cast<Floats>(vcvt_f32_f16(vget_low_f16(x))), reinterpret_cast<Floats>(vcvt_high_f32_f16(x))};
}

inline void StoreBeside(Eight x, uint8_t *to) {
  const float16x4_t low = vcvt_f16_f32(reinterpret_cast<float32x4_t>(x.low));
  const float16x8_t rounded = vcvt_high_f16_f32(low, reinterpret_cast<float32x4_t>(x.high));
  const int16x8_t positive = vminq_s16(vreinterpretq_s16_f16(rounded), vdupq_n_s16(0x7E00));  // NaN keeps its sign alone
  const uint16x8_t result = vminq_u16(vreinterpretq_u16_s16(positive), vdupq_n_u16(0xFE00u));
  std::memcpy(to, &result, sizeof(result));
}
#else
inline Eight LoadBeside(const uint8_t *from) { return LoadHalves(from); }
inline void StoreBeside(Eight x, uint8_t *to) { StoreHalves(x, to); }
#endif

// Several registers at once keep processors busy that work in order. These are named, as compilers keep arrays in memory.
template <class F>
__attribute__((always_inline)) inline void TransformTwo(F f, const uint8_t *x, uint8_t *y) {
  const Eight a = LoadBeside(x), b = LoadBeside(x + 16);
  const Eight first = Apply(f, a), second = Apply(f, b);
  StoreBeside(first, y);
  StoreBeside(second, y + 16);
}
template <class F>
__attribute__((always_inline)) inline void TransformFour(F f, const uint8_t *x, uint8_t *y) {
  const Eight a = LoadBeside(x), b = LoadBeside(x + 16), c = LoadBeside(x + 32), d = LoadBeside(x + 48);
  const Eight first = Apply(f, a), second = Apply(f, b), third = Apply(f, c), fourth = Apply(f, d);
  StoreBeside(first, y);
  StoreBeside(second, y + 16);
  StoreBeside(third, y + 32);
  StoreBeside(fourth, y + 48);
}

// Whether there are registers for 32 elements of two maps.
#if defined(__aarch64__) || defined(__F16C__)
const bool kManyRegisters = true;
#else
const bool kManyRegisters = false;
#endif

// Whether a function needs many registers itself.
template <class F>
struct IsLong {
  static const bool value = false;
};

struct Same {
  template <class V>
  V operator()(V x) const { return x; }
};

// y = f(x) for elements that lie one after the other.
template <class F>
void Transform(Elements x, Elements y, std::size_t count, F f) {
  std::size_t i = 0;
  if (x.is_half && y.is_half) {
    const bool has_four = kManyRegisters && !IsLong<F>::value;
    const uint8_t *from = x.At(0);
    uint8_t *to = y.At(0);
    for (; has_four && i + 32 <= count; i += 32, from += 64, to += 64) TransformFour(f, from, to);
    for (; i + 16 <= count; i += 16, from += 32, to += 32) TransformTwo(f, from, to);
  }
  for (; i + 8 <= count; i += 8) y.Set(i, Apply(f, x.Get(i)));
  if (i < count) y.SetSome(i, count - i, Apply(f, x.GetSome(i, count - i)));
}

// The same on several threads. Each element takes the same instructions for any number of them.
template <class F>
void TransformAll(Threads *threads, Elements x, Elements y, std::size_t count, F f) {
  const std::size_t together = 64;
  Share(threads, (count + together - 1) / together, together, [&](std::size_t first, std::size_t last) {
    const std::size_t begin = first * together, end = std::min(last * together, count);
    Transform(Elements(x.At(begin), x.is_half), Elements(y.At(begin), y.is_half), end - begin, f);
  });
}

template <class F>
__attribute__((always_inline)) inline void TransformTwo(F f, const uint8_t *x, const uint8_t *y, uint8_t *z) {
  const Eight a = LoadBeside(x), b = LoadBeside(x + 16), p = LoadBeside(y), q = LoadBeside(y + 16);
  const Eight first = Apply(f, a, p), second = Apply(f, b, q);
  StoreBeside(first, z);
  StoreBeside(second, z + 16);
}
template <class F>
__attribute__((always_inline)) inline void TransformFour(F f, const uint8_t *x, const uint8_t *y, uint8_t *z) {
  const Eight a = LoadBeside(x), b = LoadBeside(x + 16), c = LoadBeside(x + 32), d = LoadBeside(x + 48);
  const Eight p = LoadBeside(y), q = LoadBeside(y + 16), r = LoadBeside(y + 32), s = LoadBeside(y + 48);
  const Eight first = Apply(f, a, p), second = Apply(f, b, q), third = Apply(f, c, r), fourth = Apply(f, d, s);
  StoreBeside(first, z);
  StoreBeside(second, z + 16);
  StoreBeside(third, z + 32);
  StoreBeside(fourth, z + 48);
}

// z = f(x, y)
template <class F>
void Transform(Elements x, Elements y, Elements z, std::size_t count, F f) {
  std::size_t i = 0;
  if (x.is_half && y.is_half && z.is_half) {
    const uint8_t *left = x.At(0), *right = y.At(0);
    uint8_t *to = z.At(0);
    for (; kManyRegisters && i + 32 <= count; i += 32, left += 64, right += 64, to += 64) TransformFour(f, left, right, to);
    for (; i + 16 <= count; i += 16, left += 32, right += 32, to += 32) TransformTwo(f, left, right, to);
  }
  for (; i + 8 <= count; i += 8) z.Set(i, Apply(f, x.Get(i), y.Get(i)));
  if (i < count) z.SetSome(i, count - i, Apply(f, x.GetSome(i, count - i), y.GetSome(i, count - i)));
}

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

// Calls f(part) for all parts of a map, each thread its own copy of f. Parts are whole along some axes, one place along the
// others; channels in groups. beside: how many neighboring channels a call takes where each is another part's.
template <class F>
void ForParts(const Tensor &t, Axes along, int groups, const F &f, int beside = 1) {
  const int height = along.height ? t.height : 1, width = along.width ? t.width : 1;
  const int channels = along.channels ? t.channels / groups : beside;
  const std::size_t columns = static_cast<std::size_t>(t.width / width), depth = static_cast<std::size_t>((t.channels + channels - 1) / channels);
  const std::size_t size = static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  Share(t.threads, static_cast<std::size_t>(t.height / height) * columns * depth, size, [&](std::size_t first, std::size_t last) {
    F own = f;
    int y = static_cast<int>(first / depth / columns) * height, x = static_cast<int>(first / depth % columns) * width;
    int c = static_cast<int>(first % depth) * channels;
    for (std::size_t i = first; i < last; ++i) {
      own(Part{y, y + height, x, x + width, c, std::min(c + channels, t.channels)});
      c += channels;
      if (c < t.channels) continue;
      c = 0;
      x += width;
      if (x < t.width) continue;
      x = 0;
      y += height;
    }
  });
}

// In the order height, width, channels.
class Values {
 public:
  const int height, width, channels;

  // An empty copy, to write.
  explicit Values(const Tensor &t)
      : height(t.height), width(t.width), channels(t.channels), threads_(t.threads), values_(t.Size()) {}

  static Values Of(const Tensor &t) {
    Values result(t);
    result.ForRuns(t, [](Run in_map, Run in_copy, std::size_t pixels, std::size_t count) { Copy(in_map, in_copy, pixels, count); });
    return result;
  }

  void Write(const Tensor &t) {
    ForRuns(t, [](Run in_map, Run in_copy, std::size_t pixels, std::size_t count) { Copy(in_copy, in_map, pixels, count); });
    t.ClearRest();
  }

  float *At(int y, int x, int c) {
    return &values_[(static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)) *
                        static_cast<std::size_t>(channels) + static_cast<std::size_t>(c)];
  }
  float Get(int y, int x, int c) { return *At(y, x, c); }
  void Set(int y, int x, int c, float value) { *At(y, x, c) = value; }

  std::size_t Size() const { return values_.size(); }
  Elements All() { return Row(values_.data()); }
  static Elements Row(float *first) { return Elements(reinterpret_cast<uint8_t *>(first), false); }

 private:
  // Channels that lie together. step: from one pixel to the next.
  struct Run {
    Elements first;
    std::size_t step;
    uint8_t *At(std::size_t pixel) const { return first.At(pixel * step); }
  };

  // y = x for eight channels of pixels, as far as there are four, which keep processors busy that work in order.
  template <Eight (*Load)(const uint8_t *), void (*Store)(Eight, uint8_t *)>
  static std::size_t CopyFours(Run x, Run y, std::size_t pixels) {
    std::size_t i = 0;
    for (; i + 4 <= pixels; i += 4) {
      const Eight a = Load(x.At(i)), b = Load(x.At(i + 1)), c = Load(x.At(i + 2)), d = Load(x.At(i + 3));
      Store(a, y.At(i));
      Store(b, y.At(i + 1));
      Store(c, y.At(i + 2));
      Store(d, y.At(i + 3));
    }
    return i;
  }

  // y = x for some channels of pixels.
  static void Copy(Run x, Run y, std::size_t pixels, std::size_t count) {
    const bool is_half = x.first.is_half;
    std::size_t i = 0;
    if (count == 8 && is_half && !y.first.is_half) i = CopyFours<LoadBeside, StoreFloats>(x, y, pixels);
    if (count == 8 && !is_half && y.first.is_half) i = CopyFours<LoadFloats, StoreBeside>(x, y, pixels);
    for (; i < pixels; ++i) Transform(Elements(x.At(i), is_half), Elements(y.At(i), y.first.is_half), count, Same{});
  }

  // Calls f(run of the map, run of the copy, pixels, count) for what lies together in both.
  template <class F>
  void ForRuns(const Tensor &t, const F &f) {
    const std::size_t run = static_cast<std::size_t>(t.LiesPlain() ? 64 : std::min(8, t.channels));
    const std::size_t rows = static_cast<std::size_t>(height), columns = static_cast<std::size_t>(width);
    if (t.LiesPlain()) {
      Share(threads_, (Size() + run - 1) / run, run, [&](std::size_t first, std::size_t last) {
        const std::size_t begin = first * run, end = std::min(last * run, Size());
        f(Run{Elements(t, begin), 0}, Run{Row(values_.data() + begin), 0}, 1, end - begin);
      });
      return;
    }
    const std::size_t chunks = (static_cast<std::size_t>(channels) + run - 1) / run;
    Share(threads_, chunks * rows, columns * run, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const int y = static_cast<int>(i % rows), c = static_cast<int>(i / rows * run);
        const std::size_t count = static_cast<std::size_t>(std::min(8, t.channels - c));
        const Run in_map = {Elements(t, t.Index(y, 0, c)), t.Pixel(0, 1) * static_cast<std::size_t>(t.Step(t.First(c)))};
        f(in_map, Run{Row(At(y, 0, c)), static_cast<std::size_t>(channels)}, columns, count);
      }
    });
  }

  Threads *threads_;
  std::vector<float> values_;
};

// One part along channels, whose numbers take turns in the lanes, or else one part in each lane: of neighboring channels.
class Lanes {
 public:
  const Part part;

  // A number for each lane.
  struct Numbers {
    double lane[8];
  };

  Lanes(Values *values, const Part &whole, bool is_one) : part(whole), values_(values), is_one_(is_one) {}

  // How many numbers a part has.
  int Size() const { return is_one_ ? part.Size() : (part.y_end - part.y) * (part.x_end - part.x); }

  // Calls f(numbers, count) for those of each pixel.
  template <class F>
  __attribute__((always_inline)) void ForPixels(F f) const {
    const std::size_t count = static_cast<std::size_t>(part.c_end - part.c);
    for (int y = part.y; y < part.y_end; ++y) {
      float *numbers = values_->At(y, part.x, part.c);
      for (int x = part.x; x < part.x_end; ++x, numbers += values_->channels) f(numbers, count);
    }
  }

  // Calls f(numbers, count) for all of them, at most eight at a time.
  template <class F>
  __attribute__((always_inline)) void ForEach(F f) const {
    if (!is_one_ && part.c_end - part.c == 8) {  // a row is one loop
      for (int y = part.y; y < part.y_end; ++y) {
        float *numbers = values_->At(y, part.x, part.c);
        for (int x = part.x; x < part.x_end; ++x, numbers += values_->channels) f(numbers, 8);
      }
      return;
    }
    ForPixels([&](float *numbers, std::size_t rest) __attribute__((always_inline)) {
      for (; rest >= 8; rest -= 8, numbers += 8) f(numbers, 8);
      if (rest > 0) f(numbers, static_cast<int>(rest));
    });
  }

  // Each number becomes f(number, that of its lane).
  template <class F>
  void Transform(F f, const float *lanes) const {
    const Eight others = Values::Row(const_cast<float *>(lanes)).Get(0);
    ForPixels([&](float *numbers, std::size_t count) __attribute__((always_inline)) {
      const Elements row = Values::Row(numbers);
      std::size_t i = 0;
      for (; i + 16 <= count; i += 16) {
        const Eight first = Apply(f, row.Get(i), others), second = Apply(f, row.Get(i + 8), others);
        row.Set(i, first);
        row.Set(i + 8, second);
      }
      for (; i + 8 <= count; i += 8) row.Set(i, Apply(f, row.Get(i), others));
      if (i < count) row.SetSome(i, count - i, Apply(f, row.GetSome(i, count - i), others));
    });
  }

  // f(a number) for each lane.
  template <class F>
  __attribute__((always_inline)) Numbers Of(const Numbers &numbers, F f) const {
    if (is_one_) return All(f(numbers.lane[0]));
    Numbers result;
    for (int i = 0; i < 8; ++i) result.lane[i] = f(numbers.lane[i]);
    return result;
  }

  // The sums of f(number, that of its lane), in double precision: of a part in all lanes, or of the part in each lane.
  template <class F>
  Numbers Sum(F f, const Numbers &lanes = Numbers()) const {
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0, e = 0.0, g = 0.0, h = 0.0, i = 0.0;
    const double *const lane = lanes.lane;
    ForEach([&](const float *x, int count) __attribute__((always_inline)) {
      a += f(x[0], lane[0]);
      if (count > 1) b += f(x[1], lane[1]);
      if (count > 2) c += f(x[2], lane[2]);
      if (count > 3) d += f(x[3], lane[3]);
      if (count > 4) e += f(x[4], lane[4]);
      if (count > 5) g += f(x[5], lane[5]);
      if (count > 6) h += f(x[6], lane[6]);
      if (count > 7) i += f(x[7], lane[7]);
    });
    if (!is_one_) return {{a, b, c, d, e, g, h, i}};
    return All(((a + b) + (c + d)) + ((e + g) + (h + i)));
  }

  // Each number becomes (number - mean) * factor, in double precision.
  void Scale(const Numbers &means, const Numbers &factors) const {
    ForEach([&](float *x, int count) __attribute__((always_inline)) {
      const auto scale = [&](int i) { x[i] = static_cast<float>((x[i] - means.lane[i]) * factors.lane[i]); };
      scale(0);
      if (count > 1) scale(1);
      if (count > 2) scale(2);
      if (count > 3) scale(3);
      if (count > 4) scale(4);
      if (count > 5) scale(5);
      if (count > 6) scale(6);
      if (count > 7) scale(7);
    });
  }

  // The largest number: of a part in all lanes, or of the part in each lane.
  void Largest(float *lanes) const {
    Eight largest = {};
    largest = Apply([](Floats x) { return x - INFINITY; }, largest);
    ForEach([&](float *numbers, int count) __attribute__((always_inline)) {
      float some[8];
      if (count < 8) {
        std::fill_n(some, 8, -INFINITY);
        std::copy_n(numbers, count, some);
      }
      largest = Apply(LargerOne{}, largest, Values::Row(count < 8 ? some : numbers).Get(0));
    });
    Values::Row(lanes).Set(0, largest);
    if (!is_one_) return;
    const float first = Larger(Larger(lanes[0], lanes[1]), Larger(lanes[2], lanes[3]));
    const float second = Larger(Larger(lanes[4], lanes[5]), Larger(lanes[6], lanes[7]));
    std::fill_n(lanes, 8, Larger(first, second));
  }

 private:
  static Numbers All(double number) { return {{number, number, number, number, number, number, number, number}}; }

  struct LargerOne {
    template <class V>
    V operator()(V x, V y) const { return Larger(x, y); }
  };

  Values *const values_;
  const bool is_one_;
};

// Calls f(lanes) for all parts.
template <class F>
void ForLanes(const Tensor &t, Values *values, Axes along, int groups, const F &f) {
  ForParts(t, along, groups, [=](const Part &part) { f(Lanes(values, part, along.channels)); }, 8);
}

const float kLog2OfE = 1.44269504f;

inline uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline Bits BitsOf(Floats value) { return reinterpret_cast<Bits>(value); }

// From -126 to 128, or not a number.
template <class V>
V Held(V x) {
  return Smaller(Larger(x, Each<V>(-126.0f)), Each<V>(128.0f));
}
#if defined(__aarch64__)  // one instruction for each end
inline Floats Held(Floats x) {
  const float32x4_t larger = vmaxq_f32(reinterpret_cast<float32x4_t>(x), vdupq_n_f32(-126.0f));
  return reinterpret_cast<Floats>(vminq_f32(larger, vdupq_n_f32(128.0f)));
}
#endif

// 2^n * 2^r for x = n + r, by a polynomial of r with a relative error of 1e-7. The error of a product that is x adds up to 4e-8
// for each binary place of the result. Below -126 it is 2^-126, above 127.5 infinite.
template <class V>
__attribute__((always_inline)) inline V PowerOfTwo(V x) {
  const V shift = Each<V>(12582912.0f + 127.0f);
  const V held = Held(x);
  const V number = held + shift;  // its last bits are the exponent of 2^n
  const V r = held - (number - shift);
  const V square = r * r;  // short chains of operations, for processors that work in order
  const V first = r * Each<V>(0.693146977f) + Each<V>(1.0f), second = r * Each<V>(5.55073387e-2f) + Each<V>(0.240222419f);
  const V third = r * Each<V>(1.32647134e-3f) + Each<V>(9.67152328e-3f);
  const V sum = (third * square + second) * square + first;
  const auto bits = BitsOf(number) << 23;
  V power;
  std::memcpy(&power, &bits, sizeof(power));
  return sum * power;
}

struct PowerOfE {
  template <class V>
  V operator()(V x, V largest) const { return PowerOfTwo(Each<V>(kLog2OfE) * (x - largest)); }
};

struct Product {
  template <class V>
  V operator()(V x, V factor) const { return x * factor; }
};

inline void Softmax(const Tensor &x, const Tensor &y, Axes along) {
  Values values = Values::Of(x);
  ForLanes(x, &values, along, 1, [](const Lanes &lanes) {
    float numbers[8];
    lanes.Largest(numbers);
    lanes.Transform(PowerOfE{}, numbers);
    const Lanes::Numbers sums = lanes.Sum([](double power, double) { return power; });
    const Lanes::Numbers factors = lanes.Of(sums, [](double sum) { return 1.0 / sum; });
    std::copy_n(factors.lane, 8, numbers);
    lanes.Transform(Product{}, numbers);
  });
  values.Write(y);
}

// "prob" (Softmax)
inline void Layer_8(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 64, 1, 1, 10, kHalf);
  const Tensor y(io, 0, 1, 1, 10, kFloat);
  Softmax(x, y, Axes{false, false, true});
}

}  // namespace Cdigits_caffe_cpu

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif  // CDIGITS_CAFFE_CPU_H
