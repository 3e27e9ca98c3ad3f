/* The C interface of the DV700 driver: contexts, device memory and command lists.
 *
 * Every function is safe to call from several threads. Functions that return int give 0 (or a count that is not
 * negative, where the comment says so) for success and a negative value for failure; functions that return a pointer
 * give NULL for failure. The reason for the last failure on the calling thread is dmp_dv_get_last_error_message(). */
#ifndef DMP_DV_H
#define DMP_DV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Values of dmp_dv_cmdraw.device_type. */
#define DMP_DV_DEV_CONV 1      /* convolution block */
#define DMP_DV_DEV_FC 2        /* fully connected block of older firmware */
#define DMP_DV_DEV_IPU 3       /* image processing block */
#define DMP_DV_DEV_MAXIMIZER 4 /* arg-max block */

/* Number of runs that a convolution command has room for. */
#define DMP_DV_MAX_RUNS 32

/* Values of dmp_dv_cmdraw_conv_v0.input_circular_offset. */
#define DMP_DV_ORDER_WHC8 0x0000       /* maps store W outside H */
#define DMP_DV_ORDER_TRANSPOSED 0x8000 /* maps store H outside W, kernels are transposed */

/* Values of dmp_dv_cmdraw_conv_v0.output_mode. */
#define DMP_DV_OUTPUT_CONCAT 0 /* outputs of external-memory runs one after the other */
#define DMP_DV_OUTPUT_ADD 1    /* element-wise add of eltwise_buf */

/* Values of dmp_dv_cmdraw_conv_v0_run.conv_enable. */
#define DMP_DV_CONV_OFF 0
#define DMP_DV_CONV_NORMAL 1
#define DMP_DV_CONV_DEPTHWISE 3
#define DMP_DV_CONV_DECONV 5
#define DMP_DV_CONV_DEPTHWISE_DECONV 7

/* Values of dmp_dv_cmdraw_conv_v0_run.weight_fmt. */
#define DMP_DV_WEIGHT_NONE 0
#define DMP_DV_WEIGHT_FP16 1
#define DMP_DV_WEIGHT_PALETTE8 3

/* Values of dmp_dv_cmdraw_conv_v0_run.pool_enable. */
#define DMP_DV_POOL_NONE 0
#define DMP_DV_POOL_MAX 1
#define DMP_DV_POOL_AVERAGE 2
#define DMP_DV_POOL_UPSAMPLE 4

/* Values of dmp_dv_cmdraw_conv_v0_run.actfunc. */
#define DMP_DV_ACT_NONE 0
#define DMP_DV_ACT_TANH 1
#define DMP_DV_ACT_RELU 2 /* leaky ReLU when actfunc_param is not 0 */
#define DMP_DV_ACT_SIGMOID 3
#define DMP_DV_ACT_PRELU 4
#define DMP_DV_ACT_ELU 5
#define DMP_DV_ACT_RELU6 6

typedef struct dmp_dv_context_impl *dmp_dv_context; /* a connection to the device */
typedef struct dmp_dv_mem_impl *dmp_dv_mem;         /* an allocation that CPU and device share */
typedef struct dmp_dv_cmdlist_impl *dmp_dv_cmdlist; /* a list of commands */

/* Head of every information structure: fill it before asking. */
struct dmp_dv_info {
  uint32_t size;    /* bytes of the whole structure */
  uint32_t version; /* 0 for dmp_dv_info_v0 */
};

/* What the device is able to do. */
struct dmp_dv_info_v0 {
  struct dmp_dv_info header;
  int32_t ub_size;            /* unified buffer, bytes */
  int32_t max_kernel_size;    /* largest kernel width and height */
  int32_t conv_freq;          /* clock of the convolution block, MHz */
  int32_t fc_freq;            /* clock of the fully connected block, MHz; 0 when there is none */
  int32_t max_fc_vector_size; /* largest input of the fully connected block; 0 when there is none */
  int32_t rsvd;
};

/* A place in device memory. */
struct dmp_dv_buf {
  union {
    dmp_dv_mem mem;
    uint64_t rsvd; /* makes the structure 16 bytes on 32-bit hosts too */
  };
  uint64_t offs; /* bytes from the start of mem */
};

/* Head of every command. */
struct dmp_dv_cmdraw {
  uint32_t size;       /* bytes of the whole command */
  uint8_t device_type; /* DMP_DV_DEV_... */
  uint8_t version;
  uint8_t rsvd[2];
};

/* One run of a convolution command. */
struct dmp_dv_cmdraw_conv_v0_run {
  struct dmp_dv_buf weight_buf; /* packed weights; 16-byte aligned */
  uint32_t conv_pad;            /* left 7..0, right 15..8, top 23..16, bottom 31..24 */
  uint32_t pool_pad;            /* the same */
  uint16_t m;                   /* output channels */
  uint16_t conv_enable;         /* DMP_DV_CONV_... */
  uint16_t p;                   /* kernel width 7..0, height 15..8 (0 = width) */
  uint16_t pz;                  /* kernel depth, 1 */
  uint16_t conv_stride;         /* x 7..0, y 15..8 */
  uint16_t conv_dilation;       /* x 7..0, y 15..8; 0 or 1 = none */
  uint16_t weight_fmt;          /* DMP_DV_WEIGHT_... */
  uint16_t pool_enable;         /* DMP_DV_POOL_... */
  uint16_t pool_avg_param;      /* FP16 factor of the window's sum */
  uint16_t pool_size;           /* width 7..0, height 15..8 */
  uint16_t pool_stride;         /* x 7..0, y 15..8 */
  uint16_t actfunc;             /* DMP_DV_ACT_... */
  uint16_t actfunc_param;       /* FP16 slope of a leaky ReLU */
  uint16_t rectifi_en;          /* 1: absolute value */
  uint16_t lrn;                 /* 0 */
  uint16_t rsvd;
};

