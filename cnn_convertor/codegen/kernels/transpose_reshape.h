// Permuted axes and other shapes.
// Timed TransposeReshape: TransposeReshape(x, Tensor(io, kResult, 16, rows, 16, kHalf), {rows, 16, 16}, {1, 0, 2},
//   false)
#ifndef CPU_FUNCTIONS_TRANSPOSE_RESHAPE_H
#define CPU_FUNCTIONS_TRANSPOSE_RESHAPE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "block.h"
#include "tensor.h"
#include "threads.h"

namespace cpu_functions {

typedef uint64_t Longs __attribute__((vector_size(16)));

// An axis of an array: how many elements it has, and how far apart they are in the maps that are read and written.
struct ArrayAxis {
  uint32_t length, from, to;
};

// Elements in equal distances: how many at most.
struct Span {
  std::size_t step;
  uint32_t count;
};

// The elements of a map in the order height, width, channels or channels, height, width.
class Ordered {
 public:
  // Which digit of a position grows along an axis, and by how much.
  struct Growth {
    std::size_t digit;
    uint32_t step;
  };

  // A position as digits, the number of its element in the order of the memory, the channels that follow there, and how many
  // elements from one pixel to the next.
  struct Place {
    uint32_t digits[3];
    std::size_t number, rest, step;
  };

  Ordered(const Tensor &t, bool channels_first) : t_(t), y_(channels_first ? 1 : 0), c_(channels_first ? 0 : 2) {
    size_[y_] = static_cast<uint32_t>(t.height);
    size_[y_ + 1] = static_cast<uint32_t>(t.width);
    size_[c_] = static_cast<uint32_t>(t.channels);
  }

  // Along an axis whose elements are `stride` apart in the order.
  Growth Along(uint32_t stride) const {
    const uint32_t units[] = {size_[1] * size_[2], size_[2], 1};
    std::size_t digit = 0;
    while (stride % units[digit] != 0) ++digit;
    return {digit, stride / units[digit]};
  }

  Place At(uint32_t position) const {
    const uint32_t line = position / size_[2], row = line / size_[1];
    Place place = {{row, line - row * size_[1], position - line * size_[2]}, 0, 0, 0};
    const int c = static_cast<int>(place.digits[c_]), first = t_.First(c);
    place.number = t_.Index(static_cast<int>(place.digits[y_]), static_cast<int>(place.digits[y_ + 1]), c);
    place.rest = static_cast<std::size_t>(first + t_.Together(first) - c);
    place.step = static_cast<std::size_t>(t_.Step(first));
    return place;
  }

  // What lies in equal distances from a place on.
  Span From(const Place &place, Growth growth) const {
    const bool is_channel = growth.digit == c_, is_row = growth.digit == y_;
    const uint32_t rest = is_channel ? static_cast<uint32_t>(place.rest) : size_[growth.digit] - place.digits[growth.digit];
    const std::size_t pixel = is_channel ? 1 : place.step * (is_row ? t_.Pixel(1, 0) : t_.Pixel(0, 1));
    return {growth.step * pixel, growth.step == 1 ? rest : (rest + growth.step - 1) / growth.step};
  }

  // How many elements lie in equal distances at most.
  uint32_t Most(Growth growth) const { return From(At(0), growth).count; }

