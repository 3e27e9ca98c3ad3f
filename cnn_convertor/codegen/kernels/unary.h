// A function of each element.
// Timed Swish: Unary(x, z, Swish{1.0f})
// Timed HardSigmoid: Unary(x, z, HardSigmoid{0.2f, 0.5f})
// Timed Gelu: Unary(x, z, Gelu{false})
// Timed ScaledElu: Unary(x, z, ScaledElu{1.6733f, 1.0507f})
// Timed Exponential: Unary(x, z, Exponential{1.0f, 0.0f})
// Timed Logarithm: Unary(x, z, Logarithm{1.0f, 1.0f, 9.0f})
// Timed Power: Unary(x, z, Power{1.5f, 1.0f, 9.0f})
// Timed Threshold: Unary(x, z, Threshold{1.0f})
// Timed Clip: Unary(x, z, Clip{0.0f, 6.0f})
// Timed BoundedRelu: Unary(x, z, BoundedRelu{0.5f, 0.0f, 6.0f})
#ifndef CPU_FUNCTIONS_UNARY_H
#define CPU_FUNCTIONS_UNARY_H

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "block.h"
#include "power_of_two.h"
#include "half.h"
#include "tensor.h"
#include "threads.h"

namespace cpu_functions {

struct Swish {
  float beta;
  template <class V>
  V operator()(V x) const {
    return x / (Each<V>(1.0f) + PowerOfTwo(Each<V>(-beta * kLog2OfE) * x));
  }
};

struct Sigmoid {
  template <class V>
  V operator()(V x) const {
    return Each<V>(1.0f) / (Each<V>(1.0f) + PowerOfTwo(Each<V>(-kLog2OfE) * x));
  }
};

template <>
struct IsLong<Swish> {
  static const bool value = true;
};
template <>
struct IsLong<Sigmoid> {
  static const bool value = true;
};

struct Tanh {
  float operator()(float x) const { return std::tanh(x); }
};

struct HardSigmoid {
  float slope, shift;
  template <class V>
  V operator()(V x) const {
    return Smaller(Larger(Each<V>(slope) * x + Each<V>(shift), Each<V>(0.0f)), Each<V>(1.0f));
  }
};

struct HardSwish {
  template <class V>
  V operator()(V x) const {
    return x * Smaller(Larger(x + Each<V>(3.0f), Each<V>(0.0f)), Each<V>(6.0f)) / Each<V>(6.0f);
  }
};

struct Gelu {
  bool by_tanh;
  float operator()(float x) const {
    if (by_tanh) return 0.5f * x * (1.0f + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
    return 0.5f * x * std::erfc(-0.7071067812f * x);
  }
};

struct Softplus {
  float operator()(float x) const { return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))); }
};

struct Mish {
  float operator()(float x) const { return x * std::tanh(Softplus{}(x)); }
};

struct Softsign {
  float operator()(float x) const { return x / (1.0f + std::abs(x)); }
};

struct ScaledElu {
  float alpha, scale;
  float operator()(float x) const { return scale * (x > 0.0f ? x : alpha * std::expm1(x)); }
};

struct Exponential {
  float scale, shift;
  float operator()(float x) const { return std::exp(scale * x + shift); }
};

struct Logarithm {
  float factor, scale, shift;
  float operator()(float x) const { return factor * std::log(scale * x + shift); }
};

struct Power {
  float power, scale, shift;
  float operator()(float x) const { return std::pow(scale * x + shift, power); }
};

struct Absolute {
  float operator()(float x) const { return std::abs(x); }
};

struct Sine {
  float operator()(float x) const { return std::sin(x); }
};

struct Cosine {
  float operator()(float x) const { return std::cos(x); }
};

struct Arctangent {
  float operator()(float x) const { return std::atan(x); }
};

struct ErrorFunction {
  float operator()(float x) const { return std::erf(x); }
};

struct Floor {
  float operator()(float x) const { return std::floor(x); }
};

struct Round {
  float operator()(float x) const { return std::nearbyint(x); }
};

struct Threshold {
  float threshold;
  template <class V>
  V operator()(V x) const { return x > Each<V>(threshold) ? Each<V>(1.0f) : Each<V>(0.0f); }
};

struct Clip {
  float low, high;
  template <class V>
  V operator()(V x) const { return Smaller(Larger(x, Each<V>(low)), Each<V>(high)); }
};

struct BoundedRelu {
  float slope, threshold, high;
  template <class V>
  V operator()(V x) const {
    return x > Each<V>(threshold) ? Smaller(x, Each<V>(high)) : Each<V>(slope) * (x - Each<V>(threshold));
  }
};

// y = f(x), element by element, of maps that lie alike: functions that are templates work on vectors if that is preferred.
template <class F>
auto UnaryElements(const Tensor &x, const Tensor &y, F f, int) -> decltype(f(Floats()), void()) {
  TransformAll(y.threads, Elements(x, 0), Elements(y, 0), y.Stored(), f);
}

// A result that several threads may set, all the same.
class Kept {
 public:
  explicit Kept(uint16_t result) : result_(result) {}
  Kept(const Kept &other) : result_(other.Get()) {}
  uint16_t Get() const { return result_.load(std::memory_order_relaxed); }
  void Set(uint16_t result) { result_.store(result, std::memory_order_relaxed); }

 private:
  std::atomic<uint16_t> result_;
};

// results: of each FP16 value, or unknown, as ToHalf never gives.
template <class F>
void ComputeOnce(const uint8_t *from, uint8_t *to, std::size_t count, Kept *results, uint16_t unknown, F f) {
  for (std::size_t i = 0; i < count; ++i, from += 2, to += 2) {
    uint16_t half;
    std::memcpy(&half, from, sizeof(half));
    uint16_t result = results[half].Get();
    if (result == unknown) results[half].Set(result = ToHalf(f(FromHalf(half))));
    std::memcpy(to, &result, sizeof(result));
  }
}

// Each other function is computed once for each FP16 value that occurs. The results are kept until the end of the call.
template <class F>
void UnaryElements(const Tensor &x, const Tensor &y, F f, long) {
  const std::size_t size = y.Stored();
  const Elements from(x, 0), to(y, 0);
  if (!x.is_half || !y.is_half || size < 4096) {
    Share(y.threads, size, 1, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) to.SetOne(i, f(from.GetOne(i)));
    });
    return;
  }
  const uint16_t unknown = 0xFFFFu;
  std::vector<Kept> results(65536, Kept(unknown));
  Share(y.threads, size, 1, [&](std::size_t first, std::size_t last) {
    ComputeOnce(from.At(first), to.At(first), last - first, results.data(), unknown, f);
  });
}

// y = f(x), element by element.
template <class F>
void Unary(const Tensor &x, const Tensor &y, F f) {
  if (x.LiesLike(y)) {
    UnaryElements(x, y, f, Preferred(0));
  } else {
    y.ForEach([&](int h, int w, int c) { y.Set(h, w, c, f(x.Get(h, w, c))); });
  }
  y.ClearRest();
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_UNARY_H
