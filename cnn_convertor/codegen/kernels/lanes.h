// Parts of a copy, eight numbers at a time.
#ifndef CPU_FUNCTIONS_LANES_H
#define CPU_FUNCTIONS_LANES_H

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "axes.h"
#include "block.h"
#include "part.h"
#include "tensor.h"
#include "values.h"

namespace cpu_functions {

// One part along channels, whose numbers take turns in the lanes, or else one part in each lane: of neighboring channels.
class Lanes {
 public:
  const Part part;

  // A number for each lane.
  struct Numbers {
    double lane[8];
  };

  Lanes(Values *values, const Part &whole, bool is_one) : part(whole), values_(values), is_one_(is_one) {}

  // How many numbers a part has.
  int Size() const { return is_one_ ? part.Size() : (part.y_end - part.y) * (part.x_end - part.x); }

  // Calls f(numbers, count) for those of each pixel.
  template <class F>
  __attribute__((always_inline)) void ForPixels(F f) const {
    const std::size_t count = static_cast<std::size_t>(part.c_end - part.c);
    for (int y = part.y; y < part.y_end; ++y) {
      float *numbers = values_->At(y, part.x, part.c);
      for (int x = part.x; x < part.x_end; ++x, numbers += values_->channels) f(numbers, count);
    }
  }

  // Calls f(numbers, count) for all of them, at most eight at a time.
  template <class F>
  __attribute__((always_inline)) void ForEach(F f) const {
    if (!is_one_ && part.c_end - part.c == 8) {  // a row is one loop
      for (int y = part.y; y < part.y_end; ++y) {
        float *numbers = values_->At(y, part.x, part.c);
        for (int x = part.x; x < part.x_end; ++x, numbers += values_->channels) f(numbers, 8);
      }
      return;
    }
    ForPixels([&](float *numbers, std::size_t rest) __attribute__((always_inline)) {
      for (; rest >= 8; rest -= 8, numbers += 8) f(numbers, 8);
      if (rest > 0) f(numbers, static_cast<int>(rest));
    });
  }

  // Each number becomes f(number, that of its lane).
  template <class F>
  void Transform(F f, const float *lanes) const {
    const Eight others = Values::Row(const_cast<float *>(lanes)).Get(0);
    ForPixels([&](float *numbers, std::size_t count) __attribute__((always_inline)) {
      const Elements row = Values::Row(numbers);
      std::size_t i = 0;
      for (; i + 16 <= count; i += 16) {
        const Eight first = Apply(f, row.Get(i), others), second = Apply(f, row.Get(i + 8), others);
        row.Set(i, first);
        row.Set(i + 8, second);
      }
      for (; i + 8 <= count; i += 8) row.Set(i, Apply(f, row.Get(i), others));
      if (i < count) row.SetSome(i, count - i, Apply(f, row.GetSome(i, count - i), others));
    });
  }

  // f(a number) for each lane.
  template <class F>
  __attribute__((always_inline)) Numbers Of(const Numbers &numbers, F f) const {
    if (is_one_) return All(f(numbers.lane[0]));
    Numbers result;
    for (int i = 0; i < 8; ++i) result.lane[i] = f(numbers.lane[i]);
    return result;
  }

  // The sums of f(number, that of its lane), in double precision: of a part in all lanes, or of the part in each lane.
  template <class F>
  Numbers Sum(F f, const Numbers &lanes = Numbers()) const {
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0, e = 0.0, g = 0.0, h = 0.0, i = 0.0;
    const double *const lane = lanes.lane;
    ForEach([&](const float *x, int count) __attribute__((always_inline)) {
      a += f(x[0], lane[0]);
      if (count > 1) b += f(x[1], lane[1]);
      if (count > 2) c += f(x[2], lane[2]);
      if (count > 3) d += f(x[3], lane[3]);
      if (count > 4) e += f(x[4], lane[4]);
      if (count > 5) g += f(x[5], lane[5]);
      if (count > 6) h += f(x[6], lane[6]);
      if (count > 7) i += f(x[7], lane[7]);
    });
    if (!is_one_) return {{a, b, c, d, e, g, h, i}};
    return All(((a + b) + (c + d)) + ((e + g) + (h + i)));
  }

  // Each number becomes (number - mean) * factor, in double precision.
  void Scale(const Numbers &means, const Numbers &factors) const {
    ForEach([&](float *x, int count) __attribute__((always_inline)) {
      const auto scale = [&](int i) { x[i] = static_cast<float>((x[i] - means.lane[i]) * factors.lane[i]); };
      scale(0);
      if (count > 1) scale(1);
      if (count > 2) scale(2);
      if (count > 3) scale(3);
      if (count > 4) scale(4);
      if (count > 5) scale(5);
      if (count > 6) scale(6);
      if (count > 7) scale(7);
    });
  }

  // The largest number: of a part in all lanes, or of the part in each lane.
  void Largest(float *lanes) const {
    Eight largest = {};
    largest = Apply([](Floats x) { return x - INFINITY; }, largest);
    ForEach([&](float *numbers, int count) __attribute__((always_inline)) {
      float some[8];
      if (count < 8) {
        std::fill_n(some, 8, -INFINITY);
        std::copy_n(numbers, count, some);
      }
      largest = Apply(LargerOne{}, largest, Values::Row(count < 8 ? some : numbers).Get(0));
    });
    Values::Row(lanes).Set(0, largest);
    if (!is_one_) return;
    const float first = Larger(Larger(lanes[0], lanes[1]), Larger(lanes[2], lanes[3]));
    const float second = Larger(Larger(lanes[4], lanes[5]), Larger(lanes[6], lanes[7]));
    std::fill_n(lanes, 8, Larger(first, second));
  }

 private:
  static Numbers All(double number) { return {{number, number, number, number, number, number, number, number}}; }

  struct LargerOne {
    template <class V>
    V operator()(V x, V y) const { return Larger(x, y); }
  };

  Values *const values_;
  const bool is_one_;
};

// Calls f(lanes) for all parts.
template <class F>
void ForLanes(const Tensor &t, Values *values, Axes along, int groups, const F &f) {
  ForParts(t, along, groups, [=](const Part &part) { f(Lanes(values, part, along.channels)); }, 8);
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_LANES_H
