// made by cnn-convertor 0.1.0 from m.h5, do not edit
#ifndef TWO_INPUTS_GEN_H
#define TWO_INPUTS_GEN_H

#include <cstdint>

#include "dmp_network.h"

class Ctwo_inputs : public CDMP_Network {
 public:
  Ctwo_inputs();
  virtual ~Ctwo_inputs();
  virtual bool Initialize();

 private:
  void Layer_0();
  void Layer_1();
  void Layer_2();
  void Layer_3();
  void Layer_4();
  void Layer_5();

  fpga_layer *inputs_of_layer_4_[2];
};

#endif  // TWO_INPUTS_GEN_H
