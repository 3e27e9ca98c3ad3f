// Elements that move from map to map. Their bits stay, unless one map has FP16 and the other FP32.
#ifndef CPU_FUNCTIONS_MOVES_H
#define CPU_FUNCTIONS_MOVES_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "block.h"
#include "tensor.h"
#include "threads.h"

namespace cpu_functions {

// A number for each axis.
struct Steps {
  int y, x, c;
};

// Rows, columns and channels of a map; -1 stands for the filling number.
struct Positions {
  std::vector<int> rows, columns, channels;
};

inline std::vector<int> Range(int count, int start = 0, int stride = 1) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  for (int &number : numbers) {
    number = start;
    start += stride;
  }
  return numbers;
}

// Pixels that move, row by row, or column by column if that is the order of y. lines, pixels: the numbers of their first ones in
// x, or -1. line, pixel: from one to the next in y.
struct Pixels {
  std::vector<int> lines, pixels;
  std::size_t line, pixel;

  Pixels(const Tensor &x, const Positions &positions, const Tensor &y) : lines(positions.rows), pixels(positions.columns) {
    line = y.Pixel(1, 0);
    pixel = y.Pixel(0, 1);
    for (int &row : lines) row = row < 0 ? row : static_cast<int>(x.Pixel(row, 0));
    for (int &column : pixels) column = column < 0 ? column : static_cast<int>(x.Pixel(0, column));
    if (pixel == 1 && y.width > 1) return;
    std::swap(lines, pixels);
    std::swap(line, pixel);
  }
};

// Channels that lie together in both maps. from, to: those of the first pixels. steps: elements from pixel to pixel.
struct Run {
  Elements from, to;
  std::size_t from_step, to_step, count;
};

inline std::vector<Run> RunsOf(const Tensor &x, const std::vector<int> &channels, const Tensor &y, Steps begin, Elements filling) {
  std::vector<Run> runs;
  int before = 0, to = begin.c;
  for (const int from : channels) {
    const bool is_next = from < 0 ? before < 0 : from == before + 1 && from != x.First(from);
    if (!runs.empty() && is_next && to != y.First(to)) {
      ++runs.back().count;
    } else {
      const Elements first = from < 0 ? filling : Elements(x, x.Index(0, 0, from));
      const std::size_t step = from < 0 ? 0 : static_cast<std::size_t>(x.Step(x.First(from)));
      runs.push_back({first, Elements(y, y.Index(begin.y, begin.x, to)), step, static_cast<std::size_t>(y.Step(y.First(to))), 1});
    }
    before = from;
    ++to;
  }
  return runs;
}

// The channels of a pixel on their way: so many bytes, in registers as two words that may overlap, or of any number and type.
template <std::size_t kBytes>
struct Loaded {
  typedef typename std::conditional<kBytes >= 4, uint32_t, uint16_t>::type Short;
  typedef typename std::conditional<kBytes >= 8, uint64_t, Short>::type Long;
  typedef typename std::conditional<kBytes == 32, Halves, Long>::type Word;
  static const std::size_t kLast = kBytes - sizeof(Word);
  Word first, last;
  explicit Loaded(const uint8_t *from) {
    std::memcpy(&first, from, sizeof(first));
    std::memcpy(&last, from + kLast, sizeof(last));
  }
  void Store(const Run &, const uint8_t *, uint8_t *to) const {
    std::memcpy(to, &first, sizeof(first));
    std::memcpy(to + kLast, &last, sizeof(last));
  }
};

template <>
struct Loaded<0> {
  const uint8_t *from;
  explicit Loaded(const uint8_t *first) : from(first) {}
  void Store(const Run &run, const uint8_t *filling, uint8_t *to) const {
    const bool is_same = from == filling || run.from.is_half == run.to.is_half;
    if (is_same) std::memcpy(to, from, run.to.Bytes(run.count));
    else Transform(Elements(const_cast<uint8_t *>(from), run.from.is_half), Elements(to, run.to.is_half), run.count, Same{});
  }
};

