// CDMP_Network: memory, weights, command lists and the order of execution.
#include "dmp_network.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include "completion.h"
#include "convert_table.h"
#include "cpu_layers.h"
#include "dmp_network_host.h"
#include "error.h"
#include "half.h"
#include "memory.h"
#include "message.h"
#include "report.h"

namespace {

thread_local std::string last_text;
thread_local std::function<void(const fpga_layer &)> observer;

struct CloseFile {
  void operator()(std::FILE *file) const { std::fclose(file); }
};

bool is_on_device(const fpga_layer &layer) { return layer.type == LT_CONV || layer.type == LT_FC; }

bool is_on_cpu(const fpga_layer &layer) {
  return layer.type == LT_FLATTEN || layer.type == LT_COPY_CONCAT || layer.type == LT_SOFTMAX ||
         layer.type == LT_CUSTOM;
}

bool driver_failed(const std::string &what) { return dv::message(what + ": " + dmp_dv_get_last_error_message()); }

// A message, and a report in strict mode, of a call that a board's runtime ignores or fails.
bool misuse(const std::string &text) {
  if (dv::is_strict()) dv::report(text);
  return dv::message(text);
}

std::string title(const fpga_layer &layer) { return "layer " + dv::quoted(layer.name); }

std::string listed(const fpga_layer &first, const fpga_layer &last) {
  return &first == &last ? title(first) : "layers " + dv::quoted(first.name) + " to " + dv::quoted(last.name);
}

// True when the address lies in code of this process, or when that cannot be found out. The kernel takes long to list the
// memory of a process, so the code that the last search found counts without another.
bool is_code(const void *address) {
  thread_local unsigned long long first = 0, last = 0;
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  if (first <= wanted && wanted < last) return true;
  std::ifstream maps("/proc/self/maps");
  if (!maps) return true;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long from = 0, to = 0;
    char mode[5] = "";
    if (std::sscanf(line.c_str(), "%llx-%llx %4s", &from, &to, mode) != 3) continue;
    if (wanted < from || to <= wanted) continue;
    if (mode[2] == 'x') first = from, last = to;
    return mode[2] == 'x';
  }
  return false;
}

}  // namespace

bool dv::message(const std::string &text) {
  last_text = text;
  std::fprintf(stderr, "%s\n", text.c_str());
  return false;
}

std::string dv::quoted(const std::string &name) { return "\"" + (name.data() ? name : std::string()) + "\""; }

#if !defined(__clang__) && !defined(__ARM_FP16_FORMAT_IEEE)
__fp16::__fp16(float value) : bits_(dv::narrow(value)) {}

__fp16::operator float() const { return dv::widen(bits_); }
#endif

const std::string &dmp_network_host::last_message() { return last_text; }

void dmp_network_host::observe(std::function<void(const fpga_layer &)> function) { observer = std::move(function); }

fpga_layer CDMP_Network::err_layer_;

CDMP_Network::CDMP_Network()
    : is_weight_transposed(false),
      num_layers_(0),
      num_output_layers_(0),
      ctx_(nullptr),
      dv_info_(),
      weights_mem_(nullptr),
      io_mem_(nullptr),
      io_ptr_(nullptr),
      last_conv_usec_(0),
      last_fc_usec_(0),
      last_cpu_usec_(0),
      cvt_policy_(CP_NOTHING),
      cvt_to_bgr_(false),
      cvt_table_(nullptr),
      weights_size_(0),
      io_size_(0),
      iprint_(0),
      weights_loaded_(false),
      want_layer_outputs_(false) {}

CDMP_Network::~CDMP_Network() {
  for (auto list = cmdlists_.rbegin(); list != cmdlists_.rend(); ++list) dmp_dv_cmdlist_release(*list);
  dmp_dv_mem_release(io_mem_);
  dmp_dv_mem_release(weights_mem_);
  dmp_dv_context_release(ctx_);
}

bool CDMP_Network::ReserveMemory(size_t weights_size, size_t io_size) {
  if (ctx_) return misuse("ReserveMemory: memory is already reserved");
  ctx_ = dmp_dv_context_create();
  if (!ctx_) return driver_failed("cannot open the device");
  dv_info_.header.size = sizeof(dv_info_);
  dv_info_.header.version = 0;
  if (dmp_dv_context_get_info(ctx_, &dv_info_.header)) return driver_failed("cannot describe the device");
  weights_mem_ = dmp_dv_mem_alloc(ctx_, weights_size);
  if (!weights_mem_) return driver_failed("cannot allocate memory for weights");
  io_mem_ = dmp_dv_mem_alloc(ctx_, io_size);
  if (!io_mem_) return driver_failed("cannot allocate memory for feature maps");
  io_ptr_ = dmp_dv_mem_map(io_mem_);
  if (!io_ptr_) return driver_failed("cannot map memory for feature maps");
  if (dmp_dv_mem_sync_start(io_mem_, 1, 1)) return driver_failed("cannot access memory for feature maps");
  std::memset(io_ptr_, 0, io_size);
  weights_size_ = weights_size;
  io_size_ = io_size;
  if (iprint_ > 0)
    std::printf("reserved %zu bytes for weights and %zu bytes for feature maps\n", weights_size, io_size);
  return true;
}

