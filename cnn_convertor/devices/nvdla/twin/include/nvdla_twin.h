// A twin of NVDLA at its registers: an application adds memory, writes and reads registers, and finds the results in the memory.
// Operations run as soon as everything that they need is enabled, so a wait for an interrupt never takes time.
#ifndef NVDLA_TWIN_H
#define NVDLA_TWIN_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace nvdla {

// What the hardware or its driver forbids, or what the twin does not have: "SDP.D_CVT_SHIFT (group 0): why".
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum Precision : uint32_t { kInt8, kInt16, kFp16 };

struct Configuration {
  std::string name;
  bool initial = false;  // the older register map
  bool y = false, lut = false, post_extension = false;
  uint32_t atom_bytes = 0, atomic_c = 0;
  uint32_t atomic_k[3] = {};  // of each precision; 0 where it is missing
  uint32_t cbuf_banks = 0, cbuf_entry_bytes = 0, cbuf_entries = 0, address_bits = 0;
  std::vector<int64_t> bases;  // of each block of register_table.h; negative where it is missing
};

struct Traffic {
  const char *port;
  uint64_t bytes;
  uint64_t address = 0;  // of operands of SDP
};

// What one operation has moved and taken. The MAC cycles follow published formulas, and are assumed.
struct Operation {
  std::string engine;
  int group = 0;
  uint64_t enabled = 0, started = 0;  // accesses before it was enabled, and before it could start
  std::string waited_for;             // the last block that was not enabled yet; empty if there was none
  uint64_t mac_cycles = 0;
  std::vector<Traffic> traffic;
};

// The place of the first element that is still as add_unwritten_memory has filled it, or `size`, which has whole elements.
// element_bytes: 2, 4, or 1, which could be anything.
std::size_t unwritten(const uint8_t *data, std::size_t size, std::size_t element_bytes);

// In exact mode, writes here name the function of a table: floats at +4, +8 and +12 are its parameters, those at +16, +20 and +24 say
// that entries hold it from one value to another, with this error at most; then its number here, with kOfCdp for the table of CDP.
// It holds until an entry of the table is written. A table that has another value for an element is refused.
constexpr uint32_t kExactFunction = 0xfffe0, kOfCdp = 1u << 8;

class Device {
 public:
  // threads: for the loops over maps. Every number of them gives the same bits.
  // exact: operations of FP16 alone, which round nothing: the half at byte b of memory is the float at byte 2b. Memory then has twice
  // the bytes.
  Device(const Configuration &configuration, int threads, bool exact = false);
  ~Device();

  // Zeros, which take no space until they are written. size: bytes. Raises Refusal when they overlap other memory.
  void add_memory(uint64_t address, uint64_t size);
  // The same for memory that stays the application's: both see what the other writes. size: as addresses count it.
  void add_memory(uint64_t address, uint8_t *data, std::size_t size);
  // The same for halves that nobody has written: fills the memory, and operations that read what it then still has are refused.
  void add_unwritten_memory(uint64_t address, uint8_t *data, std::size_t size);
  // Its bytes from an address on, or null if there is none.
  uint8_t *memory(uint64_t address);

  // Byte addresses of registers. Raise Refusal.
  void write(uint32_t address, uint32_t value);
  uint32_t read(uint32_t address);
  // Raises Refusal, with what waits for what, unless one of these bits of S_INTR_STATUS is set.
  void wait(uint32_t interrupts);

  const std::vector<Operation> &operations() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nvdla

#endif
