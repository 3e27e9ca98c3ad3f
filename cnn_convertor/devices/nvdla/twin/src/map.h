// A feature map on its way between engines.
#ifndef NVDLA_MAP_H
#define NVDLA_MAP_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory.h"

namespace nvdla {

inline std::size_t rounded_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

// Values in the order height, width, lane: integers, or the bits of floating-point numbers. Lanes: channels, up to whole atoms.
struct Map {
  std::size_t height = 0, width = 0, channels = 0, lanes = 0;
  std::vector<int32_t> values;

  Map() = default;
  // atom_bytes: lanes fill whole atoms also of single bytes.
  Map(std::size_t h, std::size_t w, std::size_t c, std::size_t atom_bytes)
      : height(h), width(w), channels(c), lanes(rounded_up(c, atom_bytes)), values(h * w * lanes) {}

  int32_t *line(std::size_t y) { return values.data() + y * width * lanes; }
  const int32_t *line(std::size_t y) const { return values.data() + y * width * lanes; }
};

inline std::size_t element_bytes(uint32_t precision) { return precision == kInt8 ? 1 : 2; }

// Where a map lies in memory, as lines of atoms.
Cube feature_cube(std::size_t width, std::size_t height, std::size_t channels, uint32_t precision, uint32_t atom_bytes);

// Line y of a map, from and to a cube. Integers are sign-extended; halves keep their bits, without a sign.
void read_line(Memory &memory, const Cube &cube, uint32_t precision, uint32_t atom_bytes, Map &map, std::size_t y);
void write_line(Memory &memory, const Cube &cube, uint32_t precision, uint32_t atom_bytes, const Map &map, std::size_t y);

}  // namespace nvdla

#endif
