// made by cnn-convertor 1.2.3 from net.h5, do not edit
#ifndef CSMALL_GEN_H
#define CSMALL_GEN_H

#include <cstddef>
#include <cstdint>

#include "dmp_network.h"

// small: 5120 bytes of weights, 640 bytes of I/O memory.
// Input "input": 8x8x1 (height x width x channels) in the order H, W, C, FP16 at offset 512.
// Output 0 "softmax": 10 values.
class Csmall : public CDMP_Network {
 public:
  // Positions of the outputs, for get_final_output.
  enum {
    kOutput_softmax = 0,  // softmax
  };

  Csmall() = default;
  ~Csmall() override = default;
  bool Initialize() override;

 private:
  void Layer_0();
  void Layer_1();
  void Layer_2();
};

#endif  // CSMALL_GEN_H
