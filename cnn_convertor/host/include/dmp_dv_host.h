/* What the emulated device offers beside the driver's interface: maps as FP32, and which bytes hold valid maps.
 *
 * A board does not have this header. Applications need it only for DMP_DV_EXACT=1 and DMP_DV_CHECK_UNINITIALIZED=1,
 * and only when they use command lists directly: CDMP_Network does all of it by itself. Functions return 0 for
 * success and a negative value for failure, like those of dmp_dv.h. */
#ifndef DMP_DV_HOST_H
#define DMP_DV_HOST_H

#include "dmp_dv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts an execution: from now on nothing in the memory counts as written. */
int dmp_dv_host_begin_execution(dmp_dv_mem mem);
/* Says that the CPU wrote the bytes offs to offs + size. In exact mode their FP16 values replace what was there. */
int dmp_dv_host_declare_written(dmp_dv_mem mem, uint64_t offs, uint64_t size);
/* Reads count FP16 elements as FP32, unrounded in exact mode. Checks that they are written, if that is asked for. */
int dmp_dv_host_read(dmp_dv_mem mem, uint64_t offs, uint64_t count, float *values);
/* Writes count FP32 values as FP16 elements; in exact mode the unrounded values are kept beside them. */
int dmp_dv_host_write(dmp_dv_mem mem, uint64_t offs, uint64_t count, const float *values);
/* Fails when some of the bytes offs to offs + size count as not written, if that is asked for. */
int dmp_dv_host_check_written(dmp_dv_mem mem, uint64_t offs, uint64_t size);

/* What dmp_dv_cmdlist_add_raw compares with the unified buffer, for one of ub_size bytes. The command's memories do not
 * matter. need_bytes: what all runs need together, each in one strip; strips: the first run's number of strips, 0 when
 * no number is enough. */
int dmp_dv_host_unified_buffer(const struct dmp_dv_cmdraw *cmd, int64_t ub_size, int64_t *need_bytes, int *strips);

#ifdef __cplusplus
}
#endif

#endif
