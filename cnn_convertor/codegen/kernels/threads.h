// Threads that share the work of a function.
#ifndef CPU_FUNCTIONS_THREADS_H
#define CPU_FUNCTIONS_THREADS_H

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace cpu_functions {

// The calling thread and others, which sleep between two calls of Run. One call at a time.
class Threads {
 public:
  // count: of threads; 0: as many as there are cores. Fewer if the system has no more.
  explicit Threads(unsigned count) {
    const unsigned all = count > 0 ? count : std::max(1u, std::thread::hardware_concurrency());
    others_.reserve(all - 1);
    try {
      while (Count() < all) others_.emplace_back([this] { Serve(); });
    } catch (const std::system_error &) {
    }
  }

  Threads(const Threads &) = delete;
  Threads &operator=(const Threads &) = delete;

  ~Threads() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_over_ = true;
    }
    wake_.notify_all();
    for (std::thread &other : others_) other.join();
  }

  std::size_t Count() const { return others_.size() + 1; }

  // Calls work(0) to work(parts - 1), each once, and returns when all are done. Throws an exception of one of them.
  void Run(std::size_t parts, const std::function<void(std::size_t)> &work) {
    std::unique_lock<std::mutex> lock(mutex_);
    work_ = &work;
    next_ = 0;
    parts_ = running_ = parts;
    failure_ = nullptr;
    wake_.notify_all();
    Work(lock);
    done_.wait(lock, [this] { return running_ == 0; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void Serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!is_over_) {
      Work(lock);
      wake_.wait(lock, [this] { return is_over_ || next_ < parts_; });
    }
  }

  // Takes parts as long as there are any. The lock is held before and after.
  void Work(std::unique_lock<std::mutex> &lock) {
    while (next_ < parts_) {
      const std::size_t part = next_++;
      std::exception_ptr failure;
      lock.unlock();
      try {
        (*work_)(part);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure && !failure_) failure_ = failure;
      if (--running_ == 0) done_.notify_all();
    }
  }

  std::vector<std::thread> others_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, done_;
  const std::function<void(std::size_t)> *work_ = nullptr;
  std::size_t parts_ = 0, next_ = 0, running_ = 0;
  std::exception_ptr failure_;
  bool is_over_ = false;
};

// One copy of a function's code for any number of threads, so that the bits are the same.
template <class F>
__attribute__((noinline)) void WorkOn(const F &f, std::size_t first, std::size_t last) {
  f(first, last);
}

// So many elements take longer than to wake a thread.
const std::size_t kWorthAThread = 16384;

// Calls f(first, last) for parts of 0 to count: on several threads, if there are any and if the work is worth it. elements: that
// are read or written for one of count. The parts must not depend on each other.
template <class F>
void Share(Threads *threads, std::size_t count, std::size_t elements, const F &f) {
  const std::size_t most = threads && threads->Count() > 1 ? 4 * threads->Count() : 1;  // some threads may be slower than others
  const std::size_t parts = std::min(most, std::min(count, count * elements / kWorthAThread));
  if (parts < 2) {
    WorkOn(f, 0, count);
    return;
  }
  const std::size_t each = count / parts, longer = count % parts;
  threads->Run(parts, [&](std::size_t part) {
    const std::size_t first = part * each + std::min(part, longer);
    WorkOn(f, first, first + each + (part < longer ? 1 : 0));
  });
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_THREADS_H
