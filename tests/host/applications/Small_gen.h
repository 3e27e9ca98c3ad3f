// A network in the style of the vendor's tool: a convolution, a softmax of its channels, and a custom layer.
#pragma once

#include "dmp_network.h"

struct custom_param_Gain {
  float gain;
};
void custom_callback_Gain(fpga_layer &layer, void *custom_param, uint8_t *io_ptr);

class CSmall : public CDMP_Network {
 public:
  virtual bool Initialize();
  CSmall();
  virtual ~CSmall();

 private:
  void Layer_0();
  void Layer_1();
  void Layer_2();
  void Layer_3();
};
