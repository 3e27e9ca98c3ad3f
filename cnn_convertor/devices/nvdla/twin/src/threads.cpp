#include "threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace nvdla {

void parallel(int threads, std::size_t tasks, const std::function<void(std::size_t)> &body) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex guard;
  const auto work = [&] {
    for (std::size_t task = next++; task < tasks; task = next++) {
      try {
        body(task);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(guard);
        failure = std::current_exception();
      }
    }
  };
  std::vector<std::thread> others;
  const std::size_t count = std::min<std::size_t>(threads, tasks);
  for (std::size_t i = 1; i < count; ++i) others.emplace_back(work);
  work();
  for (std::thread &other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace nvdla
