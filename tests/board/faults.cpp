// Makes the emulated device compute wrongly each command that contains one form or feature: the name in $FAULT. Linked around
// functions of command lists (--wrap). With $REFUSE it refuses them instead, with $HANG the program ends.
// With $NO_RANGES, dmp_dv_mem_to_cpu does nothing.
// With $LIST_USEC and $COMMAND_USEC, lists take so long beside their commands, and commands so long in addition. It recognizes forms from the registers, apart from the convertor.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "command.h"
#include "tiling.h"

namespace {

bool is_one(const dv::Pair &pair) { return pair.x == 1 && pair.y == 1; }

bool is_vector(const dv::Shape &shape) { return shape.width == 1 && shape.height == 1; }

bool is_bare_addition(const dv::Run &run) {
  const dv::Sides &pad = run.window.pad;
  return run.pool == dv::Pool::kAverage && is_one(run.window.size) && is_one(run.window.stride) &&
         run.average_factor == 1.0f && !(pad.left || pad.right || pad.top || pad.bottom);
}

bool is_inception(const dv::Run &writer, const dv::Run &reader) {
  const bool plain = reader.convolves && !reader.depthwise && !reader.deconvolution;
  if (!plain || (reader.pool != dv::Pool::kNone && reader.pool != dv::Pool::kMax)) return false;
  const dv::Pair size = reader.conv.size;
  if (!writer.convolves) return writer.pool == dv::Pool::kMax && is_one(size);
  const bool from_1x1 = !writer.depthwise && !writer.deconvolution && is_one(writer.conv.size);
  return from_1x1 && writer.pool == dv::Pool::kNone && size.x == size.y && (size.x == 3 || size.x == 5);
}

bool keeps_channels_apart(const std::vector<dv::Run> &branch) {
  const auto by_channel = [](const dv::Run &run) { return !run.convolves || run.depthwise; };
  return branch.size() > 1 && !by_channel(branch[0]) && std::all_of(branch.begin() + 1, branch.end(), by_channel);
}

class Aspects {
 public:
  Aspects(const dv::Command &command, int64_t ub_size) : ub_size_(ub_size) {
    std::vector<std::vector<dv::Run>> branches(1);
    for (const dv::Run &run : command.runs) {
      branches.back().push_back(run);
      if (run.external) branches.emplace_back();
    }
    branches.pop_back();
    add("branches", branches.size() > 1);
    add("channel_split", branches.size() > 1 && std::all_of(branches.begin(), branches.end(), keeps_channels_apart));
    for (const auto &branch : branches) {
      add("chain", branches.size() == 1 && branch.size() > 1);
      add("deep_branch", branches.size() > 1 && branch.size() > 2);
      for (std::size_t i = 0; i < branch.size(); ++i) {
        look_at(branch[i]);
        if (i) look_at(branch[i - 1], branch[i]);
      }
    }
  }

  void add(const char *name, bool holds) {
    if (holds) found_.insert(name);
  }
  bool has(const std::string &name) const { return name == "run" ? found_.empty() : found_.count(name) > 0; }

 private:
  void look_at(const dv::Run &run) {
    const bool tiled = run.convolves && !run.depthwise && dv::strips(run, ub_size_) != 1;
    const bool by_1x1 = run.depthwise && is_one(run.conv.size);
    const bool pools = run.pool != dv::Pool::kNone;
    if (!run.convolves) {
      add("addition", run.adds && !is_bare_addition(run));
    } else if (run.deconvolution) {
      add("deconv_run", run.adds || pools);
    } else if (run.adds) {
      add(tiled ? "tiled_addition" : by_1x1 ? "addition" : "conv_addition", true);
    }
    add("deconvolution", run.deconvolution);
    add("dilation", run.convolves && run.dilated() && !run.depthwise);
    add("dilated_depthwise", run.convolves && run.dilated() && run.depthwise);
    add("palette", run.convolves && run.weight_format == dv::WeightFormat::kPalette);
    add("tiled_pool", tiled && pools);
    add("prelu", run.activation == dv::Activation::kPrelu);
    add("upsampling", run.pool == dv::Pool::kUpsample);
    add("rectangular_pool", pools && run.pool != dv::Pool::kUpsample && run.window.size.x != run.window.size.y);
  }

  void look_at(const dv::Run &writer, const dv::Run &reader) {
    const auto is_strided = [](const dv::Run &run) {
      return (run.convolves && !is_one(run.conv.stride)) || (run.pool != dv::Pool::kNone && !is_one(run.window.stride));
    };
    const auto averages = [](const dv::Run &run) { return run.pool == dv::Pool::kAverage; };
    const auto is_depthwise = [](const dv::Run &run) { return run.convolves && run.depthwise; };
    const std::size_t before = found_in_buffer_;
    in_buffer("prelu_in_buffer", writer.activation == dv::Activation::kPrelu);
    in_buffer("channels_in_buffer", writer.output.channels % 8 != 0);
    in_buffer("strided", is_strided(writer) || (reader.convolves ? !is_one(reader.conv.stride) : is_strided(reader)));
    in_buffer("depthwise", is_depthwise(writer) || is_depthwise(reader));
    in_buffer("average_pool", averages(writer) || averages(reader));
    in_buffer("dense", is_vector(reader.input));
    if (found_in_buffer_ == before) add(is_inception(writer, reader) ? "inception_branch" : "other_branch", true);
  }

