// A board without an operating system, for you to complete: the addresses are those of your chip.
#include "board.h"

#ifndef NVDLA_BASE
#define NVDLA_BASE 0x10040000
#endif
#ifndef SHARED_BASE
#define SHARED_BASE 0xC0000000  // memory that nothing else uses, at the same address for processor and device
#endif
#ifndef UART_BASE
#define UART_BASE 0x09000000
#endif
#ifndef CACHE_LINE
#define CACHE_LINE 64
#endif

// digits_weights.bin, as the linker has it: ld -r -b binary digits_weights.bin -o weights.o
extern "C" const uint8_t _binary_digits_weights_bin_start[], _binary_digits_weights_bin_end[];

namespace {

constexpr std::size_t kAlignment = 64;
uintptr_t next_free = SHARED_BASE;

// Order what the processor and the device write and read. Without a coherent cache, also write it back and invalidate it.
void maintain(const void *data, std::size_t bytes) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(data), end = start + bytes;
  (void)start;
  (void)end;
#if defined(__aarch64__)
  for (uintptr_t line = start / CACHE_LINE * CACHE_LINE; line < end; line += CACHE_LINE)
    __asm__ volatile("dc civac, %0" ::"r"(line) : "memory");
  __asm__ volatile("dsb sy" ::: "memory");
#elif defined(__riscv)
  __asm__ volatile("fence iorw, iorw" ::: "memory");  // a core with Zicbom has cbo.flush for each line
#else
#error "write how this processor orders and maintains memory"
#endif
}

}  // namespace

volatile uint32_t *board_registers() { return reinterpret_cast<volatile uint32_t *>(static_cast<uintptr_t>(NVDLA_BASE)); }

BoardMemory board_memory(std::size_t bytes) {
  const uintptr_t address = next_free;
  next_free += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return {reinterpret_cast<uint8_t *>(address), address};
}

BoardWeights board_weights() {
  return {_binary_digits_weights_bin_start,
          static_cast<std::size_t>(_binary_digits_weights_bin_end - _binary_digits_weights_bin_start)};
}

void board_to_device(void *, const void *data, std::size_t bytes) { maintain(data, bytes); }
void board_to_cpu(void *, void *data, std::size_t bytes) { maintain(data, bytes); }

void board_print(const char *text) {
  volatile uint32_t *const uart = reinterpret_cast<volatile uint32_t *>(static_cast<uintptr_t>(UART_BASE));
  while (*text) *uart = static_cast<uint32_t>(*text++);
}
