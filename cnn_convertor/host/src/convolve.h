// The multipliers: convolution, depthwise convolution and deconvolution of one run.
#ifndef DV_CONVOLVE_H
#define DV_CONVOLVE_H

#include "command.h"
#include "map.h"

namespace dv {

// padded is room for the input with its padding. take gets the result, without activation.
void convolve(const Run &run, bool transposed, const Map &input, Map &padded, const Take &take);

}  // namespace dv

#endif
