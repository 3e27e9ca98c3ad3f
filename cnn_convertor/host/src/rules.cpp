// What the device refuses: every command is checked here before it enters a list.
#include <algorithm>
#include <cstdio>

#include "command.h"
#include "fields.h"
#include "registers.h"
#include "report.h"
#include "tiling.h"
#include "weights.h"

namespace dv {
namespace {

std::string decimal(uint64_t value) { return std::to_string(value); }

std::string hexadecimal(uint64_t value, int digits) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%0*llx", digits, static_cast<unsigned long long>(value));
  return text;
}

std::string by(int x, int y) { return std::to_string(x) + "x" + std::to_string(y); }

std::string text_of(const Shape &s) {
  return std::to_string(s.width) + "x" + std::to_string(s.height) + "x" + std::to_string(s.channels);
}

bool contains(const Range &range, int value) { return range.least <= value && value <= range.most; }

std::string text_of(const Range &range) {
  const char *between = range.most == range.least + 1 ? " or " : " to ";
  return std::to_string(range.least) + between + std::to_string(range.most);
}

// The rules of one run. Each function checks one group of fields and throws for the first that breaks a rule.
class RunRules {
 public:
  RunRules(const dmp_dv_cmdraw_conv_v0 &command, int index, const Limits &limits)
      : command_(command), raw_(command.run[index]), index_(index), limits_(limits) {}

  void check_modes() const;
  void check_convolution(const Run &run) const;
  void check_pool(const Run &run) const;
  void check_operation(const Run &run) const;
  void check_windows(const Run &run, const Shape &input) const;
  void check_extent(const Run &run) const;
  void check_channels(const Run &run) const;
  void check_dilation(const Run &run, int runs) const;
  void check_strips(const Run &run, int runs) const;
  void check_revision(const Run &run) const;
  std::shared_ptr<Memory> weights(const Run &run) const;

 private:
  [[noreturn]] void refuse(const char *field, const std::string &value, const std::string &why) const {
    throw Error("run[" + std::to_string(index_) + "]." + field + " = " + value + ": " + why);
  }

  void check_pad(const char *field, uint32_t value) const;
  void check_stride(const char *field, uint16_t value) const;

