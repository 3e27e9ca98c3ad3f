// Permuted axes and other shapes.
// Timed TransposeReshape: TransposeReshape(x, Tensor(io, kResult, 16, rows, 16, kHalf), {rows, 16, 16}, {1, 0, 2},
//   false)
#ifndef DV700_CPU_TRANSPOSE_RESHAPE_H
#define DV700_CPU_TRANSPOSE_RESHAPE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "block.h"
#include "tensor.h"
#include "threads.h"

namespace dv700_cpu {

// An axis of an array: how many elements it has, and how far apart they are in the maps that are read and written.
struct ArrayAxis {
  uint32_t length, from, to;
};

// Elements that lie in equal distances: the first one's number in the order of the memory, and how many at most.
struct Span {
  std::size_t number, step;
  uint32_t count;
};

// The elements of a map in the order height, width, channels or channels, height, width; next ones are `stride` apart.
class Ordered {
 public:
  Ordered(const Tensor &t, bool channels_first, uint32_t stride) : t_(t), y_(channels_first ? 1 : 0), c_(channels_first ? 0 : 2) {
    const uint32_t height = static_cast<uint32_t>(t.height), channels = static_cast<uint32_t>(t.channels);
    size_[y_] = height;
    size_[y_ + 1] = static_cast<uint32_t>(t.width);
    size_[c_] = channels;
    const uint32_t units[] = {size_[1] * size_[2], size_[2], 1};
    while (stride % units[moved_] != 0) ++moved_;
    step_ = stride / units[moved_];
    pixel_ = step_ * (moved_ == y_ ? t.Pixel(1, 0) : t.Pixel(0, 1));
  }

  // What lies together from a position in the order on.
  Span From(uint32_t position) const {
    const uint32_t line = position / size_[2], digits[] = {line / size_[1], line % size_[1], position - line * size_[2]};
    const int c = static_cast<int>(digits[c_]), first = t_.First(c), together = t_.Together(first);
    const std::size_t number = t_.Index(static_cast<int>(digits[y_]), static_cast<int>(digits[y_ + 1]), c);
    if (moved_ == c_) return {number, 1, step_ == 1 ? static_cast<uint32_t>(first + together - c) : 1};
    const uint32_t left = size_[moved_] - digits[moved_];
    return {number, pixel_ * static_cast<std::size_t>(together), step_ == 1 ? left : (left + step_ - 1) / step_};
  }

  // How many elements lie together at most.
  uint32_t Most() const { return moved_ != c_ ? size_[moved_] / step_ : step_ == 1 ? static_cast<uint32_t>(t_.Together(0)) : 1; }

 private:
  const Tensor &t_;
  const std::size_t y_, c_;  // digits of a position: x follows y
  std::size_t moved_ = 0;    // the digit that grows, by step_; pixel_: the distance of pixels
  uint32_t size_[3], step_;
  std::size_t pixel_;
};

template <class Value>
void MoveSpan(const uint8_t *from, std::size_t from_step, uint8_t *to, std::size_t to_step, uint32_t count) {
  const std::size_t read = sizeof(Value) * from_step, written = sizeof(Value) * to_step;
  const auto load = [](const uint8_t *element) {
    Value value;
    std::memcpy(&value, element, sizeof(value));
    return value;
  };
  for (; count >= 4; count -= 4, from += 4 * read, to += 4 * written) {
    const Value a = load(from), b = load(from + read), c = load(from + 2 * read), d = load(from + 3 * read);
    std::memcpy(to, &a, sizeof(a));
    std::memcpy(to + written, &b, sizeof(b));
    std::memcpy(to + 2 * written, &c, sizeof(c));
    std::memcpy(to + 3 * written, &d, sizeof(d));
  }
  for (; count > 0; --count, from += read, to += written) std::memcpy(to, from, sizeof(Value));
}

// x as an array of dims, its axes permuted, as y.
inline void TransposeReshape(const Tensor &x, const Tensor &y, const std::vector<int> &dims, const std::vector<int> &axes,
                      bool channels_first) {
  std::vector<ArrayAxis> all(dims.size());
  uint32_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0; stride *= all[i].length) all[i] = {static_cast<uint32_t>(dims[i]), stride, 1};
  stride = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    ArrayAxis &axis = all[static_cast<std::size_t>(axes[i])];
    axis.to = stride;
    stride *= axis.length;
  }
  // The axis along which most elements lie together becomes the last.
  const auto together = [&](const ArrayAxis &axis) {
    const uint32_t most = std::min(Ordered(x, channels_first, axis.from).Most(), Ordered(y, channels_first, axis.to).Most());
    return std::min(axis.length, most);
  };
  std::size_t longest = 0;
  for (std::size_t i = 1; i < all.size(); ++i)
    if (together(all[i]) >= together(all[longest])) longest = i;
  std::swap(all[longest], all.back());
  const ArrayAxis inner = all.back();
  all.pop_back();
  Share(x.threads, x.Size() / inner.length, inner.length, [&](std::size_t first, std::size_t last) {
    const Ordered source(x, channels_first, inner.from), target(y, channels_first, inner.to);
    const Elements xs(x, 0), ys(y, 0);
    for (std::size_t number = first; number < last; ++number) {
      std::size_t rest = number;
      uint32_t from = 0, to = 0;
      for (const ArrayAxis &axis : all) {
        const uint32_t i = static_cast<uint32_t>(rest % axis.length);
        rest /= axis.length;
        from += i * axis.from;
        to += i * axis.to;
      }
      for (uint32_t left = inner.length, count; left > 0; left -= count) {
        const Span a = source.From(from), b = target.From(to);
        count = std::min(left, std::min(a.count, b.count));
        if (x.is_half && y.is_half) MoveSpan<uint16_t>(xs.At(a.number), a.step, ys.At(b.number), b.step, count);
        else if (x.is_half == y.is_half) MoveSpan<uint32_t>(xs.At(a.number), a.step, ys.At(b.number), b.step, count);
        else
          for (uint32_t i = 0; i < count; ++i) ys.SetOne(b.number + i * b.step, xs.GetOne(a.number + i * a.step));
        from += count * inner.from;
        to += count * inner.to;
      }
    }
  });
}

}  // namespace dv700_cpu

#endif  // DV700_CPU_TRANSPOSE_RESHAPE_H
