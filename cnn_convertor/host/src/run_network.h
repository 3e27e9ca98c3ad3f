// The program that runs a network on inputs from a file, but for the class of the network.
#ifndef DV_RUN_NETWORK_H
#define DV_RUN_NETWORK_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "any_network.h"
#include "dmp_network.h"

namespace dv {

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

// A new network. A plain pointer, since each network is compiled with this header and <memory> is long.
using Make = AnyNetwork *(*)();

// Makes a network, does what the arguments of the program say, and deletes it. Returns the exit status.
// header: null where the sources are not compiled, or their header describes no maps.
int run_network(int argc, char **argv, Make make, const Header *header);

}  // namespace dv

#endif
