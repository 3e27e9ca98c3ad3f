// Feature maps in the I/O memory.
#ifndef CPU_FUNCTIONS_TENSOR_H
#define CPU_FUNCTIONS_TENSOR_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "half.h"
#include "order.h"
#include "threads.h"

namespace cpu_functions {

// How a map lies in memory: chunks of channels lie one after the other, and in each the pixels. Chunks have 8 channels, the last
// one what is left, and pixels row by row or column by column; or else whole atoms of 16 channels, and pixels row by row.
enum Format {
  kHalf,        // FP16, in chunks
  kFloat,       // FP32, in chunks
  kFloatPlain,  // FP32, in the order height, width, channels
  kAtoms,       // FP16, in atoms
  kFloatAtoms   // FP32, in atoms
};

// The I/O memory, and the threads that work on it; null: the calling thread alone.
struct Memory {
  uint8_t *data;
  Threads *threads;
  Memory(uint8_t *bytes, Threads *workers = nullptr) : data(bytes), threads(workers) {}
};

// A map in the I/O memory.
class Tensor {
 public:
  const int height, width, channels;
  uint8_t *const data;
  Threads *const threads;
  const bool is_half, has_atoms;

  Tensor(const Memory &io, std::size_t offset, int rows, int columns, int depth, Format format)
      : height(rows),
        width(columns),
        channels(depth),
        data(io.data + offset),
        threads(io.threads),
        is_half(format == kHalf || format == kAtoms),
        has_atoms(format == kAtoms || format == kFloatAtoms),
        shift_(has_atoms ? 4 : format == kFloatPlain || depth <= 8 || rows * columns == 1 ? 31 : 3),
        most_(shift_ == 31 ? depth : 1 << shift_),
        least_(has_atoms ? most_ : 0),
        row_(format >= kFloatPlain || kRowByRow ? columns : 1),
        column_(format >= kFloatPlain || kRowByRow ? 1 : rows) {}

  float Get(int y, int x, int c) const {
    const uint8_t *place = data + Index(y, x, c) * (is_half ? 2 : 4);
    if (is_half) {
      uint16_t half;
      std::memcpy(&half, place, sizeof(half));
      return FromHalf(half);
    }
    float value;
    std::memcpy(&value, place, sizeof(value));
    return value;
  }

  void Set(int y, int x, int c, float value) const {
    uint8_t *place = data + Index(y, x, c) * (is_half ? 2 : 4);
    if (is_half) {
      const uint16_t half = ToHalf(value);
      std::memcpy(place, &half, sizeof(half));
    } else {
      std::memcpy(place, &value, sizeof(value));
    }
  }

  std::size_t Size() const { return static_cast<std::size_t>(height) * width * channels; }

  // How many elements the memory has, with those beyond the last channel in atoms.
  std::size_t Stored() const { return Size() / static_cast<std::size_t>(channels) * static_cast<std::size_t>(channels + Rest()); }

  // Writes zeros beyond the last channel.
  void ClearRest() const {
    const std::size_t element = is_half ? 2 : 4, bytes = static_cast<std::size_t>(Rest()) * element;
    if (bytes == 0) return;
    ForPixels(Rest(), [=](int y, int x) { std::memset(data + (Index(y, x, channels - 1) + 1) * element, 0, bytes); });
  }

  // Whether pixels, and the channels of each, lie in the same order. Pixels of maps with one channel may be those of any.
  bool LiesLike(const Tensor &t) const {
    return height == t.height && width == t.width && channels == t.channels && shift_ == t.shift_ && PixelsLieLike(t);
  }
  bool PixelsLieLike(const Tensor &t) const {
    return height == t.height && width == t.width && row_ == t.row_ && column_ == t.column_;
  }

  // Whether the elements lie in the order height, width, channels.
  bool LiesPlain() const {
    const bool is_row_by_row = row_ == static_cast<std::size_t>(width) || height == 1 || width == 1;
    return height * width == 1 || (Step(0) == channels && is_row_by_row);
  }

  // The number of an element, counted in the order of the memory.
  std::size_t Index(int y, int x, int c) const {
    const int first = First(c);
    return static_cast<std::size_t>(first) * height * width + Pixel(y, x) * Step(first) + (c - first);
  }

  // The number of a pixel, and the channel that begins a chunk.
  std::size_t Pixel(int y, int x) const { return static_cast<std::size_t>(y) * row_ + static_cast<std::size_t>(x) * column_; }
  int First(int c) const { return (c >> shift_) << shift_; }

  // How many channels of a pixel lie one after the other, beginning with one that begins a chunk.
  int Together(int first) const { return std::min(most_, channels - first); }
  // How many elements from one pixel to the next in such a chunk.
  int Step(int first) const { return std::max(least_, Together(first)); }

  // Calls f(y, x) for every pixel, each thread its own copy of f. elements: that are read or written for a pixel.
  template <class F>
  void ForPixels(int elements, const F &f) const {
    const std::size_t columns = static_cast<std::size_t>(width);
    Share(threads, columns * height, static_cast<std::size_t>(elements), [&](std::size_t first, std::size_t last) {
      F own = f;
      int y = static_cast<int>(first / columns), x = static_cast<int>(first % columns);
      for (std::size_t i = first; i < last; ++i) {
        own(y, x);
        if (++x < width) continue;
        x = 0;
        ++y;
      }
    });
  }

  // Calls f(y, x, c) for every element, near ones after each other.
  template <class F>
  void ForEach(const F &f) const {
    const std::size_t chunks = static_cast<std::size_t>((channels + 7) / 8), rows = static_cast<std::size_t>(height);
    Share(threads, chunks * rows, 8 * static_cast<std::size_t>(width), [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const int y = static_cast<int>(i % rows), begin = static_cast<int>(i / rows) * 8, end = std::min(begin + 8, channels);
        for (int x = 0; x < width; ++x)
          for (int c = begin; c < end; ++c) f(y, x, c);
      }
    });
  }

 private:
  int Rest() const { return Step(First(channels - 1)) - Together(First(channels - 1)); }

  int shift_;         // 3: chunks of 8 channels; 4: atoms; 31: all in one
  int most_, least_;  // elements of a pixel in a chunk
  std::size_t row_, column_;  // pixels from one row, or column, to the next
};

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_TENSOR_H
