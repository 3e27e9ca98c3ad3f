// What the programs for a board share: the driver's figures and counters, numbers drawn by formula, and JSON.
#ifndef BOARD_H
#define BOARD_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "dmp_dv.h"

namespace board {

// The driver's figures in sysfs. $DMP_DV_SYSFS names another folder.
inline bool ReadFigure(const char *name, long long *value) {
  const char *folder = std::getenv("DMP_DV_SYSFS");
  const std::string path = std::string(folder ? folder : "/sys/class/dmp_dv/dv_conv") + "/" + name;
  std::FILE *file = std::fopen(path.c_str(), "r");
  if (!file) return false;
  char text[64] = "";
  const bool is_read = std::fgets(text, sizeof(text), file) != nullptr;
  std::fclose(file);
  char *end = text;
  *value = std::strtoll(text, &end, 0);
  return is_read && end != text;
}

inline std::string Figure(const char *name) {
  long long value = 0;
  return ReadFigure(name, &value) ? std::to_string(value) : "null";
}

// The driver's counters of bytes, which grow with every command.
struct Traffic {
  bool is_known;
  long long input, output, weights;
};

inline Traffic ReadTraffic() {
  Traffic traffic = {true, 0, 0, 0};
  traffic.is_known = ReadFigure("input_bytes", &traffic.input) && ReadFigure("output_bytes", &traffic.output) &&
                     ReadFigure("weights_bytes", &traffic.weights);
  return traffic;
}

// The growth of the counters as members of a JSON object.
inline std::string TrafficSince(const Traffic &before) {
  const Traffic now = ReadTraffic();
  if (!before.is_known || !now.is_known) return "\"input_bytes\": null, \"output_bytes\": null, \"weights_bytes\": null";
  return "\"input_bytes\": " + std::to_string(now.input - before.input) + ", \"output_bytes\": " +
         std::to_string(now.output - before.output) + ", \"weights_bytes\": " + std::to_string(now.weights - before.weights);
}

inline std::string Quoted(const char *text) {
  std::string quoted = "\"";
  for (const char *at = text ? text : ""; *at; ++at) {
    const unsigned char code = static_cast<unsigned char>(*at);
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", code);
    if (code < 0x20 || code > 0x7e || code == '"' || code == '\\')
      quoted += escape;
    else
      quoted += *at;
  }
  return quoted + "\"";
}

// The device's own description, as a JSON object. info receives its limits.
inline bool DescribeDevice(dmp_dv_context context, dmp_dv_info_v0 *info, std::string *json) {
  std::memset(info, 0, sizeof(*info));
  info->header.size = sizeof(*info);
  info->header.version = 0;
  if (dmp_dv_context_get_info(context, &info->header)) return false;
  *json = "{\n    \"description\": " + Quoted(dmp_dv_context_get_info_string(context)) +
          ",\n    \"driver\": " + Quoted(dmp_dv_get_version_string()) +
          ",\n    \"ub_size\": " + std::to_string(info->ub_size) +
          ", \"max_kernel_size\": " + std::to_string(info->max_kernel_size) +
          ",\n    \"conv_freq\": " + std::to_string(info->conv_freq) + ", \"fc_freq\": " + std::to_string(info->fc_freq) +
          ", \"max_fc_vector_size\": " + std::to_string(info->max_fc_vector_size) +
          ",\n    \"hw_version\": " + Figure("hw_version") + ", \"svn_version\": " + Figure("svn_version") +
          ", \"mac_num\": " + Figure("mac_num") + ", \"max_input_size\": " + Figure("max_input_size") + "\n  }";
  return true;
}

inline bool ReadFile(const std::string &path, std::vector<uint8_t> *bytes) {
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file) return false;
  uint8_t part[4096];
  bytes->clear();
  for (std::size_t count; (count = std::fread(part, 1, sizeof(part), file)) > 0;) bytes->insert(bytes->end(), part, part + count);
  const bool is_read = !std::ferror(file);
  std::fclose(file);
  return is_read;
}

inline bool WriteFile(const std::string &path, const std::string &text) {
  std::FILE *file = std::fopen(path.c_str(), "wb");
  if (!file) return false;
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && is_written;
}

// Draws numbers by a linear congruential generator.
class Generator {
 public:
  explicit Generator(uint32_t seed) : state_(seed) {}
  uint32_t Next() { return state_ = state_ * 1664525u + 1013904223u; }

 private:
  uint32_t state_;
};

inline uint32_t Crc32(const uint8_t *bytes, std::size_t count) {
  static uint32_t table[256];
  if (!table[1])
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value & 1 ? 0xedb88320u ^ (value >> 1) : value >> 1;
      table[i] = value;
    }
  uint32_t crc = 0xffffffffu;
  for (std::size_t i = 0; i < count; ++i) crc = table[(crc ^ bytes[i]) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace board

#endif
