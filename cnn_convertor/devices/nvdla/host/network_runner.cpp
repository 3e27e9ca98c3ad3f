#include "network_runner.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "half.h"
#include "header_maps.h"
#include "running.h"

namespace nvdla_host {
namespace {

constexpr std::size_t kPage = 4096, kRegisterBytes = 1 << 20;
constexpr uint64_t kWeightsAddress = 0x10000000;
constexpr int kPolls = 1000;  // of registers that nothing can change any more

volatile uint32_t registers[kRegisterBytes / 4];  // of which only addresses are used
nvdla::Device *device = nullptr;
int polls = 0;

uint32_t address_of(const volatile uint32_t *place) { return static_cast<uint32_t>((place - registers) * 4); }

std::size_t whole_pages(std::size_t bytes) { return std::max((bytes + kPage - 1) / kPage * kPage, kPage); }

struct Free {
  void operator()(uint8_t *data) const { std::free(data); }
};
using Buffer = std::unique_ptr<uint8_t, Free>;

Buffer allocated(std::size_t bytes) {
  Buffer buffer(static_cast<uint8_t *>(std::aligned_alloc(kPage, whole_pages(bytes))));
  if (!buffer) dv::fail("there is no memory for " + std::to_string(bytes) + " bytes");
  return buffer;
}

// The same memory as both sides see it.
struct Sides {
  explicit Sides(std::size_t size) : bytes(size), of_cpu(allocated(size)), of_device(allocated(size)) {}
  bool has(const void *data) const { return data >= of_cpu.get() && data < of_cpu.get() + bytes; }
  std::size_t bytes;
  Buffer of_cpu, of_device;
};

std::vector<float> values_of(const uint8_t *from, std::size_t count, int element_bytes) {
  std::vector<float> values(count);
  if (element_bytes == 4) {
    std::memcpy(values.data(), from, 4 * count);
    return values;
  }
  for (std::size_t i = 0; i < count; ++i) {
    uint16_t half;
    if (element_bytes == 2) std::memcpy(&half, from + 2 * i, sizeof half);
    values[i] = element_bytes == 2 ? dv::widen(half) : static_cast<float>(from[i]);
  }
  return values;
}

struct Moved {
  uint64_t commands = 0, input = 0, operand = 0, output = 0, weights = 0;
};

std::string to_json(const Moved &moved) {
  return "{\"commands\": " + std::to_string(moved.commands) + ", \"input\": " + std::to_string(moved.input) +
         ", \"operand\": " + std::to_string(moved.operand) + ", \"output\": " + std::to_string(moved.output) +
         ", \"weights\": " + std::to_string(moved.weights) + "}";
}

// A network on the twin. The processor and the device have memory of their own, as if neither saw what the other's caches hold: only the
// network's hooks copy between them, so that it must call them for all that changes sides.
class Running {
 public:
  Running(Make make, const Description &description)
      : description_(description),
        weights_(description.weight_bytes),
        io_(description.io_bytes),
        device_(description.configuration, threads(), description.exact) {
    const std::size_t scale = description.exact ? 2 : 1;
    io_address_ = kWeightsAddress + whole_pages(description.weight_bytes / scale);
    std::memset(weights_.of_device.get(), 0, description.weight_bytes);
    device_.add_memory(kWeightsAddress, weights_.of_device.get(), description.weight_bytes / scale);
    device_.add_unwritten_memory(io_address_, io_.of_device.get(), description.io_bytes / scale);
    std::memcpy(io_.of_cpu.get(), io_.of_device.get(), description.io_bytes);
    device = &device_;
    network_.reset(make({registers, weights_.of_cpu.get(), io_.of_cpu.get(), kWeightsAddress, io_address_, this, to_device, to_cpu}));
  }

  uint8_t *io() const { return io_.of_cpu.get(); }

  // Puts the output of a layer from elsewhere in place of its own, for both sides.
  void replace(const LayerMap &layer, const std::vector<char> &contents) {
    for (uint8_t *memory : {io_.of_cpu.get(), io_.of_device.get()}) std::memcpy(memory + layer.offset, contents.data(), contents.size());
  }

  void load_weights(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<char> contents(dv::size_of(file));
    if (!file.read(contents.data(), static_cast<std::streamsize>(contents.size()))) dv::fail("cannot read " + path);
    check("LoadWeights", network_->load_weights(contents.data(), contents.size()));
  }

