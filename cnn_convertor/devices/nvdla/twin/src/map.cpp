#include "map.h"

#include <cstring>

namespace nvdla {
namespace {

// The atoms of one surface in a line: `lanes` of them from values that are `step` apart.
template <class Element>
void read_atoms(const uint8_t *from, int32_t *to, std::size_t width, std::size_t lanes, std::size_t step) {
  for (std::size_t x = 0; x < width; ++x) {
    Element atom[64];
    std::memcpy(atom, from + x * lanes * sizeof(Element), lanes * sizeof(Element));
    for (std::size_t i = 0; i < lanes; ++i) to[x * step + i] = atom[i];
  }
}

template <class Element>
void write_atoms(const int32_t *from, uint8_t *to, std::size_t width, std::size_t lanes, std::size_t step) {
  for (std::size_t x = 0; x < width; ++x) {
    Element atom[64];
    for (std::size_t i = 0; i < lanes; ++i) atom[i] = static_cast<Element>(from[x * step + i]);
    std::memcpy(to + x * lanes * sizeof(Element), atom, lanes * sizeof(Element));
  }
}

}  // namespace

Cube feature_cube(std::size_t width, std::size_t height, std::size_t channels, uint32_t precision, uint32_t atom_bytes) {
  Cube cube;
  cube.line_bytes = width * atom_bytes;
  cube.lines = height;
  cube.surfaces = rounded_up(channels * element_bytes(precision), atom_bytes) / atom_bytes;
  return cube;
}

void read_line(Memory &memory, const Cube &cube, uint32_t precision, uint32_t atom_bytes, Map &map, std::size_t y) {
  const std::size_t lanes = atom_bytes / element_bytes(precision);
  for (std::size_t surface = 0; surface < cube.surfaces; ++surface) {
    const uint8_t *from = memory.at(cube.line(surface, y), cube.line_bytes);
    int32_t *to = map.line(y) + surface * lanes;
    if (precision == kInt8)
      read_atoms<int8_t>(from, to, map.width, lanes, map.lanes);
    else if (precision == kInt16)
      read_atoms<int16_t>(from, to, map.width, lanes, map.lanes);
    else
      read_atoms<uint16_t>(from, to, map.width, lanes, map.lanes);
  }
}

void write_line(Memory &memory, const Cube &cube, uint32_t precision, uint32_t atom_bytes, const Map &map, std::size_t y) {
  const std::size_t lanes = atom_bytes / element_bytes(precision);
  for (std::size_t surface = 0; surface < cube.surfaces; ++surface) {
    uint8_t *to = memory.at(cube.line(surface, y), cube.line_bytes);
    const int32_t *from = map.line(y) + surface * lanes;
    if (precision == kInt8)
      write_atoms<int8_t>(from, to, map.width, lanes, map.lanes);
    else
      write_atoms<uint16_t>(from, to, map.width, lanes, map.lanes);
  }
}

}  // namespace nvdla
