#include "lut.h"

#include <algorithm>

namespace nvdla {
namespace {

int log2_of(uint64_t value) {
  int result = -1;
  for (; value; value >>= 1) ++result;
  return result;
}

int64_t scaled_fraction(uint64_t rest, int bits, int fraction) {
  const int left = fraction - bits;
  if (left >= 0) return static_cast<int64_t>(rest << left);
  return left > -64 ? static_cast<int64_t>(rest >> -left) : 0;
}

Place missed(int table, Side side) { return {table, false, side, 0, 0}; }

Place chosen(const Lut &lut, const Place &le, const Place &lo) {
  const bool hybrid = le.hit == lo.hit && (le.hit || le.side != lo.side);
  int table;
  if (hybrid)
    table = lut.priority_hybrid;
  else if (le.hit || lo.hit)
    table = le.hit ? kLe : kLo;
  else
    table = le.side == kUnder ? lut.priority_under : lut.priority_over;
  return table == kLe ? le : lo;
}

Place at(int table, int64_t index, int64_t fraction) {
  if (index >= LutMemory::size(table) - 1) return missed(table, kOver);
  return {table, true, kUnder, static_cast<int>(index), fraction};
}

Place linear_integer(const Lut &lut, int table, int64_t x) {
  const int64_t distance = x - lut.start[table];
  if (distance <= 0) return missed(table, kUnder);
  const int select = lut.select[table];
  if (select <= 0) return at(table, shifted_left(distance, std::min(-select, 63), 10), 0);
  if (select > 62) return at(table, 0, scaled_fraction(distance, select, lut.fraction));
  const uint64_t rest = static_cast<uint64_t>(distance) & ((uint64_t{1} << select) - 1);
  return at(table, distance >> select, scaled_fraction(rest, select, lut.fraction));
}

Place exponential_integer(const Lut &lut, int64_t x) {
  const int64_t distance = x - lut.start[kLe];
  const int power = distance <= 0 ? 0 : log2_of(distance);
  if (distance <= 0 || power < lut.offset) return missed(kLe, kUnder);
  return at(kLe, power - lut.offset, scaled_fraction(static_cast<uint64_t>(distance) - (uint64_t{1} << power), power, lut.fraction));
}

bool positive(uint32_t bits) { return !Fp32::is_nan(bits) && !Fp32::negative(bits) && !Fp32::is_zero(bits); }

Place linear_fp32(const Lut &lut, int table, uint32_t distance) {
  if (!positive(distance)) return missed(table, kUnder);
  const double scaled = Fp32::value(distance) * power_of_two(-lut.select[table]);
  if (scaled >= 1023) return missed(table, kOver);
  const int64_t index = static_cast<int64_t>(scaled);
  return at(table, index, static_cast<int64_t>((scaled - static_cast<double>(index)) * power_of_two(lut.fraction)));
}

Place exponential_fp32(const Lut &lut, uint32_t distance) {
  const int power = static_cast<int>(distance >> 23 & Fp32::kTop) - Fp32::kBias;
  if (!positive(distance) || power < lut.offset) return missed(kLe, kUnder);
  return at(kLe, power - lut.offset, scaled_fraction(distance & Fp32::kFraction, 23, lut.fraction));
}

}  // namespace

Place place_of_integer(const Lut &lut, int64_t x) {
  const Place le = lut.exponential ? exponential_integer(lut, x) : linear_integer(lut, kLe, x);
  return chosen(lut, le, linear_integer(lut, kLo, x));
}

Place place_of_fp32(const Lut &lut, uint32_t x) {
  const uint32_t from_le = Fp32::subtract(x, static_cast<uint32_t>(lut.start[kLe]));
  const uint32_t from_lo = Fp32::subtract(x, static_cast<uint32_t>(lut.start[kLo]));
  const Place le = lut.exponential ? exponential_fp32(lut, from_le) : linear_fp32(lut, kLe, from_le);
  return chosen(lut, le, linear_fp32(lut, kLo, from_lo));
}

}  // namespace nvdla
