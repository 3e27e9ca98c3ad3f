#include "header_maps.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "running.h"

namespace dv {
namespace {

void require_count(const char *constant, std::size_t maps, std::size_t wanted) {
  if (maps != wanted)
    fail(std::string("header: ") + constant + " has " + std::to_string(maps) + " maps, the network " + std::to_string(wanted));
}

std::size_t elements_of(const HeaderMap &map, const HeaderLayout &layout) {
  const auto channels = static_cast<std::size_t>(map.channels);
  const std::size_t all = layout.whole ? (channels + layout.chunk - 1) / layout.chunk * layout.chunk : channels;
  return static_cast<std::size_t>(map.height) * static_cast<std::size_t>(map.width) * all;
}

std::vector<std::size_t> places_of(const HeaderMap &map, const HeaderLayout &layout) {
  const auto height = static_cast<std::size_t>(map.height), width = static_cast<std::size_t>(map.width);
  const auto channels = static_cast<std::size_t>(map.channels);
  const std::size_t chunk = layout.chunk ? layout.chunk : channels;
  std::vector<std::size_t> places;
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t c = 0; c < channels; ++c) {
        const std::size_t first = c - c % chunk, pixel = layout.by_columns ? x * height + y : y * width + x;
        const std::size_t together = layout.whole ? chunk : std::min(chunk, channels - first);
        places.push_back(first * height * width + pixel * together + c - first);
      }
  return places;
}

}  // namespace

Application::Application(const Header &header, std::vector<HeaderLayout> layouts, IoMemory io, std::size_t output_count,
                         const std::string &samples)
    : header_(header), layouts_(std::move(layouts)), io_(std::move(io)), path_(samples), samples_(samples, std::ios::binary) {
  const std::vector<Wanted> &inputs = header.wanted_inputs, &outputs = header.wanted_outputs;
  require_count("kInputs", header.inputs.size(), inputs.size());
  require_count("kOutputs", header.outputs.size(), outputs.size());
  require_count("kOutputs", header.outputs.size(), output_count);
  for (const Wanted &input : inputs) {
    const auto is_wanted = [&](const HeaderMap &map) { return std::strcmp(map.name, input.name) == 0; };
    const auto map = std::find_if(header.inputs.begin(), header.inputs.end(), is_wanted);
    inputs_.push_back(described("kInputs", map - header.inputs.begin(), header.inputs, input));
  }
  for (const Wanted &output : outputs) outputs_.push_back(described("kOutputs", output.position, header.outputs, output));
}

void Application::write(const std::vector<IoRange> &places) {
  // Lanes beyond the channels stay zero, as the network's input has them.
  const bool has_whole = std::any_of(layouts_.begin(), layouts_.end(), [](const HeaderLayout &layout) { return layout.whole; });
  std::vector<std::vector<uint8_t>> expected;
  for (const IoRange &place : places) {
    uint8_t *const from = io_.data + place.offset;
    expected.emplace_back(from, from + place.bytes);
    std::memset(from, has_whole ? 0 : 0xFF, place.bytes);
  }
  for (const Described &input : inputs_) {
    std::vector<float> values(input.places.size());
    const auto size = static_cast<std::size_t>(input.map.element_bytes);
    if (!samples_.read(reinterpret_cast<char *>(values.data()), static_cast<std::streamsize>(4 * values.size())))
      fail("cannot read " + path_);
    for (std::size_t i = 0; i < values.size(); ++i) {
      uint8_t *const to = io_.data + input.map.offset + size * input.places[i];
      const uint16_t half = header_.to_half(values[i]);
      if (size == 1)
        *to = static_cast<uint8_t>(values[i]);
      else
        std::memcpy(to, size == 2 ? static_cast<const void *>(&half) : &values[i], size);
    }
  }
  for (std::size_t i = 0; i < places.size(); ++i)
    if (!std::equal(expected[i].begin(), expected[i].end(), io_.data + places[i].offset))
      fail("header: kInputs: what an application writes by it is not what the network reads");
}

std::vector<float> Application::read(std::size_t output) const {
  const Described &from = outputs_[output];
  const auto size = static_cast<std::size_t>(from.map.element_bytes);
  const std::vector<float> in_memory = io_.read(from.map.offset, from.map.bytes / size, from.map.element_bytes);
  std::vector<float> values;
  for (const std::size_t place : from.places) values.push_back(in_memory[place]);
  return values;
}

Application::Described Application::described(const char *constant, std::ptrdiff_t index, const std::vector<HeaderMap> &maps,
                                              const Wanted &wanted) const {
  const auto require = [&](bool holds, const std::string &problem) {
    if (!holds) fail(std::string("header: ") + constant + " " + problem);
  };
  const std::string name = json_text(wanted.name);
  require(index >= 0 && index < static_cast<std::ptrdiff_t>(maps.size()), "has no " + name);
  const HeaderMap &map = maps[static_cast<std::size_t>(index)];
  require(std::strcmp(map.name, wanted.name) == 0, "has " + json_text(map.name) + " at the position of " + name);
  const bool has_shape = map.height == wanted.height && map.width == wanted.width && map.channels == wanted.channels;
  require(has_shape, "has other sizes of " + name + " than the network");
  const auto is_layout = [&](const HeaderLayout &layout) { return std::strcmp(map.layout, layout.name) == 0; };
  const auto layout = std::find_if(layouts_.begin(), layouts_.end(), is_layout);
  require(layout != layouts_.end(), "has an unknown layout of " + name);
  const std::size_t bytes = elements_of(map, *layout) * static_cast<std::size_t>(map.element_bytes);
  const bool has_size = map.element_bytes == 1 || map.element_bytes == 2 || map.element_bytes == 4;
  require(has_size && map.bytes == bytes, "has a wrong number of bytes of " + name);
  require(map.offset <= io_.bytes && bytes <= io_.bytes - map.offset, "has " + name + " outside of the memory");
  return {map, places_of(map, *layout)};
}

void print_pixels(const Header &header) {
  std::printf("%s\n", header.channel_order);
  for (int byte = 0; byte < 256; ++byte)
    for (std::size_t channel = 0; channel < std::max(header.mean.size(), header.scale.size()); ++channel) {
      const float mean = header.mean[channel % header.mean.size()], scale = header.scale[channel % header.scale.size()];
      std::printf("%.9g\n", (static_cast<float>(byte) - mean) * scale);
    }
}

}  // namespace dv
