#include "registers.h"

#include <cstdio>

#include "register_table.h"

namespace nvdla {
namespace {

constexpr int kCount = sizeof kRegisters / sizeof kRegisters[0];
constexpr uint32_t kBlockBytes = 0x1000;

}  // namespace

std::string text(uint64_t value) { return std::to_string(value); }

std::string hexadecimal(uint64_t value) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "0x%llx", static_cast<unsigned long long>(value));
  return digits;
}

std::string register_name(int index) {
  return std::string(kBlockNames[kRegisters[index].block]) + "." + kRegisters[index].name;
}

RegisterFile::RegisterFile(const Configuration &configuration)
    : configuration_(configuration), values_(2 * kCount), written_(2 * kCount) {}

int RegisterFile::find(uint32_t address) const {
  for (int block = 0; block < kBlocks; ++block) {
    const int64_t base = configuration_.bases[block];
    if (base < 0 || address < base || address >= base + kBlockBytes) continue;
    for (int index = 0; index < kCount; ++index)
      if (kRegisters[index].block == block && base + kRegisters[index].offset == address) return index;
    throw Refusal(std::string(kBlockNames[block]) + ": no register at " + hexadecimal(address));
  }
  throw Refusal("CSB: " + configuration_.name + " has no block of registers at " + hexadecimal(address));
}

void RegisterFile::store(int index, int group, uint32_t value) {
  const Register &row = kRegisters[index];
  const uint32_t mask = configuration_.initial ? row.initial_mask : row.mask;
  // Drivers write signed values with all 32 bits.
  const bool extended = row.sign_bit && value >> row.sign_bit == 0xffffffffu >> row.sign_bit;
  if (!extended && (value & ~mask))
    throw Refusal(register_name(index) + ": the value " + hexadecimal(value) + " has bits outside its fields, " +
                  hexadecimal(mask) + " in " + configuration_.name);
  if (row.read_only) {
    if (value) throw Refusal(register_name(index) + ": only the device writes this register");
    return;
  }
  values_[2 * index + group] = value & mask;
  written_[2 * index + group] = true;
}

uint32_t Group::or_zero(const Field &field) const {
  const int group = kRegisters[field.index].doubled ? group_ : 0;
  const uint32_t value = file_->value(field.index, group) >> field.low;
  return field.width == 32 ? value : value & ((1u << field.width) - 1);
}

uint32_t Group::operator()(const Field &field) const {
  const int group = kRegisters[field.index].doubled ? group_ : 0;
  if (!file_->written(field.index, group)) refuse(field, "the operation needs this register, which was never written");
  return or_zero(field);
}

int32_t Group::sign_extended(const Field &field) const {
  const int unused = 32 - field.width;
  return static_cast<int32_t>((*this)(field) << unused) >> unused;
}

uint64_t Group::address(const Field &high, const Field &low) const {
  return static_cast<uint64_t>((*this)(high)) << 32 | (*this)(low);
}

void Group::refuse(const Field &field, const std::string &why) const {
  std::string name = register_name(field.index);
  if (*field.name) name += std::string(".") + field.name;
  if (kRegisters[field.index].doubled) name += " (group " + std::to_string(group_) + ")";
  throw Refusal(name + ": " + why);
}

void Group::at_most(const Field &field, uint64_t value, uint64_t limit, const char *what) const {
  if (value > limit) refuse(field, std::string(what) + " is " + text(value) + ", but at most " + text(limit));
}

void Group::must_be(const Field &field, uint64_t value, uint64_t due, const char *what) const {
  if (value != due) refuse(field, std::string(what) + " is " + text(value) + ", not " + text(due));
}

}  // namespace nvdla
