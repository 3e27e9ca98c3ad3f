// CDMP_Network: memories, weights, command lists and the order of execution.
#include "dmp_network.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>

#include "cpu_layers.h"
#include "dmp_dv_host.h"

namespace {

struct CloseFile {
  void operator()(std::FILE *file) const { std::fclose(file); }
};

bool is_device_layer(const fpga_layer &layer) { return layer.type == LT_CONV || layer.type == LT_FC; }

bool is_cpu_layer(const fpga_layer &layer) {
  return layer.type == LT_FLATTEN || layer.type == LT_COPY_CONCAT || layer.type == LT_SOFTMAX ||
         layer.type == LT_CUSTOM;
}

std::size_t input_bytes(const fpga_layer &layer) {
  return 2 * dv::element_count(layer.input_dim, layer.input_dim_size);
}

}  // namespace

CDMP_Network::CDMP_Network() = default;

CDMP_Network::~CDMP_Network() {
  ReleaseLists();
  if (io_mem_) dmp_dv_mem_release(io_mem_);
  if (weights_mem_) dmp_dv_mem_release(weights_mem_);
  if (ctx_) dmp_dv_context_release(ctx_);
}

bool CDMP_Network::Fail(const std::string &text) {
  last_error_ = text;
  if (verbose_ > 0) std::fprintf(stderr, "error: %s\n", text.c_str());
  return false;
}

void CDMP_Network::ReleaseLists() {
  for (const Step &step : steps_)
    if (step.list) dmp_dv_cmdlist_release(step.list);
  steps_.clear();
}

bool CDMP_Network::ReserveMemory(std::size_t weights_size, std::size_t io_size) {
  if (ctx_) return Fail("ReserveMemory: the network is initialized already");
  ctx_ = dmp_dv_context_create();
  if (!ctx_) return Fail(std::string("cannot open the device: ") + dmp_dv_get_last_error_message());
  info_.header = {sizeof(info_), 0};
  if (dmp_dv_context_get_info(ctx_, &info_.header)) return Fail(dmp_dv_get_last_error_message());
  weights_size_ = weights_size;
  io_size_ = io_size;
  if (weights_size > 0) {  // a network without convolutions has none
    weights_mem_ = dmp_dv_mem_alloc(ctx_, weights_size);
    if (!weights_mem_) return Fail(std::string("memory for weights: ") + dmp_dv_get_last_error_message());
  }
  io_mem_ = dmp_dv_mem_alloc(ctx_, io_size);
  if (!io_mem_) return Fail(std::string("memory for maps: ") + dmp_dv_get_last_error_message());
  io_ptr_ = dmp_dv_mem_map(io_mem_);
  if (!io_ptr_ || dmp_dv_mem_sync_start(io_mem_, 1, 1)) return Fail(dmp_dv_get_last_error_message());
  if (verbose_ > 0) std::fprintf(stderr, "reserved %zu bytes for weights, %zu for maps\n", weights_size, io_size);
  return true;
}

bool CDMP_Network::LoadWeights(const std::string &path) {
  if (!io_mem_) return Fail("LoadWeights: call Initialize first");
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) return Fail("cannot open the weights file \"" + path + "\"");
  std::size_t got = 0;
  if (weights_mem_) {
    uint8_t *to = dmp_dv_mem_map(weights_mem_);
    if (!to || dmp_dv_mem_sync_start(weights_mem_, 0, 1)) return Fail(dmp_dv_get_last_error_message());
    got = std::fread(to, 1, weights_size_, file.get());
    if (dmp_dv_mem_sync_end(weights_mem_) || dmp_dv_mem_unmap(weights_mem_))
      return Fail(dmp_dv_get_last_error_message());
  }
  if (std::ferror(file.get())) return Fail("cannot read the weights file \"" + path + "\"");
  if (got < weights_size_)
    return Fail("the weights file \"" + path + "\" has only " + std::to_string(got) + " bytes, the network needs " +
                std::to_string(weights_size_));
  if (std::fgetc(file.get()) != EOF)
    return Fail("the weights file \"" + path + "\" has more than the " + std::to_string(weights_size_) +
                " bytes that the network needs");
  if (verbose_ > 0) std::fprintf(stderr, "loaded %zu bytes of weights\n", weights_size_);
  return true;
}

bool CDMP_Network::CheckLayer(const fpga_layer &layer) {
  const std::string name = "layer \"" + layer.name + "\": ";
  if (layer.output_offs > io_size_ || layer.output_size > io_size_ - layer.output_offs)
    return Fail(name + "output_offs = " + std::to_string(layer.output_offs) + " and output_size = " +
                std::to_string(layer.output_size) + " exceed the " + std::to_string(io_size_) + " bytes of maps");
  for (const int size : {layer.input_dim_size, layer.output_dim_size})
    if (size < 0 || size > 3) return Fail(name + "a map has 1 to 3 dimensions, not " + std::to_string(size));
  if (layer.input_layer_num > 0 && !layer.input_layers) return Fail(name + "input_layers is null");
  if (layer.type == LT_COPY_CONCAT && layer.input_layer_num < 1) return Fail(name + "a concatenation without inputs");
  if (layer.type == LT_CUSTOM && !layer.custom_proc_ptr) return Fail(name + "custom_proc_ptr is null");
  if (layer.type == LT_CUSTOM && layer.input_layer_num > 0) return true;
  if (is_cpu_layer(layer) && layer.type != LT_COPY_CONCAT &&
      (layer.input_offs > io_size_ || input_bytes(layer) > io_size_ - layer.input_offs))
    return Fail(name + "the input at " + std::to_string(layer.input_offs) + " exceeds the " +
                std::to_string(io_size_) + " bytes of maps");
  return true;
}

