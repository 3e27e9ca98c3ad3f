// made by cnn-convertor 0.2.0 from digits.onnx, do not edit
// The layers of Cdigits_pytorch that run on the CPU. digits_pytorch_gen.cpp alone includes this file.
#ifndef CDIGITS_PYTORCH_CPU_H
#define CDIGITS_PYTORCH_CPU_H

#include <algorithm>
#if defined(__ARM_NEON) && defined(__ARM_FP16_FORMAT_IEEE) && (__ARM_FP & 2)
#include <arm_neon.h>
#endif
#include <atomic>
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

typedef uint64_t Longs __attribute__((vector_size(16)));

// An axis of an array: how many elements it has, and how far apart they are in the maps that are read and written.
struct ArrayAxis {
  uint32_t length, from, to;
};

// Elements in equal distances: how many at most.
struct Span {
  std::size_t step;
  uint32_t count;
};

// The elements of a map in the order height, width, channels or channels, height, width.
class Ordered {
 public:
  // Which digit of a position grows along an axis, and by how much.
  struct Growth {
    std::size_t digit;
    uint32_t step;
  };

  // A position as digits, the number of its element in the order of the memory, the channels that follow there, and how many
  // elements from one pixel to the next.
  struct Place {
    uint32_t digits[3];
    std::size_t number, rest, step;
  };

  Ordered(const Tensor &t, bool channels_first) : t_(t), y_(channels_first ? 1 : 0), c_(channels_first ? 0 : 2) {
    size_[y_] = static_cast<uint32_t>(t.height);
    size_[y_ + 1] = static_cast<uint32_t>(t.width);
    size_[c_] = static_cast<uint32_t>(t.channels);
  }

  // Along an axis whose elements are `stride` apart in the order.
  Growth Along(uint32_t stride) const {
    const uint32_t units[] = {size_[1] * size_[2], size_[2], 1};
    std::size_t digit = 0;
    while (stride % units[digit] != 0) ++digit;
    return {digit, stride / units[digit]};
  }

  Place At(uint32_t position) const {
    const uint32_t line = position / size_[2], row = line / size_[1];
    Place place = {{row, line - row * size_[1], position - line * size_[2]}, 0, 0, 0};
    const int c = static_cast<int>(place.digits[c_]), first = t_.First(c);
    place.number = t_.Index(static_cast<int>(place.digits[y_]), static_cast<int>(place.digits[y_ + 1]), c);
    place.rest = static_cast<std::size_t>(first + t_.Together(first) - c);
    place.step = static_cast<std::size_t>(t_.Step(first));
    return place;
  }

  // What lies in equal distances from a place on.
  Span From(const Place &place, Growth growth) const {
    const bool is_channel = growth.digit == c_, is_row = growth.digit == y_;
    const uint32_t rest = is_channel ? static_cast<uint32_t>(place.rest) : size_[growth.digit] - place.digits[growth.digit];
    const std::size_t pixel = is_channel ? 1 : place.step * (is_row ? t_.Pixel(1, 0) : t_.Pixel(0, 1));
    return {growth.step * pixel, growth.step == 1 ? rest : (rest + growth.step - 1) / growth.step};
  }

  // How many elements lie in equal distances at most.
  uint32_t Most(Growth growth) const { return From(At(0), growth).count; }

 private:
  const Tensor &t_;
  const std::size_t y_, c_;  // digits of a position: x follows y
  uint32_t size_[3];
};

// read, written: bytes from one to the next.
template <class Value>
void MoveSpan(const uint8_t *from, std::size_t read, uint8_t *to, std::size_t written, uint32_t count) {
  const auto load = [](const uint8_t *element) {
    Value value;
    std::memcpy(&value, element, sizeof(value));
    return value;
  };
  for (; count >= 4; count -= 4, from += 4 * read, to += 4 * written) {
    const Value a = load(from), b = load(from + read), c = load(from + 2 * read), d = load(from + 3 * read);
    std::memcpy(to, &a, sizeof(a));
    std::memcpy(to + written, &b, sizeof(b));
    std::memcpy(to + 2 * written, &c, sizeof(c));
    std::memcpy(to + 3 * written, &d, sizeof(d));
  }
  for (; count > 0; --count, from += read, to += written) std::memcpy(to, from, sizeof(Value));
}

// A block of elements: from, to: the distances in x and y of one and of the next line.
struct BlockSteps {
  std::size_t from, to, from_line, to_line;
};

