// Functions that take a map piece by piece, one after the other, so that the maps between them stay in the cache.
#ifndef CPU_FUNCTIONS_IN_PIECES_H
#define CPU_FUNCTIONS_IN_PIECES_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "block.h"
#include "tensor.h"
#include "threads.h"

namespace cpu_functions {

struct Sum {
  template <class V>
  V operator()(V x, V y) const { return x + y; }
};

// The average of so many elements, or a factor of the sum.
struct Averaged {
  float factor, count;
  template <class V>
  V operator()(V sum) const { return factor != 0.0f ? sum * Each<V>(factor) : sum / Each<V>(count); }
};

// Pixels that lie one after the other, of channels that lie together.
class Piece {
 public:
  // rooms: for maps between two functions.
  Piece(const Tensor &map, std::size_t rooms) : map_(map), rooms_(rooms * Most(map) * Step(map, 0)), sums_(Step(map, 0)) {}

  static std::size_t Together(const Tensor &map) { return static_cast<std::size_t>(map.Together(0)); }
  static std::size_t Step(const Tensor &map, std::size_t channel) { return static_cast<std::size_t>(map.Step(static_cast<int>(channel))); }
  static std::size_t Pixels(const Tensor &map) { return map.Size() / static_cast<std::size_t>(map.channels); }
  // How many pixels a piece has, but for the last one of its channels.
  static std::size_t Most(const Tensor &map) { return std::max(2048 / Step(map, 0), static_cast<std::size_t>(1)); }

  void MoveTo(std::size_t channel, std::size_t pixel) {
    channel_ = channel;
    pixel_ = pixel;
    pixels_ = std::min(Most(map_), Pixels(map_) - pixel);
    together_ = static_cast<std::size_t>(map_.Together(static_cast<int>(channel)));
  }

  // What belongs to the piece of a map that lies like the whole one, or repeats its pixels, its channels or both.
  Tensor Of(const Tensor &t) const {
    const bool has_channels = t.channels == map_.channels, has_pixels = Pixels(t) == Pixels(map_);
    const std::size_t together = has_channels ? together_ : 1, pixels = has_pixels ? pixels_ : 1;
    const std::size_t channel = has_channels ? channel_ : 0, pixel = has_pixels ? pixel_ * Step(t, channel) : 0;
    return Part(Elements(t, channel * Pixels(t) + pixel), pixels, together, t.has_atoms && map_.has_atoms);
  }

  // The same where t begins with a map that lies like the whole one, and of the number for each channel that follows it.
  Tensor First(const Tensor &t) const {
    return Part(Elements(t, channel_ * Pixels(map_) + pixel_ * Step(map_, channel_)), pixels_, together_, map_.has_atoms);
  }
  Tensor Rest(const Tensor &t) const { return Part(Elements(t, map_.Stored() + channel_), 1, together_, false); }

  Tensor Room(std::size_t number) {
    float *const room = rooms_.data() + number * Most(map_) * Step(map_, 0);
    return Part(Elements(reinterpret_cast<uint8_t *>(room), false), pixels_, together_, map_.has_atoms);
  }

  // Adds the pixels of a piece to those of the same channels before it. The last piece gives y = the average, or a factor of the sum.
  void Average(const Tensor &x, const Tensor &y, float factor) {
    const Elements from(x, 0), sums(reinterpret_cast<uint8_t *>(sums_.data()), false);
    if (pixel_ == 0) std::fill(sums_.begin(), sums_.end(), 0.0f);
    const std::size_t step = Step(x, 0), end = step * pixels_, whole = together_ / 8 * 8;
    for (std::size_t c = 0; c < whole; c += 8) {
      Eight total = sums.Get(c);
      if (step == 8) {  // a constant distance is faster
        for (std::size_t i = 0; i < end; i += 8) total = Apply(Sum{}, total, from.Get(i));
      } else {
        for (std::size_t i = c; i < end; i += step) total = Apply(Sum{}, total, from.Get(i));
      }
      sums.Set(c, total);
    }
    for (std::size_t i = 0; i < end && whole < together_; i += step)
      for (std::size_t c = whole; c < together_; ++c) sums_[c] += from.GetOne(i + c);
    const std::size_t all = Pixels(map_);
    if (pixel_ + pixels_ == all) Transform(sums, Elements(y, 0), Step(y, 0), Averaged{factor, static_cast<float>(all)});
  }

 private:
  static Tensor Part(Elements first, std::size_t pixels, std::size_t together, bool has_atoms) {
    const Format in_chunks = first.is_half ? kHalf : together > 8 ? kFloatPlain : kFloat;
    const Format format = !has_atoms ? in_chunks : first.is_half ? kAtoms : kFloatAtoms;
    return Tensor(Memory(first.At(0)), 0, 1, static_cast<int>(pixels), static_cast<int>(together), format);
  }

  const Tensor &map_;
  std::size_t channel_ = 0, pixel_ = 0, together_ = 0, pixels_ = 0;
  std::vector<float> rooms_, sums_;
};

// Calls f(piece) for all pieces of a map, each thread with rooms of its own. has_sums: whether one thread has all pixels of a
// channel, in their order.
template <class Function>
void InPieces(const Tensor &map, std::size_t rooms, bool has_sums, const Function &f) {
  const std::size_t most = Piece::Most(map), together = Piece::Together(map), pieces = (Piece::Pixels(map) + most - 1) / most;
  const std::size_t chunks = (static_cast<std::size_t>(map.channels) + together - 1) / together, each = has_sums ? pieces : 1;
  Share(map.threads, chunks * pieces / each, each * most * together, [&](std::size_t first, std::size_t last) {
    Piece piece(map, rooms);
    for (std::size_t i = first * each; i < last * each; ++i) {
      piece.MoveTo(i / pieces * together, i % pieces * most);
      f(piece);
    }
  });
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_IN_PIECES_H
