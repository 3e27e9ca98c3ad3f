// made by cnn-convertor 0.1.0 from digits.prototxt, do not edit
#ifndef CDIGITS_CAFFE_GEN_H
#define CDIGITS_CAFFE_GEN_H

#include <cstddef>
#include <cstdint>

#include "dmp_network.h"

// digits_caffe: 30528 bytes of weights, 4096 bytes of I/O memory.
// Input "data": 8x8x1 (height x width x channels) in the order H, W, C, FP16 at offset 2048.
// Output 0 "prob": 10 values.
class Cdigits_caffe : public CDMP_Network {
 public:
  // Positions of the outputs, for get_final_output.
  enum {
    kOutput_prob = 0,  // prob
  };

  Cdigits_caffe() = default;
  ~Cdigits_caffe() override = default;
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
};

#endif  // CDIGITS_CAFFE_GEN_H
