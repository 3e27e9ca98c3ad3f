#include "bdma.h"

#include <cstring>

namespace nvdla {
namespace {

constexpr uint32_t kUnit = 32;
constexpr uint64_t kMostRepeats = 8192;  // of the firmware

Cube cube_of(const Group &bdma, const Copy &copy, bool source) {
  Cube cube;
  cube.address = source ? copy.from : copy.to;
  cube.line_stride = source ? copy.from_line : copy.to_line;
  cube.surface_stride = source ? copy.from_surface : copy.to_surface;
  cube.line_bytes = copy.line_bytes;
  cube.lines = copy.lines;
  cube.surfaces = copy.surfaces;
  cube.group = &bdma;
  cube.address_field = source ? &BDMA::CFG_SRC_ADDR_LOW : &BDMA::CFG_DST_ADDR_LOW;
  cube.line_field = source ? &BDMA::CFG_SRC_LINE : &BDMA::CFG_DST_LINE;
  cube.surface_field = source ? &BDMA::CFG_SRC_SURF : &BDMA::CFG_DST_SURF;
  return cube;
}

}  // namespace

Copy copy_of(const Group &bdma) {
  Copy copy;
  copy.from = bdma.address(BDMA::CFG_SRC_ADDR_HIGH, BDMA::CFG_SRC_ADDR_LOW);
  copy.to = bdma.address(BDMA::CFG_DST_ADDR_HIGH, BDMA::CFG_DST_ADDR_LOW);
  copy.line_bytes = uint64_t{bdma.count(BDMA::CFG_LINE)} * kUnit;
  copy.lines = bdma.count(BDMA::CFG_LINE_REPEAT);
  copy.surfaces = bdma.count(BDMA::CFG_SURF_REPEAT);
  bdma.at_most(BDMA::CFG_LINE_REPEAT, copy.lines, kMostRepeats, "the number of lines");
  bdma.at_most(BDMA::CFG_SURF_REPEAT, copy.surfaces, kMostRepeats, "the number of surfaces");
  copy.from_line = bdma(BDMA::CFG_SRC_LINE);
  copy.to_line = bdma(BDMA::CFG_DST_LINE);
  copy.from_surface = bdma(BDMA::CFG_SRC_SURF);
  copy.to_surface = bdma(BDMA::CFG_DST_SURF);
  bdma(BDMA::CFG_CMD_SRC_RAM_TYPE);
  return copy;
}

uint64_t run_copy(const Parts &parts, const Group &bdma, const Copy &copy) {
  const Cube source = cube_of(bdma, copy, true), destination = cube_of(bdma, copy, false);
  parts.memory.check(source, kUnit);
  parts.memory.require_written(source);
  parts.memory.check(destination, kUnit);
  check_apart(destination, source);
  for (uint64_t surface = 0; surface < copy.surfaces; ++surface)
    for (uint64_t line = 0; line < copy.lines; ++line)
      std::memcpy(parts.memory.at(destination.line(surface, line), copy.line_bytes),
                  parts.memory.at(source.line(surface, line), copy.line_bytes), copy.line_bytes * parts.memory.scale());
  return source.bytes();
}

}  // namespace nvdla