  const dmp_dv_cmdraw_conv_v0 &command_;
  const dmp_dv_cmdraw_conv_v0_run &raw_;
  int index_;
  const Limits &limits_;
};

void RunRules::check_modes() const {
  switch (raw_.conv_enable) {
    case kConvOff: case kConvNormal: case kConvDepthwise: case kConvDeconv:
    case kConvDepthwiseDeconv: break;
    default: refuse("conv_enable", decimal(raw_.conv_enable), "0 (off), 1, 3, 5 or 7 is known");
  }
  switch (raw_.pool_enable) {
    case kPoolNone: case kPoolMax: case kPoolAverage: case kPoolUpsample: break;
    default: refuse("pool_enable", decimal(raw_.pool_enable), "0 (none), 1, 2 or 4 is known");
  }
  if (raw_.actfunc > kActRelu6) refuse("actfunc", decimal(raw_.actfunc), "0 (none) to 6 is known");
  if (raw_.rectifi_en > 1) refuse("rectifi_en", decimal(raw_.rectifi_en), "0 or 1 is known");
  if (raw_.lrn != 0) refuse("lrn", decimal(raw_.lrn), "this device has no LRN");
  if (raw_.m == 0) refuse("m", "0", "a run has at least one output channel");
  if (raw_.conv_enable != kConvOff && raw_.m > limits_.max_channels)
    refuse("m", decimal(raw_.m), "a convolution has at most " + std::to_string(limits_.max_channels) + " channels");
}

void RunRules::check_pad(const char *field, uint32_t value) const {
  const Sides pad = sides_of(value);
  const auto check = [&](const char *side, int size) {
    const int most = limits_.max_padding_left_top;
    if (size > most)
      refuse(field, hexadecimal(value, 8),
             side + (" is " + std::to_string(size)) + ", at most " + std::to_string(most) + " fits");
  };
  check("left", pad.left);
  check("top", pad.top);
}

void RunRules::check_stride(const char *field, uint16_t value) const {
  const Pair stride = pair_of(value);
  if (stride.x < 1 || stride.y < 1) refuse(field, hexadecimal(value, 4), "strides start at 1");
}

void RunRules::check_convolution(const Run &run) const {
  if (!run.convolves) return;
  const Pair size = run.conv.size;
  const int most = limits_.max_kernel_size;
  if (size.x < 1 || size.x > most || size.y < 1 || size.y > most)
    refuse("p", hexadecimal(raw_.p, 4),
           "a kernel of " + by(size.x, size.y) + "; 1 to " + std::to_string(most) + " in each direction is possible");
  if (raw_.pz != 1) refuse("pz", decimal(raw_.pz), "a kernel has a depth of 1");
  check_stride("conv_stride", raw_.conv_stride);
  check_pad("conv_pad", raw_.conv_pad);
  const bool known = raw_.weight_fmt == kWeightFp16 || raw_.weight_fmt == kWeightPalette8;
  if (!known && !(run.depthwise && raw_.weight_fmt == kWeightBlocks))
    refuse("weight_fmt", decimal(raw_.weight_fmt), "a convolution needs 1 (FP16) or 3 (8-bit palette)");
  if (run.pool == Pool::kAverage || run.pool == Pool::kUpsample)
    refuse("pool_enable", decimal(raw_.pool_enable), "only a max pool may follow a convolution in one run");
  if (run.activation == Activation::kPrelu && run.weight_format == WeightFormat::kPalette)
    refuse("actfunc", decimal(raw_.actfunc), "PReLU does not go with palette weights (weight_fmt = 3)");
}

void RunRules::check_pool(const Run &run) const {
  const Pair size = run.window.size;
  const std::string value = hexadecimal(raw_.pool_size, 4);
  switch (run.pool) {
    case Pool::kNone: return;
    case Pool::kUpsample:
      if (raw_.pool_size != 0 && raw_.pool_size != 0x0202) refuse("pool_size", value, "upsampling is always 2x2");
      if (raw_.pool_pad != 0) refuse("pool_pad", hexadecimal(raw_.pool_pad, 8), "upsampling has no padding");
      return;
    case Pool::kMax:
      if (!contains(limits_.max_pool_widths, size.x) || !contains(limits_.max_pool_heights, size.y))
        refuse("pool_size", value,
               "max pools are " + text_of(limits_.max_pool_widths) + " wide and " + text_of(limits_.max_pool_heights) +
                   " high, not " + by(size.x, size.y));
      break;
    case Pool::kAverage: {
      const Range sizes{1, limits_.max_average_pool};
      if (!contains(sizes, size.x) || !contains(sizes, size.y))
        refuse("pool_size", value,
               "average pools are " + text_of(sizes) + " wide and high, not " + by(size.x, size.y));
      break;
    }
  }
  check_stride("pool_stride", raw_.pool_stride);
  check_pad("pool_pad", raw_.pool_pad);
}

void RunRules::check_operation(const Run &run) const {
  if (run.convolves) return;
  if (run.activation == Activation::kPrelu)
    refuse("actfunc", decimal(raw_.actfunc), "PReLU needs a convolution, whose weights hold its slopes");
  if (run.pool == Pool::kNone && run.activation == Activation::kNone && !run.absolute)
    throw Error("run[" + std::to_string(index_) +
                "]: conv_enable = 0, pool_enable = 0, actfunc = 0, rectifi_en = 0: the run has no operation");
}

void RunRules::check_windows(const Run &run, const Shape &input) const {
  const auto check = [&](const char *field, const std::string &value, const Window &window, int width, int height) {
    const int x = window.pad.left + width + window.pad.right, y = window.pad.top + height + window.pad.bottom;
    const int across = (window.size.x - 1) * window.dilation.x + 1, down = (window.size.y - 1) * window.dilation.y + 1;
    if (x < across || y < down)
      refuse(field, value, "the window covers " + by(across, down) + ", the padded input is only " + by(x, y));
  };
  int width = input.width, height = input.height;
  if (run.convolves) {
    const Pair stride = run.conv.stride;
    if (run.deconvolution) {
      width = (width - 1) * stride.x + 1;
      height = (height - 1) * stride.y + 1;
    }
    check("p", hexadecimal(raw_.p, 4), run.conv, width, height);
    Run convolution = run;
    convolution.pool = Pool::kNone;
    infer_shapes(convolution, input, raw_.m);
    width = convolution.output.width;
    height = convolution.output.height;
  }
  if (run.pool == Pool::kMax || run.pool == Pool::kAverage)
    check("pool_size", hexadecimal(raw_.pool_size, 4), run.window, width, height);
}

void RunRules::check_extent(const Run &run) const {
  const Shape &map = run.output;
  const std::string text = "run[" + std::to_string(index_) + "]: the output is " + text_of(map);
  if (map.width < 1 || map.height < 1) throw Error(text + ", nothing at all");
  if (map.width > limits_.max_field || map.height > limits_.max_field) throw Error(text + ", sizes have 16 bits");
}

void RunRules::check_channels(const Run &run) const {
  if ((run.convolves && !run.depthwise) || raw_.m == run.input.channels) return;
  const std::string kind = run.convolves ? "a depthwise convolution" : "a run without convolution";
  refuse("m", decimal(raw_.m), kind + " keeps its " + std::to_string(run.input.channels) + " channels");
}

void RunRules::check_dilation(const Run &run, int runs) const {
  if (!run.convolves || !run.dilated()) return;
  const Window &conv = run.conv;
  const auto refused = [&](const std::string &why) {
    refuse("conv_dilation", hexadecimal(raw_.conv_dilation, 4), why);
  };
  if (runs > 1)
    refused("a dilated convolution is the only run of its command, this one has " + std::to_string(runs));
  if (run.pool != Pool::kNone)
    refused("no pool goes with a dilated convolution (pool_enable = " + decimal(raw_.pool_enable) + ")");
  if (conv.size.x % 2 == 0 || conv.size.y % 2 == 0)
    refused("the kernel is " + by(conv.size.x, conv.size.y) + ", dilation needs odd sizes");
  if (run.activation == Activation::kPrelu) refused("PReLU does not go with dilation (actfunc = 4)");
  if (run.deconvolution && (conv.stride.x > 1 || conv.stride.y > 1))
    refused("a dilated deconvolution has stride 1 (conv_stride = " + hexadecimal(raw_.conv_stride, 4) + ")");
  if (run.output.width * conv.stride.x != run.input.width || run.output.height * conv.stride.y != run.input.height)
    refused("output times stride must equal the input, but " + by(run.output.width, run.output.height) + " times " +
            by(conv.stride.x, conv.stride.y) + " is not " + by(run.input.width, run.input.height) +
            " (conv_pad = " + hexadecimal(raw_.conv_pad, 8) + ")");
  Run slow = run;
  slow.conv.stride = {1, 1};
  infer_shapes(slow, run.input, raw_.m);
  if (slow.output.width != run.input.width || slow.output.height != run.input.height)
    refused("user drivers before 2019-12-23 compare the sizes as if the stride were 1, but then the output " +
            by(slow.output.width, slow.output.height) + " is not the input " + by(run.input.width, run.input.height) +
            " (conv_pad = " + hexadecimal(raw_.conv_pad, 8) + ")");
}

void RunRules::check_strips(const Run &run, int runs) const {
  const int64_t bytes = limits_.ub_size;
  const int count = strips(run, bytes);
  const std::string map =
      "an input of " + text_of(run.input) + " to " + std::to_string(run.output.channels) + " channels ";
  if (count == 0)
    refuse("m", decimal(raw_.m),
           map + "does not fit the unified buffer of " + std::to_string(bytes) + " bytes in any number of strips");
  if (runs > 1 && count > 1)
    throw Error("topo = " + hexadecimal(command_.topo, 8) + ": run[" + std::to_string(index_) + "]: " + map + "needs " +
                std::to_string(count) + " tiles; in a command of several runs each has one");
}

// What old revisions of the device and old drivers refuse.
void RunRules::check_revision(const Run &run) const {
  if (run.deconvolution && !limits_.deconvolves)
    refuse("conv_enable", decimal(raw_.conv_enable), "this revision of the device has no deconvolution");
  const bool slides = run.pool == Pool::kMax || run.pool == Pool::kAverage;
  const Pair size = run.window.size;
  if (slides && size.x != size.y && !limits_.pools_unevenly)
    refuse("pool_size", hexadecimal(raw_.pool_size, 4), "on this revision a pool is as wide as it is high");
  const auto check_pads = [&](const char *field, uint32_t value, int width, int height) {
    const Sides pad = sides_of(value);
    if (pad.left > width || pad.right > width || pad.top > height || pad.bottom > height)
      refuse(field, hexadecimal(value, 8), "on this revision padding is at most the map's " + by(width, height));
  };
  Run convolution = run;
  convolution.pool = Pool::kNone;
  infer_shapes(convolution, run.input, raw_.m);
  if (!limits_.pads_beyond_map) {
    if (run.convolves) check_pads("conv_pad", raw_.conv_pad, run.input.width, run.input.height);
    if (slides) check_pads("pool_pad", raw_.pool_pad, convolution.output.width, convolution.output.height);
  }
  const int count = strips(run, limits_.ub_size);
  if (run.convolves && run.pool == Pool::kMax && count != 1 && !limits_.pools_tiles)
    refuse("pool_enable", decimal(raw_.pool_enable),
           "a max pool behind a convolution in several tiles needs a user driver from 7.2.20201106 on and hardware from 2019-07-29 "
           "on; this run needs " + std::to_string(count) + " tiles");
}

std::shared_ptr<Memory> RunRules::weights(const Run &run) const {
  if (raw_.weight_buf.offs % 16 != 0)
    refuse("weight_buf.offs", decimal(raw_.weight_buf.offs), "weights start at a multiple of 16");
  if (!raw_.weight_buf.mem) refuse("weight_buf.mem", "0", "a convolution needs weights");
  auto memory = memories().get(raw_.weight_buf.mem);
  memory->check_range(raw_.weight_buf.offs, PackedWeights::bytes(run),
                      ("run[" + std::to_string(index_) + "].weight_buf").c_str());
  return memory;
}

void check_command(const dmp_dv_cmdraw_conv_v0 &raw, const Limits &limits) {
  const auto check = [](const char *field, int value, int most) {
    if (value < 1 || value > most)
      throw Error(field + (" = " + std::to_string(value)) + ": 1 to " + std::to_string(most) + " is possible");
  };
  const auto convolves = [](const dmp_dv_cmdraw_conv_v0_run &run) { return run.conv_enable != kConvOff; };
  check("w", raw.w, limits.max_width);
  check("h", raw.h, limits.max_height);
  const bool any = std::any_of(raw.run, raw.run + run_count(raw.topo), convolves);
  check("c", raw.c, any ? limits.max_channels : limits.max_field);
  if (raw.z != 1) throw Error("z = " + std::to_string(raw.z) + ": maps have a depth of 1");
  if (raw.topo == 0) throw Error("topo = 0: no run writes to external memory");
  if (raw.output_mode > kOutputAdd)
    throw Error("output_mode = " + std::to_string(raw.output_mode) + ": 0 or 1 is known");
  if (raw.output_mode == kOutputAdd && (raw.topo & (raw.topo - 1)) != 0)
    throw Error("output_mode = 1: only one run may write to external memory, topo = " + hexadecimal(raw.topo, 8));
}

// What is not documented of batches is refused.
void check_batch(const dmp_dv_cmdraw_conv_v0 &raw, const Command &command) {
  if (command.batch == 1) return;
  const std::string batch = "input_circular_offset = " + hexadecimal(raw.input_circular_offset, 4) + ": a batch of " +
                            std::to_string(command.batch) + " samples ";
  if (command.runs.size() > 1) throw Error(batch + "goes with one run only, topo = " + hexadecimal(raw.topo, 8));
  if (raw.output_mode == kOutputAdd) throw Error(batch + "goes with no element-wise operand (output_mode = 1)");
  if (command.table_memory) throw Error(batch + "goes with no 8-bit input");
}

std::shared_ptr<Memory> map_memory(const char *field, const dmp_dv_buf &buf, uint64_t bytes) {
  if (buf.offs % 2 != 0)
    throw Error(field + (".offs = " + std::to_string(buf.offs)) + ": maps start at even offsets");
  return buffer_memory(field, buf, bytes);
}

bool ranges_overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

bool overlap(const dmp_dv_buf &a, uint64_t a_bytes, const dmp_dv_buf &b, uint64_t b_bytes) {
  return a.mem == b.mem && ranges_overlap(a.offs, a_bytes, b.offs, b_bytes);
}

void attach_table(const dmp_dv_cmdraw &header, Command &command) {
  if (header.version != 1) return;
  const auto &v1 = reinterpret_cast<const dmp_dv_cmdraw_conv_v1 &>(header);
  if (v1.to_bgr > 1) throw Error("to_bgr = " + std::to_string(v1.to_bgr) + ": 0 or 1 is known");
  if (!v1.u8tofp16_table.mem) {
    if (v1.to_bgr && is_strict()) report("to_bgr = 1 without u8tofp16_table has no effect");
    return;
  }
  const uint64_t offset = v1.u8tofp16_table.offs;
  if (offset % 16 != 0)
    throw Error("u8tofp16_table.offs = " + std::to_string(offset) + ": tables start at a multiple of 16");
  if (command.input.channels > static_cast<int>(kTableChannels))
    throw Error("c = " + std::to_string(command.input.channels) + ": 8-bit input has 1 to 3 channels");
  if (v1.to_bgr && command.input.channels != static_cast<int>(kTableChannels))
    throw Error("to_bgr = 1: the input has " + std::to_string(command.input.channels) + " channels, not 3");
  command.table_memory = memories().get(v1.u8tofp16_table.mem);
  command.table_memory->check_range(offset, kTableBytes, "u8tofp16_table");
  command.table_offset = offset;
  command.to_bgr = v1.to_bgr == 1;
}

void attach_memories(const dmp_dv_cmdraw_conv_v0 &raw, Command &command) {
  uint64_t operand_bytes = 0;
  for (const Run &run : command.runs)
    if (run.adds) operand_bytes += run.operand().bytes();
  const auto samples = static_cast<uint64_t>(command.batch);
  const uint64_t input_bytes = samples * command.input_bytes(), output_bytes = samples * command.output_bytes();
  command.input_memory = map_memory("input_buf", raw.input_buf, input_bytes);
  command.output_memory = map_memory("output_buf", raw.output_buf, output_bytes);
  command.input_offset = raw.input_buf.offs;
  command.output_offset = raw.output_buf.offs;
  if (overlap(raw.input_buf, input_bytes, raw.output_buf, output_bytes))
    throw Error("output_buf.offs = " + std::to_string(raw.output_buf.offs) + ": " + std::to_string(output_bytes) +
                " bytes of output overlap the input at " + std::to_string(raw.input_buf.offs));
  for (const Run &run : command.runs)
    if (run.convolves && run.weights == command.output_memory &&
        ranges_overlap(run.weights_offset, PackedWeights::bytes(run), raw.output_buf.offs, output_bytes))
      throw Error("output_buf.offs = " + std::to_string(raw.output_buf.offs) + ": " + std::to_string(output_bytes) +
                  " bytes of output overlap weights at " + std::to_string(run.weights_offset));
  if (operand_bytes == 0) return;
  command.operand_memory = map_memory("eltwise_buf", raw.eltwise_buf, operand_bytes);
  command.operand_offset = raw.eltwise_buf.offs;
  if (raw.eltwise_buf.offs != raw.output_buf.offs &&
      overlap(raw.eltwise_buf, operand_bytes, raw.output_buf, output_bytes))
    throw Error("output_buf.offs = " + std::to_string(raw.output_buf.offs) + ": " + std::to_string(output_bytes) +
                " bytes of output overlap a part of eltwise_buf at " + std::to_string(raw.eltwise_buf.offs));
}

}  // namespace

