// The part of the C interface that packs weights.
#include <cerrno>
#include <cstring>
#include <vector>

#include "dmp_dv.h"
#include "error.h"
#include "weights.h"

namespace dv {
namespace {

// A file of bytes that is written from its start to its end.
class Stream {
 public:
  void append(const void *from, std::size_t bytes) {
    const auto *first = static_cast<const uint8_t *>(from);
    data_.insert(data_.end(), first, first + bytes);
  }
  void append_zeros(std::size_t bytes) { data_.resize(data_.size() + bytes); }
  void round_up_16() { data_.resize((data_.size() + 15) / 16 * 16); }
  const std::vector<uint8_t> &data() const { return data_; }

 private:
  std::vector<uint8_t> data_;
};

void check_positive(const char *name, int value) {
  if (value < 1) throw Error(name + (" = " + std::to_string(value)) + ": it is at least 1");
}

// Gives the bytes to the caller, or their number. Returns the value of the C function.
int deliver(const std::vector<uint8_t> &packed, uint8_t *to, size_t *bytes) {
  const size_t room = *bytes;
  *bytes = packed.size();
  if (room == 0) return 0;
  if (!to) throw Error("packed_weights is null, but packed_weights_size is " + std::to_string(room));
  if (room < packed.size())
    throw Error("packed_weights_size = " + std::to_string(room) + ": the weights have " +
                std::to_string(packed.size()) + " bytes");
  std::memcpy(to, packed.data(), packed.size());
  return 0;
}

struct Kernels {
  int channels, kx, ky, outputs;
  bool dilated;
  const uint16_t *palette;
  const void *weights;
  const uint16_t *bias, *slopes;

  int plane() const { return dilated ? 1 : (kx > ky ? kx : ky) | 1; }
  std::size_t element_bytes() const { return palette ? 1 : 2; }
};

// One value an output of the block; zeros without values.
void append_header(Stream &stream, const Kernels &k, int block, const uint16_t *values) {
  const int existing = std::min(8, k.outputs - block);
  if (values)
    stream.append(values + block, 2 * size(existing));
  else
    stream.append_zeros(2 * size(existing));
  stream.append_zeros(2 * size(8 - existing));
}

// The channels first to last - 1 of an output, one tile. (row, column): the tap of a dilated convolution.
void append_tile(Stream &stream, const Kernels &k, int output, int first, int last, int row, int column) {
  const std::size_t bytes = k.element_bytes();
  uint8_t tile[72 * 2] = {};
  const int plane = k.plane(), top = k.dilated ? 0 : plane - k.ky;
  for (int c = first; c < last && k.weights; ++c)
    for (int y = 0; y < (k.dilated ? 1 : k.ky); ++y)
      for (int x = 0; x < (k.dilated ? 1 : k.kx); ++x) {
        const std::size_t from = ((size(output) * size(k.channels) + size(c)) * size(k.ky) + size(row + y)) * size(k.kx) +
                                 size(column + x);
        const int place = tile_position(plane, c % channels_of_tile(plane), top + y, x);
        std::memcpy(tile + size(place) * bytes, static_cast<const uint8_t *>(k.weights) + from * bytes, bytes);
      }
  stream.append(tile, 72 * bytes);
}

void append_tap(Stream &stream, const Kernels &k, int row, int column, bool last_tap) {
  const int per_tile = channels_of_tile(k.plane()), chunk = std::max(per_tile, 8);
  for (int block = 0; block < k.outputs; block += 8) {
    append_header(stream, k, block, last_tap ? k.bias : nullptr);
    if (k.slopes) append_header(stream, k, block, last_tap ? k.slopes : nullptr);
    for (int start = 0; start < k.channels; start += chunk)
      for (int output = block; output < std::min(block + 8, k.outputs); ++output)
        for (int c = start; c < std::min(start + chunk, k.channels); c += per_tile)
          append_tile(stream, k, output, c, std::min(c + per_tile, k.channels), row, column);
  }
  stream.round_up_16();
}

int pack_kernels(const Kernels &k, uint8_t *packed, size_t *bytes) {
  return guarded(EINVAL, [&] {
    if (!bytes) throw Error("packed_weights_size is null");
    check_positive("n_channels", k.channels);
    check_positive("n_kernels", k.outputs);
    for (const int kernel : {k.kx, k.ky})
      if (kernel < 1 || kernel > 7)
        throw Error("a kernel of " + std::to_string(k.kx) + "x" + std::to_string(k.ky) +
                    ": 1 to 7 in each direction is possible");
    if (*bytes && (!k.weights || !k.bias)) throw Error("weights or bias is null");
    Stream stream;
    if (k.palette) stream.append(k.palette, 512);
    for (int y = 0; y < (k.dilated ? k.ky : 1); ++y)
      for (int x = 0; x < (k.dilated ? k.kx : 1); ++x)
        append_tap(stream, k, y, x, !k.dilated || (y == k.ky - 1 && x == k.kx - 1));
    return deliver(stream.data(), packed, bytes);
  });
}

// For each element of a map in the device's order, its place in the order channel, row, column.
std::vector<std::size_t> device_order(int channels, int height, int width) {
  std::vector<std::size_t> places;
  for (int start = 0; start < channels; start += 8)
    for (int x = 0; x < width; ++x)
      for (int y = 0; y < height; ++y)
        for (int c = start; c < std::min(start + 8, channels); ++c)
          places.push_back((size(c) * size(height) + size(y)) * size(width) + size(x));
  return places;
}

}  // namespace
}  // namespace dv

