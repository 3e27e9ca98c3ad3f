#include "memory.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "dmp_dv_host.h"
#include "half.h"
#include "report.h"
#include "vector_loops.h"

namespace dv {
namespace {

constexpr std::size_t kPage = 4096;

std::atomic<int64_t> allocated{0};  // bytes of all memories of the process

constexpr char kLoss[] = ", over which a line of the CPU's cache was written back";

std::string reading(const char *reader, uint64_t offset, uint64_t bytes) {
  return std::string(reader) + " reads bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes);
}

}  // namespace

Memory::Memory(std::shared_ptr<Context> context, std::size_t size) : context_(std::move(context)), size_(size) {
  if (size == 0) throw Error("size = 0: an allocation has at least one byte");
  if (size > SIZE_MAX / 2) throw Error("size = " + std::to_string(size) + ": out of memory");
  // The length is not rounded up to pages where the C library allows it: address sanitizers then see each overrun.
  void *place = nullptr;
  if (posix_memalign(&place, kPage, size) != 0)
    throw Error("size = " + std::to_string(size) + ": out of memory");
  data_ = static_cast<uint8_t *>(place);
  std::memset(data_, 0, size);
  if (context_->check_uninitialized || context_->strict) content_.assign((size + 1) / 2, Content::kNothing);
  if (context_->exact) exact_.assign((size + 1) / 2, 0.0f);
  allocated += static_cast<int64_t>(size);
}

Memory::~Memory() {
  allocated -= static_cast<int64_t>(size_);
  std::free(data_);
}

uint8_t *Memory::map() {
  const std::lock_guard<std::mutex> lock(mutex_);
  mapped_ = true;
  return data_;
}

void Memory::unmap() {
  const std::lock_guard<std::mutex> lock(mutex_);
  mapped_ = false;
}

void Memory::check_mapped() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!mapped_) throw Error("the memory is not mapped");
}

void Memory::end_writing() {
  if (cpu_writes_ && !declares_writes_)
    std::replace(content_.begin(), content_.end(), Content::kNothing, Content::kHalf);
  if (cpu_writes_) was_handed_over_ = true;
  if (cache_ && cpu_writes_) cache_->to_device(0, size_, 0);
  cpu_writes_ = false;
}

void Memory::start_writing(bool reads, bool writes) {
  if (reads && cache_) cache_->to_cpu(0, size_, 0);
  cpu_writes_ = cpu_writes_ || writes;
}

Cache *Memory::cache() {
  if (cache_ || !context_->strict || context_->exact) return cache_.get();
  std::vector<uint8_t> device(size_);
  if (was_handed_over_) std::memcpy(device.data(), data_, size_);
  cache_.reset(new Cache(data_, std::move(device), content_, declares_writes_));
  return cache_.get();
}

void Memory::to_device(uint64_t offset, uint64_t bytes, int flags) {
  check_range(offset, bytes, "to_device");
  if (Cache *lines = cache()) lines->to_device(offset, bytes, flags);
  if ((declares_writes_ && !has_ended_) || flags & DMP_DV_MEM_AS_DEV_OUTPUT || content_.empty()) return;
  const auto is_new = [this](Content content) {
    return content == Content::kNothing || (has_ended_ && content != Content::kMap && content != Content::kLost);
  };
  const Range range = contents(offset, bytes);
  std::replace_if(content_.begin() + static_cast<std::ptrdiff_t>(range.first),
                  content_.begin() + static_cast<std::ptrdiff_t>(range.second), is_new, Content::kHalf);
}

void Memory::to_cpu(uint64_t offset, uint64_t bytes, int flags) {
  check_range(offset, bytes, "to_cpu");
  if (Cache *lines = cache()) lines->to_cpu(offset, bytes, flags);
}

void Memory::begin_use(uint64_t offset, uint64_t bytes, bool writes) {
  if (cache_) cache_->begin(offset, bytes, writes);
}

void Memory::end_use(uint64_t offset, uint64_t bytes, bool writes) {
  if (cache_) cache_->end(offset, bytes, writes);
}

void Memory::before_device(uint64_t offset, uint64_t bytes, const char *what) const {
  if (cache_) cache_->before_device(offset, bytes, what);
}

void Memory::mark_by_device(uint64_t offset, uint64_t bytes, Content content) {
  if (cache_) cache_->after_device(offset, bytes);
  mark(offset, bytes, content);
}

void Memory::check_seen(uint64_t offset, uint64_t bytes, const char *reader) const {
  if (!cache_) return;
  cache_->before_cpu(offset, bytes, reader);
  if (holds(Content::kLost, offset, bytes)) report(reading(reader, offset, bytes) + kLoss);
}

void Memory::begin_execution() {
  declare_own_writes();
  has_ended_ = false;
  if (!content_.empty()) std::memset(content_.data(), static_cast<int>(Content::kNothing), content_.size());
}

Memory::Range Memory::contents(uint64_t offset, uint64_t bytes) const {
  const uint64_t size = 2 * content_.size();
  const uint64_t first = std::min(offset, size), last = std::min(offset + bytes + 1, size);
  return {first / 2, std::max(first, last) / 2};
}

