#include "pixels.h"

#include <cstring>

#include "nvdla_twin.h"

namespace nvdla {
namespace {

// 10 bits: words of three components of 10 bits and one of 2, which are widened to 16 bits.
constexpr PixelFormat kFormats[kPixelFormats] = {
    {kInt8, 1, 1, 8, {0}},            // T_R8
    {kInt16, 1, 1, 16, {0}},          // T_R10
    {kInt16, 1, 1, 16, {0}},          // T_R12
    {kInt16, 1, 1, 16, {0}},          // T_R16
    {kInt16, 1, 1, 16, {0}},          // T_R16_I
    {kFp16, 1, 1, 16, {0}},           // T_R16_F
    {kInt16, 1, 4, 16, {0, 1, 2, 3}},  // T_A16B16G16R16
    {kInt16, 1, 4, 16, {0, 1, 2, 3}},  // T_X16B16G16R16
    {kFp16, 1, 4, 16, {0, 1, 2, 3}},  // T_A16B16G16R16_F
    {kInt16, 1, 4, 16, {2, 1, 0, 3}},  // T_A16Y16U16V16
    {kInt16, 1, 4, 16, {1, 2, 3, 0}},  // T_V16U16Y16A16
    {kFp16, 1, 4, 16, {2, 1, 0, 3}},  // T_A16Y16U16V16_F
    {kInt8, 1, 4, 8, {0, 1, 2, 3}},   // T_A8B8G8R8
    {kInt8, 1, 4, 8, {2, 1, 0, 3}},   // T_A8R8G8B8
    {kInt8, 1, 4, 8, {1, 2, 3, 0}},   // T_B8G8R8A8
    {kInt8, 1, 4, 8, {3, 2, 1, 0}},   // T_R8G8B8A8
    {kInt8, 1, 4, 8, {0, 1, 2, 3}},   // T_X8B8G8R8
    {kInt8, 1, 4, 8, {2, 1, 0, 3}},   // T_X8R8G8B8
    {kInt8, 1, 4, 8, {1, 2, 3, 0}},   // T_B8G8R8X8
    {kInt8, 1, 4, 8, {3, 2, 1, 0}},   // T_R8G8B8X8
    {kInt16, 1, 4, 10, {0, 1, 2, 3}},  // T_A2B10G10R10
    {kInt16, 1, 4, 10, {2, 1, 0, 3}},  // T_A2R10G10B10
    {kInt16, 1, 4, 10, {1, 2, 3, 0}},  // T_B10G10R10A2
    {kInt16, 1, 4, 10, {3, 2, 1, 0}},  // T_R10G10B10A2
    {kInt16, 1, 4, 10, {2, 1, 0, 3}},  // T_A2Y10U10V10
    {kInt16, 1, 4, 10, {1, 2, 3, 0}},  // T_V10U10Y10A2
    {kInt8, 1, 4, 8, {2, 1, 0, 3}},   // T_A8Y8U8V8
    {kInt8, 1, 4, 8, {1, 2, 3, 0}},   // T_V8U8Y8A8
    {kInt8, 2, 3, 8, {0, 2, 1}},      // T_Y8___U8V8_N444
    {kInt8, 2, 3, 8, {0, 1, 2}},      // T_Y8___V8U8_N444
    {kInt16, 2, 3, 16, {0, 2, 1}},    // T_Y10___U10V10_N444
    {kInt16, 2, 3, 16, {0, 1, 2}},    // T_Y10___V10U10_N444
    {kInt16, 2, 3, 16, {0, 2, 1}},    // T_Y12___U12V12_N444
    {kInt16, 2, 3, 16, {0, 1, 2}},    // T_Y12___V12U12_N444
    {kInt16, 2, 3, 16, {0, 2, 1}},    // T_Y16___U16V16_N444
    {kInt16, 2, 3, 16, {0, 1, 2}},    // T_Y16___V16U16_N444
};

int32_t widened(uint32_t component, std::size_t bits, bool sign) {
  if (bits == 8) return sign ? static_cast<int8_t>(component) : static_cast<int32_t>(component);
  return sign ? static_cast<int16_t>(component) : static_cast<int32_t>(component);
}

// The four components of a word of 10, 10, 10 and 2 bits, from its low bits on; those of 2 bits are channel 3.
void split_word(uint32_t word, const PixelFormat &format, uint32_t *components) {
  unsigned start = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const unsigned bits = i == format.order[3] ? 2 : 10;
    components[i] = (word >> start & ((1u << bits) - 1)) << (16 - bits);
    start += bits;
  }
}

}  // namespace

const PixelFormat &pixel_format(uint32_t number) { return kFormats[number]; }

void read_pixel(const PixelFormat &format, const uint8_t *plane0, const uint8_t *plane1, bool sign, int32_t *channels) {
  uint32_t components[4] = {};
  if (format.bits == 10) {
    uint32_t word;
    std::memcpy(&word, plane0, sizeof word);
    split_word(word, format, components);
  } else {
    const std::size_t size = format.bits / 8, first = format.planes == 1 ? format.channels : 1;
    for (std::size_t i = 0; i < format.channels; ++i)
      std::memcpy(&components[i], i < first ? plane0 + i * size : plane1 + (i - first) * size, size);
  }
  const std::size_t bits = format.bits == 8 ? 8 : 16;
  for (std::size_t i = 0; i < format.channels; ++i) channels[i] = widened(components[format.order[i]], bits, sign);
}

}  // namespace nvdla
