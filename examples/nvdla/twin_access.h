// How a generated network reaches the registers of the twin. It is compiled with NVDLA_REGISTER_ACCESS, and with this file.
#ifndef TWIN_ACCESS_H
#define TWIN_ACCESS_H

#include <cstdint>

void nvdla_write(volatile uint32_t *place, uint32_t value);
uint32_t nvdla_read(const volatile uint32_t *place);

#endif
