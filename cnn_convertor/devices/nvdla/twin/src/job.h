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

struct Job {
  int threads = 1;
  Configuration configuration;
  std::vector<std::pair<uint64_t, std::vector<uint8_t>>> memory;
  std::vector<Access> accesses;
};

// Raises Refusal when the file ends too early.
Job read_job(const char *path);

}  // namespace nvdla

#endif
