// made by cnn-convertor 0.1.0 from digits.onnx, do not edit
#ifndef CDIGITS_PYTORCH_GEN_H
#define CDIGITS_PYTORCH_GEN_H

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dmp_network.h"

namespace Cdigits_pytorch_io {

// A map that the application writes or reads, at get_io_ptr() + offset.
struct Map {
  const char *name;
  std::size_t offset, bytes;
  int height, width, channels;
  int element_bytes;   // 1: whole numbers from 0 to 255, 2: FP16, 4: FP32
  const char *layout;  // HWC: row by row; hwc8, whc8: row by row or column by column, in chunks of 8 channels
};

constexpr Map kInputs[] = {
    {"image", 0, 128, 8, 8, 1, 2, "hwc8"},
};
constexpr Map kOutputs[] = {
    {"digit", 0, 40, 1, 1, 10, 4, "hwc8"},
};

// An image's pixels become (pixel - mean) * scale. One mean, or one for each channel.
constexpr float kMean[] = {0.0f};
constexpr float kScale = 0.004166667f;
constexpr char kChannelOrder[] = "RGB";

inline float FromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, rest = half & 0x7FFFu;
  float value;
  if (rest < 0x0400u) {  // subnormal
    value = static_cast<float>(rest) * (1.0f / 16777216.0f);
    return sign ? -value : value;
  }
  const uint32_t bits = sign | ((rest << 13) + (rest < 0x7C00u ? 0x38000000u : 0x70000000u));
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Rounds to the nearest, ties to even; what is too large becomes infinite.
inline uint16_t ToHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t sign = (bits >> 16) & 0x8000u, rest = bits & 0x7FFFFFFFu;
  uint32_t half;
  if (rest > 0x7F800000u) {
    half = 0x7E00u;  // not a number
  } else if (rest >= 0x47800000u) {
    half = 0x7C00u;  // 65536 and above
  } else if (rest < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded bits at the end
    float magnitude;
    std::memcpy(&magnitude, &rest, sizeof(magnitude));
    magnitude += 0.5f;
    std::memcpy(&half, &magnitude, sizeof(half));
    half -= 0x3F000000u;
  } else {
    half = (rest - 0x38000000u + 0x0FFFu + ((rest >> 13) & 1u)) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

}  // namespace Cdigits_pytorch_io

// digits_pytorch: 24448 bytes of weights, 1568 bytes of I/O memory.
// Input "image": 8x8x1 (height x width x channels) in the order H, W, C, FP16 at offset 0.
// Output 0 "digit": 10 values.
class Cdigits_pytorch : public CDMP_Network {
 public:
  // Positions of the outputs, for get_final_output.
  enum {
    kOutput_digit = 0,  // digit
  };

  Cdigits_pytorch() = default;
  ~Cdigits_pytorch() override = default;
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
  void Layer_14();
  void Layer_15();
  void Layer_16();
  void Layer_17();

  fpga_layer *inputs_of_layer_14_[2];
};

#endif  // CDIGITS_PYTORCH_GEN_H
