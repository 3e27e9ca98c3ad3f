/* What the emulated device offers besides the driver's interface: maps as FP32, and which bytes hold valid maps.
 *
 * A board does not have this header. Only applications that use command lists directly need it, for DMP_DV_EXACT=1 and
 * DMP_DV_CHECK_UNINITIALIZED=1; CDMP_Network calls what it needs itself. Functions return 0 on success and a negative
 * value on failure. */
#ifndef DMP_DV_HOST_H
#define DMP_DV_HOST_H

#include "dmp_dv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts an execution: nothing in the memory counts as written from now on. */
int dmp_dv_host_begin_execution(dmp_dv_mem mem);
/* Declares that the CPU wrote the bytes offs to offs + size. In exact mode their FP16 values become the exact ones. */
int dmp_dv_host_declare_written(dmp_dv_mem mem, uint64_t offs, uint64_t size);
/* Reads count FP16 elements as FP32, unrounded in exact mode. Checks that they are written, if that is asked for. */
int dmp_dv_host_read(dmp_dv_mem mem, uint64_t offs, uint64_t count, float *values);
/* Writes count FP32 values as FP16 elements; in exact mode the unrounded values are kept beside them. */
int dmp_dv_host_write(dmp_dv_mem mem, uint64_t offs, uint64_t count, const float *values);
/* Fails when some of the bytes offs to offs + size count as not written, if that is asked for. */
int dmp_dv_host_check_written(dmp_dv_mem mem, uint64_t offs, uint64_t size);

/* Work of one block of the device since the process began. A board has such counters for the convolution block in sysfs
 * (conv_kick_count, input_bytes, output_bytes, weights_bytes). */
struct dmp_dv_host_counters {
  uint64_t commands;
  uint64_t input_bytes;   /* of maps and images */
  uint64_t operand_bytes; /* of element-wise operands */
  uint64_t output_bytes;
  uint64_t weights_bytes;
};

/* Reads the counters of the block device_type (DMP_DV_DEV_...). */
int dmp_dv_host_get_counters(int device_type, struct dmp_dv_host_counters *counters);

/* What dmp_dv_cmdlist_add_raw compares with the unified buffer, for one of ub_size bytes. The command's memories do not
 * matter. need_bytes: what all runs need together, each in one strip; strips: the first run's number of strips, 0 when
 * no number is enough. */
int dmp_dv_host_unified_buffer(const struct dmp_dv_cmdraw *cmd, int64_t ub_size, int64_t *need_bytes, int *strips);

#ifdef __cplusplus
}
#endif

#endif
