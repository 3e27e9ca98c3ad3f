#include "tiling.h"

#include <algorithm>

namespace dv {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// 16-byte units of a block of that many FP16 elements: blocks end where the next one meets another memory bank.
int64_t block_units(int64_t elements) {
  const int64_t units = ceil_div(elements, 8);
  return units + (18 - units % 16) % 16;
}

int64_t whole_units(int64_t block, int channels) { return ceil_div(block * ceil_div(channels, 8), 16) * 16; }

struct Extent {
  int64_t width, height;
};

Extent slide(Extent input, Extent size, Pair stride) {
  return {(input.width - size.width) / stride.x + 1, (input.height - size.height) / stride.y + 1};
}

// Output of a run's convolution over a strip.
Extent convolve(const Run &run, int64_t width, Extent kernel) {
  const Sides &pad = run.conv.pad;
  int64_t height = run.input.height;
  Pair stride = run.conv.stride;
  if (run.deconvolution) {
    width = (width - 1) * stride.x + 1;
    height = (height - 1) * stride.y + 1;
    stride = Pair();
  }
  return slide({pad.left + width + pad.right, pad.top + height + pad.bottom}, kernel, stride);
}

// What a run gives, in 16-byte units, and the size that the next run reads.
struct Need {
  int64_t output_block, output;
  Extent size;
};

// The driver takes an average pool for a square of its width. One that is higher than its map leaves rows below 0, and the
// next run reads 16 bits of them.
Need need_of(const Run &run, Extent input) {
  Extent window{1, 1};
  Pair stride;
  Sides pad;
  const bool average = run.pool == Pool::kAverage;
  if (run.convolves || average) {
    Window from = average ? run.window : run.conv;
    if (average) from.size.y = from.size.x;
    const int p = std::max(from.size.x, from.size.y) | 1;
    window = {p, p};
    stride = from.stride;
    pad = from.pad;
    pad.right += p - from.size.x;
    pad.top += p - from.size.y;
    if (run.deconvolution) {
      input = {(input.width - 1) * stride.x + 1, (input.height - 1) * stride.y + 1};
      stride = Pair();
    }
  }
  if (run.pool == Pool::kMax) {
    pad.left += run.window.pad.left * stride.x;
    pad.right += run.window.pad.right * stride.x;
    pad.top += run.window.pad.top * stride.y;
    pad.bottom += run.window.pad.bottom * stride.y;
  }
  const Extent padded{pad.left + input.width + pad.right, pad.top + input.height + pad.bottom};
  const bool windowed = run.convolves || average;
  const Extent convolved = windowed ? slide(padded, window, stride) : padded;
  Extent pooled = convolved;
  if (run.pool == Pool::kMax) pooled = slide(pooled, {run.window.size.x, run.window.size.y}, run.window.stride);
  if (run.pool == Pool::kUpsample) pooled = {2 * pooled.width, 2 * pooled.height};
  const Extent kept = windowed ? convolved : pooled;
  const int64_t block = block_units(kept.width * kept.height * std::min(run.output.channels, 8));
  return {block, whole_units(block, run.output.channels), {pooled.width & 0xFFFF, pooled.height & 0xFFFF}};
}

// What the strips of a convolution add to their own columns, plus one; and the same for rows.
Extent kernel_of_strip(const Run &run) {
  if (!run.dilated()) return {run.plane(), run.plane()};
  return {(run.conv.size.x - 1) * run.conv.dilation.x + 1, (run.conv.size.y - 1) * run.conv.dilation.y + 1};
}

}  // namespace

uint64_t strip_columns(const Run &run, int64_t unified_buffer_bytes) {
  const int64_t width = run.input.width, count = strips(run, unified_buffer_bytes);
  const int64_t shared = std::min(kernel_of_strip(run).width - 1, width);
  return static_cast<uint64_t>(std::min(width + (count - 1) * shared, count * width));
}

int strips(const Run &run, int64_t unified_buffer_bytes) {
  const int channels = run.input.channels, outputs = run.output.channels;
  if (!run.convolves || run.depthwise) return 1;
  if (!run.dilated() && channels <= 8 && outputs <= 8) return 1;
  const Extent kernel = kernel_of_strip(run);
  for (int t = 1; t <= run.input.width; ++t) {
    const int64_t width = ceil_div(run.input.width, t) + kernel.width - 1;
    const int64_t block = block_units(width * run.input.height * std::min(channels, 8));
    const int64_t input = 8 * whole_units(block, channels);
    int64_t output = 0;
    if (run.dilated() || channels > 8) {
      const Extent extent = convolve(run, width, kernel);
      output = extent.width * extent.height * std::min(outputs, 8);
    }
    if (input + output <= unified_buffer_bytes / 2) return t;
  }
  return 0;
}

int64_t unified_buffer_need(const Command &command) {
  const Shape &shape = command.input;
  const int64_t input_block =
      block_units(static_cast<int64_t>(shape.positions()) * std::min(shape.channels, 8));
  const int64_t input_units = whole_units(input_block, shape.channels);
  std::size_t external_runs = 0, last_branch = 0;
  for (std::size_t i = 0; i < command.runs.size(); ++i) {
    if (!command.runs[i].external) continue;
    ++external_runs;
    if (i + 1 < command.runs.size()) last_branch = i + 1;
  }
  const Extent whole{shape.width, shape.height};
  Extent read = whole;
  int64_t most = 0, place = 0, size = input_units;
  for (std::size_t i = 0; i < command.runs.size(); ++i) {
    const Run &run = command.runs[i];
    const Need need = need_of(run, read);
    const bool reuses_input = i >= last_branch && !run.convolves && run.pool != Pool::kAverage;
    const int64_t output_place = place + (reuses_input ? 0 : size);
    const int64_t start = external_runs == 1 ? size : output_place;
    most = std::max(most, start + (run.external ? need.output_block : need.output));
    place = run.external ? 0 : output_place;
    size = run.external ? input_units : need.output;
    read = run.external ? whole : need.size;
  }
  return 16 * most;
}

}  // namespace dv
