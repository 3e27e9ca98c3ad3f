// The base class of generated networks: it owns their memories, loads their weights and runs their layers.
#ifndef DMP_NETWORK_H
#define DMP_NETWORK_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dmp_dv.h"

// What a layer is.
enum layer_type {
  LT_INPUT,        // a network input; nothing to do
  LT_CONV,         // a command of the convolution block
  LT_FC,           // a fully connected layer, as a command of the convolution block
  LT_FLATTEN,      // CPU: a map to HWC order
  LT_CONCAT,       // a concatenation whose inputs are in place; nothing to do
  LT_COPY_CONCAT,  // CPU: a concatenation that copies
  LT_SOFTMAX,      // CPU: softmax, written as FP32
  LT_CUSTOM        // CPU: the user's code, written as FP32
};

// One layer. Dimensions are in the order W, H, C; a vector has one. Offsets and sizes are bytes of the I/O buffer.
struct fpga_layer {
  std::string name{};
  layer_type type = LT_INPUT;
  dmp_dv_cmdraw_conv_v1 conv_conf_v1{};  // LT_CONV and LT_FC

  std::size_t input_offs = 0;
  std::size_t output_offs = 0;
  std::size_t output_size = 0;
  int input_dim[3] = {0, 0, 0};
  int input_dim_size = 0;
  int output_dim[3] = {0, 0, 0};
  int output_dim_size = 0;

  bool is_output = false;
  bool is_f32_output = false;       // the output is FP32, not FP16
  bool is_input_hw_layout = false;  // the input is in the device's order (see section "Layers" of host-device.md)

  int softmax_axis = -1;  // axis of (height, width, channels), or of a vector; negative values count from the end

  void (*custom_proc_ptr)(fpga_layer &layer, void *custom_param, uint8_t *io_ptr) = nullptr;
  void *custom_param = nullptr;

  int input_layer_num = 0;  // layers whose outputs this one reads, where it needs to know them
  fpga_layer **input_layers = nullptr;
};

// A network. A derived class describes it in Initialize(); the application then calls, in this order,
// Initialize(), LoadWeights(), Commit() and, as often as it likes, RunNetwork(). What returns bool gives false for
// failure; Verbose(1) makes it say why.
class CDMP_Network {
 public:
  CDMP_Network();
  virtual ~CDMP_Network();
  CDMP_Network(const CDMP_Network &) = delete;
  CDMP_Network &operator=(const CDMP_Network &) = delete;

  // Describes the network and reserves its memories.
  virtual bool Initialize() = 0;
  // Reads the packed weights; the file must have exactly the reserved size.
  bool LoadWeights(const std::string &path);
  // Checks the layers and builds the command lists.
  bool Commit();
  // Runs every layer once on the present input.
  bool RunNetwork();

  // Where the application writes the network's input: FP16, in the device's order.
  void *get_network_input_addr_cpu();
  // Output number i as FP32, in the order in which it lies in memory.
  bool get_final_output(std::vector<float> &out, int i = 0);

  int get_total_layer_count() const { return static_cast<int>(layers_.size()); }
  int get_output_layer_count() const { return static_cast<int>(output_layers_.size()); }
  const std::vector<fpga_layer *> &get_output_layers() const { return output_layers_; }
  fpga_layer &get_layer(int i) { return layers_.at(static_cast<std::size_t>(i)); }
  const fpga_layer &get_layer(int i) const { return layers_.at(static_cast<std::size_t>(i)); }

  // 0: silent (errors too); 1: errors and totals; 2: every layer. Text goes to stderr.
  void Verbose(int level) { verbose_ = level; }

  // Microseconds of the last RunNetwork() in convolution layers, fully connected layers and on the CPU.
  int64_t get_conv_usec() const { return conv_usec_; }
  int64_t get_fc_usec() const { return fc_usec_; }
  int64_t get_cpu_usec() const { return cpu_usec_; }

  uint8_t *get_io_ptr() { return io_ptr_; }
  const dmp_dv_info_v0 &get_dv_info() const { return info_; }

  // --- Only on the host: a board's runtime does not have what follows. ---

  // Why the last call that gave false did so.
  const std::string &get_last_error() const { return last_error_; }
  // Calls observer after each layer, when its output is still in memory. Set it before Commit().
  void set_layer_observer(std::function<void(const fpga_layer &)> observer) { observer_ = std::move(observer); }
  // A layer's output as FP32, in the order in which it lies in memory. Its memory may be used again by later layers.
  bool get_layer_output(const fpga_layer &layer, std::vector<float> &out);

 protected:
  // Allocates both memories.
  bool ReserveMemory(std::size_t weights_size, std::size_t io_size);
  void set_num_layers(int n) { layers_.assign(static_cast<std::size_t>(n), fpga_layer()); }
  void set_num_output_layers(int n) { output_layers_.assign(static_cast<std::size_t>(n), nullptr); }

  std::vector<fpga_layer> layers_;
  std::vector<fpga_layer *> output_layers_;
  dmp_dv_mem io_mem_ = nullptr;
  dmp_dv_mem weights_mem_ = nullptr;
  uint8_t *io_ptr_ = nullptr;
  bool is_weight_transposed = false;

 private:
  // Consecutive layers that run together: a command list, or one CPU layer.
  struct Step {
    dmp_dv_cmdlist list;
    std::size_t first, last;  // layers, both included
  };

  bool Fail(const std::string &text);
  bool CheckLayer(const fpga_layer &layer);
  bool CheckOutputs();
  bool AddCommand(fpga_layer &layer);
  bool RunStep(const Step &step);
  bool RunOnCpu(fpga_layer &layer);
  void DeclareInputs();
  void ReleaseLists();

  dmp_dv_context ctx_ = nullptr;
  dmp_dv_info_v0 info_{};
  std::size_t weights_size_ = 0;
  std::size_t io_size_ = 0;
  std::vector<Step> steps_;
  std::function<void(const fpga_layer &)> observer_;
  std::string last_error_;
  int verbose_ = 0;
  int64_t conv_usec_ = 0;
  int64_t fc_usec_ = 0;
  int64_t cpu_usec_ = 0;
};

#endif
