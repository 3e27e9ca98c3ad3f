// Conversion between FP16 (IEEE 754 binary16, as bits) and FP32.
#ifndef DV_HALF_H
#define DV_HALF_H

#include <cstdint>
#include <cstring>

namespace dv {

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Exact. Written without branches, so that loops over it become vector code.
inline float widen(uint16_t half) {
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7fffu) << 13;
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t rebased = magnitude + (112u << 23);
  const float subnormal = float_of_bits(magnitude + (113u << 23)) - float_of_bits(113u << 23);
  uint32_t bits = magnitude >= 0x0f800000u ? rebased + (112u << 23) : rebased;
  bits = magnitude < 0x00800000u ? bits_of_float(subnormal) : bits;
  return float_of_bits(bits | sign);
}

// Rounds to nearest, ties to even; too large becomes infinite; subnormals are kept. Without branches too.
inline uint16_t narrow(float value) {
  const uint32_t bits = bits_of_float(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude - (112u << 23) + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t subnormal = bits_of_float(float_of_bits(magnitude) + 0.5f) - (126u << 23);
  const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x47800000u ? special : half;
  return static_cast<uint16_t>(half | ((bits >> 16) & 0x8000u));
}

}  // namespace dv

#endif
