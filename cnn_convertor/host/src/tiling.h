// How commands fit into the unified buffer.
#ifndef DV_TILING_H
#define DV_TILING_H

#include "command.h"

namespace dv {

// Vertical strips that the run's input is processed in; 0 when no number of them is enough.
int strips(const Run &run, int64_t unified_buffer_bytes);

// Bytes of the unified buffer that all runs of a command need together, each in one strip.
int64_t unified_buffer_need(const Command &command);

// Columns of input that the strips of a run read together: neighbors share the reach of the kernel.
uint64_t strip_columns(const Run &run, int64_t unified_buffer_bytes);

}  // namespace dv

#endif
