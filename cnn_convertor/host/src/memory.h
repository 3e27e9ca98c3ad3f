// Device memory: bytes that CPU and device share, what counts as written, and FP32 values beside them in exact mode.
#ifndef DV_MEMORY_H
#define DV_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "context.h"

namespace dv {

class Memory {
 public:
  Memory(std::shared_ptr<Context> context, std::size_t size);
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  uint8_t *data() { return data_; }
  std::size_t size() const { return size_; }
  const Context &context() const { return *context_; }

  uint8_t *map();
  void unmap();
  void sync_start();
  void sync_end();

  void begin_execution();
  // Bytes that the CPU wrote.
  void declare_written(uint64_t offset, uint64_t bytes);
  // Throws when a byte of the range counts as not written; what names the reader. Does nothing unless asked for.
  void check_written(uint64_t offset, uint64_t bytes, const char *what) const;

  // FP16 elements as FP32 values, from an even offset. The caller has checked the range.
  void read(uint64_t offset, std::size_t count, float *values) const;
  // FP32 values to FP16 elements; with an unrounded copy in exact mode.
  void write(uint64_t offset, std::size_t count, const float *values);
  // Marks what write() wrote. Apart, because write() is called from several threads.
  void mark_written(uint64_t offset, uint64_t bytes);

  // Throws when the range is not inside the memory; what names the user.
  void check_range(uint64_t offset, uint64_t bytes, const char *what) const;

 private:
  std::shared_ptr<Context> context_;
  std::size_t size_;
  uint8_t *data_;
  std::mutex mutex_;
  int maps_ = 0;
  bool syncing_ = false;
  std::vector<uint8_t> written_;  // one flag for two bytes; empty unless it is checked
  std::vector<float> exact_;      // one value for two bytes; empty unless in exact mode
};

Registry<dmp_dv_mem, Memory> &memories();

}  // namespace dv

#endif