int dmp_dv_pack_conv_weights(int n_channels, int kx, int ky, int n_kernels, const uint16_t quant_map[256],
                             const void *weights, const uint16_t *bias, const uint16_t *prelu, uint8_t *packed_weights,
                             size_t *packed_weights_size) {
  const dv::Kernels kernels{n_channels, kx, ky, n_kernels, false, quant_map, weights, bias, prelu};
  return dv::pack_kernels(kernels, packed_weights, packed_weights_size);
}

int dmp_dv_pack_dil_weights(int n_channels, int kx, int ky, int n_kernels, const uint16_t quant_map[256],
                            const void *weights, const uint16_t *bias, const uint16_t *prelu, uint8_t *packed_weights,
                            size_t *packed_weights_size) {
  const dv::Kernels kernels{n_channels, kx, ky, n_kernels, true, quant_map, weights, bias, prelu};
  return dv::pack_kernels(kernels, packed_weights, packed_weights_size);
}

int dmp_dv_pack_fc_weights(int c_input, int h_input, int w_input, int c_output, int h_output, int w_output,
                           const uint16_t quant_map[256], const void *weights, const uint16_t *bias,
                           uint8_t *packed_weights, size_t *packed_weights_size) {
  return dv::guarded(EINVAL, [&] {
    if (!packed_weights_size) throw dv::Error("packed_weights_size is null");
    for (const int extent : {c_input, h_input, w_input, c_output, h_output, w_output})
      dv::check_positive("a dimension", extent);
    if (*packed_weights_size && (!weights || !bias)) throw dv::Error("weights or bias is null");
    const auto inputs = dv::device_order(c_input, h_input, w_input);
    const auto outputs = dv::device_order(c_output, h_output, w_output);
    const std::size_t bytes = quant_map ? 1 : 2;
    dv::Stream stream;
    if (quant_map) stream.append(quant_map, 512);
    if (*packed_weights_size == 0) {
      stream.append_zeros(inputs.size() * outputs.size() * bytes);
      stream.round_up_16();
      stream.append_zeros(2 * outputs.size());
    } else {
      const auto *from = static_cast<const uint8_t *>(weights);
      for (const std::size_t output : outputs)
        for (const std::size_t input : inputs) stream.append(from + (output * inputs.size() + input) * bytes, bytes);
      stream.round_up_16();
      stream.append(bias, outputs.size() * sizeof(*bias));
    }
    stream.round_up_16();
    return dv::deliver(stream.data(), packed_weights, packed_weights_size);
  });
}