// In lines of which `after` follows `before`: every other part of so many bits of the one for that of the other.
inline void Exchange(Longs *before, Longs *after, int bits, uint64_t mask) {
  const bool is_little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
  Longs *const low = is_little ? before : after, *const high = is_little ? after : before;
  const Longs changes = ((*low >> bits) ^ *high) & mask;
  *high ^= changes;
  *low ^= changes << bits;
}
inline void ExchangeHalves(Longs *before, Longs *after) {
  const Longs first = {(*before)[0], (*after)[0]}, second = {(*before)[1], (*after)[1]};
  *before = first;
  *after = second;
}

// Eight lines of eight FP16 numbers, which become those of y. from_line, to_line: bytes from one to the next.
inline void TransposeTile(const uint8_t *from, std::size_t from_line, uint8_t *to, std::size_t to_line) {
  const auto load = [=](std::size_t line) {
    Longs values;
    std::memcpy(&values, from + line * from_line, sizeof(values));
    return values;
  };
  Longs a = load(0), b = load(1), c = load(2), d = load(3), e = load(4), f = load(5), g = load(6), h = load(7);
  const auto exchange = [](Longs *first, Longs *second, Longs *third, Longs *fourth) {
    Exchange(first, second, 16, 0x0000FFFF0000FFFFull);
    Exchange(third, fourth, 16, 0x0000FFFF0000FFFFull);
    Exchange(first, third, 32, 0x00000000FFFFFFFFull);
    Exchange(second, fourth, 32, 0x00000000FFFFFFFFull);
  };
  exchange(&a, &b, &c, &d);
  exchange(&e, &f, &g, &h);
  ExchangeHalves(&a, &e);
  ExchangeHalves(&b, &f);
  ExchangeHalves(&c, &g);
  ExchangeHalves(&d, &h);
  for (const Longs &line : {a, b, c, d, e, f, g, h}) {
    std::memcpy(to, &line, sizeof(line));
    to += to_line;
  }
}

template <class Value>
void MoveBlock(const uint8_t *from, uint8_t *to, BlockSteps steps, uint32_t count, uint32_t lines) {
  if (sizeof(Value) == 2 && count == 8 && lines == 8 && steps.from == 1 && steps.to_line == 1)
    return TransposeTile(from, 2 * steps.from_line, to, 2 * steps.to);
  if (sizeof(Value) == 2 && count == 8 && steps.from == 1 && steps.to == 1)
    return MoveSpan<Longs>(from, 2 * steps.from_line, to, 2 * steps.to_line, lines);
  const std::size_t read = sizeof(Value) * steps.from, written = sizeof(Value) * steps.to;
  for (; lines > 0; --lines, from += steps.from_line * sizeof(Value), to += steps.to_line * sizeof(Value))
    MoveSpan<Value>(from, read, to, written, count);
}

// Elements along two axes of an array, which grow different digits of the positions in both maps.
class Plane {
 public:
  // A line has the elements of the inner axis.
  Plane(const Tensor &x, const Tensor &y, bool channels_first, ArrayAxis inner, ArrayAxis outer)
      : x_(x, channels_first), y_(y, channels_first), xs_(x, 0), ys_(y, 0), inner_(inner), outer_(outer),
        x_inner_(x_.Along(inner.from)), x_outer_(x_.Along(outer.from)), y_inner_(y_.Along(inner.to)), y_outer_(y_.Along(outer.to)) {}

  // Moves the elements of some lines, from positions on.
  void Move(uint32_t from, uint32_t to, uint32_t count, uint32_t lines) const {
    for (uint32_t moved; lines > 0; lines -= moved, from += moved * outer_.from, to += moved * outer_.to) {
      const Ordered::Place x = x_.At(from), y = y_.At(to);
      const Span a = x_.From(x, x_inner_), b = y_.From(y, y_inner_), c = x_.From(x, x_outer_), d = y_.From(y, y_outer_);
      const uint32_t length = std::min(count, std::min(a.count, b.count));
      moved = std::min(lines, std::min(c.count, d.count));
      // Lines of what lies together in both maps, or in x, or else of most elements.
      const auto worth = [](const Span &in_x, const Span &in_y, uint32_t number) {
        return number == 1 ? 0u : in_x.step == 1 && in_y.step == 1 ? 1u << 31 : in_x.step == 1 && number == 8 ? 1u << 30 : number;
      };
      const bool is_line = worth(a, b, length) >= worth(c, d, moved);
      const BlockSteps steps = is_line ? BlockSteps{a.step, b.step, c.step, d.step} : BlockSteps{c.step, d.step, a.step, b.step};
      MoveElements(x.number, y.number, steps, is_line ? length : moved, is_line ? moved : length);
      if (length < count) Move(from + length * inner_.from, to + length * inner_.to, count - length, moved);
    }
  }

