// The CPU's cache over a memory that changes sides by ranges (dmp_dv_mem_to_device, dmp_dv_mem_to_cpu).
//
// The device has bytes of its own. Those that the CPU writes reach them when a call cleans their line; those that the device writes
// reach the CPU when a call invalidates theirs. Until then the CPU sees bytes that nothing means, in place of old ones: so a missing
// call shows in the results, and is reported where it is known what a layer reads. A line that the CPU has changed is one whose
// bytes differ. A processor may write such a line back at any time; here it happens at the next call.
#ifndef DV_CACHE_H
#define DV_CACHE_H

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "content.h"

namespace dv {

class Cache {
 public:
  static constexpr std::size_t kLine = 64;  // bytes, on 64-bit Arm

  // seen: the memory as the CPU has it. device: the bytes that the device has at first. content: of two bytes each. declares:
  // whether what the CPU writes is declared, so that the content shows it.
  Cache(uint8_t *seen, std::vector<uint8_t> device, std::vector<Content> &content, const bool &declares);

  uint8_t *device() { return device_.data(); }
  const uint8_t *device() const { return device_.data(); }

  // The calls of the CPU. The range is inside the memory.
  void to_device(std::size_t offset, std::size_t bytes, int flags);
  void to_cpu(std::size_t offset, std::size_t bytes, int flags);

  // An execution that reads or writes a range begins, or has been waited for.
  void begin(std::size_t offset, std::size_t bytes, bool writes);
  void end(std::size_t offset, std::size_t bytes, bool writes);

  // The device is about to read or write a range, or has written it.
  void before_device(std::size_t offset, std::size_t bytes, const char *what) const;
  void after_device(std::size_t offset, std::size_t bytes);

  // The CPU is about to read a range, or has written it. Each reports what it must not do.
  void before_cpu(std::size_t offset, std::size_t bytes, const char *reader) const;
  void after_cpu(std::size_t offset, std::size_t bytes);

 private:
  struct Line {
    bool stale = false;   // the device has written it since the CPU took it
    bool gone = false;    // handed over with CPU_WONT_READ
    uint8_t readers = 0, writers = 0;  // executions that use it
  };

  template <class Function>
  void each_line(std::size_t offset, std::size_t bytes, const Function &function) const;
  std::size_t begin_of(std::size_t line) const { return line * kLine; }
  std::size_t size_of(std::size_t line) const;
  bool is_dirty(std::size_t line) const;
  // Whether the part of a range in a line has something that the device has written.
  bool holds_result(std::size_t line, std::size_t offset, std::size_t bytes) const;
  void clean(std::size_t line);
  void invalidate(std::size_t line);

  mutable std::mutex mutex_;  // both sides may read a map at the same time
  uint8_t *seen_;
  std::vector<uint8_t> device_;
  std::vector<Content> &content_;
  const bool &declares_;
  std::vector<Line> lines_;
};

}  // namespace dv

#endif
