// Powers of two, of floats and of vectors of them.
#ifndef CPU_FUNCTIONS_POWER_OF_TWO_H
#define CPU_FUNCTIONS_POWER_OF_TWO_H

#include <cstdint>
#include <cstring>

#include "block.h"

namespace cpu_functions {

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

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_POWER_OF_TWO_H
