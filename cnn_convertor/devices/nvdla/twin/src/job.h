// What a twin has to do: a file that playing.py writes.
#ifndef NVDLA_JOB_H
#define NVDLA_JOB_H

#include <cstdint>
#include <utility>
#include <vector>

#include "nvdla_twin.h"

namespace nvdla {

enum AccessKind : uint64_t { kWrite, kRead, kWait };

struct Access {
  uint64_t kind;
  uint32_t address, value;
};

// Zeros but for these bytes, each with their offset.
struct InitialMemory {
  uint64_t address, size;
  std::vector<std::pair<uint64_t, std::vector<uint8_t>>> blocks;
};

struct Job {
  int threads = 1;
  bool exact = false;
  Configuration configuration;
  std::vector<InitialMemory> memory;
  std::vector<Access> accesses;
};

// Raises Refusal when the file ends too early.
Job read_job(const char *path);

// Raises Refusal when the memory overlaps other memory.
void add_memory(Device &device, const InitialMemory &memory);

}  // namespace nvdla

#endif
