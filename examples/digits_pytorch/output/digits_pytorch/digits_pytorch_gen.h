// made by cnn-convertor 0.2.0 from digits.onnx, do not edit
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

}  // namespace Cdigits_pytorch_io

// digits_pytorch: 20916 bytes of weights, 2304 bytes of I/O memory.
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
  void Layer_18();

  fpga_layer *inputs_of_layer_18_[2];
};

#endif  // CDIGITS_PYTORCH_GEN_H
