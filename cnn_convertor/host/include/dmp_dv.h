/* The C interface of the DV700 driver: contexts, device memory and command lists.
 *
 * Names, values and signatures are those of the user driver 7.2.20190716, and there are no others. Every function is
 * thread-safe. Functions that return int return 0 (or a count, where the comment says so) on success; on failure they
 * return a negative value or, where the comment says so, EINVAL, which is positive. Functions that return a pointer return
 * NULL on failure. dmp_dv_get_last_error_message() explains the calling thread's last failure. */
#ifndef DMP_DV_H
#define DMP_DV_H

#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of dmp_dv_mem_to_device and dmp_dv_mem_to_cpu. */
#define DMP_DV_MEM_CPU_WONT_READ 1  /* to the device: the CPU does not read the part afterwards */
#define DMP_DV_MEM_AS_DEV_OUTPUT 2  /* to the device: it overwrites the part */
#define DMP_DV_MEM_CPU_HADNT_READ 4 /* to the CPU: it has not read the part since it was handed to the device */

/* Values of dmp_dv_cmdraw.device_type. */
#define DMP_DV_DEV_CONV 1      /* convolution block */
#define DMP_DV_DEV_FC 2        /* fully connected block of older firmware */
#define DMP_DV_DEV_IPU 3       /* image processing block */
#define DMP_DV_DEV_MAXIMIZER 4 /* arg-max block */
#define DMP_DV_DEV_COUNT 5     /* one more than the largest */

/* Formats of images, in the order of their bytes: fmt_tex, fmt_rd and fmt_wr of dmp_dv_cmdraw_ipu_v0. */
#define DMP_DV_RGBA8888 0
#define DMP_DV_RGB888 1
#define DMP_DV_RGBFP16 2
#define DMP_DV_LUT 7

/* Values of dmp_dv_cmdraw_ipu_v0.cnv_type. */
#define DMP_DV_CNV_FP16_SUB 0     /* FP16(channel - cnv_param[channel]) */
#define DMP_DV_CNV_FP16_DIV_255 1 /* FP16(channel / 255) */

typedef struct dmp_dv_context_impl *dmp_dv_context; /* a connection to the device */
typedef struct dmp_dv_mem_impl *dmp_dv_mem;         /* an allocation that CPU and device share */
typedef struct dmp_dv_cmdlist_impl *dmp_dv_cmdlist; /* a list of commands */

/* Header of every information structure. The caller fills it in. */
struct dmp_dv_info {
  uint32_t size;    /* bytes of the whole structure */
  uint32_t version; /* 0 for dmp_dv_info_v0 */
};

/* The device's capabilities. */
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

/* Header of every command. */
struct dmp_dv_cmdraw {
  uint32_t size;       /* bytes of the whole command */
  uint8_t device_type; /* DMP_DV_DEV_... */
  uint8_t version;
  uint8_t rsvd[2];
};

/* The reason for the last failure on this thread; "" when there was none. Valid until the thread's next call. */
const char *dmp_dv_get_last_error_message(void);

/* Sets the calling thread's last error message, as printf does. */
void dmp_dv_set_last_error_message(const char *format, ...);

/* The driver's version as text, which starts with the version of the user driver that is emulated. */
const char *dmp_dv_get_version_string(void);

/* Opens the device; the reference count is 1. */
dmp_dv_context dmp_dv_context_create(void);
/* Adds a reference; returns the new count. */
int dmp_dv_context_retain(dmp_dv_context ctx);
/* Drops a reference; returns the count that remains; 0: closed. Ignores NULL. */
int dmp_dv_context_release(dmp_dv_context ctx);
/* Describes the device in words; valid while the context lives. */
const char *dmp_dv_context_get_info_string(dmp_dv_context ctx);
/* Fills the structure whose size and version its header names. */
int dmp_dv_context_get_info(dmp_dv_context ctx, struct dmp_dv_info *info);

/* 1 when the device has the block of that type (DMP_DV_DEV_...), 0 when it has not, negative for failure. */
int dmp_dv_device_exists(dmp_dv_context ctx, int dev_type_id);
/* The same under the name that older drivers have. */
int dmp_dv_fpga_device_exists(dmp_dv_context ctx, int dev_type_id);

