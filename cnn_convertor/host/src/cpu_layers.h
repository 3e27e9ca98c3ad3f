// The arithmetic of the layers that run on the CPU, on values in memory order.
#ifndef DV_CPU_LAYERS_H
#define DV_CPU_LAYERS_H

#include <vector>

#include "dmp_network.h"

namespace dv {

// Elements of a map with dim_size dimensions in the order W, H, C.
std::size_t element_count(const int *dim, int dim_size);

// True when the device cuts the map into chunks: more than 8 channels at more than one position.
bool is_chunked(const int *dim, int dim_size);

// The map in HWC order; values are in the device's order, transposed or not.
std::vector<float> to_hwc(const std::vector<float> &values, const int *dim, int dim_size, bool transposed);

// Softmax in place over an axis of a row-major array of the given extents.
void softmax(std::vector<float> &values, const std::vector<int> &extents, int axis);

}  // namespace dv

#endif
