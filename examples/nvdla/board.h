// What the application needs of the board that it runs on. board_twin.cpp is a PC; board_bare.cpp shows a board without an
// operating system.
#ifndef BOARD_H
#define BOARD_H

#include <cstddef>
#include <cstdint>

// Memory that processor and device share. address: where the device sees it.
struct BoardMemory {
  uint8_t *data;
  uint64_t address;
};

struct BoardWeights {
  const void *data;
  std::size_t bytes;
};

volatile uint32_t *board_registers();                // the first register of the device
BoardMemory board_memory(std::size_t bytes);         // a multiple of 64 bytes, at such an address
BoardWeights board_weights();                        // the contents of digits_weights.bin
void board_to_device(void *, const void *data, std::size_t bytes);  // write the cache back
void board_to_cpu(void *, void *data, std::size_t bytes);           // forget what the cache has
void board_print(const char *text);

#endif
