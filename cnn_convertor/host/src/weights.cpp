#include "weights.h"

#include <algorithm>
#include <cstring>

#include "half.h"
#include "vector_loops.h"

namespace dv {
namespace {

constexpr int kBlock = 8;           // output channels that share a header
constexpr int kPaletteBytes = 512;  // 256 FP16 values
constexpr int kCacheLine = 64;      // bytes
constexpr int kHeaderBytes = 16;    // eight biases, or eight slopes
const uint8_t kNothing[2 * 72] = {};  // the tile of an output that does not exist

uint64_t round_up_16(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

uint64_t count(int value) { return static_cast<uint64_t>(value); }

}  // namespace

int tile_position(int plane, int c, int y, int x) {
  int row = 0, column = 0;
  switch (plane) {
    case 7:
      if (x < 6) row = 5 + y, column = x;
      else if (y == 0) row = 2, column = 5;
      else if (y < 4) row = y - 1, column = 3;
      else row = y - 4, column = 0;
      break;
    case 5: row = 7 - 6 * c + y, column = x; break;
    case 3: row = 9 - 3 * (c / 2) + y, column = 3 * (c % 2) + x; break;
    default: {  // 1: eight groups of eight channels
      const int t = c % 8, group = c / 8;
      row = 11 - 3 * (t / 2) - group / 3, column = 3 * (t % 2) + group % 3;
    }
  }
  return row * 6 + column;
}

int channels_of_tile(int plane) { return plane == 7 ? 1 : plane == 5 ? 2 : plane == 3 ? 8 : 64; }

namespace {

// Numbers that both the size and the reader need.
struct Layout {
  explicit Layout(const Run &run)
      : outputs(run.output.channels),
        channels(run.depthwise ? 1 : run.input.channels),
        plane(run.dilated() ? 1 : run.plane()),
        streams(run.dilated() ? run.conv.size.x * run.conv.size.y : 1),
        palette(run.weight_format == WeightFormat::kPalette),
        headers(run.activation == Activation::kPrelu ? 2 : 1) {
    const int per_tile = channels_of_tile(plane);
    tiles = (channels + per_tile - 1) / per_tile;
  }

  // Bytes of one stream, with the palette that only the first has.
  uint64_t stream_bytes(bool first) const {
    const uint64_t blocks = count((outputs + kBlock - 1) / kBlock);
    const uint64_t elements = 72 * count(outputs) * count(tiles);
    return round_up_16((palette && first ? kPaletteBytes : 0) + elements * (palette ? 1 : 2) +
                       blocks * count(headers) * kHeaderBytes);
  }