const Content *Memory::find(Content content, const Range &range) const {
  if (range.first == range.second) return nullptr;
  const void *found = std::memchr(content_.data() + range.first, static_cast<int>(content), range.second - range.first);
  return static_cast<const Content *>(found);
}

void Memory::mark(uint64_t offset, uint64_t bytes, Content content) {
  if (bytes == 0 || content_.empty()) return;
  report_outside(offset, bytes, "written");
  const Range range = contents(offset, bytes);
  std::memset(content_.data() + range.first, static_cast<int>(content), range.second - range.first);
}

void Memory::declare_written(uint64_t offset, uint64_t bytes, Content content) {
  if (cache_) cache_->after_cpu(offset, bytes);
  mark(offset, bytes, content);
  for (std::size_t i = offset / 2; i < std::min<uint64_t>(exact_.size(), (offset + bytes) / 2); ++i) {
    uint16_t half;
    std::memcpy(&half, data_ + 2 * i, sizeof(half));
    if (context_->residuals.empty() || narrow(exact_[i]) != half) exact_[i] = widen(half);
  }
}

void Memory::add_residuals(const std::vector<uint8_t> &residuals) {
  constexpr float kUnit = 1.0f / 4096;
  const std::size_t count = std::min(exact_.size(), residuals.size() / 2);
  std::vector<float> rests(count);
  widen_all(residuals.data(), count, rests.data());
  widen_all(data_, count, exact_.data());
  for (std::size_t i = 0; i < count; ++i) exact_[i] += rests[i] * kUnit;
}

bool Memory::holds(Content content, uint64_t offset, uint64_t bytes) const {
  return bytes > 0 && find(content, contents(offset, bytes));
}

void Memory::check_written(uint64_t offset, uint64_t bytes, const char *reader) const {
  if (!context_->check_uninitialized || bytes == 0) return;
  const Content *hole = find(Content::kNothing, contents(offset, bytes));
  if (!hole) return;
  throw Error("use of uninitialized map: " + reading(reader, offset, bytes) + ", but nothing has written byte " +
              std::to_string(2 * (hole - content_.data())) + " in this execution");
}

void Memory::report_outside(uint64_t offset, uint64_t bytes, const char *what) const {
  if (context_->strict && offset + bytes > size_)
    report("bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) + " are " + what +
           ", but the memory has " + std::to_string(size_));
}

void Memory::check_halves(uint64_t offset, uint64_t bytes, const char *reader) const {
  check_written(offset, bytes, reader);
  report_outside(offset, bytes, "read");
  if (!context_->strict) return;
  if (holds(Content::kFloat, offset, bytes)) report(reading(reader, offset, bytes) + " as FP16, but they hold FP32");
  if (holds(Content::kBytes, offset, bytes))
    report(reading(reader, offset, bytes) + " as FP16, but they hold 8-bit values");
  if (holds(Content::kLost, offset, bytes)) report(reading(reader, offset, bytes) + kLoss);
  if (holds(Content::kSpoiled, offset, bytes))
    report(reading(reader, offset, bytes) + ", which a softmax of the runtime has overwritten");
}

void Memory::check_floats(uint64_t offset, uint64_t bytes, const char *reader) const {
  check_written(offset, bytes, reader);
  report_outside(offset, bytes, "read");
  if (!context_->strict) return;
  for (const Content content : {Content::kHalf, Content::kMap, Content::kSpoiled})
    if (holds(content, offset, bytes)) return report(reading(reader, offset, bytes) + " as FP32, but they hold FP16");
  if (holds(Content::kBytes, offset, bytes))
    report(reading(reader, offset, bytes) + " as FP32, but they hold 8-bit values");
}

void Memory::check_range(uint64_t offset, uint64_t bytes, const char *what) const {
  if (offset <= size_ && bytes <= size_ - offset) return;
  const std::string end = bytes < UINT64_MAX - offset ? std::to_string(offset + bytes) : "2^64 or more";
  throw Error(std::string(what) + ": bytes " + std::to_string(offset) + " to " + end + " are outside a memory of " + std::to_string(size_) + " bytes");
}

void Memory::read_from(const uint8_t *data, uint64_t offset, std::size_t count, float *values) const {
  widen_all(data + offset, count, values);
  if (exact_.empty()) return;
  // An unrounded value counts as long as the FP16 memory holds its rounding: a later write there has replaced it.
  const float *exact = exact_.data() + offset / 2;
  const bool is_unrounded = !context_->residuals.empty();
  for (std::size_t i = 0; i < count; ++i)
    if (is_unrounded || bits_of_float(widen(narrow(exact[i]))) == bits_of_float(values[i])) values[i] = exact[i];
}

void Memory::write_to(uint8_t *data, uint64_t offset, std::size_t count, const float *values) {
  narrow_all(values, count, data + offset);
  if (!exact_.empty()) std::copy(values, values + count, exact_.begin() + static_cast<std::ptrdiff_t>(offset / 2));
}