 private:
  const Tensor &t_;
  const std::size_t y_, c_;  // digits of a position: x follows y
  uint32_t size_[3];
};

// read, written: bytes from one to the next.
template <class Value>
void MoveSpan(const uint8_t *from, std::size_t read, uint8_t *to, std::size_t written, uint32_t count) {
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

// A block of elements: from, to: the distances in x and y of one and of the next line.
struct BlockSteps {
  std::size_t from, to, from_line, to_line;
};

// In lines of which `after` follows `before`: every other part of so many bits of the one for that of the other.
inline void Exchange(Longs *before, Longs *after, int bits, uint64_t mask) {
  const bool is_little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
  Longs *const low = is_little ? before : after, *const high = is_little ? after : before;
  const Longs changes = ((*low >> bits) ^ *high) & mask;
  *high ^= changes;
  *low ^= changes << bits;
}
inline void ExchangeHalves(Longs *before, Longs *after) {
  const Longs first = {(*before)[0], (*after)[0]}, second = {(*before)[1], (*after)[1]};
  *before = first;
  *after = second;
}

// Eight lines of eight FP16 numbers, which become those of y. from_line, to_line: bytes from one to the next.
inline void TransposeTile(const uint8_t *from, std::size_t from_line, uint8_t *to, std::size_t to_line) {
  const auto load = [=](std::size_t line) {
    Longs values;
    std::memcpy(&values, from + line * from_line, sizeof(values));
    return values;
  };
  Longs a = load(0), b = load(1), c = load(2), d = load(3), e = load(4), f = load(5), g = load(6), h = load(7);
  const auto exchange = [](Longs *first, Longs *second, Longs *third, Longs *fourth) {
    Exchange(first, second, 16, 0x0000FFFF0000FFFFull);
    Exchange(third, fourth, 16, 0x0000FFFF0000FFFFull);
    Exchange(first, third, 32, 0x00000000FFFFFFFFull);
    Exchange(second, fourth, 32, 0x00000000FFFFFFFFull);
  };
  exchange(&a, &b, &c, &d);
  exchange(&e, &f, &g, &h);
  ExchangeHalves(&a, &e);
  ExchangeHalves(&b, &f);
  ExchangeHalves(&c, &g);
  ExchangeHalves(&d, &h);
  for (const Longs &line : {a, b, c, d, e, f, g, h}) {
    std::memcpy(to, &line, sizeof(line));
    to += to_line;
  }
}

template <class Value>
void MoveBlock(const uint8_t *from, uint8_t *to, BlockSteps steps, uint32_t count, uint32_t lines) {
  if (sizeof(Value) == 2 && count == 8 && lines == 8 && steps.from == 1 && steps.to_line == 1)
    return TransposeTile(from, 2 * steps.from_line, to, 2 * steps.to);
  if (sizeof(Value) == 2 && count == 8 && steps.from == 1 && steps.to == 1)
    return MoveSpan<Longs>(from, 2 * steps.from_line, to, 2 * steps.to_line, lines);
  const std::size_t read = sizeof(Value) * steps.from, written = sizeof(Value) * steps.to;
  for (; lines > 0; --lines, from += steps.from_line * sizeof(Value), to += steps.to_line * sizeof(Value))
    MoveSpan<Value>(from, read, to, written, count);
}

// Elements along two axes of an array, which grow different digits of the positions in both maps.
class Plane {
 public:
  // A line has the elements of the inner axis.
  Plane(const Tensor &x, const Tensor &y, bool channels_first, ArrayAxis inner, ArrayAxis outer)
      : x_(x, channels_first), y_(y, channels_first), xs_(x, 0), ys_(y, 0), inner_(inner), outer_(outer),
        x_inner_(x_.Along(inner.from)), x_outer_(x_.Along(outer.from)), y_inner_(y_.Along(inner.to)), y_outer_(y_.Along(outer.to)) {}

  // Moves the elements of some lines, from positions on.
  void Move(uint32_t from, uint32_t to, uint32_t count, uint32_t lines) const {
    for (uint32_t moved; lines > 0; lines -= moved, from += moved * outer_.from, to += moved * outer_.to) {
      const Ordered::Place x = x_.At(from), y = y_.At(to);
      const Span a = x_.From(x, x_inner_), b = y_.From(y, y_inner_), c = x_.From(x, x_outer_), d = y_.From(y, y_outer_);
      const uint32_t length = std::min(count, std::min(a.count, b.count));
      moved = std::min(lines, std::min(c.count, d.count));
      // Lines of what lies together in both maps, or in x, or else of most elements.
      const auto worth = [](const Span &in_x, const Span &in_y, uint32_t number) {
        return number == 1 ? 0u : in_x.step == 1 && in_y.step == 1 ? 1u << 31 : in_x.step == 1 && number == 8 ? 1u << 30 : number;
      };
      const bool is_line = worth(a, b, length) >= worth(c, d, moved);
      const BlockSteps steps = is_line ? BlockSteps{a.step, b.step, c.step, d.step} : BlockSteps{c.step, d.step, a.step, b.step};
      MoveElements(x.number, y.number, steps, is_line ? length : moved, is_line ? moved : length);
      if (length < count) Move(from + length * inner_.from, to + length * inner_.to, count - length, moved);
    }
  }

 private:
  void MoveElements(std::size_t from, std::size_t to, BlockSteps steps, uint32_t count, uint32_t lines) const {
    if (xs_.is_half && ys_.is_half) return MoveBlock<uint16_t>(xs_.At(from), ys_.At(to), steps, count, lines);
    if (xs_.is_half == ys_.is_half) return MoveBlock<uint32_t>(xs_.At(from), ys_.At(to), steps, count, lines);
    for (; lines > 0; --lines, from += steps.from_line, to += steps.to_line)
      for (uint32_t i = 0; i < count; ++i) ys_.SetOne(to + i * steps.to, xs_.GetOne(from + i * steps.from));
  }

  const Ordered x_, y_;
  const Elements xs_, ys_;
  const ArrayAxis inner_, outer_;
  const Ordered::Growth x_inner_, x_outer_, y_inner_, y_outer_;
};

// Takes the axis along which most elements lie in equal distances, and whose positions grow in other digits than those of `beside`.
inline ArrayAxis TakeLongest(std::vector<ArrayAxis> *axes, const Ordered &x, const Ordered &y, const ArrayAxis *beside) {
  ArrayAxis longest = {1, 1, 1};
  std::size_t place = axes->size();
  uint32_t most = 0;
  for (std::size_t i = 0; i < axes->size(); ++i) {
    const ArrayAxis axis = (*axes)[i];
    const Ordered::Growth from = x.Along(axis.from), to = y.Along(axis.to);
    if (beside && (from.digit == x.Along(beside->from).digit || to.digit == y.Along(beside->to).digit)) continue;
    const uint32_t together = std::min(axis.length, std::min(x.Most(from), y.Most(to)));
    if (together < most) continue;
    most = together;
    longest = axis;
    place = i;
  }
  if (place < axes->size()) axes->erase(axes->begin() + static_cast<std::ptrdiff_t>(place));
  return longest;
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
  const Ordered source(x, channels_first), target(y, channels_first);
  const ArrayAxis inner = TakeLongest(&all, source, target, nullptr), outer = TakeLongest(&all, source, target, &inner);
  const uint32_t most = 64;  // of a line at once
  Share(x.threads, x.Size() / inner.length, inner.length, [&](std::size_t first, std::size_t last) {
    const Plane plane(x, y, channels_first, inner, outer);
    for (std::size_t number = first, lines; number < last; number += lines) {
      std::size_t rest = number / outer.length;
      const uint32_t line = static_cast<uint32_t>(number % outer.length);
      lines = std::min(last - number, static_cast<std::size_t>(outer.length - line));
      uint32_t from = line * outer.from, to = line * outer.to;
      for (const ArrayAxis &axis : all) {
        const uint32_t i = static_cast<uint32_t>(rest % axis.length);
        rest /= axis.length;
        from += i * axis.from;
        to += i * axis.to;
      }
      for (uint32_t i = 0; i < inner.length; i += most)
        plane.Move(from + i * inner.from, to + i * inner.to, std::min(most, inner.length - i), static_cast<uint32_t>(lines));
    }
  });
  y.ClearRest();
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_TRANSPOSE_RESHAPE_H
