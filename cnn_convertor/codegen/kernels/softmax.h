// Softmax along an axis.
// Timed Softmax, 1024 units: Softmax(Tensor(io, 0, rows, 16, 64, kHalf), Tensor(io, kResult, rows, 16, 64, kHalf),
//   Axes{false, false, true})
#ifndef CPU_FUNCTIONS_SOFTMAX_H
#define CPU_FUNCTIONS_SOFTMAX_H

#include <algorithm>

#include "axes.h"
#include "block.h"
#include "lanes.h"
#include "power_of_two.h"
#include "tensor.h"
#include "values.h"

namespace cpu_functions {

struct PowerOfE {
  template <class V>
  V operator()(V x, V largest) const { return PowerOfTwo(Each<V>(kLog2OfE) * (x - largest)); }
};

struct Product {
  template <class V>
  V operator()(V x, V factor) const { return x * factor; }
};

inline void Softmax(const Tensor &x, const Tensor &y, Axes along) {
  Values values = Values::Of(x);
  ForLanes(x, &values, along, 1, [](const Lanes &lanes) {
    float numbers[8];
    lanes.Largest(numbers);
    lanes.Transform(PowerOfE{}, numbers);
    const Lanes::Numbers sums = lanes.Sum([](double power, double) { return power; });
    const Lanes::Numbers factors = lanes.Of(sums, [](double sum) { return 1.0 / sum; });
    std::copy_n(factors.lane, 8, numbers);
    lanes.Transform(Product{}, numbers);
  });
  values.Write(y);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_SOFTMAX_H
