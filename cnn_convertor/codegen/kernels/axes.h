// Axes of a map.
#ifndef DV700_CPU_AXES_H
#define DV700_CPU_AXES_H

namespace dv700_cpu {

// The axes along which a function works.
struct Axes {
  bool height, width, channels;
};

}  // namespace dv700_cpu

#endif  // DV700_CPU_AXES_H
