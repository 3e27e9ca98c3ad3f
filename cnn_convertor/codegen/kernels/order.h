// The order of the device's feature maps. NAME_cpu.h has its network's own.
#ifndef DV700_CPU_ORDER_H
#define DV700_CPU_ORDER_H

namespace dv700_cpu {

const bool kRowByRow = true;

}  // namespace dv700_cpu

#endif  // DV700_CPU_ORDER_H
