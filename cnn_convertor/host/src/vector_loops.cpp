#include "vector_loops.h"

#include <cstring>

#include "cpu.h"
#include "half.h"

namespace dv {
namespace {

DV_INLINE void widen_loop(const uint8_t *halves, std::size_t count, float *values) {
  for (std::size_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, halves + 2 * i, sizeof(half));
    values[i] = widen(half);
  }
}

DV_INLINE void narrow_loop(const float *values, std::size_t count, uint8_t *halves) {
  for (std::size_t i = 0; i < count; ++i) {
    const uint16_t half = narrow(values[i]);
    std::memcpy(halves + 2 * i, &half, sizeof(half));
  }
}

DV_INLINE void round_loop(float *values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = widen(narrow(values[i]));
}

DV_AVX2 void widen_avx2(const uint8_t *halves, std::size_t count, float *values) { widen_loop(halves, count, values); }
DV_AVX2 void narrow_avx2(const float *values, std::size_t count, uint8_t *halves) {
  narrow_loop(values, count, halves);
}
DV_AVX2 void round_avx2(float *values, std::size_t count) { round_loop(values, count); }

}  // namespace

void widen_all(const uint8_t *halves, std::size_t count, float *values) {
  has_avx2() ? widen_avx2(halves, count, values) : widen_loop(halves, count, values);
}

void narrow_all(const float *values, std::size_t count, uint8_t *halves) {
  has_avx2() ? narrow_avx2(values, count, halves) : narrow_loop(values, count, halves);
}

void round_all(float *values, std::size_t count) { has_avx2() ? round_avx2(values, count) : round_loop(values, count); }

}  // namespace dv
