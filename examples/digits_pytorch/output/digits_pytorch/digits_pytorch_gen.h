// made by cnn-convertor 0.1.0 from digits.onnx, do not edit
#ifndef CDIGITS_PYTORCH_GEN_H
#define CDIGITS_PYTORCH_GEN_H

#include <cstddef>
#include <cstdint>

#include "dmp_network.h"

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
