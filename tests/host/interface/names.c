/* Every name of the driver's interface with its value, type and place; C11 and C++11. It only has to compile. */
#include "dmp_dv.h"

void *(*stdlib_is_included)(size_t) = malloc;
uint64_t stdint_is_included = UINT64_C(0);

#include <assert.h>
#include <stddef.h>

#define CONSTANT(name, value) static_assert(name == value, #name)
#define FUNCTION(result, name, arguments) result(*pointer_to_##name) arguments = name
#define HANDLE(name) struct name##_impl *implementation_of_##name(name handle) { return handle; }
#define SIZE(structure, bytes) static_assert(sizeof(struct structure) == bytes, #structure)
#define FIELD(structure, type, name, offset)                              \
  static_assert(offsetof(struct structure, name) == offset, #structure); \
  type *structure##_##name(struct structure *of) { return &of->name; }

typedef uint8_t Bytes2[2];
typedef uint8_t Bytes3[3];
typedef uint16_t Halves3[3];
typedef uint32_t Colors[32];

CONSTANT(DMP_DV_MEM_CPU_WONT_READ, 1);
CONSTANT(DMP_DV_MEM_AS_DEV_OUTPUT, 2);
CONSTANT(DMP_DV_MEM_CPU_HADNT_READ, 4);
CONSTANT(DMP_DV_DEV_CONV, 1);
CONSTANT(DMP_DV_DEV_FC, 2);
CONSTANT(DMP_DV_DEV_IPU, 3);
CONSTANT(DMP_DV_DEV_MAXIMIZER, 4);
CONSTANT(DMP_DV_DEV_COUNT, 5);
CONSTANT(DMP_DV_RGBA8888, 0);
CONSTANT(DMP_DV_RGB888, 1);
CONSTANT(DMP_DV_RGBFP16, 2);
CONSTANT(DMP_DV_LUT, 7);
CONSTANT(DMP_DV_CNV_FP16_SUB, 0);
CONSTANT(DMP_DV_CNV_FP16_DIV_255, 1);

HANDLE(dmp_dv_context)
HANDLE(dmp_dv_mem)
HANDLE(dmp_dv_cmdlist)

SIZE(dmp_dv_info, 8);
FIELD(dmp_dv_info, uint32_t, size, 0)
FIELD(dmp_dv_info, uint32_t, version, 4)

SIZE(dmp_dv_info_v0, 32);
FIELD(dmp_dv_info_v0, struct dmp_dv_info, header, 0)
FIELD(dmp_dv_info_v0, int32_t, ub_size, 8)
FIELD(dmp_dv_info_v0, int32_t, max_kernel_size, 12)
FIELD(dmp_dv_info_v0, int32_t, conv_freq, 16)
FIELD(dmp_dv_info_v0, int32_t, fc_freq, 20)
FIELD(dmp_dv_info_v0, int32_t, max_fc_vector_size, 24)
FIELD(dmp_dv_info_v0, int32_t, rsvd, 28)

SIZE(dmp_dv_buf, 16);
FIELD(dmp_dv_buf, dmp_dv_mem, mem, 0)
FIELD(dmp_dv_buf, uint64_t, rsvd, 0)
FIELD(dmp_dv_buf, uint64_t, offs, 8)

SIZE(dmp_dv_cmdraw, 8);
FIELD(dmp_dv_cmdraw, uint32_t, size, 0)
FIELD(dmp_dv_cmdraw, uint8_t, device_type, 4)
FIELD(dmp_dv_cmdraw, uint8_t, version, 5)
FIELD(dmp_dv_cmdraw, Bytes2, rsvd, 6)

FUNCTION(const char *, dmp_dv_get_version_string, (void));
FUNCTION(const char *, dmp_dv_get_last_error_message, (void));
FUNCTION(void, dmp_dv_set_last_error_message, (const char *, ...));

FUNCTION(dmp_dv_context, dmp_dv_context_create, (void));
FUNCTION(const char *, dmp_dv_context_get_info_string, (dmp_dv_context));
FUNCTION(int, dmp_dv_context_get_info, (dmp_dv_context, struct dmp_dv_info *));
FUNCTION(int, dmp_dv_context_release, (dmp_dv_context));
FUNCTION(int, dmp_dv_context_retain, (dmp_dv_context));

FUNCTION(dmp_dv_mem, dmp_dv_mem_alloc, (dmp_dv_context, size_t));
FUNCTION(int, dmp_dv_mem_release, (dmp_dv_mem));
FUNCTION(int, dmp_dv_mem_retain, (dmp_dv_mem));
FUNCTION(uint8_t *, dmp_dv_mem_map, (dmp_dv_mem));
FUNCTION(void, dmp_dv_mem_unmap, (dmp_dv_mem));
FUNCTION(int, dmp_dv_mem_sync_start, (dmp_dv_mem, int, int));
FUNCTION(int, dmp_dv_mem_sync_end, (dmp_dv_mem));
FUNCTION(size_t, dmp_dv_mem_get_size, (dmp_dv_mem));
FUNCTION(int64_t, dmp_dv_mem_get_total_size, (void));
FUNCTION(int, dmp_dv_mem_to_device, (dmp_dv_mem, size_t, size_t, int));
FUNCTION(int, dmp_dv_mem_to_cpu, (dmp_dv_mem, size_t, size_t, int));

FUNCTION(dmp_dv_cmdlist, dmp_dv_cmdlist_create, (dmp_dv_context));
FUNCTION(int, dmp_dv_cmdlist_release, (dmp_dv_cmdlist));
FUNCTION(int, dmp_dv_cmdlist_retain, (dmp_dv_cmdlist));
FUNCTION(int, dmp_dv_cmdlist_commit, (dmp_dv_cmdlist));
FUNCTION(int64_t, dmp_dv_cmdlist_exec, (dmp_dv_cmdlist));
FUNCTION(int, dmp_dv_cmdlist_wait, (dmp_dv_cmdlist, int64_t));
FUNCTION(int64_t, dmp_dv_cmdlist_get_last_exec_time, (dmp_dv_cmdlist));
FUNCTION(int, dmp_dv_cmdlist_add_raw, (dmp_dv_cmdlist, struct dmp_dv_cmdraw *));

FUNCTION(int, dmp_dv_pack_conv_weights, (int, int, int, int, const uint16_t *, const void *, const uint16_t *,
                                         const uint16_t *, uint8_t *, size_t *));
FUNCTION(int, dmp_dv_pack_dil_weights, (int, int, int, int, const uint16_t *, const void *, const uint16_t *,
                                        const uint16_t *, uint8_t *, size_t *));
FUNCTION(int, dmp_dv_pack_fc_weights, (int, int, int, int, int, int, const uint16_t *, const void *,
                                       const uint16_t *, uint8_t *, size_t *));

FUNCTION(int, dmp_dv_device_exists, (dmp_dv_context, int));
FUNCTION(int, dmp_dv_fpga_device_exists, (dmp_dv_context, int));

#include "dmp_dv_cmdraw_v0.h"

SIZE(dmp_dv_cmdraw_conv_v0_run, 56);
FIELD(dmp_dv_cmdraw_conv_v0_run, struct dmp_dv_buf, weight_buf, 0)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint32_t, conv_pad, 16)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint32_t, pool_pad, 20)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, m, 24)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, conv_enable, 26)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, p, 28)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, pz, 30)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, conv_stride, 32)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, conv_dilation, 34)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, weight_fmt, 36)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, pool_enable, 38)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, pool_avg_param, 40)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, pool_size, 42)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, pool_stride, 44)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, actfunc, 46)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, actfunc_param, 48)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, rectifi_en, 50)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, lrn, 52)
FIELD(dmp_dv_cmdraw_conv_v0_run, uint16_t, rsvd, 54)

