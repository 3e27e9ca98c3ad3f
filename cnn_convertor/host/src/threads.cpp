#include "threads.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace dv {
namespace {

class Workers {
 public:
  explicit Workers(int threads) {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { serve(); });
  }

  ~Workers() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread &worker : workers_) worker.join();
  }

  void run(std::size_t tasks, const std::function<void(std::size_t)> &body) {
    const std::lock_guard<std::mutex> one_at_a_time(run_mutex_);
    std::unique_lock<std::mutex> lock(mutex_);
    body_ = &body;
    tasks_ = tasks;
    next_ = 0;
    pending_ = tasks;
    failed_task_ = tasks;
    failure_ = nullptr;
    wake_.notify_all();
    work(lock);
    done_.wait(lock, [this] { return pending_ == 0; });
    body_ = nullptr;
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return stop_ || next_ < tasks_; });
      if (stop_) return;
      work(lock);
    }
  }

  // Takes tasks as long as there are any. The lock is held on entry and on return.
  void work(std::unique_lock<std::mutex> &lock) {
    while (next_ < tasks_) {
      const std::size_t task = next_++;
      const std::function<void(std::size_t)> &body = *body_;
      lock.unlock();
      std::exception_ptr failure;
      try {
        body(task);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure && task < failed_task_) {
        failed_task_ = task;
        failure_ = failure;
      }
      if (--pending_ == 0) done_.notify_all();
    }
  }

  std::vector<std::thread> workers_;
  std::mutex run_mutex_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, done_;
  const std::function<void(std::size_t)> *body_ = nullptr;
  std::size_t tasks_ = 0, next_ = 0, pending_ = 0, failed_task_ = 0;
  std::exception_ptr failure_;
  bool stop_ = false;
};

}  // namespace

int thread_count() {
  static const int count = [] {
    const char *text = std::getenv("DMP_DV_THREADS");
    const int asked = text ? std::atoi(text) : 0;
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    return std::min(std::max(asked > 0 ? asked : cores, 1), 256);
  }();
  return count;
}

void parallel_for(std::size_t tasks, const std::function<void(std::size_t)> &body) {
  if (tasks == 0) return;
  if (tasks == 1 || thread_count() == 1) {
    for (std::size_t task = 0; task < tasks; ++task) body(task);
    return;
  }
  static Workers workers(thread_count());
  workers.run(tasks, body);
}

}  // namespace dv