void Memory::copy(uint64_t from, uint64_t to, uint64_t bytes) {
  if (from >= size_ || to >= size_) return;
  bytes = std::min({bytes, size_ - from, size_ - to});
  std::memmove(data_ + to, data_ + from, bytes);
  if (!exact_.empty()) std::memmove(&exact_[to / 2], &exact_[from / 2], bytes / 2 * sizeof(float));
}

Registry<dmp_dv_mem, Memory> &memories() {
  static Registry<dmp_dv_mem, Memory> registry("memory");
  return registry;
}

std::shared_ptr<Memory> memory_at(const uint8_t *address) {
  return memories().find_if([address](Memory &memory) { return memory.data() == address; });
}

}  // namespace dv

using dv::contexts;
using dv::Error;
using dv::guarded;
using dv::memories;

dmp_dv_mem dmp_dv_mem_alloc(dmp_dv_context ctx, size_t size) {
  return guarded(static_cast<dmp_dv_mem>(nullptr),
                 [&] { return memories().add(std::make_shared<dv::Memory>(contexts().get(ctx), size)); });
}

int dmp_dv_mem_retain(dmp_dv_mem mem) {
  return guarded(-1, [&] { return memories().retain(mem); });
}

int dmp_dv_mem_release(dmp_dv_mem mem) {
  return guarded(-1, [&] { return memories().release(mem); });
}

uint8_t *dmp_dv_mem_map(dmp_dv_mem mem) {
  return guarded(static_cast<uint8_t *>(nullptr), [&] { return memories().get(mem)->map(); });
}

void dmp_dv_mem_unmap(dmp_dv_mem mem) {
  guarded(-1, [&] {
    memories().get(mem)->unmap();
    return 0;
  });
}

// A memory that changes sides as a whole is one for both: the calls check their arguments, and what the CPU has written.

int dmp_dv_mem_sync_start(dmp_dv_mem mem, int rd, int wr) {
  return guarded(EINVAL, [&] {
    const auto memory = memories().get(mem);
    memory->check_mapped();
    if (!rd && !wr) throw Error("rd = 0 and wr = 0: the CPU reads, writes, or does both");
    memory->start_writing(rd != 0, wr != 0);
    return 0;
  });
}

int dmp_dv_mem_sync_end(dmp_dv_mem mem) {
  return guarded(-1, [&] {
    memories().get(mem)->end_writing();
    return 0;
  });
}

int dmp_dv_mem_to_device(dmp_dv_mem mem, size_t offs, size_t size, int flags) {
  return guarded(EINVAL, [&] {
    const auto memory = memories().get(mem);
    memory->check_mapped();
    memory->to_device(offs, size, flags);
    return 0;
  });
}

int dmp_dv_mem_to_cpu(dmp_dv_mem mem, size_t offs, size_t size, int flags) {
  return guarded(EINVAL, [&] {
    const auto memory = memories().get(mem);
    memory->check_mapped();
    memory->to_cpu(offs, size, flags);
    return 0;
  });
}

size_t dmp_dv_mem_get_size(dmp_dv_mem mem) {
  return guarded(size_t{0}, [&] { return memories().get(mem)->size(); });
}

int64_t dmp_dv_mem_get_total_size() { return dv::allocated; }

int dmp_dv_host_begin_execution(dmp_dv_mem mem) {
  return guarded(-1, [&] {
    memories().get(mem)->begin_execution();
    return 0;
  });
}

int dmp_dv_host_declare_written(dmp_dv_mem mem, uint64_t offs, uint64_t size) {
  return guarded(-1, [&] {
    const auto memory = memories().get(mem);
    memory->check_range(offs, size, "declare_written");
    memory->declare_own_writes();
    memory->declare_written(offs, size);
    return 0;
  });
}

int dmp_dv_host_check_written(dmp_dv_mem mem, uint64_t offs, uint64_t size) {
  return guarded(-1, [&] {
    const auto memory = memories().get(mem);
    memory->check_range(offs, size, "check_written");
    memory->check_written(offs, size, "the CPU");
    return 0;
  });
}

// The size of halves; the largest number of bytes, which no memory has, when they have more.
static uint64_t bytes_of(uint64_t halves) { return halves <= UINT64_MAX / 2 ? 2 * halves : UINT64_MAX; }

int dmp_dv_host_read(dmp_dv_mem mem, uint64_t offs, uint64_t count, float *values) {
  return guarded(-1, [&] {
    const auto memory = memories().get(mem);
    if (offs % 2 != 0) throw Error("read: offs = " + std::to_string(offs) + " is odd");
    memory->check_range(offs, bytes_of(count), "read");
    memory->check_halves(offs, 2 * count, "the CPU");
    memory->read(offs, count, values);
    return 0;
  });
}

int dmp_dv_host_write(dmp_dv_mem mem, uint64_t offs, uint64_t count, const float *values) {
  return guarded(-1, [&] {
    const auto memory = memories().get(mem);
    if (offs % 2 != 0) throw Error("write: offs = " + std::to_string(offs) + " is odd");
    memory->check_range(offs, bytes_of(count), "write");
    memory->declare_own_writes();
    memory->write(offs, count, values);
    memory->mark(offs, 2 * count, dv::Content::kHalf);
    return 0;
  });
}
