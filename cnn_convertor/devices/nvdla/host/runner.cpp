// Runs a generated network on inputs from a file on the twin, with network_runner.cpp, and saves its outputs.
//
//   runner WEIGHTS.bin INPUT.bin OUT_DIR [--layers [GIVEN.bin]]
//   runner --pixels
//
// Compiled with -DNETWORK_HEADER='"NAME_gen.h"' -DNETWORK_CLASS=CNAME, with NVDLA_REGISTER_ACCESS, and with what the NETWORK_ names
// below stand for. INPUT.bin holds one sample or several: all inputs, one after the other, as they lie in memory. INPUT.bin.maps has
// the same as FP32 in the order H, W, C; what is written as kInputs says must be the bytes of INPUT.bin. OUT_DIR/outputs.bin receives
// all outputs of each sample as FP32, in the order in which they lie in memory, whole atoms included; OUT_DIR/maps.bin those that
// kOutputs describes, in the order H, W, C. With --layers, the network runs a layer at a time, and OUT_DIR/layers.bin receives every
// layer's output like outputs.bin. GIVEN.bin has the layers' outputs from another device, as they lie in memory, sample after sample:
// once an output is saved, that device's takes its place, and the next layers read it. OUT_DIR/index.json lists what lies where, and
// with --layers the bytes that each layer has moved for the first sample. --pixels prints kChannelOrder, and what kMean and kScale make
// of each byte.
#include "register_access.h"

#include NETWORK_HEADER

namespace {

#define JOINED(name, end) name##end
#define IO_OF(name) JOINED(name, _io)
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

class Generated final : public nvdla_host::Network {
 public:
  explicit Generated(const nvdla_host::Places &at)
      : network_(at.registers, {at.weights, at.weights_address}, {at.io, at.io_address}, {at.context, at.to_device, at.to_cpu, nullptr}) {}
  bool load_weights(const void *bytes, std::size_t size) override { return network_.LoadWeights(bytes, size); }
  bool run() override { return network_.Run(); }
  int layer_count() const override { return network_.layer_count(); }
  bool run_layer(int index) override { return network_.RunLayer(index); }
  const char *error() const override { return network_.error(); }

 private:
  NETWORK_CLASS network_;
};

}  // namespace

int main(int argc, char **argv) {
  const auto make = [](const nvdla_host::Places &at) -> nvdla_host::Network * { return new Generated(at); };
  const dv::Header header = {maps(io::kInputs), maps(io::kOutputs), numbers(io::kMean), numbers(io::kScale),
                             io::kChannelOrder, io::ToHalf, {NETWORK_INPUTS}, {NETWORK_OUTPUTS}};
  const nvdla_host::Description description = {NETWORK_CONFIGURATION, NETWORK_IS_EXACT, NETWORK_CLASS::kWeightBytes, NETWORK_CLASS::kIoBytes,
                                               {NETWORK_INPUT_RANGES}, {NETWORK_LAYERS}, {NETWORK_OUTPUT_LAYERS}};
  return nvdla_host::run_network(argc, argv, make, description, header);
}
