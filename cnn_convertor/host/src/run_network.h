// The program that runs a network on inputs from a file, but for the class of the network.
#ifndef DV_RUN_NETWORK_H
#define DV_RUN_NETWORK_H

#include "dmp_network.h"

namespace dv {

// A new network. A plain pointer, since each network is compiled with this header and <memory> is long.
using Make = CDMP_Network *(*)();

// Makes a network, does what the arguments of the program say, and deletes it. Returns the exit status.
int run_network(int argc, char **argv, Make make);

}  // namespace dv

#endif
