// A function of each element.
#ifndef DV700_CPU_UNARY_H
#define DV700_CPU_UNARY_H

#include <algorithm>
#include <cmath>

#include "tensor.h"

namespace dv700_cpu {

struct Swish {
  float beta;
  float operator()(float x) const { return x / (1.0f + std::exp(-beta * x)); }
};

struct HardSigmoid {
  float slope, shift;
  float operator()(float x) const { return std::min(std::max(slope * x + shift, 0.0f), 1.0f); }
};

struct HardSwish {
  float operator()(float x) const { return x * std::min(std::max(x + 3.0f, 0.0f), 6.0f) / 6.0f; }
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
  float operator()(float x) const { return x > threshold ? 1.0f : 0.0f; }
};

struct Clip {
  float low, high;
  float operator()(float x) const { return std::min(std::max(x, low), high); }
};

struct BoundedRelu {
  float slope, threshold, high;
  float operator()(float x) const { return x > threshold ? std::min(x, high) : slope * (x - threshold); }
};

// y = f(x), element by element.
template <class F>
void Unary(const Tensor &x, const Tensor &y, F f) {
  y.ForEach([&](int h, int w, int c) { y.Set(h, w, c, f(x.Get(h, w, c))); });
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_UNARY_H
