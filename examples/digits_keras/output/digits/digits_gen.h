// made by cnn-convertor 0.1.0 from digits.keras, do not edit
#ifndef CDIGITS_GEN_H
#define CDIGITS_GEN_H

#include <cstddef>
#include <cstdint>

#include "dmp_network.h"

// digits: 21264 bytes of weights, 4608 bytes of I/O memory.
// Input "image": 8x8x1 (height x width x channels) in the order H, W, C, FP16 at offset 2048.
// Output 0 "digit": 10 values.
class Cdigits : public CDMP_Network {
 public:
  // Positions of the outputs, for get_final_output.
  enum {
    kOutput_digit = 0,  // digit
  };

  Cdigits() = default;
  ~Cdigits() override = default;
  bool Initialize() override;

 private:
  void Layer_0();
  void Layer_1();
  void Layer_2();
  void Layer_3();
  void Layer_4();
  void Layer_5();
  void Layer_6();
};

#endif  // CDIGITS_GEN_H
