// An operation of two maps, element by element.
#ifndef DV700_CPU_BINARY_H
#define DV700_CPU_BINARY_H

#include <algorithm>

#include "tensor.h"

namespace dv700_cpu {

struct Add {
  float operator()(float x, float y) const { return x + y; }
};

struct Subtract {
  float operator()(float x, float y) const { return x - y; }
};

struct Multiply {
  float operator()(float x, float y) const { return x * y; }
};

struct Divide {
  float operator()(float x, float y) const { return x / y; }
};

struct Maximum {
  float operator()(float x, float y) const { return std::max(x, y); }
};

struct Minimum {
  float operator()(float x, float y) const { return std::min(x, y); }
};

struct Mask {
  float operator()(float x, float y) const { return y != 0.0f ? x : 0.0f; }
};

// z = f(x, y), element by element; an axis of length 1 is repeated.
template <class F>
void Binary(const Tensor &x, const Tensor &y, const Tensor &z, F f) {
  const auto get = [](const Tensor &t, int h, int w, int c) {
    return t.Get(t.height == 1 ? 0 : h, t.width == 1 ? 0 : w, t.channels == 1 ? 0 : c);
  };
  z.ForEach([&](int h, int w, int c) { z.Set(h, w, c, f(get(x, h, w, c), get(y, h, w, c))); });
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_BINARY_H
