// Spreads independent tasks over threads.
#ifndef NVDLA_THREADS_H
#define NVDLA_THREADS_H

#include <cstddef>
#include <functional>

namespace nvdla {

// Runs body(0) ... body(tasks - 1), in any order. An exception of one task is raised once all have ended.
void parallel(int threads, std::size_t tasks, const std::function<void(std::size_t)> &body);

}  // namespace nvdla

#endif
