#include "maximizer.h"

#include "counters.h"
#include "map.h"

namespace dv {
namespace {

constexpr uint32_t kPixelLimit = 1 << 24;

// NaN is never larger than another value, which the driver's documentation leaves open.
uint8_t largest(const Map &map, std::size_t position) {
  int best = 0;
  float most = map.chunk(0)[8 * position];
  for (int c = 1; c < map.channels(); ++c) {
    const float value = map.chunk(c / 8)[8 * position + static_cast<std::size_t>(c % 8)];
    if (value > most) most = value, best = c;
  }
  return static_cast<uint8_t>(best);
}

}  // namespace

Maximizer accept_maximizer(const dmp_dv_cmdraw &header) {
  if (header.version != 0) throw Error("header.version = " + std::to_string(header.version) + ": 0 is known");
  check_size(header, "header", sizeof(dmp_dv_cmdraw_maximizer_v0));
  const auto &raw = reinterpret_cast<const dmp_dv_cmdraw_maximizer_v0 &>(header);
  if (raw.width == 0) throw Error("width = 0: a map has at least one column");
  if (raw.height == 0) throw Error("height = 0: a map has at least one row");
  if (static_cast<uint32_t>(raw.width) * raw.height >= kPixelLimit)
    throw Error("width = " + std::to_string(raw.width) + ", height = " + std::to_string(raw.height) +
                ": a map has less than 16777216 pixels");
  if (raw.nclass < 2) throw Error("nclass = " + std::to_string(raw.nclass) + ": 2 to 255 is possible");
  if (raw.input_buf.offs % 2 != 0)
    throw Error("input_buf.offs = " + std::to_string(raw.input_buf.offs) + ": maps start at even offsets");
  Maximizer command;
  command.input = {raw.width, raw.height, raw.nclass};
  command.input_memory = buffer_memory("input_buf", raw.input_buf, command.input.bytes());
  command.output_memory = buffer_memory("output_buf", raw.output_buf, command.input.positions());
  command.input_offset = raw.input_buf.offs;
  command.output_offset = raw.output_buf.offs;
  return command;
}

void execute(const Maximizer &command) {
  const Shape &shape = command.input;
  command.input_memory->check_halves(command.input_offset, shape.bytes(), "the input");
  command.input_memory->before_device(command.input_offset, shape.bytes(), "the input");
  command.output_memory->before_device(command.output_offset, shape.positions(), "the output");
  Map map;
  map.resize(shape, false);
  load(*command.input_memory, command.input_offset, map);
  uint8_t *output = command.output_memory->device_data() + command.output_offset;
  for (std::size_t i = 0; i < map.positions(); ++i) output[i] = largest(map, i);
  command.output_memory->mark_by_device(command.output_offset, map.positions(), Content::kBytes);
  count(DMP_DV_DEV_MAXIMIZER, {1, shape.bytes(), 0, map.positions(), 0});
}

}  // namespace dv
