/* Commands of the DV700, version 1. */
#ifndef DMP_DV_CMDRAW_V1_H
#define DMP_DV_CMDRAW_V1_H

#include "dmp_dv_cmdraw_v0.h"

/* A command of the convolution block, with a table for 8-bit input. */
struct dmp_dv_cmdraw_conv_v1 {
  struct dmp_dv_cmdraw header;      /* device_type DMP_DV_DEV_CONV, version 1 */
  struct dmp_dv_buf u8tofp16_table; /* FP16 table[256][3]: value, channel; mem NULL: the input is FP16 */
  uint16_t to_bgr;                  /* 1: swap channels 0 and 2 */
  uint16_t rsvd[3];
  struct dmp_dv_cmdraw_conv_v0 conv_cmd;
};

#endif
