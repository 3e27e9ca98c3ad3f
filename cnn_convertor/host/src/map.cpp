#include "map.h"

#include <algorithm>
#include <vector>

#include "threads.h"
#include "vector_loops.h"

namespace dv {
namespace {

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

// Byte offset of a position in device memory.
uint64_t place(const Map &map, int chunk, std::size_t position) {
  return 2 * (static_cast<std::size_t>(chunk) * map.chunk_size() +
              position * static_cast<std::size_t>(map.width(chunk)));
}

}  // namespace

void load(const Memory &memory, uint64_t offset, Map &map) {
  for_each_part(map, [&](int chunk, std::size_t first, std::size_t count) {
    const auto width = static_cast<std::size_t>(map.width(chunk));
    float *to = map.chunk(chunk) + 8 * first;
    const uint64_t from = offset + place(map, chunk, first);
    if (width == 8) return memory.read(from, 8 * count, to);
    std::vector<float> narrow(width * count);
    memory.read(from, narrow.size(), narrow.data());
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = 0; k < 8; ++k) to[8 * i + k] = k < width ? narrow[i * width + k] : 0.0f;
  });
}

void store(const Map &map, Memory &memory, uint64_t offset) {
  for_each_part(map, [&](int chunk, std::size_t first, std::size_t count) {
    const auto width = static_cast<std::size_t>(map.width(chunk));
    const float *from = map.chunk(chunk) + 8 * first;
    const uint64_t to = offset + place(map, chunk, first);
    if (width == 8) return memory.write(to, 8 * count, from);
    std::vector<float> narrow(width * count);
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = 0; k < width; ++k) narrow[i * width + k] = from[8 * i + k];
    memory.write(to, narrow.size(), narrow.data());
  });
}

void round_to_half(Map &map) {
  for_each_part(map, [&](int chunk, std::size_t first, std::size_t count) {
    round_all(map.chunk(chunk) + 8 * first, 8 * count);
  });
}

}  // namespace dv
