// An operation of two maps, element by element.
#ifndef DV700_CPU_BINARY_H
#define DV700_CPU_BINARY_H

#include <cstddef>

#include "block.h"
#include "tensor.h"

namespace dv700_cpu {

struct Add {
  template <class V>
  V operator()(V x, V y) const { return x + y; }
};

struct Subtract {
  template <class V>
  V operator()(V x, V y) const { return x - y; }
};

struct Multiply {
  template <class V>
  V operator()(V x, V y) const { return x * y; }
};

struct Divide {
  template <class V>
  V operator()(V x, V y) const { return x / y; }
};

struct Maximum {
  template <class V>
  V operator()(V x, V y) const { return Larger(x, y); }
};

struct Minimum {
  template <class V>
  V operator()(V x, V y) const { return Smaller(x, y); }
};

struct Mask {
  template <class V>
  V operator()(V x, V y) const { return y != Each<V>(0.0f) ? x : Each<V>(0.0f); }
};

// A map as an operand of z: as z itself, or repeated over its pixels, its channels or both.
class Operand {
 public:
  Operand(const Tensor &t, const Tensor &z)
      : t_(t),
        is_like_(t.LiesLike(z)),
        has_pixels_(t.channels == 1 && t.PixelsLieLike(z)),
        has_channels_(t.height == 1 && t.width == 1 && t.channels == z.channels),
        is_one_(t.Size() == 1) {}

  // Whether this class can read the operand: it repeats no more channels than a block has elements.
  bool HasBlocks(const Tensor &z) const {
    return is_like_ || is_one_ || ((has_pixels_ || has_channels_) && z.Together(0) <= kBlock);
  }

  // Before the first block of a chunk: the factors of its channels, which each block repeats.
  void Begin(int first, int together, Block &block) const {
    if (is_like_ || (has_pixels_ && !is_one_)) return;
    for (int i = 0; i < kBlock; ++i) block.values[i] = t_.Get(0, 0, is_one_ ? 0 : first + i % together);
  }

  // place: of the block in z. pixel: of its first element.
  void Next(std::size_t place, std::size_t pixel, int together, int count, Block &block) const {
    if (is_like_) {
      Read(t_, place, count, block);
    } else if (has_pixels_ && !is_one_) {
      Block pixels = {};
      Read(t_, pixel, count / together, pixels);
      for (int i = 0, p = 0; i < count; ++p)
        for (int c = 0; c < together; ++c) block.values[i++] = pixels.values[p];
    }
  }

 private:
  const Tensor &t_;
  bool is_like_, has_pixels_, has_channels_, is_one_;
};

template <class F>
void BinaryBlocks(const Operand &x, const Operand &y, const Tensor &z, F f) {
  Block a = {}, b = {}, result = {};
  const std::size_t pixels = static_cast<std::size_t>(z.height) * z.width;
  for (int first = 0; first < z.channels; first += z.Together(first)) {
    const int together = z.Together(first), most = together > kBlock ? kBlock : kBlock / together * together;
    const std::size_t start = static_cast<std::size_t>(first) * pixels, chunk = static_cast<std::size_t>(together);
    x.Begin(first, together, a);
    y.Begin(first, together, b);
    ForBlocks(start, start + pixels * chunk, most, [&](std::size_t place, int count) {
      const std::size_t pixel = (place - start) / chunk;
      x.Next(place, pixel, together, count, a);
      y.Next(place, pixel, together, count, b);
      for (int i = 0; i < kBlock; i += kStep) result.Set(i, f(a.Get(i), b.Get(i)));
      Write(z, place, count, result);
    });
  }
}

// z = f(x, y), element by element; an axis of length 1 is repeated.
template <class F>
void Binary(const Tensor &x, const Tensor &y, const Tensor &z, F f) {
  const Operand a(x, z), b(y, z);
  if (a.HasBlocks(z) && b.HasBlocks(z)) {
    BinaryBlocks(a, b, z, f);
    return;
  }
  const auto get = [](const Tensor &t, int h, int w, int c) {
    return t.Get(t.height == 1 ? 0 : h, t.width == 1 ? 0 : w, t.channels == 1 ? 0 : c);
  };
  z.ForEach([&](int h, int w, int c) { z.Set(h, w, c, f(get(x, h, w, c), get(y, h, w, c))); });
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_BINARY_H