typedef struct dmp_dv_cmdraw_conv_v0_run Runs[32];

SIZE(dmp_dv_cmdraw_conv_v0, 1864);
FIELD(dmp_dv_cmdraw_conv_v0, struct dmp_dv_cmdraw, header, 0)
FIELD(dmp_dv_cmdraw_conv_v0, struct dmp_dv_buf, input_buf, 8)
FIELD(dmp_dv_cmdraw_conv_v0, struct dmp_dv_buf, output_buf, 24)
FIELD(dmp_dv_cmdraw_conv_v0, struct dmp_dv_buf, eltwise_buf, 40)
FIELD(dmp_dv_cmdraw_conv_v0, uint32_t, topo, 56)
FIELD(dmp_dv_cmdraw_conv_v0, uint16_t, w, 60)
FIELD(dmp_dv_cmdraw_conv_v0, uint16_t, h, 62)
FIELD(dmp_dv_cmdraw_conv_v0, uint16_t, z, 64)
FIELD(dmp_dv_cmdraw_conv_v0, uint16_t, c, 66)
FIELD(dmp_dv_cmdraw_conv_v0, uint16_t, input_circular_offset, 68)
FIELD(dmp_dv_cmdraw_conv_v0, uint16_t, output_mode, 70)
FIELD(dmp_dv_cmdraw_conv_v0, Runs, run, 72)

SIZE(dmp_dv_cmdraw_fc_v0, 72);
FIELD(dmp_dv_cmdraw_fc_v0, struct dmp_dv_cmdraw, header, 0)
FIELD(dmp_dv_cmdraw_fc_v0, struct dmp_dv_buf, weight_buf, 8)
FIELD(dmp_dv_cmdraw_fc_v0, struct dmp_dv_buf, input_buf, 24)
FIELD(dmp_dv_cmdraw_fc_v0, struct dmp_dv_buf, output_buf, 40)
FIELD(dmp_dv_cmdraw_fc_v0, uint16_t, input_size, 56)
FIELD(dmp_dv_cmdraw_fc_v0, uint16_t, output_size, 58)
FIELD(dmp_dv_cmdraw_fc_v0, uint16_t, weight_fmt, 60)
FIELD(dmp_dv_cmdraw_fc_v0, uint16_t, actfunc, 62)
FIELD(dmp_dv_cmdraw_fc_v0, uint16_t, actfunc_param, 64)
FIELD(dmp_dv_cmdraw_fc_v0, Halves3, rsvd, 66)

