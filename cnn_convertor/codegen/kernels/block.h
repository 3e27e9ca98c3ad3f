// Elements that are computed together.
#ifndef DV700_CPU_BLOCK_H
#define DV700_CPU_BLOCK_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "half.h"
#include "tensor.h"

namespace dv700_cpu {

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

}  // namespace dv700_cpu

#endif  // DV700_CPU_BLOCK_H
