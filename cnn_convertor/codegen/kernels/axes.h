// Axes of a map.
#ifndef CPU_FUNCTIONS_AXES_H
#define CPU_FUNCTIONS_AXES_H

namespace cpu_functions {

// The axes along which a function works.
struct Axes {
  bool height, width, channels;
};

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_AXES_H
