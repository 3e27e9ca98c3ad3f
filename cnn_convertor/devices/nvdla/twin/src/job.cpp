#include "job.h"

#include <algorithm>
#include <cstdio>

namespace nvdla {
namespace {

// 64-bit little-endian numbers, and bytes after their number.
class Reader {
 public:
  explicit Reader(const char *path) : file_(std::fopen(path, "rb")) {}
  ~Reader() {
    if (file_) std::fclose(file_);
  }

  uint64_t number() {
    uint64_t value = 0;
    take(&value, sizeof value);
    return value;
  }
  std::vector<uint8_t> bytes() {
    std::vector<uint8_t> contents(number());
    take(contents.data(), contents.size());
    return contents;
  }

 private:
  void take(void *to, std::size_t size) {
    if (!file_ || (size && std::fread(to, 1, size, file_) != size)) throw Refusal("the job ends too early");
  }

  std::FILE *file_;
};

Configuration read_configuration(Reader &reader) {
  Configuration c;
  const std::vector<uint8_t> name = reader.bytes();
  c.name.assign(name.begin(), name.end());
  for (bool *flag : {&c.initial, &c.y, &c.lut, &c.post_extension}) *flag = reader.number();
  for (uint32_t *value : {&c.atom_bytes, &c.atomic_c, &c.atomic_k[0], &c.atomic_k[1], &c.atomic_k[2], &c.cbuf_banks,
                          &c.cbuf_entry_bytes, &c.cbuf_entries, &c.address_bits})
    *value = static_cast<uint32_t>(reader.number());
  c.bases.resize(reader.number());
  for (int64_t &base : c.bases) base = static_cast<int64_t>(reader.number());
  return c;
}

}  // namespace

Job read_job(const char *path) {
  Reader reader(path);
  Job job;
  job.threads = static_cast<int>(reader.number());
  job.exact = reader.number();
  job.configuration = read_configuration(reader);
  job.memory.resize(reader.number());
  for (InitialMemory &memory : job.memory) {
    memory.address = reader.number();
    memory.size = reader.number();
    for (uint64_t offset = reader.number(); offset < memory.size; offset = reader.number())
      memory.blocks.emplace_back(offset, reader.bytes());
  }
  job.accesses.resize(reader.number());
  for (Access &access : job.accesses) {
    access.kind = reader.number();
    access.address = static_cast<uint32_t>(reader.number());
    access.value = static_cast<uint32_t>(reader.number());
  }
  return job;
}

void add_memory(Device &device, const InitialMemory &memory) {
  device.add_memory(memory.address, memory.size);
  for (const auto &block : memory.blocks)
    std::copy(block.second.begin(), block.second.end(), device.memory(memory.address) + block.first);
}

}  // namespace nvdla
