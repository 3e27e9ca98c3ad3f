// The program that runs a network on inputs from a file, but for the class of the network.
#ifndef DV_RUN_NETWORK_H
#define DV_RUN_NETWORK_H

#include "any_network.h"
#include "dmp_network.h"
#include "generated_header.h"

namespace dv {

// A new network. A plain pointer, since each network is compiled with this header and <memory> is long.
using Make = AnyNetwork *(*)();

// Makes a network, does what the arguments of the program say, and deletes it. Returns the exit status.
// header: null where the sources are not compiled, or their header describes no maps.
int run_network(int argc, char **argv, Make make, const Header *header);

}  // namespace dv

#endif
