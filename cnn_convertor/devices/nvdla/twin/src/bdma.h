// BDMA: copies of lines, up to 20 of them at a launch.
#ifndef NVDLA_BDMA_H
#define NVDLA_BDMA_H

#include <vector>

#include "engine.h"

namespace nvdla {

constexpr std::size_t kBdmaSlots = 20;

struct Copy {
  uint64_t from, to, line_bytes, lines, surfaces, from_line, to_line, from_surface, to_surface;
};

// The copy that the registers describe. Refuses what cannot be.
Copy copy_of(const Group &bdma);
// Refuses what is not in memory. Returns the bytes.
uint64_t run_copy(const Parts &parts, const Group &bdma, const Copy &copy);

}  // namespace nvdla

#endif
