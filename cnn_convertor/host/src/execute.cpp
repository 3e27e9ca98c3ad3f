#include "execute.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "convolve.h"
#include "half.h"
#include "units.h"

namespace dv {
namespace {

// The result of a run, not rounded. It lies in one of the workspace's maps.
Map &compute(const Command &command, const Run &run, Map &input, Workspace &room) {
  Map *map = &input;
  if (run.convolves) {
    convolve(run, command.transposed, input, room.padded, room.convolved);
    map = &room.convolved;
  } else if (run.pool == Pool::kNone || (run.adds && run.pool == Pool::kMax)) {
    room.convolved = input;  // what follows works in place, and another branch may need the input
    map = &room.convolved;
  }
  const auto add_operand = [&] {
    if (!run.adds) return;
    command.operand_memory->check_halves(command.operand_offset, run.operand().bytes(), "the element-wise operand");
    room.operand.resize(run.operand(), command.transposed);
    load(*command.operand_memory, command.operand_offset, room.operand);
    add(room.operand, *map);
  };
  const bool add_first = run.convolves || run.pool == Pool::kMax;
  if (add_first) add_operand();
  if (run.pool != Pool::kNone) {
    pool(run, command.transposed, *map, room.pooled);
    map = &room.pooled;
  }
  if (!add_first) add_operand();
  activate(run, *map);
  return *map;
}

// 8-bit input through the table. The table's channels count in the order of the input bytes.
void load_bytes(const Command &command, Map &map) {
  const auto channels = static_cast<std::size_t>(command.input.channels);
  command.input_memory->check_written(command.input_offset, command.input.elements(), "the input");
  const uint8_t *bytes = command.input_memory->data() + command.input_offset;
  const uint8_t *table = command.table_memory->data() + command.table_offset;
  float *pixel = map.chunk(0);
  for (std::size_t i = 0; i < map.positions(); ++i, pixel += 8, bytes += channels) {
    std::fill(pixel, pixel + 8, 0.0f);
    for (std::size_t c = 0; c < channels; ++c) {
      uint16_t half;
      std::memcpy(&half, table + 2 * (kTableChannels * bytes[c] + c), sizeof(half));
      pixel[c] = widen(half);
    }
    if (command.to_bgr) std::swap(pixel[0], pixel[2]);
  }
}

}  // namespace

void execute(const Command &command, Workspace &room) {
  room.input.resize(command.input, command.transposed);
  if (command.table_memory) {
    load_bytes(command, room.input);
  } else {
    command.input_memory->check_halves(command.input_offset, command.input.bytes(), "the input");
    load(*command.input_memory, command.input_offset, room.input);
  }
  const bool exact = command.output_memory->context().exact;
  uint64_t output = command.output_offset;
  Map *input = &room.input;
  for (const Run &run : command.runs) {
    Map &result = compute(command, run, *input, room);
    if (run.external) {
      store(result, *command.output_memory, output);
      command.output_memory->mark(output, run.output.bytes(), Content::kMap);
      output += run.output.bytes();
      input = &room.input;
    } else {
      if (!exact) round_to_half(result);
      std::swap(result, room.unified);
      input = &room.unified;
    }
  }
}

}  // namespace dv
