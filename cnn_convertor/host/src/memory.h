// Device memory: bytes that CPU and device share, what they hold, and unrounded values beside them in exact mode.
#ifndef DV_MEMORY_H
#define DV_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cache.h"
#include "content.h"
#include "context.h"

namespace dv {

class Memory {
 public:
  Memory(std::shared_ptr<Context> context, std::size_t size);
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  // The bytes as the CPU sees them, and as the device does: the same ones, until the memory changes sides by ranges.
  uint8_t *data() { return data_; }
  const uint8_t *data() const { return data_; }
  uint8_t *device_data() { return cache_ ? cache_->device() : data_; }
  const uint8_t *device_data() const { return cache_ ? cache_->device() : data_; }
  std::size_t size() const { return size_; }
  const Context &context() const { return *context_; }

  uint8_t *map();
  void unmap();
  // Throws when the CPU has no address of the memory.
  void check_mapped();
  // The CPU may write from start_writing to the device's turn. Then all that it may have written counts as written, unless
  // someone else says what is: a network, or the application (declare_own_writes).
  void start_writing(bool reads, bool writes);
  void end_writing();
  void declare_own_writes() { declares_writes_ = true; }

  void begin_execution();
  // Until the next one begins, the CPU declares no writes: memory that it hands over counts as FP16, unless it is lost.
  void end_execution() { has_ended_ = true; }
  // Bytes that the CPU wrote.
  void declare_written(uint64_t offset, uint64_t bytes, Content content = Content::kHalf);

  // Each check is done if the environment asks for it; the range may leave the memory. reader: for the message.
  // Throws when the range holds bytes that nothing has written.
  void check_written(uint64_t offset, uint64_t bytes, const char *reader) const;
  // Throws as check_written does, and reports content that is not FP16.
  void check_halves(uint64_t offset, uint64_t bytes, const char *reader) const;
  // Throws as check_written does, and reports content that is not FP32.
  void check_floats(uint64_t offset, uint64_t bytes, const char *reader) const;
  bool holds(Content content, uint64_t offset, uint64_t bytes) const;

  // FP16 elements as FP32 values, from an even offset, for the CPU or for the device. The caller has checked the range.
  void read(uint64_t offset, std::size_t count, float *values) const { read_from(data_, offset, count, values); }
  void read_by_device(uint64_t offset, std::size_t count, float *values) const { read_from(device_data(), offset, count, values); }
  // FP32 values to FP16 elements; with an unrounded copy in exact mode.
  void write(uint64_t offset, std::size_t count, const float *values) { write_to(data_, offset, count, values); }
  void write_by_device(uint64_t offset, std::size_t count, const float *values) { write_to(device_data(), offset, count, values); }

  // Changes of sides. In strict mode the first one gives the memory a cache, but not in exact mode.
  void to_device(uint64_t offset, uint64_t bytes, int flags);
  void to_cpu(uint64_t offset, uint64_t bytes, int flags);
  void begin_use(uint64_t offset, uint64_t bytes, bool writes);
  void end_use(uint64_t offset, uint64_t bytes, bool writes);
  // The device is about to use a range; what names it. It has written a range, which holds this content now.
  void before_device(uint64_t offset, uint64_t bytes, const char *what) const;
  void mark_by_device(uint64_t offset, uint64_t bytes, Content content);
  // Reports what the CPU must not read, or cannot: bytes that are the device's, or lost.
  void check_seen(uint64_t offset, uint64_t bytes, const char *reader) const;
  // Marks what write() wrote. Apart, because write() is called from several threads.
  void mark(uint64_t offset, uint64_t bytes, Content content);
  // Undoes the rounding of each FP16 number: adds what rounding took from it, which is given times 2^12, as FP16 at the same place.
  void add_residuals(const std::vector<uint8_t> &residuals);
  // Copies bytes, and their unrounded values. Parts outside of the memory are left out.
  void copy(uint64_t from, uint64_t to, uint64_t bytes);

  // Throws when the range is not inside the memory; what names the user.
  void check_range(uint64_t offset, uint64_t bytes, const char *what) const;

 private:
  using Range = std::pair<std::size_t, std::size_t>;

  // The places of a range of bytes in content_, as far as they are inside the memory.
  Range contents(uint64_t offset, uint64_t bytes) const;
  // The first place with that content; null when there is none.
  const Content *find(Content content, const Range &range) const;
  void read_from(const uint8_t *data, uint64_t offset, std::size_t count, float *values) const;
  void write_to(uint8_t *data, uint64_t offset, std::size_t count, const float *values);
  Cache *cache();
  void report_outside(uint64_t offset, uint64_t bytes, const char *what) const;

  std::shared_ptr<Context> context_;
  std::size_t size_;
  uint8_t *data_;
  std::mutex mutex_;
  bool mapped_ = false, cpu_writes_ = false, declares_writes_ = false, was_handed_over_ = false, has_ended_ = false;
  std::unique_ptr<Cache> cache_;  // once the memory has changed sides by ranges
  std::vector<Content> content_;  // of two bytes each; empty unless it is checked
  std::vector<float> exact_;      // one value for two bytes; empty unless in exact mode
};

Registry<dmp_dv_mem, Memory> &memories();

// The memory that starts at an address; null when there is none.
std::shared_ptr<Memory> memory_at(const uint8_t *address);

}  // namespace dv

#endif
