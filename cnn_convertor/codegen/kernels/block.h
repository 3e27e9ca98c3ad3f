// Elements that are computed together.
#ifndef CPU_FUNCTIONS_BLOCK_H
#define CPU_FUNCTIONS_BLOCK_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__ARM_NEON) && defined(__ARM_FP16_FORMAT_IEEE) && (__ARM_FP & 2)
#include <arm_neon.h>
#endif

#include "half.h"
#include "tensor.h"
#include "threads.h"

namespace cpu_functions {

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

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_BLOCK_H
