#include "execute.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "convolve.h"
#include "counters.h"
#include "half.h"
#include "tiling.h"
#include "units.h"
#include "weights.h"

namespace dv {
namespace {

// Bytes of input that a branch reads: its map once, and the columns that its strips share twice.
uint64_t branch_input(const Command &command, const Run &first) {
  const uint64_t columns = strip_columns(first, command.output_memory->context().limits.ub_size);
  return command.input_bytes() / static_cast<uint64_t>(command.input.width) * columns;
}

// The result of a run, not rounded. It lies in one of the workspace's maps.
Map &compute(const Command &command, const Run &run, Map &input, Workspace &room, Counters &work) {
  Map *map = &input;
  if (run.convolves) {
    convolve(run, command.transposed, input, room.padded, room.convolved);
    work.weights_bytes += PackedWeights::bytes(run);
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
    work.operand_bytes += run.operand().bytes();
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

void load_input(const Command &command, uint64_t offset, Map &map) {
  map.resize(command.input, command.transposed);
  if (command.table_memory) return load_bytes(command, map);
  command.input_memory->check_halves(offset, command.input.bytes(), "the input");
  load(*command.input_memory, offset, map);
}

void execute_sample(const Command &command, uint64_t input_offset, uint64_t output, Workspace &room, Counters &work) {
  load_input(command, input_offset, room.input);
  const bool exact = command.output_memory->context().exact;
  Map *input = &room.input;
  for (const Run &run : command.runs) {
    if (input == &room.input) work.input_bytes += branch_input(command, run);
    Map &result = compute(command, run, *input, room, work);
    if (run.external) {
      const uint64_t bytes = run.output.bytes();
      store(result, *command.output_memory, output);
      command.output_memory->mark(output, bytes, Content::kMap);
      output += bytes;
      work.output_bytes += bytes;
      input = &room.input;
    } else {
      if (!exact) round_to_half(result);
      std::swap(result, room.unified);
      input = &room.unified;
    }
  }
}

}  // namespace

void execute(const Command &command, Workspace &room) {
  Counters work{1, 0, 0, 0, 0};
  const uint64_t input_bytes = command.input_bytes(), output_bytes = command.output_bytes();
  for (uint64_t sample = 0; sample < static_cast<uint64_t>(command.batch); ++sample)
    execute_sample(command, command.input_offset + sample * input_bytes, command.output_offset + sample * output_bytes,
                   room, work);
  count(DMP_DV_DEV_CONV, work);
}

}  // namespace dv
