// Runs a network of any generated class on the twin; runner.cpp says what it reads and writes.
#ifndef NVDLA_NETWORK_RUNNER_H
#define NVDLA_NETWORK_RUNNER_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "generated_header.h"
#include "nvdla_twin.h"

namespace nvdla_host {

// The output of a layer. after: the layer that completes it, itself unless it is joined in place.
struct LayerMap {
  const char *name;
  int height, width, channels;
  std::size_t offset, count;  // count: elements, whole atoms included
  int element_bytes, after;
};

// What a network is. exact: each element is FP32, and each offset twice that of FP16. outputs: indices of layers.
struct Description {
  nvdla::Configuration configuration;
  bool exact;
  std::size_t weight_bytes, io_bytes;
  std::vector<dv::IoRange> inputs;
  std::vector<LayerMap> layers;
  std::vector<int> outputs;
};

// Where a network finds the device and its memory, and its hooks, which are given the context.
struct Places {
  volatile uint32_t *registers;
  uint8_t *weights, *io;
  uint64_t weights_address, io_address;  // as the device sees them
  void *context;
  void (*to_device)(void *context, const void *data, std::size_t bytes);
  void (*to_cpu)(void *context, void *data, std::size_t bytes);
};

class Network {
 public:
  virtual ~Network() = default;
  virtual bool load_weights(const void *bytes, std::size_t size) = 0;
  virtual bool run() = 0;
  virtual int layer_count() const = 0;
  virtual bool run_layer(int index) = 0;
  virtual const char *error() const = 0;
};

using Make = Network *(*)(const Places &);

// Does what the arguments of the program say. Returns the exit status.
int run_network(int argc, char **argv, Make make, const Description &description, const dv::Header &header);

// Accesses of the twin's registers. Raise nvdla::Refusal.
void write_register(volatile uint32_t *place, uint32_t value);
uint32_t read_register(const volatile uint32_t *place);

}  // namespace nvdla_host

#endif