SIZE(dmp_dv_cmdraw_ipu_v0, 224);
FIELD(dmp_dv_cmdraw_ipu_v0, struct dmp_dv_cmdraw, header, 0)
FIELD(dmp_dv_cmdraw_ipu_v0, struct dmp_dv_buf, tex, 8)
FIELD(dmp_dv_cmdraw_ipu_v0, struct dmp_dv_buf, rd, 24)
FIELD(dmp_dv_cmdraw_ipu_v0, struct dmp_dv_buf, wr, 40)
FIELD(dmp_dv_cmdraw_ipu_v0, uint8_t, fmt_tex, 56)
FIELD(dmp_dv_cmdraw_ipu_v0, uint8_t, fmt_rd, 57)
FIELD(dmp_dv_cmdraw_ipu_v0, uint8_t, fmt_wr, 58)
FIELD(dmp_dv_cmdraw_ipu_v0, uint16_t, tex_width, 60)
FIELD(dmp_dv_cmdraw_ipu_v0, uint16_t, tex_height, 62)
FIELD(dmp_dv_cmdraw_ipu_v0, uint16_t, rect_width, 64)
FIELD(dmp_dv_cmdraw_ipu_v0, uint16_t, rect_height, 66)
FIELD(dmp_dv_cmdraw_ipu_v0, int32_t, stride_rd, 68)
FIELD(dmp_dv_cmdraw_ipu_v0, int32_t, stride_wr, 72)
FIELD(dmp_dv_cmdraw_ipu_v0, Colors, lut, 76)
FIELD(dmp_dv_cmdraw_ipu_v0, uint8_t, ncolor_lut, 204)
FIELD(dmp_dv_cmdraw_ipu_v0, uint8_t, alpha, 205)
FIELD(dmp_dv_cmdraw_ipu_v0, uint8_t, transpose, 206)
FIELD(dmp_dv_cmdraw_ipu_v0, uint8_t, use_const_alpha, 207)
FIELD(dmp_dv_cmdraw_ipu_v0, uint8_t, use_tex, 208)
FIELD(dmp_dv_cmdraw_ipu_v0, uint8_t, use_rd, 209)
FIELD(dmp_dv_cmdraw_ipu_v0, uint8_t, blf, 210)
FIELD(dmp_dv_cmdraw_ipu_v0, int8_t, ridx, 211)
FIELD(dmp_dv_cmdraw_ipu_v0, int8_t, gidx, 212)
FIELD(dmp_dv_cmdraw_ipu_v0, int8_t, bidx, 213)
FIELD(dmp_dv_cmdraw_ipu_v0, int8_t, aidx, 214)
FIELD(dmp_dv_cmdraw_ipu_v0, uint8_t, cnv_type, 215)
FIELD(dmp_dv_cmdraw_ipu_v0, Bytes3, cnv_param, 216)

SIZE(dmp_dv_cmdraw_maximizer_v0, 48);
FIELD(dmp_dv_cmdraw_maximizer_v0, struct dmp_dv_cmdraw, header, 0)
FIELD(dmp_dv_cmdraw_maximizer_v0, struct dmp_dv_buf, input_buf, 8)
FIELD(dmp_dv_cmdraw_maximizer_v0, struct dmp_dv_buf, output_buf, 24)
FIELD(dmp_dv_cmdraw_maximizer_v0, uint16_t, width, 40)
FIELD(dmp_dv_cmdraw_maximizer_v0, uint16_t, height, 42)
FIELD(dmp_dv_cmdraw_maximizer_v0, uint8_t, nclass, 44)
FIELD(dmp_dv_cmdraw_maximizer_v0, Bytes3, rsvd, 45)

#include "dmp_dv_cmdraw_v1.h"

SIZE(dmp_dv_cmdraw_conv_v1, 1896);
FIELD(dmp_dv_cmdraw_conv_v1, struct dmp_dv_cmdraw, header, 0)
FIELD(dmp_dv_cmdraw_conv_v1, struct dmp_dv_buf, u8tofp16_table, 8)
FIELD(dmp_dv_cmdraw_conv_v1, uint16_t, to_bgr, 24)
FIELD(dmp_dv_cmdraw_conv_v1, Halves3, rsvd, 26)
FIELD(dmp_dv_cmdraw_conv_v1, struct dmp_dv_cmdraw_conv_v0, conv_cmd, 32)
