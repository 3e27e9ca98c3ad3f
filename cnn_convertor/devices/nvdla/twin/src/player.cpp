// Plays register accesses on a twin: player JOB RESULT. Both are files of 64-bit little-endian numbers, texts and contents of memory,
// in the order in which this file reads and writes them; playing.py is the other side.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "nvdla_twin.h"

namespace {

enum Kind : uint64_t { kWrite, kRead, kWait };

class Job {
 public:
  explicit Job(const char *path) : file_(std::fopen(path, "rb")) {}
  ~Job() {
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
    if (!file_ || std::fread(to, 1, size, file_) != size) throw nvdla::Refusal("the job ends too early");
  }

  std::FILE *file_;
};

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
    if (!file_ || std::fwrite(from, 1, size, file_) != size) throw nvdla::Refusal("the result cannot be written");
  }

  std::FILE *file_;
};

nvdla::Configuration read_configuration(Job &job) {
  nvdla::Configuration configuration;
  const std::vector<uint8_t> name = job.bytes();
  configuration.name.assign(name.begin(), name.end());
  for (bool *flag : {&configuration.initial, &configuration.y, &configuration.lut, &configuration.post_extension})
    *flag = job.number();
  for (uint32_t *value : {&configuration.atom_bytes, &configuration.atomic_c, &configuration.atomic_k[0], &configuration.atomic_k[1],
                          &configuration.atomic_k[2], &configuration.cbuf_banks, &configuration.cbuf_entry_bytes,
                          &configuration.cbuf_entries, &configuration.address_bits})
    *value = static_cast<uint32_t>(job.number());
  configuration.bases.resize(job.number());
  for (int64_t &base : configuration.bases) base = static_cast<int64_t>(job.number());
  return configuration;
}

struct Access {
  uint64_t kind, address, value;
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

void play(Job &job, Result &result) {
  const int threads = static_cast<int>(job.number());
  nvdla::Device device(read_configuration(job), threads);
  std::vector<uint64_t> addresses(job.number());
  std::vector<uint32_t> reads;
  uint64_t done = 0;
  std::string refused;
  try {
    for (uint64_t &address : addresses) {
      address = job.number();
      device.add_memory(address, job.bytes());
    }
    for (uint64_t count = job.number(); done < count; ++done) {
      Access access;
      access.kind = job.number();
      access.address = job.number();
      access.value = job.number();
      const uint32_t at = static_cast<uint32_t>(access.address), value = static_cast<uint32_t>(access.value);
      if (access.kind == kWrite)
        device.write(at, value);
      else if (access.kind == kRead)
        reads.push_back(device.read(at));
      else
        device.wait(value);
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
  for (const uint64_t address : addresses)
    if (refused.empty() || refused.rfind("memory: 0x", 0) != 0) {
      const std::vector<uint8_t> &contents = device.memory(address);
      result.bytes(contents.data(), contents.size());
    }
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  Job job(argv[1]);
  Result result(argv[2]);
  play(job, result);
  return 0;
}
