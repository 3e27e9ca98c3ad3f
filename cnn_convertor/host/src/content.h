// What two bytes of memory hold.
#ifndef DV_CONTENT_H
#define DV_CONTENT_H

#include <cstdint>

namespace dv {

enum class Content : uint8_t {
  kNothing,  // not written in this execution
  kHalf,     // FP16
  kMap,      // FP16 in the device's order
  kFloat,    // a part of an FP32 value
  kBytes,    // 8-bit values
  kSpoiled,  // FP16 that a softmax of the runtime has overwritten with x - max
  kLost      // the device's, over which a line of the CPU's cache was written back
};

}  // namespace dv

#endif
