// The one exception of the device: a failure with a text for the driver's user.
#ifndef DV_ERROR_H
#define DV_ERROR_H

#include <new>
#include <stdexcept>
#include <string>

namespace dv {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Remembers the text as this thread's last error.
void set_last_error(const std::string &text);

// Runs a function of the C interface: its result, or failure and the last error when it throws.
template <class Function, class Result>
Result guarded(Result failure, Function &&function) {
  try {
    return function();
  } catch (const std::bad_alloc &) {
    set_last_error("out of memory");
  } catch (const std::exception &error) {
    set_last_error(error.what());
  }
  return failure;
}

}  // namespace dv

#endif
