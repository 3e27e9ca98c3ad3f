// Proof at compile time that the runtime's classes have the layout of the SDK's on 64-bit Linux.
#include <cstddef>

#include "dmp_network.h"

#if defined(__GLIBCXX__) && _GLIBCXX_USE_CXX11_ABI && defined(__LP64__)
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
using Layer = fpga_layer;
static_assert(sizeof(__fp16) == 2 && sizeof(std::string) == 32 && sizeof(std::vector<__fp16>) == 24, "");
static_assert(sizeof(Layer) == 2040 && offsetof(Layer, type) == 0 && offsetof(Layer, name) == 8, "");
static_assert(offsetof(Layer, conv_conf) == 40 && offsetof(Layer, conv_conf_v1) == 40, "");
static_assert(offsetof(Layer, fc_conf) == 40 && offsetof(Layer, softmax_axis) == 40, "");
static_assert(offsetof(Layer, input_layer_num) == 40 && offsetof(Layer, input_layers) == 48, "");
static_assert(offsetof(Layer, custom_proc_ptr) == 40 && offsetof(Layer, custom_param) == 48, "");
static_assert(offsetof(Layer, input_offs) == 1936 && offsetof(Layer, output_offs) == 1944, "");
static_assert(offsetof(Layer, output_size) == 1952 && offsetof(Layer, input_dim) == 1960, "");
static_assert(offsetof(Layer, input_dim_size) == 1972 && offsetof(Layer, output_dim) == 1976, "");
static_assert(offsetof(Layer, output_dim_size) == 1988 && offsetof(Layer, output) == 1992, "");
static_assert(offsetof(Layer, is_output) == 2016 && offsetof(Layer, is_f32_output) == 2017, "");
static_assert(offsetof(Layer, is_input_hw_layout) == 2018 && offsetof(Layer, cmdlist) == 2024, "");
static_assert(offsetof(Layer, cmdlist_pos) == 2032 && offsetof(Layer, cmdlist_size) == 2036, "");
static_assert(sizeof(CDMP_Network) == 216, "");
#endif
