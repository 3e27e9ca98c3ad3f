// A copy of a map as FP32, for functions that read elements more than once or in another order.
#ifndef DV700_CPU_VALUES_H
#define DV700_CPU_VALUES_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "block.h"
#include "tensor.h"
#include "threads.h"

namespace dv700_cpu {

// In the order height, width, channels.
class Values {
 public:
  const int height, width, channels;

  // An empty copy, to write.
  explicit Values(const Tensor &t)
      : height(t.height), width(t.width), channels(t.channels), threads_(t.threads), values_(t.Size()) {}

  static Values Of(const Tensor &t) {
    Values result(t);
    result.ForRuns(t, [](Elements in_map, Elements in_copy, std::size_t count) { Transform(in_map, in_copy, count, Same{}); });
    return result;
  }

  void Write(const Tensor &t) {
    ForRuns(t, [](Elements in_map, Elements in_copy, std::size_t count) { Transform(in_copy, in_map, count, Same{}); });
  }

  float *At(int y, int x, int c) {
    return &values_[(static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)) *
                        static_cast<std::size_t>(channels) + static_cast<std::size_t>(c)];
  }
  float Get(int y, int x, int c) { return *At(y, x, c); }
  void Set(int y, int x, int c, float value) { *At(y, x, c) = value; }

  std::size_t Size() const { return values_.size(); }
  Elements All() { return Row(values_.data()); }
  static Elements Row(float *first) { return Elements(reinterpret_cast<uint8_t *>(first), false); }

 private:
  // Calls f(elements of the map, elements of the copy, count) for what lies together in both.
  template <class F>
  void ForRuns(const Tensor &t, const F &f) {
    const std::size_t run = static_cast<std::size_t>(t.LiesPlain() ? 64 : t.Together(0));
    const std::size_t rows = static_cast<std::size_t>(height), columns = static_cast<std::size_t>(width);
    if (t.LiesPlain()) {
      Share(threads_, (Size() + run - 1) / run, run, [&](std::size_t first, std::size_t last) {
        const std::size_t begin = first * run, end = std::min(last * run, Size());
        f(Elements(t, begin), Row(values_.data() + begin), end - begin);
      });
      return;
    }
    const std::size_t chunks = (static_cast<std::size_t>(channels) + run - 1) / run;
    Share(threads_, chunks * rows, columns * run, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const int y = static_cast<int>(i % rows), c = static_cast<int>(i / rows * run);
        for (int x = 0; x < width; ++x)
          f(Elements(t, t.Index(y, x, c)), Row(At(y, x, c)), static_cast<std::size_t>(t.Together(c)));
      }
    });
  }

  Threads *threads_;
  std::vector<float> values_;
};

}  // namespace dv700_cpu

#endif  // DV700_CPU_VALUES_H
