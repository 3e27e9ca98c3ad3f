// The base class of generated networks: it reserves memory, loads weights and runs the layers.
#ifndef DMP_NETWORK_H
#define DMP_NETWORK_H

// The SDK's header includes all of these, and applications rely on it.
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "dmp_dv.h"
#include "dmp_dv_cmdraw_v0.h"
#include "dmp_dv_cmdraw_v1.h"

#if !defined(__clang__) && !defined(__ARM_FP16_FORMAT_IEEE)
// GCC has the type __fp16 on ARM only. Elsewhere this struct takes its place: it stores FP16 and computes in FP32.
struct __fp16 {
  __fp16() = default;
  __fp16(float value);
  operator float() const;
  __fp16 &operator+=(float value) { return *this = *this + value; }
  __fp16 &operator-=(float value) { return *this = *this - value; }
  __fp16 &operator*=(float value) { return *this = *this * value; }
  __fp16 &operator/=(float value) { return *this = *this / value; }

 private:
  uint16_t bits_;
};
#endif

enum layer_type {
  LT_INPUT,        // network input; nothing runs
  LT_CONV,         // command of the convolution block
  LT_FC,           // command of a fully connected layer
  LT_FLATTEN,      // CPU: feature map from the device's order to HWC
  LT_CONCAT,       // concatenation whose inputs are already in place; nothing runs
  LT_COPY_CONCAT,  // CPU: concatenation that copies
  LT_SOFTMAX,      // CPU: softmax in FP16, which overwrites its input
  LT_CUSTOM,       // CPU: the application's function
};

// Conversion of an 8-bit input value v to FP16.
enum convert_policy {
  CP_DIV_255,              // v / 255
  CP_MINUS_128,            // v - 128
  CP_MINUS_128_DIV_128,    // (v - 128) / 128
  CP_MINUS_127_5_DIV_128,  // (v - 127.5) / 128
  CP_DIRECT_CVT,           // v
  CP_USER_SPECIFY,         // the application's table
  CP_NOTHING,              // the input is FP16
};

struct fpga_layer;

typedef void (*run_custom_callback_proc)(fpga_layer &layer, void *custom_param, uint8_t *io_ptr);

#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wnested-anon-types"  // an extension that __extension__ does not cover
#endif

// One layer. Dimensions are W, H, C, or the length of a vector. Offsets and sizes are bytes of the I/O memory.
// A new layer is all zero bytes, its name and output too: assign a name that is not empty, and never move one into it.
struct fpga_layer {
  layer_type type;
  std::string name;
  union {  // a layer has one of these
    struct dmp_dv_cmdraw_conv_v0 conv_conf;
    struct dmp_dv_cmdraw_conv_v1 conv_conf_v1;
    struct dmp_dv_cmdraw_fc_v0 fc_conf;
    int softmax_axis;  // 0, 1 or 2
    __extension__ struct {
      int input_layer_num;
      fpga_layer **input_layers;
    };
    __extension__ struct {
      run_custom_callback_proc custom_proc_ptr;
      void *custom_param;
    };
  };
  size_t input_offs;
  size_t output_offs;
  size_t output_size;
  int input_dim[3];
  int input_dim_size;
  int output_dim[3];
  int output_dim_size;
  std::vector<__fp16> output;  // copy of the output, after WantLayerOutputs()

  bool is_output;
  bool is_f32_output;       // the output is FP32
  bool is_input_hw_layout;  // the input is in the device's order

  dmp_dv_cmdlist cmdlist;  // the command list that holds the layer
  int cmdlist_pos;         // its position in the list
  int cmdlist_size;        // the number of layers in the list
};

#ifdef __clang__
#pragma clang diagnostic pop
#endif

// A network. The application calls Initialize(), LoadWeights(), Commit() and then RunNetwork() for each input.
// Functions that return bool return false on failure, with a message on stderr.
class CDMP_Network {
 public:
  CDMP_Network();
  virtual ~CDMP_Network();

  std::vector<fpga_layer *> &get_output_layers() { return output_layers_; }
  fpga_layer &get_layer(int i);
  int get_total_layer_count() const { return num_layers_; }
  int get_output_layer_count() const { return num_output_layers_; }

  // Reserves memory and describes the layers.
  virtual bool Initialize() = 0;

  // Loads the packed weights. The file has exactly the reserved size.
  bool LoadWeights(const std::string &filename);

  // Makes the first layer read 8-bit input. cvt_table: FP16 table[256][3] of CP_USER_SPECIFY. Call it before Commit().
  bool SetConvertPolicy(convert_policy policy, bool to_bgr, uint16_t *cvt_table = NULL);

  // Builds the command lists. Call it once.
  bool Commit();

  // Runs all layers.
  bool RunNetwork();

  // Address of the first layer's input.
  void *get_network_input_addr_cpu();

  // Output i_output as FP32, in the order in which it lies in memory.
  void get_final_output(std::vector<float> &output, int i_output = 0);

  // Microseconds of the last run.
  int get_conv_usec() const { return last_conv_usec_; }
  int get_fc_usec() const { return last_fc_usec_; }
  int get_cpu_usec() const { return last_cpu_usec_; }

  // 0: errors only; 1: memory; 2: command lists. Text goes to stdout, errors go to stderr.
  void Verbose(int level) { iprint_ = level; }

  uint8_t *get_io_ptr() const { return io_ptr_; }
  const dmp_dv_info_v0 &get_dv_info() const { return dv_info_; }

  // Runs every layer by itself and copies its output to fpga_layer.output. Call it before Commit().
  void WantLayerOutputs() { want_layer_outputs_ = true; }

 protected:
  bool ReserveMemory(size_t weights_size, size_t io_size);
  bool GenerateCommandLists();  // Commit() calls it
  void set_num_layers(int n);
  void set_num_output_layers(int n);

  bool is_weight_transposed;
  int num_layers_;
  int num_output_layers_;
  std::vector<fpga_layer> layers_;
  std::vector<fpga_layer *> output_layers_;
  dmp_dv_context ctx_;
  struct dmp_dv_info_v0 dv_info_;
  dmp_dv_mem weights_mem_;
  dmp_dv_mem io_mem_;
  uint8_t *io_ptr_;
  std::vector<dmp_dv_cmdlist> cmdlists_;
  int last_conv_usec_;
  int last_fc_usec_;
  int last_cpu_usec_;
  convert_policy cvt_policy_;
  bool cvt_to_bgr_;
  uint16_t *cvt_table_;

 private:
  bool BuildConvertTable();
  bool RunOnDevice(fpga_layer &layer, int64_t &exec_id);
  void RunOnCpu(fpga_layer &layer);
  void CopyOutput(fpga_layer &layer);

  size_t weights_size_;
  size_t io_size_;
  int iprint_;
  bool weights_loaded_;
  bool want_layer_outputs_;
  static fpga_layer err_layer_;
};

// Reads a custom layer's input, FP16 at layer.input_offs: in HWC order if is_input_hw_layout, otherwise as it lies in
// memory. need_transpose: the network's weights are not transposed.
void get_layer_input(fpga_layer &layer, std::vector<float> &layer_input, uint8_t *io_ptr, bool need_transpose = true);

// Writes a custom layer's output, FP32, to layer.output_offs. Leave is_output_hw_layout false: it writes elsewhere.
void put_layer_output(fpga_layer &layer, std::vector<float> &layer_output, uint8_t *io_ptr,
                      bool is_output_hw_layout = false, bool need_transpose = true);

#endif