void CDMP_Network::set_num_layers(int n) {
  if (!layers_.empty()) {
    misuse("set_num_layers: a second call has no effect");
    return;
  }
  layers_.resize(static_cast<std::size_t>(n));
  std::memset(static_cast<void *>(layers_.data()), 0, layers_.size() * sizeof(fpga_layer));
  num_layers_ = n;
}

void CDMP_Network::set_num_output_layers(int n) {
  if (!output_layers_.empty()) {
    misuse("set_num_output_layers: a second call has no effect");
    return;
  }
  output_layers_.assign(static_cast<std::size_t>(n), nullptr);
  num_output_layers_ = n;
}

fpga_layer &CDMP_Network::get_layer(int i) {
  if (i >= 0 && i < num_layers_) return layers_[static_cast<std::size_t>(i)];
  std::printf("get_layer: there is no layer %d\n", i);
  if (dv::is_strict()) dv::report("get_layer(" + std::to_string(i) + "): the network has no such layer");
  return err_layer_;
}

bool CDMP_Network::LoadWeights(const std::string &filename) {
  if (!weights_mem_) return dv::message("LoadWeights: call Initialize first");
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(filename.c_str(), "rb"));
  if (!file) return dv::message("cannot open the weights file " + dv::quoted(filename));
  uint8_t *to = dmp_dv_mem_map(weights_mem_);
  if (!to || dmp_dv_mem_sync_start(weights_mem_, 0, 1)) return driver_failed("cannot access memory for weights");
  const std::size_t got = std::fread(to, 1, weights_size_, file.get());
  const bool has_more = std::fgetc(file.get()) != EOF, failed = std::ferror(file.get());
  dmp_dv_mem_unmap(weights_mem_);
  const std::string name = "the weights file " + dv::quoted(filename), size = std::to_string(weights_size_);
  if (failed) return dv::message("cannot read " + name);
  if (got < weights_size_)
    return dv::message(name + " has only " + std::to_string(got) + " bytes, the network needs " + size);
  if (has_more) return dv::message(name + " has more than the " + size + " bytes that the network needs");
  const auto memory = dv::memories().get(weights_mem_);
  if (const std::string &path = memory->context().residuals; !path.empty()) {
    std::ifstream residuals(path, std::ios::binary);
    if (!residuals) return dv::message("cannot open the residuals file " + dv::quoted(path));
    memory->add_residuals(std::vector<uint8_t>(std::istreambuf_iterator<char>(residuals), {}));
  }
  if (iprint_ > 0) std::printf("loaded %zu bytes of weights\n", weights_size_);
  weights_loaded_ = true;
  return true;
}

bool CDMP_Network::SetConvertPolicy(convert_policy policy, bool to_bgr, uint16_t *cvt_table) {
  if (policy == CP_USER_SPECIFY && !cvt_table) return dv::message("SetConvertPolicy: CP_USER_SPECIFY needs a table");
  cvt_policy_ = policy;
  cvt_to_bgr_ = to_bgr;
  cvt_table_ = cvt_table;
  return true;
}

bool CDMP_Network::BuildConvertTable() {
  const dmp_dv_mem mem = dmp_dv_mem_alloc(ctx_, dv::kTableBytes);
  uint8_t *table = mem ? dmp_dv_mem_map(mem) : nullptr;
  if (!table) return driver_failed("cannot allocate the conversion table");
  dmp_dv_mem_sync_start(mem, 0, 1);
  if (!dv::fill_table(cvt_policy_, cvt_table_, table))
    misuse("SetConvertPolicy: policy " + std::to_string(cvt_policy_) + " is unknown, the table is not initialized");
  dmp_dv_mem_sync_end(mem);
  dmp_dv_mem_unmap(mem);
  if (layers_.empty()) return true;
  fpga_layer &first = layers_[0];
  if (dv::is_strict() && (first.type != LT_CONV || first.conv_conf.header.version != 1))
    dv::report(title(first) + ": 8-bit input overwrites a first layer that is no LT_CONV with a command of version 1");
  first.conv_conf_v1.u8tofp16_table.mem = mem;
  first.conv_conf_v1.u8tofp16_table.offs = 0;
  first.conv_conf_v1.to_bgr = cvt_to_bgr_;
  return true;
}

