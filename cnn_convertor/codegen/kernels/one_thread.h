// In place of threads.h, where the calling thread does all the work.
#ifndef DV700_CPU_ONE_THREAD_H
#define DV700_CPU_ONE_THREAD_H

#include <cstddef>

namespace dv700_cpu {

struct Threads {};

// Calls f for 0 to count.
template <class F>
void Share(Threads *, std::size_t count, std::size_t, const F &f) {
  f(static_cast<std::size_t>(0), count);
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_ONE_THREAD_H
