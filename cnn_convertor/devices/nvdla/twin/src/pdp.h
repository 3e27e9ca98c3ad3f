// PDP: pooling.
#ifndef NVDLA_PDP_H
#define NVDLA_PDP_H

#include <cstdint>

#include "engine.h"

namespace nvdla {

enum PoolingMethod : uint32_t { kAverage, kMaximum, kMinimum };

struct PdpPlan {
  bool flying = false, flushes_nan = false;
  uint32_t method = kAverage, precision = kInt8;
  std::size_t width = 0, height = 0, channels = 0, out_width = 0, out_height = 0;
  std::size_t kernel_width = 1, kernel_height = 1, stride_x = 1, stride_y = 1, pad_left = 0, pad_top = 0;
  int64_t pad_values[8] = {};  // of 0 to 7 elements of padding
  uint32_t reciprocals[2] = {};  // of width and height; bits of fp17 for halves
  Cube source, destination;
};

// rdma: null on the fly. Refuses what disagrees.
PdpPlan plan_pdp(const Parts &parts, const Group &pdp, const Group *rdma);

// flying: what comes from SDP, or null.
void run_pdp(const Parts &parts, const PdpPlan &plan, const Map *flying);

}  // namespace nvdla

#endif
