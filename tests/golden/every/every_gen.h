// made by cnn-convertor 1.2.3 from net.h5, do not edit
#ifndef CEVERY_GEN_H
#define CEVERY_GEN_H

#include <cstddef>
#include <cstdint>

#include "dmp_network.h"

// Parameters of a layer of type Mine.
struct custom_param_Mine {
  int axis;
  float scale;
  bool on;
  int sizes[2];
};

// Runs a layer of type Mine: the application defines it. It reads FP16 at io_ptr + layer.input_offs
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

  fpga_layer *inputs_of_layer_5_[2];
  fpga_layer *inputs_of_layer_9_[2];
};

#endif  // CEVERY_GEN_H
