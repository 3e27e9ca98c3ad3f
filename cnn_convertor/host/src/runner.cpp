// Runs a generated network on inputs from a file and saves its outputs, with run_network.cpp.
//
//   runner WEIGHTS.bin INPUT.bin OUT_DIR [--layers [GIVEN.bin]]
//
// Compiled with -DNETWORK_HEADER='"NAME_gen.h"' -DNETWORK_CLASS=CNAME; without them this file is empty, so that an
// application can compile all files of this folder. INPUT.bin holds one sample or several: the bytes of the network's
// input, FP16 in the device's order; several inputs (LT_INPUT layers) one after the other. OUT_DIR/outputs.bin receives
// all outputs of each sample as FP32. With --layers, OUT_DIR/layers.bin receives every layer's output as FP32, in the
// order in which it lies in memory. GIVEN.bin has the layers' outputs from another device, as they lie in memory, sample after
// sample: once an output is saved, that device's takes its place, and the next layers read it. OUT_DIR/index.json lists what
// lies where, and the bytes that the convolution block has moved: for all samples, and with --layers for each layer of the first
// one.
#ifdef NETWORK_HEADER
#include NETWORK_HEADER

#include "run_network.h"

int main(int argc, char **argv) {
  return dv::run_network(argc, argv, []() -> CDMP_Network * { return new NETWORK_CLASS; });
}

#endif
