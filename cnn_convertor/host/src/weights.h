// Reads packed weights: biases, slopes and kernels of a run, straight from the bytes in device memory.
#ifndef DV_WEIGHTS_H
#define DV_WEIGHTS_H

#include <array>
#include <cstdint>
#include <vector>

#include "command.h"

namespace dv {

// Channels of a tile, for packed planes of 1, 3, 5 or 7.
int channels_of_tile(int plane);
// Rows times six plus columns: where tap (y, x) of channel c of a tile lies in it.
int tile_position(int plane, int c, int y, int x);

// Output channels are read in blocks of 8, input channels in chunks of 8. Taps are the kernel's positions in the order
// of the packed planes: rows (the axis that is inner in memory) outside, columns inside.
class PackedWeights {
 public:
  // Bytes that the packed weights of a run take.
  static uint64_t bytes(const Run &run);

  // transposed: the memory order of the command's maps.
  PackedWeights(const Run &run, bool transposed);

  int taps() const { return rows_ * columns_; }

  // Eight values each, zero for outputs that do not exist.
  void read_bias(int block, float *values) const;
  void read_slopes(int block, float *values) const;

  // Weights of a block for the chunks first to last - 1; first must be a multiple of 8. The weight of tap t, chunk
  // channel k and output o goes to values[(((chunk - first) * taps() + t) * 8 + k) * stride + o]: zero for outputs that
  // do not exist. values has room for rows() * stride floats; what else lies there is lost. Throws when the bytes hold a
  // value where zero must be.
  void read_kernels(int block, int first, int last, int stride, float *values) const;
  // Rows that a call of read_kernels for up to 8 chunks may write.
  int rows() const { return 72 * taps() + kTile; }

 private:
  static constexpr int kTile = 72;  // elements of 12 rows by 6 columns

  const uint8_t *header(int stream, int block) const;
  const uint8_t *tile(int stream, int block, int output, int chunk, int index) const;
  // The tiles of eight outputs: element i of all of them to row elements_[i].
  void read_tiles(const uint8_t *const *tiles, int stride, float *values) const;
  void expect_zeros(int first, int stride, const float *values, const uint8_t *const *tiles, int block) const;

  // FP16 elements from an address in the weights on.
  void read_elements(const uint8_t *from, int count, float *values) const;

  std::shared_ptr<Memory> exact_;  // of the weights, where they are unrounded; else none
  uint64_t offset_;                // of the run's weights
  const uint8_t *start_;
  int outputs_, channels_;
  int rows_, columns_, plane_;  // of the kernel; of the packed plane
  int streams_;                 // one, or one a tap when the convolution is dilated
  int chunk_channels_;          // input channels between two rounds over a block's outputs
  int tile_channels_;
  int tiles_;                   // of one output channel
  int element_bytes_;
  int header_bytes_;
  std::array<float, 256> palette_{};
  int tile_taps_;                    // taps that a tile holds: all, or one when the convolution is dilated
  std::array<int, kTile> places_{};  // in a tile: of each channel's taps, then of what must be zero
  // The rows to which the elements of a tile go, from its first channel on. What must be zero goes behind the tile's last chunk, where
  // the next tiles write.
  std::array<int, kTile> elements_{};
};

}  // namespace dv

#endif
