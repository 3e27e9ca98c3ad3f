#include "report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "dmp_network_host.h"

namespace dv {
namespace {

thread_local std::string subject;

std::mutex reports_mutex;

std::vector<std::string> &reports() {
  static auto *kept = new std::vector<std::string>;  // never destroyed: exit() reads it
  return *kept;
}

void fail_with_reports() {
  if (reports().empty()) return;
  std::fflush(nullptr);
  std::_Exit(1);
}

}  // namespace

bool is_set(const char *variable) {
  const char *value = std::getenv(variable);
  return value && *value && std::string(value) != "0";
}

bool is_strict() { return is_set("DMP_DV_STRICT"); }

void report(const std::string &text) {
  const std::lock_guard<std::mutex> lock(reports_mutex);
  static const int registered = std::atexit(fail_with_reports);
  static_cast<void>(registered);
  const std::string full = about_subject(text);
  if (std::find(reports().begin(), reports().end(), full) != reports().end()) return;
  reports().push_back(full);
  std::fprintf(stderr, "error: %s\n", full.c_str());
}

Subject::Subject(std::string text) : outer_(std::move(subject)) { subject = std::move(text); }

Subject::~Subject() { subject = std::move(outer_); }

const std::string &subject_now() { return subject; }

std::string about_subject(const std::string &text) { return subject.empty() ? text : subject + ": " + text; }

}  // namespace dv

std::vector<std::string> dmp_network_host::take_reports() {
  const std::lock_guard<std::mutex> lock(dv::reports_mutex);
  std::vector<std::string> taken;
  taken.swap(dv::reports());
  return taken;
}
