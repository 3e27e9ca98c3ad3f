// Compiles a loop several times, for any CPU, for AVX2 and for AVX-512, and takes the best one at run time.
//
// All give the same bits wherever maps are FP16: a product of two FP16 values is exact in FP32, so that a fused
// multiply-add rounds as a multiplication and an addition do.
#ifndef DV_CPU_H
#define DV_CPU_H

#define DV_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__)
#include <cpuid.h>

#define DV_AVX2 __attribute__((target("avx2,fma,f16c")))
#define DV_AVX512 __attribute__((target("avx512f,avx512vl,avx2,fma,f16c")))
namespace dv {
inline bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
inline bool has_avx2() {
  static const bool answer = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  return answer;
}
inline bool has_avx512() {
  static const bool answer = has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  return answer;
}
}  // namespace dv
#else
#define DV_AVX2
#define DV_AVX512
namespace dv {
inline bool has_avx2() { return false; }
inline bool has_avx512() { return false; }
}  // namespace dv
#endif

#endif
