// Divides work among the PC's cores.
#ifndef DV_THREADS_H
#define DV_THREADS_H

#include <cstddef>
#include <functional>

namespace dv {

// Threads that parallel_for uses: DMP_DV_THREADS, or as many as the PC has cores.
int thread_count();

// Calls body(0) ... body(tasks - 1), each once, on several threads, and returns when all are done. If bodies throw, the
// exception of the lowest task is thrown. One call at a time: a second one waits, and a body must not call it.
void parallel_for(std::size_t tasks, const std::function<void(std::size_t)> &body);

}  // namespace dv

#endif