bool CDMP_Network::Commit() {
  if (cvt_policy_ != CP_NOTHING && !BuildConvertTable()) return false;
  return GenerateCommandLists();
}

bool CDMP_Network::GenerateCommandLists() {
  if (!cmdlists_.empty()) return misuse("GenerateCommandLists: the command lists exist already (double call)");
  for (std::size_t first = 0; first < layers_.size();) {
    const layer_type type = layers_[first].type;
    std::size_t end = first + 1;
    if (is_on_device(layers_[first])) {
      while (!want_layer_outputs_ && end < layers_.size() && layers_[end].type == type) ++end;
      const dmp_dv_cmdlist list = dmp_dv_cmdlist_create(ctx_);
      if (!list) return driver_failed("cannot create a command list");
      cmdlists_.push_back(list);
      for (std::size_t i = first; i < end; ++i) {
        const dv::Subject subject(title(layers_[i]));
        if (dmp_dv_cmdlist_add_raw(list, &layers_[i].conv_conf.header)) return driver_failed(title(layers_[i]));
        layers_[i].cmdlist = list;
        layers_[i].cmdlist_pos = static_cast<int>(i - first);
        layers_[i].cmdlist_size = static_cast<int>(end - first);
      }
    }
    first = end;
  }
  for (const dmp_dv_cmdlist list : cmdlists_)
    if (dmp_dv_cmdlist_commit(list)) return driver_failed("cannot commit a command list");
  if (iprint_ > 1) std::printf("generated %zu command lists\n", cmdlists_.size());
  return true;
}

bool CDMP_Network::RunOnDevice(fpga_layer &layer, int64_t &exec_id) {
  if (!layer.cmdlist) return dv::message(title(layer) + " has no command list: call Commit first");
  if (layer.cmdlist_pos == 0) {
    const fpga_layer &last = (&layer)[layer.cmdlist_size - 1];
    const dv::Subject subject(listed(layer, last));
    if (dmp_dv_mem_sync_end(io_mem_)) return driver_failed("cannot hand over memory for feature maps");
    exec_id = dmp_dv_cmdlist_exec(layer.cmdlist);
    if (exec_id < 0) return driver_failed(dv::about_subject("cannot run"));
    if (iprint_ > 1) std::printf("started %d layers\n", layer.cmdlist_size);
  }
  if (layer.cmdlist_pos != layer.cmdlist_size - 1) return true;
  const fpga_layer &first = (&layer)[1 - layer.cmdlist_size];
  const dv::Subject subject(listed(first, layer));
  if (dmp_dv_cmdlist_wait(layer.cmdlist, exec_id)) return driver_failed(dv::about_subject("cannot run"));
  const int usec = static_cast<int>(dmp_dv_cmdlist_get_last_exec_time(layer.cmdlist));
  (layer.type == LT_FC ? last_fc_usec_ : last_conv_usec_) += usec;
  if (iprint_ > 1) std::printf("finished %d layers after %d us\n", layer.cmdlist_size, usec);
  return true;
}

void CDMP_Network::RunOnCpu(fpga_layer &layer) {
  const auto start = std::chrono::steady_clock::now();
  const auto io = dv::memories().get(io_mem_);
  switch (layer.type) {
    case LT_FLATTEN: dv::flatten(layer, *io, is_weight_transposed); break;
    case LT_COPY_CONCAT: dv::copy_concat(layer, *io); break;
    case LT_SOFTMAX: dv::softmax(layer, *io, is_weight_transposed); break;
    default:
      if (dv::is_strict() && !is_code(reinterpret_cast<const void *>(layer.custom_proc_ptr)))
        throw dv::Error("custom_proc_ptr is no function: it shares its place with input_layer_num and softmax_axis");
      dv::custom(layer, *io, is_weight_transposed);
  }
  const auto spent = std::chrono::steady_clock::now() - start;
  last_cpu_usec_ += static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(spent).count());
}

void CDMP_Network::CopyOutput(fpga_layer &layer) {
  dmp_dv_mem_sync_start(io_mem_, 1, 1);
  layer.output.resize(layer.output_size / 2);
  const std::size_t held = layer.output_offs < io_size_ ? std::min(layer.output_size, io_size_ - layer.output_offs) : 0;
  if (held > 1) std::memcpy(static_cast<void *>(layer.output.data()), io_ptr_ + layer.output_offs, held / 2 * 2);
  if (dv::is_strict() && is_on_device(layer) && layer.cmdlist_size > 1)
    dv::report(title(layer) + ": WantLayerOutputs after Commit copies the output before it is complete");
}

