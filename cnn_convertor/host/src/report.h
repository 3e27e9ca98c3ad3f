// Reports of what a board's runtime does wrongly in silence.
#ifndef DV_REPORT_H
#define DV_REPORT_H

#include <string>

namespace dv {

// True when an environment variable is set, and neither empty nor "0".
bool is_set(const char *variable);

// DMP_DV_STRICT=1.
bool is_strict();

// Prints an error and keeps it, each text once. A process that ends with reports left exits with status 1.
void report(const std::string &text);

// Names the layers that this thread's reports are about, for as long as it lives.
class Subject {
 public:
  explicit Subject(std::string text);
  ~Subject();
  Subject(const Subject &) = delete;
  Subject &operator=(const Subject &) = delete;

 private:
  std::string outer_;
};

// This thread's subject; empty without one.
const std::string &subject_now();

// The text with this thread's subject in front of it.
std::string about_subject(const std::string &text);

}  // namespace dv

#endif
