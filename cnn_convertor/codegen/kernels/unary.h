// A function of each element.
#ifndef DV700_CPU_UNARY_H
#define DV700_CPU_UNARY_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "block.h"
#include "power_of_two.h"
#include "half.h"
#include "tensor.h"

namespace dv700_cpu {

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
  Transform(Elements(x, 0), Elements(y, 0), y.Size(), f);
}

// Each other function is computed once for each FP16 value that occurs. The results are kept until the end of the call.
template <class F>
void UnaryElements(const Tensor &x, const Tensor &y, F f, long) {
  const std::size_t size = y.Size();
  const Elements from(x, 0), to(y, 0);
  if (!x.is_half || !y.is_half || size < 4096) {
    for (std::size_t i = 0; i < size; ++i) to.SetOne(i, f(from.GetOne(i)));
    return;
  }
  const uint16_t unknown = 0xFFFFu;  // ToHalf never gives it
  std::vector<uint16_t> results(65536, unknown);
  for (std::size_t i = 0; i < size; ++i) {
    uint16_t half;
    std::memcpy(&half, from.At(i), sizeof(half));
    uint16_t &result = results[half];
    if (result == unknown) result = ToHalf(f(FromHalf(half)));
    std::memcpy(to.At(i), &result, sizeof(result));
  }
}

// y = f(x), element by element.
template <class F>
void Unary(const Tensor &x, const Tensor &y, F f) {
  if (x.LiesLike(y)) {
    UnaryElements(x, y, f, Preferred(0));
  } else {
    y.ForEach([&](int h, int w, int c) { y.Set(h, w, c, f(x.Get(h, w, c))); });
  }
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_UNARY_H
