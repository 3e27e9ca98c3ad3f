// What the blocks of the device have read and written since the process began.
#ifndef DV_COUNTERS_H
#define DV_COUNTERS_H

#include "dmp_dv_host.h"

namespace dv {

using Counters = dmp_dv_host_counters;

// Adds the work of one block. DMP_DV_SYSFS names a folder that receives the sums of the convolution block, one file
// each, as a board has them in sysfs.
void count(int device_type, const Counters &work);

Counters counted(int device_type);

}  // namespace dv

#endif
