// made by cnn-convertor 0.1.0 from digits_keras2.h5, do not edit
#ifndef DIGITS_KERAS2_GEN_H
#define DIGITS_KERAS2_GEN_H

#include <cstdint>

#include "dmp_network.h"

// digits_keras2: 21264 bytes of weights, 6144 bytes of I/O memory.
// Input "image": 8x8x1 FP16 at offset 2048, in the order H, W, C.
// Output 0 "digit": 10.
class Cdigits_keras2 : public CDMP_Network {
 public:
  Cdigits_keras2();
  virtual ~Cdigits_keras2();
  virtual bool Initialize();

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

  fpga_layer *inputs_of_layer_7_[2];
};

#endif  // DIGITS_KERAS2_GEN_H
