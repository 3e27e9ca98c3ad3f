// Runs a generated network on inputs from a file and saves its outputs, with run_network.cpp.
//
//   runner WEIGHTS.bin INPUT.bin OUT_DIR [--layers [GIVEN.bin]]
//   runner --pixels
//
// Compiled with -DNETWORK_HEADER='"NAME_gen.h"' -DNETWORK_CLASS=CNAME; without them this file is empty, so that an
// application can compile all files of this folder. INPUT.bin holds one sample or several: the bytes of the network's
// input, FP16 in the device's order; several inputs (LT_INPUT layers) one after the other. OUT_DIR/outputs.bin receives
// all outputs of each sample as FP32. With --layers, OUT_DIR/layers.bin receives every layer's output as FP32, in the
// order in which it lies in memory. GIVEN.bin has the layers' outputs from another device, as they lie in memory, sample after
// sample: once an output is saved, that device's takes its place, and the next layers read it. OUT_DIR/index.json lists what
// lies where, and the bytes that the convolution block has moved: for all samples, and with --layers for each layer of the first
// one.
//
// With NETWORK_INPUTS and NETWORK_OUTPUTS, values of dv::Wanted, it also works as an application does, by the constants of the
// header: INPUT.bin.maps has the samples as FP32 in the order H, W, C; what is written as kInputs says must be the bytes of
// INPUT.bin. OUT_DIR/maps.bin receives the outputs that kOutputs describes, in that order, too. --pixels prints kChannelOrder, and
// what kMean and kScale make of each byte.
#ifdef NETWORK_HEADER
#include NETWORK_HEADER

#include "run_network.h"

#ifndef NETWORK_READS
#define NETWORK_READS
#endif
#ifdef NETWORK_INPUTS
#define JOINED(name, end) name##end
#define IO_OF(name) JOINED(name, _io)

namespace {

namespace io = IO_OF(NETWORK_CLASS);

template <std::size_t count>
std::vector<dv::HeaderMap> maps(const io::Map (&all)[count]) {
  std::vector<dv::HeaderMap> copies;
  for (const io::Map &map : all)
    copies.push_back({map.name, map.offset, map.bytes, map.height, map.width, map.channels, map.element_bytes, map.layout});
  return copies;
}

std::vector<float> numbers(float one) { return {one}; }

template <std::size_t count>
std::vector<float> numbers(const float (&all)[count]) {
  return {all, all + count};
}

}  // namespace
#endif

int main(int argc, char **argv) {
  const auto make = []() -> dv::AnyNetwork * { return new dv::Adapted<NETWORK_CLASS>({NETWORK_READS}); };
#ifdef NETWORK_INPUTS
  const dv::Header header = {maps(io::kInputs), maps(io::kOutputs), numbers(io::kMean), numbers(io::kScale),
                             io::kChannelOrder, io::ToHalf, {NETWORK_INPUTS}, {NETWORK_OUTPUTS}};
  return dv::run_network(argc, argv, make, &header);
#else
  return dv::run_network(argc, argv, make, nullptr);
#endif
}

#endif
