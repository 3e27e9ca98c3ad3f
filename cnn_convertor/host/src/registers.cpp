#include "registers.h"

#include "fields.h"
#include "half.h"

namespace dv {
namespace {

// Positions of a window along one axis.
int slide(int input, int before, int after, int size, int stride, int dilation) {
  return (before + input + after - ((size - 1) * dilation + 1)) / stride + 1;
}

}  // namespace

std::map<const dmp_dv_cmdraw_conv_v0_run *, Parameters> &stated_parameters() {
  static std::map<const dmp_dv_cmdraw_conv_v0_run *, Parameters> parameters;
  return parameters;
}

Pair pair_of(uint16_t field) { return {field & 0xff, field >> 8}; }

Sides sides_of(uint32_t field) {
  const auto byte = [field](int index) { return static_cast<int>((field >> (8 * index)) & 0xffu); };
  return {byte(0), byte(1), byte(2), byte(3)};
}

Pair kernel_of(uint16_t field) {
  Pair size = pair_of(field);
  if (size.y == 0) size.y = size.x;
  return size;
}

Run run_of(const dmp_dv_cmdraw_conv_v0 &command, int index) {
  const dmp_dv_cmdraw_conv_v0_run &raw = command.run[index];
  Run run;
  run.convolves = raw.conv_enable != kConvOff;
  if (run.convolves) {
    run.depthwise = raw.conv_enable == kConvDepthwise || raw.conv_enable == kConvDepthwiseDeconv;
    run.deconvolution = raw.conv_enable == kConvDeconv || raw.conv_enable == kConvDepthwiseDeconv;
    run.conv.size = kernel_of(raw.p);
    run.conv.stride = pair_of(raw.conv_stride);
    run.conv.dilation = pair_of(raw.conv_dilation);
    if (run.conv.dilation.x == 0) run.conv.dilation.x = 1;
    if (run.conv.dilation.y == 0) run.conv.dilation.y = 1;
    run.conv.pad = sides_of(raw.conv_pad);
    run.weight_format = raw.weight_fmt == kWeightPalette8 ? WeightFormat::kPalette : WeightFormat::kFp16;
    run.weights_offset = raw.weight_buf.offs;
  }
  switch (raw.pool_enable) {
    case kPoolMax: run.pool = Pool::kMax; break;
    case kPoolAverage: run.pool = Pool::kAverage; break;
    case kPoolUpsample: run.pool = Pool::kUpsample; break;
    default: break;
  }
  if (run.pool == Pool::kMax || run.pool == Pool::kAverage) {
    run.window.size = pair_of(raw.pool_size);
    run.window.stride = pair_of(raw.pool_stride);
    run.window.pad = sides_of(raw.pool_pad);
    run.average_factor = widen(raw.pool_avg_param);
  }
  run.activation = static_cast<Activation>(raw.actfunc);
  run.slope = widen(raw.actfunc_param);
  run.absolute = raw.rectifi_en != 0;
  const auto stated = stated_parameters().find(&raw);
  if (stated != stated_parameters().end()) {
    run.average_factor = stated->second.average_factor;
    run.slope = stated->second.slope;
  }
  run.external = (command.topo >> index) & 1u;
  run.adds = run.external && command.output_mode == kOutputAdd;
  return run;
}

int run_count(uint32_t topo) {
  int count = 0;
  for (; topo; topo >>= 1) ++count;
  return count;
}

void infer_shapes(Run &run, const Shape &input, int channels) {
  run.input = run.convolved = input;
  if (run.convolves) {
    const Window &c = run.conv;
    const bool spread = run.deconvolution;
    const int width = spread ? (input.width - 1) * c.stride.x + 1 : input.width;
    const int height = spread ? (input.height - 1) * c.stride.y + 1 : input.height;
    run.convolved = {
        slide(width, c.pad.left, c.pad.right, c.size.x, spread ? 1 : c.stride.x, c.dilation.x),
        slide(height, c.pad.top, c.pad.bottom, c.size.y, spread ? 1 : c.stride.y, c.dilation.y), channels};
  }
  run.output = run.convolved;
  run.output.channels = channels;
  const Window &w = run.window;
  if (run.pool == Pool::kUpsample) {
    run.output.width *= 2;
    run.output.height *= 2;
  } else if (run.pool != Pool::kNone) {
    run.output.width = slide(run.convolved.width, w.pad.left, w.pad.right, w.size.x, w.stride.x, 1);
    run.output.height = slide(run.convolved.height, w.pad.top, w.pad.bottom, w.size.y, w.stride.y, 1);
  }
}

}  // namespace dv