/* Allocates device memory of size bytes; the reference count is 1. */
dmp_dv_mem dmp_dv_mem_alloc(dmp_dv_context ctx, size_t size);
/* Adds a reference; returns the new count. */
int dmp_dv_mem_retain(dmp_dv_mem mem);
/* Drops a reference; returns the count that remains; 0: freed. Ignores NULL. */
int dmp_dv_mem_release(dmp_dv_mem mem);
/* Address for the CPU; mapping again gives the same address. */
uint8_t *dmp_dv_mem_map(dmp_dv_mem mem);
/* Unmaps the memory and ends the CPU's access. May be called again. */
void dmp_dv_mem_unmap(dmp_dv_mem mem);
/* Begins access by the CPU (rd: it reads, wr: it writes) to the whole of a mapped memory. Does nothing when that access
 * has begun. EINVAL for memory that is not mapped, and when neither rd nor wr is set. */
int dmp_dv_mem_sync_start(dmp_dv_mem mem, int rd, int wr);
/* Ends access by the CPU, so that the device sees what it wrote. Does nothing when access has ended. */
int dmp_dv_mem_sync_end(dmp_dv_mem mem);
/* Makes the CPU's writes to a part of mapped memory visible to the device. flags: DMP_DV_MEM_... EINVAL for a part beyond
 * the memory, and for memory that is not mapped. */
int dmp_dv_mem_to_device(dmp_dv_mem mem, size_t offs, size_t size, int flags);
/* Makes the device's writes to a part of mapped memory visible to the CPU; with DMP_DV_MEM_CPU_HADNT_READ it does nothing.
 * EINVAL as above. */
int dmp_dv_mem_to_cpu(dmp_dv_mem mem, size_t offs, size_t size, int flags);
/* Bytes that were asked for; 0 for failure. */
size_t dmp_dv_mem_get_size(dmp_dv_mem mem);
/* Bytes that the process has allocated and not released. */
int64_t dmp_dv_mem_get_total_size(void);

/* Creates an empty command list; the reference count is 1. */
dmp_dv_cmdlist dmp_dv_cmdlist_create(dmp_dv_context ctx);
/* Adds a reference; returns the new count. */
int dmp_dv_cmdlist_retain(dmp_dv_cmdlist list);
/* Drops a reference; returns the count that remains; 0: freed. Ignores NULL. */
int dmp_dv_cmdlist_release(dmp_dv_cmdlist list);
/* Checks a command and adds a copy of it. The list keeps the memories that the command names alive. */
int dmp_dv_cmdlist_add_raw(dmp_dv_cmdlist list, struct dmp_dv_cmdraw *cmd);
/* Closes the list: nothing more is added, it is ready to be executed. */
int dmp_dv_cmdlist_commit(dmp_dv_cmdlist list);
/* Starts a committed list; returns the id of the execution, which is not negative. */
int64_t dmp_dv_cmdlist_exec(dmp_dv_cmdlist list);
/* Waits until the execution is done; 0 when it went well. */
int dmp_dv_cmdlist_wait(dmp_dv_cmdlist list, int64_t exec_id);
/* Microseconds that the list's last execution took; negative for failure. */
int64_t dmp_dv_cmdlist_get_last_exec_time(dmp_dv_cmdlist list);

/* Functions that pack weights. weights: FP16, or with quant_map (256 FP16 values) their 8-bit indices; in the order
 * output, input channel, row, column. bias: FP16, one an output. prelu: FP16 slopes, one an output, or NULL.
 * packed_weights_size: bytes of packed_weights; becomes the number of bytes needed. With 0 there, only that is done, and
 * the other pointers may be NULL, except that quant_map and prelu count as present when they are not. EINVAL for failure. */

/* For a convolution or, with n_channels = 1, a depthwise convolution. */
int dmp_dv_pack_conv_weights(int n_channels, int kx, int ky, int n_kernels, const uint16_t quant_map[256],
                             const void *weights, const uint16_t *bias, const uint16_t *prelu, uint8_t *packed_weights,
                             size_t *packed_weights_size);
/* For a dilated convolution. */
int dmp_dv_pack_dil_weights(int n_channels, int kx, int ky, int n_kernels, const uint16_t quant_map[256],
                            const void *weights, const uint16_t *bias, const uint16_t *prelu, uint8_t *packed_weights,
                            size_t *packed_weights_size);
/* For the fully connected block of older firmware: from a map to a map. Weights are in the order channel, row, column on
 * both sides, and are packed in the device's. Biases are packed as they are: the caller has to order those of a map. */
int dmp_dv_pack_fc_weights(int c_input, int h_input, int w_input, int c_output, int h_output, int w_output,
                           const uint16_t quant_map[256], const void *weights, const uint16_t *bias,
                           uint8_t *packed_weights, size_t *packed_weights_size);

#ifdef __cplusplus
}
#endif

#endif
