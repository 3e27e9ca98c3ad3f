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

void widen_columns_loop(const uint8_t *const *rows, std::size_t first, std::size_t count, const int *places,
                        std::ptrdiff_t stride, float *values) {
  for (std::size_t i = first; i < count; ++i)
    for (std::size_t row = 0; row < 8; ++row) widen_loop(rows[row] + 2 * i, 1, values + places[i] * stride + row);
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
// The CPU's own conversions give the same bits, but for NaN: there each group of values goes through the loops above.

constexpr std::size_t kGroup = 32;
using Group = __m256[kGroup / 8];

DV_AVX2 inline bool has_nan(const Group &values) {
  const __m256 low = _mm256_cmp_ps(values[0], values[1], _CMP_UNORD_Q);
  const __m256 high = _mm256_cmp_ps(values[2], values[3], _CMP_UNORD_Q);
  return _mm256_movemask_ps(_mm256_or_ps(low, high)) != 0;
}

DV_AVX2 inline __m128i read_halves(const uint8_t *halves) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i *>(halves));
}

DV_AVX2 inline __m128i round_to_half(__m256 values) { return _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT); }

DV_AVX2 void widen_avx2(const uint8_t *halves, std::size_t count, float *values) {
  std::size_t i = 0;
  for (; i + kGroup <= count; i += kGroup) {
    Group wide;
    for (std::size_t k = 0; k < 4; ++k) wide[k] = _mm256_cvtph_ps(read_halves(halves + 2 * (i + 8 * k)));
    for (std::size_t k = 0; k < 4; ++k) _mm256_storeu_ps(values + i + 8 * k, wide[k]);
    if (has_nan(wide)) widen_loop(halves + 2 * i, kGroup, values + i);
  }
  widen_loop(halves + 2 * i, count - i, values + i);
}

// Swaps rows and columns of 8 x 8 halves.
DV_AVX2 inline void transpose(__m128i (&rows)[8]) {
  __m128i pairs[8], quads[8];
  for (int i = 0; i < 4; ++i) {
    pairs[2 * i] = _mm_unpacklo_epi16(rows[i], rows[i + 4]);
    pairs[2 * i + 1] = _mm_unpackhi_epi16(rows[i], rows[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    quads[2 * i] = _mm_unpacklo_epi16(pairs[i], pairs[i + 4]);
    quads[2 * i + 1] = _mm_unpackhi_epi16(pairs[i], pairs[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    rows[2 * i] = _mm_unpacklo_epi16(quads[i], quads[i + 4]);
    rows[2 * i + 1] = _mm_unpackhi_epi16(quads[i], quads[i + 4]);
  }
}

DV_AVX2 void widen_columns_avx2(const uint8_t *const *rows, std::size_t first, std::size_t count, const int *places,
                                std::ptrdiff_t stride, float *values) {
  std::size_t i = first;
  for (; i + 8 <= count; i += 8) {
    __m128i halves[8];
    __m256 wide[8], nan = _mm256_setzero_ps();
    for (int row = 0; row < 8; ++row) halves[row] = read_halves(rows[row] + 2 * i);
    transpose(halves);
    for (int column = 0; column < 8; ++column) wide[column] = _mm256_cvtph_ps(halves[column]);
    for (int column = 0; column < 8; column += 2)
      nan = _mm256_or_ps(nan, _mm256_cmp_ps(wide[column], wide[column + 1], _CMP_UNORD_Q));
    for (std::size_t column = 0; column < 8; ++column) _mm256_storeu_ps(values + places[i + column] * stride, wide[column]);
    if (_mm256_movemask_ps(nan) != 0) widen_columns_loop(rows, i, i + 8, places, stride, values);
  }
  widen_columns_loop(rows, i, count, places, stride, values);
}

DV_AVX2 void narrow_avx2(const float *values, std::size_t count, uint8_t *halves) {
  std::size_t i = 0;
  for (; i + kGroup <= count; i += kGroup) {
    Group wide;
    for (std::size_t k = 0; k < 4; ++k) wide[k] = _mm256_loadu_ps(values + i + 8 * k);
    for (std::size_t k = 0; k < 4; ++k)
      _mm_storeu_si128(reinterpret_cast<__m128i *>(halves + 2 * (i + 8 * k)), round_to_half(wide[k]));
    if (has_nan(wide)) narrow_loop(values + i, kGroup, halves + 2 * i);
  }
  narrow_loop(values + i, count - i, halves + 2 * i);
}

DV_AVX2 void round_avx2(float *values, std::size_t count) {
  std::size_t i = 0;
  for (; i + kGroup <= count; i += kGroup) {
    Group wide;
    for (std::size_t k = 0; k < 4; ++k) wide[k] = _mm256_loadu_ps(values + i + 8 * k);
    if (has_nan(wide)) {
      round_loop(values + i, kGroup);
      continue;
    }
    for (std::size_t k = 0; k < 4; ++k) _mm256_storeu_ps(values + i + 8 * k, _mm256_cvtph_ps(round_to_half(wide[k])));
  }
  round_loop(values + i, count - i);
}
#else
constexpr auto widen_avx2 = widen_loop;
constexpr auto widen_columns_avx2 = widen_columns_loop;
constexpr auto narrow_avx2 = narrow_loop;
constexpr auto round_avx2 = round_loop;
#endif

}  // namespace

void widen_all(const uint8_t *halves, std::size_t count, float *values) {
  has_avx2() ? widen_avx2(halves, count, values) : widen_loop(halves, count, values);
}

void widen_columns(const uint8_t *const *rows, std::size_t count, const int *places, int stride, float *values) {
  (has_avx2() ? widen_columns_avx2 : widen_columns_loop)(rows, 0, count, places, stride, values);
}

void narrow_all(const float *values, std::size_t count, uint8_t *halves) {
  has_avx2() ? narrow_avx2(values, count, halves) : narrow_loop(values, count, halves);
}

void round_all(float *values, std::size_t count) { has_avx2() ? round_avx2(values, count) : round_loop(values, count); }

}  // namespace dv