  void require_layers() const {
    if (static_cast<std::size_t>(network_->layer_count()) != description_.layers.size())
      dv::fail("the class has " + std::to_string(network_->layer_count()) + " layers, the program " +
               std::to_string(description_.layers.size()));
  }

  void run() { check("Run", network_->run()); }

  void run_layer(int index) { check("RunLayer", network_->run_layer(index)); }

  // A layer's output, which the device has, too, if the CPU wrote it. Fails for one that is not whole.
  std::vector<float> output(const LayerMap &layer) const {
    const auto element_bytes = static_cast<std::size_t>(layer.element_bytes);
    const std::size_t bytes = layer.count * element_bytes;
    const uint8_t *const from = io_.of_device.get() + layer.offset;
    const std::size_t at = nvdla::unwritten(from, bytes, element_bytes);
    if (at < bytes) dv::fail("the layer " + dv::json_text(layer.name) + " does not write its output from byte " + std::to_string(at) + " on");
    return values_of(from, layer.count, layer.element_bytes);
  }

  // What the application finds.
  std::vector<float> read(std::size_t offset, std::size_t count, int element_bytes) const {
    return values_of(io() + offset, count, element_bytes);
  }

  // What the operations have moved since the last call.
  Moved moved() {
    Moved all;
    const std::vector<nvdla::Operation> &operations = device_.operations();
    for (; counted_ < operations.size(); ++counted_) {
      ++all.commands;
      for (const nvdla::Traffic &traffic : operations[counted_].traffic) add(traffic, all);
    }
    return all;
  }

 private:
  static const Sides &sides_of(void *running, const void *data) {
    const Running &own = *static_cast<Running *>(running);
    if (!own.io_.has(data) && !own.weights_.has(data)) dv::fail("a hook is called for memory that is not the network's");
    return own.io_.has(data) ? own.io_ : own.weights_;
  }

  static void to_device(void *running, const void *data, std::size_t bytes) {
    const Sides &sides = sides_of(running, data);
    std::memcpy(sides.of_device.get() + (static_cast<const uint8_t *>(data) - sides.of_cpu.get()), data, bytes);
  }

  static void to_cpu(void *running, void *data, std::size_t bytes) {
    const Sides &sides = sides_of(running, data);
    std::memcpy(data, sides.of_device.get() + (static_cast<const uint8_t *>(data) - sides.of_cpu.get()), bytes);
  }

  static int threads() {
    const char *const wanted = std::getenv("DMP_DV_THREADS");
    return wanted ? std::max(std::atoi(wanted), 1) : 1;
  }

  void check(const char *call, bool done) const {
    if (!done) dv::fail(std::string(call) + ": " + network_->error());
  }

  // The ports that write have a W in their names; operands of SDP may lie in either memory.
  void add(const nvdla::Traffic &traffic, Moved &all) const {
    const std::string port = traffic.port;
    if (port == "CDMA_WT") {
      all.weights += traffic.bytes;
    } else if (port == "BRDMA" || port == "NRDMA" || port == "ERDMA") {
      const bool is_weight = traffic.address < io_address_;
      (is_weight ? all.weights : all.operand) += traffic.bytes;
    } else {
      (port.find("_W") == std::string::npos ? all.input : all.output) += traffic.bytes;
    }
  }

