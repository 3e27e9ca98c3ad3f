// A feature map in FP32, as the device's units see it.
#ifndef DV_MAP_H
#define DV_MAP_H

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include "command.h"

namespace dv {

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
  // Channels of a chunk.
  int width(int chunk) const { return channels_ - 8 * chunk < 8 ? channels_ - 8 * chunk : 8; }
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

// Device memory to a map of the size that it has, and back. The range is inside the memory.
void load(const Memory &memory, uint64_t offset, Map &map);
void store(const Map &map, Memory &memory, uint64_t offset);

// Rounds every value to FP16.
void round_to_half(Map &map);

}  // namespace dv

#endif
