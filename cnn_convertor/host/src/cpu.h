// Compiles a loop twice, for any CPU and for AVX2 with FMA, and takes the better one at run time.
//
// Both give the same bits wherever maps are FP16: a product of two FP16 values is exact in FP32, so that a fused
// multiply-add rounds as a multiplication and an addition do.
#ifndef DV_CPU_H
#define DV_CPU_H

#define DV_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__)
#define DV_AVX2 __attribute__((target("avx2,fma")))
namespace dv {
inline bool has_avx2() {
  static const bool answer = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return answer;
}
}  // namespace dv
#else
#define DV_AVX2
namespace dv {
inline bool has_avx2() { return false; }
}  // namespace dv
#endif

#endif