 private:
  void MoveElements(std::size_t from, std::size_t to, BlockSteps steps, uint32_t count, uint32_t lines) const {
    if (xs_.is_half && ys_.is_half) return MoveBlock<uint16_t>(xs_.At(from), ys_.At(to), steps, count, lines);
    if (xs_.is_half == ys_.is_half) return MoveBlock<uint32_t>(xs_.At(from), ys_.At(to), steps, count, lines);
    for (; lines > 0; --lines, from += steps.from_line, to += steps.to_line)
      for (uint32_t i = 0; i < count; ++i) ys_.SetOne(to + i * steps.to, xs_.GetOne(from + i * steps.from));
  }

  const Ordered x_, y_;
  const Elements xs_, ys_;
  const ArrayAxis inner_, outer_;
  const Ordered::Growth x_inner_, x_outer_, y_inner_, y_outer_;
};

// Takes the axis along which most elements lie in equal distances, and whose positions grow in other digits than those of `beside`.
inline ArrayAxis TakeLongest(std::vector<ArrayAxis> *axes, const Ordered &x, const Ordered &y, const ArrayAxis *beside) {
  ArrayAxis longest = {1, 1, 1};
  std::size_t place = axes->size();
  uint32_t most = 0;
  for (std::size_t i = 0; i < axes->size(); ++i) {
    const ArrayAxis axis = (*axes)[i];
    const Ordered::Growth from = x.Along(axis.from), to = y.Along(axis.to);
    if (beside && (from.digit == x.Along(beside->from).digit || to.digit == y.Along(beside->to).digit)) continue;
    const uint32_t together = std::min(axis.length, std::min(x.Most(from), y.Most(to)));
    if (together < most) continue;
    most = together;
    longest = axis;
    place = i;
  }
  if (place < axes->size()) axes->erase(axes->begin() + static_cast<std::ptrdiff_t>(place));
  return longest;
}

// x as an array of dims, its axes permuted, as y.
inline void TransposeReshape(const Tensor &x, const Tensor &y, const std::vector<int> &dims, const std::vector<int> &axes,
                      bool channels_first) {
  std::vector<ArrayAxis> all(dims.size());
  uint32_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0; stride *= all[i].length) all[i] = {static_cast<uint32_t>(dims[i]), stride, 1};
  stride = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    ArrayAxis &axis = all[static_cast<std::size_t>(axes[i])];
    axis.to = stride;
    stride *= axis.length;
  }
  const Ordered source(x, channels_first), target(y, channels_first);
  const ArrayAxis inner = TakeLongest(&all, source, target, nullptr), outer = TakeLongest(&all, source, target, &inner);
  const uint32_t most = 64;  // of a line at once
  Share(x.threads, x.Size() / inner.length, inner.length, [&](std::size_t first, std::size_t last) {
    const Plane plane(x, y, channels_first, inner, outer);
    for (std::size_t number = first, lines; number < last; number += lines) {
      std::size_t rest = number / outer.length;
      const uint32_t line = static_cast<uint32_t>(number % outer.length);
      lines = std::min(last - number, static_cast<std::size_t>(outer.length - line));
      uint32_t from = line * outer.from, to = line * outer.to;
      for (const ArrayAxis &axis : all) {
        const uint32_t i = static_cast<uint32_t>(rest % axis.length);
        rest /= axis.length;
        from += i * axis.from;
        to += i * axis.to;
      }
      for (uint32_t i = 0; i < inner.length; i += most)
        plane.Move(from + i * inner.from, to + i * inner.to, std::min(most, inner.length - i), static_cast<uint32_t>(lines));
    }
  });
  y.ClearRest();
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

struct Swish {
  float beta;
  template <class V>
  V operator()(V x) const {
    return x / (Each<V>(1.0f) + PowerOfTwo(Each<V>(-beta * kLog2OfE) * x));
  }
};

struct Sigmoid {
  template <class V>
  V operator()(V x) const {
    return Each<V>(1.0f) / (Each<V>(1.0f) + PowerOfTwo(Each<V>(-kLog2OfE) * x));
  }
};

