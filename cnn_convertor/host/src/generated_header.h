// What the header of a generated network says. Each network is compiled with this file, so it is short.
#ifndef DV_GENERATED_HEADER_H
#define DV_GENERATED_HEADER_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dv {

// A part of the I/O memory.
struct IoRange {
  std::size_t offset, bytes;
};

// An input or output as the header of a network describes it.
struct HeaderMap {
  const char *name;
  std::size_t offset, bytes;
  int height, width, channels, element_bytes;
  const char *layout;
};

// An input or output that an application looks for. position: of an output, by its constant in the network's class.
struct Wanted {
  const char *name;
  int position, height, width, channels;
};

// What an application takes from the header of a network, and what it looks for there.
struct Header {
  std::vector<HeaderMap> inputs, outputs;
  std::vector<float> mean, scale;
  const char *channel_order;
  uint16_t (*to_half)(float);
  std::vector<Wanted> wanted_inputs, wanted_outputs;
};

}  // namespace dv

#endif
