// What every engine works with.
#ifndef NVDLA_ENGINE_H
#define NVDLA_ENGINE_H

#include "map.h"
#include "memory.h"
#include "registers.h"
#include "register_table.h"
#include "threads.h"

namespace nvdla {

struct Parts {
  const Configuration &configuration;
  Memory &memory;
  int threads;
};

// Refuses a precision that the configuration lacks.
inline void check_precision(const Configuration &configuration, const Group &group, const Field &field) {
  static constexpr const char *kNames[] = {"int8", "int16", "fp16", "3"};
  const uint32_t value = group(field);
  if (value > kFp16 || configuration.atomic_k[value] == 0)
    group.refuse(field, configuration.name + " has no precision " + kNames[value]);
}

// Refuses the second memory port where there is none. field: a type of memory, 0 for that port.
inline void check_port(const Configuration &configuration, const Group &group, const Field &field) {
  if (!group(field) && configuration.bases[kCVIF] < 0) group.refuse(field, configuration.name + " has no second memory port");
}

inline Cube placed(Cube cube, const Group &group, const Field &high, const Field &low, const Field &line, const Field &surface) {
  cube.address = group.address(high, low);
  cube.line_stride = group(line);
  cube.surface_stride = group(surface);
  cube.group = &group;
  cube.address_field = &low;
  cube.line_field = &line;
  cube.surface_field = &surface;
  return cube;
}

}  // namespace nvdla

#endif
