// The runner's work on a network of any class; runner.cpp says what it reads and writes.
#include "run_network.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "dmp_dv_host.h"
#include "dmp_network_host.h"
#include "header_maps.h"
#include "memory.h"
#include "running.h"

namespace dv {
namespace {

// Whether the network computes in FP32 alone; files then have FP32 in place of FP16.
bool is_unrounded() { return std::getenv("DMP_DV_RESIDUALS") != nullptr; }

// Reads a map of a file into the I/O buffer.
void read_map(std::ifstream &file, const std::string &path, const AnyNetwork &network, std::size_t offset,
              std::size_t bytes, bool is_half) {
  std::vector<float> values(is_half && is_unrounded() ? bytes / 2 : 0);
  char *const to = values.empty() ? reinterpret_cast<char *>(network.get_io_ptr() + offset) : reinterpret_cast<char *>(values.data());
  if (!file.read(to, static_cast<std::streamsize>(values.empty() ? bytes : 4 * values.size()))) fail("cannot read " + path);
  if (!values.empty()) dmp_network_host::write_halves(network.get_io_ptr(), offset, values);
}

bool is_half(const fpga_layer &layer) { return !layer.is_f32_output && !dmp_network_host::has_byte_output(layer); }

// The bytes of each layer's output in a file of given ones.
std::vector<std::size_t> given_sizes(AnyNetwork &network) {
  std::vector<std::size_t> sizes;
  for (int index = 0; index < network.get_total_layer_count(); ++index) {
    const fpga_layer &layer = network.get_layer(index);
    sizes.push_back(layer.output_size * (is_half(layer) && is_unrounded() ? 2 : 1));
  }
  return sizes;
}

// A piece of the input file that goes to a place in the I/O buffer.
struct Input {
  std::size_t offset, count;
  bool is_bytes;
  std::size_t bytes() const { return count * (is_bytes ? 1 : is_unrounded() ? 4 : 2); }
};

std::vector<Input> inputs_of(AnyNetwork &network) {
  std::vector<Input> inputs;
  for (int i = 0; i < network.get_total_layer_count(); ++i) {
    const fpga_layer &layer = network.get_layer(i);
    if (layer.type == LT_INPUT) inputs.push_back({layer.output_offs, layer.output_size / 2, false});
  }
  if (!inputs.empty()) return inputs;
  const fpga_layer &first = network.get_layer(0);
  std::size_t count = 1;
  for (int i = 0; i < first.input_dim_size; ++i) count *= static_cast<std::size_t>(first.input_dim[i]);
  return {{first.input_offs, count, dmp_network_host::takes_bytes(first)}};
}

std::string entry(const fpga_layer &layer, std::size_t count, std::size_t offset) {
  const std::vector<int> dims(layer.output_dim, layer.output_dim + layer.output_dim_size);
  return map_entry(layer.name, dims, count, offset);
}

dmp_dv_host_counters read_counters() {
  dmp_dv_host_counters counters;
  if (dmp_dv_host_get_counters(DMP_DV_DEV_CONV, &counters)) fail(dmp_dv_get_last_error_message());
  return counters;
}

// What the convolution block has done between two readings of its counters.
std::string traffic(const dmp_dv_host_counters &before, const dmp_dv_host_counters &after) {
  return "{\"commands\": " + std::to_string(after.commands - before.commands) +
         ", \"input\": " + std::to_string(after.input_bytes - before.input_bytes) +
         ", \"operand\": " + std::to_string(after.operand_bytes - before.operand_bytes) +
         ", \"output\": " + std::to_string(after.output_bytes - before.output_bytes) +
         ", \"weights\": " + std::to_string(after.weights_bytes - before.weights_bytes) + "}";
}

const std::vector<HeaderLayout> kLayouts = {{"HWC", 0, false, false}, {"hwc8", 8, false, false}, {"whc8", 8, true, false}};

void run(Make make, const Header *header, const Arguments &arguments) {
  const bool with_layers = arguments.with_layers;
  const std::string &directory = arguments.directory, &input_path = arguments.input;
  const std::unique_ptr<AnyNetwork> owner(make());
  AnyNetwork &network = *owner;
  const auto check = [&network](const char *call, const auto &function) {
    doing = call;
    if (function()) return;
    const std::string why = network.error();
    fail(why.empty() ? call + std::string(" failed") : why);
  };
  check("Initialize", [&] { return network.Initialize(); });
  check("LoadWeights", [&] { return network.LoadWeights(arguments.weights); });

  std::unique_ptr<Application> application;
  if (header && !is_unrounded()) {
    uint8_t *const data = network.get_io_ptr();
    const auto read = [data](std::size_t offset, std::size_t elements, int element_bytes) {
      return dmp_network_host::read_elements(data, offset, elements, element_bytes, "kOutputs");
    };
    const auto output_count = static_cast<std::size_t>(network.get_output_layer_count());
    application.reset(new Application(*header, kLayouts, {data, memory_at(data)->size(), read}, output_count, input_path + ".maps"));
  }
  Values outputs(directory + "/outputs.bin"), maps_of_outputs(directory + "/maps.bin"), layers(directory + "/layers.bin");
  const auto count = static_cast<std::size_t>(network.get_total_layer_count());
  std::vector<std::string> output_entries, layer_entries, layer_traffic(with_layers ? count : 0);
  std::vector<std::vector<float>> maps(count);  // of the layers, for one sample
  Given given(arguments.given, given_sizes(network));
  std::size_t sample = 0;
  const dmp_dv_host_counters start = read_counters();
  dmp_dv_host_counters last = start;
  if (with_layers) {
    network.WantLayerOutputs();
    network.observe([&](const fpga_layer &layer) {
      const auto index = static_cast<std::size_t>(&layer - &network.get_layer(0));
      maps[index] = dmp_network_host::read_output(network.get_io_ptr(), layer);
      const dmp_dv_host_counters now = read_counters();
      if (sample == 0) layer_traffic[index] = "    " + traffic(last, now);
      last = now;
      if (std::ifstream *file = given.at(sample, index))
        read_map(*file, arguments.given, network, layer.output_offs, layer.output_size, is_half(layer));
    });
  }
  check("Commit", [&] { return network.Commit(); });

  std::ifstream input_file(input_path, std::ios::binary);
  if (!input_file) fail("cannot open " + input_path);
  const std::size_t bytes = size_of(input_file);
  const std::vector<Input> inputs = inputs_of(network);
  std::vector<IoRange> places;
  std::size_t sample_bytes = 0;
  for (const Input &input : inputs) {
    places.push_back({input.offset, input.bytes()});
    sample_bytes += input.bytes();
  }
  if (bytes == 0 || bytes % sample_bytes != 0)
    fail(input_path + " has " + std::to_string(bytes) + " bytes, a sample has " + std::to_string(sample_bytes));

  for (; sample < bytes / sample_bytes; ++sample) {
    for (const Input &input : inputs)
      read_map(input_file, input_path, network, input.offset, input.count * (input.is_bytes ? 1 : 2), !input.is_bytes);
    if (application) application->write(places);
    check("RunNetwork", [&] { return network.RunNetwork(); });
    for (std::size_t i = 0; with_layers && i < count; ++i) {
      if (sample == 0) layer_entries.push_back(entry(network.get_layer(static_cast<int>(i)), maps[i].size(), layers.count()));
      layers.append(maps[i]);
    }
    doing = "get_final_output";
    for (int i = 0; i < network.get_output_layer_count(); ++i) {
      const int position = application ? application->position(static_cast<std::size_t>(i)) : i;
      const fpga_layer *layer = network.get_output_layers()[static_cast<std::size_t>(position)];
      std::vector<float> values;
      if (layer && dmp_network_host::has_byte_output(*layer))
        values = dmp_network_host::read_output(network.get_io_ptr(), *layer);
      else
        network.get_final_output(values, position);
      if (application) maps_of_outputs.append(application->read(static_cast<std::size_t>(i)));
      if (sample == 0) output_entries.push_back(entry(*layer, values.size(), outputs.count()));
      outputs.append(values);
    }
    std::fprintf(stderr, "convolution %d us, fully connected %d us, CPU %d us\n", network.get_conv_usec(),
                 network.get_fc_usec(), network.get_cpu_usec());
  }
  outputs.close();
  maps_of_outputs.close();
  layers.close();
  if (!with_layers) std::remove((directory + "/layers.bin").c_str());

  std::ofstream index(directory + "/index.json");
  index << "{\n  \"samples\": " << bytes / sample_bytes << ",\n  \"outputs\": [" << joined(output_entries)
        << "\n  ],\n  \"layers\": [" << joined(layer_entries) << "\n  ],\n  \"layer_traffic\": ["
        << joined(layer_traffic) << "\n  ],\n  \"traffic\": " << traffic(start, read_counters()) << "\n}\n";
  index.close();
  if (!index) fail("cannot write " + directory + "/index.json");
}

}  // namespace

int run_network(int argc, char **argv, Make make, const Header *header) {
  return run_program(argc, argv, header, [&](const Arguments &arguments) { run(make, header, arguments); });
}

}  // namespace dv