/* A convolution command, version 0. */
struct dmp_dv_cmdraw_conv_v0 {
  struct dmp_dv_cmdraw header; /* version 0 */
  struct dmp_dv_buf input_buf;
  struct dmp_dv_buf output_buf;
  struct dmp_dv_buf eltwise_buf;  /* only with output_mode 1 */
  uint32_t topo;                  /* bit i: run i writes to external memory; the highest set bit is the last run */
  uint16_t w, h, z, c;            /* input width, height, depth (1), channels */
  uint16_t input_circular_offset; /* DMP_DV_ORDER_... */
  uint16_t output_mode;           /* DMP_DV_OUTPUT_... */
  struct dmp_dv_cmdraw_conv_v0_run run[DMP_DV_MAX_RUNS];
};

/* A convolution command, version 1. */
struct dmp_dv_cmdraw_conv_v1 {
  struct dmp_dv_cmdraw header;       /* version 1 */
  struct dmp_dv_buf u8tofp16_table;  /* zero: the input is FP16 */
  uint16_t to_bgr;                   /* 0 */
  uint16_t rsvd[3];
  struct dmp_dv_cmdraw_conv_v0 conv_cmd;
};

/* The reason for the last failure on this thread; "" when there was none. Valid until the thread's next call. */
const char *dmp_dv_get_last_error_message(void);

/* The driver's version as text. */
const char *dmp_dv_get_version_string(void);

/* Opens the device; the reference count is 1. */
dmp_dv_context dmp_dv_context_create(void);
/* Adds a reference; returns the new count. */
int dmp_dv_context_retain(dmp_dv_context ctx);
/* Drops a reference; returns the count that remains; 0: closed. */
int dmp_dv_context_release(dmp_dv_context ctx);
/* Describes the device in words; valid while the context lives. */
const char *dmp_dv_context_get_info_string(dmp_dv_context ctx);
/* Fills the structure whose size and version its header names. */
int dmp_dv_context_get_info(dmp_dv_context ctx, struct dmp_dv_info *info);

/* Allocates device memory of size bytes; the reference count is 1. */
dmp_dv_mem dmp_dv_mem_alloc(dmp_dv_context ctx, size_t size);
/* Adds a reference; returns the new count. */
int dmp_dv_mem_retain(dmp_dv_mem mem);
/* Drops a reference; returns the count that remains; 0: freed. */
int dmp_dv_mem_release(dmp_dv_mem mem);
/* Address for the CPU; mapping again gives the same address. */
uint8_t *dmp_dv_mem_map(dmp_dv_mem mem);
/* Ends what one dmp_dv_mem_map began. */
int dmp_dv_mem_unmap(dmp_dv_mem mem);
/* Begins access by the CPU: rd and wr say which. The memory must be mapped. */
int dmp_dv_mem_sync_start(dmp_dv_mem mem, int rd, int wr);
/* Ends access by the CPU: the device sees what was written. */
int dmp_dv_mem_sync_end(dmp_dv_mem mem);
/* Bytes that were asked for; 0 for failure. */
size_t dmp_dv_mem_get_size(dmp_dv_mem mem);
/* Bytes that the allocations of a context take together. */
int64_t dmp_dv_mem_get_total_size(dmp_dv_context ctx);

/* Creates an empty command list; the reference count is 1. */
dmp_dv_cmdlist dmp_dv_cmdlist_create(dmp_dv_context ctx);
/* Adds a reference; returns the new count. */
int dmp_dv_cmdlist_retain(dmp_dv_cmdlist list);
/* Drops a reference; returns the count that remains; 0: freed. */
int dmp_dv_cmdlist_release(dmp_dv_cmdlist list);
/* Checks a command and adds a copy of it. The list keeps the memories that the command names alive. */
int dmp_dv_cmdlist_add_raw(dmp_dv_cmdlist list, const struct dmp_dv_cmdraw *cmd);
/* Closes the list: nothing more is added, it is ready to be executed. */
int dmp_dv_cmdlist_commit(dmp_dv_cmdlist list);
/* Starts a committed list; returns the id of the execution, which is not negative. */
int64_t dmp_dv_cmdlist_exec(dmp_dv_cmdlist list);
/* Waits until the execution is done; 0 when it went well. */
int dmp_dv_cmdlist_wait(dmp_dv_cmdlist list, int64_t exec_id);
/* Microseconds that the list's last execution took; negative for failure. */
int64_t dmp_dv_cmdlist_get_last_exec_time(dmp_dv_cmdlist list);

#ifdef __cplusplus
}
#endif

#endif
