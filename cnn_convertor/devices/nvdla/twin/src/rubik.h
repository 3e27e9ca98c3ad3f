// RUBIK: contract, split and merge of feature maps.
#ifndef NVDLA_RUBIK_H
#define NVDLA_RUBIK_H

#include <vector>

#include "engine.h"

namespace nvdla {

// Runs one operation; what it has read and written are the bytes that it returns. Refuses what disagrees.
uint64_t run_rubik(const Parts &parts, const Group &rubik);

}  // namespace nvdla

#endif
