// CDP: local response over channels, with its own tables.
#ifndef NVDLA_CDP_H
#define NVDLA_CDP_H

#include <cstdint>

#include "engine.h"
#include "lut.h"

namespace nvdla {

struct CdpPlan {
  uint32_t precision = kInt8;
  std::size_t width = 0, height = 0, channels = 0, reach = 1;  // reach: channels to each side
  bool keeps_sum = false, keeps_table = false, flushes_nan = false;  // no squares; no product with the input
  int64_t in_offset = 0, in_scale = 1, out_offset = 0, out_scale = 1;
  unsigned in_shift = 0, out_shift = 0;
  Lut lut;
  Cube source, destination;
};

CdpPlan plan_cdp(const Parts &parts, const Group &cdp, const Group &rdma, const LutMemory &tables);
void run_cdp(const Parts &parts, const CdpPlan &plan);

}  // namespace nvdla

#endif
