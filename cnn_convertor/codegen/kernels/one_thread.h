// In place of threads.h, where the calling thread does all the work.
#ifndef CPU_FUNCTIONS_ONE_THREAD_H
#define CPU_FUNCTIONS_ONE_THREAD_H

#include <cstddef>

namespace cpu_functions {

struct Threads {};

// Calls f for 0 to count.
template <class F>
void Share(Threads *, std::size_t count, std::size_t, const F &f) {
  f(static_cast<std::size_t>(0), count);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_ONE_THREAD_H