std::shared_ptr<Memory> buffer_memory(const char *field, const dmp_dv_buf &buf, uint64_t bytes) {
  if (!buf.mem) throw Error(field + std::string(".mem = 0: no memory"));
  auto memory = memories().get(buf.mem);
  memory->check_range(buf.offs, bytes, field);
  return memory;
}

void check_size(const dmp_dv_cmdraw &header, const char *name, uint64_t size) {
  if (header.size != size)
    throw Error(std::string(name) + ".size = " + std::to_string(header.size) + ": this version has " +
                std::to_string(size) + " bytes");
}

const dmp_dv_cmdraw_conv_v0 &conv_command(const dmp_dv_cmdraw &raw) {
  const auto *v0 = reinterpret_cast<const dmp_dv_cmdraw_conv_v0 *>(&raw);
  if (raw.version == 0) {
    check_size(raw, "header", sizeof(*v0));
    return *v0;
  }
  if (raw.version != 1) throw Error("header.version = " + std::to_string(raw.version) + ": 0 or 1 is known");
  const auto *v1 = reinterpret_cast<const dmp_dv_cmdraw_conv_v1 *>(&raw);
  check_size(raw, "header", sizeof(*v1));
  const dmp_dv_cmdraw &inner = v1->conv_cmd.header;
  check_size(inner, "conv_cmd.header", sizeof(v1->conv_cmd));
  if (inner.device_type != DMP_DV_DEV_CONV)
    throw Error("conv_cmd.header.device_type = " + std::to_string(inner.device_type) + ": it is 1 here");
  if (inner.version != 0)
    throw Error("conv_cmd.header.version = " + std::to_string(inner.version) + ": it is 0 here");
  return v1->conv_cmd;
}

