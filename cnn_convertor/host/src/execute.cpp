#include "execute.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "convolve.h"
#include "counters.h"
#include "half.h"
#include "tiling.h"
#include "units.h"
#include "vector_loops.h"
#include "weights.h"

namespace dv {
namespace {

// Bytes of input that a branch reads: its map once, and the columns that its strips share twice.
uint64_t branch_input(const Command &command, const Run &first) {
  const uint64_t columns = strip_columns(first, command.output_memory->context().limits.ub_size);
  return command.input_bytes() / static_cast<uint64_t>(command.input.width) * columns;
}

// What follows the units of a run: its addition and activation, and its place in memory or in the unified buffer.
// Pieces pass through it as soon as they are computed, while caches hold them.
void compute(const Command &command, const Run &run, const Map &input, uint64_t output, Workspace &room) {
  Memory &memory = *command.output_memory;
  const bool pools = run.pool != Pool::kNone, adds_early = run.adds && (run.convolves || run.pool == Pool::kMax);
  const Activator activate(run);
  const auto add_operand = [&](int chunk, std::size_t first, std::size_t count, float *values) {
    const float *operand = room.operand.chunk(chunk) + 8 * first;
    for (std::size_t i = 0; i < 8 * count; ++i) values[i] += operand[i];
  };
  const Take finish = [&](int chunk, std::size_t first, std::size_t count, float *values) {
    if (run.adds && !adds_early) add_operand(chunk, first, count, values);
    activate(chunk, 8 * count, values);
    if (run.external) return store(run.output, chunk, first, count, values, memory, output);
    if (!memory.context().exact) round_all(values, 8 * count);
    std::copy(values, values + 8 * count, room.result.chunk(chunk) + 8 * first);
  };
  const Take continue_behind = [&](int chunk, std::size_t first, std::size_t count, float *values) {
    if (adds_early) add_operand(chunk, first, count, values);
    if (!pools) return finish(chunk, first, count, values);
    std::copy(values, values + 8 * count, room.convolved.chunk(chunk) + 8 * first);
  };
  if (!run.external) room.result.resize(run.output, command.transposed);
  if (pools) room.convolved.resize(run.convolved, command.transposed);
  const bool pools_input = pools && !run.convolves && !adds_early;
  if (run.convolves)
    convolve(run, command.transposed, input, room.padded, continue_behind);
  else if (!pools_input)
    visit(input, continue_behind);
  if (pools) pool(run, command.transposed, pools_input ? input : room.convolved, finish);
}

void load_operand(const Command &command, const Run &run, Map &map) {
  command.operand_memory->check_halves(command.operand_offset, run.operand().bytes(), "the element-wise operand");
  command.operand_memory->before_device(command.operand_offset, run.operand().bytes(), "the element-wise operand");
  map.resize(run.operand(), command.transposed);
  load(*command.operand_memory, command.operand_offset, map);
}

// 8-bit input through the table. The table's channels count in the order of the input bytes.
void load_bytes(const Command &command, Map &map) {
  const auto channels = static_cast<std::size_t>(command.input.channels);
  command.input_memory->check_written(command.input_offset, command.input.elements(), "the input");
  command.input_memory->before_device(command.input_offset, command.input.elements(), "the input");
  const uint8_t *bytes = command.input_memory->device_data() + command.input_offset;
  const uint8_t *table = command.table_memory->device_data() + command.table_offset;
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
  command.input_memory->before_device(offset, command.input.bytes(), "the input");
  load(*command.input_memory, offset, map);
}

// Weights in the memory of maps, which the CPU writes while the network runs.
void check_weights(const Command &command) {
  for (const Run &run : command.runs)
    if (run.convolves && run.weights == command.input_memory) {
      run.weights->check_halves(run.weights_offset, PackedWeights::bytes(run), "the weights");
      run.weights->before_device(run.weights_offset, PackedWeights::bytes(run), "the weights");
    }
}

void execute_sample(const Command &command, uint64_t input_offset, uint64_t output, Workspace &room, Counters &work) {
  load_input(command, input_offset, room.input);
  const Map *input = &room.input;
  for (const Run &run : command.runs) {
    if (input == &room.input) work.input_bytes += branch_input(command, run);
    if (run.adds) load_operand(command, run, room.operand);
    compute(command, run, *input, output, room);
    if (run.convolves) work.weights_bytes += PackedWeights::bytes(run);
    if (run.adds) work.operand_bytes += run.operand().bytes();
    if (run.external) {
      const uint64_t bytes = run.output.bytes();
      command.output_memory->mark_by_device(output, bytes, Content::kMap);
      output += bytes;
      work.output_bytes += bytes;
      input = &room.input;
    } else {
      std::swap(room.result, room.unified);
      input = &room.unified;
    }
  }
}

}  // namespace

void execute(const Command &command, Workspace &room) {
  check_weights(command);
  command.output_memory->before_device(command.output_offset, command.output_bytes() * static_cast<uint64_t>(command.batch), "the output");
  Counters work{1, 0, 0, 0, 0};
  const uint64_t input_bytes = command.input_bytes(), output_bytes = command.output_bytes();
  for (uint64_t sample = 0; sample < static_cast<uint64_t>(command.batch); ++sample)
    execute_sample(command, command.input_offset + sample * input_bytes, command.output_offset + sample * output_bytes,
                   room, work);
  count(DMP_DV_DEV_CONV, work);
}

}  // namespace dv
