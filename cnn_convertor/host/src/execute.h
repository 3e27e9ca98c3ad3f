// Executes a command: maps from memory, through the runs, to memory.
#ifndef DV_EXECUTE_H
#define DV_EXECUTE_H

#include "command.h"
#include "map.h"

namespace dv {

// Room for maps, kept from command to command.
struct Workspace {
  Map input, padded, convolved, operand, result, unified;
};

void execute(const Command &command, Workspace &room);

}  // namespace dv

#endif
