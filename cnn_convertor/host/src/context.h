// A connection to the device: what it is able to do, and the modes that the environment asks for.
#ifndef DV_CONTEXT_H
#define DV_CONTEXT_H

#include <cstdint>
#include <string>

#include "dmp_dv.h"
#include "limits.h"
#include "registry.h"

namespace dv {

struct Context {
  Context();

  // Whether the device has the block of a DMP_DV_DEV_... number.
  bool has(int device_type) const;

  Limits limits;
  std::string blocks = "CONV,MX,IPU";  // DMP_DV_BLOCKS
  bool exact = false;                // DMP_DV_EXACT: keep unrounded FP32 maps beside the FP16 memory
  std::string residuals;             // DMP_DV_RESIDUALS: a file; with it, nothing at all is rounded to FP16
  bool check_uninitialized = false;  // DMP_DV_CHECK_UNINITIALIZED: refuse to read what nothing wrote
  bool strict = false;               // DMP_DV_STRICT: report what a board does wrongly in silence
  std::string description;
};

Registry<dmp_dv_context, Context> &contexts();

}  // namespace dv

#endif
