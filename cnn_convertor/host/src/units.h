// The units behind the multipliers: pools, upsampling, the element-wise adder and the activations.
#ifndef DV_UNITS_H
#define DV_UNITS_H

#include <vector>

#include "command.h"
#include "map.h"

namespace dv {

// Max pool, average pool or upsampling.
void pool(const Run &run, bool transposed, const Map &input, const Take &take);

// Activation, then the absolute value if rectifi_en is set.
class Activator {
 public:
  explicit Activator(const Run &run);
  void operator()(int chunk, std::size_t count, float *values) const;

 private:
  const Run &run_;
  std::vector<float> slopes_;  // of a PReLU, for each channel
};

}  // namespace dv

#endif
