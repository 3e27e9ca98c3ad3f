#include "sdp.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace nvdla {
namespace {

// The registers of one of the three units, with those of its RDMA.
struct UnitFields {
  Field bypass, alu_bypass, algorithm, mul_bypass, prelu, last_bypass, alu_source, mul_source, alu_value, mul_value;
  Field disable, use, size, mode, port, high, low, line, surface;
};

// LAST: what the last bit of the unit's configuration bypasses.
#define UNIT_FIELDS(UNIT, RDMA, LAST)                                                                         \
  {SDP::D_DP_##UNIT##_CFG_##UNIT##_BYPASS, SDP::D_DP_##UNIT##_CFG_##UNIT##_ALU_BYPASS,                        \
   SDP::D_DP_##UNIT##_CFG_##UNIT##_ALU_ALGO, SDP::D_DP_##UNIT##_CFG_##UNIT##_MUL_BYPASS,                      \
   SDP::D_DP_##UNIT##_CFG_##UNIT##_MUL_PRELU, SDP::D_DP_##UNIT##_CFG_##UNIT##_##LAST##_BYPASS,                \
   SDP::D_DP_##UNIT##_ALU_CFG_##UNIT##_ALU_SRC, SDP::D_DP_##UNIT##_MUL_CFG_##UNIT##_MUL_SRC,                  \
   SDP::D_DP_##UNIT##_ALU_SRC_VALUE, SDP::D_DP_##UNIT##_MUL_SRC_VALUE,                                        \
   SDP_RDMA::D_##RDMA##_CFG_##RDMA##_DISABLE, SDP_RDMA::D_##RDMA##_CFG_##RDMA##_DATA_USE,                     \
   SDP_RDMA::D_##RDMA##_CFG_##RDMA##_DATA_SIZE, SDP_RDMA::D_##RDMA##_CFG_##RDMA##_DATA_MODE,                  \
   SDP_RDMA::D_##RDMA##_CFG_##RDMA##_RAM_TYPE, SDP_RDMA::D_##UNIT##_BASE_ADDR_HIGH,                           \
   SDP_RDMA::D_##UNIT##_BASE_ADDR_LOW, SDP_RDMA::D_##UNIT##_LINE_STRIDE, SDP_RDMA::D_##UNIT##_SURFACE_STRIDE}

constexpr UnitFields kUnits[] = {UNIT_FIELDS(BS, BRDMA, RELU), UNIT_FIELDS(BN, NRDMA, RELU), UNIT_FIELDS(EW, ERDMA, LUT)};
constexpr const UnitFields &kY = kUnits[2];
#undef UNIT_FIELDS

enum Use : uint32_t { kUseMul, kUseAlu, kUseBoth };

bool alu_in_memory(const Group &sdp, const UnitFields &f) {
  return !sdp(f.bypass) && !sdp(f.alu_bypass) && sdp(f.alu_source);
}

bool mul_in_memory(const Group &sdp, const UnitFields &f) {
  return !sdp(f.bypass) && !sdp(f.mul_bypass) && sdp(f.mul_source);
}

// The number in a register: X has 16 bits, a half or an integer; Y has 32, fp32 or an integer.
int64_t register_operand(const Group &sdp, const Field &field, bool y, bool floating) {
  if (!floating) return sdp.sign_extended(field);
  return y ? sdp(field) : converted<Fp32, Fp16>(sdp(field));
}

// Where a unit's operands come from. Refuses RDMA settings that do not serve them.
OperandData plan_data(const Parts &parts, const SdpPlan &plan, const Unit &unit, const UnitFields &f, const Group &rdma) {
  OperandData data;
  data.used = unit.alu.in_memory || unit.mul.in_memory;
  if (!data.used) return data;
  rdma.must_be(f.disable, rdma(f.disable), 0, "the flag, as the unit takes operands from memory,");
  check_port(parts.configuration, rdma, f.port);
  const uint32_t use = rdma(f.use);
  if (use > kUseBoth || (unit.alu.in_memory && use == kUseMul) || (unit.mul.in_memory && use == kUseAlu))
    rdma.refuse(f.use, "the unit takes other operands from memory");
  data.parts = use == kUseBoth ? 2 : 1;
  data.size = rdma(f.size) + 1;
  if (plan.floating() && data.size == 1) rdma.refuse(f.size, "halves have two bytes");
  data.per_element = rdma(f.mode);
  const uint32_t atom = parts.configuration.atom_bytes, lanes = plan.processing == kInt8 ? atom : atom / 2;
  const uint64_t pixel = uint64_t{lanes} * data.parts * data.size;
  data.cube = placed(Cube(), rdma, f.high, f.low, f.line, f.surface);
  data.cube.line_bytes = data.per_element ? plan.width * pixel : pixel;
  data.cube.lines = data.per_element ? plan.height : 1;
  data.cube.surfaces = (plan.channels + lanes - 1) / lanes;
  // Applications keep only the channels that there are, though the device reads whole atoms.
  if (!data.per_element) data.cube.unused_bytes = (data.cube.surfaces * lanes - plan.channels) * data.parts * data.size;
  if (plan.width == 1 && plan.height == 1)
    rdma.must_be(f.surface, data.cube.surface_stride, pixel, "the stride of a map of one position");
  parts.memory.check(data.cube, atom);
  return data;
}

Unit plan_x(const Group &sdp, const UnitFields &f, const Field &alu_shift, const Field &mul_shift, bool floating) {
  Unit unit;
  unit.active = !sdp(f.bypass);
  if (!unit.active) return unit;
  unit.alu.used = !sdp(f.alu_bypass);
  unit.mul.used = !sdp(f.mul_bypass);
  unit.relu = !sdp(f.last_bypass);
  unit.prelu = unit.mul.used && sdp(f.prelu);
  unit.algorithm = sdp(f.algorithm);
  if (!floating && unit.alu.used) unit.alu_shift = sdp(alu_shift);
  if (!floating) {
    unit.mul_shift = sdp.or_zero(mul_shift);
    sdp.at_most(mul_shift, unit.mul_shift, 63, "the shift");
  }
  return unit;
}

Unit plan_y(const Configuration &configuration, const Group &sdp, bool floating) {
  Unit unit;
  unit.active = !sdp(kY.bypass);
  if (!unit.active) return unit;
  if (!configuration.y) sdp.refuse(kY.bypass, configuration.name + " has no unit Y (EW)");
  unit.alu.used = !sdp(kY.alu_bypass);
  unit.mul.used = !sdp(kY.mul_bypass);
  unit.lut = !sdp(kY.last_bypass);
  if (unit.lut && !configuration.lut) sdp.refuse(kY.last_bypass, configuration.name + " has no table (LUT)");
  unit.prelu = unit.mul.used && sdp(kY.prelu);
  unit.algorithm = sdp(kY.algorithm);
  if (unit.mul.used && !floating) {
    unit.mul_shift = sdp(SDP::D_DP_EW_TRUNCATE_VALUE);
    sdp.at_most(SDP::D_DP_EW_TRUNCATE_VALUE, unit.mul_shift, 63, "the shift");
  }
  return unit;
}

void plan_operands(const Group &sdp, const UnitFields &f, bool y, bool floating, Unit &unit) {
  if (unit.alu.used) {
    unit.alu.in_memory = sdp(f.alu_source);
    if (!unit.alu.in_memory) unit.alu.value = register_operand(sdp, f.alu_value, y, floating);
  }
  if (unit.mul.used) {
    unit.mul.in_memory = sdp(f.mul_source);
    if (!unit.mul.in_memory) unit.mul.value = register_operand(sdp, f.mul_value, y, floating);
  }
  if (!y || floating) return;
  if (unit.alu.in_memory && !sdp(SDP::D_DP_EW_ALU_CFG_EW_ALU_CVT_BYPASS)) {
    unit.alu.converts = true;
    unit.alu.offset = sdp.sign_extended(SDP::D_DP_EW_ALU_CVT_OFFSET_VALUE);
    unit.alu.scale = sdp.sign_extended(SDP::D_DP_EW_ALU_CVT_SCALE_VALUE);
    unit.alu.truncate = sdp(SDP::D_DP_EW_ALU_CVT_TRUNCATE_VALUE);
  }
  if (unit.mul.in_memory && !sdp(SDP::D_DP_EW_MUL_CFG_EW_MUL_CVT_BYPASS)) {
    unit.mul.converts = true;
    unit.mul.offset = sdp.sign_extended(SDP::D_DP_EW_MUL_CVT_OFFSET_VALUE);
    unit.mul.scale = sdp.sign_extended(SDP::D_DP_EW_MUL_CVT_SCALE_VALUE);
    unit.mul.truncate = sdp(SDP::D_DP_EW_MUL_CVT_TRUNCATE_VALUE);
  }
}

Lut plan_lut(const Group &sdp, const LutMemory &tables, bool floating) {
  Lut lut;
  lut.memory = &tables;
  lut.fraction = 35;
  lut.exponential = !sdp(SDP::S_LUT_CFG_LUT_LE_FUNCTION);
  lut.priority_under = sdp(SDP::S_LUT_CFG_LUT_UFLOW_PRIORITY);
  lut.priority_over = sdp(SDP::S_LUT_CFG_LUT_OFLOW_PRIORITY);
  lut.priority_hybrid = sdp(SDP::S_LUT_CFG_LUT_HYBRID_PRIORITY);
  lut.offset = sdp.sign_extended(SDP::S_LUT_INFO_LUT_LE_INDEX_OFFSET);
  lut.select[kLe] = sdp.sign_extended(SDP::S_LUT_INFO_LUT_LE_INDEX_SELECT);
  lut.select[kLo] = sdp.sign_extended(SDP::S_LUT_INFO_LUT_LO_INDEX_SELECT);
  if (!floating && lut.exponential && lut.offset > 32)
    sdp.refuse(SDP::S_LUT_INFO_LUT_LE_INDEX_OFFSET, text(lut.offset) + " is beyond every difference of 32 bits");
  const Field starts[] = {SDP::S_LUT_LE_START, SDP::S_LUT_LO_START}, ends[] = {SDP::S_LUT_LE_END, SDP::S_LUT_LO_END};
  const Field scales[2][2] = {
      {SDP::S_LUT_LE_SLOPE_SCALE_LUT_LE_SLOPE_UFLOW_SCALE, SDP::S_LUT_LE_SLOPE_SCALE_LUT_LE_SLOPE_OFLOW_SCALE},
      {SDP::S_LUT_LO_SLOPE_SCALE_LUT_LO_SLOPE_UFLOW_SCALE, SDP::S_LUT_LO_SLOPE_SCALE_LUT_LO_SLOPE_OFLOW_SCALE}};
  const Field shifts[2][2] = {
      {SDP::S_LUT_LE_SLOPE_SHIFT_LUT_LE_SLOPE_UFLOW_SHIFT, SDP::S_LUT_LE_SLOPE_SHIFT_LUT_LE_SLOPE_OFLOW_SHIFT},
      {SDP::S_LUT_LO_SLOPE_SHIFT_LUT_LO_SLOPE_UFLOW_SHIFT, SDP::S_LUT_LO_SLOPE_SHIFT_LUT_LO_SLOPE_OFLOW_SHIFT}};
  for (int table = 0; table < 2; ++table) {
    lut.start[table] = floating ? int64_t{sdp(starts[table])} : sdp.sign_extended(starts[table]);
    lut.end[table] = floating ? int64_t{sdp(ends[table])} : sdp.sign_extended(ends[table]);
    for (int side = 0; side < 2; ++side) {
      lut.scale[table][side] = floating ? static_cast<int32_t>(sdp(scales[table][side])) : sdp.sign_extended(scales[table][side]);
      if (!floating) lut.shift[table][side] = sdp.sign_extended(shifts[table][side]);
    }
    if (!std::all_of(tables.written[table], tables.written[table] + LutMemory::size(table), [](bool done) { return done; }))
      sdp.refuse(SDP::S_LUT_ACCESS_DATA, std::string("entries of table ") + (table == kLe ? "LE" : "LO") + " were never written");
  }
  return lut;
}

void check_rdma(const SdpPlan &plan, const Group &rdma) {
  rdma.must_be(SDP_RDMA::D_DATA_CUBE_WIDTH, rdma.count(SDP_RDMA::D_DATA_CUBE_WIDTH), plan.width, "the width, by SDP,");
  rdma.must_be(SDP_RDMA::D_DATA_CUBE_HEIGHT, rdma.count(SDP_RDMA::D_DATA_CUBE_HEIGHT), plan.height, "the height, by SDP,");
  rdma.must_be(SDP_RDMA::D_DATA_CUBE_CHANNEL, rdma.count(SDP_RDMA::D_DATA_CUBE_CHANNEL), plan.channels, "the number of channels, by SDP,");
  rdma.must_be(SDP_RDMA::D_FEATURE_MODE_CFG_FLYING_MODE, rdma(SDP_RDMA::D_FEATURE_MODE_CFG_FLYING_MODE), plan.flying, "the mode, by SDP,");
  rdma.must_be(SDP_RDMA::D_FEATURE_MODE_CFG_WINOGRAD, rdma(SDP_RDMA::D_FEATURE_MODE_CFG_WINOGRAD), 0, "the mode (the twin has no Winograd convolutions)");
  rdma.must_be(SDP_RDMA::D_FEATURE_MODE_CFG_BATCH_NUMBER, rdma.count(SDP_RDMA::D_FEATURE_MODE_CFG_BATCH_NUMBER), 1, "the batch (the twin has no batches)");
  rdma.must_be(SDP_RDMA::D_FEATURE_MODE_CFG_PROC_PRECISION, rdma(SDP_RDMA::D_FEATURE_MODE_CFG_PROC_PRECISION), plan.processing, "the precision, by SDP,");
  rdma.must_be(SDP_RDMA::D_FEATURE_MODE_CFG_OUT_PRECISION, rdma(SDP_RDMA::D_FEATURE_MODE_CFG_OUT_PRECISION), plan.out, "the precision, by SDP,");
}

void plan_formats(const Configuration &configuration, const Group &sdp, SdpPlan &plan) {
  check_precision(configuration, sdp, SDP::D_DATA_FORMAT_PROC_PRECISION);
  check_precision(configuration, sdp, SDP::D_DATA_FORMAT_OUT_PRECISION);
  plan.processing = sdp(SDP::D_DATA_FORMAT_PROC_PRECISION);
  plan.out = sdp(SDP::D_DATA_FORMAT_OUT_PRECISION);
  if (plan.floating() && plan.out == kInt8) sdp.refuse(SDP::D_DATA_FORMAT_OUT_PRECISION, "halves become halves or int16, not int8");
  sdp.must_be(SDP::D_FEATURE_MODE_CFG_WINOGRAD, sdp(SDP::D_FEATURE_MODE_CFG_WINOGRAD), 0, "the mode (the twin has no Winograd convolutions)");
  sdp.must_be(SDP::D_FEATURE_MODE_CFG_BATCH_NUMBER, sdp.count(SDP::D_FEATURE_MODE_CFG_BATCH_NUMBER), 1, "the batch (the twin has no batches)");
  plan.flushes_nan = sdp(SDP::D_FEATURE_MODE_CFG_NAN_TO_ZERO);
  if (plan.floating()) return;
  plan.offset = sdp.sign_extended(SDP::D_CVT_OFFSET);
  plan.scale = sdp.sign_extended(SDP::D_CVT_SCALE);
  plan.shift = sdp(SDP::D_CVT_SHIFT);
}

// A comparison writes nothing, and compares what the converter would pass.
void check_comparison(const Group &sdp, const SdpPlan &plan) {
  if (plan.to_pdp) sdp.refuse(SDP::D_DP_EW_CFG_EW_ALU_ALGO, "a comparison has no output for PDP");
  if (plan.floating()) return;
  sdp.must_be(SDP::D_CVT_OFFSET, static_cast<uint32_t>(plan.offset), 0, "the offset of a comparison");
  sdp.must_be(SDP::D_CVT_SCALE, static_cast<uint32_t>(plan.scale), 1, "the scale of a comparison");
  sdp.must_be(SDP::D_CVT_SHIFT, plan.shift, 0, "the shift of a comparison");
}

// The operands of a line: ALU's and multiplier's, of every lane.
struct OperandLines {
  std::vector<int32_t> alu, mul;
};

int32_t number(const uint8_t *from, uint32_t size) {
  if (size == 1) return static_cast<int8_t>(*from);
  int16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

int32_t prepared(const SdpPlan &plan, const Operand &operand, unsigned shift, int32_t value) {
  if (plan.floating()) {
    const uint32_t bits = converted<Fp32, Fp16>(static_cast<uint16_t>(value));
    return plan.flushes_nan && Fp32::is_nan(bits) ? 0 : static_cast<int32_t>(bits);
  }
  if (operand.converts)
    return static_cast<int32_t>(saturated(rounded((value - operand.offset) * operand.scale, operand.truncate), 32));
  return static_cast<int32_t>(shifted_left(value, shift, 32));
}

void read_part(const Parts &parts, const SdpPlan &plan, const Unit &unit, std::size_t y, bool alu, std::vector<int32_t> &to) {
  const OperandData &data = unit.data;
  const std::size_t atom = parts.configuration.atom_bytes, lanes = plan.processing == kInt8 ? atom : atom / 2;
  const std::size_t all = rounded_up(plan.channels, atom), pixel = lanes * data.parts * data.size;
  const std::size_t part = alu || data.parts == 1 ? 0 : data.size;
  const Operand &operand = alu ? unit.alu : unit.mul;
  const unsigned shift = alu ? unit.alu_shift : 0;
  const std::size_t positions = data.per_element ? plan.width : 1;
  std::vector<uint8_t> line(data.cube.line_bytes);
  for (std::size_t surface = 0; surface < data.cube.surfaces; ++surface) {
    const uint64_t address = data.cube.line(surface, data.per_element ? y : 0);
    const uint8_t *from = parts.memory.at(address, data.cube.line_bytes);
    if (!from) {  // the end of the last atom
      const uint64_t needed = data.cube.needed(surface);
      std::memcpy(line.data(), parts.memory.at(address, needed), needed);
      from = line.data();
    }
    for (std::size_t x = 0; x < positions; ++x)
      for (std::size_t i = 0; i < lanes; ++i) {
        const int32_t value = number(from + x * pixel + i * data.parts * data.size + part, data.size);
        to[x * all + surface * lanes + i] = prepared(plan, operand, shift, value);
      }
  }
  for (std::size_t x = positions; x < plan.width; ++x) std::copy(to.begin(), to.begin() + all, to.begin() + x * all);
}

OperandLines operands_of(const Parts &parts, const SdpPlan &plan, const Unit &unit, std::size_t y) {
  OperandLines lines;
  const std::size_t count = plan.width * rounded_up(plan.channels, parts.configuration.atom_bytes);
  for (const bool alu : {true, false}) {
    const Operand &operand = alu ? unit.alu : unit.mul;
    std::vector<int32_t> &to = alu ? lines.alu : lines.mul;
    if (!operand.used) continue;
    int64_t value = operand.value;
    if (alu && !plan.floating()) value = shifted_left(value, unit.alu_shift, 32);
    to.assign(count, operand.in_memory ? 0 : static_cast<int32_t>(value));
    if (operand.in_memory) read_part(parts, plan, unit, y, alu, to);
  }
  return lines;
}

bool run_integers(const SdpPlan &plan, const OperandLines *operands, Map &line) {
  std::vector<int64_t> values(line.values.begin(), line.values.end());
  for (int i = 0; i < 2; ++i)
    if (plan.units[i].active)
      unit_x_integers(plan.units[i], operands[i].alu.data(), operands[i].mul.data(), values.data(), values.size());
  if (plan.units[2].active) unit_y_integers(plan, operands[2].alu.data(), operands[2].mul.data(), values.data(), values.size());
  bool different = false;
  if (plan.compares())
    for (std::size_t x = 0; x < line.width; ++x)
      for (std::size_t i = 0; i < line.channels; ++i) different = different || values[x * line.lanes + i];
  for (std::size_t i = 0; i < values.size(); ++i) line.values[i] = convert_integer(plan, values[i]);
  return different;
}

bool run_floats(const SdpPlan &plan, const OperandLines *operands, Map &line) {
  std::vector<uint32_t> values(line.values.begin(), line.values.end());
  const auto bits = [](const std::vector<int32_t> &of) { return reinterpret_cast<const uint32_t *>(of.data()); };
  if (plan.flushes_nan)
    for (uint32_t &value : values)
      if (Fp32::is_nan(value)) value = 0;
  for (int i = 0; i < 3; ++i)
    if (plan.units[i].active)
      unit_floats(plan, plan.units[i], i == 2, bits(operands[i].alu), bits(operands[i].mul), values.data(), values.size());
  bool different = false;
  if (plan.compares())
    for (std::size_t x = 0; x < line.width; ++x)
      for (std::size_t i = 0; i < line.channels; ++i) different = different || values[x * line.lanes + i];
  for (std::size_t i = 0; i < values.size(); ++i) line.values[i] = convert_float(plan, values[i]);
  return different;
}

}  // namespace

bool needs_rdma(const Group &sdp) {
  if (!sdp(SDP::D_FEATURE_MODE_CFG_FLYING_MODE)) return true;
  for (const UnitFields &fields : kUnits)
    if (alu_in_memory(sdp, fields) || mul_in_memory(sdp, fields)) return true;
  return false;
}

SdpPlan plan_sdp(const Parts &parts, const Group &sdp, const Group *rdma, const LutMemory &tables) {
  const Configuration &configuration = parts.configuration;
  SdpPlan plan;
  plan.flying = sdp(SDP::D_FEATURE_MODE_CFG_FLYING_MODE);
  plan.to_pdp = sdp(SDP::D_FEATURE_MODE_CFG_OUTPUT_DST);
  plan.width = sdp.count(SDP::D_DATA_CUBE_WIDTH);
  plan.height = sdp.count(SDP::D_DATA_CUBE_HEIGHT);
  plan.channels = sdp.count(SDP::D_DATA_CUBE_CHANNEL);
  plan_formats(configuration, sdp, plan);
  const bool floating = plan.floating();
  plan.units[0] = plan_x(sdp, kUnits[0], SDP::D_DP_BS_ALU_CFG_BS_ALU_SHIFT_VALUE, SDP::D_DP_BS_MUL_CFG_BS_MUL_SHIFT_VALUE, floating);
  plan.units[1] = plan_x(sdp, kUnits[1], SDP::D_DP_BN_ALU_CFG_BN_ALU_SHIFT_VALUE, SDP::D_DP_BN_MUL_CFG_BN_MUL_SHIFT_VALUE, floating);
  plan.units[2] = plan_y(configuration, sdp, floating);
  for (int i = 0; i < 3; ++i) plan_operands(sdp, kUnits[i], i == 2, floating, plan.units[i]);
  if (plan.units[2].lut) plan.lut = plan_lut(sdp, tables, floating);
  if (rdma) {
    check_rdma(plan, *rdma);
    for (int i = 0; i < 3; ++i) plan.units[i].data = plan_data(parts, plan, plan.units[i], kUnits[i], *rdma);
  }
  plan.in = plan.processing;
  if (!plan.flying) {
    check_port(configuration, *rdma, SDP_RDMA::D_SRC_DMA_CFG);
    rdma->must_be(SDP_RDMA::D_FEATURE_MODE_CFG_IN_PRECISION, (*rdma)(SDP_RDMA::D_FEATURE_MODE_CFG_IN_PRECISION), plan.processing, "the precision, by PROC_PRECISION,");
    plan.source = placed(feature_cube(plan.width, plan.height, plan.channels, plan.in, configuration.atom_bytes), *rdma,
                         SDP_RDMA::D_SRC_BASE_ADDR_HIGH, SDP_RDMA::D_SRC_BASE_ADDR_LOW, SDP_RDMA::D_SRC_LINE_STRIDE,
                         SDP_RDMA::D_SRC_SURFACE_STRIDE);
    parts.memory.check(plan.source, configuration.atom_bytes);
  }
  if (plan.compares()) check_comparison(sdp, plan);
  if (plan.to_pdp || plan.compares()) return plan;
  check_port(configuration, sdp, SDP::D_DST_DMA_CFG);
  plan.destination = placed(feature_cube(plan.width, plan.height, plan.channels, plan.out, configuration.atom_bytes), sdp,
                            SDP::D_DST_BASE_ADDR_HIGH, SDP::D_DST_BASE_ADDR_LOW, SDP::D_DST_LINE_STRIDE, SDP::D_DST_SURFACE_STRIDE);
  parts.memory.check(plan.destination, configuration.atom_bytes);
  // Each element may take the place of one that it is made of, and of no other.
  const auto check = [&](const Cube &input) {
    const bool same = input.address == plan.destination.address && input.line_bytes == plan.destination.line_bytes &&
                      input.line_stride == plan.destination.line_stride && input.surface_stride == plan.destination.surface_stride;
    if (!same || input.lines != plan.destination.lines || input.surfaces != plan.destination.surfaces)
      check_apart(plan.destination, input);
  };
  if (!plan.flying) check(plan.source);
  for (const Unit &unit : plan.units)
    if (unit.data.used) check(unit.data.cube);
  return plan;
}

SdpResult run_sdp(const Parts &parts, const SdpPlan &plan, const Map *flying) {
  const uint32_t atom = parts.configuration.atom_bytes;
  SdpResult result;
  result.map = Map(plan.height, plan.width, plan.channels, atom);
  OperandLines constant[3];
  for (int i = 0; i < 3; ++i)
    if (!plan.units[i].data.per_element) constant[i] = operands_of(parts, plan, plan.units[i], 0);
  std::atomic<bool> different{false};
  parallel(parts.threads, plan.height, [&](std::size_t y) {
    Map line(1, plan.width, plan.channels, atom);
    if (flying) {
      std::copy(flying->line(y), flying->line(y) + line.values.size(), line.values.begin());
    } else {
      Cube cube = plan.source;
      cube.address += y * cube.line_stride;
      read_line(parts.memory, cube, plan.in, atom, line, 0);
      if (plan.floating())
        for (int32_t &value : line.values) value = static_cast<int32_t>(converted<Fp32, Fp16>(static_cast<uint32_t>(value)));
    }
    OperandLines own[3];
    const OperandLines *operands = constant;
    if (plan.units[0].data.per_element || plan.units[1].data.per_element || plan.units[2].data.per_element) {
      for (int i = 0; i < 3; ++i) own[i] = plan.units[i].data.per_element ? operands_of(parts, plan, plan.units[i], y) : constant[i];
      operands = own;
    }
    if (plan.floating() ? run_floats(plan, operands, line) : run_integers(plan, operands, line)) different = true;
    std::copy(line.values.begin(), line.values.end(), result.map.line(y));
    if (!plan.to_pdp && !plan.compares()) write_line(parts.memory, plan.destination, plan.out, atom, result.map, y);
  });
  result.different = different;
  return result;
}

}  // namespace nvdla
