// A copy of a map as FP32, for functions that read elements more than once or in another order.
#ifndef CPU_FUNCTIONS_VALUES_H
#define CPU_FUNCTIONS_VALUES_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "block.h"
#include "tensor.h"
#include "threads.h"

namespace cpu_functions {

// In the order height, width, channels.
class Values {
 public:
  const int height, width, channels;

  // An empty copy, to write.
  explicit Values(const Tensor &t)
      : height(t.height), width(t.width), channels(t.channels), threads_(t.threads), values_(t.Size()) {}

  static Values Of(const Tensor &t) {
    Values result(t);
    result.ForRuns(t, [](Run in_map, Run in_copy, std::size_t pixels, std::size_t count) { Copy(in_map, in_copy, pixels, count); });
    return result;
  }

  void Write(const Tensor &t) {
    ForRuns(t, [](Run in_map, Run in_copy, std::size_t pixels, std::size_t count) { Copy(in_copy, in_map, pixels, count); });
    t.ClearRest();
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
  // Channels that lie together. step: from one pixel to the next.
  struct Run {
    Elements first;
    std::size_t step;
    uint8_t *At(std::size_t pixel) const { return first.At(pixel * step); }
  };

  // y = x for eight channels of pixels, as far as there are four, which keep processors busy that work in order.
  template <Eight (*Load)(const uint8_t *), void (*Store)(Eight, uint8_t *)>
  static std::size_t CopyFours(Run x, Run y, std::size_t pixels) {
    std::size_t i = 0;
    for (; i + 4 <= pixels; i += 4) {
      const Eight a = Load(x.At(i)), b = Load(x.At(i + 1)), c = Load(x.At(i + 2)), d = Load(x.At(i + 3));
      Store(a, y.At(i));
      Store(b, y.At(i + 1));
      Store(c, y.At(i + 2));
      Store(d, y.At(i + 3));
    }
    return i;
  }

  // y = x for some channels of pixels.
  static void Copy(Run x, Run y, std::size_t pixels, std::size_t count) {
    const bool is_half = x.first.is_half;
    std::size_t i = 0;
    if (count == 8 && is_half && !y.first.is_half) i = CopyFours<LoadBeside, StoreFloats>(x, y, pixels);
    if (count == 8 && !is_half && y.first.is_half) i = CopyFours<LoadFloats, StoreBeside>(x, y, pixels);
    for (; i < pixels; ++i) Transform(Elements(x.At(i), is_half), Elements(y.At(i), y.first.is_half), count, Same{});
  }

  // Calls f(run of the map, run of the copy, pixels, count) for what lies together in both.
  template <class F>
  void ForRuns(const Tensor &t, const F &f) {
    const std::size_t run = static_cast<std::size_t>(t.LiesPlain() ? 64 : std::min(8, t.channels));
    const std::size_t rows = static_cast<std::size_t>(height), columns = static_cast<std::size_t>(width);
    if (t.LiesPlain()) {
      Share(threads_, (Size() + run - 1) / run, run, [&](std::size_t first, std::size_t last) {
        const std::size_t begin = first * run, end = std::min(last * run, Size());
        f(Run{Elements(t, begin), 0}, Run{Row(values_.data() + begin), 0}, 1, end - begin);
      });
      return;
    }
    const std::size_t chunks = (static_cast<std::size_t>(channels) + run - 1) / run;
    Share(threads_, chunks * rows, columns * run, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const int y = static_cast<int>(i % rows), c = static_cast<int>(i / rows * run);
        const std::size_t count = static_cast<std::size_t>(std::min(8, t.channels - c));
        const Run in_map = {Elements(t, t.Index(y, 0, c)), t.Pixel(0, 1) * static_cast<std::size_t>(t.Step(t.First(c)))};
        f(in_map, Run{Row(At(y, 0, c)), static_cast<std::size_t>(channels)}, columns, count);
      }
    });
  }

  Threads *threads_;
  std::vector<float> values_;
};

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_VALUES_H
