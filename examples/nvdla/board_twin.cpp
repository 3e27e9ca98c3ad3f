// The board is this computer: the registers are those of the twin, and memory is the computer's own.
#include "board.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "nv_full.h"
#include "nvdla_twin.h"
#include "twin_access.h"

namespace {

constexpr std::size_t kAlignment = 64, kRegisterBytes = 1 << 20;

volatile uint32_t registers[kRegisterBytes / 4];  // of which only addresses are used
uint64_t next_address = 0x10000000;

nvdla::Device &device() {
  static nvdla::Device twin(nv_full(), 1);
  return twin;
}

uint32_t address_of(const volatile uint32_t *place) { return static_cast<uint32_t>((place - registers) * 4); }

}  // namespace

void nvdla_write(volatile uint32_t *place, uint32_t value) { device().write(address_of(place), value); }
uint32_t nvdla_read(const volatile uint32_t *place) { return device().read(address_of(place)); }

volatile uint32_t *board_registers() { return registers; }

BoardMemory board_memory(std::size_t bytes) {
  const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const BoardMemory memory = {static_cast<uint8_t *>(std::aligned_alloc(kAlignment, whole)), next_address};
  device().add_memory(memory.address, memory.data, whole);
  next_address += 0x10000000;
  return memory;
}

BoardWeights board_weights() {
  static std::vector<char> contents;
  std::ifstream file(WEIGHTS, std::ios::binary);
  contents.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  return {contents.data(), contents.size()};
}

void board_to_device(void *, const void *, std::size_t) {}
void board_to_cpu(void *, void *, std::size_t) {}
void board_print(const char *text) { std::fputs(text, stdout); }
