#include "cdp.h"

#include <algorithm>

namespace nvdla {
namespace {

constexpr int kFraction = 16;

int64_t wide(const Group &cdp, const Field &high, const Field &low, bool floating) {
  if (floating) return cdp(low);
  return static_cast<int64_t>(static_cast<uint64_t>(static_cast<int64_t>(cdp.sign_extended(high))) << 32 | cdp(low));
}

// Integers read few bits of a selection.
int selection(const CdpPlan &plan, int value) {
  const int unused = plan.precision == kInt8 ? 26 : plan.precision == kInt16 ? 25 : 24;
  return static_cast<int32_t>(static_cast<uint32_t>(value) << unused) >> unused;
}

void plan_lut(const Group &cdp, const LutMemory &tables, CdpPlan &plan) {
  Lut &lut = plan.lut;
  const bool floating = plan.precision == kFp16;
  lut.memory = &tables;
  lut.fraction = kFraction;
  lut.exponential = !cdp(CDP::S_LUT_CFG_LUT_LE_FUNCTION);
  lut.priority_under = cdp(CDP::S_LUT_CFG_LUT_UFLOW_PRIORITY);
  lut.priority_over = cdp(CDP::S_LUT_CFG_LUT_OFLOW_PRIORITY);
  lut.priority_hybrid = cdp(CDP::S_LUT_CFG_LUT_HYBRID_PRIORITY);
  lut.offset = cdp.sign_extended(CDP::S_LUT_INFO_LUT_LE_INDEX_OFFSET);
  lut.select[kLe] = selection(plan, cdp.sign_extended(CDP::S_LUT_INFO_LUT_LE_INDEX_SELECT));
  lut.select[kLo] = selection(plan, cdp.sign_extended(CDP::S_LUT_INFO_LUT_LO_INDEX_SELECT));
  if (!floating && lut.exponential && lut.offset > 39)
    cdp.refuse(CDP::S_LUT_INFO_LUT_LE_INDEX_OFFSET, text(lut.offset) + " is beyond every difference of 38 bits");
  lut.start[kLe] = wide(cdp, CDP::S_LUT_LE_START_HIGH, CDP::S_LUT_LE_START_LOW, floating);
  lut.start[kLo] = wide(cdp, CDP::S_LUT_LO_START_HIGH, CDP::S_LUT_LO_START_LOW, floating);
  lut.end[kLe] = wide(cdp, CDP::S_LUT_LE_END_HIGH, CDP::S_LUT_LE_END_LOW, floating);
  lut.end[kLo] = wide(cdp, CDP::S_LUT_LO_END_HIGH, CDP::S_LUT_LO_END_LOW, floating);
  const Field scales[2][2] = {
      {CDP::S_LUT_LE_SLOPE_SCALE_LUT_LE_SLOPE_UFLOW_SCALE, CDP::S_LUT_LE_SLOPE_SCALE_LUT_LE_SLOPE_OFLOW_SCALE},
      {CDP::S_LUT_LO_SLOPE_SCALE_LUT_LO_SLOPE_UFLOW_SCALE, CDP::S_LUT_LO_SLOPE_SCALE_LUT_LO_SLOPE_OFLOW_SCALE}};
  const Field shifts[2][2] = {
      {CDP::S_LUT_LE_SLOPE_SHIFT_LUT_LE_SLOPE_UFLOW_SHIFT, CDP::S_LUT_LE_SLOPE_SHIFT_LUT_LE_SLOPE_OFLOW_SHIFT},
      {CDP::S_LUT_LO_SLOPE_SHIFT_LUT_LO_SLOPE_UFLOW_SHIFT, CDP::S_LUT_LO_SLOPE_SHIFT_LUT_LO_SLOPE_OFLOW_SHIFT}};
  for (int table = 0; table < 2; ++table) {
    for (int side = 0; side < 2; ++side) {
      lut.scale[table][side] = floating ? static_cast<int32_t>(cdp(scales[table][side])) : cdp.sign_extended(scales[table][side]);
      if (!floating) lut.shift[table][side] = cdp.sign_extended(shifts[table][side]);
    }
    if (!std::all_of(tables.written[table], tables.written[table] + LutMemory::size(table), [](bool done) { return done; }))
      cdp.refuse(CDP::S_LUT_ACCESS_DATA, std::string("entries of table ") + (table == kLe ? "LE" : "LO") + " were never written");
  }
}

int64_t table_integer(const Lut &lut, int64_t sum) {
  const Place place = place_of_integer(lut, sum);
  const int table = place.table;
  if (place.hit) {
    const int64_t low = lut.entry(table, place.index), high = lut.entry(table, place.index + 1);
    return saturated(low + rounded((high - low) * place.fraction, kFraction), 16);
  }
  const bool under = place.side == kUnder;
  int64_t bound = under ? lut.start[table] : lut.end[table];
  if (below_exponential(lut, place) && lut.offset >= 0) bound += int64_t{1} << lut.offset;
  const int64_t product = (sum - bound) * lut.scale[table][place.side];
  const int shift = lut.shift[table][place.side];
  const int64_t slope = shift >= 0 ? rounded(product, shift) : shifted_left(product, -shift, 62);
  return saturated(lut.entry(table, under ? 0 : LutMemory::size(table) - 1) + slope, 16);
}

uint32_t table_fp17(const Lut &lut, uint32_t sum) {
  const Place place = place_of_fp32(lut, sum);
  const int table = place.table;
  const auto entry = [&](int index) { return converted<Fp17, Fp16>(lut.half(table, index)); };
  if (place.hit) {
    const uint32_t low = converted<Fp32, Fp16>(lut.half(table, place.index));
    const uint32_t high = converted<Fp32, Fp16>(lut.half(table, place.index + 1));
    const uint32_t part = Fp17::rounded(static_cast<double>(place.fraction) * power_of_two(-kFraction));
    return Fp17::add(Fp17::multiply(converted<Fp17, Fp32>(Fp32::subtract(high, low)), part), entry(place.index));
  }
  const bool under = place.side == kUnder;
  uint32_t bound = static_cast<uint32_t>(under ? lut.start[table] : lut.end[table]);
  if (below_exponential(lut, place)) bound = Fp32::add(bound, Fp32::rounded(power_of_two(lut.offset), true));
  const uint32_t distance = converted<Fp17, Fp32>(Fp32::subtract(sum, bound));
  const uint32_t slope = converted<Fp17, Fp16>(static_cast<uint32_t>(lut.scale[table][place.side]));
  return Fp17::add(Fp17::multiply(distance, slope), entry(under ? 0 : LutMemory::size(table) - 1));
}

// One position: lanes of values, with zeros beyond the channels.
void respond_integers(const CdpPlan &plan, const int32_t *from, int32_t *to, std::size_t lanes) {
  const int bits = plan.precision == kInt8 ? 9 : 17;
  std::vector<int64_t> values(lanes + 2 * plan.reach);
  for (std::size_t i = 0; i < plan.channels; ++i)
    values[plan.reach + i] = saturated(rounded((from[i] - plan.in_offset) * plan.in_scale, plan.in_shift), bits);
  for (std::size_t i = 0; i < lanes; ++i) {
    const int64_t own = values[plan.reach + i];
    int64_t sum = 0;
    for (std::size_t j = i; j <= i + 2 * plan.reach; ++j) sum += values[j] * values[j];
    const int64_t table = table_integer(plan.lut, plan.keeps_sum ? own : sum);
    const int64_t product = plan.keeps_table ? table : table * own;
    to[i] = static_cast<int32_t>(saturated(rounded((product - plan.out_offset) * plan.out_scale, plan.out_shift), plan.precision == kInt8 ? 8 : 16));
  }
}

void respond_halves(const CdpPlan &plan, const int32_t *from, int32_t *to, std::size_t lanes) {
  std::vector<uint32_t> values(lanes + 2 * plan.reach), squares(values.size());
  for (std::size_t i = 0; i < plan.channels; ++i) {
    const uint32_t half = static_cast<uint16_t>(from[i]);
    values[plan.reach + i] = plan.flushes_nan && Fp16::is_nan(half) ? 0 : converted<Fp17, Fp16>(half);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const uint32_t single = converted<Fp32, Fp17>(values[i]);
    squares[i] = Fp32::multiply(single, single);
  }
  for (std::size_t i = 0; i < lanes; ++i) {
    const uint32_t own = values[plan.reach + i], *square = squares.data() + plan.reach + i;
    uint32_t sum = Fp32::add(Fp32::add(square[-1], square[1]), square[0]);
    for (std::size_t j = 2; j <= plan.reach; ++j) sum = Fp32::add(sum, Fp32::add(square[-static_cast<int>(j)], square[j]));
    const uint32_t table = table_fp17(plan.lut, plan.keeps_sum ? converted<Fp32, Fp17>(own) : sum);
    uint32_t result = plan.keeps_table ? table : Fp17::multiply(own, table);
    if (plan.keeps_table && Fp17::is_nan(own)) result = own;
    to[i] = static_cast<int32_t>(converted<Fp16, Fp17>(result));
  }
}

}  // namespace

CdpPlan plan_cdp(const Parts &parts, const Group &cdp, const Group &rdma, const LutMemory &tables) {
  const uint32_t atom = parts.configuration.atom_bytes;
  CdpPlan plan;
  check_precision(parts.configuration, cdp, CDP::D_DATA_FORMAT);
  plan.precision = cdp(CDP::D_DATA_FORMAT);
  rdma.must_be(CDP_RDMA::D_DATA_FORMAT, rdma(CDP_RDMA::D_DATA_FORMAT), plan.precision, "the precision, by CDP,");
  plan.width = rdma.count(CDP_RDMA::D_DATA_CUBE_WIDTH);
  plan.height = rdma.count(CDP_RDMA::D_DATA_CUBE_HEIGHT);
  plan.channels = rdma.count(CDP_RDMA::D_DATA_CUBE_CHANNEL);
  plan.reach = cdp.count(CDP::D_LRN_CFG);
  plan.keeps_sum = cdp(CDP::D_FUNC_BYPASS_SQSUM_BYPASS);
  plan.keeps_table = cdp(CDP::D_FUNC_BYPASS_MUL_BYPASS);
  plan.flushes_nan = cdp.or_zero(CDP::D_NAN_FLUSH_TO_ZERO);
  if (plan.precision != kFp16) {
    const int32_t offset = cdp.sign_extended(CDP::D_DATIN_OFFSET);
    plan.in_offset = plan.precision == kInt8 ? static_cast<int8_t>(offset) : offset;
    plan.in_scale = cdp.sign_extended(CDP::D_DATIN_SCALE);
    plan.in_shift = cdp(CDP::D_DATIN_SHIFTER);
    plan.out_offset = cdp.sign_extended(CDP::D_DATOUT_OFFSET);
    plan.out_scale = cdp.sign_extended(CDP::D_DATOUT_SCALE);
    plan.out_shift = cdp(CDP::D_DATOUT_SHIFTER);
  }
  plan_lut(cdp, tables, plan);
  check_port(parts.configuration, rdma, CDP_RDMA::D_SRC_DMA_CFG);
  check_port(parts.configuration, cdp, CDP::D_DST_DMA_CFG);
  const Cube cube = feature_cube(plan.width, plan.height, plan.channels, plan.precision, atom);
  plan.source = placed(cube, rdma, CDP_RDMA::D_SRC_BASE_ADDR_HIGH, CDP_RDMA::D_SRC_BASE_ADDR_LOW, CDP_RDMA::D_SRC_LINE_STRIDE,
                       CDP_RDMA::D_SRC_SURFACE_STRIDE);
  plan.destination = placed(cube, cdp, CDP::D_DST_BASE_ADDR_HIGH, CDP::D_DST_BASE_ADDR_LOW, CDP::D_DST_LINE_STRIDE, CDP::D_DST_SURFACE_STRIDE);
  parts.memory.check(plan.source, atom);
  parts.memory.check(plan.destination, atom);
  check_apart(plan.destination, plan.source);
  return plan;
}

void run_cdp(const Parts &parts, const CdpPlan &plan) {
  const uint32_t atom = parts.configuration.atom_bytes;
  parallel(parts.threads, plan.height, [&](std::size_t y) {
    Map input(1, plan.width, plan.channels, atom), output = input;
    Cube source = plan.source, destination = plan.destination;
    source.address += y * source.line_stride;
    destination.address += y * destination.line_stride;
    read_line(parts.memory, source, plan.precision, atom, input, 0);
    for (std::size_t x = 0; x < plan.width; ++x) {
      const int32_t *from = input.values.data() + x * input.lanes;
      int32_t *to = output.values.data() + x * input.lanes;
      if (plan.precision == kFp16)
        respond_halves(plan, from, to, input.lanes);
      else
        respond_integers(plan, from, to, input.lanes);
    }
    write_line(parts.memory, destination, plan.precision, atom, output, 0);
  });
}

}  // namespace nvdla