Command accept_shapes(const dmp_dv_cmdraw_conv_v0 &raw, const Limits &limits) {
  check_command(raw, limits);
  Command command;
  command.input = {raw.w, raw.h, raw.c};
  command.transposed = raw.input_circular_offset & kTransposed;
  command.batch = std::max(1, raw.input_circular_offset & kBatch);
  Shape input = command.input;
  const int count = run_count(raw.topo);
  for (int i = 0; i < count; ++i) {
    const RunRules rules(raw, i, limits);
    rules.check_modes();
    Run run = run_of(raw, i);
    rules.check_convolution(run);
    rules.check_pool(run);
    rules.check_operation(run);
    rules.check_windows(run, input);
    infer_shapes(run, input, raw.run[i].m);
    rules.check_extent(run);
    input = run.external ? command.input : run.output;
    command.runs.push_back(run);
  }
  return command;
}

Command accept(const dmp_dv_cmdraw &header, const Limits &limits) {
  const dmp_dv_cmdraw_conv_v0 &raw = conv_command(header);
  Command command = accept_shapes(raw, limits);
  const int count = static_cast<int>(command.runs.size());
  for (int i = 0; i < count; ++i) {
    const RunRules rules(raw, i, limits);
    Run &run = command.runs[static_cast<std::size_t>(i)];
    rules.check_channels(run);
    rules.check_dilation(run, count);
    rules.check_strips(run, count);
    rules.check_revision(run);
    if (run.convolves) run.weights = rules.weights(run);
  }
  if (count > 1) {
    const int64_t need = unified_buffer_need(command);
    if (need > limits.ub_size)
      throw Error("topo = " + hexadecimal(raw.topo, 8) + ": the " + std::to_string(count) + " runs need " +
                  std::to_string(need) + " bytes of unified buffer, there are " +
                  std::to_string(limits.ub_size));
  }
  attach_table(header, command);
  check_batch(raw, command);
  attach_memories(raw, command);
  return command;
}

}  // namespace dv
