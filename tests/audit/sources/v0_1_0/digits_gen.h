// made by cnn-convertor 0.1.0 from digits.keras, do not edit
#ifndef DIGITS_GEN_H
#define DIGITS_GEN_H

#include <cstdint>

#include "dmp_network.h"

class Cdigits : public CDMP_Network {
 public:
  Cdigits();
  virtual ~Cdigits();
  virtual bool Initialize();

 private:
  void Layer_0();
  void Layer_1();
  void Layer_2();
  void Layer_3();
  void Layer_4();
  void Layer_5();
  void Layer_6();
};

#endif  // DIGITS_GEN_H
