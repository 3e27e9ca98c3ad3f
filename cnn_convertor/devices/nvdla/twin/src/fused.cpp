#include "fused.h"

namespace nvdla {
namespace {

// Whether an output between two equal outputs is the same: each unit rises or falls with its input.
bool is_monotonic(const SdpPlan &plan) {
  for (const Unit &unit : plan.units)
    if (unit.active && (unit.lut || unit.prelu || (unit.alu.used && unit.algorithm == kEqual))) return false;
  return true;
}

}  // namespace

Map convolve_for(const Parts &parts, const SdpPlan &plan, const Convolution &convolution, const std::vector<int16_t> &input,
                 const std::vector<int16_t> &weights) {
  if (convolution.precision != kFp16 || !is_monotonic(plan)) return convolve(parts, convolution, input, weights);
  const PaddedInput around = padded(convolution, input);
  Map low(convolution.out_height, convolution.out_width, convolution.kernels, parts.configuration.atom_bytes);
  Map high = low;
  if (!bound_halves(parts, convolution, around, weights, low, high)) return convolve(parts, convolution, input, weights);
  SdpPlan trial = plan;
  trial.to_pdp = true;  // writes nothing
  const Map first = run_sdp(parts, trial, &low).map, second = run_sdp(parts, trial, &high).map;
  std::vector<uint8_t> open(low.values.size());
  for (std::size_t i = 0; i < open.size(); ++i) open[i] = first.values[i] != second.values[i];
  settle_halves(parts, convolution, around, weights, open, low);
  return low;
}

}  // namespace nvdla