template <>
struct IsLong<Swish> {
  static const bool value = true;
};
template <>
struct IsLong<Sigmoid> {
  static const bool value = true;
};

struct Tanh {
  float operator()(float x) const { return std::tanh(x); }
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

struct Arctangent {
  float operator()(float x) const { return std::atan(x); }
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

// y = f(x), element by element, of maps that lie alike: functions that are templates work on vectors if that is preferred.
template <class F>
auto UnaryElements(const Tensor &x, const Tensor &y, F f, int) -> decltype(f(Floats()), void()) {
  TransformAll(y.threads, Elements(x, 0), Elements(y, 0), y.Stored(), f);
}

// A result that several threads may set, all the same.
class Kept {
 public:
  explicit Kept(uint16_t result) : result_(result) {}
  Kept(const Kept &other) : result_(other.Get()) {}
  uint16_t Get() const { return result_.load(std::memory_order_relaxed); }
  void Set(uint16_t result) { result_.store(result, std::memory_order_relaxed); }

 private:
  std::atomic<uint16_t> result_;
};

// results: of each FP16 value, or unknown, as ToHalf never gives.
template <class F>
void ComputeOnce(const uint8_t *from, uint8_t *to, std::size_t count, Kept *results, uint16_t unknown, F f) {
  for (std::size_t i = 0; i < count; ++i, from += 2, to += 2) {
    uint16_t half;
    std::memcpy(&half, from, sizeof(half));
    uint16_t result = results[half].Get();
    if (result == unknown) results[half].Set(result = ToHalf(f(FromHalf(half))));
    std::memcpy(to, &result, sizeof(result));
  }
}

// Each other function is computed once for each FP16 value that occurs. The results are kept until the end of the call.
template <class F>
void UnaryElements(const Tensor &x, const Tensor &y, F f, long) {
  const std::size_t size = y.Stored();
  const Elements from(x, 0), to(y, 0);
  if (!x.is_half || !y.is_half || size < 4096) {
    Share(y.threads, size, 1, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) to.SetOne(i, f(from.GetOne(i)));
    });
    return;
  }
  const uint16_t unknown = 0xFFFFu;
  std::vector<Kept> results(65536, Kept(unknown));
  Share(y.threads, size, 1, [&](std::size_t first, std::size_t last) {
    ComputeOnce(from.At(first), to.At(first), last - first, results.data(), unknown, f);
  });
}

// y = f(x), element by element.
template <class F>
void Unary(const Tensor &x, const Tensor &y, F f) {
  if (x.LiesLike(y)) {
    UnaryElements(x, y, f, Preferred(0));
  } else {
    y.ForEach([&](int h, int w, int c) { y.Set(h, w, c, f(x.Get(h, w, c))); });
  }
  y.ClearRest();
}

struct Sum {
  template <class V>
  V operator()(V x, V y) const { return x + y; }
};

// The average of so many elements, or a factor of the sum.
struct Averaged {
  float factor, count;
  template <class V>
  V operator()(V sum) const { return factor != 0.0f ? sum * Each<V>(factor) : sum / Each<V>(count); }
};

// Pixels that lie one after the other, of channels that lie together.
class Piece {
 public:
  // rooms: for maps between two functions.
  Piece(const Tensor &map, std::size_t rooms) : map_(map), rooms_(rooms * Most(map) * Step(map, 0)), sums_(Step(map, 0)) {}

  static std::size_t Together(const Tensor &map) { return static_cast<std::size_t>(map.Together(0)); }
  static std::size_t Step(const Tensor &map, std::size_t channel) { return static_cast<std::size_t>(map.Step(static_cast<int>(channel))); }
  static std::size_t Pixels(const Tensor &map) { return map.Size() / static_cast<std::size_t>(map.channels); }
  // How many pixels a piece has, but for the last one of its channels.
  static std::size_t Most(const Tensor &map) { return std::max(2048 / Step(map, 0), static_cast<std::size_t>(1)); }

  void MoveTo(std::size_t channel, std::size_t pixel) {
    channel_ = channel;
    pixel_ = pixel;
    pixels_ = std::min(Most(map_), Pixels(map_) - pixel);
    together_ = static_cast<std::size_t>(map_.Together(static_cast<int>(channel)));
  }

