// Registers of both groups, and what an operation reads of them.
#ifndef NVDLA_REGISTERS_H
#define NVDLA_REGISTERS_H

#include <cstdint>
#include <string>
#include <vector>

#include "nvdla_twin.h"

namespace nvdla {

struct Register {
  int block;
  uint32_t offset;
  const char *name;
  uint32_t mask, initial_mask;  // bits that exist, in the newer and in the older map
  bool doubled, read_only;
  int sign_bit;  // of a signed value, or 0
};

struct Field {
  int index, low, width;  // index: of its register
  const char *name;       // empty for the only field of a register
};

class RegisterFile {
 public:
  explicit RegisterFile(const Configuration &configuration);

  // The index of the register at a byte address. Raises Refusal.
  int find(uint32_t address) const;
  // Keeps a value in a group (0 for registers that are not doubled). Raises Refusal for bits that do not exist.
  void store(int index, int group, uint32_t value);

  uint32_t value(int index, int group) const { return values_[2 * index + group]; }
  bool written(int index, int group) const { return written_[2 * index + group]; }

 private:
  Configuration configuration_;
  std::vector<uint32_t> values_;
  std::vector<bool> written_;
};

// The registers of one group of a block, for an operation, which needs each that it reads.
class Group {
 public:
  Group(const RegisterFile &file, int group) : file_(&file), group_(group) {}

  // Raises Refusal for a register that nobody has written.
  uint32_t operator()(const Field &field) const;
  int32_t sign_extended(const Field &field) const;
  // A quantity that the register holds minus one.
  uint32_t count(const Field &field) const { return (*this)(field) + 1; }
  // 0 for a register that nobody has written.
  uint32_t or_zero(const Field &field) const;
  uint64_t address(const Field &high, const Field &low) const;

  [[noreturn]] void refuse(const Field &field, const std::string &why) const;
  // Refuses a value above the limit, or other than the one that is due.
  void at_most(const Field &field, uint64_t value, uint64_t limit, const char *what) const;
  void must_be(const Field &field, uint64_t value, uint64_t due, const char *what) const;

  int number() const { return group_; }

 private:
  const RegisterFile *file_;
  int group_;
};

std::string register_name(int index);
std::string text(uint64_t value);
std::string hexadecimal(uint64_t value);

}  // namespace nvdla

#endif
