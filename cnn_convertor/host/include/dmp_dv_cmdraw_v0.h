/* Commands of the DV700, version 0. */
#ifndef DMP_DV_CMDRAW_V0_H
#define DMP_DV_CMDRAW_V0_H

#include "dmp_dv.h"

/* One run of a convolution command. */
struct dmp_dv_cmdraw_conv_v0_run {
  struct dmp_dv_buf weight_buf; /* packed weights; 16-byte aligned */
  uint32_t conv_pad;            /* left 7..0, right 15..8, top 23..16, bottom 31..24 */
  uint32_t pool_pad;            /* the same */
  uint16_t m;                   /* output channels */
  uint16_t conv_enable;         /* 0 off, 1 convolution, 3 depthwise, 5 deconvolution, 7 depthwise deconvolution */
  uint16_t p;                   /* kernel width 7..0, height 15..8 (0 = width) */
  uint16_t pz;                  /* kernel depth, 1 */
  uint16_t conv_stride;         /* x 7..0, y 15..8 */
  uint16_t conv_dilation;       /* x 7..0, y 15..8; 0 or 1 = none */
  uint16_t weight_fmt;          /* 1 FP16, 3 8-bit palette; 0 is 1 for a depthwise convolution */
  uint16_t pool_enable;         /* 0 none, 1 max, 2 average, 4 upsample 2x2 */
  uint16_t pool_avg_param;      /* FP16 factor of the window's sum */
  uint16_t pool_size;           /* width 7..0, height 15..8 */
  uint16_t pool_stride;         /* x 7..0, y 15..8 */
  uint16_t actfunc;             /* 0 none, 1 tanh, 2 leaky ReLU, 3 sigmoid, 4 PReLU, 5 ELU, 6 ReLU6 */
  uint16_t actfunc_param;       /* FP16 slope of a leaky ReLU */
  uint16_t rectifi_en;          /* 1: absolute value */
  uint16_t lrn;                 /* 0 */
  uint16_t rsvd;
};

/* A command of the convolution block. */
struct dmp_dv_cmdraw_conv_v0 {
  struct dmp_dv_cmdraw header; /* device_type DMP_DV_DEV_CONV, version 0 */
  struct dmp_dv_buf input_buf;
  struct dmp_dv_buf output_buf;
  struct dmp_dv_buf eltwise_buf;  /* only with output_mode 1 */
  uint32_t topo;                  /* bit i: run i writes to external memory; the highest set bit is the last run */
  uint16_t w, h, z, c;            /* input width, height, depth (1), channels */
  uint16_t input_circular_offset; /* bit 15: maps are stored row by row and kernels are transposed. Bits 14..0: samples
                                     of a batch, which lie one after the other in input and output; 0 is 1 */
  uint16_t output_mode;           /* 0 concatenation of the runs' outputs, 1 addition of eltwise_buf */
  struct dmp_dv_cmdraw_conv_v0_run run[32];
};

/* A command of the fully connected block. */
struct dmp_dv_cmdraw_fc_v0 {
  struct dmp_dv_cmdraw header; /* device_type DMP_DV_DEV_FC, version 0 */
  struct dmp_dv_buf weight_buf;
  struct dmp_dv_buf input_buf;
  struct dmp_dv_buf output_buf;
  uint16_t input_size;  /* elements */
  uint16_t output_size; /* elements */
  uint16_t weight_fmt;
  uint16_t actfunc;
  uint16_t actfunc_param;
  uint16_t rsvd[3];
};

/* A command of the image processing unit: draws tex, scaled to the rectangle, to wr. */
struct dmp_dv_cmdraw_ipu_v0 {
  struct dmp_dv_cmdraw header; /* device_type DMP_DV_DEV_IPU, version 0 */
  struct dmp_dv_buf tex;       /* the texture */
  struct dmp_dv_buf rd;        /* an image below the texture */
  struct dmp_dv_buf wr;        /* the output */
  uint8_t fmt_tex, fmt_rd, fmt_wr, rsvd1;
  uint16_t tex_width, tex_height;
  uint16_t rect_width, rect_height;
  int32_t stride_rd, stride_wr; /* bytes from line to line */
  uint32_t lut[32];             /* colors of a texture of DMP_DV_LUT */
  uint8_t ncolor_lut;
  uint8_t alpha;
  uint8_t transpose; /* 1: x and y are exchanged in the output */
  uint8_t use_const_alpha;
  uint8_t use_tex;
  uint8_t use_rd;
  uint8_t blf;                   /* 1: bilinear, 0: nearest */
  int8_t ridx, gidx, bidx, aidx; /* where a pixel of the texture has red, green, blue and alpha */
  uint8_t cnv_type;
  uint8_t cnv_param[3]; /* of the output's channels */
  uint8_t rsvd2[5];
};

/* A command of the maximizer: for each pixel of a map of FP16 with nclass channels in the order of bit 15 = 0, one byte:
 * the lowest index among the largest values. */
struct dmp_dv_cmdraw_maximizer_v0 {
  struct dmp_dv_cmdraw header; /* device_type DMP_DV_DEV_MAXIMIZER, version 0 */
  struct dmp_dv_buf input_buf;
  struct dmp_dv_buf output_buf;
  uint16_t width, height;
  uint8_t nclass;
  uint8_t rsvd[3];
};

#endif
