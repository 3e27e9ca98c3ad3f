// Takes accesses of registers to the twin. A generated network is compiled with it, and with NVDLA_REGISTER_ACCESS.
#ifndef NVDLA_HOST_REGISTER_ACCESS_H
#define NVDLA_HOST_REGISTER_ACCESS_H

#include "network_runner.h"

inline void nvdla_write(volatile uint32_t *place, uint32_t value) { nvdla_host::write_register(place, value); }
inline uint32_t nvdla_read(const volatile uint32_t *place) { return nvdla_host::read_register(place); }

#endif
