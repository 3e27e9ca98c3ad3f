// The device's numbers: saturated and rounded integers, and floating point without subnormals and infinities inside.
//
// A finite result that is too large becomes the largest finite number. A NaN passes with its sign and the low bits of its fraction.
#ifndef NVDLA_FLOATS_H
#define NVDLA_FLOATS_H

#include <cstdint>
#include <cstring>

namespace nvdla {

inline int64_t saturated(int64_t value, int bits) {
  const int64_t most = (int64_t{1} << (bits - 1)) - 1;
  return value > most ? most : value < -most - 1 ? -most - 1 : value;
}

// value / 2^shift to the nearest, ties away from zero; shift: 0..63.
inline int64_t rounded(int64_t value, unsigned shift) {
  if (shift == 0) return value;
  const uint64_t sign = static_cast<uint64_t>(value >> 63);
  const uint64_t magnitude = ((static_cast<uint64_t>(value) ^ sign) - sign + (uint64_t{1} << (shift - 1))) >> shift;
  return static_cast<int64_t>((magnitude ^ sign) - sign);
}

// value * 2^shift, saturated; shift: 0..63.
inline int64_t shifted_left(int64_t value, unsigned shift, int bits) {
  const int64_t most = (int64_t{1} << (bits - 1)) - 1;
  if (value > most >> shift) return most;
  if (value < (-most - 1) >> shift) return -most - 1;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << shift);
}

inline uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline double double_of(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline double power_of_two(int exponent) { return double_of(static_cast<uint64_t>(exponent + 1023) << 52); }

// A format with a sign, `exponent` bits and `fraction` bits. Its numbers are kept as their bits.
template <int exponent, int fraction, bool subnormals = false>
struct Format {
  static constexpr int kBias = (1 << (exponent - 1)) - 1;
  static constexpr uint32_t kTop = (1u << exponent) - 1;  // the exponent of infinity and NaN
  static constexpr uint32_t kSign = 1u << (exponent + fraction);
  static constexpr uint32_t kFraction = (1u << fraction) - 1;
  static constexpr uint32_t kLargest = kTop * (1u << fraction) - 1;

  static bool is_nan(uint32_t bits) { return (bits >> fraction & kTop) == kTop && (bits & kFraction); }
  static bool negative(uint32_t bits) { return bits & kSign; }
  static bool is_zero(uint32_t bits) { return !(bits & ~kSign); }

  // The number of bits that are no NaN; infinity counts as the power of two after the largest number.
  static double value(uint32_t bits) {
    const uint64_t sign = static_cast<uint64_t>(bits & kSign) << (63 - exponent - fraction);
    const uint32_t e = bits >> fraction & kTop;
    const uint64_t f = bits & kFraction;
    if (e == 0) {
      const double small = subnormals ? f * power_of_two(1 - kBias - fraction) : 0.0;
      return double_of(bits_of(small) | sign);
    }
    return double_of(sign | static_cast<uint64_t>(e - kBias + 1023) << 52 | f << (52 - fraction));
  }

  // Rounds to nearest even. flush_first: what is below the smallest normal number is zero even if rounding would lift it.
  static uint32_t rounded(double number, bool flush_first = false) {
    const uint64_t bits = bits_of(number);
    const uint32_t sign = bits >> 63 ? kSign : 0;
    const int e = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
    if (e > kBias) return sign | kLargest;
    int dropped = 52 - fraction;
    const int below = 1 - kBias - e;  // positive below the normal numbers
    if (below > 0) {
      if (subnormals)
        dropped += below;
      else if (below > 1 || flush_first)
        return sign;
      if (dropped > 60) return sign;
    }
    const uint64_t whole = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
    const uint64_t half = uint64_t{1} << (dropped - 1), rest = whole & (2 * half - 1);
    uint64_t kept = whole >> dropped;
    kept += rest > half || (rest == half && (kept & 1));
    if (subnormals && below > 0) return sign | static_cast<uint32_t>(kept);  // a carry makes the smallest normal number
    const int64_t field = e + kBias;  // 0 just below the normal numbers
    const uint64_t result = (static_cast<uint64_t>(field) << fraction) + kept - (uint64_t{1} << fraction);
    if (!subnormals && result >> fraction == 0) return sign;
    return sign | static_cast<uint32_t>(result > kLargest ? kLargest : result);
  }

  static uint32_t add(uint32_t a, uint32_t b) {
    if (is_nan(a)) return a;
    if (is_nan(b)) return b;
    const uint32_t x = finite(a), y = finite(b);
    const double sum = value(x) + value(y);
    if (sum == 0) return ((x & ~kSign) >= (y & ~kSign) ? x : y) & kSign;
    return rounded(sum, true);
  }

  static uint32_t subtract(uint32_t a, uint32_t b) {
    if (is_nan(a)) return a;
    return is_nan(b) ? b : add(a, b ^ kSign);
  }

  static uint32_t multiply(uint32_t a, uint32_t b) {
    if (is_nan(a)) return a;
    return is_nan(b) ? b : rounded(value(finite(a)) * value(finite(b)));
  }

  // Whether a is greater by sign and magnitude: equal negative numbers count as greater.
  static bool greater(uint32_t a, uint32_t b) {
    if (negative(a) != negative(b)) return negative(b);
    return negative(a) ? (a & ~kSign) <= (b & ~kSign) : a > b;
  }

  static uint32_t maximum(uint32_t a, uint32_t b) {
    if (is_nan(a)) return a;
    return is_nan(b) || !greater(a, b) ? b : a;
  }

  static uint32_t minimum(uint32_t a, uint32_t b) {
    if (is_nan(a)) return a;
    return is_nan(b) || greater(a, b) ? b : a;
  }

  static uint32_t finite(uint32_t bits) {
    const bool infinite = (bits >> fraction & kTop) == kTop && !(bits & kFraction);
    return infinite ? (bits & kSign) | kLargest : bits;
  }
};

using Fp16 = Format<5, 10, true>;
using Fp17 = Format<6, 10>;
using Fp32 = Format<8, 23>;

// Infinity becomes the largest finite number.
template <class To, class From>
uint32_t converted(uint32_t bits) {
  const uint32_t sign = From::negative(bits) ? To::kSign : 0;
  if (From::is_nan(bits)) return sign | To::kTop * (To::kFraction + 1) | (bits & From::kFraction & To::kFraction);
  if ((bits & ~From::kSign) == From::kTop * (From::kFraction + 1)) return sign | To::kLargest;
  return To::rounded(From::value(bits));
}

// Nearest even; the integer has at most 53 bits.
inline uint32_t half_of_integer(int64_t value) { return Fp16::rounded(static_cast<double>(value)); }

// Half away from zero; NaN gives the least number.
inline int32_t integer_of_half(uint32_t bits) {
  if (Fp16::is_nan(bits)) return -32768;
  const double value = Fp16::value(Fp16::finite(bits));
  return static_cast<int32_t>(saturated(static_cast<int64_t>(value + (value < 0 ? -0.5 : 0.5)), 16));
}

}  // namespace nvdla

#endif
