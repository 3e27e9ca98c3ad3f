// Plays register accesses on a twin: player JOB RESULT. The result is a file of 64-bit little-endian numbers, texts and contents of
// memory, in the order in which this file writes them; playing.py is the other side.
#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "job.h"

namespace {

class Result {
 public:
  explicit Result(const char *path) : file_(std::fopen(path, "wb")) {}
  ~Result() {
    if (file_) std::fclose(file_);
  }

  void number(uint64_t value) { put(&value, sizeof value); }
  void bytes(const void *from, std::size_t size) {
    number(size);
    put(from, size);
  }
  void text(const std::string &value) { bytes(value.data(), value.size()); }

 private:
  void put(const void *from, std::size_t size) {
    if (!file_ || (size && std::fwrite(from, 1, size, file_) != size)) throw nvdla::Refusal("the result cannot be written");
  }

  std::FILE *file_;
};

void write_operation(Result &result, const nvdla::Operation &operation) {
  result.text(operation.engine);
  result.number(static_cast<uint64_t>(operation.group));
  result.number(operation.enabled);
  result.number(operation.started);
  result.text(operation.waited_for);
  result.number(operation.mac_cycles);
  result.number(operation.traffic.size());
  for (const nvdla::Traffic &traffic : operation.traffic) {
    result.text(traffic.port);
    result.number(traffic.bytes);
  }
}

// The blocks that are not zero, each after its offset; then the size.
void write_memory(Result &result, const uint8_t *bytes, uint64_t size) {
  constexpr uint64_t kBlock = 1 << 16;
  for (uint64_t offset = 0; offset < size; offset += kBlock) {
    const uint64_t count = std::min(kBlock, size - offset);
    if (std::all_of(bytes + offset, bytes + offset + count, [](uint8_t byte) { return byte == 0; })) continue;
    result.number(offset);
    result.bytes(bytes + offset, count);
  }
  result.number(size);
}

void play(const char *path, Result &result) {
  const nvdla::Job job = nvdla::read_job(path);
  nvdla::Device device(job.configuration, job.threads, job.exact);
  std::vector<uint32_t> reads;
  std::size_t placed = 0;
  uint64_t done = 0;
  std::string refused;
  try {
    for (; placed < job.memory.size(); ++placed) nvdla::add_memory(device, job.memory[placed]);
    for (; done < job.accesses.size(); ++done) {
      const nvdla::Access &access = job.accesses[done];
      if (access.kind == nvdla::kWrite)
        device.write(access.address, access.value);
      else if (access.kind == nvdla::kRead)
        reads.push_back(device.read(access.address));
      else
        device.wait(access.value);
    }
  } catch (const nvdla::Refusal &refusal) {
    refused = refusal.what();
  } catch (const std::bad_alloc &) {
    refused = "memory: the operation needs more memory than this process may have";
  }
  result.text(refused);
  result.number(done);
  result.bytes(reads.data(), reads.size() * sizeof reads[0]);
  result.number(device.operations().size());
  for (const nvdla::Operation &operation : device.operations()) write_operation(result, operation);
  result.number(placed);
  for (std::size_t i = 0; i < placed; ++i)
    write_memory(result, device.memory(job.memory[i].address), job.memory[i].size);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  Result result(argv[2]);
  play(argv[1], result);
  return 0;
}
