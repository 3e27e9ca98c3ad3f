#include "counters.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>

#include "error.h"

namespace dv {
namespace {

constexpr int kDevices = DMP_DV_DEV_MAXIMIZER + 1;

std::mutex counters_mutex;
std::array<Counters, kDevices> sums;

Counters &sum_of(int device_type) {
  if (device_type < DMP_DV_DEV_CONV || device_type >= kDevices)
    throw Error("device_type = " + std::to_string(device_type) + ": 1 to 4 is known");
  return sums[static_cast<std::size_t>(device_type)];
}

// A board has no counter of its own for element-wise operands: assumed to be input.
void publish(const std::string &folder, const Counters &sum) {
  const auto write = [&](const char *name, uint64_t value) { std::ofstream(folder + "/" + name) << value << "\n"; };
  write("conv_kick_count", sum.commands);
  write("input_bytes", sum.input_bytes + sum.operand_bytes);
  write("output_bytes", sum.output_bytes);
  write("weights_bytes", sum.weights_bytes);
}

}  // namespace

void count(int device_type, const Counters &work) {
  const std::lock_guard<std::mutex> lock(counters_mutex);
  Counters &sum = sum_of(device_type);
  sum.commands += work.commands;
  sum.input_bytes += work.input_bytes;
  sum.operand_bytes += work.operand_bytes;
  sum.output_bytes += work.output_bytes;
  sum.weights_bytes += work.weights_bytes;
  const char *folder = std::getenv("DMP_DV_SYSFS");
  if (folder && *folder && device_type == DMP_DV_DEV_CONV) publish(folder, sum);
}

Counters counted(int device_type) {
  const std::lock_guard<std::mutex> lock(counters_mutex);
  return sum_of(device_type);
}

}  // namespace dv

int dmp_dv_host_get_counters(int device_type, struct dmp_dv_host_counters *counters) {
  return dv::guarded(-1, [&] {
    if (!counters) throw dv::Error("counters is null");
    *counters = dv::counted(device_type);
    return 0;
  });
}