// Some lines of a run. Four pixels at once keep processors busy that work in order.
template <std::size_t kBytes>
void MoveLines(const Run &run, const Pixels &all, std::size_t first, std::size_t last, const uint8_t *filling) {
  const std::size_t to_step = run.to.Bytes(run.to_step * all.pixel);
  for (std::size_t i = first; i < last; ++i) {
    const bool is_filled = all.lines[i] < 0 || run.from_step == 0;
    const std::size_t from_step = is_filled ? 0 : run.from.Bytes(run.from_step);
    const uint8_t *const from = is_filled ? filling : run.from.At(static_cast<std::size_t>(all.lines[i]) * run.from_step);
    const auto at = [=](int pixel) { return pixel < 0 ? filling : from + static_cast<std::size_t>(pixel) * from_step; };
    uint8_t *to = run.to.At(i * all.line * run.to_step);
    const int *pixel = all.pixels.data(), *const end = pixel + all.pixels.size();
    for (; end - pixel >= 4; pixel += 4, to += 4 * to_step) {
      const Loaded<kBytes> a(at(pixel[0])), b(at(pixel[1])), c(at(pixel[2])), d(at(pixel[3]));
      a.Store(run, filling, to);
      b.Store(run, filling, to + to_step);
      c.Store(run, filling, to + 2 * to_step);
      d.Store(run, filling, to + 3 * to_step);
    }
    for (; pixel != end; ++pixel, to += to_step) Loaded<kBytes>(at(*pixel)).Store(run, filling, to);
  }
}

// A map of one pixel as one of a channel, whose pixels are its channels.
inline Tensor AsColumn(const Tensor &t) {
  return Tensor(Memory(t.data, t.threads), 0, t.channels, 1, 1, t.is_half ? kHalf : kFloat);
}

// The part of y that begins somewhere = x at all combinations of rows, columns and channels. number: the filling one.
inline void Move(const Tensor &x, const Positions &positions, const Tensor &y, Steps begin = {0, 0, 0}, float number = 0.0f) {
  if (x.channels > 1 && x.Size() == static_cast<std::size_t>(x.channels) && y.Size() == static_cast<std::size_t>(y.channels)) {
    const int only = std::min(positions.rows[0], positions.columns[0]);
    Move(AsColumn(x), {positions.channels, {only}, {0}}, AsColumn(y), Steps{begin.c, 0, 0}, number);
    y.ClearRest();
    return;
  }
  std::vector<uint8_t> filled(4 * positions.channels.size());
  const Elements filling(filled.data(), y.is_half);
  for (std::size_t i = 0; i < positions.channels.size(); ++i) filling.SetOne(i, number);
  const Pixels pixels(x, positions, y);
  const std::vector<Run> runs = RunsOf(x, positions.channels, y, begin, filling);
  const std::size_t lines = pixels.lines.size(), elements = pixels.pixels.size() * positions.channels.size() / runs.size();
  Share(y.threads, runs.size() * lines, std::max(elements, static_cast<std::size_t>(1)), [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first, end; i < last; i = end) {
      const Run &run = runs[i / lines];
      const std::size_t line = i % lines;
      end = std::min(last, i - line + lines);
      const auto move = [&](void (*f)(const Run &, const Pixels &, std::size_t, std::size_t, const uint8_t *)) {
        f(run, pixels, line, line + end - i, filled.data());
      };
      switch (x.is_half == y.is_half ? run.to.Bytes(run.count) : 0) {
        case 2: move(MoveLines<2>); break;
        case 4: move(MoveLines<4>); break;
        case 6: move(MoveLines<6>); break;
        case 8: move(MoveLines<8>); break;
        case 10: move(MoveLines<10>); break;
        case 12: move(MoveLines<12>); break;
        case 14: move(MoveLines<14>); break;
        case 16: move(MoveLines<16>); break;
        case 32: move(MoveLines<32>); break;
        default: move(MoveLines<0>);
      }
    }
  });
  y.ClearRest();
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_MOVES_H