  const Description &description_;
  Sides weights_, io_;
  uint64_t io_address_ = 0;
  nvdla::Device device_;
  std::unique_ptr<Network> network_;
  std::size_t counted_ = 0;
};

std::string entry(const LayerMap &layer, std::size_t offset) {
  return dv::map_entry(layer.name, {layer.height, layer.width, layer.channels}, layer.count, offset);
}

// The maps and the traffic of all layers, of one sample.
struct Layers {
  std::vector<std::vector<float>> maps;
  std::vector<Moved> moved;
};

Layers run_layers(Running &running, const Description &description, dv::Given &given, std::size_t sample, const std::string &given_path) {
  const std::vector<LayerMap> &all = description.layers;
  Layers layers{std::vector<std::vector<float>>(all.size()), {}};
  for (std::size_t index = 0; index < all.size(); ++index) {
    running.run_layer(static_cast<int>(index));
    layers.moved.push_back(running.moved());
    for (std::size_t done = 0; done < all.size(); ++done) {
      const LayerMap &layer = all[done];
      if (layer.after != static_cast<int>(index)) continue;
      layers.maps[done] = running.output(layer);
      std::ifstream *const file = given.at(sample, done);
      const std::size_t bytes = layer.count * static_cast<std::size_t>(layer.element_bytes);
      std::vector<char> contents(file ? bytes : 0);
      if (file && !file->read(contents.data(), static_cast<std::streamsize>(bytes))) dv::fail("cannot read " + given_path);
      if (file) running.replace(layer, contents);
    }
  }
  return layers;
}

void run(Make make, const Description &description, const dv::Header &header, const dv::Arguments &arguments) {
  Running running(make, description);
  running.load_weights(arguments.weights);
  running.require_layers();
  const auto read = [&](std::size_t offset, std::size_t count, int element_bytes) { return running.read(offset, count, element_bytes); };
  const std::vector<dv::HeaderLayout> layouts = {{"HWC", 0, false, false}, {"nvdla_feature_fp16", 16, false, true}};
  const dv::IoMemory io = {running.io(), description.io_bytes, read};
  dv::Application application(header, layouts, io, description.outputs.size(), arguments.input + ".maps");
  const std::string &directory = arguments.directory;
  dv::Values outputs(directory + "/outputs.bin"), maps_of_outputs(directory + "/maps.bin"), layers(directory + "/layers.bin");
  std::vector<std::string> output_entries, layer_entries, layer_traffic;
  std::vector<std::size_t> sizes;
  for (const LayerMap &layer : description.layers) sizes.push_back(layer.count * static_cast<std::size_t>(layer.element_bytes));
  dv::Given given(arguments.given, sizes);

  std::ifstream input(arguments.input, std::ios::binary);
  if (!input) dv::fail("cannot open " + arguments.input);
  const std::size_t bytes = dv::size_of(input);
  std::size_t sample_bytes = 0;
  for (const dv::IoRange &place : description.inputs) sample_bytes += place.bytes;
  if (bytes == 0 || bytes % sample_bytes != 0)
    dv::fail(arguments.input + " has " + std::to_string(bytes) + " bytes, a sample has " + std::to_string(sample_bytes));

  for (std::size_t sample = 0; sample < bytes / sample_bytes; ++sample) {
    for (const dv::IoRange &place : description.inputs)
      if (!input.read(reinterpret_cast<char *>(running.io() + place.offset), static_cast<std::streamsize>(place.bytes)))
        dv::fail("cannot read " + arguments.input);
    application.write(description.inputs);
    if (arguments.with_layers) {
      const Layers all = run_layers(running, description, given, sample, arguments.given);
      for (std::size_t i = 0; i < all.maps.size(); ++i) {
        if (sample == 0) {
          layer_entries.push_back(entry(description.layers[i], layers.count()));
          layer_traffic.push_back("    " + to_json(all.moved[i]));
        }
        layers.append(all.maps[i]);
      }
    } else {
      running.run();
    }
    for (std::size_t i = 0; i < description.outputs.size(); ++i) {
      const LayerMap &layer = description.layers[static_cast<std::size_t>(description.outputs[i])];
      maps_of_outputs.append(application.read(i));
      if (sample == 0) output_entries.push_back(entry(layer, outputs.count()));
      outputs.append(running.output(layer));
    }
  }
  outputs.close();
  maps_of_outputs.close();
  layers.close();
  if (!arguments.with_layers) std::remove((directory + "/layers.bin").c_str());

  std::ofstream index(directory + "/index.json");
  index << "{\n  \"samples\": " << bytes / sample_bytes << ",\n  \"outputs\": [" << dv::joined(output_entries)
        << "\n  ],\n  \"layers\": [" << dv::joined(layer_entries) << "\n  ],\n  \"layer_traffic\": ["
        << dv::joined(layer_traffic) << "\n  ]\n}\n";
  index.close();
  if (!index) dv::fail("cannot write " + directory + "/index.json");
}

}  // namespace

int run_network(int argc, char **argv, Make make, const Description &description, const dv::Header &header) {
  return dv::run_program(argc, argv, &header, [&](const dv::Arguments &arguments) { run(make, description, header, arguments); });
}

void write_register(volatile uint32_t *place, uint32_t value) {
  polls = 0;
  device->write(address_of(place), value);
}

uint32_t read_register(const volatile uint32_t *place) {
  // Operations run as soon as they can, so a network that reads on and on waits for what never comes.
  if (++polls > kPolls) device->wait(~0u);
  return device->read(address_of(place));
}

}  // namespace nvdla_host
