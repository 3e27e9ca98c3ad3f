#include "cache.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "dmp_dv.h"
#include "report.h"

namespace dv {
namespace {

// What the CPU sees in place of a line that the device has written: as FP16 and as FP32, these are NaN.
constexpr uint8_t kStale = 0xFF;

std::string bytes_of(std::size_t offset, std::size_t bytes) {
  return "bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes);
}

}  // namespace

Cache::Cache(uint8_t *seen, std::vector<uint8_t> device, std::vector<Content> &content, const bool &declares)
    : seen_(seen), device_(std::move(device)), content_(content), declares_(declares), lines_((device_.size() + kLine - 1) / kLine) {}

std::size_t Cache::size_of(std::size_t line) const { return std::min(kLine, device_.size() - begin_of(line)); }

template <class Function>
void Cache::each_line(std::size_t offset, std::size_t bytes, const Function &function) const {
  if (bytes == 0) return;
  const std::size_t end = std::min(lines_.size(), (offset + bytes + kLine - 1) / kLine);
  for (std::size_t line = offset / kLine; line < end; ++line) function(line);
}

bool Cache::is_dirty(std::size_t line) const {
  const uint8_t *const seen = seen_ + begin_of(line);
  if (!lines_[line].stale) return std::memcmp(seen, device_.data() + begin_of(line), size_of(line)) != 0;
  return std::any_of(seen, seen + size_of(line), [](uint8_t byte) { return byte != kStale; });
}

bool Cache::holds_result(std::size_t line, std::size_t offset, std::size_t bytes) const {
  const std::size_t begin = std::max(begin_of(line), offset) / 2;
  const std::size_t end = std::min({content_.size(), (begin_of(line) + kLine) / 2, (offset + bytes + 1) / 2});
  for (std::size_t i = begin; i < end; ++i)
    if (content_[i] == Content::kMap) return true;
  return false;
}

void Cache::clean(std::size_t line) {
  if (!is_dirty(line)) return;
  const std::size_t begin = begin_of(line);
  if (lines_[line].stale && declares_) {  // what the device has written there, and the CPU has not, is lost
    const std::size_t end = std::min(content_.size(), (begin + size_of(line) + 1) / 2);
    for (std::size_t i = begin / 2; i < end; ++i)
      if (content_[i] == Content::kMap) content_[i] = Content::kLost;
  }
  std::memcpy(device_.data() + begin, seen_ + begin, size_of(line));
  lines_[line].stale = false;
}

void Cache::invalidate(std::size_t line) {
  std::memcpy(seen_ + begin_of(line), device_.data() + begin_of(line), size_of(line));
  lines_[line].stale = false;
}

void Cache::to_device(std::size_t offset, std::size_t bytes, int flags) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bool is_used = false;
  each_line(offset, bytes, [&](std::size_t line) {
    is_used = is_used || (lines_[line].writers > 0 && is_dirty(line));
    clean(line);
    lines_[line].gone = flags & DMP_DV_MEM_CPU_WONT_READ;
  });
  if (is_used) report("dmp_dv_mem_to_device writes lines of the CPU's cache over what the device writes meanwhile: " + bytes_of(offset, bytes));
  if (flags & DMP_DV_MEM_AS_DEV_OUTPUT && !content_.empty())
    std::fill(content_.begin() + static_cast<std::ptrdiff_t>((offset + 1) / 2),
              content_.begin() + static_cast<std::ptrdiff_t>(std::max((offset + 1) / 2, (offset + bytes) / 2)), Content::kNothing);
}

void Cache::to_cpu(std::size_t offset, std::size_t bytes, int flags) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bool is_used = false, is_kept = false;
  each_line(offset, bytes, [&](std::size_t line) {
    is_used = is_used || lines_[line].writers > 0;
    if (flags & DMP_DV_MEM_CPU_HADNT_READ) {
      is_kept = is_kept || !lines_[line].gone;
    } else {
      clean(line);
      invalidate(line);
    }
    lines_[line].gone = false;
  });
  if (is_used) report("dmp_dv_mem_to_cpu takes what the device may still write: " + bytes_of(offset, bytes));
  if (is_kept)
    report("DMP_DV_MEM_CPU_HADNT_READ for what was not handed over with DMP_DV_MEM_CPU_WONT_READ: " + bytes_of(offset, bytes));
}

void Cache::begin(std::size_t offset, std::size_t bytes, bool writes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  each_line(offset, bytes, [&](std::size_t line) { ++(writes ? lines_[line].writers : lines_[line].readers); });
}

void Cache::end(std::size_t offset, std::size_t bytes, bool writes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  each_line(offset, bytes, [&](std::size_t line) { --(writes ? lines_[line].writers : lines_[line].readers); });
}

void Cache::before_device(std::size_t offset, std::size_t bytes, const char *what) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  bool is_dirty_there = false;
  each_line(offset, bytes, [&](std::size_t line) { is_dirty_there = is_dirty_there || is_dirty(line); });
  if (is_dirty_there)
    report(std::string(what) + " is at " + bytes_of(offset, bytes) +
           ", where the CPU's cache has what memory lacks: dmp_dv_mem_to_device is missing");
}

void Cache::after_device(std::size_t offset, std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bool is_dirty_there = false;
  each_line(offset, bytes, [&](std::size_t line) {
    // before_device has seen to it that the line was clean: the CPU must have changed it meanwhile.
    const uint8_t *const seen = seen_ + begin_of(line);
    if (lines_[line].stale) is_dirty_there = is_dirty_there || is_dirty(line);
    if (lines_[line].gone) {
      invalidate(line);
    } else {
      std::memset(const_cast<uint8_t *>(seen), kStale, size_of(line));
      lines_[line].stale = true;
    }
  });
  if (is_dirty_there) report("the CPU writes lines that the device writes: " + bytes_of(offset, bytes));
}

void Cache::before_cpu(std::size_t offset, std::size_t bytes, const char *reader) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  bool is_stale = false, is_gone = false, is_used = false;
  each_line(offset, bytes, [&](std::size_t line) {
    is_stale = is_stale || (lines_[line].stale && holds_result(line, offset, bytes));
    is_gone = is_gone || lines_[line].gone;
    is_used = is_used || lines_[line].writers > 0;
  });
  const std::string what = std::string(reader) + " reads " + bytes_of(offset, bytes) + ", ";
  if (is_used) report(what + "which the device may still write: dmp_dv_cmdlist_wait is missing");
  if (is_stale) report(what + "which the device has written: dmp_dv_mem_to_cpu is missing");
  if (is_gone) report(what + "which were handed over with DMP_DV_MEM_CPU_WONT_READ");
}

void Cache::after_cpu(std::size_t offset, std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bool is_used = false;
  each_line(offset, bytes, [&](std::size_t line) {
    is_used = is_used || lines_[line].writers > 0 || lines_[line].readers > 0;
    lines_[line].gone = false;
  });
  if (is_used) report("the CPU writes lines that the device uses meanwhile: " + bytes_of(offset, bytes));
}

}  // namespace dv
