#include "vector_loops.h"

#include <cstring>

#include "cpu.h"
#include "half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dv {
namespace {

void widen_loop(const uint8_t *halves, std::size_t count, float *values) {
  for (std::size_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, halves + 2 * i, sizeof(half));
    values[i] = widen(half);
  }
}

void narrow_loop(const float *values, std::size_t count, uint8_t *halves) {
  for (std::size_t i = 0; i < count; ++i) {
    const uint16_t half = narrow(values[i]);
    std::memcpy(halves + 2 * i, &half, sizeof(half));
  }
}

void round_loop(float *values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = widen(narrow(values[i]));
}

#if defined(__x86_64__)
// The CPU's own conversions give the same bits, but for NaN: there each eight values go through the loops above.

DV_AVX2 inline bool has_nan(__m256 values) {
  return _mm256_movemask_ps(_mm256_cmp_ps(values, values, _CMP_UNORD_Q)) != 0;
}

DV_AVX2 void widen_avx2(const uint8_t *halves, std::size_t count, float *values) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 wide = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(halves + 2 * i)));
    has_nan(wide) ? widen_loop(halves + 2 * i, 8, values + i) : _mm256_storeu_ps(values + i, wide);
  }
  widen_loop(halves + 2 * i, count - i, values + i);
}

DV_AVX2 void narrow_avx2(const float *values, std::size_t count, uint8_t *halves) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 wide = _mm256_loadu_ps(values + i);
    if (has_nan(wide))
      narrow_loop(values + i, 8, halves + 2 * i);
    else
      _mm_storeu_si128(reinterpret_cast<__m128i *>(halves + 2 * i), _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT));
  }
  narrow_loop(values + i, count - i, halves + 2 * i);
}

DV_AVX2 void round_avx2(float *values, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 wide = _mm256_loadu_ps(values + i);
    if (has_nan(wide))
      round_loop(values + i, 8);
    else
      _mm256_storeu_ps(values + i, _mm256_cvtph_ps(_mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT)));
  }
  round_loop(values + i, count - i);
}
#else
constexpr auto widen_avx2 = widen_loop;
constexpr auto narrow_avx2 = narrow_loop;
constexpr auto round_avx2 = round_loop;
#endif

}  // namespace

void widen_all(const uint8_t *halves, std::size_t count, float *values) {
  has_avx2() ? widen_avx2(halves, count, values) : widen_loop(halves, count, values);
}

void narrow_all(const float *values, std::size_t count, uint8_t *halves) {
  has_avx2() ? narrow_avx2(values, count, halves) : narrow_loop(values, count, halves);
}

void round_all(float *values, std::size_t count) { has_avx2() ? round_avx2(values, count) : round_loop(values, count); }

}  // namespace dv
