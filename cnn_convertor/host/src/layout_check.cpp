// Proof at compile time that structures and classes have the layout of the SDK on 64-bit Linux.
#include <cstddef>

#include "dmp_network.h"

static_assert(sizeof(dmp_dv_info) == 8, "");
static_assert(sizeof(dmp_dv_info_v0) == 32 && offsetof(dmp_dv_info_v0, ub_size) == 8, "");
static_assert(offsetof(dmp_dv_info_v0, max_kernel_size) == 12 && offsetof(dmp_dv_info_v0, conv_freq) == 16, "");
static_assert(offsetof(dmp_dv_info_v0, fc_freq) == 20 && offsetof(dmp_dv_info_v0, max_fc_vector_size) == 24, "");

static_assert(sizeof(dmp_dv_buf) == 16 && offsetof(dmp_dv_buf, offs) == 8, "");
static_assert(sizeof(dmp_dv_cmdraw) == 8 && offsetof(dmp_dv_cmdraw, device_type) == 4, "");
static_assert(offsetof(dmp_dv_cmdraw, version) == 5 && offsetof(dmp_dv_cmdraw, rsvd) == 6, "");

using Run = dmp_dv_cmdraw_conv_v0_run;
static_assert(sizeof(Run) == 56 && offsetof(Run, weight_buf) == 0, "");
static_assert(offsetof(Run, conv_pad) == 16 && offsetof(Run, pool_pad) == 20, "");
static_assert(offsetof(Run, m) == 24 && offsetof(Run, conv_enable) == 26 && offsetof(Run, p) == 28, "");
static_assert(offsetof(Run, pz) == 30 && offsetof(Run, conv_stride) == 32 && offsetof(Run, conv_dilation) == 34, "");
static_assert(offsetof(Run, weight_fmt) == 36 && offsetof(Run, pool_enable) == 38, "");
static_assert(offsetof(Run, pool_avg_param) == 40 && offsetof(Run, pool_size) == 42, "");
static_assert(offsetof(Run, pool_stride) == 44 && offsetof(Run, actfunc) == 46, "");
static_assert(offsetof(Run, actfunc_param) == 48 && offsetof(Run, rectifi_en) == 50, "");
static_assert(offsetof(Run, lrn) == 52 && offsetof(Run, rsvd) == 54, "");

using V0 = dmp_dv_cmdraw_conv_v0;
static_assert(sizeof(V0) == 1864 && offsetof(V0, input_buf) == 8 && offsetof(V0, output_buf) == 24, "");
static_assert(offsetof(V0, eltwise_buf) == 40 && offsetof(V0, topo) == 56 && offsetof(V0, w) == 60, "");
static_assert(offsetof(V0, h) == 62 && offsetof(V0, z) == 64 && offsetof(V0, c) == 66, "");
static_assert(offsetof(V0, input_circular_offset) == 68 && offsetof(V0, output_mode) == 70, "");
static_assert(offsetof(V0, run) == 72, "");

using V1 = dmp_dv_cmdraw_conv_v1;
static_assert(sizeof(V1) == 1896 && offsetof(V1, u8tofp16_table) == 8 && offsetof(V1, to_bgr) == 24, "");
static_assert(offsetof(V1, rsvd) == 26 && offsetof(V1, conv_cmd) == 32, "");

static_assert(sizeof(dmp_dv_cmdraw_fc_v0) == 72 && sizeof(dmp_dv_cmdraw_maximizer_v0) == 48, "");
static_assert(offsetof(dmp_dv_cmdraw_maximizer_v0, width) == 40 && offsetof(dmp_dv_cmdraw_maximizer_v0, nclass) == 44, "");
using Ipu = dmp_dv_cmdraw_ipu_v0;
static_assert(sizeof(Ipu) == 224 && offsetof(Ipu, fmt_tex) == 56 && offsetof(Ipu, stride_rd) == 68, "");
static_assert(offsetof(Ipu, lut) == 76 && offsetof(Ipu, ncolor_lut) == 204 && offsetof(Ipu, ridx) == 211, "");

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
