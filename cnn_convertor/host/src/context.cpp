// The part of the C interface that opens and describes the device.
#include "context.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "report.h"

namespace dv {
namespace {

thread_local std::string last_error;

// Sets a limit to the variable, if that is set: a number from `least` to `most`.
template <typename T>
void read_limit(const char *variable, T &limit, long long least, long long most) {
  const char *text = std::getenv(variable);
  if (!text || !*text) return;
  char *end = nullptr;
  const long long value = std::strtoll(text, &end, 10);
  if (*end || value < least || value > most)
    throw Error(std::string(variable) + " = " + text + ": expected " + std::to_string(least) + " to " +
                std::to_string(most));
  limit = static_cast<T>(value);
}

}  // namespace

bool Context::has(int device_type) const {
  const char *name = device_type == DMP_DV_DEV_CONV        ? "CONV"
                     : device_type == DMP_DV_DEV_MAXIMIZER ? "MX"
                     : device_type == DMP_DV_DEV_IPU       ? "IPU"
                                                           : "-";
  return ("," + blocks + ",").find("," + std::string(name) + ",") != std::string::npos;
}

void set_last_error(const std::string &text) { last_error = text; }

Context::Context() {
  each_limit_of_board(limits, [](const char *variable, auto &limit, long long least, long long most) {
    read_limit(variable, limit, least, most);
  });
  const char *names = std::getenv("DMP_DV_BLOCKS");
  if (names && *names) blocks = names;
  if (const char *path = std::getenv("DMP_DV_RESIDUALS")) residuals = path;
  exact = is_set("DMP_DV_EXACT") || !residuals.empty();
  check_uninitialized = is_set("DMP_DV_CHECK_UNINITIALIZED");
  strict = is_strict();
  description = "DV700, emulated: unified buffer " + std::to_string(limits.ub_size) +
                " bytes, kernels up to " + std::to_string(limits.max_kernel_size) + "x" + std::to_string(limits.max_kernel_size) +
                (exact ? ", maps kept in FP32" : "");
}

Registry<dmp_dv_context, Context> &contexts() {
  static Registry<dmp_dv_context, Context> registry("context");
  return registry;
}

}  // namespace dv

using dv::contexts;
using dv::Error;
using dv::guarded;

const char *dmp_dv_get_last_error_message() { return dv::last_error.c_str(); }

void dmp_dv_set_last_error_message(const char *format, ...) {
  char text[256];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  dv::set_last_error(text);
}

const char *dmp_dv_get_version_string() { return "7.2.20190716 (emulated)"; }

dmp_dv_context dmp_dv_context_create() {
  return guarded(static_cast<dmp_dv_context>(nullptr), [] { return contexts().add(std::make_shared<dv::Context>()); });
}

int dmp_dv_context_retain(dmp_dv_context ctx) {
  return guarded(-1, [&] { return contexts().retain(ctx); });
}

int dmp_dv_context_release(dmp_dv_context ctx) {
  return guarded(-1, [&] { return contexts().release(ctx); });
}

const char *dmp_dv_context_get_info_string(dmp_dv_context ctx) {
  return guarded(static_cast<const char *>(nullptr), [&] { return contexts().get(ctx)->description.c_str(); });
}

int dmp_dv_device_exists(dmp_dv_context ctx, int dev_type_id) {
  return guarded(-1, [&] { return contexts().get(ctx)->has(dev_type_id) ? 1 : 0; });
}

int dmp_dv_fpga_device_exists(dmp_dv_context ctx, int dev_type_id) { return dmp_dv_device_exists(ctx, dev_type_id); }

int dmp_dv_context_get_info(dmp_dv_context ctx, struct dmp_dv_info *info) {
  return guarded(-1, [&] {
    const auto context = contexts().get(ctx);
    if (!info) throw Error("info is null");
    if (info->version != 0)
      throw Error("info.version = " + std::to_string(info->version) + ": only version 0 is known");
    if (info->size < sizeof(dmp_dv_info_v0))
      throw Error("info.size = " + std::to_string(info->size) + ": version 0 has " +
                  std::to_string(sizeof(dmp_dv_info_v0)) + " bytes");
    auto *answer = reinterpret_cast<dmp_dv_info_v0 *>(info);
    answer->ub_size = static_cast<int32_t>(context->limits.ub_size);
    answer->max_kernel_size = context->limits.max_kernel_size;
    answer->conv_freq = 0;  // the PC has no such clock
    answer->fc_freq = 0;
    answer->max_fc_vector_size = 0;
    answer->rsvd = 0;
    return 0;
  });
}