  void in_buffer(const char *name, bool holds) {
    found_in_buffer_ += holds;
    add(name, holds);
  }

  int64_t ub_size_;
  std::size_t found_in_buffer_ = 0;
  std::set<std::string> found_;
};

std::map<dmp_dv_cmdlist, int64_t> lengths;  // of lists

// Where the wrong outputs of each list begin.
std::map<dmp_dv_cmdlist, std::vector<dmp_dv_buf>> wrong;

bool is_faulty(const dmp_dv_cmdraw &raw) {
  const char *fault = std::getenv("FAULT");
  if (!fault) return false;
  if (raw.device_type == DMP_DV_DEV_IPU) return !std::strcmp(fault, "ipu");
  if (raw.device_type == DMP_DV_DEV_MAXIMIZER) return !std::strcmp(fault, "maximizer");
  dv::Limits limits;
  if (const char *bytes = std::getenv("DMP_DV_UB_SIZE")) limits.ub_size = std::atoll(bytes);
  Aspects aspects(dv::accept_shapes(dv::conv_command(raw), limits), limits.ub_size);
  const bool has_table = raw.version == 1 && reinterpret_cast<const dmp_dv_cmdraw_conv_v1 &>(raw).u8tofp16_table.mem;
  aspects.add("u8_input", has_table);
  const dmp_dv_cmdraw_conv_v0 &conv = dv::conv_command(raw);
  const bool is_packed = conv.run[0].weight_buf.mem == conv.input_buf.mem;  // in the memory of maps
  aspects.add("packed_factors", is_packed && conv.run[0].conv_enable == 3);
  aspects.add("packed_matrix", is_packed && conv.run[0].conv_enable == 1);
  aspects.add("batch", (dv::conv_command(raw).input_circular_offset & 0x7fff) > 1);
  return aspects.has(fault);
}

dmp_dv_buf output_of(const dmp_dv_cmdraw &raw) {
  if (raw.device_type == DMP_DV_DEV_IPU) return reinterpret_cast<const dmp_dv_cmdraw_ipu_v0 &>(raw).wr;
  if (raw.device_type == DMP_DV_DEV_MAXIMIZER) return reinterpret_cast<const dmp_dv_cmdraw_maximizer_v0 &>(raw).output_buf;
  return dv::conv_command(raw).output_buf;
}

}  // namespace

extern "C" {

dmp_dv_cmdlist __real_dmp_dv_cmdlist_create(dmp_dv_context ctx);
int __real_dmp_dv_cmdlist_add_raw(dmp_dv_cmdlist list, struct dmp_dv_cmdraw *cmd);
int __real_dmp_dv_cmdlist_wait(dmp_dv_cmdlist list, int64_t exec_id);
int64_t __real_dmp_dv_cmdlist_get_last_exec_time(dmp_dv_cmdlist list);

dmp_dv_cmdlist __wrap_dmp_dv_cmdlist_create(dmp_dv_context ctx) {
  const dmp_dv_cmdlist list = __real_dmp_dv_cmdlist_create(ctx);
  wrong.erase(list);  // of a list that is released
  lengths.erase(list);
  return list;
}

int __wrap_dmp_dv_cmdlist_add_raw(dmp_dv_cmdlist list, struct dmp_dv_cmdraw *cmd) {
  const int code = __real_dmp_dv_cmdlist_add_raw(list, cmd);
  ++lengths[list];
  if (code == 0 && is_faulty(*cmd)) {
    if (std::getenv("REFUSE")) return -1;
    if (std::getenv("HANG")) std::_Exit(3);  // as far as the results are concerned
    wrong[list].push_back(output_of(*cmd));
  }
  return code;
}

int64_t __wrap_dmp_dv_cmdlist_get_last_exec_time(dmp_dv_cmdlist list) {
  const char *beside = std::getenv("LIST_USEC"), *each = std::getenv("COMMAND_USEC");
  if (!beside || !each) return __real_dmp_dv_cmdlist_get_last_exec_time(list);
  return std::atoll(beside) + lengths[list] * std::atoll(each);
}

int __real_dmp_dv_mem_to_cpu(dmp_dv_mem mem, size_t offs, size_t size, int flags);

int __wrap_dmp_dv_mem_to_cpu(dmp_dv_mem mem, size_t offs, size_t size, int flags) {
  const char *none = std::getenv("NO_RANGES");
  return none && *none ? 0 : __real_dmp_dv_mem_to_cpu(mem, offs, size, flags);
}

int __wrap_dmp_dv_cmdlist_wait(dmp_dv_cmdlist list, int64_t exec_id) {
  const int code = __real_dmp_dv_cmdlist_wait(list, exec_id);
  for (const dmp_dv_buf &output : wrong[list]) {
    uint8_t *element = dmp_dv_mem_map(output.mem) + output.offs;
    uint16_t value = 0;
    std::memcpy(&value, element, 2);
    value = value == 0x5640 ? 0x5700 : 0x5640;  // 100, or 112
    dmp_dv_mem_sync_start(output.mem, 1, 1);
    std::memcpy(element, &value, 2);
    dmp_dv_mem_sync_end(output.mem);
  }
  return code;
}
}