  // What belongs to the piece of a map that lies like the whole one, or repeats its pixels, its channels or both.
  Tensor Of(const Tensor &t) const {
    const bool has_channels = t.channels == map_.channels, has_pixels = Pixels(t) == Pixels(map_);
    const std::size_t together = has_channels ? together_ : 1, pixels = has_pixels ? pixels_ : 1;
    const std::size_t channel = has_channels ? channel_ : 0, pixel = has_pixels ? pixel_ * Step(t, channel) : 0;
    return Part(Elements(t, channel * Pixels(t) + pixel), pixels, together, t.has_atoms && map_.has_atoms);
  }

  // The same where t begins with a map that lies like the whole one, and of the number for each channel that follows it.
  Tensor First(const Tensor &t) const {
    return Part(Elements(t, channel_ * Pixels(map_) + pixel_ * Step(map_, channel_)), pixels_, together_, map_.has_atoms);
  }
  Tensor Rest(const Tensor &t) const { return Part(Elements(t, map_.Stored() + channel_), 1, together_, false); }

  Tensor Room(std::size_t number) {
    float *const room = rooms_.data() + number * Most(map_) * Step(map_, 0);
    return Part(Elements(reinterpret_cast<uint8_t *>(room), false), pixels_, together_, map_.has_atoms);
  }

  // Adds the pixels of a piece to those of the same channels before it. The last piece gives y = the average, or a factor of the sum.
  void Average(const Tensor &x, const Tensor &y, float factor) {
    const Elements from(x, 0), sums(reinterpret_cast<uint8_t *>(sums_.data()), false);
    if (pixel_ == 0) std::fill(sums_.begin(), sums_.end(), 0.0f);
    const std::size_t step = Step(x, 0), end = step * pixels_, whole = together_ / 8 * 8;
    for (std::size_t c = 0; c < whole; c += 8) {
      Eight total = sums.Get(c);
      if (step == 8) {  // a constant distance is faster
        for (std::size_t i = 0; i < end; i += 8) total = Apply(Sum{}, total, from.Get(i));
      } else {
        for (std::size_t i = c; i < end; i += step) total = Apply(Sum{}, total, from.Get(i));
      }
      sums.Set(c, total);
    }
    for (std::size_t i = 0; i < end && whole < together_; i += step)
      for (std::size_t c = whole; c < together_; ++c) sums_[c] += from.GetOne(i + c);
    const std::size_t all = Pixels(map_);
    if (pixel_ + pixels_ == all) Transform(sums, Elements(y, 0), Step(y, 0), Averaged{factor, static_cast<float>(all)});
  }

 private:
  static Tensor Part(Elements first, std::size_t pixels, std::size_t together, bool has_atoms) {
    const Format in_chunks = first.is_half ? kHalf : together > 8 ? kFloatPlain : kFloat;
    const Format format = !has_atoms ? in_chunks : first.is_half ? kAtoms : kFloatAtoms;
    return Tensor(Memory(first.At(0)), 0, 1, static_cast<int>(pixels), static_cast<int>(together), format);
  }

  const Tensor &map_;
  std::size_t channel_ = 0, pixel_ = 0, together_ = 0, pixels_ = 0;
  std::vector<float> rooms_, sums_;
};

