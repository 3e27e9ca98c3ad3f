// The two tables of SDP and of CDP: LE, exponential or linear, and LO, linear.
#ifndef NVDLA_LUT_H
#define NVDLA_LUT_H

#include <cstdint>
#include <functional>
#include <vector>

#include "floats.h"
#include "registers.h"

namespace nvdla {

enum Table { kLe, kLo };
enum Side { kUnder, kOver };

constexpr int kLeEntries = 65, kLoEntries = 257;

// The tables as an application writes them.
struct LutMemory {
  int16_t entries[2][kLoEntries] = {};
  bool written[2][kLoEntries] = {};
  std::function<double(double)> exact;  // in exact mode, in place of the entries if it is named
  float low = 0, high = 0, largest_error = 0;  // from one value to another, entries hold that function

  static int size(int table) { return table == kLe ? kLeEntries : kLoEntries; }
};

// Settings, in integers or, as start and end, bits of fp32. fraction: bits of a position between two entries.
struct Lut {
  bool exponential = false;
  int priority_under = 0, priority_over = 0, priority_hybrid = 0;  // tables
  int offset = 0, select[2] = {};
  int64_t start[2] = {}, end[2] = {};
  int32_t scale[2][2] = {};  // table, side; raw 16 bits for halves
  int shift[2][2] = {};
  int fraction = 0;
  const LutMemory *memory = nullptr;

  int32_t entry(int table, int index) const { return memory->entries[table][index]; }
  uint32_t half(int table, int index) const { return static_cast<uint16_t>(memory->entries[table][index]); }
};

// Where a value lies: table, and either a side or an entry with a fraction.
struct Place {
  int table;
  bool hit;
  Side side;
  int index;
  int64_t fraction;
};

Place place_of_integer(const Lut &lut, int64_t x);
Place place_of_fp32(const Lut &lut, uint32_t x);

// What an exponential LE adds to its start where a value lies below.
inline bool below_exponential(const Lut &lut, const Place &place) {
  return place.side == kUnder && place.table == kLe && lut.exponential;
}

}  // namespace nvdla

#endif
