// A convolution whose output SDP takes at once.
#ifndef NVDLA_FUSED_H
#define NVDLA_FUSED_H

#include <cstdint>
#include <vector>

#include "conv.h"
#include "sdp.h"

namespace nvdla {

// What goes from CACC to SDP. Halves may differ from the device's in the last bits of fp32, where SDP gives the same output for all
// that they can be.
Map convolve_for(const Parts &parts, const SdpPlan &plan, const Convolution &convolution, const std::vector<int16_t> &input,
                 const std::vector<int16_t> &weights);

}  // namespace nvdla

#endif
