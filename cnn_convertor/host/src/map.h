// A feature map in FP32, as the device's units see it.
#ifndef DV_MAP_H
#define DV_MAP_H

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>

#include "command.h"

namespace dv {

// Channels of a chunk.
inline int width_of_chunk(int channels, int chunk) { return channels - 8 * chunk < 8 ? channels - 8 * chunk : 8; }

// Chunks of 8 channels, each major x minor x 8; a narrow last chunk is filled up with zeros. major is the outer axis
// in device memory (width, or height in transposed mode) and minor the inner one.
class Map {
 public:
  Map() = default;
  Map(const Map &) = delete;
  Map(Map &&) = default;
  Map &operator=(Map &&) = default;
  Map &operator=(const Map &other) {
    resize(other.major_, other.minor_, other.channels_);
    std::copy(other.chunk(0), other.chunk(other.chunks()), chunk(0));
    return *this;
  }

  // Contents are undefined afterwards. Memory is kept for the next, smaller map.
  void resize(int major, int minor, int channels) {
    major_ = major, minor_ = minor, channels_ = channels;
    const std::size_t needed = static_cast<std::size_t>(chunks()) * chunk_size();
    if (needed <= capacity_) return;
    data_.reset(static_cast<float *>(std::aligned_alloc(64, (needed * sizeof(float) + 63) / 64 * 64)));
    capacity_ = data_ ? needed : 0;
    if (!data_) throw std::bad_alloc();
  }
  void resize(const Shape &shape, bool transposed) {
    transposed ? resize(shape.height, shape.width, shape.channels) : resize(shape.width, shape.height, shape.channels);
  }

  int major() const { return major_; }
  int minor() const { return minor_; }
  int channels() const { return channels_; }
  int chunks() const { return (channels_ + 7) / 8; }
  int width(int chunk) const { return width_of_chunk(channels_, chunk); }
  std::size_t positions() const { return static_cast<std::size_t>(major_) * static_cast<std::size_t>(minor_); }
  std::size_t chunk_size() const { return 8 * positions(); }
  float *chunk(int index) { return data_.get() + static_cast<std::size_t>(index) * chunk_size(); }
  const float *chunk(int index) const { return data_.get() + static_cast<std::size_t>(index) * chunk_size(); }

 private:
  struct Free {
    void operator()(float *data) const { std::free(data); }
  };
  int major_ = 0, minor_ = 0, channels_ = 0;
  std::size_t capacity_ = 0;
  std::unique_ptr<float, Free> data_;
};

// Takes a piece of a map, count positions of a chunk from position first on, as 8 * count values. It may change the
// values. Pieces come from several threads.
using Take = std::function<void(int chunk, std::size_t first, std::size_t count, float *values)>;

// Gives a copy of the map, piece by piece.
void visit(const Map &map, const Take &take);

// Device memory to a map of the size that it has. The range is inside the memory.
void load(const Memory &memory, uint64_t offset, Map &map);

// A piece of a map of that shape to device memory, where the map starts at the offset.
void store(const Shape &shape, int chunk, std::size_t first, std::size_t count, const float *values, Memory &memory,
           uint64_t offset);

}  // namespace dv

#endif
