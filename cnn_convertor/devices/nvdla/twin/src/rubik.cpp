#include "rubik.h"

#include <cstring>

namespace nvdla {
namespace {

enum Mode : uint32_t { kContract, kSplit, kMerge };

struct Sizes {
  std::size_t width, height, channels, out_channels, bytes;  // bytes: of an element
};

Cube source_cube(const Group &rubik, std::size_t line_bytes, std::size_t lines, std::size_t surfaces, const Field &surface) {
  Cube cube = placed(Cube(), rubik, RBK::D_DAIN_ADDR_HIGH, RBK::D_DAIN_ADDR_LOW, RBK::D_DAIN_LINE_STRIDE, surface);
  cube.line_bytes = line_bytes;
  cube.lines = lines;
  cube.surfaces = surfaces;
  return cube;
}

Cube destination_cube(const Group &rubik, std::size_t line_bytes, std::size_t lines, std::size_t surfaces, const Field &surface) {
  Cube cube = placed(Cube(), rubik, RBK::D_DAOUT_ADDR_HIGH, RBK::D_DAOUT_ADDR_LOW, RBK::D_DAOUT_LINE_STRIDE, surface);
  cube.line_bytes = line_bytes;
  cube.lines = lines;
  cube.surfaces = surfaces;
  return cube;
}

void check(const Parts &parts, const Cube &source, const Cube &destination) {
  parts.memory.check(source, parts.configuration.atom_bytes);
  parts.memory.require_written(source);
  parts.memory.check(destination, parts.configuration.atom_bytes);
  check_apart(destination, source);
}

// The surfaces of each of the kernel sets, in the order of the positions that they fill.
uint64_t contract(const Parts &parts, const Group &rubik, const Sizes &s) {
  const std::size_t atom = parts.configuration.atom_bytes;
  const std::size_t stride_x = rubik.count(RBK::D_DECONV_STRIDE_DECONV_X_STRIDE), stride_y = rubik.count(RBK::D_DECONV_STRIDE_DECONV_Y_STRIDE);
  const std::size_t surfaces = rounded_up(s.out_channels * s.bytes, atom) / atom, sets = stride_x * stride_y;
  const std::size_t in_surfaces = rounded_up(s.channels * s.bytes, atom) / atom;
  rubik.must_be(RBK::D_DATAIN_SIZE_1, in_surfaces, surfaces * sets, "the number of surfaces, by output channels and strides,");
  const Cube source = source_cube(rubik, s.width * atom, s.height, in_surfaces, RBK::D_DAIN_SURF_STRIDE);
  const Cube destination = destination_cube(rubik, s.width * stride_x * atom, s.height * stride_y, surfaces, RBK::D_DAOUT_SURF_STRIDE);
  rubik.must_be(RBK::D_CONTRACT_STRIDE_0, rubik(RBK::D_CONTRACT_STRIDE_0), static_cast<uint32_t>(surfaces * source.surface_stride), "the stride between sets");
  rubik.must_be(RBK::D_CONTRACT_STRIDE_1, rubik(RBK::D_CONTRACT_STRIDE_1), static_cast<uint32_t>(stride_y * destination.line_stride), "the stride between groups of lines");
  check(parts, source, destination);
  const std::size_t moved = atom * parts.memory.scale();
  for (std::size_t surface = 0; surface < surfaces; ++surface)
    for (std::size_t y = 0; y < s.height * stride_y; ++y) {
      uint8_t *to = parts.memory.at(destination.line(surface, y), destination.line_bytes);
      for (std::size_t x = 0; x < stride_x; ++x) {
        const std::size_t set = y % stride_y * stride_x + x;
        const uint8_t *from = parts.memory.at(source.line(set * surfaces + surface, y / stride_y), source.line_bytes);
        for (std::size_t i = 0; i < s.width; ++i) std::memcpy(to + (i * stride_x + x) * moved, from + i * moved, moved);
      }
    }
  return source.bytes();
}

// Between a feature map and one plane for each channel. Lines of planes end with zeros.
uint64_t replane(const Parts &parts, const Group &rubik, const Sizes &s, bool splits) {
  const std::size_t atom = parts.configuration.atom_bytes, lanes = atom / s.bytes;
  const std::size_t row = rounded_up(s.width * s.bytes, 32);
  rubik.must_be(RBK::D_DATAOUT_SIZE_1, s.out_channels, s.channels, "the number of channels, by the input,");
  const std::size_t surfaces = rounded_up(s.channels * s.bytes, atom) / atom;
  const Cube source = splits ? source_cube(rubik, s.width * atom, s.height, surfaces, RBK::D_DAIN_SURF_STRIDE)
                             : source_cube(rubik, row, s.height, s.channels, RBK::D_DAIN_PLANAR_STRIDE);
  const Cube destination = splits ? destination_cube(rubik, row, s.height, s.channels, RBK::D_DAOUT_PLANAR_STRIDE)
                                  : destination_cube(rubik, s.width * atom, s.height, surfaces, RBK::D_DAOUT_SURF_STRIDE);
  check(parts, source, destination);
  const std::size_t scale = parts.memory.scale(), bytes = s.bytes * scale;
  const Cube &planes = splits ? destination : source, &atoms = splits ? source : destination;
  for (std::size_t surface = 0; surface < surfaces; ++surface)
    for (std::size_t y = 0; y < s.height; ++y) {
      uint8_t *features = parts.memory.at(atoms.line(surface, y), atoms.line_bytes);
      if (!splits) std::memset(features, 0, atoms.line_bytes * scale);
      for (std::size_t i = 0; i < lanes && surface * lanes + i < s.channels; ++i) {
        uint8_t *plane = parts.memory.at(planes.line(surface * lanes + i, y), row);
        if (splits) std::memset(plane, 0, row * scale);
        for (std::size_t x = 0; x < s.width; ++x) {
          uint8_t *feature = features + (x * lanes + i) * bytes;
          std::memcpy(splits ? plane + x * bytes : feature, splits ? feature : plane + x * bytes, bytes);
        }
      }
    }
  return source.bytes();
}

}  // namespace

uint64_t run_rubik(const Parts &parts, const Group &rubik) {
  const uint32_t mode = rubik(RBK::D_MISC_CFG_RUBIK_MODE);
  check_precision(parts.configuration, rubik, RBK::D_MISC_CFG_IN_PRECISION);
  Sizes sizes;
  sizes.bytes = element_bytes(rubik(RBK::D_MISC_CFG_IN_PRECISION));
  sizes.width = rubik.count(RBK::D_DATAIN_SIZE_0_DATAIN_WIDTH);
  sizes.height = rubik.count(RBK::D_DATAIN_SIZE_0_DATAIN_HEIGHT);
  sizes.channels = rubik.count(RBK::D_DATAIN_SIZE_1);
  sizes.out_channels = rubik.count(RBK::D_DATAOUT_SIZE_1);
  switch (mode) {
    case kContract: return contract(parts, rubik, sizes);
    case kSplit: return replane(parts, rubik, sizes, true);
    case kMerge: return replane(parts, rubik, sizes, false);
    default: rubik.refuse(RBK::D_MISC_CFG_RUBIK_MODE, "there is no mode 3");
  }
}

}  // namespace nvdla
