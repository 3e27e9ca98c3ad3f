// The layers that the runtime itself runs on the CPU, with the bytes and the faults of a board's runtime.
#ifndef DV_CPU_LAYERS_H
#define DV_CPU_LAYERS_H

#include <cstddef>

#include "dmp_network.h"
#include "memory.h"

namespace dv {

// Elements of a map with dim_size dimensions.
std::size_t element_count(const int *dim, int dim_size);

// LT_FLATTEN.
void flatten(const fpga_layer &layer, Memory &io, bool transposed);

// LT_COPY_CONCAT.
void copy_concat(const fpga_layer &layer, Memory &io);

// LT_SOFTMAX.
void softmax(const fpga_layer &layer, Memory &io, bool transposed);

// LT_CUSTOM: calls the application's function and marks what it has written.
void custom(fpga_layer &layer, Memory &io, bool transposed);

}  // namespace dv

#endif
