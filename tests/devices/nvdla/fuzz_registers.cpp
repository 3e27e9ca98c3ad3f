// Damages the register accesses of jobs at random and plays them: fuzz_registers SEED COUNT JOB...
//
// Prints how many sequences ended, and how many were refused. A refusal that names no block of registers ends it with status 1.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "job.h"
#include "register_table.h"

namespace {

using nvdla::Access;

struct Damage {
  std::mt19937_64 random;
  const nvdla::Job &job;

  uint64_t below(uint64_t limit) { return random() % limit; }

  uint32_t value() {
    switch (below(5)) {
      case 0: return 0;
      case 1: return static_cast<uint32_t>(below(64));
      case 2: return 1u << below(32);
      case 3: return 0xffffffffu >> below(32);
      default: return static_cast<uint32_t>(random());
    }
  }

  uint32_t address() {
    const nvdla::Register &row = nvdla::kRegisters[below(sizeof nvdla::kRegisters / sizeof nvdla::kRegisters[0])];
    const int64_t base = job.configuration.bases[row.block];
    return below(16) && base >= 0 ? static_cast<uint32_t>(base) + row.offset : static_cast<uint32_t>(below(0x13000));
  }

  void once(std::vector<Access> &accesses) {
    const std::size_t at = below(accesses.size());
    switch (below(7)) {
      case 0: accesses[at].value ^= 1u << below(32); break;
      case 1: accesses[at].value = value(); break;
      case 2: accesses[at].value += static_cast<uint32_t>(below(5)) - 2; break;
      case 3: accesses.erase(accesses.begin() + static_cast<std::ptrdiff_t>(at)); break;
      case 4: accesses.insert(accesses.begin() + static_cast<std::ptrdiff_t>(at), accesses[below(accesses.size())]); break;
      case 5: std::swap(accesses[at], accesses[below(accesses.size())]); break;
      default: accesses.insert(accesses.begin() + static_cast<std::ptrdiff_t>(at), {below(3), address(), value()});
    }
  }
};

bool names_a_block(const std::string &refusal) {
  if (refusal.rfind("CSB: ", 0) == 0 || refusal.rfind("memory: ", 0) == 0) return true;
  for (const char *block : nvdla::kBlockNames) {
    const std::string name = block;
    if (refusal.rfind(name + ".", 0) == 0 || refusal.rfind(name + ": ", 0) == 0) return true;
  }
  return false;
}

// What is refused, or nothing.
std::string play(const nvdla::Job &job, const std::vector<Access> &accesses, int threads) {
  nvdla::Device device(job.configuration, threads);
  try {
    for (const nvdla::InitialMemory &memory : job.memory) nvdla::add_memory(device, memory);
    for (const Access &access : accesses) {
      if (access.kind == nvdla::kWrite)
        device.write(access.address, access.value);
      else if (access.kind == nvdla::kRead)
        device.read(access.address);
      else
        device.wait(access.value);
    }
  } catch (const nvdla::Refusal &refusal) {
    return refusal.what();
  }
  return "";
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const uint64_t seed = std::strtoull(argv[1], nullptr, 10), count = std::strtoull(argv[2], nullptr, 10);
  std::vector<nvdla::Job> jobs;
  for (int i = 3; i < argc; ++i) jobs.push_back(nvdla::read_job(argv[i]));
  uint64_t ended = 0, refused = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const nvdla::Job &job = jobs[i % jobs.size()];
    Damage damage{std::mt19937_64(seed * 1000003 + i), job};
    std::vector<Access> accesses = job.accesses;
    for (uint64_t times = 1 + damage.below(4); times && !accesses.empty(); --times) damage.once(accesses);
    const std::string refusal = play(job, accesses, 1 + static_cast<int>(damage.below(2)));
    ++(refusal.empty() ? ended : refused);
    if (!refusal.empty() && !names_a_block(refusal)) {
      std::printf("sequence %llu: \"%s\" names no block\n", static_cast<unsigned long long>(i), refusal.c_str());
      return 1;
    }
  }
  std::printf("%llu ended, %llu refused\n", static_cast<unsigned long long>(ended), static_cast<unsigned long long>(refused));
  return 0;
}
