// Conversion between FP16, as bits, and FP32.
#ifndef CPU_FUNCTIONS_HALF_H
#define CPU_FUNCTIONS_HALF_H

#include <cstdint>
#include <cstring>

namespace cpu_functions {

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

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_HALF_H
