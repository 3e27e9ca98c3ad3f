// The order of the device's feature maps. NAME_cpu.h has its network's own.
#ifndef CPU_FUNCTIONS_ORDER_H
#define CPU_FUNCTIONS_ORDER_H

namespace cpu_functions {

const bool kRowByRow = true;

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_ORDER_H