bool CDMP_Network::CheckOutputs() {
  for (std::size_t i = 0; i < output_layers_.size(); ++i)
    if (!output_layers_[i]) return Fail("output_layers_[" + std::to_string(i) + "] is not set");
  return true;
}

bool CDMP_Network::AddCommand(fpga_layer &layer) {
  const auto *command = reinterpret_cast<const dmp_dv_cmdraw *>(&layer.conv_conf_v1);
  if (dmp_dv_cmdlist_add_raw(steps_.back().list, command) == 0) return true;
  return Fail("layer \"" + layer.name + "\": " + dmp_dv_get_last_error_message());
}

bool CDMP_Network::Commit() {
  if (!io_mem_) return Fail("Commit: call Initialize first");
  ReleaseLists();
  if (!CheckOutputs()) return false;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    fpga_layer &layer = layers_[i];
    if (!CheckLayer(layer)) return false;
    if (!is_device_layer(layer)) {
      steps_.push_back({nullptr, i, i});
      continue;
    }
    // An observer looks at each layer's output, so that each layer is a list of its own.
    const bool continues = i > 0 && !observer_ && layers_[i - 1].type == layer.type;
    if (continues) {
      steps_.back().last = i;
    } else {
      const dmp_dv_cmdlist list = dmp_dv_cmdlist_create(ctx_);
      if (!list) return Fail(dmp_dv_get_last_error_message());
      steps_.push_back({list, i, i});
    }
    if (!AddCommand(layer)) return false;
  }
  for (const Step &step : steps_)
    if (step.list && dmp_dv_cmdlist_commit(step.list)) return Fail(dmp_dv_get_last_error_message());
  if (verbose_ > 0) std::fprintf(stderr, "committed %zu layers in %zu steps\n", layers_.size(), steps_.size());
  return true;
}

void CDMP_Network::DeclareInputs() {
  dmp_dv_host_begin_execution(io_mem_);
  bool declared = false;
  for (const fpga_layer &layer : layers_)
    if (layer.type == LT_INPUT) {
      dmp_dv_host_declare_written(io_mem_, layer.output_offs, layer.output_size);
      declared = true;
    }
  if (!declared) dmp_dv_host_declare_written(io_mem_, layers_[0].input_offs, input_bytes(layers_[0]));
}

bool CDMP_Network::RunStep(const Step &step) {
  fpga_layer &first = layers_[step.first];
  const auto start = std::chrono::steady_clock::now();
  if (step.list) {
    if (dmp_dv_mem_sync_end(io_mem_)) return Fail(dmp_dv_get_last_error_message());
    const int64_t id = dmp_dv_cmdlist_exec(step.list);
    const bool done = id >= 0 && dmp_dv_cmdlist_wait(step.list, id) == 0;
    const std::string why = done ? "" : dmp_dv_get_last_error_message();
    if (dmp_dv_mem_sync_start(io_mem_, 1, 1)) return Fail(dmp_dv_get_last_error_message());
    if (!done)
      return Fail("layers \"" + first.name + "\" to \"" + layers_[step.last].name + "\": " + why);
  } else if (is_cpu_layer(first) && !RunOnCpu(first)) {
    return false;
  }
  const auto spent = std::chrono::steady_clock::now() - start;
  const int64_t usec = std::chrono::duration_cast<std::chrono::microseconds>(spent).count();
  (!step.list ? cpu_usec_ : first.type == LT_FC ? fc_usec_ : conv_usec_) += usec;
  if (verbose_ > 1)
    for (std::size_t i = step.first; i <= step.last; ++i)
      std::fprintf(stderr, "layer %zu \"%s\" done%s\n", i, layers_[i].name.c_str(),
                   i == step.last ? (" after " + std::to_string(usec) + " us").c_str() : "");
  if (observer_) observer_(first);
  return true;
}

bool CDMP_Network::RunNetwork() {
  if (steps_.empty()) return Fail("RunNetwork: call Commit first");
  conv_usec_ = fc_usec_ = cpu_usec_ = 0;
  DeclareInputs();
  for (const Step &step : steps_)
    if (!RunStep(step)) return false;
  if (verbose_ > 0)
    std::fprintf(stderr, "ran: convolution %lld us, fully connected %lld us, CPU %lld us\n",
                 static_cast<long long>(conv_usec_), static_cast<long long>(fc_usec_),
                 static_cast<long long>(cpu_usec_));
  return true;
}

void *CDMP_Network::get_network_input_addr_cpu() {
  return io_ptr_ && !layers_.empty() ? io_ptr_ + layers_[0].input_offs : nullptr;
}

bool CDMP_Network::get_layer_output(const fpga_layer &layer, std::vector<float> &out) {
  if (!io_ptr_) return Fail("call Initialize first");
  if (layer.output_offs > io_size_ || layer.output_size > io_size_ - layer.output_offs)
    return Fail("layer \"" + layer.name + "\": the output is outside the maps");
  out.resize(layer.output_size / (layer.is_f32_output ? 4 : 2));
  if (layer.is_f32_output) {
    std::memcpy(out.data(), io_ptr_ + layer.output_offs, 4 * out.size());
    return true;
  }
  if (dmp_dv_host_read(io_mem_, layer.output_offs, out.size(), out.data()) == 0) return true;
  return Fail("layer \"" + layer.name + "\": " + dmp_dv_get_last_error_message());
}

bool CDMP_Network::get_final_output(std::vector<float> &out, int i) {
  if (i < 0 || i >= get_output_layer_count())
    return Fail("output " + std::to_string(i) + ": the network has " + std::to_string(get_output_layer_count()));
  const fpga_layer *layer = output_layers_[static_cast<std::size_t>(i)];
  return layer ? get_layer_output(*layer, out) : Fail("output " + std::to_string(i) + " is not set");
}
