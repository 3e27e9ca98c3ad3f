// Operations that round nothing to FP16: a half at byte b of memory is the float at byte 2b, and the formulas are plain ones. Maps hold
// the bits of floats.
#ifndef NVDLA_EXACT_H
#define NVDLA_EXACT_H

#include <cstdint>
#include <functional>

#include "cdp.h"
#include "conv.h"
#include "pdp.h"
#include "sdp.h"

namespace nvdla {

Map convolve_exactly(const Parts &parts, const Convolution &convolution, const std::vector<float> &input,
                     const std::vector<float> &weights);
SdpResult run_sdp_exactly(const Parts &parts, const SdpPlan &plan, const Map *flying);
void run_pdp_exactly(const Parts &parts, const PdpPlan &plan, const Map *flying);
void run_cdp_exactly(const Parts &parts, const CdpPlan &plan);

// A function by its number, which named_functions.py gives. Raises Refusal.
std::function<double(double)> exact_function(uint32_t number, const float *parameters);

}  // namespace nvdla

#endif
