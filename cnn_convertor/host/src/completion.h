// What both runtimes tell of an execution: the inputs that are there, and the layers whose outputs are complete.
#ifndef DV_COMPLETION_H
#define DV_COMPLETION_H

#include <functional>
#include <vector>

#include "dmp_network.h"
#include "memory.h"

namespace dv {

// Starts an execution, in which only the network's inputs count as written.
// content: of those of FP16.
void declare_inputs(const fpga_layer *layers, int count, Memory &io, Content content);

// What the output of a layer on the CPU holds.
Content content_of(const fpga_layer &layer);

// Tells the observer of a layer that has run, then of the concatenations in place that it completes: they lie in memory now, and
// may be overwritten when their turn comes. told: for each layer, whether the observer knows it.
void tell(const fpga_layer *layers, int count, std::vector<bool> &told, const fpga_layer &layer,
          const std::function<void(const fpga_layer &)> &observer);

}  // namespace dv

#endif
