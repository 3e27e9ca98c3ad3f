// The runner's work on a network of any class; runner.cpp says what it reads and writes.
#include "run_network.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dmp_dv_host.h"
#include "dmp_network_host.h"
#include "memory.h"

namespace {

[[noreturn]] void fail(const std::string &text) { throw std::runtime_error(text); }

// Whether the network computes in FP32 alone; files then have FP32 in place of FP16.
bool is_unrounded() { return std::getenv("DMP_DV_RESIDUALS") != nullptr; }

// Reads a map of a file into the I/O buffer.
void read_map(std::ifstream &file, const std::string &path, const dv::AnyNetwork &network, std::size_t offset,
              std::size_t bytes, bool is_half) {
  std::vector<float> values(is_half && is_unrounded() ? bytes / 2 : 0);
  char *const to = values.empty() ? reinterpret_cast<char *>(network.get_io_ptr() + offset) : reinterpret_cast<char *>(values.data());
  if (!file.read(to, static_cast<std::streamsize>(values.empty() ? bytes : 4 * values.size()))) fail("cannot read " + path);
  if (!values.empty()) dmp_network_host::write_halves(network.get_io_ptr(), offset, values);
}

// The bytes of a file; then it reads from the start.
std::size_t size_of(std::ifstream &file) {
  file.seekg(0, std::ios::end);
  const std::streamoff end = file.tellg();
  file.seekg(0);
  return static_cast<std::size_t>(std::max<std::streamoff>(end, 0));
}

// A file of FP32 values that grows.
class Values {
 public:
  explicit Values(const std::string &path) : path_(path), file_(path, std::ios::binary) {}
  void append(const std::vector<float> &values) {
    file_.write(reinterpret_cast<const char *>(values.data()), static_cast<std::streamsize>(values.size() * 4));
    count_ += values.size();
  }
  std::size_t count() const { return count_; }
  void close() {
    file_.close();
    if (!file_) fail("cannot write " + path_);
  }

 private:
  std::string path_;
  std::ofstream file_;
  std::size_t count_ = 0;
};

// Outputs of layers from elsewhere. The file has a byte for each layer, which is 0 for those that keep their own; then, for
// each sample, the outputs of the others.
class Given {
 public:
  Given(const std::string &path, dv::AnyNetwork &network)
      : path_(path), file_(path, std::ios::binary), known_(static_cast<std::size_t>(network.get_total_layer_count())) {
    if (path.empty()) return;
    if (!file_.read(reinterpret_cast<char *>(known_.data()), static_cast<std::streamsize>(known_.size())))
      fail("cannot read " + path);
    for (std::size_t index = 0; index < known_.size(); ++index) {
      const fpga_layer &layer = network.get_layer(static_cast<int>(index));
      starts_.push_back(sample_bytes_);
      if (known_[index]) sample_bytes_ += layer.output_size * (is_half(layer) && is_unrounded() ? 2 : 1);
    }
  }
  void replace(std::size_t sample, std::size_t index, const dv::AnyNetwork &network, const fpga_layer &layer) {
    if (!known_.at(index)) return;
    file_.seekg(static_cast<std::streamoff>(known_.size() + sample * sample_bytes_ + starts_[index]));
    read_map(file_, path_, network, layer.output_offs, layer.output_size, is_half(layer));
  }

 private:
  static bool is_half(const fpga_layer &layer) {
    return !layer.is_f32_output && !dmp_network_host::has_byte_output(layer);
  }

