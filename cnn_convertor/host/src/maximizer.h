// The block that finds the channel with the largest value.
#ifndef DV_MAXIMIZER_H
#define DV_MAXIMIZER_H

#include "command.h"

namespace dv {

struct Maximizer {
  Shape input;
  std::shared_ptr<Memory> input_memory, output_memory;
  uint64_t input_offset = 0, output_offset = 0;
};

// Throws Error, which names field and value, for what the driver refuses.
Maximizer accept_maximizer(const dmp_dv_cmdraw &raw);

void execute(const Maximizer &command);

}  // namespace dv

#endif