// Calls f(piece) for all pieces of a map, each thread with rooms of its own. has_sums: whether one thread has all pixels of a
// channel, in their order.
template <class Function>
void InPieces(const Tensor &map, std::size_t rooms, bool has_sums, const Function &f) {
  const std::size_t most = Piece::Most(map), together = Piece::Together(map), pieces = (Piece::Pixels(map) + most - 1) / most;
  const std::size_t chunks = (static_cast<std::size_t>(map.channels) + together - 1) / together, each = has_sums ? pieces : 1;
  Share(map.threads, chunks * pieces / each, each * most * together, [&](std::size_t first, std::size_t last) {
    Piece piece(map, rooms);
    for (std::size_t i = first * each; i < last * each; ++i) {
      piece.MoveTo(i / pieces * together, i % pieces * most);
      f(piece);
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

struct AddWeighted {
  float factor;
  template <class V>
  V operator()(V sum, V weight) const { return sum + Each<V>(factor) * weight; }
};

// Further weights of an output lie so far from each other that it is faster to read them in the order of the memory.
const std::size_t kNearOutputs = 1024;

// Adds input[i] * weights[i * outputs], which are FP16, to 16 sums, which stay in registers.
inline void AddAll(const float *input, std::size_t inputs, const uint8_t *weights, std::size_t outputs, Elements sums) {
  Eight a = sums.Get(0), b = sums.Get(8);
  for (std::size_t i = 0; i < inputs; ++i, weights += 2 * outputs) {
    const AddWeighted add = {input[i]};
    a = Apply(add, a, LoadBeside(weights));
    b = Apply(add, b, LoadBeside(weights + 16));
  }
  sums.Set(0, a);
  sums.Set(8, b);
}

// y = bias + the sum of x[i] * weights[i][...]: of each input, the weights of all outputs lie together.
inline void Dense(const Tensor &x, const Tensor &weights, const Tensor &bias, const Tensor &y) {
  const std::size_t outputs = y.Size(), together = 16;
  Values inputs = Values::Of(x), sums = Values::Of(bias);
  Share(y.threads, (outputs + together - 1) / together, together * inputs.Size(), [&](std::size_t first, std::size_t last) {
    const float *input = inputs.At(0, 0, 0);
    const std::size_t end = std::min(last * together, outputs), size = inputs.Size();
    std::size_t begin = first * together;
    for (; weights.is_half && outputs <= kNearOutputs && begin + together <= end; begin += together)
      AddAll(input, size, Elements(weights, begin).At(0), outputs, Elements(sums.All().At(begin), false));
    const Elements rest(sums.All().At(begin), false);
    for (std::size_t i = 0; i < size && begin < end; ++i)
      Transform(rest, Elements(weights, i * outputs + begin), rest, end - begin, AddWeighted{input[i]});
  });
  sums.Write(y);
}

struct Times {
  template <class V>
  V operator()(V x, V factor) const { return x * factor; }
};

struct Plus {
  template <class V>
  V operator()(V x, V shift) const { return x + shift; }
};

// y = x * factor + shift, both for each channel.
inline void Scale(const Tensor &x, const Tensor &factor, const Tensor &shift, const Tensor &y) {
  const std::size_t channels = static_cast<std::size_t>(y.channels);
  Values values = Values::Of(x), factors = Values::Of(factor), shifts = Values::Of(shift);
  y.ForPixels(y.channels, [&](int h, int w) {
    const Elements pixel = Values::Row(values.At(h, w, 0));
    Transform(pixel, factors.All(), pixel, channels, Times{});
    Transform(pixel, shifts.All(), pixel, channels, Plus{});
  });
  values.Write(y);
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
        is_one_(t.Size() == 1),
        has_pixels_(!is_one_ && t.channels == 1 && t.PixelsLieLike(z)),
        has_channels_(t.height == 1 && t.width == 1 && t.channels == z.channels) {}

  // Whether this class can read the operand: it repeats no more channels than it has room for.
  bool HasElements(const Tensor &z) const {
    return is_like_ || is_one_ || ((has_pixels_ || has_channels_) && z.Step(0) <= static_cast<int>(kRoom));
  }

  // How many elements of a chunk it gives at once: whole pixels, except for copies of a single element. step: from pixel to pixel.
  std::size_t Most(std::size_t chunk, std::size_t step) const {
    return is_like_ ? chunk : std::min(chunk, is_one_ ? kRoom : kRoom / step * step);
  }

  // Before the first elements of a chunk: the factors of its channels, which all pixels repeat.
  void Begin(std::size_t first, std::size_t step, std::size_t most) {
    if (is_like_ || has_pixels_) return;
    const Elements from(t_, is_one_ ? 0 : first);
    const std::size_t channels = std::min(step, static_cast<std::size_t>(t_.channels) - first), all = from.Bytes(most);
    if (!is_one_) std::memset(room_, 0, from.Bytes(step));
    std::memcpy(room_, from.At(0), from.Bytes(is_one_ ? 1 : channels));
    for (std::size_t done = from.Bytes(is_one_ ? 1 : step); done < all; done *= 2)
      std::memcpy(room_ + done, room_, std::min(done, all - done));
  }

  // number: of the first element in z. pixel: of that element.
  Elements Next(std::size_t number, std::size_t pixel, std::size_t step, std::size_t count) {
    if (is_like_) return Elements(t_, number);
    if (has_pixels_ && t_.is_half) Repeat<uint16_t, Halves>(pixel, step, count);
    if (has_pixels_ && !t_.is_half) Repeat<uint32_t, Bits>(pixel, step, count);
    return Elements(room_, t_.is_half);
  }

 private:
  static const std::size_t kRoom = 256;

  template <class Value, class Vector>
  void Repeat(std::size_t pixel, std::size_t step, std::size_t count) {
    const std::size_t next_value = sizeof(Value) * static_cast<std::size_t>(t_.Step(0));
    const uint8_t *from = t_.data + pixel * next_value;
    const std::size_t written = step % 8 == 0 ? sizeof(Vector) : sizeof(Value), each = step * sizeof(Value);
    for (uint8_t *to = room_, *end = room_ + count * sizeof(Value); to < end; from += next_value) {
      Value value;
      std::memcpy(&value, from, sizeof(value));
      const Vector several = value - Vector();
      for (uint8_t *next = to + each; to < next; to += written) {
        if (written == sizeof(Vector)) {
          std::memcpy(to, &several, sizeof(several));
        } else {
          std::memcpy(to, &value, sizeof(value));
        }
      }
    }
  }

  const Tensor &t_;
  bool is_like_, is_one_, has_pixels_, has_channels_;
  uint8_t room_[4 * kRoom];
};

// Some pixels of a chunk, which begins with the channel first.
template <class F>
void BinaryElements(Operand &x, Operand &y, const Tensor &z, std::size_t first, std::size_t pixel, std::size_t pixels, F f) {
  const std::size_t step = static_cast<std::size_t>(z.Step(static_cast<int>(first))), all = pixels * step;
  const std::size_t most = std::min(x.Most(all, step), y.Most(all, step));
  const std::size_t before = z.Size() / static_cast<std::size_t>(z.channels) * first + pixel * step;
  x.Begin(first, step, most);
  y.Begin(first, step, most);
  for (std::size_t i = 0; i < all; i += most) {
    const std::size_t count = std::min(most, all - i), place = pixel + i / step;
    Transform(x.Next(before + i, place, step, count), y.Next(before + i, place, step, count),
              Elements(z, before + i), count, f);
  }
}

// z = f(x, y), element by element; an axis of length 1 is repeated.
template <class F>
void Binary(const Tensor &x, const Tensor &y, const Tensor &z, F f) {
  if (Operand(x, z).HasElements(z) && Operand(y, z).HasElements(z)) {
    const std::size_t step = static_cast<std::size_t>(z.Step(0)), least = 16;
    const std::size_t pixels = static_cast<std::size_t>(z.height) * static_cast<std::size_t>(z.width);
    const std::size_t block = std::max(4096 / step / least, static_cast<std::size_t>(1)) * least;
    const std::size_t blocks = (pixels + block - 1) / block, chunks = (z.Size() / pixels + step - 1) / step;
    Share(z.threads, chunks * blocks, block * step, [&](std::size_t first, std::size_t last) {
      Operand a(x, z), b(y, z);
      for (std::size_t i = first; i < last; ++i) {
        const std::size_t pixel = i % blocks * block;
        BinaryElements(a, b, z, i / blocks * step, pixel, std::min(block, pixels - pixel), f);
      }
    });
    z.ClearRest();
    return;
  }
  const auto get = [](const Tensor &t, int h, int w, int c) {
    return t.Get(t.height == 1 ? 0 : h, t.width == 1 ? 0 : w, t.channels == 1 ? 0 : c);
  };
  z.ForEach([&](int h, int w, int c) { z.Set(h, w, c, f(get(x, h, w, c), get(y, h, w, c))); });
  z.ClearRest();
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

// "cat" (Focus)
inline void Layer_0(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 0, 8, 8, 1, kHalf);
  const Tensor y(io, 128, 4, 4, 4, kHalf);
  TransposeReshape(x, y, {4, 2, 4, 2}, {3, 1, 0, 2}, true);
}

// "silu" (Swish)
inline void Layer_2(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 1088, 4, 4, 16, kHalf);
  const Tensor y(io, 1088, 4, 4, 16, kHalf);
  Unary(x, y, Swish{1.0f});
}

// "hardswish" (HardSwish)
// "mean" (ReduceMean)
inline void Layer_4(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 1600, 4, 4, 16, kHalf);
  const Tensor y(io, 0, 1, 1, 272, kFloat);
  InPieces(x, 0, true, [&](Piece &piece) {
    Unary(piece.Of(x), piece.First(y), HardSwish{});
    piece.Average(piece.First(y), piece.Rest(y), 0.0f);
  });
}

// "conv2d_2" (Conv)
// "relu" (Relu)
inline void Layer_5(fpga_layer &, void *memory, uint8_t *io) {
  uint8_t *const weights = dmp_dv_mem_map(static_cast<dmp_dv_mem>(memory));
  if (!weights) return static_cast<void>(std::memset(io + 1664, 0xFF, 16));  // NaN
  const Tensor w0(weights, 12848, 1, 1, 64, kHalf);
  const Tensor w1(weights, 12976, 1, 1, 4, kHalf);
  const Tensor x(io, 1024, 1, 1, 16, kFloat);
  const Tensor y(io, 1664, 1, 1, 4, kFloat);
  Dense(x, w0, w1, y);
}

// "conv2d_2" (Conv)
// "relu" (Relu)
inline void Layer_6(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 1664, 1, 1, 4, kFloat);
  const Tensor y(io, 1664, 1, 1, 4, kFloat);
  Unary(x, y, Clip{0.0f, INFINITY});
}

// "conv2d_3" (Conv)
// "hardsigmoid" (HardSigmoid)
inline void Layer_7(fpga_layer &, void *memory, uint8_t *io) {
  uint8_t *const weights = dmp_dv_mem_map(static_cast<dmp_dv_mem>(memory));
  if (!weights) return static_cast<void>(std::memset(io + 1600, 0xFF, 64));  // NaN
  const Tensor w0(weights, 12992, 1, 1, 64, kHalf);
  const Tensor w1(weights, 13120, 1, 1, 16, kHalf);
  const Tensor x(io, 1664, 1, 1, 4, kFloat);
  const Tensor y(io, 1600, 1, 1, 16, kFloat);
  Dense(x, w0, w1, y);
}

// "conv2d_3" (Conv)
// "hardsigmoid" (HardSigmoid)
inline void Layer_8(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 1600, 1, 1, 16, kFloat);
  const Tensor y(io, 1600, 1, 1, 16, kFloat);
  Unary(x, y, Clip{0.0f, 6.0f});
}

