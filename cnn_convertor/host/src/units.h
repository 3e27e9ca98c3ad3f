// The units behind the multipliers: pools, upsampling, the element-wise adder and the activations.
#ifndef DV_UNITS_H
#define DV_UNITS_H

#include "command.h"
#include "map.h"

namespace dv {

// Max pool, average pool or upsampling.
void pool(const Run &run, bool transposed, const Map &input, Map &result);

// Adds another map of the same size.
void add(const Map &operand, Map &map);

// Activation, then the absolute value if rectifi_en is set.
void activate(const Run &run, Map &map);

}  // namespace dv

#endif
