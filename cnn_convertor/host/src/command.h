// A convolution command in the device's words, with the shape of every map: what add_raw makes of the registers.
#ifndef DV_COMMAND_H
#define DV_COMMAND_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dmp_dv_cmdraw_v1.h"
#include "memory.h"

namespace dv {

// A number that is not negative, as one of the standard library's sizes.
inline std::size_t size(int value) { return static_cast<std::size_t>(value); }

struct Pair {
  int x = 1, y = 1;
};

struct Sides {
  int left = 0, right = 0, top = 0, bottom = 0;
};

struct Shape {
  int width = 0, height = 0, channels = 0;
  std::size_t positions() const { return static_cast<std::size_t>(width) * static_cast<std::size_t>(height); }
  std::size_t elements() const { return positions() * static_cast<std::size_t>(channels); }
  std::size_t bytes() const { return 2 * elements(); }
};

struct Window {
  Pair size, stride, dilation;
  Sides pad;
};

enum class WeightFormat { kFp16, kPalette };
enum class Pool { kNone, kMax, kAverage, kUpsample };
enum class Activation { kNone, kTanh, kRelu, kSigmoid, kPrelu, kElu, kRelu6 };

struct Run {
  // Convolution; conv.stride is between inputs for a deconvolution.
  bool convolves = false, depthwise = false, deconvolution = false;
  Window conv;
  WeightFormat weight_format = WeightFormat::kFp16;
  std::shared_ptr<Memory> weights;
  uint64_t weights_offset = 0;

  Pool pool = Pool::kNone;
  Window window;  // of the pool
  float average_factor = 1.0f;

  Activation activation = Activation::kNone;
  float slope = 0.0f;     // of a leaky ReLU
  bool absolute = false;  // rectifi_en
  bool adds = false;      // the element-wise operand
  bool external = false;  // writes to external memory; otherwise to the unified buffer

  Shape input;
  Shape convolved;  // after the convolution, before the pool; the input without a convolution
  Shape output;

  bool dilated() const { return conv.dilation.x > 1 || conv.dilation.y > 1; }
  // Width and height of the packed kernel planes: 1, 3, 5 or 7.
  int plane() const { return (conv.size.x > conv.size.y ? conv.size.x : conv.size.y) | 1; }
  // The shape of the element-wise operand: it is added after the convolution, before a max pool, after other pools.
  const Shape &operand() const { return pool == Pool::kMax || convolves ? convolved : output; }
};

// The table of 8-bit input: for each value, the FP16 values of three channels.
constexpr std::size_t kTableChannels = 3, kTableBytes = 256 * kTableChannels * 2;

struct Command {
  Shape input;  // of one sample
  int batch = 1;  // samples, one after the other in input and output
  bool transposed = false;
  std::shared_ptr<Memory> input_memory, output_memory, operand_memory;
  uint64_t input_offset = 0, output_offset = 0, operand_offset = 0;
  std::shared_ptr<Memory> table_memory;  // the input is 8-bit if there is one
  uint64_t table_offset = 0;
  bool to_bgr = false;  // channels 0 and 2 of 8-bit input are swapped
  std::vector<Run> runs;

  uint64_t input_bytes() const { return table_memory ? input.elements() : input.bytes(); }
  uint64_t output_bytes() const {
    uint64_t bytes = 0;
    for (const Run &run : runs) bytes += run.external ? run.output.bytes() : 0;
    return bytes;
  }
};

// Makes a Command of a convolution command's registers. Throws Error, which names field and value, for what the device refuses.
Command accept(const dmp_dv_cmdraw &raw, const Limits &limits);

// The same without memories: shapes and operations alone.
Command accept_shapes(const dmp_dv_cmdraw_conv_v0 &raw, const Limits &limits);

// The memory of a buffer. Throws Error, which names the field, when the buffer has none or is too small.
std::shared_ptr<Memory> buffer_memory(const char *field, const dmp_dv_buf &buf, uint64_t bytes);

// Throws Error when the header of a command has another size than its version.
void check_size(const dmp_dv_cmdraw &header, const char *name, uint64_t size);

// The convolution command, version 0, inside a raw command of either version.
const dmp_dv_cmdraw_conv_v0 &conv_command(const dmp_dv_cmdraw &raw);

}  // namespace dv

#endif