// "hardsigmoid" (HardSigmoid)
inline void Layer_9(fpga_layer &, void *memory, uint8_t *io) {
  uint8_t *const weights = dmp_dv_mem_map(static_cast<dmp_dv_mem>(memory));
  if (!weights) return static_cast<void>(std::memset(io + 2112, 0xFF, 64));  // NaN
  const Tensor w0(weights, 13152, 1, 1, 16, kHalf);
  const Tensor w1(weights, 13184, 1, 1, 16, kHalf);
  const Tensor x(io, 1600, 1, 1, 16, kFloat);
  const Tensor y(io, 2112, 1, 1, 16, kFloat);
  Scale(x, w0, w1, y);
}

// "mul" (Mul)
inline void Layer_10(fpga_layer &, void *, uint8_t *io) {
  const Tensor x0(io, 0, 4, 4, 16, kFloat);
  const Tensor x1(io, 2112, 1, 1, 16, kFloat);
  const Tensor y(io, 1600, 4, 4, 16, kHalf);
  Binary(x0, x1, y, Multiply{});
}

// "gelu" (Gelu)
inline void Layer_14(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 1536, 4, 4, 8, kHalf);
  const Tensor y(io, 1536, 4, 4, 8, kHalf);
  Unary(x, y, Gelu{false});
}

