#include "execute.h"

#include <utility>

#include "convolve.h"
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
    command.operand_memory->check_written(command.operand_offset, run.operand().bytes(), "the element-wise operand");
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

}  // namespace

void execute(const Command &command, Workspace &room) {
  command.input_memory->check_written(command.input_offset, command.input.bytes(), "the input");
  room.input.resize(command.input, command.transposed);
  load(*command.input_memory, command.input_offset, room.input);
  const bool exact = command.output_memory->context().exact;
  uint64_t output = command.output_offset;
  Map *input = &room.input;
  for (const Run &run : command.runs) {
    Map &result = compute(command, run, *input, room);
    if (run.external) {
      store(result, *command.output_memory, output);
      command.output_memory->mark_written(output, run.output.bytes());
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
