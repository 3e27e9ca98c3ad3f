// The device's memory, and the cubes of lines that its DMAs move.
#ifndef NVDLA_MEMORY_H
#define NVDLA_MEMORY_H

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "registers.h"

namespace nvdla {

// Lines of bytes, some to a surface. Where it comes from, for refusals: the registers of its address and strides.
struct Cube {
  uint64_t address = 0, line_stride = 0, surface_stride = 0;
  uint64_t line_bytes = 0, lines = 0, surfaces = 0;
  uint64_t unused_bytes = 0;  // at the end of each line of the last surface, which need not be in memory
  const Group *group = nullptr;
  const Field *address_field = nullptr, *line_field = nullptr, *surface_field = nullptr;

  uint64_t line(uint64_t surface, uint64_t index) const {
    return address + surface * surface_stride + index * line_stride;
  }
  uint64_t needed(uint64_t surface) const { return line_bytes - (surface + 1 == surfaces ? unused_bytes : 0); }
  uint64_t bytes() const { return line_bytes * lines * surfaces; }
};

class Memory {
 public:
  // scale: bytes that a byte by its address has.
  explicit Memory(std::size_t scale = 1) : scale_(scale) {}

  std::size_t scale() const { return scale_; }
  // Zeros, which take no space until they are written. size: bytes.
  void add(uint64_t address, uint64_t size);
  void add(uint64_t address, uint8_t *data, std::size_t size, bool unwritten = false);

  // What lies at an address, or null if not all of it is in one piece of memory. size: as addresses count it.
  uint8_t *at(uint64_t address, uint64_t size);

  // Refuses a cube that is not aligned, overlaps itself, or is not in memory.
  void check(const Cube &cube, uint32_t alignment);
  // Refuses a cube of halves that nobody has written.
  void require_written(const Cube &cube);

 private:
  struct Free {
    void operator()(uint8_t *bytes) const { std::free(bytes); }
  };
  struct Piece {
    uint8_t *data;
    std::size_t size;  // as addresses count it
    bool unwritten;  // when it was added
    std::unique_ptr<uint8_t, Free> own;
  };
  std::size_t scale_;
  std::map<uint64_t, Piece> pieces_;
};

// Refuses an output that overlaps an input of the same operation.
void check_apart(const Cube &output, const Cube &input);

}  // namespace nvdla

#endif
