// The image processing unit: a texture, scaled and converted, to an image or an interleaved map.
#ifndef DV_IPU_H
#define DV_IPU_H

#include "command.h"

namespace dv {

struct Ipu {
  dmp_dv_cmdraw_ipu_v0 raw;  // its handles are not used any more
  std::shared_ptr<Memory> texture, output;
};

// Throws Error, which names field and value, for what the driver refuses, and for what is not documented: a second image
// below the texture, lines that overlap or run backwards.
Ipu accept_ipu(const dmp_dv_cmdraw &raw);

void execute(const Ipu &command);

}  // namespace dv

#endif