  std::string path_;
  std::ifstream file_;
  std::vector<uint8_t> known_;
  std::vector<std::size_t> starts_;  // bytes, in those of a sample
  std::size_t sample_bytes_ = 0;
};

// A piece of the input file that goes to a place in the I/O buffer.
struct Input {
  std::size_t offset, count;
  bool is_bytes;
  std::size_t bytes() const { return count * (is_bytes ? 1 : is_unrounded() ? 4 : 2); }
};

std::vector<Input> inputs_of(dv::AnyNetwork &network) {
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

std::string quoted(const std::string &text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned>(static_cast<unsigned char>(c));
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", code);
    if (code < 0x20 || c == '"' || c == '\\')
      result += escape;
    else
      result += c;
  }
  return result + "\"";
}

// The inputs and outputs of a network as an application reaches them: by the constants of the header. Fails where these do not
// describe the maps that the application looks for.
class Application {
 public:
  Application(const dv::Header &header, const dv::AnyNetwork &network, const std::string &samples)
      : header_(header), network_(network), path_(samples), samples_(samples, std::ios::binary) {
    const std::vector<dv::Wanted> &inputs = header.wanted_inputs, &outputs = header.wanted_outputs;
    require_count("kInputs", header.inputs.size(), inputs.size());
    require_count("kOutputs", header.outputs.size(), outputs.size());
    require_count("kOutputs", header.outputs.size(), static_cast<std::size_t>(network.get_output_layer_count()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto is_wanted = [&](const dv::HeaderMap &map) { return std::strcmp(map.name, inputs[i].name) == 0; };
      const auto map = std::find_if(header.inputs.begin(), header.inputs.end(), is_wanted);
      inputs_.push_back(described("kInputs", map - header.inputs.begin(), header.inputs, inputs[i]));
    }
    for (const dv::Wanted &output : outputs) outputs_.push_back(described("kOutputs", output.position, header.outputs, output));
  }

  // The position of an output by its constant.
  int position(std::size_t output) const { return header_.wanted_outputs[output].position; }

  // Writes the next sample over that in memory. places: where the network reads its inputs.
  void write(const std::vector<Input> &places) {
    uint8_t *const io = network_.get_io_ptr();
    std::vector<std::vector<uint8_t>> expected;
    for (const Input &place : places) {
      expected.emplace_back(io + place.offset, io + place.offset + place.bytes());
      std::memset(io + place.offset, 0xFF, place.bytes());
    }
    for (const Described &input : inputs_) {
      std::vector<float> values(input.places.size());
      const auto size = static_cast<std::size_t>(input.map.element_bytes);
      if (!samples_.read(reinterpret_cast<char *>(values.data()), static_cast<std::streamsize>(4 * values.size())))
        fail("cannot read " + path_);
      for (std::size_t i = 0; i < values.size(); ++i) {
        uint8_t *const to = io + input.map.offset + size * input.places[i];
        const uint16_t half = header_.to_half(values[i]);
        if (size == 1)
          *to = static_cast<uint8_t>(values[i]);
        else
          std::memcpy(to, size == 2 ? static_cast<const void *>(&half) : &values[i], size);
      }
    }
    for (std::size_t i = 0; i < places.size(); ++i)
      if (!std::equal(expected[i].begin(), expected[i].end(), io + places[i].offset))
        fail("header: kInputs: what an application writes by it is not what the network reads");
  }

  // An output in the order H, W, C.
  std::vector<float> read(std::size_t output) const {
    const Described &from = outputs_[output];
    const std::vector<float> in_memory =
        dmp_network_host::read_elements(network_.get_io_ptr(), from.map.offset, from.places.size(), from.map.element_bytes, "kOutputs");
    std::vector<float> values;
    for (const std::size_t place : from.places) values.push_back(in_memory[place]);
    return values;
  }

 private:
  // A map, and the places of its elements in the order H, W, C.
  struct Described {
    dv::HeaderMap map;
    std::vector<std::size_t> places;
  };

  static void require_count(const char *constant, std::size_t maps, std::size_t wanted) {
    if (maps != wanted)
      fail(std::string("header: ") + constant + " has " + std::to_string(maps) + " maps, the network " + std::to_string(wanted));
  }

  Described described(const char *constant, std::ptrdiff_t index, const std::vector<dv::HeaderMap> &maps, const dv::Wanted &wanted) const {
    const auto require = [&](bool holds, const std::string &problem) {
      if (!holds) fail(std::string("header: ") + constant + " " + problem);
    };
    const std::string name = quoted(wanted.name);
    require(index >= 0 && index < static_cast<std::ptrdiff_t>(maps.size()), "has no " + name);
    const dv::HeaderMap &map = maps[static_cast<std::size_t>(index)];
    require(std::strcmp(map.name, wanted.name) == 0, "has " + quoted(map.name) + " at the position of " + name);
    const bool has_shape = map.height == wanted.height && map.width == wanted.width && map.channels == wanted.channels;
    require(has_shape, "has other sizes of " + name + " than the network");
    const char *const layouts[] = {"HWC", "hwc8", "whc8"};
    const auto is_layout = [&](const char *layout) { return std::strcmp(map.layout, layout) == 0; };
    require(std::any_of(std::begin(layouts), std::end(layouts), is_layout), "has an unknown layout of " + name);
    Described result = {map, places_of(map)};
    const std::size_t bytes = result.places.size() * static_cast<std::size_t>(map.element_bytes);
    const bool has_size = map.element_bytes == 1 || map.element_bytes == 2 || map.element_bytes == 4;
    require(has_size && map.bytes == bytes, "has a wrong number of bytes of " + name);
    const std::size_t memory = dv::memory_at(network_.get_io_ptr())->size();
    require(map.offset <= memory && bytes <= memory - map.offset, "has " + name + " outside of the memory");
    return result;
  }

  static std::vector<std::size_t> places_of(const dv::HeaderMap &map) {
    const auto height = static_cast<std::size_t>(map.height), width = static_cast<std::size_t>(map.width);
    const auto channels = static_cast<std::size_t>(map.channels);
    const std::size_t chunk = std::strcmp(map.layout, "HWC") == 0 ? channels : 8;
    const bool is_by_columns = std::strcmp(map.layout, "whc8") == 0;
    std::vector<std::size_t> places;
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < width; ++x)
        for (std::size_t c = 0; c < channels; ++c) {
          const std::size_t first = c - c % chunk, pixel = is_by_columns ? x * height + y : y * width + x;
          places.push_back(first * height * width + pixel * std::min(chunk, channels - first) + c - first);
        }
    return places;
  }

