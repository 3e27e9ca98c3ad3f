// Proof at compile time that the structures of the C interface have the driver's layout.
#include <cstddef>

#include "dmp_dv.h"

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
