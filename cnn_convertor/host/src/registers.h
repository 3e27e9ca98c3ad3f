// Register fields of a convolution command to the device's words, without judging them.
#ifndef DV_REGISTERS_H
#define DV_REGISTERS_H

#include <map>

#include "command.h"

namespace dv {

// What counts in place of the FP16 numbers in registers.
struct Parameters {
  float average_factor, slope;
};
// Of the runs of commands whose program gives them. The runner fills it before commands are committed.
std::map<const dmp_dv_cmdraw_conv_v0_run *, Parameters> &stated_parameters();

Pair pair_of(uint16_t field);
Sides sides_of(uint32_t field);
// Kernel width and height; a height of 0 means that it equals the width.
Pair kernel_of(uint16_t field);

// One run; its shapes are not known yet. The fields hold values that the device knows.
Run run_of(const dmp_dv_cmdraw_conv_v0 &command, int index);

// Number of runs that topo describes.
int run_count(uint32_t topo);

// Fills the run's shapes: its windows must fit into the input. channels: of the output.
void infer_shapes(Run &run, const Shape &input, int channels);

}  // namespace dv

#endif
