#include "cacc.h"

#include "floats.h"

namespace nvdla {
namespace {

constexpr int kBits = 40, kNan = 255, kTopBits = 29;  // kTopBits: below the 11 that a NaN has
constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
constexpr int64_t kMost = (int64_t{1} << (kBits - 1)) - 1;

// How far a value of so many bits can go left until its two top bits differ.
int headroom(int64_t value, int bits) {
  const uint64_t significant = static_cast<uint64_t>(value < 0 ? ~value : value);
  // The exponent of a double is the place of the top bit; values have at most 41 bits.
  const int used = significant ? static_cast<int>(bits_of(static_cast<double>(significant)) >> 52) - 1022 : 0;
  return bits - 1 - used;
}

int64_t shifted(int64_t value, int left) { return static_cast<int64_t>(static_cast<uint64_t>(value) << left); }

int64_t sign_extended(uint64_t bits) { return static_cast<int64_t>(bits << (64 - kBits)) >> (64 - kBits); }

// Shifts right, and gives the bits that fall out, from the top of 40 bits on.
uint64_t align(int64_t &value, int distance) {
  if (distance > kBits) {
    value = 0;
    return 0;
  }
  const uint64_t out = distance ? static_cast<uint64_t>(value) << (kBits - distance) & kMask : 0;
  value >>= distance;
  return out;
}

}  // namespace

void Accumulator::add(const Step &step) {
  if (step.sum == 0) return;
  if (exponent_ == kNan) {
    mantissa_ = shifted(mantissa_ >> kTopBits, kTopBits);
    return;
  }
  if (step.nan) {
    mantissa_ = sign_extended(static_cast<uint64_t>(step.sum >> 27) << kTopBits & kMask);
    exponent_ = kNan;
    return;
  }
  const int lift = headroom(step.sum, 38);
  int64_t added = shifted(step.sum, lift + 2);
  const int exponent = step.exponent - lift + 49;
  if (mantissa_ == 0) exponent_ = 0;
  uint64_t out;
  int top = exponent_;
  if (exponent > exponent_) {
    out = align(mantissa_, exponent - exponent_);
    top = exponent;
  } else {
    out = align(added, exponent_ - exponent);
  }
  int64_t sum = mantissa_ + added;
  bool guard, sticky;
  if (sum > kMost || sum < -kMost - 1) {
    guard = sum & 1;
    sticky = out != 0;
    sum >>= 1;
    ++top;
  } else {
    const int left = headroom(sum, kBits);
    if (left > 0) {
      sum = sign_extended((static_cast<uint64_t>(sum) << left | out >> (kBits - left)) & kMask);
      out = out << left & kMask;
      top -= left;
    }
    guard = out >> (kBits - 1);
    sticky = (out & (kMask >> 1)) != 0;
  }
  if (guard && (sum >= 0 || sticky)) ++sum;
  if (sum > kMost) {
    sum >>= 1;
    ++top;
  }
  mantissa_ = sum;
  exponent_ = sum == 0 ? 0 : top;
}

uint32_t Accumulator::to_fp32() const {
  const uint32_t sign = mantissa_ < 0 ? Fp32::kSign : 0;
  if (exponent_ == kNan) return sign | Fp32::kTop << 23 | (static_cast<uint64_t>(mantissa_) >> kTopBits & 0x3ff);
  if (mantissa_ == 0) return 0;
  if (mantissa_ == -kMost - 1) return sign | static_cast<uint32_t>(exponent_ + 65) << 23;
  const uint64_t magnitude = static_cast<uint64_t>(mantissa_ < 0 ? -mantissa_ : mantissa_);
  const uint32_t fraction = static_cast<uint32_t>(magnitude >> 15 & Fp32::kFraction) + (magnitude >> 14 & 1);
  return sign | ((static_cast<uint32_t>(exponent_ + 64) << 23) + fraction);
}

}  // namespace nvdla