  int outputs, channels, plane, streams;
  bool palette;
  int headers, tiles;
};

}  // namespace

uint64_t PackedWeights::bytes(const Run &run) {
  const Layout layout(run);
  return layout.stream_bytes(true) + count(layout.streams - 1) * layout.stream_bytes(false);
}

PackedWeights::PackedWeights(const Run &run, bool transposed) {
  const Layout layout(run);
  offset_ = run.weights_offset;
  start_ = run.weights->device_data() + offset_;
  if (!run.weights->context().residuals.empty()) exact_ = run.weights;
  outputs_ = layout.outputs;
  channels_ = layout.channels;
  rows_ = transposed ? run.conv.size.x : run.conv.size.y;
  columns_ = transposed ? run.conv.size.y : run.conv.size.x;
  plane_ = layout.plane;
  streams_ = layout.streams;
  tile_channels_ = channels_of_tile(plane_);
  chunk_channels_ = std::max(tile_channels_, 8);
  tiles_ = layout.tiles;
  element_bytes_ = layout.palette ? 1 : 2;
  header_bytes_ = layout.headers * kHeaderBytes;
  if (layout.palette) {
    widen_all(start_, palette_.size(), palette_.data());
    if (palette_[0] != 0.0f)
      throw Error("packed weights at byte " + std::to_string(run.weights_offset) + ": entry 0 of the palette is not 0");
  }
  tile_taps_ = streams_ > 1 ? 1 : taps();
  // Only the taps of the true kernel: extra rows of the plane are on top, extra columns on the right.
  std::array<bool, kTile> is_taken{};
  auto next = places_.begin();
  for (int c = 0; c < tile_channels_; ++c)
    for (int tap = 0; tap < tile_taps_; ++tap) {
      *next = streams_ > 1 ? tile_position(1, c, 0, 0)
                           : tile_position(plane_, c, plane_ - rows_ + tap / columns_, tap % columns_);
      elements_[count(*next)] = (c / 8 * taps() + tap) * 8 + c % 8;
      is_taken[count(*next++)] = true;
    }
  int unused = chunk_channels_ * taps();
  for (int place = 0; place < kTile; ++place)
    if (!is_taken[count(place)]) elements_[count(*next++ = place)] = unused++;
}

const uint8_t *PackedWeights::header(int stream, int block) const {
  const std::size_t full_block = count(header_bytes_) + count(kBlock * tiles_ * kTile * element_bytes_);
  const uint8_t *from = start_ + (element_bytes_ == 1 ? kPaletteBytes : 0) + count(block) * full_block;
  if (stream == 0) return from;
  // Later streams have no palette, so that they start that much earlier.
  const uint64_t blocks = count((outputs_ + kBlock - 1) / kBlock);
  const uint64_t body = count(outputs_) * count(tiles_ * kTile * element_bytes_) + blocks * count(header_bytes_);
  const uint64_t palette = element_bytes_ == 1 ? kPaletteBytes : 0;
  return start_ + round_up_16(palette + body) + count(stream - 1) * round_up_16(body) + count(block) * full_block;
}

const uint8_t *PackedWeights::tile(int stream, int block, int output, int chunk, int index) const {
  const int existing = std::min(kBlock, outputs_ - block * kBlock);
  const int full = chunk_channels_ / tile_channels_;  // tiles of a full chunk
  const int first_channel = chunk * chunk_channels_;
  const int here = std::min(full, (channels_ - first_channel + tile_channels_ - 1) / tile_channels_);
  const std::size_t tiles = count(existing) * count(chunk * full) + count(output * here + index);
  return header(stream, block) + header_bytes_ + tiles * kTile * count(element_bytes_);
}

void PackedWeights::read_tiles(const uint8_t *const *tiles, int stride, float *values) const {
  // The next tiles lie behind these, and are read after much else.
  const int bytes = kBlock * kTile * element_bytes_;
  for (int i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(tiles[0] + bytes + i);
  if (element_bytes_ == 2 && !exact_) return widen_columns(tiles, kTile, elements_.data(), stride, values);
  if (element_bytes_ == 2) {
    for (int output = 0; output < kBlock; ++output) {
      float tile[kTile] = {};
      if (tiles[output] != kNothing) read_elements(tiles[output], kTile, tile);
      for (int i = 0; i < kTile; ++i) values[elements_[count(i)] * stride + output] = tile[i];
    }
    return;
  }
  for (int i = 0; i < kTile; ++i) {
    float *row = values + elements_[count(i)] * stride;
    for (int output = 0; output < kBlock; ++output) row[output] = palette_[tiles[output][i]];
  }
}

void PackedWeights::read_elements(const uint8_t *from, int elements, float *values) const {
  if (!exact_) return widen_all(from, count(elements), values);
  exact_->read(offset_ + static_cast<uint64_t>(from - start_), count(elements), values);
}

void PackedWeights::read_bias(int block, float *values) const {
  // Of a dilated convolution's streams only the last one's biases count.
  read_elements(header(streams_ - 1, block), kBlock, values);
  for (int o = outputs_ - block * kBlock; o < kBlock; ++o)
    if (values[o] != 0.0f)
      throw Error("packed weights: the bias of output " + std::to_string(block * kBlock + o) + ", of " +
                  std::to_string(outputs_) + ", is not 0");
}

void PackedWeights::read_slopes(int block, float *values) const {
  read_elements(header(streams_ - 1, block) + kHeaderBytes, kBlock, values);
  for (int o = std::max(0, outputs_ - block * kBlock); o < kBlock; ++o) values[o] = 0.0f;
}

// first: of the places that must be zero.
void PackedWeights::expect_zeros(int first, int stride, const float *values, const uint8_t *const *tiles,
                                 int block) const {
  uint32_t bits[kBlock] = {};
  for (int i = first; i < kTile; ++i) {
    const float *row = values + elements_[count(places_[count(i)])] * stride;
    for (int output = 0; output < kBlock; ++output) bits[output] |= bits_of_float(row[output]);
  }
  for (int output = 0; output < kBlock; ++output)
    if ((bits[output] & 0x7fffffffu) != 0)
      throw Error("packed weights: the tile at byte " + std::to_string(tiles[output] - start_) +
                  " of the run's weights (output " + std::to_string(block * kBlock + output) +
                  ") has a value at a position that must be 0");
}

void PackedWeights::read_kernels(int block, int first, int last, int stride, float *values) const {
  const int existing = std::min(kBlock, outputs_ - block * kBlock);
  const int first_channel = first * 8, end_channel = std::min(channels_, last * 8);
  const uint8_t *tiles[kBlock];
  std::fill(tiles, tiles + kBlock, kNothing);
  for (int stream = 0; stream < streams_; ++stream)
    for (int t = first_channel; t < end_channel; t += tile_channels_) {
      const int chunk = t / chunk_channels_, index = t % chunk_channels_ / tile_channels_;
      for (int output = 0; output < existing; ++output) tiles[output] = tile(stream, block, output, chunk, index);
      float *to = values + (((t / 8 - first) * taps() + stream) * 8 + t % 8) * stride;
      read_tiles(tiles, stride, to);
      expect_zeros(std::min(tile_channels_, end_channel - t) * tile_taps_, stride, to, tiles, block);
    }
}

}  // namespace dv
