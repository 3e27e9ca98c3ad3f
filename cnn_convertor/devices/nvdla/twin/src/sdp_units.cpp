// What SDP computes on the values of a line.
#include <algorithm>

#include "sdp.h"

namespace nvdla {
namespace {

void alu_integers(uint32_t algorithm, const int32_t *operand, int64_t *values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const int64_t a = operand[i], v = values[i];
    if (algorithm == kMax)
      values[i] = std::max(v, a);
    else if (algorithm == kMin)
      values[i] = std::min(v, a);
    else
      values[i] = v + a;
  }
}

int64_t table_int32(const Lut &lut, int64_t x) {
  const Place place = place_of_integer(lut, x);
  const int table = place.table;
  if (place.hit) {
    const int64_t whole = int64_t{1} << lut.fraction;
    const int64_t sum = lut.entry(table, place.index) * (whole - place.fraction) + lut.entry(table, place.index + 1) * place.fraction;
    return saturated(rounded(sum, lut.fraction), 32);
  }
  int64_t bound = place.side == kUnder ? lut.start[table] : lut.end[table];
  if (below_exponential(lut, place) && lut.offset > 0) bound += int64_t{1} << lut.offset;
  const int64_t product = (x - bound) * lut.scale[table][place.side];
  const int shift = lut.shift[table][place.side];
  const int64_t slope = shift >= 0 ? saturated(rounded(product, shift), 32) : shifted_left(product, -shift, 32);
  return saturated(lut.entry(table, place.side == kUnder ? 0 : LutMemory::size(table) - 1) + slope, 32);
}

uint32_t table_fp32(const Lut &lut, uint32_t x) {
  const Place place = place_of_fp32(lut, x);
  const int table = place.table;
  const auto entry = [&](int index) { return converted<Fp17, Fp16>(lut.half(table, index)); };
  if (place.hit) {
    const double part = static_cast<double>(place.fraction) * power_of_two(-lut.fraction);
    const uint32_t first = Fp17::multiply(Fp17::rounded(1.0 - part), entry(place.index));
    const uint32_t second = Fp17::multiply(Fp17::rounded(part), entry(place.index + 1));
    return converted<Fp32, Fp17>(Fp17::add(first, second));
  }
  const bool under = place.side == kUnder;
  uint32_t bound = static_cast<uint32_t>(under ? lut.start[table] : lut.end[table]);
  if (below_exponential(lut, place)) bound = Fp32::add(bound, Fp32::rounded(power_of_two(lut.offset), true));
  const uint32_t distance = converted<Fp17, Fp32>(Fp32::subtract(x, bound));
  const uint32_t slope = converted<Fp17, Fp16>(static_cast<uint32_t>(lut.scale[table][place.side]));
  const uint32_t end = entry(under ? 0 : LutMemory::size(table) - 1);
  return converted<Fp32, Fp17>(Fp17::add(end, Fp17::multiply(distance, slope)));
}

}  // namespace

void unit_x_integers(const Unit &unit, const int32_t *alu, const int32_t *mul, int64_t *values, std::size_t count) {
  if (unit.alu.used) alu_integers(unit.algorithm, alu, values, count);
  for (std::size_t i = 0; i < count; ++i) {
    const int64_t value = values[i];
    const int64_t factor = unit.mul.used ? mul[i] : 1;
    const int64_t product = saturated(rounded(value * factor, unit.mul_shift), 32);
    values[i] = unit.prelu && value >= 0 ? static_cast<int32_t>(value) : product;
  }
  if (!unit.relu) return;
  for (std::size_t i = 0; i < count; ++i) values[i] = std::max<int64_t>(values[i], 0);
}

void unit_y_integers(const SdpPlan &plan, const int32_t *alu, const int32_t *mul, int64_t *values, std::size_t count) {
  const Unit &unit = plan.units[2];
  if (unit.mul.used)
    for (std::size_t i = 0; i < count; ++i)
      if (!(unit.prelu && values[i] >= 0)) values[i] = saturated(rounded(values[i] * mul[i], unit.mul_shift), 32);
  if (unit.alu.used && unit.algorithm == kEqual) {
    for (std::size_t i = 0; i < count; ++i) values[i] = values[i] != alu[i];
  } else if (unit.alu.used) {
    alu_integers(unit.algorithm, alu, values, count);
    for (std::size_t i = 0; i < count; ++i) values[i] = saturated(values[i], 32);
  }
  if (unit.lut)
    for (std::size_t i = 0; i < count; ++i) values[i] = table_int32(plan.lut, values[i]);
}

void unit_floats(const SdpPlan &plan, const Unit &unit, bool y, const uint32_t *alu, const uint32_t *mul, uint32_t *values,
                 std::size_t count) {
  const auto add = [&] {
    for (std::size_t i = 0; i < count; ++i) {
      switch (unit.algorithm) {
        case kMax: values[i] = Fp32::maximum(values[i], alu[i]); break;
        case kMin: values[i] = Fp32::minimum(values[i], alu[i]); break;
        case kSum: values[i] = Fp32::add(values[i], alu[i]); break;
        default: values[i] = values[i] != alu[i];
      }
    }
  };
  if (unit.alu.used && !y) add();
  if (unit.mul.used)
    for (std::size_t i = 0; i < count; ++i)
      if (!unit.prelu || Fp32::negative(values[i])) values[i] = Fp32::multiply(values[i], mul[i]);
  if (unit.alu.used && y) add();
  if (unit.relu)
    for (std::size_t i = 0; i < count; ++i)
      if (Fp32::negative(values[i]) && !Fp32::is_nan(values[i])) values[i] = 0;
  if (unit.lut)
    for (std::size_t i = 0; i < count; ++i) values[i] = table_fp32(plan.lut, values[i]);
}

int32_t convert_integer(const SdpPlan &plan, int64_t value) {
  const int64_t scaled = saturated(rounded((value - plan.offset) * plan.scale, plan.shift), 17);
  switch (plan.out) {
    case kInt8: return static_cast<int32_t>(saturated(scaled, 8));
    case kInt16: return static_cast<int32_t>(saturated(scaled, 16));
    default: return static_cast<int32_t>(half_of_integer(scaled));
  }
}

int32_t convert_float(const SdpPlan &plan, uint32_t value) {
  const uint32_t half = converted<Fp16, Fp32>(value);
  return plan.out == kFp16 ? static_cast<int32_t>(half) : integer_of_half(half);
}

}  // namespace nvdla
