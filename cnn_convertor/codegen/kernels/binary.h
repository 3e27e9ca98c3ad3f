// An operation of two maps, element by element.
#ifndef CPU_FUNCTIONS_BINARY_H
#define CPU_FUNCTIONS_BINARY_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "block.h"
#include "tensor.h"
#include "threads.h"

namespace cpu_functions {

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
        is_one_(t.Size() == 1),
        has_pixels_(!is_one_ && t.channels == 1 && t.PixelsLieLike(z)),
        has_channels_(t.height == 1 && t.width == 1 && t.channels == z.channels) {}

  // Whether this class can read the operand: it repeats no more channels than it has room for.
  bool HasElements(const Tensor &z) const {
    return is_like_ || is_one_ || ((has_pixels_ || has_channels_) && z.Step(0) <= static_cast<int>(kRoom));
  }

  // How many elements of a chunk it gives at once: whole pixels, except for copies of a single element. step: from pixel to pixel.
  std::size_t Most(std::size_t chunk, std::size_t step) const {
    return is_like_ ? chunk : std::min(chunk, is_one_ ? kRoom : kRoom / step * step);
  }

  // Before the first elements of a chunk: the factors of its channels, which all pixels repeat.
  void Begin(std::size_t first, std::size_t step, std::size_t most) {
    if (is_like_ || has_pixels_) return;
    const Elements from(t_, is_one_ ? 0 : first);
    const std::size_t channels = std::min(step, static_cast<std::size_t>(t_.channels) - first), all = from.Bytes(most);
    if (!is_one_) std::memset(room_, 0, from.Bytes(step));
    std::memcpy(room_, from.At(0), from.Bytes(is_one_ ? 1 : channels));
    for (std::size_t done = from.Bytes(is_one_ ? 1 : step); done < all; done *= 2)
      std::memcpy(room_ + done, room_, std::min(done, all - done));
  }

  // number: of the first element in z. pixel: of that element.
  Elements Next(std::size_t number, std::size_t pixel, std::size_t step, std::size_t count) {
    if (is_like_) return Elements(t_, number);
    if (has_pixels_ && t_.is_half) Repeat<uint16_t, Halves>(pixel, step, count);
    if (has_pixels_ && !t_.is_half) Repeat<uint32_t, Bits>(pixel, step, count);
    return Elements(room_, t_.is_half);
  }

 private:
  static const std::size_t kRoom = 256;

  template <class Value, class Vector>
  void Repeat(std::size_t pixel, std::size_t step, std::size_t count) {
    const std::size_t next_value = sizeof(Value) * static_cast<std::size_t>(t_.Step(0));
    const uint8_t *from = t_.data + pixel * next_value;
    const std::size_t written = step % 8 == 0 ? sizeof(Vector) : sizeof(Value), each = step * sizeof(Value);
    for (uint8_t *to = room_, *end = room_ + count * sizeof(Value); to < end; from += next_value) {
      Value value;
      std::memcpy(&value, from, sizeof(value));
      const Vector several = value - Vector();
      for (uint8_t *next = to + each; to < next; to += written) {
        if (written == sizeof(Vector)) {
          std::memcpy(to, &several, sizeof(several));
        } else {
          std::memcpy(to, &value, sizeof(value));
        }
      }
    }
  }

  const Tensor &t_;
  bool is_like_, is_one_, has_pixels_, has_channels_;
  uint8_t room_[4 * kRoom];
};

// Some pixels of a chunk, which begins with the channel first.
template <class F>
void BinaryElements(Operand &x, Operand &y, const Tensor &z, std::size_t first, std::size_t pixel, std::size_t pixels, F f) {
  const std::size_t step = static_cast<std::size_t>(z.Step(static_cast<int>(first))), all = pixels * step;
  const std::size_t most = std::min(x.Most(all, step), y.Most(all, step));
  const std::size_t before = z.Size() / static_cast<std::size_t>(z.channels) * first + pixel * step;
  x.Begin(first, step, most);
  y.Begin(first, step, most);
  for (std::size_t i = 0; i < all; i += most) {
    const std::size_t count = std::min(most, all - i), place = pixel + i / step;
    Transform(x.Next(before + i, place, step, count), y.Next(before + i, place, step, count),
              Elements(z, before + i), count, f);
  }
}

// z = f(x, y), element by element; an axis of length 1 is repeated.
template <class F>
void Binary(const Tensor &x, const Tensor &y, const Tensor &z, F f) {
  if (Operand(x, z).HasElements(z) && Operand(y, z).HasElements(z)) {
    const std::size_t step = static_cast<std::size_t>(z.Step(0)), least = 16;
    const std::size_t pixels = static_cast<std::size_t>(z.height) * static_cast<std::size_t>(z.width);
    const std::size_t block = std::max(4096 / step / least, static_cast<std::size_t>(1)) * least;
    const std::size_t blocks = (pixels + block - 1) / block, chunks = (z.Size() / pixels + step - 1) / step;
    Share(z.threads, chunks * blocks, block * step, [&](std::size_t first, std::size_t last) {
      Operand a(x, z), b(y, z);
      for (std::size_t i = first; i < last; ++i) {
        const std::size_t pixel = i % blocks * block;
        BinaryElements(a, b, z, i / blocks * step, pixel, std::min(block, pixels - pixel), f);
      }
    });
    z.ClearRest();
    return;
  }
  const auto get = [](const Tensor &t, int h, int w, int c) {
    return t.Get(t.height == 1 ? 0 : h, t.width == 1 ? 0 : w, t.channels == 1 ? 0 : c);
  };
  z.ForEach([&](int h, int w, int c) { z.Set(h, w, c, f(get(x, h, w, c), get(y, h, w, c))); });
  z.ClearRest();
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_BINARY_H