// "transpose" (Transpose)
// "view_1" (Reshape)
inline void Layer_15(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 1536, 4, 4, 24, kHalf);
  const Tensor y(io, 0, 1, 1, 384, kFloat);
  TransposeReshape(x, y, {2, 12, 4, 4}, {1, 0, 2, 3}, true);
}

// "linear" (Gemm)
inline void Layer_16(fpga_layer &, void *memory, uint8_t *io) {
  uint8_t *const weights = dmp_dv_mem_map(static_cast<dmp_dv_mem>(memory));
  if (!weights) return static_cast<void>(std::memset(io + 1536, 0xFF, 40));  // NaN
  const Tensor w0(weights, 13216, 1, 1, 3840, kHalf);
  const Tensor w1(weights, 20896, 1, 1, 10, kHalf);
  const Tensor x(io, 0, 1, 1, 384, kFloat);
  const Tensor y(io, 1536, 1, 1, 10, kFloat);
  Dense(x, w0, w1, y);
}

// "digit" (Softmax)
inline void Layer_17(fpga_layer &, void *, uint8_t *io) {
  const Tensor x(io, 1536, 1, 1, 10, kFloat);
  const Tensor y(io, 0, 1, 1, 10, kFloat);
  Softmax(x, y, Axes{false, false, true});
}

}  // namespace Cdigits_pytorch_cpu

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif  // CDIGITS_PYTORCH_CPU_H