bool CDMP_Network::RunNetwork() try {
  if (weights_size_ > 0 && !weights_loaded_) return dv::message("RunNetwork: call LoadWeights first");
  last_conv_usec_ = last_fc_usec_ = last_cpu_usec_ = 0;
  const int count = static_cast<int>(layers_.size());
  if (io_mem_) dv::declare_inputs(layers_.data(), count, *dv::memories().get(io_mem_), dv::Content::kMap);
  std::vector<bool> told(layers_.size());
  int64_t exec_id = -1;
  for (fpga_layer &layer : layers_) {
    if (is_on_device(layer)) {
      if (!RunOnDevice(layer, exec_id)) return false;
    } else if (is_on_cpu(layer)) {
      const dv::Subject subject(title(layer));
      if (dmp_dv_mem_sync_start(io_mem_, 1, 1)) return driver_failed("cannot access memory for feature maps");
      try {
        RunOnCpu(layer);
      } catch (const dv::Error &error) {
        return dv::message(dv::about_subject(error.what()));
      }
    }
    if (want_layer_outputs_) CopyOutput(layer);
    if (observer) dv::tell(layers_.data(), count, told, layer, observer);
  }
  if (io_mem_) dv::memories().get(io_mem_)->end_execution();
  return dmp_dv_mem_sync_start(io_mem_, 1, 1) == 0 || driver_failed("cannot access memory for feature maps");
} catch (const dv::Error &error) {
  return dv::message(error.what());
}

void *CDMP_Network::get_network_input_addr_cpu() { return io_ptr_ + layers_[0].input_offs; }

bool dmp_network_host::takes_bytes(const fpga_layer &layer) {
  return is_on_device(layer) && layer.conv_conf.header.device_type == DMP_DV_DEV_CONV &&
         layer.conv_conf.header.version == 1 && layer.conv_conf_v1.u8tofp16_table.mem;
}

bool dmp_network_host::has_byte_output(const fpga_layer &layer) {
  return layer.type == LT_CUSTOM && !layer.is_f32_output &&
         layer.output_size == dv::element_count(layer.output_dim, layer.output_dim_size);
}

std::vector<float> dmp_network_host::read_elements(const uint8_t *io_ptr, std::size_t offset, std::size_t count,
                                                   int element_bytes, const char *reader) {
  const auto io = dv::memory_at(io_ptr);
  if (!io) throw dv::Error("the network has no memory: call Initialize first");
  std::vector<float> values(count);
  const std::size_t bytes = count * static_cast<std::size_t>(element_bytes);
  io->check_range(offset, bytes, "the output");
  io->check_seen(offset, bytes, reader);
  const uint8_t *const from = io->data() + offset;
  switch (element_bytes) {
    case 1:
      io->check_written(offset, bytes, reader);
      std::copy(from, from + bytes, values.begin());
      break;
    case 2:
      io->check_halves(offset, bytes, reader);
      io->read(offset, count, values.data());
      break;
    default:
      io->check_floats(offset, bytes, reader);
      std::memcpy(values.data(), from, bytes);
  }
  return values;
}

// What get_final_output gives.
static std::vector<float> read_floats(const uint8_t *io_ptr, const fpga_layer &layer) {
  const int width = layer.is_f32_output ? 4 : 2;
  const std::size_t count = layer.output_size / static_cast<std::size_t>(width);
  return dmp_network_host::read_elements(io_ptr, layer.output_offs, count, width, "get_final_output");
}

void dmp_network_host::write_halves(const uint8_t *io_ptr, std::size_t offset, const std::vector<float> &values) {
  const auto io = dv::memory_at(io_ptr);
  if (!io) throw dv::Error("the network has no memory: call Initialize first");
  io->check_range(offset, 2 * values.size(), "the map");
  io->write(offset, values.size(), values.data());
}

std::vector<float> dmp_network_host::read_output(const uint8_t *io_ptr, const fpga_layer &layer) {
  if (!has_byte_output(layer)) return read_floats(io_ptr, layer);
  return read_elements(io_ptr, layer.output_offs, layer.output_size, 1, "the application");
}

void CDMP_Network::get_final_output(std::vector<float> &output, int i_output) {
  const bool exists = i_output >= 0 && i_output < num_output_layers_;
  const fpga_layer *layer = exists ? output_layers_[static_cast<std::size_t>(i_output)] : nullptr;
  if (!layer) {  // a board's runtime follows an invalid pointer
    dv::report("get_final_output: output " + std::to_string(i_output) + " does not exist");
    std::abort();
  }
  const dv::Subject subject(title(*layer));
  try {
    output = read_floats(io_ptr_, *layer);
  } catch (const dv::Error &error) {
    dv::report(error.what());
    output.assign(layer->output_size / (layer->is_f32_output ? 4 : 2), 0.0f);
  }
}
