// made by cnn-convertor 1.2.3 from net.h5, do not edit
#ifndef CEVERY_GEN_H
#define CEVERY_GEN_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "dmp_network.h"

namespace Cevery_io {

// A map of the application or of a custom layer, at get_io_ptr() + offset.
struct Map {
  const char *name;
  std::size_t offset, bytes;
  int height, width, channels;
  int element_bytes;   // 1: whole numbers from 0 to 255, 2: FP16, 4: FP32
  const char *layout;  // HWC: row by row; hwc8, whc8: row by row or column by column, in chunks of 8 channels
};

constexpr Map kInputs[] = {
    {"image", 0, 384, 8, 8, 3, 2, "hwc8"},
    {"mask", 1024, 1024, 8, 8, 8, 2, "hwc8"},
};
constexpr Map kOutputs[] = {
    {"prob", 2304, 68, 1, 1, 17, 4, "hwc8"},
    {"flat", 0, 1152, 1, 1, 576, 2, "hwc8"},
    {"mine", 2384, 8, 1, 1, 2, 4, "HWC"},
    {"pool", 1152, 1152, 8, 6, 12, 2, "HWC"},
};

// An image's pixels become (pixel - mean) * scale. One mean, or one for each channel.
constexpr float kMean[] = {0.0f};
constexpr float kScale = 1.0f;
constexpr char kChannelOrder[] = "RGB";

// Both conversions have no branches: Bits and Float are uint32_t and float, or vectors of them.
template <class Float, class Bits>
Float Widened(Bits half) {
  const Bits rest = half & 0x7FFFu;
  const Bits one_half = rest + 0x3F000000u;  // and the value of a subnormal
  Float value;
  std::memcpy(&value, &one_half, sizeof(value));
  value = value - 0.5f;
  Bits subnormal;
  std::memcpy(&subnormal, &value, sizeof(subnormal));
  Bits bits = (rest << 13) + 0x38000000u;
  bits = rest < 0x7C00u ? bits : bits + 0x38000000u;
  bits = rest > 0x7C00u ? bits | 0x00400000u : bits;  // a quiet NaN
  bits = (rest < 0x0400u ? subnormal : bits) | ((half & 0x8000u) << 16);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

template <class Bits, class Float>
Bits Narrowed(Float value) {
  Bits bits, subnormal;
  std::memcpy(&bits, &value, sizeof(bits));
  const Bits rest = bits & 0x7FFFFFFFu;
  Float magnitude;
  std::memcpy(&magnitude, &rest, sizeof(magnitude));
  magnitude = magnitude + 0.5f;  // leaves the rounded bits of a subnormal at the end
  std::memcpy(&subnormal, &magnitude, sizeof(subnormal));
  const Bits infinite = (rest & 0u) + 0x7C00u;
  Bits half = (rest - 0x38000000u + 0x0FFFu + ((rest >> 13) & 1u)) >> 13;
  half = rest < 0x38800000u ? subnormal - 0x3F000000u : half;
  half = rest < 0x47800000u ? half : infinite;  // 65536 and above
  half = rest > 0x7F800000u ? infinite | 0x0200u : half;
  return half | ((bits >> 16) & 0x8000u);
}

// FromHalf keeps the sign and the payload of NaN, and makes it quiet; ToHalf keeps its sign alone, and rounds to the
// nearest, ties to even; what is too large becomes infinite. Arm's instructions give the same bits.
#if defined(__ARM_FP16_FORMAT_IEEE) && defined(__ARM_FP) && (__ARM_FP & 2)
inline float FromHalf(uint16_t half) {
  __fp16 value;
  std::memcpy(&value, &half, sizeof(value));
  return value;
}

inline uint16_t ToHalf(float value) {
  const __fp16 rounded = static_cast<__fp16>(value);
  uint16_t half;
  std::memcpy(&half, &rounded, sizeof(half));
  return static_cast<uint16_t>(value != value ? (half & 0x8000u) | 0x7E00u : half);
}
#else
inline float FromHalf(uint16_t half) { return Widened<float>(static_cast<uint32_t>(half)); }

inline uint16_t ToHalf(float value) { return static_cast<uint16_t>(Narrowed<uint32_t>(value)); }
#endif

// The values of a map as FP32 in the order H, W, C. io_ptr: the I/O memory.
inline std::vector<float> Read(const Map &map, const uint8_t *io_ptr) {
  const std::size_t height = static_cast<std::size_t>(map.height), width = static_cast<std::size_t>(map.width);
  const std::size_t channels = static_cast<std::size_t>(map.channels), size = static_cast<std::size_t>(map.element_bytes);
  const bool is_chunked = std::strcmp(map.layout, "HWC") != 0, is_by_columns = std::strcmp(map.layout, "whc8") == 0;
  std::vector<float> values;
  values.reserve(height * width * channels);
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      const std::size_t pixel = is_by_columns ? x * height + y : y * width + x;
      for (std::size_t c = 0; c < channels; ++c) {
        const std::size_t first = is_chunked ? c / 8 * 8 : 0, rest = channels - first;  // of the chunk, and from there on
        const std::size_t held = is_chunked && rest > 8 ? 8 : rest;
        const uint8_t *from = io_ptr + map.offset + size * (first * height * width + pixel * held + c - first);
        uint16_t half;
        float value;
        if (size == 4) {
          std::memcpy(&value, from, sizeof(value));
        } else if (size == 2) {
          std::memcpy(&half, from, sizeof(half));
          value = FromHalf(half);
        } else {
          value = static_cast<float>(*from);
        }
        values.push_back(value);
      }
    }
  }
  return values;
}

}  // namespace Cevery_io

// Parameters of a layer of type Mine.
struct custom_param_Mine {
  int axis;
  float scale;
  bool on;
  int sizes[2];
  Cevery_io::Map inputs[1];  // what the layer reads; named after the layers that write it
};

// Runs a layer of type Mine: the application defines it. It reads its inputs, with Read(inputs[0], io_ptr),
// and writes FP32 at io_ptr + layer.output_offs, maps in the order H, W, C.
void custom_callback_Mine(fpga_layer &layer, void *custom_param, uint8_t *io_ptr);

// every: 33312 bytes of weights, 4096 bytes of I/O memory.
// Input "image": 8x8x3 (height x width x channels) in the order H, W, C, FP16 at offset 0.
// Input "mask": 8x8x8 (height x width x channels) in the order H, W, C, FP16 at offset 1024.
// Output 0 "prob": 17 values.
// Output 1 "flat": 8x6x12 (height x width x channels) in the order H, W, C.
// Output 2 "mine": 2 values.
// Output 3 "pool": 8x6x12 (height x width x channels) in the order H, W, C.
class Cevery : public CDMP_Network {
 public:
  // Positions of the outputs, for get_final_output.
  enum {
    kOutput_prob = 0,  // prob
    kOutput_flat = 1,  // flat
    kOutput_mine = 2,  // mine
    kOutput_pool = 3,  // pool
  };

  Cevery() = default;
  ~Cevery() override = default;
  bool Initialize() override;

 private:
  void Layer_0();
  void Layer_1();
  void Layer_2();
  void Layer_3();
  void Layer_4();
  void Layer_5();
  void Layer_6();
  void Layer_7();
  void Layer_8();
  void Layer_9();
  void Layer_10();
  void Layer_11();
  void Layer_12();
  void Layer_13();

  fpga_layer *inputs_of_layer_8_[2];
  fpga_layer *inputs_of_layer_13_[2];
};

#endif  // CEVERY_GEN_H
