#include "memory.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

namespace nvdla {
namespace {

constexpr uint8_t kUnwritten[] = {0xa5, 0x7f};  // a NaN that no operation gives, as fp16 and as fp32

void check_stride(const Cube &cube, const Field *field, uint64_t stride, uint32_t alignment) {
  if (field && stride % alignment)
    cube.group->refuse(*field, hexadecimal(stride) + " is no multiple of " + text(alignment));
}

// Whether two lines of the cube have a byte in common.
bool overlaps_itself(const Cube &cube) {
  const uint64_t size = cube.line_bytes;
  if (cube.lines > 1 && cube.line_stride < size) return true;
  for (uint64_t surface = 1; surface < cube.surfaces; ++surface) {
    const uint64_t distance = surface * cube.surface_stride;
    if (distance < size) return true;
    if (cube.lines == 1) continue;
    const uint64_t before = std::min(distance / cube.line_stride, cube.lines - 1);
    if (distance - before * cube.line_stride < size) return true;
    const uint64_t after = before + 1;
    if (after < cube.lines && after * cube.line_stride - distance < size) return true;
  }
  return false;
}

uint64_t extent(const Cube &cube) {
  return (cube.surfaces - 1) * cube.surface_stride + (cube.lines - 1) * cube.line_stride + cube.line_bytes;
}

std::vector<std::pair<uint64_t, uint64_t>> pieces(const Cube &cube) {
  std::vector<std::pair<uint64_t, uint64_t>> all;
  for (uint64_t surface = 0; surface < cube.surfaces; ++surface)
    for (uint64_t index = 0; index < cube.lines; ++index) {
      const uint64_t start = cube.line(surface, index);
      all.emplace_back(start, start + cube.line_bytes);
    }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

std::size_t unwritten(const uint8_t *data, std::size_t size, std::size_t element_bytes) {
  const uint32_t fill = kUnwritten[0] | kUnwritten[1] << 8, all = element_bytes == 2 ? fill : fill << 16 | fill;
  for (std::size_t i = 0; element_bytes > 1 && i < size; i += element_bytes) {
    uint32_t element = 0;
    std::memcpy(&element, data + i, element_bytes);
    if (element == all) return i;
  }
  return size;
}

void Memory::add(uint64_t address, uint64_t size) {
  std::unique_ptr<uint8_t, Free> own(static_cast<uint8_t *>(std::calloc(std::max<uint64_t>(size, 1), 1)));
  if (!own) throw std::bad_alloc();
  add(address, own.get(), size / scale_);
  pieces_.at(address).own = std::move(own);
}

void Memory::add(uint64_t address, uint8_t *data, std::size_t size, bool unwritten) {
  if (address + size < address) throw Refusal("memory: " + hexadecimal(address) + " is beyond 64 bits");
  const auto after = pieces_.lower_bound(address);
  bool taken = after != pieces_.end() && after->first < address + size;
  if (after != pieces_.end() && after->first == address) taken = true;
  if (after != pieces_.begin()) {
    const auto before = std::prev(after);
    taken = taken || before->first + before->second.size > address;
  }
  if (taken) throw Refusal("memory: " + hexadecimal(address) + " overlaps other memory");
  pieces_.emplace(address, Piece{data, size, unwritten, {}});
  if (unwritten)
    for (std::size_t i = 0; i < size * scale_; ++i) data[i] = kUnwritten[i % 2];
}

uint8_t *Memory::at(uint64_t address, uint64_t size) {
  auto piece = pieces_.upper_bound(address);
  if (piece == pieces_.begin()) return nullptr;
  --piece;
  const uint64_t offset = address - piece->first, held = piece->second.size;
  return offset <= held && size <= held - offset ? piece->second.data + offset * scale_ : nullptr;
}

void Memory::require_written(const Cube &cube) {
  for (uint64_t surface = 0; surface < cube.surfaces; ++surface)
    for (uint64_t index = 0; index < cube.lines; ++index) {
      const uint64_t address = cube.line(surface, index), size = cube.needed(surface);
      if (!std::prev(pieces_.upper_bound(address))->second.unwritten) continue;
      const std::size_t place = unwritten(at(address, size), size * scale_, 2 * scale_) / scale_;
      if (place < size)
        cube.group->refuse(*cube.address_field, "the operation reads memory that nothing has written, at " + hexadecimal(address + place));
    }
}

void Memory::check(const Cube &cube, uint32_t alignment) {
  check_stride(cube, cube.address_field, cube.address, alignment);
  check_stride(cube, cube.line_field, cube.line_stride, alignment);
  check_stride(cube, cube.surface_field, cube.surface_stride, alignment);
  const uint64_t last = extent(cube) - 1;
  if (cube.address + last < cube.address || !at(cube.address, cube.needed(0)))
    cube.group->refuse(*cube.address_field, text(cube.needed(0)) + " bytes at " + hexadecimal(cube.address) + " are not in memory");
  if (overlaps_itself(cube)) {
    const bool lines = cube.lines > 1 && cube.line_stride < cube.line_bytes;
    const Field *field = lines ? cube.line_field : cube.surface_field;
    cube.group->refuse(field ? *field : *cube.address_field, "lines of " + text(cube.line_bytes) + " bytes overlap");
  }
  for (uint64_t surface = 0; surface < cube.surfaces; ++surface)
    for (uint64_t index = 0; index < cube.lines; ++index)
      if (!at(cube.line(surface, index), cube.needed(surface))) {
        const Field *field = index ? cube.line_field : cube.surface_field;
        cube.group->refuse(field ? *field : *cube.address_field,
                           "line " + text(index) + " of surface " + text(surface) + " at " +
                               hexadecimal(cube.line(surface, index)) + " is not in memory");
      }
}

void check_apart(const Cube &output, const Cube &input) {
  if (output.address > input.address + extent(input) - 1 || input.address > output.address + extent(output) - 1) return;
  const auto written = pieces(output), read = pieces(input);
  std::size_t j = 0;
  for (const auto &piece : written) {
    while (j < read.size() && read[j].second <= piece.first) ++j;
    if (j < read.size() && read[j].first < piece.second)
      output.group->refuse(*output.address_field, "the output overlaps the input at " + hexadecimal(input.address));
  }
}

}  // namespace nvdla
