// A network in the form of generated sources, with every type of layer. See test_network.py for what it computes.
#ifndef NETWORK_GEN_H
#define NETWORK_GEN_H

#include "dmp_network.h"

struct custom_param_Negate {
  float scale;
};
void custom_callback_Negate(fpga_layer &layer, void *custom_param, uint8_t *io_ptr);

class CNetwork : public CDMP_Network {
 public:
  CNetwork();
  virtual ~CNetwork();
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

  fpga_layer *inputs_of_layer_3_[2];
};

#endif
