// Image formats of CDMA.
#ifndef NVDLA_PIXELS_H
#define NVDLA_PIXELS_H

#include <cstddef>
#include <cstdint>

namespace nvdla {

// Of PIXEL_FORMAT. order: which component in memory is each channel; bits: of a component; a plane of its own for Y.
struct PixelFormat {
  uint32_t precision;
  std::size_t planes, channels, bits;
  uint8_t order[4];

  std::size_t bytes(std::size_t plane) const {
    if (planes == 1) return bits == 10 ? 4 : channels * bits / 8;
    return (plane + 1) * bits / 8;
  }
};

constexpr uint32_t kPixelFormats = 36;
const PixelFormat &pixel_format(uint32_t number);

// The components of a pixel by channel. plane1: of the second plane. sign: components are signed.
void read_pixel(const PixelFormat &format, const uint8_t *plane0, const uint8_t *plane1, bool sign, int32_t *channels);

}  // namespace nvdla

#endif
