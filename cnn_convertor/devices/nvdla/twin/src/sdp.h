// SDP: the units X1 (BS), X2 (BN) and Y (EW), the table, and the output converter.
#ifndef NVDLA_SDP_H
#define NVDLA_SDP_H

#include <cstdint>
#include <vector>

#include "engine.h"
#include "lut.h"

namespace nvdla {

enum Algorithm : uint32_t { kMax, kMin, kSum, kEqual };

// An operand of a unit: a register, or one part of what the unit's RDMA reads.
struct Operand {
  bool used = false, in_memory = false;
  int64_t value = 0;  // of the register: an integer, or bits of fp32
  bool converts = false;
  int64_t offset = 0, scale = 1;
  unsigned truncate = 0;
};

// Data of a unit's RDMA: of each channel, or of each element. parts: 1, or 2 with the ALU's before the multiplier's.
struct OperandData {
  bool used = false, per_element = false;
  uint32_t size = 1, parts = 1;  // size: bytes of one number
  Cube cube;
};

struct Unit {
  bool active = false, relu = false, prelu = false, lut = false;
  uint32_t algorithm = kSum;
  unsigned alu_shift = 0, mul_shift = 0;
  Operand alu, mul;
  OperandData data;
};

struct SdpPlan {
  bool flying = false, to_pdp = false, flushes_nan = false;
  uint32_t in = kInt8, processing = kInt8, out = kInt8;
  std::size_t width = 0, height = 0, channels = 0;
  Unit units[3];  // X1, X2, Y
  Lut lut;
  int64_t offset = 0, scale = 1;
  unsigned shift = 0;
  Cube source, destination;

  bool floating() const { return processing == kFp16; }
  bool compares() const { return units[2].alu.used && units[2].algorithm == kEqual; }
};

// Whether an operation reads anything from memory, and so needs SDP_RDMA.
bool needs_rdma(const Group &sdp);

// Checks the registers. rdma: null if the operation does not need it. Refuses what disagrees.
SdpPlan plan_sdp(const Parts &parts, const Group &sdp, const Group *rdma, const LutMemory &tables);

struct SdpResult {
  Map map;                  // what goes to PDP, or has been written
  bool different = false;   // of a comparison
};

// flying: what comes from CACC, or null.
SdpResult run_sdp(const Parts &parts, const SdpPlan &plan, const Map *flying);

// The units on values of a line, each with its operands.
void unit_x_integers(const Unit &unit, const int32_t *alu, const int32_t *mul, int64_t *values, std::size_t count);
void unit_y_integers(const SdpPlan &plan, const int32_t *alu, const int32_t *mul, int64_t *values, std::size_t count);
void unit_floats(const SdpPlan &plan, const Unit &unit, bool y, const uint32_t *alu, const uint32_t *mul, uint32_t *values,
                 std::size_t count);
int32_t convert_integer(const SdpPlan &plan, int64_t value);
int32_t convert_float(const SdpPlan &plan, uint32_t value);

}  // namespace nvdla

#endif
