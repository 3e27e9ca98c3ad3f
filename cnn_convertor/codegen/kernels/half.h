// Conversion between FP16, as bits, and FP32.
#ifndef DV700_CPU_HALF_H
#define DV700_CPU_HALF_H

#include <cstdint>
#include <cstring>

namespace dv700_cpu {

inline float FromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, rest = half & 0x7FFFu;
  float value;
  if (rest < 0x0400u) {  // subnormal
    value = static_cast<float>(rest) * (1.0f / 16777216.0f);
    return sign ? -value : value;
  }
  const uint32_t bits = sign | ((rest << 13) + (rest < 0x7C00u ? 0x38000000u : 0x70000000u));
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Rounds to the nearest, ties to even; what is too large becomes infinite.
inline uint16_t ToHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t sign = (bits >> 16) & 0x8000u, rest = bits & 0x7FFFFFFFu;
  uint32_t half;
  if (rest > 0x7F800000u) {
    half = 0x7E00u;  // not a number
  } else if (rest >= 0x47800000u) {
    half = 0x7C00u;  // 65536 and above
  } else if (rest < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded bits at the end
    float magnitude;
    std::memcpy(&magnitude, &rest, sizeof(magnitude));
    magnitude += 0.5f;
    std::memcpy(&half, &magnitude, sizeof(half));
    half -= 0x3F000000u;
  } else {
    half = (rest - 0x38000000u + 0x0FFFu + ((rest >> 13) & 1u)) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_HALF_H