  const dv::Header &header_;
  const dv::AnyNetwork &network_;
  std::string path_;
  std::ifstream samples_;
  std::vector<Described> inputs_, outputs_;
};

// What the header's mean and scale make of each byte, in each channel that has its own.
void print_pixels(const dv::Header &header) {
  std::printf("%s\n", header.channel_order);
  for (int byte = 0; byte < 256; ++byte)
    for (std::size_t channel = 0; channel < std::max(header.mean.size(), header.scale.size()); ++channel) {
      const float mean = header.mean[channel % header.mean.size()], scale = header.scale[channel % header.scale.size()];
      std::printf("%.9g\n", (static_cast<float>(byte) - mean) * scale);
    }
}

std::string entry(const fpga_layer &layer, std::size_t count, std::size_t offset) {
  std::string dims;
  for (int i = 0; i < layer.output_dim_size; ++i)
    dims += (i ? ", " : "") + std::to_string(layer.output_dim[i]);
  return "    {\"name\": " + quoted(layer.name) + ", \"dims\": [" + dims + "], \"count\": " + std::to_string(count) +
         ", \"offset\": " + std::to_string(offset) + "}";
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

std::string joined(const std::vector<std::string> &entries) {
  std::string text;
  for (std::size_t i = 0; i < entries.size(); ++i) text += (i ? ",\n" : "\n") + entries[i];
  return text;
}

// The call that a crash interrupts.
const char *volatile doing = "the constructor";

[[noreturn]] void crashed(int) {
  const auto print = [](const char *text) { static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text))); };
  print("error: the network's code crashes in ");
  print(doing);
  print(", as it does on a board\n");
  _exit(1);
}

void run(dv::Make make, const dv::Header *header, const std::string &weights, const std::string &input_path,
         const std::string &directory, bool with_layers, const std::string &given_path) {
  const std::unique_ptr<dv::AnyNetwork> owner(make());
  dv::AnyNetwork &network = *owner;
  const auto check = [&network](const char *call, const auto &function) {
    doing = call;
    if (function()) return;
    const std::string why = network.error();
    fail(why.empty() ? call + std::string(" failed") : why);
  };
  check("Initialize", [&] { return network.Initialize(); });
  check("LoadWeights", [&] { return network.LoadWeights(weights); });

  std::unique_ptr<Application> application;
  if (header && !is_unrounded()) application.reset(new Application(*header, network, input_path + ".maps"));
  Values outputs(directory + "/outputs.bin"), maps_of_outputs(directory + "/maps.bin"), layers(directory + "/layers.bin");
  const auto count = static_cast<std::size_t>(network.get_total_layer_count());
  std::vector<std::string> output_entries, layer_entries, layer_traffic(with_layers ? count : 0);
  std::vector<std::vector<float>> maps(count);  // of the layers, for one sample
  Given given(given_path, network);
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
      given.replace(sample, index, network, layer);
    });
  }
  check("Commit", [&] { return network.Commit(); });

  std::ifstream input_file(input_path, std::ios::binary);
  if (!input_file) fail("cannot open " + input_path);
  const std::size_t bytes = size_of(input_file);
  const std::vector<Input> inputs = inputs_of(network);
  std::size_t sample_bytes = 0;
  for (const Input &input : inputs) sample_bytes += input.bytes();
  if (bytes == 0 || bytes % sample_bytes != 0)
    fail(input_path + " has " + std::to_string(bytes) + " bytes, a sample has " + std::to_string(sample_bytes));

  for (; sample < bytes / sample_bytes; ++sample) {
    for (const Input &input : inputs)
      read_map(input_file, input_path, network, input.offset, input.count * (input.is_bytes ? 1 : 2), !input.is_bytes);
    if (application) application->write(inputs);
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

int dv::run_network(int argc, char **argv, Make make, const Header *header) {
  if (header && argc == 2 && std::strcmp(argv[1], "--pixels") == 0) {
    print_pixels(*header);
    return 0;
  }
  const bool with_layers = (argc == 5 || argc == 6) && std::strcmp(argv[4], "--layers") == 0;
  if (argc != 4 && !with_layers) {
    std::fprintf(stderr, "usage: %s WEIGHTS.bin INPUT.bin OUT_DIR [--layers [GIVEN.bin]]\n", argv[0]);
    return 2;
  }
  std::signal(SIGSEGV, crashed);
  std::signal(SIGBUS, crashed);
  try {
    run(make, header, argv[1], argv[2], argv[3], with_layers, argc == 6 ? argv[5] : "");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
