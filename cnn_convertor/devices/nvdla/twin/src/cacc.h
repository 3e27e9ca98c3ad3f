// CACC for halves: an accumulator of 48 bits, of value mantissa * 2^(exponent - 101).
#ifndef NVDLA_CACC_H
#define NVDLA_CACC_H

#include <cstdint>

namespace nvdla {

// What one step of CMAC gives: sum * 2^(exponent - 50). A NaN has its sign in bit 37 of the sum and its fraction in bits 36..27.
struct Step {
  int exponent;
  int64_t sum;
  bool nan;
};

class Accumulator {
 public:
  void add(const Step &step);
  uint32_t to_fp32() const;

 private:
  int exponent_ = 0;
  int64_t mantissa_ = 0;  // 40 bits, sign-extended
};

}  // namespace nvdla

#endif
