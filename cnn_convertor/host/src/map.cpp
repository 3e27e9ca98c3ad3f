#include "map.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "threads.h"

namespace dv {
namespace {

typedef uint32_t Bits __attribute__((vector_size(32)));  // of eight values

constexpr std::size_t kPart = 4096;  // positions of a chunk that one task handles

std::size_t parts(const Map &map) { return (map.positions() + kPart - 1) / kPart; }

// Calls body(chunk, first position, number of positions) for all parts of a map, on several threads.
template <class Body>
void for_each_part(const Map &map, const Body &body) {
  const std::size_t per_chunk = parts(map);
  // Many small chunks make one task.
  const std::size_t group = std::max<std::size_t>(1, kPart / std::max<std::size_t>(1, map.positions()));
  const std::size_t all = per_chunk * static_cast<std::size_t>(map.chunks());
  parallel_for((all + group - 1) / group, [&](std::size_t task) {
    for (std::size_t i = task * group; i < std::min(all, (task + 1) * group); ++i) {
      const std::size_t first = i % per_chunk * kPart;
      body(static_cast<int>(i / per_chunk), first, std::min(kPart, map.positions() - first));
    }
  });
}

// Byte offset of a position in device memory, of a map with so many positions.
uint64_t place(std::size_t positions, int width, int chunk, std::size_t position) {
  return 2 * (8 * positions * static_cast<std::size_t>(chunk) + position * static_cast<std::size_t>(width));
}

}  // namespace

void visit(const Map &map, const Take &take) {
  for_each_part(map, [&](int chunk, std::size_t first, std::size_t count) {
    const float *from = map.chunk(chunk) + 8 * first;
    std::vector<float> values(from, from + 8 * count);
    take(chunk, first, count, values.data());
  });
}

void load(const Memory &memory, uint64_t offset, Map &map) {
  for_each_part(map, [&](int chunk, std::size_t first, std::size_t count) {
    const auto width = static_cast<std::size_t>(map.width(chunk));
    float *to = map.chunk(chunk) + 8 * first;
    const uint64_t from = offset + place(map.positions(), map.width(chunk), chunk, first);
    if (width == 8) return memory.read_by_device(from, 8 * count, to);
    std::vector<float> narrow(width * count + 8);  // the last position is read as eight values, too
    memory.read_by_device(from, width * count, narrow.data());
    Bits kept = {};
    for (std::size_t k = 0; k < width; ++k) kept[k] = ~0u;
    for (std::size_t i = 0; i < count; ++i) {
      Bits values;
      std::memcpy(&values, &narrow[i * width], sizeof(values));
      values &= kept;
      std::memcpy(to + 8 * i, &values, sizeof(values));
    }
  });
}

void store(const Shape &shape, int chunk, std::size_t first, std::size_t count, const float *values, Memory &memory,
           uint64_t offset) {
  const int width = width_of_chunk(shape.channels, chunk);
  const uint64_t to = offset + place(shape.positions(), width, chunk, first);
  if (width == 8) return memory.write_by_device(to, 8 * count, values);
  std::vector<float> narrow;
  narrow.reserve(size(width) * count);
  for (std::size_t i = 0; i < count; ++i) narrow.insert(narrow.end(), values + 8 * i, values + 8 * i + width);
  memory.write_by_device(to, narrow.size(), narrow.data());
}

}  // namespace dv
